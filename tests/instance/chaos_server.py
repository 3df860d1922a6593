"""An API server that fails on purpose, with durable data, in a process of its own.

It records changes of nodes and pods, in its own order, in a file that outlives it. A
request with X-Calm is answered properly; GET /chaos?rate=0 ends the faults. The faults follow
from the seed, the life of the server (the number of its start) and the number of the request.
Started by `chaos_run`: python -m tests.instance.chaos_server DATA HISTORY PORT SEED LIFE
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from random import Random
from typing import Any

from aiohttp import web

from policy_sched.client.apimachinery.resources import NODE, POD
from policy_sched.embedded.apiserver.endpoints.server import ApiServer
from policy_sched.embedded.cluster import EmbeddedCluster
from policy_sched.embedded.kubelet import KubeletTimes
from policy_sched.embedded.store.store import ObjectStore
from policy_sched.embedded.store.watch_history import DELETED, StoreChange
from policy_sched.http.access import Address
from policy_sched.model.pod import Pod
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.quantity import units

RATE = 0.1
"""The share of requests that fail."""
CUT = 0.3
"""The share of watches that are cut, within LONGEST seconds."""
LONGEST = 3.0
HANGS = 2.5
"""Seconds for which a request stays without an answer."""
FAULTS = ("500", "500 after", "503", "429", "html", "reset", "reset after", "silence after")
"""``after``: the request is handled first."""
CALM = "X-Calm"


class Faulty(ApiServer):
    """A server that answers wrongly, or not at all, as its seed determines."""

    def __init__(self, store: ObjectStore, address: Address, seed: str) -> None:
        super().__init__(store, address)
        self.rate = RATE
        self._seed = seed
        self._number = 0

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/chaos":
            self.rate = float(request.query["rate"])
            return web.json_response({})
        if CALM in request.headers or not self.rate:
            return await super()._handle(request)
        self._number += 1
        chance = Random(f"{self._seed}/{self._number}")
        if request.query.get("watch"):
            return await self._watched(request, chance)
        if chance.random() >= self.rate:
            return await super()._handle(request)
        return await self._fail(request, chance.choice(FAULTS))

    async def _watched(self, request: web.Request, chance: Random) -> web.StreamResponse:
        """Answer a watch, and cut it in between."""
        loop, transport = asyncio.get_running_loop(), request.transport
        if chance.random() < CUT and transport is not None:
            loop.call_later(chance.random() * LONGEST, transport.abort)
        return await super()._handle(request)

    async def _fail(self, request: web.Request, fault: str) -> web.StreamResponse:
        what, _, after = fault.partition(" ")
        if after:
            await super()._handle(request)
        if what == "silence":
            await asyncio.sleep(HANGS)
        if what in ("reset", "silence"):
            assert request.transport is not None
            request.transport.abort()
        if what == "html":
            return web.Response(status=502, text="<html>Bad Gateway</html>")
        status = int(what) if what.isdigit() else 500
        headers = {"Retry-After": "1"} if status in (429, 503) else {}
        messages = {"kind": "Status", "status": "Failure", "code": status, "message": "chaos"}
        return web.json_response(messages, status=status, headers=headers)


class Chronicle:
    """Writes a line for each change of a node or a pod, after the objects at its start."""

    def __init__(self, store: ObjectStore, path: str) -> None:
        self._file = open(path, "ab", buffering=0)  # noqa: SIM115 - as long as the process
        self._watch = store.watch()
        self._write({"begins": store.version})
        self.take()
        self._write({"begun": store.version})
        store.on_commit.append(self.take)

    def take(self) -> None:
        """Write the changes since the last call."""
        for change in self._watch.drain():
            if change.new.resource.key == POD:
                self._write(_of_pod(change))
            elif change.new.resource.key == NODE:
                allocatable = change.new.data["status"]["allocatable"]
                cpu = units("cpu", allocatable["cpu"])
                self._write({"server": change.new.name, "cpu": cpu, "at": time.time_ns()})

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")


def _of_pod(change: StoreChange) -> dict[str, Any]:
    typed = change.new.typed
    assert isinstance(typed, Pod)
    return {
        "at": time.time_ns(),
        "version": change.version,
        "gone": change.type == DELETED,
        "uid": change.new.uid,
        "name": change.new.name,
        "node": typed.spec.node_name,
        "phase": typed.status.phase,
        "cpu": PodInfo.of(typed).requests.get("cpu", 0),
    }


async def serve(data: str, history: str, port: int, seed: str) -> None:
    """Serve until killed."""
    times = KubeletTimes(start=50_000_000, stop=200_000_000)
    cluster = EmbeddedCluster.open(data, time.time_ns, kubelets=times)
    Chronicle(cluster.store, history)
    async with Faulty(cluster.store, Address("127.0.0.1", port), seed) as server:
        print(server.address.port, flush=True)  # noqa: T201 - read by the process that started this
        while True:
            cluster.step()
            await asyncio.sleep(0.01)


if __name__ == "__main__":
    DATA, HISTORY, PORT, SEED, LIFE = sys.argv[1:]
    asyncio.run(serve(DATA, HISTORY, int(PORT), f"{SEED}/{LIFE}"))
