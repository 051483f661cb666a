"""The proxy passes everything on, late, in order, and closes what was closed."""

import asyncio

from tests.netns.proxy import serve

DELAY_S = 0.05


async def test_bytes_arrive_in_order_and_late_both_ways():
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(6))
        await writer.drain()
        writer.close()

    far = await asyncio.start_server(echo, "127.0.0.1", 0)
    near = await serve(("127.0.0.1", 0), far.sockets[0].getsockname(), DELAY_S)
    loop = asyncio.get_running_loop()
    began = loop.time()
    reader, writer = await asyncio.open_connection(*near.sockets[0].getsockname())
    writer.write(b"abc")
    writer.write(b"def")
    assert await asyncio.wait_for(reader.read(), 10) == b"abcdef"
    assert loop.time() - began >= 2 * DELAY_S
    writer.close()
    near.close()
    far.close()


async def test_a_target_that_is_not_there_closes_the_connection():
    free = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    nobody = free.sockets[0].getsockname()
    free.close()
    await free.wait_closed()
    near = await serve(("127.0.0.1", 0), nobody, DELAY_S)
    reader, _ = await asyncio.open_connection(*near.sockets[0].getsockname())
    assert await asyncio.wait_for(reader.read(), 10) == b""
    near.close()
