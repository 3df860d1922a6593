"""How ``run --kubeconfig`` ends: in order, at once on a second signal, or without its lease."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec

from policy_sched.embedded.apiserver.security.authentication import kubeconfig, write_kubeconfig
from policy_sched.http.access import Access
from tests.instance.app.test_cluster_instance import World, node, pod

BOUND = 120.0
"""Seconds after which a test gives up; nothing takes that long."""


class Slow:
    """An API server that holds its answers to bindings back."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answer = asyncio.Event()

    async def before(self, method: str, path: str) -> None:
        """Hold bindings back."""
        if method == "POST" and path.endswith("/binding"):
            self.asked.set()
            await self.answer.wait()


class Scheduler:
    """The process, whose log is read line by line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def until(self, message: str) -> dict[str, str]:
        """Read until a message comes."""
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            record = msgspec.json.decode(line)
            if record["msg"] == message:
                return dict(record)
        raise AssertionError(f"it ended without {message!r}")


@asynccontextmanager
async def started(world: World, folder: Path, *options: str) -> AsyncIterator[Scheduler]:
    """Run the scheduler of a world in a process of its own."""
    path = folder / "kubeconfig"
    write_kubeconfig(str(path), kubeconfig(world.address, Access(), None))
    command = [sys.executable, "-m", "policy_sched", "run", "--kubeconfig", str(path), *options]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    try:
        yield Scheduler(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def acted(play: Callable[[World], Awaitable[None]]) -> None:
    """Run a play."""

    async def timed() -> None:
        async with asyncio.timeout(BOUND):
            await play(World())

    asyncio.run(timed())


async def get(url: str) -> tuple[int, str]:
    """Return status and text of a page."""
    async with aiohttp.ClientSession() as session, session.get(url, ssl=False) as answer:
        return answer.status, await answer.text()


def test_what_was_begun_ends_well_before_the_process_does(tmp_path: Path, port: int) -> None:
    """Ready no more and alive all the same; exit code 0 when the last binding was answered."""

    async def play(world: World) -> None:
        slow = Slow()
        world.before = slow.before
        world.apply(node("a"), pod("p"))
        securely = ("--secure-port", str(port), "--bind-address", "127.0.0.1")
        options = ("--leader-elect=false", *securely)
        async with world.served(), started(world, tmp_path, *options) as scheduler:
            url = (await scheduler.until("Serving securely"))["url"]
            await slow.asked.wait()
            assert await get(f"{url}/readyz") == (200, "ok")
            scheduler.process.send_signal(signal.SIGTERM)
            await scheduler.until("Stopping")
            status, text = await get(f"{url}/readyz")
            assert status == 500
            assert "[-]shutdown failed: reason withheld\n" in text
            assert await get(f"{url}/livez") == (200, "ok")
            slow.answer.set()
            await scheduler.until("Successfully bound pod to node")
            assert await scheduler.process.wait() == 0
            assert world.bound() == {"p": "a"}

    acted(play)


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    """Exit code 1, and a line with the reason, whatever is half done."""

    async def play(world: World) -> None:
        slow = Slow()
        world.before = slow.before
        world.apply(node("a"), pod("p"))
        options = ("--leader-elect=false", "--secure-port", "0")
        async with world.served(), started(world, tmp_path, *options) as scheduler:
            await slow.asked.wait()
            scheduler.process.send_signal(signal.SIGTERM)
            await scheduler.until("Stopping")
            scheduler.process.send_signal(signal.SIGTERM)
            await scheduler.until("Received second signal, exiting immediately")
            assert await scheduler.process.wait() == 1
            slow.answer.set()

    acted(play)


def test_losing_the_lease_ends_it_with_one(tmp_path: Path) -> None:
    """Another holder's name is in the lease: the log and standard error say so, exit code 1."""

    async def play(world: World) -> None:
        world.apply(node("a"))
        times = ("--leader-elect-lease-duration=2s", "--leader-elect-renew-deadline=1s")
        options = (*times, "--leader-elect-retry-period=100ms", "--secure-port", "0")
        async with world.served(), started(world, tmp_path, *options) as scheduler:
            await scheduler.until("Successfully acquired lease")
            world.apply(
                {
                    "apiVersion": "coordination.k8s.io/v1",
                    "kind": "Lease",
                    "metadata": {"name": "policy-sched", "namespace": "kube-system"},
                    "spec": {
                        "holderIdentity": "somebody-else",
                        "leaseDurationSeconds": 60,
                        "acquireTime": "2026-01-01T00:00:00.000000Z",
                        "renewTime": "2126-01-01T00:00:00.000000Z",
                        "leaseTransitions": 7,
                    },
                }
            )
            assert (await scheduler.until("Leaderelection lost"))["level"] == "error"
            assert await scheduler.process.wait() == 1
            assert scheduler.process.stderr is not None
            told = (await scheduler.process.stderr.read()).decode()
            assert told == "policy-sched: the lease is lost; another instance may lead now\n"

    acted(play)
