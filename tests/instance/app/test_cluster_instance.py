"""A scheduler behind a real socket: bindings, handover, and an API server that restarts."""

from __future__ import annotations

import asyncio
import socket
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any, TypeVar

from aiohttp import web

from policy_sched.client.apimachinery.object import Key
from policy_sched.client.apimachinery.resources import EVENT, POD
from policy_sched.client.kube.auth.credentials import ClusterAccess
from policy_sched.client.kube.cache.reflector import ReflectorSettings
from policy_sched.client.kube.leaderelection.state_machine import Election, ElectionSettings
from policy_sched.client.kube.rest.client import Api
from policy_sched.client.kube.rest.retry import RetryPolicy
from policy_sched.client.kube.rest.settings import ClientEnvironment, Settings
from policy_sched.client.kube.time.work_queue import BackoffSchedule, Clocks
from policy_sched.embedded.apiserver.endpoints.server import ApiServer
from policy_sched.embedded.cluster import EmbeddedCluster
from policy_sched.http.access import Address
from policy_sched.instance.app.cluster_instance import Candidacy, ClusterInstance
from policy_sched.instance.observability.log import Record
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.profiles.reload.store import PolicyStore

T = TypeVar("T")
CLOCKS = Clocks(time.time_ns, time.monotonic_ns)
LIMIT = 60.0
"""Seconds for a test: a busy machine is slow, nothing hangs."""
PATIENT = ElectionSettings(lease_duration=10.0, renew_deadline=8.0, retry_period=0.05)
WATCHING = ReflectorSettings(backoff=BackoffSchedule(first=0.01, longest=0.05))


class Meddled(ApiServer):
    """A server that lets a test act before a request is handled, and before it is answered."""

    before: Callable[[str, str], Awaitable[None]] | None = None
    after: Callable[[str, str], Awaitable[None]] | None = None

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if self.before is not None:
            await self.before(request.method, request.path)
        response = await super()._handle(request)
        if self.after is not None:
            await self.after(request.method, request.path)
        return response


class World:
    """A served embedded cluster, and the schedulers that are its clients.

    ``before`` is called with method and path of each request before it is handled, ``after`` before
    it is answered; ``clocks`` are those of schedulers that start later.
    """

    def __init__(self) -> None:
        self.before: Callable[[str, str], Awaitable[None]] | None = None
        self.after: Callable[[str, str], Awaitable[None]] | None = None
        self.clocks = CLOCKS
        self.policies = PolicyFiles(None, ())
        self.cluster = EmbeddedCluster.open(None, time.time_ns)
        self.address = Address("127.0.0.1", _reserved(self))
        self.records: list[Record] = []
        self.live: asyncio.Task[None] | None = None
        """Connections, informers and election of the scheduler that began last."""

    @asynccontextmanager
    async def served(self) -> AsyncIterator[None]:
        """Serve the cluster, at the same address each time."""
        async with Meddled(self.cluster.store, self.address) as server:
            server.before, server.after = self.before, self.after
            self.address = server.address
            acting = asyncio.create_task(self._act())
            try:
                yield
            finally:
                acting.cancel()

    async def _act(self) -> None:
        while True:
            self.cluster.step()
            await asyncio.sleep(0.002)

    def apply(self, *things: dict[str, Any]) -> None:
        """Put objects into the cluster."""
        for thing in things:
            self.cluster.apply(thing)

    @asynccontextmanager
    async def scheduler(
        self, name: str = "", times: ElectionSettings = PATIENT
    ) -> AsyncIterator[ClusterInstance]:
        """Run a scheduler; with a name it takes part in the election."""
        settings = Settings(qps=0)
        environment = ClientEnvironment(self.clocks, Random(name))
        access = ClusterAccess(f"http://{self.address.text}")
        candidacy = None
        if name:
            once = Api(access, environment, Settings(qps=0, retry_policy=RetryPolicy(tries=1)))
            election = Election(name, self.clocks, Random(name), times)
            candidacy = Candidacy(election, once, "kube-system", "policy-sched")
        instance = ClusterInstance(
            PolicyStore(self.policies, time.time_ns),
            Api(access, environment, settings),
            candidacy,
            self.records.append,
            watching=WATCHING,
        )
        tasks = [asyncio.create_task(work) for work in instance.beside()]
        self.live = tasks[0]
        tasks.append(asyncio.create_task(_drive(instance)))
        try:
            yield instance
        finally:
            for task in reversed(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def bound(self) -> dict[str, str]:
        """Return the nodes of all pods that have one."""
        pods = (stored.data for stored in self.cluster.store.select(POD))
        return {p["metadata"]["name"]: p["spec"]["nodeName"] for p in pods if _node(p)}

    def events(self) -> list[tuple[str, str]]:
        """Return pod and reason of all events of this scheduler."""
        found = [stored.data for stored in self.cluster.store.select(EVENT)]
        ours = [e for e in found if e.get("reportingController") == "default-scheduler"]
        return sorted((e["regarding"]["name"], e["reason"]) for e in ours)

    def condition(self, name: str, kind: str) -> dict[str, Any] | None:
        """Return a condition of a pod, as the API has it."""
        found = [stored.data for stored in self.cluster.store.select(POD) if stored.name == name]
        conditions = [one for data in found for one in data["status"].get("conditions", ())]
        return next((one for one in conditions if one["type"] == kind), None)


def _reserved(owner: object) -> int:
    """Return a free port that stays free while its owner lives."""
    place = socket.socket()
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    place.bind(("127.0.0.1", 0))
    weakref.finalize(owner, place.close)
    return int(place.getsockname()[1])


def _node(pod: dict[str, Any]) -> str:
    return str(pod["spec"].get("nodeName") or "")


async def _drive(instance: ClusterInstance) -> None:
    while True:
        instance.step()
        await asyncio.sleep(0.002)


def node(name: str) -> dict[str, Any]:
    """Return a node of four cores."""
    sizes = {"cpu": "4", "memory": "8Gi", "pods": "20"}
    status = {"allocatable": sizes, "capacity": sizes}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str, cpu: str = "500m", **spec: Any) -> dict[str, Any]:
    """Return a pod."""
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    whole = {"containers": [container], **spec}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": whole}


def acted(play: Callable[[World], Awaitable[None]]) -> None:
    """Run a test."""

    async def timed() -> None:
        world = World()
        async with asyncio.timeout(LIMIT):
            await play(world)
        world.cluster.close()

    asyncio.run(timed())


async def until(what: Callable[[], T | None]) -> T:
    """Wait until a result is true, and return it."""
    while not (found := what()):
        await asyncio.sleep(0.005)
    return found


def test_pods_are_bound_and_get_events_through_the_api() -> None:
    """Own pods are bound, others' are not touched, an unschedulable one has a reason."""

    async def play(world: World) -> None:
        world.apply(node("a"), node("b"), *(pod(f"p{i}") for i in range(10)))
        world.apply(pod("huge", "64"), pod("other", schedulerName="somebody-else"))
        async with world.served(), world.scheduler() as instance:
            await until(lambda: len(world.bound()) == 10)
            await until(lambda: len(world.events()) == 11)
            world.apply(pod("late"))
            await until(lambda: "late" in world.bound())
            assert instance.ready
            condition = await until(lambda: world.condition("huge", "PodScheduled"))
        assert sorted(set(world.bound().values())) == ["a", "b"]
        assert ("huge", "FailedScheduling") in world.events()
        assert ("p0", "Scheduled") in world.events()
        assert condition["reason"] == "Unschedulable"
        assert condition["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")

    acted(play)


def test_a_standby_takes_over_where_the_leader_left() -> None:
    """One of two binds; when it ends, the other continues, and no pod is bound twice."""

    async def play(world: World) -> None:
        world.apply(node("a"), node("b"))
        async with world.served(), world.scheduler("two") as standby:
            await until(lambda: standby.leads)
            async with world.scheduler("one") as other:
                world.apply(pod("first"))
                await until(lambda: "first" in world.bound())
                await until(lambda: other.ready)
                assert not other.leads
                assert other.scheduler.cache.nodes.live_count == 2
        async with world.served(), world.scheduler("one"):
            async with world.scheduler("two") as second:
                await until(lambda: second.ready)
                world.apply(pod("second"))
                await until(lambda: "second" in world.bound())
            world.apply(pod("third"))
            await until(lambda: "third" in world.bound())

    acted(play)


def test_an_api_server_that_comes_back_is_found_again() -> None:
    """Killed and restarted: pods of before, during and after are bound, each once."""

    async def play(world: World) -> None:
        world.apply(node("a"), node("b"))
        async with world.served():
            pass  # an address
        async with world.scheduler("one") as instance:
            for round_ in range(3):
                async with world.served():
                    await until(lambda: instance.leads)
                    world.apply(*(pod(f"p{round_}-{i}", "100m") for i in range(5)))
                    await until(lambda: len(world.bound()) == 5 * round_ + 5)  # noqa: B023
                world.apply(pod(f"meanwhile{round_}", "100m"))
                world.cluster.store.delete(_key(f"meanwhile{round_}"))
        assert len(world.bound()) == 15
        reported = [name for name, reason in world.events() if reason == "Scheduled"]
        assert len(reported) == len(set(reported))

    acted(play)


def _key(name: str) -> Key:
    return Key(POD, "default", name)
