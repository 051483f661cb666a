"""A job's ledger as people and programs read it. Pure; the time of reading is given."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from resurge_api.rendezvous.v1 import rendezvous_pb2
from resurge_launcher.views.model import duration

# in the order of the story; each with what it means
ACCOUNTS = {
    "productive": "training whose steps count",
    "lost": "training whose steps were done once more after a restore",
    "detection": "from a fault's first signal to its incident",
    "teardown": "ending workers",
    "rendezvous": "deciding, closing rounds",
    "start": "starting workers, up to the last rank's process group",
    "restore": "restoring checkpoints",
    "waiting": "for nodes, for a backoff, between attempts",
}
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class LedgerView:
    """Where the wall time of a job went, in seconds; the accounts sum up to `wall_s`."""

    job_id: str
    begun: datetime
    wall_s: float
    accounts_s: dict[str, float]
    lost_steps: int
    unmeasured_s: float
    doing: str
    restarts: int

    @property
    def goodput(self) -> float:
        """The productive share of the wall time, from 0 to 1; 0 for a job without time."""
        return self.accounts_s["productive"] / self.wall_s if self.wall_s > 0 else 0.0


def ledger_view(job: rendezvous_pb2.Job, now_s: float | None) -> LedgerView:
    """The ledger up to `now_s` (Unix seconds), or as far as it is booked. An ended job's ends with its decision."""
    ledger = job.ledger
    begun_s, reached_s = ledger.begun.ToNanoseconds() / _NS, ledger.reached.ToNanoseconds() / _NS
    accounts_s = {name: getattr(ledger, name).ToNanoseconds() / _NS for name in ACCOUNTS}
    unmeasured_s = ledger.unmeasured.ToNanoseconds() / _NS
    doing = rendezvous_pb2.Activity.Name(ledger.doing).removeprefix("ACTIVITY_").lower()
    if now_s is not None and not job.HasField("decision") and now_s > reached_s:
        account = "productive" if doing == "training" else doing
        accounts_s[account] = accounts_s.get(account, 0.0) + now_s - reached_s
        reached_s = now_s
    return LedgerView(
        job_id=job.spec.job_id,
        begun=datetime.fromtimestamp(begun_s, UTC),
        wall_s=reached_s - begun_s,
        accounts_s=accounts_s,
        lost_steps=ledger.lost_steps,
        unmeasured_s=unmeasured_s,
        doing="ended" if job.HasField("decision") else doing,
        restarts=job.restarts_spent,
    )


def report_lines(view: LedgerView) -> list[str]:
    """The ledger as text: one line per account, its share, and what is not known."""
    head = f"job {view.job_id}: {duration(view.wall_s)} since {view.begun:%Y-%m-%d %H:%M:%S} UTC, now {view.doing}"
    lines = [head, f"goodput {view.goodput:.2%}", ""]
    for name, meaning in ACCOUNTS.items():
        took_s = view.accounts_s[name]
        share = took_s / view.wall_s if view.wall_s > 0 else 0.0
        steps = f", {view.lost_steps} steps" if name == "lost" and view.lost_steps else ""
        lines.append(f"{name:<11} {duration(took_s):>12} {share:>8.2%}  {meaning}{steps}")
    if view.unmeasured_s > 0:
        said = "whose steps nobody reported: what a restore took back of it is not known"
        lines += ["", f"{duration(view.unmeasured_s)} of the productive time are of workers {said}."]
    return lines


def report_json(view: LedgerView) -> dict[str, Any]:
    """The ledger for programs: stable names, seconds, nothing rounded away."""
    return {
        "job_id": view.job_id,
        "begun": view.begun.isoformat(),
        "wall_s": view.wall_s,
        "accounts_s": view.accounts_s,
        "goodput": view.goodput,
        "lost_steps": view.lost_steps,
        "unmeasured_s": view.unmeasured_s,
        "doing": view.doing,
        "restarts": view.restarts,
    }
