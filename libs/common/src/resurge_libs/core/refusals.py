"""What a service or a core may answer instead of a result, as typed errors. Pure; `rpc.errors` puts them on the wire.

`Refused` is definite: nothing was done. `Unsure` is not: it may have been done, so repeat it only under the same
request id.
"""

from __future__ import annotations

from dataclasses import dataclass

from resurge_libs.core.ids import FencingToken, Incarnation, JobId, NodeId
from resurge_libs.core.instant import Wall
from resurge_libs.core.reasons import Because


class RpcProblem(Exception):
    """An answer that is not a result; `definite` says whether it is certain that nothing was done."""

    definite = True


class Refused(RpcProblem):
    """Definite: nothing was done."""

    definite = True


class Unsure(RpcProblem):
    """Indefinite: it may have been done. Repeat only under the same request id."""

    definite = False


@dataclass(eq=False)
class StaleGeneration(Refused):
    """The caller holds an older token: stop acting, follow the desired state."""

    presented: FencingToken
    current: FencingToken

    def __str__(self) -> str:
        return (
            f"generation {self.presented.generation} (attempt {self.presented.attempt}) of job {self.presented.job!r} "
            f"is not current: it is {self.current.generation} (attempt {self.current.attempt})"
        )


@dataclass(eq=False)
class AlreadyAttached(Refused):
    """A live launcher of this node is attached: exit 2, or use --take-over."""

    node: NodeId
    incarnation: Incarnation
    holder: str = ""

    def __str__(self) -> str:
        where = f" at {self.holder}" if self.holder else ""
        return (
            f"node {self.node!r} is held by incarnation {self.incarnation}{where}; "
            "end that launcher, give this one another --node-id, or take over with --take-over"
        )


@dataclass(eq=False)
class Superseded(Refused):
    """A newer incarnation of this node took over: end the workers and exit, never rejoin."""

    node: NodeId
    presented: Incarnation
    current: Incarnation

    def __str__(self) -> str:
        return f"incarnation {self.presented} of node {self.node!r} was superseded by {self.current}"


@dataclass(eq=False)
class NodeExcluded(Refused):
    """The node is out of this job: park."""

    node: NodeId
    because: Because
    until: Wall | None = None

    def __str__(self) -> str:
        return f"node {self.node!r} is excluded ({self.because})"


@dataclass(eq=False)
class BudgetExhausted(Refused):
    """No restart is left: end the job."""

    spent: int
    max_restarts: int

    def __str__(self) -> str:
        return f"{self.spent} of {self.max_restarts} restarts are spent"


@dataclass(eq=False)
class VersionMismatch(Refused):
    """The peer speaks another version of the protocol: install matching releases."""

    presented: int
    supported: int

    def __str__(self) -> str:
        return (
            f"protocol version {self.presented} was presented, this service speaks {self.supported}: "
            "install the same release of Resurge on all nodes"
        )


@dataclass(eq=False)
class WrongJob(Refused):
    """This endpoint serves another job, or the same id with another specification."""

    presented: JobId
    served: JobId
    field: str = ""
    presented_value: str = ""
    served_value: str = ""

    def __str__(self) -> str:
        if self.field == "command_digest":
            return (
                f"job {self.served!r} runs another program here, or the same one with other arguments "
                f"({self.field} {self.served_value}, not {self.presented_value}): use another --rdzv-id, the same "
                "command on all nodes, or remove the state directory to begin this job anew"
            )
        if self.field:
            return (
                f"job {self.served!r} is served here with {self.field}={self.served_value}, "
                f"not {self.field}={self.presented_value}: use another --rdzv-id, or the same settings on all nodes"
            )
        return f"this endpoint serves job {self.served!r}, not {self.presented!r}: use another endpoint or --rdzv-id"


@dataclass(eq=False)
class Unready(Refused):
    """The service cannot decide now; nothing was done."""

    because: Because

    def __str__(self) -> str:
        return str(self.because)


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One field of a request that is wrong, and what would be right."""

    field: str
    right: str


@dataclass(eq=False)
class BadRequest(Refused):
    """The request is malformed: a bug in the caller, not to be retried."""

    violations: tuple[FieldViolation, ...]

    @classmethod
    def of(cls, field: str, right: str) -> BadRequest:
        """A refusal that names one field."""
        return cls((FieldViolation(field, right),))

    def __str__(self) -> str:
        return "; ".join(f"{item.field}: {item.right}" for item in self.violations)


@dataclass(eq=False)
class Overloaded(Refused):
    """Too much is pending: wait `retry_after_s`, then ask again."""

    retry_after_s: float = 0.5
    what: str = "requests"

    def __str__(self) -> str:
        return f"too many {self.what} pending; ask again in {self.retry_after_s:g} s"


@dataclass(eq=False)
class Unauthenticated(Refused):
    """The job token is missing or wrong."""

    detail: str = "the job token is missing or wrong: set RESURGE_JOB_TOKEN to the job's shared secret"

    def __str__(self) -> str:
        return self.detail


@dataclass(eq=False)
class NotYourNode(Refused):
    """The caller speaks for a node that is not its own."""

    detail: str

    def __str__(self) -> str:
        return self.detail


@dataclass(eq=False)
class Unimplemented(Refused):
    """The peer does not know this call: it is of another release."""

    detail: str

    def __str__(self) -> str:
        return self.detail


@dataclass(eq=False)
class InternalFault(Refused):
    """The peer's own code failed on this request; its state did not change."""

    detail: str

    def __str__(self) -> str:
        return self.detail


@dataclass(eq=False)
class ReplyLost(Unsure):
    """No answer came: it may have been done."""

    detail: str
    timed_out: bool = False

    def __str__(self) -> str:
        return self.detail
