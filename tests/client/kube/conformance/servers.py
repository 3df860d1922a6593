"""The API servers that the suite runs against: the embedded one, and the one that is named.

What a real one does and the embedded one does not: admission (service accounts, tolerations,
taints on new nodes), finalizers that controllers take away later or, without controllers, never,
and other clients that write to the same objects. The suite assumes none of it, and no absence.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from policy_sched.apiserver.access import Address
from policy_sched.apiserver.server import ApiServer
from policy_sched.client.embedded.api_error import ApiError
from policy_sched.client.embedded.cluster import EmbeddedCluster
from policy_sched.client.embedded.resources import NAMESPACE, NODE, POD
from policy_sched.client.kube.access import Access
from policy_sched.client.kube.api import MERGE_PATCH, Api, Chance, Settings
from policy_sched.client.kube.client import KubeClient
from policy_sched.client.kube.kubeconfig import load
from policy_sched.client.kube.kubeconfig_user import Clocks
from policy_sched.client.kube.paths import collection_path, object_path
from policy_sched.errors import ClusterError
from policy_sched.model.kinds import Kind, decoder
from policy_sched.model.pod import Pod
from policy_sched.model.pod_info import PodInfo

VARIABLE = "POLICY_SCHED_KUBECONFIG"
"""Names the kubeconfig of an API server that the suite runs against too."""
LONGEST = 60.0
"""Seconds that a test may take on a real server; the embedded one is a hundred times faster."""
LEFT = 5.0
"""Seconds that are waited for a namespace to go; after that it goes, or stays, without us."""
CLOCKS = Clocks(time.time_ns, time.monotonic_ns)
NOBODY = "policy-sched-conformance"
"""The scheduler of the suite's pods: none that runs."""

MADE_BY_CLIENTS: tuple[Kind, ...] = (
    POD,
    ("coordination.k8s.io/v1", "Lease"),
    ("events.k8s.io/v1", "Event"),
)
"""Kinds of which there is more in our namespace than the tests know of."""

Plain = dict[str, Any]


@dataclass
class Ground:
    """A namespace and two nodes of our own on an API server."""

    api: Api
    namespace: str
    nodes: tuple[str, str]
    made: list[tuple[Kind, str, str]] = field(default_factory=list)

    async def make(self, kind: Kind, name: str, body: Plain, *, alone: bool = False) -> Plain:
        """Create an object; ``alone``: in no namespace."""
        namespace = "" if alone else self.namespace
        meta = {"name": name, **({"namespace": namespace} if namespace else {})}
        whole = {"apiVersion": kind[0], "kind": kind[1], **body}
        whole["metadata"] = {**meta, **body.get("metadata", {})}
        answer = await self.api.request("POST", collection_path(kind, namespace), whole)
        self.made.append((kind, namespace, name))
        return plain(answer)

    async def pod(self, name: str, **spec: Any) -> PodInfo:
        """Create a pod that nobody schedules."""
        containers = [{"name": "c", "image": "registry.k8s.io/pause:3.10"}]
        whole = {"schedulerName": NOBODY, "containers": containers, **spec}
        return info(await self.make(POD, name, {"spec": whole}))

    async def seen(self, name: str, kind: Kind = POD) -> Plain | None:
        """Return an object of our namespace, None if there is none."""
        try:
            return plain(await self.api.get(object_path(kind, self.namespace, name)))
        except ApiError as error:
            if error.code != 404:
                raise
            return None

    async def latest(self, kind: Kind, name: str, *, alone: bool = False) -> Plain:
        """Return an object as it is now."""
        path = object_path(kind, "" if alone else self.namespace, name)
        return plain(await self.api.get(path))

    async def merge(self, kind: Kind, name: str, patch: Plain) -> Plain:
        """Patch an object of our namespace."""
        path = object_path(kind, self.namespace, name)
        return plain(await self.api.request("PATCH", path, patch, content_type=MERGE_PATCH))


def plain(body: bytes) -> Plain:
    """Return an answer as plain data."""
    found: Plain = msgspec.json.decode(body)
    return found


def info(pod: Plain) -> PodInfo:
    """Return what the scheduler holds of a pod."""
    found: Pod = decoder(Pod).decode(msgspec.json.encode(pod))
    return PodInfo.of(found)


@asynccontextmanager
async def _embedded() -> AsyncIterator[Access]:
    """Serve an embedded cluster whose kubelets and controllers act."""
    cluster = EmbeddedCluster.open(None, time.time_ns)

    async def act() -> None:
        while True:
            cluster.step()
            await asyncio.sleep(0.005)

    async with ApiServer(cluster.store, Address("127.0.0.1", 0)) as server:
        acting = asyncio.create_task(act())
        try:
            yield Access(server.url)
        finally:
            acting.cancel()
    cluster.close()


@asynccontextmanager
async def _named() -> AsyncIterator[Access]:
    yield load([Path(os.environ[VARIABLE])], CLOCKS)


SERVERS = {"embedded": _embedded, "named": _named}


@asynccontextmanager
async def _ground(name: str) -> AsyncIterator[Ground]:
    mark = secrets.token_hex(4)
    namespace = f"policy-sched-{mark}"
    async with SERVERS[name]() as access:
        chance = Chance(CLOCKS, Random(mark))
        async with Api(access, chance, Settings(qps=0)) as api:
            ground = Ground(api, namespace, (f"{namespace}-a", f"{namespace}-b"))
            try:
                await _prepare(ground)
                yield ground
            finally:
                await _clear(ground)


async def _prepare(ground: Ground) -> None:
    await ground.make(NAMESPACE, ground.namespace, {}, alone=True)
    with suppress(ApiError):  # a controller may have been faster
        await ground.make(("v1", "ServiceAccount"), "default", {})
    for name in ground.nodes:
        sizes = {"cpu": "4", "memory": "16Gi", "pods": "110"}
        body = {"status": {"capacity": sizes, "allocatable": sizes}}
        body["spec"] = {"unschedulable": True}  # nobody else's pods shall come here
        await ground.make(NODE, name, body, alone=True)


async def _clear(ground: Ground) -> None:
    """Take everything away that was made, whatever became of it; then the namespace goes."""
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
    everywhere = [collection_path(kind, ground.namespace) for kind in MADE_BY_CLIENTS]
    made = [object_path(*one) for one in reversed(ground.made)]
    for path in (*everywhere, *made):
        with suppress(ClusterError):
            await ground.api.request("DELETE", path, options, repeatable=True)
    with suppress(ClusterError, TimeoutError):
        async with asyncio.timeout(LEFT):
            while True:
                await ground.api.get(object_path(NAMESPACE, "", ground.namespace))
                await asyncio.sleep(0.05)


def played(server: str, play: Callable[[Ground], Awaitable[None]]) -> None:
    """Run a play on ground of its own."""

    async def timed() -> None:
        async with asyncio.timeout(LONGEST), _ground(server) as ground:
            await play(ground)

    asyncio.run(timed())


async def until(what: Callable[[], Awaitable[Any]]) -> Any:
    """Ask again and again until the answer is something."""
    while not (found := await what()):
        await asyncio.sleep(0.01)
    return found


class Acting:
    """A client and what it reports."""

    def __init__(self, ground: Ground) -> None:
        self.failures: list[tuple[str, ClusterError]] = []
        self.client = KubeClient(
            ground.api,
            reporter="policy-sched",
            failed=lambda call, _key, error: self.failures.append((call, error)),
        )

    async def bound(self, pod: PodInfo, node: str) -> ClusterError | None:
        """Bind, and return how it went."""
        answers: list[ClusterError | None] = []
        self.client.bind(pod, node, answers.append)
        await self.client.lanes.drained()
        return answers[0]

    async def done(self) -> list[tuple[str, ClusterError]]:
        """Wait until everything is sent; return what failed."""
        await self.client.lanes.drained()
        return self.failures
