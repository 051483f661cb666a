"""A job and its nodes for the terminal. Builds text and rich tables; prints nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from resurge_api.common.v1 import ids_pb2, progress_pb2
from resurge_api.policy.v1 import policy_pb2
from resurge_api.rendezvous.v1 import attach_pb2, rendezvous_pb2

_STYLE_OF_STANDING = {"active": "green", "spare": "cyan", "excluded": "red", "lost": "red", "silent": "yellow"}


def job_lines(job: rendezvous_pb2.Job) -> list[Text]:
    """The job in a few lines."""
    phase = _word(rendezvous_pb2.JobPhase.Name(job.phase), "JOB_PHASE_")
    spec = job.spec
    lines = [
        _line("job", f"{spec.job_id or '-'}, attempt {job.token.attempt}"),
        _line("phase", f"{phase}{_why(job.because)}"),
        _line("generation", f"{_generation(job)}, cycle {job.cycle}"),
        _line("nodes", f"{spec.min_nodes} run, {spec.max_nodes - spec.min_nodes} may wait as spares"),
        _line("restarts", restarts_sentence(job)),
    ]
    if job.HasField("progress"):
        lines.append(_line("progress", progress_sentence(job.progress)))
    if job.incident_id:
        lines.append(_line("incident", f"{job.incident_id} (open)"))
    if job.recommendations:
        lines.append(_line("attribution", recommendations_sentence(job)))
    if job.HasField("decision"):
        lines.append(_line("end", decision_sentence(job.decision)))
    return lines


def _generation(job: rendezvous_pb2.Job) -> int:
    """The one that runs or comes next; of a job that has ended the last that ran."""
    return job.decision.token.generation if job.decision.HasField("token") else job.token.generation


def decision_sentence(decision: rendezvous_pb2.TerminalDecision) -> str:
    """How the job ended, in one sentence."""
    at = decision.at.ToDatetime().strftime(" at %Y-%m-%d %H:%M:%S UTC") if decision.HasField("at") else ""
    cause = f" ({decision.cause})" if decision.cause else ""
    return f"exit code {decision.exit_code}{cause}{at}{_why(decision.because)}"


def recommendations_sentence(job: rendezvous_pb2.Job) -> str:
    """What attribution recommended in this attempt, how often, and whether a STOP of it may end the job."""
    counts = ", ".join(
        f"{tally.count} x {_word(policy_pb2.RecommendationKind.Name(tally.kind), 'RECOMMENDATION_KIND_')}"
        for tally in job.recommendations
    )
    newest = max(job.recommendations, key=lambda tally: tally.last_at.ToNanoseconds())
    may_end = job.spec.attribution_stop_action == attach_pb2.ATTRIBUTION_STOP_ACTION_NO_RESTART
    said = f"; last: {newest.last.sentence}" if newest.last.sentence else ""
    return f"{counts}{said} ({'a stop ends the job' if may_end else 'recorded only'})"


def restarts_sentence(job: rendezvous_pb2.Job) -> str:
    """What is spent of which budget, and what was given back."""
    back = f", {job.restarts_refunded} given back" if job.restarts_refunded else ""
    bounds = "".join(f"; {bound.cause} {bound.spent} of {bound.allowed}" for bound in job.cause_budgets)
    return f"{job.restarts_spent} of {job.spec.max_restarts} spent{back}{bounds}"


def progress_sentence(count: progress_pb2.ProgressCount) -> str:
    """How many cycles got nowhere, and what the source said last."""
    source = progress_pb2.ProgressSource.Name(count.rules.source).removeprefix("PROGRESS_SOURCE_").lower()
    last = f"{source} at {count.baseline}" if count.HasField("baseline") else f"{source} not read yet"
    skipped = f"; {count.last.skipped}" if count.skipped_in_a_row else ""
    steps = f"; steps committed up to {count.last.sdk_step}" if count.last.HasField("sdk_step") else ""
    limit = count.rules.max_no_progress_cycles
    return f"{last}, {count.without_progress} of {limit} cycles in a row without any{steps}{skipped}"


def nodes_table(nodes: Sequence[rendezvous_pb2.Node]) -> Table:
    """One row per node: active ones by rank, then the others by name. What nobody has gets no column."""
    is_excluding = any(node.HasField("exclusion") for node in nodes)
    is_counting = any(node.offences for node in nodes)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("node", "host", "standing", "phase", "generation", "ranks"):
        table.add_column(name, overflow="fold")
    for name, is_shown in (("excluded until", is_excluding), ("offences", is_counting), ("why", True)):
        if is_shown:
            table.add_column(name, overflow="fold")
    for node in sorted(nodes, key=_order):
        standing = _word(rendezvous_pb2.NodeStanding.Name(node.standing), "NODE_STANDING_")
        cells: list[str | Text] = [
            node.node_id,
            node.host,
            Text(standing, style=_STYLE_OF_STANDING.get(standing, "")),
            _word(attach_pb2.NodePhase.Name(node.phase), "NODE_PHASE_") if node.phase else "-",
            str(node.generation or "-"),
            _ranks(node),
        ]
        if is_excluding:
            cells.append(_until(node.exclusion) if node.HasField("exclusion") else "-")
        if is_counting:
            cells.append(str(node.offences or "-"))
        table.add_row(*cells, _reasons(node))
    return table


def absent_machines(nodes: Iterable[rendezvous_pb2.Node], exclusions: Iterable[rendezvous_pb2.Exclusion]) -> list[Text]:
    """A line for each excluded machine that no node is on now."""
    shown = [node.exclusion for node in nodes if node.HasField("exclusion")]
    lines = []
    for one in exclusions:
        if one not in shown:
            where = one.host or one.node_id
            lines.append(Text(f"{where}, then {one.node_id}, is excluded until {_until(one)}{_by(one)}", style="red"))
    return lines


def _until(one: rendezvous_pb2.Exclusion) -> str:
    if not one.HasField("until"):
        return "readmitted"
    return one.until.ToDatetime().strftime("%Y-%m-%d %H:%M:%S UTC")


def _by(one: rendezvous_pb2.Exclusion) -> str:
    return f"{_why(one.because)}{f' ({one.by})' if one.by else ''}"


def _reasons(node: rendezvous_pb2.Node) -> str:
    if node.HasField("exclusion"):
        return _by(node.exclusion).removeprefix(": ")
    said = _why(node.because).removeprefix(": ")
    if node.HasField("would_exclude") and node.would_exclude != node.because:
        said += f"; {_why(node.would_exclude).removeprefix(': ')}"
    return said


def _order(node: rendezvous_pb2.Node) -> tuple[bool, int, str]:
    return not node.HasField("group_rank"), node.group_rank, node.node_id


def _ranks(node: rendezvous_pb2.Node) -> str:
    if not node.HasField("base_rank"):
        return "-"
    last = node.base_rank + node.local_world_size - 1
    return str(node.base_rank) if last <= node.base_rank else f"{node.base_rank}-{last}"


def _line(name: str, value: str) -> Text:
    return Text.assemble((f"{name:<11}", "dim"), value)


def _why(because: ids_pb2.Because) -> str:
    said = ": ".join(filter(None, (because.code, because.sentence)))
    return f": {said}" if said else ""


def _word(name: str, prefix: str) -> str:
    return name.removeprefix(prefix).lower().replace("_", " ")
