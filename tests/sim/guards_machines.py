"""Rules of excluded machines, and of the memory of GPUs after a teardown, each taken out in turn (edits.py)."""

from __future__ import annotations

from resurge_launcher.core import reclaim, reclaiming
from resurge_rendezvous.core import excluding, exclusions
from tests.sim.edits import Edit

GUARDS: tuple[Edit, ...] = (
    Edit(
        "machines: nodes on one machine count as several",
        excluding._distinct,
        "if not any(same_machine(identity, one) for one in found):",
        "if True:",
    ),
    Edit(
        "machines: one that came back elsewhere is blamed where it is now",
        excluding.machine_in_generation,
        "place.incarnation != entry.incarnation and",
        "False and",
    ),
    Edit(
        "machines: the launcher of the generation is blamed where it was before",
        excluding.machine_in_generation,
        "place.incarnation != entry.incarnation and",
        "",
    ),
    Edit(
        "machines: a node that could not take part is left", excluding.nodes_without, "could_take_part(d, node) and", ""
    ),
    Edit(
        "machines: a node on the machine is left without it",
        excluding.nodes_without,
        "and not same_machine((entry := d.entry(node)).identity, machine)",
        "and (entry := d.entry(node))",
    ),
    Edit("machines: segments are not looked at", excluding.nodes_without, " or d.spec.segment <= 1:", " or True:"),
    Edit("machines: exclusions of long ago count", excluding._room, "d.stamp.wall - d.spec.exclusion_window_s", "0.0"),
    Edit(
        "machines: no share is some share",
        excluding.allowed_exclusions,
        "if d.spec.max_excluded_share <= 0:",
        "if False:",
    ),
    Edit(
        "machines: a small share is none",
        excluding.allowed_exclusions,
        "max(1, floor(d.spec.max_excluded_share * max(there, d.spec.min_nodes)))",
        "floor(d.spec.max_excluded_share * max(there, d.spec.min_nodes))",
    ),
    Edit(
        "machines: lost nodes are part of the job",
        excluding.allowed_exclusions,
        "sum(entry.lost is None for entry in d.job.nodes)",
        "sum(1 for entry in d.job.nodes)",
    ),
    Edit(
        "machines: what operators excluded is told as faults elsewhere",
        excluding.culprit_view,
        "one.exclusion.is_automatic and",
        "",
    ),
    Edit(
        "machines: its own offences are told as faults elsewhere",
        excluding.culprit_view,
        "and not same_machine(one.identity, machine)",
        "",
    ),
    Edit(
        "machines: a later order does not replace an earlier one",
        exclusions.excluded,
        "if not _is_about(one, identity)",
        "if True",
    ),
    Edit(
        "machines: nodes on the machine are in",
        exclusions.excluded,
        "for entry in on_machine(job, identity):",
        "for entry in ():",
    ),
    Edit(
        "machines: a machine that comes back under another boot id is in",
        exclusions.admitted,
        "exclusion_of(job, known.identity) or known.exclusion",
        "known.exclusion",
        "an entry knows the exclusion of the machine that it was on",
    ),
    Edit(
        "machines: the table knows no new boot id",
        exclusions.admitted,
        "return job if exclusion is None else _known_as(job, entry.identity, exclusion)",
        "return job",
    ),
    Edit(
        "machines: one machine is in the table twice",
        exclusions._known_as,
        "if any(one.identity == identity for one in job.exclusions):",
        "if False:",
    ),
    Edit(
        "machines: what a machine was known as stays in the table",
        exclusions._known_as,
        "if one.identity.node != identity.node or not _is_about(one, identity)",
        "if True",
    ),
    Edit(
        "machines: readmission by a node's name leaves its machine out",
        exclusions.readmitted,
        "(node.identity, *named)",
        "named",
    ),
    Edit(
        "machines: readmission leaves out what had the node's name",
        exclusions.readmitted,
        "(node.identity, *named)",
        "(node.identity,)",
    ),
    Edit(
        "machines: one machine's readmission frees all",
        exclusions.readmitted,
        "if one.identity == identity]",
        "if True]",
    ),
    Edit(
        "machines: a node that is out for another reason is let in",
        exclusions.readmitted,
        "exclusion_of(job, entry.identity), would",
        "None, would",
    ),
    Edit("memory: waited for where nobody wants it", reclaiming.begin, "rules.reclaim is None or", ""),
    Edit("memory: waited for where no workers were", reclaiming.begin, " or crew is None:", ":"),
    Edit(
        "memory: a start does not wait for it",
        reclaiming.holds_back,
        "state.reclaim is not None and state.reclaim.is_pending",
        "False",
    ),
    Edit("memory: waited for without end", reclaiming.ticked, "if now >= reclaim.until:", "if False:"),
    Edit("memory: looked at all the time", reclaiming.ticked, "or now < reclaim.look_at", ""),
    Edit(
        "memory: looked at again before the answer",
        reclaiming.ticked,
        "reclaim.look_at is None or now < reclaim.look_at",
        "reclaim.look_at is not None and now < reclaim.look_at",
    ),
    Edit("memory: of another generation", reclaiming.looked, "reclaim.generation != event.generation or", ""),
    Edit(
        "memory: a driver that cannot say is waited for",
        reclaim.looked,
        "if problem or not readings:",
        "if False and problem:",
    ),
    Edit("memory: one GPU that is free is enough", reclaim.looked, "if all(gpu.status", "if any(gpu.status"),
    Edit(
        "memory: GPUs that cannot be read are waited for",
        reclaim.looked,
        "if told.blind_looks >= UNKNOWN_LOOKS:",
        "if False:",
    ),
    Edit(
        "memory: one blind look is enough",
        reclaim.looked,
        "if told.blind_looks >= UNKNOWN_LOOKS:",
        "if told.blind_looks >= 1:",
    ),
    Edit(
        "memory: blind looks add up over those that see",
        reclaim.looked,
        "0 if waits_for_some else",
        "reclaim.blind_looks if waits_for_some else",
    ),
    Edit(
        "memory: all of it must be free",
        reclaim._story,
        "reading.used_mb <= rules.tolerance_mb",
        "reading.used_mb <= 0",
    ),
    Edit(
        "memory: a GPU that cannot be read is free",
        reclaim._story,
        "status = ReclaimStatus.UNKNOWN",
        "status = ReclaimStatus.RECLAIMED",
    ),
    Edit(
        "memory: the time of a GPU that is free goes on",
        reclaim._story,
        "before is not None and before.status is status and status is not ReclaimStatus.PENDING",
        "False",
    ),
    Edit("memory: looked at fast for ever", reclaim._interval_s, "if now - reclaim.began_at < FAST_FOR_S", "if True"),
    Edit(
        "memory: looked at slowly from the start",
        reclaim._interval_s,
        "if now - reclaim.began_at < FAST_FOR_S",
        "if False",
    ),
    Edit(
        "memory: the interval that was asked for does not hold",
        reclaim._interval_s,
        "if rules.poll_interval_s is not None:",
        "if False:",
    ),
    Edit(
        "memory: a wait that is over gives up what is free",
        reclaim.timed_out,
        "if gpu.status is ReclaimStatus.PENDING else gpu",
        "if True else gpu",
    ),
)
