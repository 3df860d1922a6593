"""The API servers that the suite runs against: the embedded one in three moods, and a named one.

``embedded``: its kubelets and controllers act, and the suite has the rights of role.yaml alone.
``bare``: no controllers, and what has finalizers keeps them (a kube-apiserver with nothing else).
``busy``: others write to every pod, claim and volume too, right after us (a whole cluster).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml

from policy_sched.client.apimachinery.object import Stored
from policy_sched.client.apimachinery.resources import CLAIM, DEVICE_CLAIM, POD, VOLUME, Expired
from policy_sched.client.kube.auth.credentials import ClusterAccess
from policy_sched.client.kube.auth.kubeconfig import load
from policy_sched.client.kube.time.work_queue import Clocks
from policy_sched.embedded.apiserver.endpoints.server import ApiServer
from policy_sched.embedded.apiserver.security.authentication import kubeconfig
from policy_sched.embedded.cluster import EmbeddedCluster
from policy_sched.embedded.store.store import ObjectStore
from policy_sched.embedded.store.watch_history import ADDED, DELETED, StoreChange
from policy_sched.http.access import RBAC, Access as Guard, Address

VARIABLE: Final = "POLICY_SCHED_KUBECONFIG"
"""Names the kubeconfig of an API server that the suite runs against too."""
NAMED: Final = "named"
CLOCKS: Final = Clocks(time.time_ns, time.monotonic_ns)
LABELS: Final = {"app.kubernetes.io/part-of": "policy-sched-conformance"}
"""On everything that the suite makes, to find it by."""
PREFIX: Final = "policy-sched-"
"""Of the suite's namespaces."""
ROLE: Final = Path(__file__).with_name("role.yaml")
_PROTECTED: Final = {CLAIM: "kubernetes.io/pvc-protection", VOLUME: "kubernetes.io/pv-protection"}
"""What a kube-apiserver puts on claims and volumes when they are made."""
_MARK: Final = "example.com/seen"
_MANAGED: Final = {
    "manager": "another",
    "operation": "Update",
    "apiVersion": "v1",
    "time": "2026-01-01T00:00:00Z",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:metadata": {"f:annotations": {f"f:{_MARK}": {}}}},
}
"""Whose fields are whose, as kube-apiserver notes it in every object."""
_USER: Final = "conformance"


@dataclass(frozen=True, slots=True)
class Served:
    """A server, and the file that says how to reach it.

    ``forget`` makes it forget old versions, as far as possible.
    """

    kubeconfig: Path
    access: ClusterAccess
    forget: Callable[[], None]


def _grant(store: ObjectStore) -> None:
    """Give the suite's user the suite's role."""
    role = yaml.load(ROLE.read_text(encoding="utf-8"), yaml.CSafeLoader)
    store.create(role)
    group = role["apiVersion"].partition("/")[0]
    store.create(
        {
            "apiVersion": role["apiVersion"],
            "kind": "ClusterRoleBinding",
            "metadata": {"name": _USER},
            "roleRef": {"apiGroup": group, "kind": role["kind"], "name": role["metadata"]["name"]},
            "subjects": [{"apiGroup": group, "kind": "User", "name": _USER}],
        }
    )


@asynccontextmanager
async def _serving(cluster: EmbeddedCluster) -> AsyncIterator[Served]:
    """Serve a cluster to a user with the suite's role."""
    with TemporaryDirectory() as folder:
        tokens, config = Path(folder, "tokens.csv"), Path(folder, "config")
        tokens.write_text(f"secret,{_USER},1\n", encoding="utf-8")
        guard = Guard(tokens=str(tokens), mode=RBAC)
        async with ApiServer(cluster.store, Address("127.0.0.1", 0), guard) as server:
            _grant(cluster.store)
            text = kubeconfig(server.address, guard, server.tokens)
            config.write_text(text, encoding="utf-8")
            yield Served(config, load([config], CLOCKS), cluster.store.history.compact)
    cluster.step()  # the namespace controller's part
    left = [f"{one.resource.kind} {one.name}" for one in cluster.store.everything() if _ours(one)]
    assert not left, left
    cluster.close()


def _ours(one: Stored) -> bool:
    """Tell whether the suite has made an object, or it is in a namespace of the suite."""
    return one.namespace.startswith(PREFIX) or one.labels.items() >= LABELS.items()


@asynccontextmanager
async def _embedded() -> AsyncIterator[Served]:
    cluster = EmbeddedCluster.open(None, time.time_ns)

    async def act() -> None:
        while True:
            cluster.step()
            await asyncio.sleep(0.005)

    async with _serving(cluster) as served:
        acting = asyncio.create_task(act())
        yield served
        acting.cancel()


@asynccontextmanager
async def _meddled(seen: Callable[[ObjectStore, StoreChange], None]) -> AsyncIterator[Served]:
    """Serve a cluster in which each change is observed."""
    cluster = EmbeddedCluster.open(None, time.time_ns)
    store, changed = cluster.store, asyncio.Event()
    store.on_commit.append(changed.set)

    async def meddle() -> None:
        watch = store.watch()
        while True:
            await changed.wait()
            changed.clear()
            try:
                changes = watch.drain()
            except Expired:
                watch = store.watch(since=store.version)
                continue
            for change in changes:
                seen(store, change)

    async with _serving(cluster) as served:
        meddling = asyncio.create_task(meddle())
        yield served
        assert not meddling.done(), meddling
        meddling.cancel()


def _keep(store: ObjectStore, change: StoreChange) -> None:
    """Put a finalizer on each new claim and volume."""
    finalizer = _PROTECTED.get(change.new.resource.key)
    if finalizer is not None and change.type == ADDED:
        _revise(store, change, {"finalizers": [finalizer]})


def _disturb(store: ObjectStore, change: StoreChange) -> None:
    """Keep claims and volumes, and write into objects of others."""
    _keep(store, change)
    disturbed = change.new.resource.key in (POD, CLAIM, VOLUME, DEVICE_CLAIM)
    if disturbed and change.type != DELETED and _mark(change.old) == _mark(change.new):
        notes = {**change.new.typed.metadata.annotations, _MARK: str(change.version)}
        _revise(store, change, {"annotations": notes, "managedFields": [_MANAGED]})


def _mark(one: Stored | None) -> str:
    """Return what a disturber has left behind."""
    return "" if one is None else one.typed.metadata.annotations.get(_MARK, "")


def _revise(store: ObjectStore, change: StoreChange, meta: dict[str, Any]) -> None:
    """Write into an object, if it has not changed again or gone."""
    found = store.find(change.new.resource.key, *change.new.namespaced_name)
    if found is not None and found.uid == change.new.uid and not found.deleting:
        data = found.data
        store.revise(found, {**data, "metadata": {**data["metadata"], **meta}})


@asynccontextmanager
async def _named() -> AsyncIterator[Served]:
    config = Path(os.environ[VARIABLE])
    yield Served(config, load([config], CLOCKS), lambda: None)


SERVERS: Final = {
    "embedded": _embedded,
    "bare": lambda: _meddled(_keep),
    "busy": lambda: _meddled(_disturb),
    NAMED: _named,
}
