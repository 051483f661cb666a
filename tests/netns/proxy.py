"""A TCP proxy that passes everything on, later: what a long way between two hosts is to a connection."""

from __future__ import annotations

import asyncio
import sys

CHUNK_BYTES = 65536


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    """One direction: every chunk, and the end, leaves `delay_s` after it came; the order stays."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def collect() -> None:
        data = b"-"
        while data:
            data = await reader.read(CHUNK_BYTES)
            waiting.put_nowait((loop.time() + delay_s, data))

    collecting = asyncio.create_task(collect())
    try:
        while True:
            due, data = await waiting.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not data:
                break
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        collecting.cancel()
        writer.close()


async def serve(listen: tuple[str, int], target: tuple[str, int], delay_s: float) -> asyncio.Server:
    """Start passing connections on to the target, each way `delay_s` late."""

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(*target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(
            _carry(reader, far_writer, delay_s), _carry(far_reader, writer, delay_s), return_exceptions=True
        )

    return await asyncio.start_server(pass_on, *listen)


async def main() -> None:
    """`python -m tests.netns.proxy LISTEN_PORT TARGET_HOST TARGET_PORT DELAY_S`, until it is ended."""
    port, host, target_port, delay_s = sys.argv[1:5]
    server = await serve(("0.0.0.0", int(port)), (host, int(target_port)), float(delay_s))
    print("proxy ready", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
