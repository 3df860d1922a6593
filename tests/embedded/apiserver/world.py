"""A served cluster for tests: on a loopback socket, under a clock that stands still."""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import aiohttp

from policy_sched.embedded.apiserver.endpoints.server import ApiServer
from policy_sched.embedded.cluster import EmbeddedCluster
from policy_sched.http.access import Access, Address
from policy_sched.testing import FakeClock
from tests.embedded.world import START

JSON = "application/json"
PODS = "/api/v1/namespaces/default/pods"
WATCH_SECONDS = 30
"""How long a watch of a test lasts at most; none waits for that."""
SLICE_SECONDS = 0.01
"""How long a step of the cluster holds up requests; it goes on after them."""
Plain = dict[str, Any]


@dataclass
class World:
    """A served cluster; ``url`` is where. ``steps``: processor time of each step, in seconds."""

    server: ApiServer
    cluster: EmbeddedCluster
    clock: FakeClock
    session: aiohttp.ClientSession
    steps: list[float]

    @property
    def url(self) -> str:
        """Where the server is."""
        return self.server.url

    async def ask(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, Any]:
        """Send a request; return the status code and the body. ``type``, ``accept``: headers."""
        named = {"Accept": headers.get("accept", JSON)}
        data = None
        if body is not None:
            data = io.BytesIO(body if isinstance(body, bytes) else json.dumps(body).encode())
            named["Content-Type"] = headers.get("type", JSON)
        if "token" in headers:
            named["Authorization"] = f"Bearer {headers['token']}"
        if "as_user" in headers:
            named["Impersonate-User"] = headers["as_user"]
        url = self.url + path
        async with self.session.request(method, url, data=data, headers=named) as answer:
            raw = await answer.read()
            is_json = answer.content_type == JSON
            return answer.status, json.loads(raw) if is_json else raw.decode()

    async def create(self, path: str, data: Plain) -> Plain:
        """Create an object that is accepted."""
        status, made = await self.ask("POST", path, data)
        assert status == 201, made
        fields: Plain = made
        return fields

    @asynccontextmanager
    async def watch(self, path: str, **headers: str) -> AsyncIterator[AsyncIterator[Plain]]:
        """Watch; the lines can be iterated over."""
        url = f"{self.url}{path}{'&' if '?' in path else '?'}watch=true"
        named = {"Accept": headers.get("accept", JSON)}
        options: Plain = {"headers": named, "read_bufsize": 2**21}
        async with self.session.get(url, **options) as answer:
            assert answer.status == 200, await answer.text()
            yield _lines(answer)


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[Plain]:
    async for line in answer.content:
        yield json.loads(line)


def slice_of_time() -> Callable[[], bool]:
    """Return what tells when the time of a step is over."""
    end = time.monotonic() + SLICE_SECONDS
    return lambda: time.monotonic() >= end


@asynccontextmanager
async def serving(
    access: Access | None = None, cluster: EmbeddedCluster | None = None, **options: Any
) -> AsyncIterator[World]:
    """Serve a cluster, which is stepped whenever something has changed."""
    clock = FakeClock(START)
    cluster = cluster or EmbeddedCluster.open(None, clock, **options)
    changed, steps = asyncio.Event(), list[float]()
    cluster.store.on_commit.append(changed.set)

    async def step() -> None:
        while True:
            changed.clear()
            begun = time.process_time()
            cluster.step(slice_of_time())
            steps.append(time.process_time() - begun)
            due = cluster.next_wakeup()
            if due is not None and due <= clock():
                await asyncio.sleep(0)
            else:
                await changed.wait()

    address = Address("127.0.0.1", 0)
    async with (
        ApiServer(cluster.store, address, access) as server,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(sock_read=WATCH_SECONDS)) as session,
    ):
        stepping = asyncio.create_task(step())
        try:
            yield World(server, cluster, clock, session, steps)
        finally:
            stepping.cancel()
            with suppress(asyncio.CancelledError):
                await stepping


def pod(name: str, **labels: str) -> Plain:
    """Return a pod."""
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": SPEC}


SPEC: Plain = {"containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10"}]}
