"""Recovery records to draw: two nodes of two ranks and a spare; one rank killed, one node lost, one job ended."""

from __future__ import annotations

from resurge_api.common.v1 import ids_pb2
from resurge_api.policy.v1 import policy_pb2
from resurge_api.rendezvous.v1 import attach_pb2, rendezvous_pb2

START_NS = 1_700_000_000_000_000_000
MS = 1_000_000


def span(name, start_ms, end_ms, node="", rank=None, at_ns=START_NS, **attributes):
    inner = attach_pb2.Span(name=name, attributes={f"resurge.{key}": value for key, value in attributes.items()})
    inner.start.FromNanoseconds(at_ns + int(start_ms * MS))
    inner.end.FromNanoseconds(at_ns + int(end_ms * MS))
    if rank is not None:
        inner.rank = rank
    item = rendezvous_pb2.RecoverySpan(span=inner, node_id=node)
    if node:
        item.clock_error.FromNanoseconds(120_000)
    return item


def recovery(incident, spans, total_ms, at_ns=START_NS, **changes):
    given = {
        "reason": "WORKER_SIGNAL", "sentence": "rank 1 was ended by SIGSEGV at step 412", "node": "n0", "rank": 1,
        "kind": policy_pb2.VERDICT_KIND_RESTART, "generation": 7, "to": 8, "max_restarts": 5, "spent": 1,
        "outcome": rendezvous_pb2.RECOVERY_OUTCOME_RECOVERED,
    } | changes  # fmt: skip
    fault = policy_pb2.Fault(
        node_id=given["node"], rank=given["rank"], culprit=True,
        because=ids_pb2.Because(code=given["reason"], sentence=given["sentence"]),
    )  # fmt: skip
    victim = policy_pb2.Fault(node_id="n1", rank=2, because=ids_pb2.Because(code="WORKER_EXIT", sentence="exit code 1"))
    made = rendezvous_pb2.Recovery(
        incident_id=incident, trace_id="5f" * 16, outcome=given["outcome"], spans=spans,
        generation_from=given["generation"], generation_to=given["to"], restored_step=400,
        incident=policy_pb2.Incident(
            incident_id=incident, faults=[victim, fault], cycle=2, restarts_spent=given["spent"],
            max_restarts=given["max_restarts"], nodes_available=3, min_nodes=2, jitter=0.25,
            token=ids_pb2.FencingToken(job_id="digits", attempt=0, generation=given["generation"]),
        ),
        verdict=policy_pb2.Verdict(
            kind=given["kind"], source="policy", restarts_left=max(0, given["max_restarts"] - given["spent"] - 1),
            because=ids_pb2.Because(code=given["reason"], sentence=f"{given['node']}: 3 of 5 restarts left"),
        ),
    )  # fmt: skip
    made.start.FromNanoseconds(at_ns)
    made.end.FromNanoseconds(at_ns + int(total_ms * MS))
    return made


def killed_rank(at_ns=START_NS):
    spans = [
        span("detect", 0, 4, "n0", 1, at_ns, reason="WORKER_SIGNAL"),
        span("decide", 4, 9, at_ns=at_ns, verdict="RESTART"),
        span("rendezvous", 130, 138, at_ns=at_ns),
        *(span("teardown", 5, 118 + 12 * place, node, None, at_ns) for place, node in enumerate(("n0", "n1"))),
        *(span("spawn", 138, 171 + 4 * rank, f"n{rank // 2}", None, at_ns) for rank in (0, 2)),
    ]
    for rank in range(4):
        node = f"n{rank // 2}"
        spans += [
            span("init", 171 + 4 * rank, 1620 + 9 * rank, node, rank, at_ns),
            span("checkpoint_restore", 1620 + 9 * rank, 1702 + 5 * rank, node, rank, at_ns, step="400"),
            span("first_step", 1702 + 5 * rank, 1790 + rank, node, rank, at_ns, step="401"),
        ]
    return recovery("inc-1", spans, 1793, at_ns)


def lost_node(at_ns=START_NS + 60_000 * MS):
    spans = [
        span("detect", 0, 5400, at_ns=at_ns, reason="LEASE_EXPIRED"),
        span("decide", 5400, 5406, at_ns=at_ns),
        span("teardown", 5401, 5520, "n0", None, at_ns),
        span("rendezvous", 5520, 5530, at_ns=at_ns),
        span("spawn", 5530, 5581, "n2", None, at_ns),
        span("init", 5581, 7000, "n2", 2, at_ns),
        span("first_step", 7000, 7100, "n2", 2, at_ns),
    ]
    return recovery(
        "inc-2", spans, 7100, at_ns, reason="LEASE_EXPIRED", sentence="n1 was silent for 5.4 s", node="n1", rank=None,
        generation=8, to=9, spent=2,
    )  # fmt: skip


def ended_job(at_ns=START_NS + 120_000 * MS):
    spans = [span("detect", 0, 3, "n0", 0, at_ns), span("decide", 3, 10, at_ns=at_ns)]
    return recovery(
        "inc-3", spans, 10, at_ns, sentence="<b>bold & dangerous</b>", rank=0, generation=9, to=0, spent=5,
        kind=policy_pb2.VERDICT_KIND_STOP, outcome=rendezvous_pb2.RECOVERY_OUTCOME_ENDED,
    )  # fmt: skip


def all_three():
    return [killed_rank(), lost_node(), ended_job()]
