"""Rules of a launcher for orders in place and fresh processes, each taken out in turn (edits.py)."""

from __future__ import annotations

from resurge_launcher.core import muster_lines, replaced, replacements, replacing
from tests.sim.edits import Edit

GUARDS: tuple[Edit, ...] = (
    Edit("in place: an order is followed twice", muster_lines.followed, "order.number <= muster.acted.number", "False"),
    Edit(
        "in place: a start that was not seen is left out",
        muster_lines.followed,
        "not is_due or muster.is_running or not order.members",
        "True",
    ),
    Edit(
        "in place: a start is told once more",
        muster_lines.followed,
        "not is_due or muster.is_running or",
        "not is_due or",
    ),
    Edit(
        "in place: an unseen start of an old order",
        muster_lines.followed,
        "order.number if order.kind == START else order.number - 1",
        "order.number",
    ),
    Edit(
        "in place: the end of another iteration ends this one",
        muster_lines._followed,
        "kind == OVER and is_due and muster.is_running",
        "kind == OVER and muster.is_running",
    ),
    Edit(
        "in place: what is over elsewhere is gathered for on",
        muster_lines._followed,
        "kind == OVER and not muster.is_over",
        "False",
    ),
    Edit(
        "in place: a start with a rank that has ended here",
        muster_lines._started,
        "if rank in order.members]",
        "if False]",
    ),
    Edit("in place: a report where the launcher gathers alone", muster_lines.report, " or muster.acted is None:", ":"),
    Edit(
        "in place: one that is ended is told of when it is gone", muster_lines.report, "if rank in alive)", "if True)"
    ),
    Edit(
        "in place: a fresh process that is waited for does not live",
        muster_lines.report,
        "alive | replacements.ranks_awaited(muster)",
        "alive",
    ),
    Edit("fresh: awaited when it is over", replacements.awaited, "muster.is_over or", ""),
    Edit("fresh: one that is not there yet comes", replacements.coming, "and one.stage is ReplacementStage.COMING", ""),
    Edit(
        "fresh: asked for where rendezvous knows of none",
        replacements.are_possible,
        "crew.run.replacing is not None and",
        "",
    ),
    Edit("fresh: asked for where no rank wants one", replacements.are_possible, "muster.replace_s > 0 and", ""),
    Edit(
        "fresh: asked for when it is over",
        replacements.are_possible,
        "and not muster.is_over",
        "",
        "an end after it is over is not forgiven, and nobody is late",
    ),
    Edit(
        "fresh: waited for longer than for anybody else",
        replacements.wanted,
        "earliest(after(now, muster.replace_s), last)",
        "after(now, muster.replace_s)",
    ),
    Edit(
        "fresh: waited for as long as for anybody else",
        replacements.wanted,
        "earliest(after(now, muster.replace_s), last)",
        "last",
    ),
    Edit(
        "fresh: two have one number",
        replacements.wanted,
        "max((one.number for one in muster.replacements), default=0) + 1",
        "len(muster.replacements[:0]) + 1",
    ),
    Edit(
        "fresh: for the iteration that is broken",
        replacements.wanted,
        "muster.iteration + muster.is_running",
        "muster.iteration",
    ),
    Edit(
        "fresh: those that are awaited are forgotten",
        replacements._bounded,
        "one.is_awaited or one.number in settled",
        "one.number in settled",
    ),
    Edit("fresh: all are remembered", replacements._bounded, "[-SETTLED_MAX:]", ""),
    Edit("fresh: a rank that came is lost", replacements.came, "if rank != one.rank", "if True"),
    Edit("fresh: ranks are not given anew", replacements.came, "is_anew=True", "is_anew=False"),
    Edit(
        "fresh: the end of one is the end of the rank before",
        replacing.bereaved,
        "if newcomer is not None:",
        "if False:",
    ),
    Edit(
        "fresh: a second word of one end asks for another",
        replacing.bereaved,
        "if is_news else crew",
        "if True else crew",
    ),
    Edit(
        "fresh: decided for an older generation",
        replacing.followed,
        "goal.generation == crew.generation and",
        "",
        "a later generation's goal ends these workers first, and no older one is obeyed",
    ),
    Edit("fresh: decided again", replacing._decided, "one.stage is not ReplacementStage.WANTED or", ""),
    Edit("fresh: what is not granted is refused", replacing._decided, "elif one.number <= said.refused_upto:", "else:"),
    Edit("fresh: a refusal is not heard", replacing._decided, "elif one.number <= said.refused_upto:", "elif False:"),
    Edit("fresh: started before it is granted", replacing._begun, "one.stage is ReplacementStage.GRANTED and", ""),
    Edit("fresh: started beside the process before", replacing._begun, "and one.rank in gone", ""),
    Edit("fresh: one that lives is put over another", replacing.started, " or not isinstance(worker.state, Ended)", ""),
    Edit(
        "fresh: one that is not waited for lives on",
        replacing.started,
        "return crew, (MusterEvict(crew.generation, (event.local_rank,)),)",
        "return crew, ()",
    ),
    Edit("fresh: any stage is starting", replacing._starting, "if one.stage is ReplacementStage.STARTING", "if True"),
    Edit(
        "fresh: one that is late is waited for", replacing.overdue, "if is_awaited and now >= one.until:", "if False:"
    ),
    Edit("fresh: news of another generation", replaced.replaced, " or crew.generation != event.generation", ""),
    Edit(
        "fresh: one that failed in a teardown is gone on without",
        replaced.replaced,
        "elif isinstance(state.phase, Running):",
        "elif True:",
    ),
)
