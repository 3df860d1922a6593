"""A server that ends leaves no connection half accepted."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tests.accepting import stop_accepting


@pytest.mark.parametrize("turns", range(5))
def test_whom_the_server_accepted_its_protocol_hears_of(turns: int) -> None:
    """A connection is made, or still waits in the system, which ends it with the socket."""
    made: list[asyncio.BaseTransport] = []

    class Protocol(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made.append(transport)

    async def play() -> None:
        server = await asyncio.get_running_loop().create_server(Protocol, "127.0.0.1", 0)
        with socket.create_connection(server.sockets[0].getsockname()) as client:
            for _ in range(turns):
                await asyncio.sleep(0)
            await stop_accepting(server)
            server.close()
            for transport in made:
                transport.close()
            client.setblocking(False)
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(60):
                try:
                    assert await loop.sock_recv(client, 1) == b""
                except ConnectionResetError:
                    assert not made

    asyncio.run(play())
