"""Accepting: silent TLS clients do not lock others out."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
import time

from policy_sched.http.connections import Acceptor
from policy_sched.instance.http.listener import self_signed, server_context

MANY = 40


class Echo(asyncio.Protocol):
    """Sends back what comes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Send it back."""
        self.transport.write(data)


def test_the_oldest_handshake_gives_way() -> None:
    """Forty clients that begin no handshake do not keep out the one that does."""
    certificate, key = self_signed(["localhost", "127.0.0.1"], time.time_ns())
    believed = ssl.create_default_context(cadata=certificate.decode())

    async def run() -> None:
        acceptor = Acceptor(Echo, server_context(certificate, key), lambda: False, most=4)
        await acceptor.listen("127.0.0.1", 0)
        quiet = [await asyncio.open_connection("127.0.0.1", acceptor.port) for _ in range(MANY)]
        reader, writer = await asyncio.open_connection("127.0.0.1", acceptor.port, ssl=believed)
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        assert acceptor.greeting < MANY
        await acceptor.close()
        assert acceptor.greeting == 0
        for _, item in (*quiet, (reader, writer)):
            item.close()

    asyncio.run(run())


SHORT = """
import asyncio, resource
from policy_sched.http.connections import Acceptor
from tests.http.test_accepting import Echo

class Kept(Echo):
    held = []
    def connection_made(self, transport):
        super().connection_made(transport)
        self.held.append(transport)

def spare():
    Kept.held.pop(0).abort()
    return True

async def run():
    acceptor = Acceptor(Kept, None, spare)
    await acceptor.listen("127.0.0.1", 0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (30, 30))
    print(acceptor.port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, input)
    await acceptor.close()

asyncio.run(run())
"""


def test_a_process_without_file_descriptors_closes_what_it_can_spare() -> None:
    """It stopped to accept for as long as idle clients stayed."""

    async def play(port: int) -> None:
        pairs = [await asyncio.open_connection("127.0.0.1", port) for _ in range(MANY)]
        reader, writer = pairs[-1]
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        for _, pair in pairs:
            pair.close()

    command = [sys.executable, "-c", SHORT]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        asyncio.run(play(int(process.stdout.readline())))
        _, said = process.communicate("\n", timeout=60)
    assert (process.returncode, said) == (0, "")
