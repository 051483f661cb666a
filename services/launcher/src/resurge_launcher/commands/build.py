"""From resolved options to RunSettings: fills what follows from others, and refuses what cannot run.

Creates at most the state and log directories, to prove that they can be written; starts nothing. Raises UsageProblem.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resurge_launcher.commands import machine, rdzv_conf
from resurge_launcher.commands.hang_limits import worker_limits_of
from resurge_launcher.commands.logs import LogPlace, log_plan_of, prove_log_files
from resurge_launcher.commands.place import NodeIdentity, domain_of, endpoint_of, machine_id_of, node_of
from resurge_launcher.commands.progress import progress_notices, progress_of
from resurge_launcher.commands.restarts import restart_rules_of
from resurge_launcher.commands.sources import Resolved, Sourced
from resurge_launcher.core.findings import Captures
from resurge_launcher.core.reclaim import ReclaimRules
from resurge_launcher.settings import (
    DrainSettings,
    Entry,
    EntryKind,
    Excluding,
    OnExcluded,
    OnLostControl,
    RunSettings,
    Warm,
)
from resurge_launcher.usage import UsageProblem
from resurge_launcher.warm.plan import why_never_warm
from resurge_libs.core.recommendation import StopAction
from resurge_libs.core.time_limits import TimeLimits, WrongOrder
from resurge_libs.rpc.endpoint import UNIX_PATH_LIMIT, Endpoint, token_flaw

DIRECTORY_LIMIT_S = 5.0
"""How long a file system may take to answer before anything is started."""
RUN_DIR_BYTES = 60
"""The longest run directory: the names of sockets in it follow."""
STATE_ROOM_BYTES = 256 * 1024
"""What a journal takes before anything happened, so that a full disk is told at once."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a command sees of the world: taken once at start."""

    environ: Mapping[str, str]
    host_name: str
    run_name: str  # fresh name for a job on one node that was given none
    python: str


def run_settings(resolved: Resolved, entry: Entry, here: Surroundings, config: Path | None) -> RunSettings:
    """The whole of a `resurge run`. Raises UsageProblem for anything that cannot run."""
    min_nodes, max_nodes = resolved["nnodes"].value
    conf = rdzv_conf.read(resolved["rdzv_conf"])
    place = node_of(resolved, here.environ, here.host_name, max_nodes)
    endpoint, notices = endpoint_of(resolved, here.environ, max_nodes)
    job_id = job_id_of(resolved, here, several=endpoint is not None)
    limits = limits_of(resolved, given_limits_of(resolved, conf.limits))
    serve_here = _serves_here(endpoint, conf.is_host)
    run_dir = _run_dir(resolved, here.environ, job_id, place)
    logs, log_notices = log_plan_of(resolved, LogPlace(endpoint, serve_here, max_nodes, run_dir, place))
    return RunSettings(
        job_id=job_id,
        attempt=attempt_of(resolved, here.environ),
        min_nodes=min_nodes,
        max_nodes=max_nodes,
        nproc_per_node=_workers_here(resolved, here.environ),
        max_restarts=resolved["max_restarts"].value,
        segment=segment_of(resolved, conf.segment, min_nodes),
        no_restart_exit_code=resolved["no_restart_exit_code"].value,
        attribution_stop_action=StopAction(resolved["attribution_stop_action"].value),
        excluding=_excluding_of(resolved),
        strict_fence=resolved["strict_fence"].value,
        entry=entry,
        role=resolved["role"].value,
        node_id=place.node_id,
        host_name=here.host_name,
        infra_rank=place.infra_rank,
        domain=resolved["domain"].value or domain_of(here.environ),
        machine=machine_id_of(here.environ),
        local_addr=resolved["local_addr"].value,
        take_over=resolved["take_over"].value,
        endpoint=endpoint,
        relays=_relays_of(resolved["relay"], endpoint),
        serve_here=serve_here,
        is_id_made_up=job_id == here.run_name,
        job_token=token_of(endpoint, *_relays_of(resolved["relay"], endpoint), environ=here.environ),
        config_path=config,
        limits=limits,
        given_limits=given_limits_of(resolved, conf.limits),
        rank_heartbeat_limit_s=_heartbeat_limit_s(resolved["hang_limit_s"], limits),
        on_lost_control=OnLostControl(resolved["on_lost_control"].value),
        **_policy(resolved),
        signals_to_handle=resolved["signals_to_handle"].value,
        reclaim=_reclaim_of(resolved, limits, here.environ),
        draining=DrainSettings(resolved["drain_signals"].value, resolved["preempted_exit_code"].value),
        warm=warm_of(resolved["warm"], entry, here),
        preload=resolved["preload"].value,
        state_dir=_state_dir(resolved, here.environ, job_id),
        run_dir=run_dir,
        logs=logs,
        log_dir=_path_or_none(resolved["log_dir"]),
        cycle_info_dir=_path_or_none(resolved["cycle_info_dir"]),
        redirects=resolved["redirects"].value,
        tee=resolved["tee"].value,
        local_ranks_filter=resolved["local_ranks_filter"].value,
        python=here.environ.get("PYTHON_EXEC", here.python),
        environ=here.environ,
        notices=(*_notices(resolved, min_nodes, max_nodes, serve_here), *notices, *conf.notices, *log_notices),
    )


def _excluding_of(resolved: Resolved) -> Excluding:
    return Excluding(
        max_share=resolved["max_excluded_share"].value,
        window_s=resolved["exclusion_window_s"].value,
        file=_path_or_none(resolved["exclusion_file"]),
        then=OnExcluded(resolved["on_excluded"].value),
    )


def _reclaim_of(resolved: Resolved, limits: TimeLimits, environ: Mapping[str, str]) -> ReclaimRules | None:
    """How GPU memory is waited for; None without a GPU, without a restart, or at 0 s. Raises UsageProblem."""
    timeout, interval = resolved["gpu_memory_reclaim_timeout"], resolved["gpu_memory_poll_interval"]
    if interval.is_given and interval.value <= 0:
        raise UsageProblem(interval.field, "is 0 s: looks cannot be endless", "Give more than 0 s, or leave it out.")
    if timeout.value >= limits.start_process_group_limit_s:
        problem = f"({timeout.value:g} s) must be shorter than limits.start_process_group_limit_s"
        right = f"Give less than {limits.start_process_group_limit_s:g} s, or raise that limit."
        raise UsageProblem(timeout.field, problem, right)
    if timeout.value == 0 or resolved["max_restarts"].value == 0 or machine.gpu_count(environ) == 0:
        return None
    return ReclaimRules(timeout.value, resolved["gpu_memory_tolerance_mb"].value, interval.value)


def _heartbeat_limit_s(item: Sourced, limits: TimeLimits) -> float | None:
    return None if item.is_given and item.value is None else limits.hang_limit_s


def _policy(resolved: Resolved) -> dict[str, Any]:
    """What is a fault, and what decides whether the job is started again."""
    return {
        "worker_limits": worker_limits_of(resolved),
        "capture_stacks": Captures(resolved["capture_stacks"].value),
        "progress": progress_of(resolved),
        "restarts": restart_rules_of(resolved),
        "checkpoint_marker": _path_or_none(resolved["checkpoint_iteration_file"]),
    }


def prove_directories(resolved: Resolved, settings: RunSettings) -> None:
    """Refuse directories that cannot be written, before anything starts."""
    needs_state = settings.endpoint is None or settings.serve_here or resolved["state_dir"].is_given
    for name, root in (("state_dir", settings.state_dir.parent), ("run_dir", settings.run_dir.parent)):
        if not resolved[name].is_given and (why := machine.why_not_own(root)) is not None:
            raise UsageProblem(resolved[name].field, f"{root} cannot be used: {why}", "Name a directory of your own.")
    logs, state = settings.log_dir, settings.state_dir if needs_state else None
    limit_s = DIRECTORY_LIMIT_S
    if logs is not None and (why := machine.within(limit_s, lambda: machine.why_not_writable(logs))) is not None:
        raise UsageProblem(resolved["log_dir"].field, f"{logs} cannot be used: {why}", "Name one that you may write.")
    prove_log_files(resolved, settings.logs)
    # what a job keeps is nobody else's to read
    if state is not None and (why := machine.why_not_writable(state, 0o700, STATE_ROOM_BYTES)) is not None:
        right = "Name one on a local file system that has room and that you may write."
        raise UsageProblem(resolved["state_dir"].field, f"{state} cannot be used: {why}", right)


def entry_of(resolved: Resolved, command: tuple[str, ...]) -> Entry:
    """The program to run: a script that exists, a module, or a program on the path."""
    is_module, is_program = resolved["module"].value, resolved["no_python"].value
    if is_module and is_program:
        raise UsageProblem("--module", "cannot go with --no-python", "Leave one of them out.")
    if not command:
        raise UsageProblem(
            "training script",
            "is missing",
            "Name it last, its own arguments after it: resurge run train.py --epochs 3.",
        )
    program, args = command[0], command[1:]
    if is_module:
        if not all(part.isidentifier() for part in program.split(".")):
            right = "Give a module as import would, for example package.train."
            raise UsageProblem("training module", f"{program!r} is no module name", right)
        return Entry(EntryKind.MODULE, program, args)
    if is_program:
        if shutil.which(program) is None:
            right = "Give a path to a program that may be executed, or a name that is on PATH."
            raise UsageProblem("program", f"{program!r} cannot be executed", right)
        return Entry(EntryKind.PROGRAM, program, args)
    path = Path(program)
    if path.is_dir():
        raise UsageProblem(
            "training script", f"{program!r} is a directory", "Give the script in it, or a module with -m."
        )
    if not path.is_file():
        near = "" if path.parent.is_dir() else f" ({str(path.parent)!r} does not exist either)"
        right = "Check the path and the working directory; a module goes with -m, another program with --no-python."
        raise UsageProblem("training script", f"{program!r} does not exist{near}", right)
    return Entry(EntryKind.SCRIPT, program, args)


def nproc_of(item: Sourced, environ: Mapping[str, str]) -> int:
    """Workers on this node, words resolved by looking at the machine."""
    match item.value:
        case int() as number:
            return number
        case "cpu":
            return machine.cpu_count()
        case "gpu":
            found = machine.gpu_count(environ)
            if not found:
                raise UsageProblem(item.field, "is gpu, and no GPU is visible here", "Give a number, cpu or auto.")
            return found
        case _:
            return machine.gpu_count(environ) or machine.cpu_count()


def segment_of(resolved: Resolved, from_conf: int | None, min_nodes: int) -> int:
    """The segment; it must divide MIN."""
    item = resolved["segment"]
    segment = from_conf if from_conf is not None and not item.is_given else int(item.value)
    if segment > 1 and min_nodes % segment:
        field = item.field if item.is_given else "segment in --rdzv-conf"
        fitting = [str(n) for n in range(2, min_nodes + 1) if min_nodes % n == 0][:6]
        right = f"Give a divisor of {min_nodes}: {', '.join(fitting)}." if fitting else "Leave it out for one node."
        raise UsageProblem(field, f"{segment} does not divide MIN {min_nodes} of --nnodes", right)
    return segment


def job_id_of(resolved: Resolved, here: Surroundings, several: bool) -> str:
    """The job's name: as given, else Slurm's, else a fresh one on one node, else 'default'."""
    item = resolved["job_id"]
    if item.is_given:
        return str(item.value)
    environ = here.environ
    if environ.get("SLURM_ARRAY_JOB_ID"):
        return f"{environ['SLURM_ARRAY_JOB_ID']}_{environ.get('SLURM_ARRAY_TASK_ID', '0')}"
    if environ.get("SLURM_JOB_ID"):
        return environ["SLURM_JOB_ID"]
    return "default" if several else here.run_name


def attempt_of(resolved: Resolved, environ: Mapping[str, str]) -> int:
    """The scheduler's count of launches, from 1; 0 where no scheduler counts."""
    item = resolved["attempt"]
    if item.is_given:
        return int(item.value)
    restarts = environ.get("SLURM_RESTART_COUNT", "0")
    return int(restarts) + 1 if "SLURM_JOB_ID" in environ and restarts.isdigit() else 0


def given_limits_of(resolved: Resolved, from_conf: Mapping[str, float]) -> dict[str, float]:
    """The time limits that somebody gave, by name; those of --rdzv-conf give way to their own options."""
    given = dict(from_conf)
    for item in resolved.values():
        if item.option.section == "limits" and item.is_given and item.value is not None:
            given[item.option.name] = item.value
    return given


def warm_of(item: Sourced, entry: Entry, here: Surroundings) -> Warm:
    """Whether workers are forked; OFF where that cannot be done, or UsageProblem where it was asked for."""
    wanted = Warm(item.value)
    why = why_never_warm(entry, here.python, here.environ.get("PYTHON_EXEC", here.python))
    if wanted is Warm.ON and why:
        raise UsageProblem(item.field, f"is on, and {why}", "Leave it at auto, or say off.")
    return Warm.OFF if why else wanted


def limits_of(resolved: Resolved, given: Mapping[str, float]) -> TimeLimits:
    """The whole table of time limits, in order. Raises UsageProblem naming two values in a wrong order."""
    try:
        return TimeLimits(**given)
    except WrongOrder as wrong:
        named = ", ".join(item.field for item in resolved.values() if item.option.section == "limits" and item.is_given)
        right = "--print-config shows all of them."
        raise UsageProblem(named or "--rdzv-conf", str(wrong).rstrip("."), right) from None


def token_of(*endpoints: Endpoint | None, environ: Mapping[str, str]) -> str:
    """The job's shared secret; a must where other machines can reach an endpoint."""
    token = environ.get("RESURGE_JOB_TOKEN", "")
    flaw = token_flaw(token)
    if flaw:
        raise UsageProblem("RESURGE_JOB_TOKEN", flaw, "Set it to one line of printable characters.")
    open_to_others = [endpoint for endpoint in endpoints if endpoint is not None and endpoint.needs_token]
    if open_to_others and not token:
        raise UsageProblem(
            "RESURGE_JOB_TOKEN",
            f"is not set, and {open_to_others[0]} can be reached from other machines",
            "Set the variable to one secret on every node, for example the output of `openssl rand -hex 16`.",
        )
    return token


def _relays_of(item: Sourced, endpoint: Endpoint | None) -> tuple[Endpoint, ...]:
    relays: tuple[Endpoint, ...] = item.value or ()
    if relays and endpoint is None:
        raise UsageProblem(item.field, "a relay leads to nowhere", "Give --rdzv-endpoint as well.")
    return relays


def _serves_here(endpoint: Endpoint | None, is_host: bool | None) -> bool:
    if endpoint is None:
        return True
    if is_host is not None:
        return is_host
    return endpoint.names_this_host()


def _state_dir(resolved: Resolved, environ: Mapping[str, str], job_id: str) -> Path:
    item = resolved["state_dir"]
    return Path(item.value).absolute() if item.is_given else machine.state_root(environ) / job_id


def _run_dir(resolved: Resolved, environ: Mapping[str, str], job_id: str, place: NodeIdentity) -> Path:
    item = resolved["run_dir"]
    if item.is_given:
        length = len(os.fsencode(Path(item.value).absolute()))
        if length > RUN_DIR_BYTES:
            problem = (
                f"has {length} bytes, and with more than {RUN_DIR_BYTES} a socket in it has more than the kernel's"
            )
            right = "Name a short one, such as /tmp/run1."
            raise UsageProblem(item.field, f"{problem} {UNIX_PATH_LIMIT} bytes", right)
        return Path(item.value).absolute()
    return machine.run_root(environ) / f"{_short(job_id)}-{_short(place.node_id)}"


def _short(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:10]


def _path_or_none(item: Sourced) -> Path | None:
    return Path(item.value).absolute() if item.value else None


def _workers_here(resolved: Resolved, environ: Mapping[str, str]) -> int:
    """How many; what names single ones must name no others."""
    nproc = nproc_of(resolved["nproc_per_node"], environ)
    _check_streams(resolved, nproc)
    return nproc


def _check_streams(resolved: Resolved, nproc: int) -> None:
    ranks_of = {
        "redirects": resolved["redirects"].value.per_rank,
        "tee": resolved["tee"].value.per_rank,
        "local_ranks_filter": resolved["local_ranks_filter"].value or (),
    }
    for name, ranks in ranks_of.items():
        beyond = sorted(rank for rank in ranks if rank >= nproc)
        if beyond:
            problem = f"names local rank {beyond[0]}, and this node has {nproc} {'worker' if nproc == 1 else 'workers'}"
            raise UsageProblem(resolved[name].field, problem, f"Give ranks from 0 to {nproc - 1}.")


def _notices(resolved: Resolved, min_nodes: int, max_nodes: int, serve_here: bool) -> list[str]:
    notices = []
    if resolved["exclusion_file"].is_given and not serve_here:
        notices.append(
            f"{resolved['exclusion_file'].source} has no effect here: the control plane is started elsewhere, and "
            "takes RESURGE_RENDEZVOUS__EXCLUSION_FILE."
        )
    if max_nodes > min_nodes:
        spares = max_nodes - min_nodes
        notices.append(
            f"--nnodes {min_nodes}:{max_nodes}: {min_nodes} {'node runs' if min_nodes == 1 else 'nodes run'}, "
            f"up to {spares} {'waits as a spare' if spares == 1 else 'wait as spares'}."
        )
    for item in resolved.values():
        if item.is_given and not item.option.has_effect:
            notices.append(
                f"{item.source} is accepted and has no effect: {item.option.help.removeprefix('No effect: ')}"
            )
    backend = resolved["rdzv_backend"]
    if backend.is_given and backend.value != "resurge":
        notices.append(f"{backend.source} {backend.value} is accepted; Resurge's own rendezvous is used.")
    return notices + progress_notices(resolved)
