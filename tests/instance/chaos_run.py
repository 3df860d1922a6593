"""Two schedulers on an API server that is killed, fails, cuts watches, and does not answer.

The server is a process of its own with durable data (`chaos_server`): it is killed and restarted,
every tenth request fails, watches are cut. Meanwhile leases are stolen, schedulers crash,
and their wall clocks jump. Pods are created and deleted all the time, preemptors and gangs among
them (`chaos_world`). From the server's record (`chaos_history`) follows whether a pod was bound
twice or lost, and whether a node was overcommitted; and how long
it took until pods were bound again after each disaster. In the end the caches of both schedulers,
the leader and the standby, agree with the server about all pods.

A recovery takes two retry periods of the election at most, although every tenth request fails.

Run by hand: python -m tests.instance.chaos_run 180 [SEED]; the same seed gives the same disasters.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from bisect import bisect_left
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from policy_sched.client.kube.auth.credentials import ClusterAccess
from policy_sched.client.kube.rest.client import Api
from policy_sched.client.kube.rest.retry import RetryPolicy
from policy_sched.client.kube.rest.settings import ClientEnvironment, Settings
from policy_sched.client.kube.time.work_queue import Clocks
from tests.instance import chaos_world
from tests.instance.chaos_actor import RECOVERY, TIMES, Actor
from tests.instance.chaos_history import Findings, lines_of, read
from tests.instance.chaos_server import CALM

NEVER = 60.0
"""Seconds after which no disaster begins."""
AGREEING = 4 * RECOVERY
"""Seconds in which caches must agree with the server at the end."""


@dataclass(frozen=True)
class Disaster:
    """An event after so many seconds; ``size`` is seconds as well."""

    at: float
    kind: str
    victim: int = 0
    size: float = 0.0


@dataclass(frozen=True)
class Period:
    """When a disaster began and was over, in nanoseconds since 1970."""

    disaster: Disaster
    start: int
    over: int


def disasters(seed: int, seconds: float) -> list[Disaster]:
    """Return the disasters, which follow from the seed alone."""
    chance, at, found = Random(seed), 1.0, []
    while at < seconds:
        kind = chance.choice(("kill", "kill", "steal", "crash", "jump", "jump"))
        longest = chance.choice((2.5, 2.5, 2.5, 6.0))  # some outages outlast the lease
        size = chance.uniform(0, longest) if kind == "kill" else chance.uniform(-7200, 7200)
        found.append(Disaster(at, kind, chance.randrange(2), size))
        at += chance.uniform(1.0, 4.0)
    return found


class Server:
    """The API server's process."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.history = folder / "history.jsonl"
        self.port = 0
        self._data = folder / "cluster.db"
        self._seed = seed
        self._lives = 0
        self._process: subprocess.Popen[str] | None = None

    async def start(self) -> None:
        """Start it, at the same port each time, and wait until it listens."""
        command = [sys.executable, "-m", "tests.instance.chaos_server", str(self._data)]
        command += [str(self.history), str(self.port), str(self._seed), str(self._lives)]
        self._lives += 1
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._process = process
        assert process.stdout is not None
        line = await asyncio.to_thread(process.stdout.readline)
        self.port = int(line)

    def kill(self) -> None:
        """Kill it."""
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


@dataclass
class Report:
    """The result: ``pauses`` by disaster, in seconds until a pod was bound again.

    ``agreed``: seconds after the last binding until leader and standby agreed with the server.
    """

    findings: Findings
    made: int
    evicted: int
    lost: list[str]
    pauses: list[tuple[Disaster, float]]
    calm: float
    agreed: float
    lives: int

    @property
    def slow(self) -> bool:
        """Whether a recovery took too long, or the agreement of the caches at the end."""
        return any(pause > RECOVERY for _, pause in self.pauses) or self.agreed > AGREEING

    def __str__(self) -> str:
        worst = sorted(self.pauses, key=lambda one: one[1])[-3:]
        soon = sum(pause <= RECOVERY for _, pause in self.pauses)
        slowest = ", ".join(f"{one.kind} at {one.at:.1f} s: {pause:.2f} s" for one, pause in worst)
        return (
            f"{self.made} pods, {self.findings.bindings} bindings, {self.evicted} evictions,"
            f" {len(self.pauses)} disasters, {self.lives} lives of schedulers;"
            f" {soon} recoveries within {RECOVERY:.1f} s,"
            f" the slowest: {slowest or 'none'};"
            f" all bound {self.calm:.2f} s after the last one,"
            f" known everywhere {self.agreed:.2f} s later; wrong: {self.findings.wrong[:5]};"
            f" lost: {self.lost[:5]}"
        )


@asynccontextmanager
async def _tasks(*works: Any) -> AsyncIterator[None]:
    """Run tasks in the background; an exception ends the run."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work) for work in works]
        yield
        for task in tasks:
            task.cancel()


async def play(folder: Path, seconds: float, seed: int) -> Report:
    """Run all disasters; return the report."""
    server = Server(folder, seed)
    await server.start()
    url = f"http://127.0.0.1:{server.port}"
    clocks = Clocks(time.time_ns, time.monotonic_ns)
    settings = Settings(qps=0, timeout=5.0, retry_policy=RetryPolicy(tries=1000))
    access = ClusterAccess(url, headers=((CALM, "yes"),))
    ended: list[Period] = []
    try:
        environment = ClientEnvironment(clocks, Random(seed), _impatient)
        async with Api(access, environment, settings) as api:
            world = chaos_world.World(api, Random(seed))
            await world.prepare()
            actors = [Actor("a", url), Actor("b", url)]
            async with _tasks(*(actor.live() for actor in actors)):
                async with asyncio.TaskGroup() as group:
                    group.create_task(world.come_and_go())
                    await _destroy(server, world, actors, disasters(seed, seconds), ended)
                    world.enough = True
                calm = await _settle(world)
                agreed = await _agree(world, actors)
        findings = read(lines_of(server.history))
    finally:
        server.kill()
    there = {line["name"] for line in findings.pods.values()}
    gone = world.names - there - world.taken
    evicted = {name for name in gone & findings.were_bound if name.startswith(chaos_world.VICTIM)}
    lost = sorted(gone - evicted)
    lost += sorted(line["name"] for line in findings.pods.values() if not line["node"])
    pauses = _pauses(ended, sorted(findings.bound_at[chaos_world.PROBE]))
    lives = sum(actor.lives for actor in actors)
    return Report(findings, len(world.names), len(evicted), lost, pauses, calm, agreed, lives)


async def _impatient(seconds: float) -> None:
    """Sleep for a short time, so that pods are created as soon as a server runs again."""
    await asyncio.sleep(min(seconds, 0.1))


async def _destroy(
    server: Server,
    world: chaos_world.World,
    actors: list[Actor],
    plan: list[Disaster],
    ended: list[Period],
) -> None:
    """Run disasters at their times, and record when each began and was over."""
    began = time.monotonic()
    for disaster in plan:
        await asyncio.sleep(max(0.0, began + disaster.at - time.monotonic()))
        actor, over, start = actors[disaster.victim], 0.0, time.time_ns()
        if disaster.kind == "kill":
            server.kill()
            await asyncio.sleep(disaster.size)
            await server.start()
        elif disaster.kind == "steal":
            await world.steal()
            over = chaos_world.STOLEN
        elif disaster.kind == "crash":
            actor.crash()
            over = TIMES.lease_duration
        else:
            actor.jump(disaster.size)
        ended.append(Period(disaster, start, time.time_ns() + round(over * 1e9)))
    left = max((one.over for one in ended), default=0) - time.time_ns()
    await asyncio.sleep(max(0.0, left / 1e9) + RECOVERY)


async def _settle(world: chaos_world.World) -> float:
    """Wait until all pods are bound; return the seconds."""
    began = time.monotonic()
    await world.calm()
    while not all(pod["spec"].get("nodeName") for pod in await world.pods()):
        await asyncio.sleep(0.02)
    return time.monotonic() - began


async def _agree(world: chaos_world.World, actors: list[Actor]) -> float:
    """Wait until leader and standby agree with the server; return the seconds.

    Raises TimeoutError if they never do.
    """
    began = time.monotonic()
    async with asyncio.timeout(NEVER):
        for actor in actors:
            while True:
                pods = {
                    pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in await world.pods()
                }
                if actor.believes() == pods:
                    break
                await asyncio.sleep(0.05)
    return time.monotonic() - began


def _pauses(ended: list[Period], bound_at: list[int]) -> list[tuple[Disaster, float]]:
    """Return the time from each disaster to the next bound probe.

    If others came before that, the time counts from the end of the last of them.
    """
    found = []
    for period in ended:
        index = bisect_left(bound_at, period.over)
        if index == len(bound_at):
            continue
        bound = bound_at[index]
        over = max(one.over for one in ended if one.start < bound)
        found.append((period.disaster, max(0, bound - over) / 1e9))
    return found


def run(seconds: float, seed: int) -> Report:
    """Run for so many seconds. Raises ClusterError if the server is unreachable for very long."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(play(Path(folder), seconds, seed))


def main() -> None:
    """Run for the seconds of the first argument; the second is the seed."""
    seconds = float(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns() % 100_000
    print(f"seed {seed}: {len(disasters(seed, seconds))} disasters", flush=True)  # noqa: T201
    report = run(seconds, seed)
    print(report)  # noqa: T201
    sys.exit(bool(report.findings.wrong or report.lost or report.slow))


if __name__ == "__main__":
    main()
