"""The fenced store: small values of a job, written under a token and answered once per request id.

A token older than the running generation is refused, and so is the running one from the moment it is fenced. Keys
outlive generations; each entry names the one that wrote it.
"""

from __future__ import annotations

from typing import assert_never

from resurge_libs.core.ids import FencingToken, RequestId
from resurge_libs.core.machine import Reply
from resurge_libs.core.reasons import Because, Reason
from resurge_libs.core.refusals import BadRequest, Refused, StaleGeneration, Unready, WrongJob
from resurge_rendezvous.core import facts as f
from resurge_rendezvous.core.actions import AnnounceKey
from resurge_rendezvous.core.draft import Draft
from resurge_rendezvous.core.events import (
    StoreAddAsked,
    StoreAsked,
    StoreCompareAndSetAsked,
    StoreDeleteAsked,
    StorePutAsked,
)
from resurge_rendezvous.core.job import Added, Answer, Deleted, Job, OrderTaken, PutDone, StoreEntry, Swapped
from resurge_rendezvous.core.limits import KEY_BYTES_MAX, KEYS_MAX, SHUTDOWN_KEY, STORE_BYTES_MAX, VALUE_BYTES_MAX

COUNTER_MAX = 2**63 - 1
_KINDS: dict[type[StoreAsked], type[Answer]] = {
    StorePutAsked: PutDone,
    StoreAddAsked: Added,
    StoreCompareAndSetAsked: Swapped,
    StoreDeleteAsked: Deleted,
}


def refused_token(job: Job, token: FencingToken) -> Refused | None:
    """Why a token may not touch the store; None when it holds."""
    if job.spec is None:
        return Unready(Because(Reason.BELOW_MIN_NODES, "no launcher has opened a job yet"))
    if token.job != job.spec.job_id:
        return WrongJob(token.job, job.spec.job_id)
    running = job.running_formation
    if running is None or (token.attempt, token.generation) != (running.attempt, running.generation):
        return StaleGeneration(token, job.token)
    return None


def read(job: Job, token: FencingToken, key: str) -> bytes | None:
    """The value of a key, or None. Raises StaleGeneration, WrongJob or Unready."""
    refusal = refused_token(job, token)
    if refusal is not None and not (key == SHUTDOWN_KEY and isinstance(refusal, StaleGeneration)):
        raise refusal  # how the job ended may be asked when nothing of it runs any more
    entry = job.store.get(key)
    return entry.value if entry is not None else None


def answer_to(job: Job, request: RequestId, kind: type[Answer]) -> Answer | None:
    """What a repeated request was answered before; None for a new one. Raises BadRequest for an id of another call."""
    answer = next((known.answer for known in reversed(job.answers) if known.request == request), None)
    if answer is not None and not isinstance(answer, kind):
        raise another_call(request)
    return answer


def was_taken(job: Job, request: RequestId, order: str) -> bool:
    """Whether this very order was taken before. Raises BadRequest for an id of another call."""
    known = answer_to(job, request, OrderTaken)
    if isinstance(known, OrderTaken) and known.order not in ("", order):
        raise another_call(request)
    return known is not None


def another_call(request: RequestId) -> BadRequest:
    """What is said of a request id that another kind of call has used."""
    return BadRequest.of("request_id", f"{request!r} was used for another kind of call: each call needs its own")


def on_store(d: Draft, event: StoreAsked) -> None:
    """Carry out one write. Raises the refusal when it may not be."""
    known = answer_to(d.job, event.request, _KINDS[type(event)])
    if known is not None:
        d.because = Because(Reason.STORE_WRITE, "answered before under the same request id")
        d.do(Reply(_with_value(known, event)))
        return
    refusal = refused_token(d.job, event.token) or _violation(d, event)
    if refusal is not None:
        raise refusal
    answer = _write(d, event)
    d.record(f.RequestAnswered(event.request, _without_value(answer)))
    d.do(Reply(answer))
    d.because = Because(Reason.STORE_WRITE, event.key)


def _without_value(answer: Answer) -> Answer:
    """As it is remembered: what a repeat brings along is not kept a second time."""
    return Swapped(True, None) if isinstance(answer, Swapped) and answer.written else answer


def _with_value(known: Answer, event: StoreAsked) -> Answer:
    if isinstance(event, StoreCompareAndSetAsked) and isinstance(known, Swapped) and known.written:
        return Swapped(True, event.value)
    return known


def _violation(d: Draft, event: StoreAsked) -> Refused | None:
    if not event.key or len(event.key.encode()) > KEY_BYTES_MAX:
        return BadRequest.of("key", f"must have 1 to {KEY_BYTES_MAX} bytes")
    if isinstance(event, (StorePutAsked, StoreCompareAndSetAsked)) and len(event.value) > VALUE_BYTES_MAX:
        return BadRequest.of("value", f"must have at most {VALUE_BYTES_MAX} bytes, got {len(event.value)}")
    if event.key == SHUTDOWN_KEY:
        return BadRequest.of("key", f"{SHUTDOWN_KEY!r} holds the cause of the job's end: it is written by nobody else")
    if not event.request:
        return BadRequest.of("request_id", "must be given, so that a repeat is not a second write")
    if not isinstance(event, StoreDeleteAsked) and event.key not in d.job.store and len(d.job.store) >= KEYS_MAX:
        return BadRequest.of("key", f"the store holds {KEYS_MAX} keys already: delete some")
    if isinstance(event, (StorePutAsked, StoreCompareAndSetAsked)) and _bytes_beside(d, event) > STORE_BYTES_MAX:
        return BadRequest.of(
            "value", f"does not fit: the store holds at most {STORE_BYTES_MAX} bytes, delete some keys"
        )
    return _wrong_sum(d, event) if isinstance(event, StoreAddAsked) else None


def _bytes_beside(d: Draft, event: StorePutAsked | StoreCompareAndSetAsked) -> int:
    """All values together, were this one written."""
    others = sum(len(entry.value) for key, entry in d.job.store.items() if key != event.key)
    return others + len(event.value)


def _wrong_sum(d: Draft, event: StoreAddAsked) -> Refused | None:
    number = _counter(d.job.store.get(event.key))
    if number is None:
        return BadRequest.of("key", f"{event.key!r} does not hold a counter")
    if abs(number + event.delta) > COUNTER_MAX:
        return BadRequest.of("delta", "the counter would leave 64 bits")
    return None


def _counter(entry: StoreEntry | None) -> int | None:
    if entry is None:
        return 0
    text = entry.value[:24].decode("ascii", "replace")
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() and digits.isascii() and len(entry.value) < 24 else None


def _write(d: Draft, event: StoreAsked) -> PutDone | Added | Swapped | Deleted:
    held = d.job.store.get(event.key)
    match event:
        case StorePutAsked():
            _set(d, event, event.value)
            return PutDone()
        case StoreAddAsked():
            total = (_counter(held) or 0) + event.delta
            _set(d, event, str(total).encode())
            return Added(total)
        case StoreCompareAndSetAsked():
            value = held.value if held is not None else None
            if value != event.expected:
                return Swapped(False, value)
            _set(d, event, event.value)
            return Swapped(True, event.value)
        case StoreDeleteAsked():
            if held is not None:
                d.record(f.StoreWritten(event.key, None))
            return Deleted(held is not None)
        case _:
            assert_never(event)


def _set(d: Draft, event: StoreAsked, value: bytes) -> None:
    d.record(f.StoreWritten(event.key, StoreEntry(value, event.token.generation)))
    d.do(AnnounceKey(event.key))
