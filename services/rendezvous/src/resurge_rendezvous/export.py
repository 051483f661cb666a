"""What leaves for people: `recoveries.jsonl`, `job.json`, and the trace of each recovery. Never delays a restart.

The durable record is in the journal; this is a copy for people and tools. A copy that a crash cut off is made again at
the next start; span ids follow from the incident, so that nothing is doubled. Decides nothing.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_libs.core.ids import IncidentId, JobId, SpanId
from resurge_libs.obs.background import BackgroundWriter, Outage
from resurge_libs.obs.names import Attr, SpanName
from resurge_libs.obs.recovery_spans import AttributeValue, RecoverySpan, SpanRecord, records_of
from resurge_libs.obs.sinks import SpanSink
from resurge_libs.rpc.records import JOB_NAME, RECOVERIES_NAME, append_recovery, recorded_incidents, write_job
from resurge_rendezvous.core import model
from resurge_rendezvous.core.replacement_values import ReplacedRank
from resurge_rendezvous.wire_out import recovery_to_proto

SERVICE = "rendezvous"
LAUNCHER = "launcher"
REMEDY = "Give the state directory room, and make what stands there a file that the control plane may write."
MAX_REMEMBERED = 256
"""Incidents whose exported spans are remembered, so that an amendment exports only what is new."""
NAMES = {name.value: name for name in SpanName}


class RecoveryExport:
    """Writes records and spans in a thread of its own; without a state directory, spans only."""

    def __init__(self, state_dir: Path | None, sink: SpanSink) -> None:
        self._state_dir, self._sink = state_dir, sink
        self.show_took_s = 0.0
        """How long the last `job.json` kept the interpreter busy."""
        place = state_dir or Path()
        self._recoveries = Outage("the record of a recovery", place / RECOVERIES_NAME, REMEDY)
        self._job = Outage("the job as it stands", place / JOB_NAME, REMEDY)
        self._writer = BackgroundWriter("recovery-export", self._recoveries)
        self._last_shown: rendezvous_pb2.Job | None = None
        self._exported: OrderedDict[IncidentId, set[SpanId]] = OrderedDict()

    def export(self, record: model.RecoveryRecord) -> None:
        """Export a record that was closed or amended; of amendments in a row only the last is. Returns at once."""
        self._writer.put(record.incident, partial(self._export, record))

    def export_replaced(self, job: JobId, one: ReplacedRank) -> None:
        """Export the short trace of a rank in whose place a fresh process came, or did not. Returns at once."""
        self._writer.put(f"replaced-{one.key}", partial(self._sink.export, spans_of_replaced(job, one)))

    def show_job(self, job: rendezvous_pb2.Job) -> None:
        """Replace `job.json`; of several changes in a row only the newest is written."""
        self._last_shown = job
        self._writer.put(JOB_NAME, partial(self._show_job, job))

    def show_last(self) -> None:
        """Write `job.json` once more when the journal is closed: its log is gone then, which gives a full disk room,
        and the picture is not older than what it shows."""
        if self._last_shown is not None:
            self.show_job(self._last_shown)

    @property
    def is_idle(self) -> bool:
        """Whether everything that was handed over is done."""
        return self._writer.is_idle

    def catch_up(self, records: Iterable[model.RecoveryRecord]) -> None:
        """Export what a crash may have cut off: records of the journal that the file does not have."""
        self._writer.put(RECOVERIES_NAME, partial(self._catch_up, tuple(records)))

    def close(self) -> None:
        """Finish what was begun, for a short time: a directory that hangs holds nobody up."""
        self._writer.close()

    # in the writer's thread

    def _catch_up(self, records: tuple[model.RecoveryRecord, ...]) -> None:
        if self._state_dir is None:
            return
        try:
            known = recorded_incidents(self._state_dir)
        except OSError as error:
            self._recoveries.failed(error)
            return
        for record in records:
            if record.incident in known:
                self._exported[record.incident] = {span.span_id for span in spans_of(record)}
            else:
                self._export(record)
        self._forget()

    def _export(self, record: model.RecoveryRecord) -> None:
        try:
            if self._state_dir is not None:
                append_recovery(self._state_dir, recovery_to_proto(record))
                self._recoveries.written()
        except OSError as error:  # the journal still holds the record, and its trace goes its own way
            self._recoveries.failed(error)
        spans = spans_of(record)
        before = self._exported.setdefault(record.incident, set())
        fresh = tuple(span for span in spans if span.span_id not in before)
        before.update(span.span_id for span in fresh)
        if fresh:
            self._sink.export(fresh)
        self._forget()

    def _show_job(self, job: rendezvous_pb2.Job) -> None:
        if self._state_dir is None:
            return
        began = time.thread_time()
        try:
            write_job(self._state_dir, job)
            self.show_took_s = time.thread_time() - began
            self._job.written()
        except OSError as error:
            self._job.failed(error)

    def _forget(self) -> None:
        while len(self._exported) > MAX_REMEMBERED:
            self._exported.popitem(last=False)


def spans_of(record: model.RecoveryRecord) -> tuple[SpanRecord, ...]:
    """The whole trace of one recovery, the root first: it names the first cause, and the outcome beside it."""
    first = record.faults[0] if record.faults else None
    because = record.because if first is None else first.because
    told: dict[str, AttributeValue] = {
        Attr.JOB: record.view.job,
        Attr.OUTCOME: record.outcome.value,
        Attr.REASON: because.code.value,
        Attr.SENTENCE: because.sentence,
        Attr.OLD_GENERATION: record.generation_from,
        Attr.GENERATION: record.generation_to,
        Attr.ATTEMPT: record.attempt,
        Attr.CYCLE: record.cycle,
    }
    if first is not None:
        told[Attr.CULPRIT] = first.node if first.rank is None else f"{first.node}/{first.rank}"
    if record.verdict is not None:
        told[Attr.VERDICT] = record.verdict.kind.value
        told[Attr.VERDICT_SOURCE] = record.verdict.source
        told[Attr.RESTARTS_LEFT] = record.verdict.restarts_left
    root = RecoverySpan(SpanName.RECOVERY, record.start, record.end, service=SERVICE, attributes=told)
    return records_of(record.incident, root, (_child(span) for span in record.spans if span.name in NAMES))


def spans_of_replaced(job: JobId, one: ReplacedRank) -> tuple[SpanRecord, ...]:
    """From the loss to the return, a recovery of one rank that restarted nobody else: decided, then started."""
    end = one.granted_wall if one.settled_wall is None else one.settled_wall
    told: dict[str, AttributeValue] = {
        Attr.JOB: job,
        Attr.OUTCOME: "REPLACED_IN_PLACE" if one.came else "GIVEN_UP",
        Attr.REASON: one.because.code.value,
        Attr.SENTENCE: one.sentence or one.because.sentence,
        Attr.OLD_GENERATION: one.generation,
        Attr.GENERATION: one.generation,
        Attr.ATTEMPT: one.attempt,
        Attr.CYCLE: one.cycle,
        Attr.CULPRIT: f"{one.node}/{one.rank}",
    }
    name = IncidentId(f"in-place-{job}-{one.attempt}-{one.generation}-{one.node}-{one.number}")
    root = RecoverySpan(SpanName.RECOVERY, one.lost_wall, end, service=SERVICE, attributes=told)
    decide = RecoverySpan(SpanName.DECIDE, one.lost_wall, one.granted_wall, service=SERVICE)
    spawn = RecoverySpan(SpanName.SPAWN, one.granted_wall, end, one.node, one.rank, service=LAUNCHER)
    return records_of(name, root, (decide, spawn))


def _child(span: model.RecoverySpan) -> RecoverySpan:
    attributes: dict[str, AttributeValue] = dict(span.attributes)
    if span.clock_error_s is not None:
        attributes[Attr.CLOCK_ERROR] = span.clock_error_s
    return RecoverySpan(
        name=NAMES[span.name],
        start=span.start,
        end=span.end,
        node=span.node,
        rank=span.rank,
        service=SERVICE if span.node is None else LAUNCHER,
        attributes=attributes,
        part=span.round,
    )
