"""Ground of our own on an API server, for one test; and a client of ours with what it reports.

The names are of this run and this test alone. Nodes are names only: an API server binds a pod to
a node that it does not know, and where there is none no kubelet and no daemon set begins with it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from policy_sched.client.apimachinery.resources import NAMESPACE, POD, ApiError
from policy_sched.client.kube.client import KubeClient
from policy_sched.client.kube.rest.client import MERGE_PATCH
from policy_sched.client.kube.rest.errors import Selection, collection_path, object_path
from policy_sched.errors import ClusterError
from policy_sched.model.kinds import Kind, decoder
from policy_sched.model.meta import ApiObject
from policy_sched.model.pod import Pod
from policy_sched.model.pod_info import PodInfo
from tests.client.kube.conformance import leaving
from tests.client.kube.conformance.servers import CLOCKS, LABELS, NAMED, PREFIX, SERVERS
from tests.client.kube.conformance.wire import Wire

LONGEST: Final = 100.0
"""Seconds that a test may take on a real server; the embedded one is a hundred times faster."""
NO_SCHEDULER: Final = "policy-sched-conformance"
"""The scheduler of the suite's pods: none that runs."""
ACCOUNT: Final[Kind] = ("v1", "ServiceAccount")
_PRIVILEGED: Final = {"pod-security.kubernetes.io/enforce": "privileged"}

Plain = dict[str, Any]
T = TypeVar("T")
O = TypeVar("O", bound=ApiObject)  # noqa: E741 - an object


@dataclass
class Ground:
    """A namespace and the names of two nodes on an API server.

    ``forget`` makes the server forget old versions, as far as possible.
    """

    api: Wire
    namespace: str
    kubeconfig: Path
    forget: Callable[[], None]
    made: list[tuple[Kind, str, str]] = field(default_factory=list)

    @property
    def nodes(self) -> tuple[str, str]:
        """The names of two nodes that are not there."""
        return f"{self.namespace}-a", f"{self.namespace}-b"

    async def make(self, kind: Kind, name: str, body: Plain, *, alone: bool = False) -> Plain:
        """Create an object; ``alone``: in no namespace. It is deleted in the end."""
        namespace = "" if alone else self.namespace
        given = body.get("metadata", {})
        labels = {**LABELS, **given.get("labels", {})}
        meta = {"name": name, **({"namespace": namespace} if namespace else {}), **given}
        whole = {"apiVersion": kind[0], "kind": kind[1], **body}
        whole["metadata"] = {**meta, "labels": labels}
        path = collection_path(kind, namespace)
        self.made.append((kind, namespace, name))  # even if the answer never comes
        return plain(await self.api.request("POST", path, whole))

    async def pod(self, name: str, meta: Plain | None = None, **spec: Any) -> PodInfo:
        """Create a pod for a scheduler that does not run."""
        containers = [{"name": "c", "image": "registry.k8s.io/pause:3.10"}]
        whole = {"schedulerName": NO_SCHEDULER, "containers": containers, **spec}
        return info(await self.make(POD, name, {"metadata": meta or {}, "spec": whole}))

    async def pods(self, count: int) -> list[PodInfo]:
        """Create pods p0, p1, ..."""
        return [await self.pod(f"p{number}") for number in range(count)]

    async def seen(self, name: str, kind: Kind = POD, *, alone: bool = False) -> Plain:
        """Return an object as it is now. Raises ApiError if there is none."""
        path = object_path(kind, "" if alone else self.namespace, name)
        return plain(await self.api.get(path))

    async def there(self, name: str) -> bool:
        """Tell whether a pod is there."""
        try:
            await self.seen(name)
        except ApiError as error:
            if error.code != 404:
                raise
            return False
        return True

    async def listed(self, selection: Selection) -> list[Plain]:
        """Return what is selected, in one piece."""
        found: list[Plain] = plain(await self.api.get(selection.path, selection.query()))["items"]
        return found

    async def merge(self, kind: Kind, name: str, patch: Plain) -> Plain:
        """Patch an object of our namespace."""
        path = object_path(kind, self.namespace, name)
        return plain(await self.api.request("PATCH", path, patch, content_type=MERGE_PATCH))

    async def delete(self, name: str) -> None:
        """Delete a pod at once."""
        path = object_path(POD, self.namespace, name)
        await self.api.request("DELETE", path, leaving.AT_ONCE)


def plain(body: bytes) -> Plain:
    """Return an answer as plain data."""
    found: Plain = msgspec.json.decode(body)
    return found


def typed(thing: Plain, struct: type[O]) -> O:
    """Return an object as our client reads it."""
    found: O = decoder(struct).decode(msgspec.json.encode(thing))
    return found


def info(pod: Plain) -> PodInfo:
    """Return what the scheduler holds of a pod."""
    return PodInfo.of(typed(pod, Pod))


@asynccontextmanager
async def _ground(server: str) -> AsyncIterator[Ground]:
    mark = secrets.token_hex(4)
    namespace = f"{PREFIX}{mark}"
    async with SERVERS[server]() as served, Wire(served.access, CLOCKS, mark) as api:
        ground = Ground(api, namespace, served.kubeconfig, served.forget)
        try:
            await _prepare(ground)
            yield ground
        finally:
            if server == NAMED:
                leaving.DELETED.append(namespace)
            await leaving.clear(api, ground.made, namespace)
            ground.made.clear()


async def _prepare(ground: Ground) -> None:
    """Make the namespace, and its account if no controller does: a pod is refused without."""
    meta = {"labels": _PRIVILEGED}
    await ground.make(NAMESPACE, ground.namespace, {"metadata": meta}, alone=True)
    try:
        await ground.make(ACCOUNT, "default", {"automountServiceAccountToken": False})
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise


def played(server: str, play: Callable[[Ground], Awaitable[None]]) -> None:
    """Run a play on ground of its own."""

    async def timed() -> None:
        async with _ground(server) as ground, asyncio.timeout(LONGEST):
            await play(ground)

    asyncio.run(timed())


async def until(what: Callable[[], Awaitable[T]]) -> T:
    """Ask again and again until the answer is something."""
    while not (found := await what()):
        await asyncio.sleep(0.02)
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

    async def refused(self, pod: PodInfo, node: str) -> ApiError:
        """Bind, which must fail; return why."""
        error = await self.bound(pod, node)
        assert isinstance(error, ApiError), error
        return error

    async def done(self) -> list[tuple[str, ClusterError]]:
        """Wait until everything is sent; return what failed since the last time."""
        await self.client.lanes.drained()
        failures = list(self.failures)
        self.failures.clear()
        return failures
