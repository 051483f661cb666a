"""Text to value: one pure function per kind of option. Raises Wrong with what would be right; knows no names."""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Callable, Mapping

from resurge_launcher.settings import Std, StreamChoice
from resurge_libs.config.durations import NEVER, seconds_of
from resurge_libs.rpc.endpoint import BadEndpoint, Endpoint, parse_endpoint

DEFAULT_PORT = 29400  # torchrun's own default of --rdzv-endpoint without a port
MAX_NODES = 100_000  # these bounds are rendezvous' own
MAX_WORKERS_PER_NODE = 1024
ENDPOINT_RIGHT = f"Give HOST:PORT, [IPV6]:PORT or unix:/PATH, for example n0:{DEFAULT_PORT}."
_STREAM_PER_RANK = re.compile(r"^\d+:[0-3](,\d+:[0-3])*$")
_JOB_ID = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}$")
_NODE_ID = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._:@+-]{0,254}$")


class Wrong(ValueError):
    """A text that is no value of its kind: what is wrong, and what would be right."""

    def __init__(self, problem: str, right: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.right = right


def text(value: str) -> str:
    """Any text that is not empty."""
    if not value.strip():
        raise Wrong("is empty", "Give a value, or leave the option out.")
    return value


def switch(value: str) -> bool:
    """Yes or no, as variables and files write it."""
    match value.strip().lower():
        case "1" | "true" | "yes" | "on":
            return True
        case "0" | "false" | "no" | "off" | "":
            return False
        case _:
            raise Wrong(f"{value!r} is neither yes nor no", "Give 1 or 0.")


def whole(value: str, low: int, high: int) -> int:
    """A whole number within bounds."""
    try:
        number = int(value)
    except ValueError:
        raise Wrong(f"{value!r} is not a whole number", f"Give a whole number from {low} to {high}.") from None
    if not low <= number <= high:
        raise Wrong(f"{number} is out of range", f"Give a whole number from {low} to {high}.")
    return number


def nnodes(value: str) -> tuple[int, int]:
    """`N` or `MIN:MAX`."""
    right = "Give N, or MIN:MAX with 1 <= MIN <= MAX, for example 2:3 for two nodes that run and one spare."
    parts = value.split(":")
    if len(parts) > 2 or not all(re.fullmatch(r"-?\d+", part) for part in parts):
        raise Wrong(f"{value!r} is not a number of nodes", right)
    low, high = int(parts[0]), int(parts[-1])
    if low < 1:
        raise Wrong(f"{low} nodes cannot run a job" if len(parts) == 1 else f"MIN {low} is below 1", right)
    if low > high:
        raise Wrong(f"MIN {low} is greater than MAX {high}", right)
    if high > MAX_NODES:
        raise Wrong(f"{high} nodes are more than {MAX_NODES}", right)
    return low, high


def nproc(value: str) -> int | str:
    """A number of workers, or a word that is resolved on the machine: cpu, gpu, auto."""
    right = f"Give a whole number from 1 to {MAX_WORKERS_PER_NODE}, or cpu, gpu, auto."
    if value in ("cpu", "gpu", "auto"):
        return value
    if not re.fullmatch(r"-?\d+", value):
        raise Wrong(f"{value!r} is not a number of workers", right)
    if not 1 <= int(value) <= MAX_WORKERS_PER_NODE:
        raise Wrong(f"{value} workers per node are not possible", right)
    return int(value)


def seconds(value: str) -> float:
    """A duration: a number of seconds, or with a unit, for example 500ms, 2s, 10m, 1h."""
    try:
        return seconds_of(value)
    except ValueError as error:
        raise Wrong(str(error), "Give seconds, or a number with ms, s, m or h, for example 30 or 500ms.") from None


def share(value: str) -> float:
    """A share of a whole, from 0 to 1."""
    right = "Give a number from 0 to 1, for example 0.2."
    try:
        number = float(value)
    except ValueError:
        raise Wrong(f"{value!r} is not a number", right) from None
    if not 0.0 <= number <= 1.0:  # also refuses NaN
        raise Wrong(f"{value} is out of range", right)
    return number


def seconds_or_never(value: str) -> float | None:
    """A duration, or none/null for no limit."""
    return None if value.strip().lower() in NEVER else seconds(value)


def port(value: str) -> int:
    """A TCP port."""
    return whole(value, 1, 65535)


def endpoint(value: str) -> Endpoint:
    """`HOST[:PORT]`, `[IPV6]:PORT` or `unix:PATH`; a port to connect to, so never 0."""
    try:
        found = parse_endpoint(value, default_port=DEFAULT_PORT)
    except BadEndpoint as error:
        raise Wrong(str(error).removeprefix("endpoint "), ENDPOINT_RIGHT) from None
    if not found.is_unix and not found.port >= 1:
        raise Wrong("port 0 is out of range (1 to 65535)", ENDPOINT_RIGHT)
    if not found.is_unix and not re.fullmatch(r"[A-Za-z0-9_.:%-]+", found.host):
        raise Wrong(f"{value!r} names no host", ENDPOINT_RIGHT)
    return found


def endpoints(value: str) -> tuple[Endpoint, ...]:
    """Endpoints separated by commas."""
    return tuple(endpoint(part.strip()) for part in value.split(","))


def leaf_queue(value: str) -> int:
    """Blocks that may wait in a leaf; -1: by its number of nodes."""
    text = value.strip()
    if text != "-1" and not (text.isdecimal() and 64 <= int(text) <= 1_000_000):
        raise Wrong(f"{value!r} is no number of blocks", "Give 64 to 1000000, or -1.")
    return int(text)


def streams(value: str) -> StreamChoice:
    """One of 0 (none), 1 (stdout), 2 (stderr), 3 (both), or per local rank, for example 0:3,1:2."""
    if value in ("0", "1", "2", "3"):
        return StreamChoice(everywhere=Std(int(value)))
    if not _STREAM_PER_RANK.match(value):
        raise Wrong(
            f"{value!r} chooses no streams",
            "Give 0 (none), 1 (stdout), 2 (stderr) or 3 (both), or one per local rank, for example 0:3,1:2.",
        )
    pairs = (item.split(":") for item in value.split(","))
    return StreamChoice(per_rank={int(rank): Std(int(std)) for rank, std in pairs})


def local_ranks(value: str) -> frozenset[int] | None:
    """Local ranks, comma-separated; empty text means all."""
    if not value.strip():
        return None
    if not re.fullmatch(r"\d+(,\d+)*", value):
        raise Wrong(f"{value!r} is not a list of local ranks", "Give numbers with commas, for example 0,1,2.")
    return frozenset(int(item) for item in value.split(","))


def modules(value: str) -> tuple[str, ...]:
    """Module names, comma-separated; empty text means none."""
    names = tuple(name.strip() for name in value.split(",") if name.strip())
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise Wrong(f"{name!r} is no module name", "Give names with commas, for example numpy,package.data.")
    return names


def signals(value: str) -> tuple[signal.Signals, ...]:
    """Names of signals, comma-separated."""
    right = "Give names with commas, for example SIGTERM,SIGINT,SIGUSR1."
    found = []
    for raw in value.split(","):
        name = raw.strip().upper()
        name = name if name.startswith("SIG") else f"SIG{name}"
        if name not in signal.Signals.__members__:
            raise Wrong(f"{raw.strip()!r} is no signal of this machine", right)
        if name in ("SIGKILL", "SIGSTOP"):
            raise Wrong(f"{name} cannot be handled by any program", right)
        if name in ("SIGCHLD", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL"):
            raise Wrong(f"{name} speaks of the launcher itself and cannot be forwarded", right)
        found.append(signal.Signals[name])
    return tuple(dict.fromkeys(found))


def pairs(value: str) -> Mapping[str, str]:
    """`key=value,key=value`."""
    found: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in value.split(","))):
        key, equals, worth = item.partition("=")
        if not equals or not key.strip():
            raise Wrong(f"{item!r} is not key=value", "Give key=value pairs with commas, for example is_host=true.")
        found[key.strip()] = worth.strip()
    return found


def section_limits(value: str) -> Mapping[str, float]:
    """`name:seconds,name:seconds`, or the same with `=`."""
    found: dict[str, float] = {}
    for item in filter(None, (part.strip() for part in value.split(","))):
        name, colon, worth = item.replace("=", ":", 1).partition(":")
        name, limit_s = name.strip(), seconds(worth) if colon else 0.0
        if not name or limit_s <= 0:
            right = "Give name:seconds pairs with commas, each more than 0 s, for example step:60,checkpoint:600."
            raise Wrong(f"{item!r} is no limit of a section", right)
        found[name] = limit_s
    return found


def factor(value: str) -> float:
    """A number of at least 1."""
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 1):
        raise Wrong(f"{value!r} is no factor", "Give a number of at least 1, for example 5.")
    return number


def job_id(value: str) -> str:
    """A name for a job that is also good in a path."""
    if not _JOB_ID.match(value):
        raise Wrong(
            f"{value!r} is no job id",
            "Give letters, digits and . _ @ + -, first a letter or digit, at most 128 of them.",
        )
    return value


def node_id(value: str) -> str:
    """A name for a node."""
    if not _NODE_ID.match(value):
        raise Wrong(
            f"{value!r} is no node id",
            "Give letters, digits and . _ : @ + -, first a letter or digit, at most 255 of them.",
        )
    return value


def one_of(*words: str) -> Callable[[str], str]:
    """A parser for one of some words."""

    def parse(value: str) -> str:
        if value not in words:
            raise Wrong(f"{value!r} is not known here", f"Give one of {', '.join(words)}.")
        return value

    return parse
