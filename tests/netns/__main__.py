"""`make netns`: every cell in order, people's text, and one JSON object as the last line."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from resurge_libs.testing.wait import NeverHappened
from tests.netns import cells, namespaces
from tests.netns.world import LOCKSTEP, STEP_S, CellFailed, Training, World

DIGITS = Path(__file__).parents[2] / "worker_sdk" / "examples" / "digits" / "train.py"
LIMIT_FLAGS = ("--hang-limit", str(cells.HANG_LIMIT_S))
WITHOUT_TORCH = (*LIMIT_FLAGS, "--warm", "off")
"""The training without torch starts no slower without a fork server that would import it."""
DELAY_S = "0.15"
LOG_TAIL_LINES = 15
PROBLEMS = (CellFailed, NeverHappened, namespaces.NetworkRefused, OSError, ValueError, subprocess.TimeoutExpired)


@dataclass(slots=True)
class Told:
    """What was seen so far."""

    done: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    figures: dict[str, dict[str, float]] = field(default_factory=dict)

    def worst(self) -> dict[str, object] | None:
        """The figure that came nearest to its bound."""
        shares = [
            (value / cells.BOUNDS[name], f"{cell}.{name}", value)
            for cell, figures in self.figures.items()
            for name, value in figures.items()
        ]
        if not shares:
            return None
        _, name, value = max(shares)
        return {"name": name, "figure": round(value, 2), "bound": cells.BOUNDS[name.split(".")[1]]}


def run_cell(world: World, cell: cells.Cell, told: Told) -> bool:
    """One cell in this world; whether the world can serve the next one."""
    name = cell.__name__
    told.done += 1
    began_s = time.monotonic()
    try:
        figures = cell(world)
    except PROBLEMS as problem:
        told.failed.append(name)
        print(f"FAILED  {name}: {problem}", flush=True)
        _show_logs(world)
        return False
    told.figures[name] = figures
    over = [f"{key} is over {cells.BOUNDS[key]:g}" for key, value in figures.items() if value > cells.BOUNDS[key]]
    if over:
        told.failed.append(name)
    shown = "  ".join(f"{key} {value:.2f}" for key, value in figures.items()) or "nothing happened, as it should"
    took_s = time.monotonic() - began_s
    print(f"{'FAILED' if over else 'ok':7} {name}: {shown}  ({took_s:.0f} s) {'; '.join(over)}", flush=True)
    return True


@contextmanager
def started(training: Training) -> Iterator[World]:
    """A world that is ended and removed after the block."""
    world = World(training)
    try:
        world.start()
        yield world
    finally:
        world.end()
        world.forget()


def run_all(told: Told, training: Training, wanted: tuple[cells.Cell, ...]) -> None:
    """These cells, one after the other in one world; after a failure the rest in a fresh one."""
    waiting = list(wanted)
    while waiting:
        with started(training) as world:
            sound = True
            while waiting and sound:
                sound = run_cell(world, waiting.pop(0), told)
            if sound:
                _finish(world, told)


def _finish(world: World, told: Told) -> None:
    try:
        world.finish()
    except PROBLEMS as problem:
        told.failed.append("finish")
        print(f"FAILED  finish: {problem}", flush=True)
        _show_logs(world)


def _show_logs(world: World) -> None:
    for name in world.processes:
        lines = world.log(name).splitlines()[-LOG_TAIL_LINES:]
        print(f"-- end of the log of {name}", *lines, sep="\n", file=sys.stderr)


# -- the worlds that need something of their own


def with_delay(told: Told) -> None:
    """A proxy on the control plane's host stands between it and the launchers."""
    with started(Training(flags=WITHOUT_TORCH, proxy_delay_s=DELAY_S)) as world:
        if run_cell(world, cells.delay, told):
            _finish(world, told)


def with_one_member(told: Told) -> None:
    """One node trains, two are spares, and the training commits without the fence."""
    script = (str(LOCKSTEP), "{folder}", STEP_S, "unfenced")
    with started(Training(WITHOUT_TORCH, min_nodes=1, script=script)) as world:
        if run_cell(world, cells.deaf_member, told):
            _finish(world, told)


def with_silent_dns(told: Told) -> None:
    """Every node's name server is an address that takes questions and answers none."""
    if (reason := _why_no_torch()) is not None:
        told.skipped["silent_dns"] = reason
        return
    script = (str(DIGITS), "--steps", "1000000", "--step-seconds", "0.1", "--checkpoint-dir", "{folder}/checkpoints")
    # gloo would ask for the address of its host's name, and no launcher can know the interface that is meant
    interface = (("GLOO_SOCKET_IFNAME", "eth0"),)
    training = Training(LIMIT_FLAGS, script=script, environment=interface, silent_name_server=True)
    with started(training) as world:
        run_cell(world, cells.silent_dns, told)


def _why_no_torch() -> str | None:
    missing = [name for name in ("torch", "sklearn") if importlib.util.find_spec(name) is None]
    return f"{' and '.join(missing)} not installed" if missing else None


# -- the whole


WITHOUT_LOSS: tuple[cells.Cell, ...] = (cells.link_down, cells.short_outage, cells.long_outage)
WITH_LOSS: tuple[cells.Cell, ...] = (cells.lost_to_control, cells.lost_from_control, cells.loss_of_5_percent)
SHORT: tuple[cells.Cell, ...] = (cells.link_down, cells.lost_to_control)


def tell(short: bool) -> int:
    """Run the cells; gives the exit code. Without the rights for it nothing is run and the reason is told."""
    told = Told()
    load = os.getloadavg()[0]
    training = Training(flags=WITHOUT_TORCH)
    if (reason := namespaces.why_not()) is not None:
        told.skipped["all"] = reason
    else:
        wanted = SHORT if short else (*WITHOUT_LOSS, *WITH_LOSS)
        if (reason := namespaces.why_no_loss()) is not None:
            told.skipped |= {cell.__name__: reason for cell in wanted if cell in WITH_LOSS}
            wanted = tuple(cell for cell in wanted if cell not in WITH_LOSS)
        run_all(told, training, wanted)
        if not short:
            with_delay(told)
            if namespaces.why_no_loss() is None:
                with_one_member(told)
            with_silent_dns(told)
    for name, reason in told.skipped.items():
        print(f"skipped {name}: {reason}")
    print(json.dumps(_summary(told, load)))
    return 1 if told.failed else 0


def _summary(told: Told, load: float) -> dict[str, object]:
    figures = {cell: {name: round(value, 3) for name, value in each.items()} for cell, each in told.figures.items()}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "cells": told.done,
        "failed": len(told.failed),
        "worst": told.worst(),
        "figures": figures,
        "failed_cells": told.failed,
        "notes": told.skipped,
        "load": round(load, 2),
        "cores": os.cpu_count(),
        "commit": commit.stdout.strip() or None,
    }


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.netns", description=__doc__)
    parser.add_argument("--short", action="store_true", help="only a pulled cable and one-way loss: under a minute")
    return tell(parser.parse_args().short)


if __name__ == "__main__":
    sys.exit(main())
