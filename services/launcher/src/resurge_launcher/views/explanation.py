"""Why a verdict was given, in plain sentences from the durable record, and what a replay makes of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from resurge_api.policy.v1 import policy_pb2
from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_launcher.views.model import fault_place, first_fault, view_of
from resurge_launcher.views.replay import differences, incident_view, verdict_words, was_held
from resurge_libs.core.progress import told


def explanation_lines(record: rendezvous_pb2.Recovery, answer: policy_pb2.ExplainResponse, by: str) -> list[str]:
    """The story in lines: what happened, what was decided and why, what each rule says, whether a replay agrees."""
    view, incident = view_of(record), record.incident
    lines = [
        f"incident    {view.incident}, {view.started:%Y-%m-%d %H:%M:%S} UTC, generation {view.generations}",
        f"culprit     {view.culprit}: {view.reason}{f' ({view.sentence})' if view.sentence else ''}",
    ]
    lines += [f"            {line}" for line in _further_faults(record.faults or incident.faults)]
    known_then = fault_place(first_fault(incident.faults))
    if known_then != view.culprit:
        lines.append(f"known then  {known_then} was held to be the first, when the verdict was given")
    lines.append(f"budget      {_budget(incident)}")
    if incident.HasField("progress"):
        check = incident_view(incident).progress
        lines.append(f"progress    {told(check) if check is not None else '-'}")
    lines += [
        f"verdict     {view.verdict} by {view.decided_by or '-'}: {view.verdict_sentence or '-'}",
        "",
        *_decision(record, answer),
        "",
        f"Replayed by {by}:",
    ]
    width = max((len(rule.rule) for rule in answer.rules), default=0)
    for rule in answer.rules:
        mark = "=>" if rule.decided else "  "
        lines.append(f" {mark} {rule.rule:<{width}}  {rule.because.sentence or _passed(rule.because.code)}")
    return [*lines, "", *_replay(record, answer)]


def _budget(incident: policy_pb2.Incident) -> str:
    back = f", {incident.restarts_refunded} given back" if incident.restarts_refunded else ""
    spent = f"{incident.restarts_spent} of {incident.max_restarts} restarts spent before it{back}"
    if not incident.HasField("cause_budget"):
        return spent
    bound = incident.cause_budget
    return f"{spent}; for cause {bound.cause} {bound.spent} of {bound.allowed}"


def _decision(record: rendezvous_pb2.Recovery, answer: policy_pb2.ExplainResponse) -> list[str]:
    """Which rule decided, said of the recorded verdict."""
    if not record.HasField("verdict"):
        return ["No verdict is recorded yet."]
    held = was_held(record)
    if held:
        return [f"No rule decided: {held}."]
    rule = next((rule.rule for rule in answer.rules if rule.decided), "-")
    before = [rule.rule for rule in answer.rules if not rule.decided and rule.because.code != "RULE_NOT_ASKED"]
    if differences(record.verdict, answer.verdict):
        return [f"The record says {verdict_words(record.verdict)}. No rule gives that for what is recorded."]
    lines = [f"The rule {rule} decided: {verdict_words(record.verdict)}."]
    if before:
        lines.append(f"The {len(before)} rules before it did not apply: {', '.join(before)}.")
    return lines


def _replay(record: rendezvous_pb2.Recovery, answer: policy_pb2.ExplainResponse) -> list[str]:
    """Whether the replay gives the recorded verdict."""
    if not record.HasField("verdict"):
        return [f"The replay says {verdict_words(answer.verdict)}."]
    found = differences(record.verdict, answer.verdict)
    if not found:
        return ["The replay gives the same verdict."]
    if was_held(record):
        return [f"Without that, the rules say {verdict_words(answer.verdict)}."]
    return [
        f"The replay differs: {'; '.join(found)}.",
        "The recorded verdict holds; either the record was changed, or the rules or their settings were.",
    ]


def _further_faults(faults: Iterable[policy_pb2.Fault]) -> list[str]:
    told = [fault for fault in faults if not fault.culprit]
    return [f"then {fault_place(fault)}: {fault.because.code}" for fault in told[:8]] + (
        [f"and {len(told) - 8} more"] if len(told) > 8 else []
    )


def _passed(code: str) -> str:
    return {"RULE_PASSED_OVER": "did not apply", "RULE_NOT_ASKED": "was not asked"}.get(code, code)
