"""`python -m resurge_host.head_start FD ...`: as `resurge_host`, begun before it is known whether it is wanted.

It makes its imports and then waits on that socket for the word to begin, which brings the descriptor to write its log
to. A socket that closes without it ends the process: nothing was claimed, bound or written.
"""

import os
import socket
import sys

from resurge_host.program import serve

WORD_BYTES = 16
STREAMS = (1, 2)


def main() -> None:
    """Wait, then serve."""
    with socket.socket(fileno=int(sys.argv.pop(1))) as channel:
        try:
            word, outputs, _, _ = socket.recv_fds(channel, WORD_BYTES, 1)
        except OSError:
            word, outputs = b"", []
    if not word or not outputs:
        return
    for stream in STREAMS:
        os.dup2(outputs[0], stream)
    os.close(outputs[0])
    serve()


if __name__ == "__main__":
    main()
