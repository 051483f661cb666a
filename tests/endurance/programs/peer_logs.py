"""The published peer's log funnel under kills of its root: writers, its reader thread, its server, in its environment.

    PYTHONPATH=<peer> <peer's python> peer_logs.py [--kills 4] [--lines 120000] [--seed 1]

The last line is JSON: kills, written, got, lost.
"""

import argparse
import json
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WRITER = """
import os, sys, time
begun, rate = time.monotonic(), float(sys.argv[2])
for number in range(int(sys.argv[1])):
    os.write(1, b"line %d\\n" % number)
    if number % 50 == 0:
        time.sleep(max(0.0, begun + number / rate - time.monotonic()))
"""
SERVER = "nvidia_resiliency_ext.shared_utils.grpc_log_server"
WRITERS = 2
QUIET_S = 8.0
"""After so long without growth nothing more is expected in the file."""


def serve(port, folder, log):
    """Its root; back once it listens."""
    words = [sys.executable, "-m", SERVER, "--port", str(port), "--graceful-shutdown-timeout", "2"]
    words += ["--allowed-root", str(folder)]
    process = subprocess.Popen(words, stdout=log, stderr=log)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return process
        time.sleep(0.05)
    process.kill()
    raise SystemExit("its log server does not listen")


def main():
    """Write, kill, count."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--lines", type=int, default=60_000, help="of each writer")
    parser.add_argument("--rate", type=float, default=4_000, help="lines a second of each writer")
    parser.add_argument("--seed", type=int, default=1)
    told = parser.parse_args()
    from nvidia_resiliency_ext.fault_tolerance import per_cycle_logs

    chance, folder = random.Random(told.seed), Path(tempfile.mkdtemp(prefix="peer-logs-"))
    path = folder / "out_cycle0.log"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = (folder / "server.log").open("ab")
    server = serve(port, folder, log)
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(told.lines), str(told.rate)], stdout=subprocess.PIPE, stderr=log
        )
        for _ in range(WRITERS)
    ]
    reader = per_cycle_logs.MultiplexingReaderThread(
        pipes={rank: writer.stdout.fileno() for rank, writer in enumerate(writers)},
        log_file_path=str(path), world_size=WRITERS, local_to_global_rank={rank: rank for rank in range(WRITERS)},
        grpc_config=(f"localhost:{port}", "node"),
    )  # fmt: skip
    reader.start()
    try:
        until = time.monotonic() + 20
        while not path.exists() and time.monotonic() < until:
            time.sleep(0.05)
        for _ in range(told.kills):
            time.sleep(chance.uniform(0.8, 2.0))
            server.kill()
            server.wait()
            time.sleep(chance.uniform(0.0, 1.0))
            server = serve(port, folder, log)
        for writer in writers:
            writer.wait()
        size, since = -1, time.monotonic()
        while time.monotonic() - since < QUIET_S:
            now = path.stat().st_size if path.exists() else 0
            if now != size:
                size, since = now, time.monotonic()
            time.sleep(0.1)
        got = len(set(path.read_bytes().splitlines())) if path.exists() else 0
        reader.shutdown()
        reader.join(30)
    finally:
        server.kill()
        server.wait()
        for writer in writers:
            writer.kill()
            writer.wait()
        log.close()
        shutil.rmtree(folder, ignore_errors=True)
    written = told.lines * WRITERS
    print(json.dumps({"kills": told.kills, "written": written, "got": got, "lost": written - got}))


if __name__ == "__main__":
    main()
