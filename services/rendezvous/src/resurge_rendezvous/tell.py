"""One log event per durable fact: a fixed name, typed fields, and the step's reason. Decides nothing.

Store writes and answered requests are data of others and are not told; milestones and beats are in no journal.
"""

from __future__ import annotations

from typing import Any, assert_never

from resurge_libs.core.progress import told
from resurge_libs.core.reasons import Because
from resurge_libs.obs import log
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.model import Fact


def fact(what: Fact, because: Because) -> None:
    """Write the event of one fact."""
    told = _told(what)
    if told is not None:
        name, fields = told
        fields.setdefault("reason", because.code)
        fields.setdefault("sentence", because.sentence or None)
        log.event(name, **fields)


def _told(what: Fact) -> tuple[str, dict[str, Any]] | None:
    """The event's name and its own fields; None for what is not told."""
    match what:
        case f.StoreWritten() | f.RequestAnswered() | f.MilestoneKnown() | f.NodeFinished() | f.TimeBooked():
            return None
        case (
            f.IncidentOpened() | f.FaultJoined() | f.RoundReopened() | f.VerdictLatched() | f.RestartCharged()
            | f.CulpritChanged() | f.RankReplaced() | f.ReplacementSettled()
        ):  # fmt: skip
            return _of_incident(what)
        case f.ProgressBaselineRead() | f.ProgressChecked() | f.RestartRefunded() | f.DrainOrdered() | f.StopAgreed():
            return _of_drain(what) if isinstance(what, f.DrainOrdered | f.StopAgreed) else _of_progress(what)
        case f.RecoveryClosed() | f.RecoveryAmended() | f.SplitRuledOut() | f.NoRestartLatched():
            return _of_recovery(what)
        case (
            f.NodeAdmitted()
            | f.NodesAdmitted()
            | f.NodeLost()
            | f.NodeReturned()
            | f.NodeExcluded()
            | f.NodeReadmitted()
            | f.WouldExclude()
            | f.OffenceNoted()
            | f.NodeDrained()
        ):
            return _of_node(what)
        case f.JobOpened(spec=spec, attempt=attempt):
            nodes = f"{spec.min_nodes}:{spec.max_nodes}"
            return "job_opened", {"job": spec.job_id, "attempt": attempt, "nodes": nodes}
        case f.AttemptRaised(attempt=attempt, because=because):
            return "attempt_raised", {"attempt": attempt, **_why(because)}
        case f.JournalBehindAdopted(generation=generation, attempt=attempt, because=because):
            return "journal_behind", {"generation": generation, "attempt": attempt, **_why(because)}
        case f.RoundClosed(formation=formation):
            return "round_closed", {
                "generation": formation.generation,
                "cycle": formation.cycle,
                "nodes": [place.node for place in formation.assignments],
                "world_size": formation.world_size,
                "incident": formation.incident,
            }
        case f.RecommendationRecorded(said=said):
            return "recommendation", {
                "kind": said.kind,
                "source": said.source or None,
                "generation": said.generation or None,
                "culprits": list(said.culprits) or None,
                "confidence": said.confidence,
                "said": said.sentence or None,
            }
        case f.Terminated(decision=decision):
            return "job_ended", {
                "exit_code": decision.exit_code,
                "cause": decision.cause,
                "generation": decision.token.generation,
                **_why(decision.because),
            }
        case _:
            assert_never(what)


def _of_progress(what: f.ProgressBaselineRead | f.ProgressChecked | f.RestartRefunded) -> tuple[str, dict[str, Any]]:
    match what:
        case f.RestartRefunded():
            return "restart_refunded", {}
        case f.ProgressBaselineRead(value=value, generation=generation):
            return "progress_baseline", {"iteration": value, "generation": generation}
        case f.ProgressChecked(incident=incident, check=check):
            return "progress_checked", {"incident": incident, "sentence": told(check), "sdk_step": check.sdk_step}


def _of_replacement(what: f.RankReplaced | f.ReplacementSettled) -> tuple[str, dict[str, Any]]:
    match what:
        case f.RankReplaced(one):
            return "rank_replaced", {
                "node": one.node,
                "rank": one.rank,
                "generation": one.generation,
                "iteration": one.iteration,
                "number": one.number,
                "lost_pid": one.lost_pid,
            }
        case f.ReplacementSettled(node, generation, number, pid, _, sentence):
            fields = {"node": node, "generation": generation, "number": number, "pid": pid or None}
            return "replacement_settled", {**fields, "came": not sentence, "given_up": sentence or None}


_Incident = f.IncidentOpened | f.FaultJoined | f.RoundReopened | f.CulpritChanged | f.VerdictLatched | f.RestartCharged


def _of_incident(what: _Incident | f.RankReplaced | f.ReplacementSettled) -> tuple[str, dict[str, Any]]:
    match what:
        case f.RankReplaced() | f.ReplacementSettled():
            return _of_replacement(what)
        case f.IncidentOpened(incident=incident, fault=fault):
            return "incident_opened", {"incident": incident, **_fault(fault)}
        case f.FaultJoined(incident=incident, fault=fault):
            return "fault_joined", {"incident": incident, **_fault(fault)}
        case f.RoundReopened(incident=incident, round=number, fault=fault):
            return "round_reopened", {"incident": incident, "round": number, **_fault(fault)}
        case f.CulpritChanged(incident=incident, round=number, view=view):
            culprit = view.culprit
            who = {} if culprit is None else {"culprit": culprit.node, "rank": culprit.rank, "code": culprit.code}
            return "culprit_changed", {"incident": incident, "round": number, **who, "cause": view.cause}
        case f.VerdictLatched(incident=incident, round=number, verdict=verdict):
            return "verdict_latched", {
                "incident": incident,
                "round": number,
                "verdict": verdict.kind,
                "source": verdict.source,
                "delay_s": verdict.delay_s,
                "restarts_left": verdict.restarts_left,
                **_why(verdict.because),
            }
        case f.RestartCharged(incident=incident, round=number, cause=cause):
            return "restart_charged", {"incident": incident, "round": number, "cause": cause}


def _of_recovery(
    what: f.RecoveryClosed | f.RecoveryAmended | f.SplitRuledOut | f.NoRestartLatched,
) -> tuple[str, dict[str, Any]]:
    match what:
        case f.RecoveryClosed(record=record):
            return "recovery_closed", {
                "incident": record.incident,
                "outcome": record.outcome,
                "generation": record.generation_to,
                "took_s": record.end - record.start,
                **_why(record.because),
            }
        case f.RecoveryAmended(incident=incident, spans=spans):
            return "recovery_amended", {"incident": incident, "spans": len(spans)}
        case f.SplitRuledOut(generation=generation, because=because):
            return "split_ruled_out", {"generation": generation, **_why(because)}
        case f.NoRestartLatched(no_restart=no_restart):
            return "no_restart_latched", {"exit_code": no_restart.exit_code, **_why(no_restart.because)}


def _of_node(
    what: (
        f.NodeAdmitted
        | f.NodesAdmitted
        | f.NodeLost
        | f.NodeReturned
        | f.NodeExcluded
        | f.NodeReadmitted
        | f.WouldExclude
        | f.OffenceNoted
        | f.NodeDrained
    ),
) -> tuple[str, dict[str, Any]]:
    match what:
        case f.NodeAdmitted(entry=entry):
            return "node_admitted", {"node": entry.node, "incarnation": entry.incarnation, "host": entry.host}
        case f.NodesAdmitted(entries=entries):
            return "nodes_admitted", {"count": len(entries), "nodes": [entry.node for entry in entries]}
        case f.NodeLost(node=node, because=because):
            return "node_lost", {"node": node, **_why(because)}
        case f.NodeReturned(node=node):
            return "node_returned", {"node": node}
        case f.NodeExcluded(node=node, exclusion=exclusion):
            by = exclusion.by or None
            return "node_excluded", {"node": node, "until": exclusion.until, "by": by, **_why(exclusion.because)}
        case f.NodeReadmitted(node=node, because=because):
            return "node_readmitted", {"node": node, **_why(because)}
        case f.WouldExclude(node=node, because=because):
            return "would_exclude", {"node": node, **_why(because)}
        case f.OffenceNoted(offence=offence):
            return "offence_noted", {
                "node": offence.identity.node,
                "generation": offence.generation,
                "rank": offence.rank,
                "reason": offence.code,
            }
        case f.NodeDrained(node=node, because=because):
            return "node_drained", {"node": node, **_why(because)}


def _of_drain(what: f.DrainOrdered | f.StopAgreed) -> tuple[str, dict[str, Any]]:
    match what:
        case f.DrainOrdered(drain=drain):
            told = {"node": drain.node, "signal": drain.signal, "grace_s": drain.grace_s}
            return "drain_ordered", {"generation": drain.generation, **told, **_why(drain.because)}
        case f.StopAgreed(generation=generation, step=step, because=because):
            return "stop_agreed", {"generation": generation, "step": step, **_why(because)}


def _why(because: Because) -> dict[str, Any]:
    return {"reason": because.code, "sentence": because.sentence or None}


def _fault(fault: Any) -> dict[str, Any]:
    return {
        "node": fault.node,
        "rank": fault.rank,
        "generation": fault.generation,
        "signal": fault.signal,
        "exit_code": fault.exit_code,
        "step": fault.step,
        **_why(fault.because),
    }
