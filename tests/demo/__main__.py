"""The story: start, five faults, the end, the comparison. Every wait has a limit; what does not hold ends it with 1."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from resurge_libs.testing.wait import NeverHappened
from tests.demo.cluster import (
    BEAT_LIMIT_S,
    CHECKPOINT_EVERY,
    NODES,
    RANKS,
    RANKS_PER_NODE,
    Cluster,
    DemoFailed,
    require,
)
from tests.demo.obstacles import Obstacles
from tests.demo.ranks import Crew

STEPS = 360
STEP_S = 0.1
STEPS_BETWEEN_FAULTS = 50
STEPS_AFTER_CHECKPOINT = 2
"""Faults come this soon after a checkpoint: without a control plane the next one would wait at the fence."""
STEPS_WITHOUT_CONTROL = 10
LOG_TAIL_LINES = 15


class Story:
    """Tells the acts in order and checks what each promises."""

    def __init__(self, cluster: Cluster, obstacles: Obstacles | None = None) -> None:
        self.cluster = cluster
        self.obstacles = obstacles
        self.began_s = time.monotonic()
        self.culprits: list[str] = []
        self.next_step = _after_checkpoint(STEPS_BETWEEN_FAULTS)

    def say(self, sentence: str) -> None:
        """One line with the time since the demo began."""
        print(f"{time.monotonic() - self.began_s:6.1f} s  {sentence}", flush=True)

    def calm(self) -> Crew:
        """Let the training go on to where the next fault is due."""
        crew = self.cluster.wait_for_step(self.next_step)
        self.next_step = _after_checkpoint(crew.step + STEPS_BETWEEN_FAULTS)
        return crew

    def recovered(self, before: Crew, at_s: float) -> Crew:
        """Wait until a newer generation trains, whole and new; say how long it took."""
        after = self.cluster.wait_for_newer(before)
        took_s = time.monotonic() - at_s
        require(not after.pids & before.pids, "a worker of the old generation is counted in the new one")
        require(not [pid for pid in before.pids if _is_alive(pid)], "a worker of the old generation is still alive")
        restored = max(rank.view.checkpoint_restored_step or 0 for rank in after.ranks)
        nodes = " and ".join(sorted(after.nodes))
        self.say(
            f"   all {RANKS} ranks train again on {nodes} after {took_s:.1f} s, from the checkpoint of step {restored}"
        )
        return after

    def start(self) -> None:
        """Control plane, two nodes, a spare."""
        if self.obstacles is not None:
            self.obstacles.before_the_start()
            self.cluster.cycles = self.obstacles.cycles
            self.say("nothing that is written for people can be written: records, reports, traces, output")
        self.cluster.start_control()
        self.cluster.start_launchers()
        nodes = f"{', '.join(NODES)}, one of them a spare"
        self.say(f"control plane at {self.cluster.endpoint}; nodes {nodes}; {RANKS_PER_NODE} ranks each")
        crew = self.cluster.wait_for_step(1, limit_s=90)
        self.say(f"all {RANKS} ranks train on {' and '.join(sorted(crew.nodes))}, {self.cluster.steps} steps to go")
        if self.obstacles is not None:
            self.obstacles.once_it_runs()

    def kill_a_rank(self) -> None:
        """SIGKILL of a rank."""
        before = self.calm()
        victim = before.ranks[-1]
        self.culprits.append(victim.place)
        self.say(f"1. SIGKILL of rank {victim.rank} (pid {victim.pid} on {victim.node}) at step {before.step}")
        at_s = time.monotonic()
        os.kill(victim.pid, signal.SIGKILL)
        self.recovered(before, at_s)

    def freeze_a_rank(self) -> None:
        """SIGSTOP of a rank."""
        before = self.calm()
        victim = before.ranks[1]
        self.culprits.append(victim.place)
        where = f"(pid {victim.pid} on {victim.node})"
        self.say(f"2. SIGSTOP of rank {victim.rank} {where}: no beat for {BEAT_LIMIT_S} s means hung")
        at_s = time.monotonic()
        os.kill(victim.pid, signal.SIGSTOP)
        self.recovered(before, at_s)

    def lose_a_node(self) -> None:
        """SIGKILL of a node's launcher and its workers: the spare takes over."""
        before = self.calm()
        node = max(before.nodes)
        launcher = self.cluster.launchers.pop(node)
        pids = [rank.pid for rank in before.of(node)]
        self.culprits.append(node)
        self.say(f"3. SIGKILL of node {node}: its launcher (pid {launcher.pid}) and its workers {pids}")
        at_s = time.monotonic()
        launcher.kill()
        for pid in pids:
            _kill_if_alive(pid)
        launcher.wait()
        after = self.recovered(before, at_s)
        spare = after.nodes - before.nodes
        require(node not in after.nodes and len(spare) == 1, f"{node} was not replaced: {sorted(after.nodes)}")
        self.say(f"   the spare {next(iter(spare))} took the place of {node}")

    def lose_control(self) -> None:
        """SIGKILL of the control plane while training: no worker stops."""
        before = self.calm()
        self.say(f"4. SIGKILL of the control plane at step {before.step}")
        self.cluster.kill_control()
        without = self.cluster.wait_for_step(before.step + STEPS_WITHOUT_CONTROL)
        require(without.pids == before.pids, "a worker was replaced while the control plane was dead")
        self.say(f"   without it the same {RANKS} processes went on to step {without.step}; it is started again")
        at_s = time.monotonic()
        self.cluster.start_control()
        known = len(self.cluster.recoveries_within(20))
        self.say(f"   back after {time.monotonic() - at_s:.1f} s with all {known} recoveries in its journal")
        after = self.cluster.wait_for_step(without.step + CHECKPOINT_EVERY)
        require(after.pids == before.pids, "a worker was replaced when the control plane came back")
        self.next_step = _after_checkpoint(after.step + STEPS_BETWEEN_FAULTS // 2)

    def lose_control_in_a_recovery(self) -> None:
        """SIGKILL of the control plane between a rank's death and its return."""
        before = self.calm()
        victim = before.ranks[0]
        others = before.pids - {victim.pid}
        self.culprits.append(victim.place)
        self.say(f"5. SIGKILL of rank {victim.rank}, and of the control plane as soon as it has ordered the teardown")
        at_s = time.monotonic()
        os.kill(victim.pid, signal.SIGKILL)
        self.cluster.wait(lambda: not all(map(_is_alive, others)), 20, "the first teardown of a survivor")
        self.cluster.kill_control()
        self.cluster.start_control()
        self.recovered(before, at_s)

    def finish(self) -> str:
        """The rest of the training, and how the launchers end; gives the parameters' fingerprint."""
        codes = self.cluster.wait_for_the_end(60)
        require(set(codes.values()) == {0}, f"launchers ended with {codes}")
        self.say(f"training is done; the launchers of {' and '.join(codes)} ended with 0")
        return self.cluster.fingerprint(*codes)

    def tell_recoveries(self) -> None:
        """The table of recoveries, from the durable records."""
        records = self.cluster.recoveries_within(10)
        print(f"\n{self.cluster.ask('recoveries')}", flush=True)
        require(len(records) == len(self.culprits), f"{len(records)} recoveries are recorded, 4 took place")
        outcomes = [record["outcome"] for record in records]
        require(set(outcomes) == {"recovered"}, f"the recoveries ended as {outcomes}")
        blamed = [record["culprit"] for record in records]
        require(blamed == self.culprits, f"blamed were {blamed}, harmed were {self.culprits}")

    def compare(self, disturbed: str) -> None:
        """Run the same training in peace and compare all parameters."""
        self.say("the same training once more, undisturbed")
        run = self.cluster.start_undisturbed()
        code = run.wait(120)
        require(code == 0, f"the undisturbed run ended with {code}")
        undisturbed = self.cluster.fingerprint("undisturbed")
        require(disturbed == undisturbed, f"parameters differ: {disturbed} after the faults, {undisturbed} undisturbed")
        self.say(f"parameters after {STEPS} steps and 5 faults: bit for bit those of the undisturbed run")
        self.say(f"   sha256 {disturbed}")

    def tell(self) -> None:
        """Everything, in order."""
        self.start()
        self.kill_a_rank()
        self.freeze_a_rank()
        self.lose_a_node()
        self.lose_control()
        self.lose_control_in_a_recovery()
        disturbed = self.finish()
        self.tell_recoveries()
        if self.obstacles is not None:
            self.say("what was said about that:")
            print(*(f"   {sentence}" for sentence in self.obstacles.said()), sep="\n", flush=True)
        self.compare(disturbed)


def _after_checkpoint(step: int) -> int:
    return step // CHECKPOINT_EVERY * CHECKPOINT_EVERY + STEPS_AFTER_CHECKPOINT


def _is_alive(pid: int) -> bool:
    """A zombie is dead: what is left of it waits for its parent to look."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def _kill_if_alive(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _show_logs(folder: Path) -> None:
    for log in sorted(folder.glob("*.log")):
        lines = log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        print(f"-- end of {log}", *lines, sep="\n", file=sys.stderr)


def main() -> int:
    """Tell the story in a temporary folder; it is kept when the story fails, or when that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="keep logs, journal and checkpoints")
    parser.add_argument("--unwritable", action="store_true", help="let no record, report or log be written")
    told = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="resurge-demo-"))
    cluster = Cluster(folder, STEPS, STEP_S)
    failure = ""
    try:
        Story(cluster, Obstacles(folder) if told.unwritable else None).tell()
    except (DemoFailed, NeverHappened, OSError, ValueError) as error:
        failure = str(error)
    finally:
        orphans = cluster.end()
    if orphans and not failure:
        failure = f"workers outlived their launchers: {orphans}"
    if failure:
        _show_logs(folder)
        print(f"demo: failed: {failure}\ndemo: everything is in {folder}", file=sys.stderr)
        return 1
    if told.keep:
        print(f"demo: everything is in {folder}")
    else:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
