"""The published peer's log server under 16 streams of ready-made chunks; runs in the peer's environment.

    PYTHONPATH=<peer> <peer's python> peer_log_clients.py FOLDER TOTAL_MB

The last line is JSON: mb_per_s, from the first chunk until the file has every byte.
"""

import json
import multiprocessing
import select
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

SERVER = "nvidia_resiliency_ext.shared_utils.grpc_log_server"
STREAMS, PROCESSES = 16, 2
LINE_BYTES = 100
CHUNK_LINES = 655  # 64 KiB, as its own client reads from a pipe
LIMIT_S = 240.0


def wait(condition, what):
    """Until the condition holds."""
    until = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > until:
            sys.exit(f"{what} did not come")
        select.select([], [], [], 0.01)


def listens(port):
    """Whether somebody does."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def send(port, path, streams, chunks, begin):
    """Streams of one process."""
    import grpc
    from nvidia_resiliency_ext.shared_utils.proto import log_aggregation_pb2 as pb
    from nvidia_resiliency_ext.shared_utils.proto import log_aggregation_pb2_grpc as stubs

    def stream(number):
        line = b"%5d: " % number
        data = (line + b"x" * (LINE_BYTES - len(line) - 1) + b"\n") * CHUNK_LINES
        with grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.use_local_subchannel_pool", 1)]) as channel:
            grpc.channel_ready_future(channel).result(60)
            begin.wait()
            stub = stubs.LogAggregationServiceStub(channel)
            stub.StreamLogs(pb.LogChunk(node_id=str(number), data=data, file_path=path) for _ in range(chunks))

    threads = [threading.Thread(target=stream, args=(number,)) for number in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main():
    """Serve, send, wait for the file."""
    folder, total_mb = Path(sys.argv[1]), float(sys.argv[2])
    path = folder / "out_cycle0.log"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [sys.executable, "-m", SERVER, "--port", str(port), "--max-workers", "32"]
    words += ["--graceful-shutdown-timeout", "2", "--allowed-root", str(folder)]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    chunks = max(1, int(total_mb * 1e6 / STREAMS / (CHUNK_LINES * LINE_BYTES)))
    want = chunks * STREAMS * CHUNK_LINES * LINE_BYTES
    context = multiprocessing.get_context("spawn")
    begin = context.Barrier(STREAMS + 1)
    parts = [range(index, STREAMS, PROCESSES) for index in range(PROCESSES)]
    senders = [context.Process(target=send, args=(port, str(path), part, chunks, begin)) for part in parts]
    try:
        wait(lambda: listens(port), "its log server")
        for sender in senders:
            sender.start()
        begin.wait(120)
        began = time.monotonic()
        wait(lambda: path.exists() and path.stat().st_size >= want, "the last byte")
        took_s = time.monotonic() - began
    finally:
        for sender in senders:
            sender.kill()
        server.kill()
        server.wait()
    print(json.dumps({"mb_per_s": round(want / took_s / 1e6, 1)}))


if __name__ == "__main__":
    main()
