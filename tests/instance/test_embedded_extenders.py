"""An embedded cluster with slow extenders, or with extenders that use its API."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import aiohttp

from policy_sched.client.apimachinery.resources import POD
from policy_sched.embedded.apiserver.endpoints.server import ApiServer
from policy_sched.http.access import Address
from policy_sched.instance.app.embedded_instance import EmbeddedInstance, Sources
from policy_sched.profiles.reload.inputs import PolicyFiles
from tests.instance.app.test_cluster_instance import LIMIT, node, until
from tests.instance.test_remote_extenders import FITS, configured, gated, slow
from tests.plugins.extenders.server import extender

Plain = dict[str, Any]


@asynccontextmanager
async def serving(folder: Path, config: Plain) -> AsyncIterator[tuple[EmbeddedInstance, str]]:
    """Run a cluster that is kept in a file; yield it, and the address of its API."""
    sources = Sources(PolicyFiles(config, ()), (), str(folder / "cluster.db"))
    instance = EmbeddedInstance(sources, time.time_ns, lambda _record: None)
    instance.cluster.apply(node("a"))
    async with ApiServer(instance.cluster.store, Address("127.0.0.1", 0)) as server:
        stepping = asyncio.create_task(_drive(instance))
        try:
            yield instance, f"http://{server.address.text}"
        finally:
            stepping.cancel()
            await asyncio.gather(stepping, return_exceptions=True)
            instance.close()


async def _drive(instance: EmbeddedInstance) -> None:
    while True:
        instance.step()
        await asyncio.sleep(0.002)


def acted(play: Callable[[], Awaitable[None]]) -> None:
    """Run a test."""

    async def timed() -> None:
        async with asyncio.timeout(LIMIT):
            await play()

    asyncio.run(timed())


def node_of(instance: EmbeddedInstance, name: str) -> str:
    """Return the node of a pod."""
    return str(instance.cluster.store.get(POD, "default", name).data["spec"].get("nodeName") or "")


def test_the_api_answers_during_an_extender_call(tmp_path: Path) -> None:
    """Watches deliver changes meanwhile, and the scheduler applies them after the decision."""

    async def play() -> None:
        with gated({"filter": FITS}, "filter") as (gate, calls):
            async with (
                serving(tmp_path, configured(calls, "filter")) as (instance, url),
                aiohttp.ClientSession() as client,
                client.get(f"{url}/api/v1/nodes?watch=1&resourceVersion=0") as watch,
            ):
                assert b'"ADDED"' in await watch.content.readline()
                instance.cluster.apply(slow("p"))
                await until(gate.requested.is_set)
                async with client.post(f"{url}/api/v1/nodes", json=node("b")) as answer:
                    assert answer.status == 201
                assert (
                    json.loads(await watch.content.readline())["object"]["metadata"]["name"] == "b"
                )
                assert instance.deciding
                assert instance.scheduler.cache.nodes.live_count == 1
                gate.opened.set()
                await until(lambda: node_of(instance, "p") == "a")
                await until(lambda: instance.scheduler.cache.nodes.live_count == 2)

    acted(play)


def test_an_extender_may_bind_through_the_api(tmp_path: Path) -> None:
    """The API answers during the call; the extender's binding counts."""
    address: list[str] = []

    def bind(sent: Plain) -> Plain:
        meta = {"name": sent["PodName"], "uid": sent["PodUID"]}
        binding = {"metadata": meta, "target": {"kind": "Node", "name": sent["Node"]}}
        url = f"{address[0]}/api/v1/namespaces/default/pods/{sent['PodName']}/binding"
        headers = {"Content-Type": "application/json"}
        with urlopen(Request(url, json.dumps(binding).encode(), headers)) as answer:
            return {} if answer.status == 201 else {"Error": "no"}

    async def play() -> None:
        with extender({"bind": bind}) as calls:
            async with serving(tmp_path, configured(calls, "bind")) as (instance, url):
                address.append(url)
                instance.cluster.apply(slow("p"))
                await until(lambda: node_of(instance, "p") == "a")
                await until(lambda: not instance.deciding and not instance.scheduler.in_flight)
                assert instance.scheduler.cache.check() == []
        assert calls.verbs == ["bind"]

    acted(play)
