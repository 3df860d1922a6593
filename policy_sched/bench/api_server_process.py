"""The API server of ``bench API``, in a process of its own: objects in memory, and nothing acts.

Theory of operation. As in scheduler_perf there are neither kubelets nor controllers: what happens
to an object is what a client requested. The process writes a kubeconfig, replies to commands,
lines of JSON on its standard input, with lines on its standard output, and ends with its input.
When pods came and were bound is read from the store, at the moment in which it changes.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import web

from policy_sched.client.apimachinery import POD
from policy_sched.embedded import EmbeddedCluster
from policy_sched.embedded.apiserver.endpoints import ApiServer
from policy_sched.embedded.apiserver.security import kubeconfig, write_kubeconfig
from policy_sched.embedded.store import ADDED, DELETED, Key, ObjectStore
from policy_sched.http import Access, Address
from policy_sched.instance.app import freeze_loaded, tuned_gc
from policy_sched.instance.http import self_signed
from policy_sched.manifests import Plain
from policy_sched.model import Pod

TOUCHED: Final = "policysched.dev/touched"
"""An annotation of a pod that is changed so that every watch of pods has something to miss."""


LEASE: Final = ("coordination.k8s.io/v1", "Lease")


class Bindings:
    """When pods without a node came, and when they were bound; times in ns of one clock.

    And the longest time between two renewals of a lease.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._watch, self._leases = store.watch(POD), store.watch(LEASE)
        self._watch.drain()
        self._leases.drain()
        store.on_commit.append(self._drain)
        self.begin()

    def begin(self) -> None:
        """Forget everything: a phase begins."""
        self._came: dict[str, int] = {}
        self._bound: dict[str, int] = {}
        self._renewed = self._gap = 0

    def _renewal(self, now: int) -> None:
        if self._renewed:
            self._gap = max(self._gap, now - self._renewed)
        self._renewed = now

    def _drain(self) -> None:
        now = time.perf_counter_ns()
        if self._leases.drain():
            self._renewal(now)
        for change in self._watch.drain():
            pod = change.new.typed
            assert isinstance(pod, Pod)
            if change.type == ADDED:
                if not pod.spec.node_name:
                    self._came[pod.metadata.uid] = now
            elif change.type != DELETED and pod.spec.node_name:
                self._bound.setdefault(pod.metadata.uid, now)

    def report(self, *, whole: bool) -> Plain:
        """Return how many came and were bound; as a ``whole`` when, too, in ns."""
        bound = {uid: at for uid, at in self._bound.items() if uid in self._came}
        counts: Plain = {"came": len(self._came), "bound": len(bound)}
        if whole:
            counts["lease_gap"] = self._gap / 1e9
        if whole and bound:
            counts["seconds"] = (max(bound.values()) - min(self._came.values())) / 1e9
            counts["creating"] = (max(self._came.values()) - min(self._came.values())) / 1e9
            counts["latencies"] = [at - self._came[uid] for uid, at in bound.items()]
        return counts


class CountingServer(ApiServer):
    """An API server that counts its requests."""

    def __init__(self, store: ObjectStore, address: Address, access: Access) -> None:
        super().__init__(store, address, access)
        self.requests: Counter[str] = Counter()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests[_kind_of(request)] += 1
        return await super()._handle(request)


def _kind_of(request: web.BaseRequest) -> str:
    """Return method and resource, as far as a count needs them."""
    parts = request.path.split("/")
    named = [part for part in parts[3 if parts[1] == "api" else 4 :] if part != "namespaces"]
    if len(parts) > 5 and "namespaces" in parts:
        named = named[1:]
    resource = "/".join((*named[:1], *named[2:]))
    watch = " (watch)" if "watch" in request.query else ""
    return f"{request.method} {resource}{watch}"


def forget(store: ObjectStore) -> int:
    """Make every watch of pods too old (410), as compaction does; return the present version."""
    pod = store.select(POD)[-1]
    patch = {"metadata": {"annotations": {TOUCHED: str(store.version)}}}
    store.patch(Key(POD, pod.namespace, pod.name), patch)
    store.history.compact()
    return store.version


def _access(directory: Path, address: Address, *, tls: bool) -> Access:
    if not tls:
        return Access()
    certificate, key = directory / "tls.crt", directory / "tls.key"
    for file, content in zip(
        (certificate, key), self_signed([address.host], time.time_ns()), strict=True
    ):
        file.touch(0o600)
        file.write_bytes(content)
    return Access(str(certificate), str(key))


async def serve(directory: Path, *, tls: bool) -> None:
    """Serve until standard input ends; what goes with the kubeconfig is in the directory too."""
    cluster = EmbeddedCluster.open(None, time.time_ns)
    store, address = cluster.store, Address("127.0.0.1", 0)
    access = _access(directory, address, tls=tls)
    bindings = Bindings(store)
    async with CountingServer(store, address, access) as server:
        text = kubeconfig(server.address, access, server.tokens)
        write_kubeconfig(str(directory / "kubeconfig"), text)
        commands = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(commands)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
        _reply({"ready": True})
        async for line in commands:
            match msgspec.json.decode(line):
                case "begin":
                    freeze_loaded()
                    bindings.begin()
                    server.requests.clear()
                    _reply({"ready": True})
                case "count":
                    _reply(bindings.report(whole=False))
                case "report":
                    _reply({**bindings.report(whole=True), "requests": dict(server.requests)})
                case "requests":
                    _reply({"writes": _writes(server.requests)})
                case "forget":
                    _reply({"version": forget(store)})


def _writes(requests: Counter[str]) -> int:
    """Return how many requests wrote anything but a lease."""
    return sum(
        count
        for kind, count in requests.items()
        if not kind.startswith("GET ") and not kind.endswith(" leases")
    )


def _reply(fact: Plain) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(fact) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    with tuned_gc():
        asyncio.run(serve(Path(sys.argv[1]), tls="tls" in sys.argv[2:]))
