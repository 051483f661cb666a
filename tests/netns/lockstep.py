"""A training script without torch: ranks that commit one step after the other, together, until a file says stop.

    lockstep.py FOLDER STEP_SECONDS [unfenced]

As in a collective, a rank that hears nothing from the others waits. Rank 0 commits the checkpoint behind the fence,
unless told not to.
Each rank says its process id in FOLDER/pid-<generation>-<rank>.
"""

import os
import socket
import sys
import threading
import time
from pathlib import Path

import resurge

CHECKPOINT_EVERY = 10
GO, END = b"g", b"e"
CONNECT_LIMIT_S = 30.0


def gather(host, published, world_size):
    """Rank 0: one connection of every other rank. MASTER_PORT may be taken by the store of the launcher."""
    server = socket.create_server((host, 0), backlog=world_size)
    fresh = published.with_suffix(".new")
    fresh.write_text(str(server.getsockname()[1]))
    os.replace(fresh, published)
    return [server.accept()[0] for _ in range(world_size - 1)]


def join(host, published, pause):
    """Any other rank: the connection to rank 0, which may not listen yet."""
    until = time.monotonic() + CONNECT_LIMIT_S
    while True:
        try:
            peer = socket.create_connection((host, int(published.read_text())), timeout=2)
        except OSError:
            if time.monotonic() > until:
                raise
            pause(0.02)
        else:
            peer.settimeout(None)
            return [peer]


def heard(peer):
    """One byte, or the end of the peer."""
    byte = peer.recv(1)
    if not byte:
        raise SystemExit("a peer is gone")
    return byte


def together(rank, peers, word):
    """All ranks meet; everyone gets rank 0's word."""
    if rank:
        peers[0].sendall(GO)
        return heard(peers[0])
    for peer in peers:
        heard(peer)
    for peer in peers:
        peer.sendall(word)
    return word


def main():
    """Steps until the file `stop` is there."""
    folder, step_s = Path(sys.argv[1]), float(sys.argv[2])
    pause = threading.Event().wait
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    host = os.environ["MASTER_ADDR"]
    checkpoint = folder / "checkpoint"
    with resurge.session(beat_limit=60) as session:
        published = folder / f"port-{session.generation}"
        peers = join(host, published, pause) if rank else gather(host, published, world_size)
        session.process_group_ready()
        (folder / f"pid-{session.generation}-{rank}").write_text(f"{os.getpid()}\n")
        step = int(checkpoint.read_text()) if checkpoint.exists() else 0
        session.checkpoint_restored(step)
        word = GO
        while word == GO:
            session.beat()
            word = together(rank, peers, END if (folder / "stop").exists() else GO)
            step += 1
            session.step_committed(step)
            if rank == 0 and step % CHECKPOINT_EVERY == 0:
                fresh = folder / f"checkpoint.{session.generation}"
                fresh.write_text(str(step))
                if sys.argv[3:] != ["unfenced"]:
                    session.fence()
                os.replace(fresh, checkpoint)
            pause(step_s)


if __name__ == "__main__":
    main()
