"""A scheduler that meets ever new things stays as large as what is there now."""

from __future__ import annotations

import gc
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
import numpy as np

from policy_sched.client.memory import MemoryClient
from policy_sched.model import KINDS, ApiObject, Namespace, PodInfo
from policy_sched.scheduler import (
    Scheduler,
    node_gone,
    node_seen,
    object_gone,
    object_seen,
    pod_gone,
    pod_seen,
)
from policy_sched.scheduler.setup import build
from policy_sched.testing import FakeClock, make_node, make_pod
from tests.plugins.dynamicresources import world

ROUND: Final = 60
"""Nodes of a round; for each there are thirteen pods."""
MANY: Final = 16
"""Number of names of one kind from which on the tables look for unused ones, in this test."""
ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"

BOUNDED: Final = {
    "CarriedTerms._resolved": 8192,
    "ConstraintCache._own": 8192,
    "ClaimStores._specs": 4096,
    "Lru.entries": 32_768,  # evaluations: 256 MiB, of which each takes 8 KiB
    "Lru._sizes": 32_768,
    "Journal._ends": 65_536,
    "Journal._log": 65_536,
    "Nominator._log": 4096,
    "Runner._gated": 1000,
    "SelectorCounts.by_match": 1024,
    "SelectorIndex._pairs": 1024,
    "TermCounts._terms": 512,
}
"""What may grow from round to round: caches and logs, each with the limit that it keeps."""


def manifest(api: str, kind: str, name: str, **body: Any) -> Any:
    """Return an object of the namespace of its number, if its kind has one."""
    meta = {"name": name, "uid": name, **body.pop("metadata", {})}
    return msgspec.convert({"kind": kind, "metadata": meta, **body}, KINDS[api, kind])


def objects_of(i: int) -> list[ApiObject]:
    """Return objects that no other number has."""
    own = {"namespace": f"ns-{i}"}
    chosen = {"app": f"app-{i}"}
    labels = {"matchLabels": chosen}
    csi = {"driver": f"driver-{i}", "volumeHandle": f"handle-{i}"}
    storage = {"storageClassName": f"class-{i}", "accessModes": ["ReadWriteOnce"]}
    size = {"storage": f"{i + 1}Gi"}
    return [
        manifest("v1", "Service", f"svc-{i}", metadata=own, spec={"selector": chosen}),
        manifest("apps/v1", "ReplicaSet", f"rs-{i}", metadata=own, spec={"selector": labels}),
        manifest(
            "policy/v1", "PodDisruptionBudget", f"pdb-{i}", metadata=own, spec={"selector": labels}
        ),
        manifest("scheduling.k8s.io/v1", "PriorityClass", f"priority-{i}", value=i),
        manifest(
            "storage.k8s.io/v1", "StorageClass", f"class-{i}", provisioner=f"driver-{i}",
            volumeBindingMode="WaitForFirstConsumer",
        ),
        manifest(
            "storage.k8s.io/v1", "CSINode", f"node-{i}",
            spec={"drivers": [{"name": f"driver-{i}", "nodeID": "x", "allocatable": {"count": 5}}]},
        ),
        manifest(
            "v1", "PersistentVolume", f"volume-{i}", status={"phase": "Available"},
            spec={"capacity": size, "csi": csi, **storage},
        ),
        manifest(
            "v1", "PersistentVolumeClaim", f"volume-claim-{i}", metadata={"namespace": "default"},
            spec={"resources": {"requests": size}, **storage},
        ),
        world.device_class(f"devices-{i}"),
        world.resource_slice(
            f"node-{i}", [{"name": f"device-{i}", "attributes": {f"a{i}": {"int": i}}}]
        ),
        world.resource_claim(f"claim-{i}", world.exactly(f"r{i}", deviceClassName=f"devices-{i}")),
    ]  # fmt: skip


def pods_of(i: int) -> Iterator[PodInfo]:
    """Yield pods that no other number has: with affinity, spread constraints, volumes and so on."""
    here = {"labelSelector": {"matchLabels": {"app": f"app-{i}"}}}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    special: list[dict[str, Any]] = [
        {"requests": {f"example.com/r{i}": 1}, "images": [f"image-{i}:v1"]},
        {"affinity": {"podAffinity": {required: [{**here, "topologyKey": f"key-{i}"}]}}},
        {
            "affinity": {
                "podAntiAffinity": {
                    preferred: [
                        {"weight": 1 + i % 100, "podAffinityTerm": {**here, "topologyKey": ZONE}}
                    ]
                }
            }
        },
        {
            "topology_spread_constraints": [
                {"maxSkew": 9, "topologyKey": f"key-{i}", "whenUnsatisfiable": "DoNotSchedule"}
                | here,
                {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"} | here,
            ]
        },
        {"node_selector": {f"key-{i}": f"value-{i}"}},
        {"node_selector": {f"no-key-{i}": "x"}},
        {"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": f"disk-{i}"}}]},
        {"scheduling_group": {"podGroupName": f"group-{i}"}},
        {"cpu": f"{100 + i}"},
    ]
    for j, spec in enumerate(special):
        common: dict[str, Any] = {
            "namespace": f"ns-{i}",
            "labels": {"app": f"app-{i}", f"key-{i}-{j}": "x"},
            "annotations": {f"note-{i}": "x"},
            "cpu": f"{10 + i % 89}m",
            "memory": f"{10_000 + i}",
            "host_ports": [1024 + 12 * i + j],
            "tolerations": [{"key": f"taint-{i}", "operator": "Exists"}],
            "priority": i,
            "priority_class_name": f"priority-{i}",
            "service_account_name": f"account-{i}",
        }
        yield PodInfo.of(make_pod(f"pod-{i}-{j}", **{**common, **spec}))
    anywhere = [{"operator": "Exists"}]
    claim = {"persistentVolumeClaim": {"claimName": f"volume-claim-{i}"}}
    for name in ("stored", "stored-beside"):
        yield PodInfo.of(make_pod(f"{name}-{i}", volumes=[{"name": "v", **claim}]))
    yield world.pod_with(f"accelerated-{i}", f"claim-{i}", tolerations=anywhere)
    yield PodInfo.of(make_pod(f"large-{i}", cpu="3999m", priority=i + 9, tolerations=anywhere))


def churn(scheduler: Scheduler, clock: FakeClock, first: int) -> int:
    """Let things come and go, a round of them; return how many pods were bound."""
    client = scheduler.handle.client
    assert isinstance(client, MemoryClient)
    bound = 0
    for i in range(first, first + ROUND):
        clock.advance(1)
        labels = {"name": f"ns-{i}", "labels": {f"key-{i}": "x"}}
        scheduler.cache.set_namespace(msgspec.convert({"metadata": labels}, Namespace))
        node = make_node(
            f"node-{i}",
            labels={HOST: f"node-{i}", ZONE: f"zone-{i}", f"key-{i}": f"value-{i}"},
            annotations={f"note-{i}": "x"},
            taints=[f"taint-{i}=x:NoSchedule", f"soft-{i}=x:PreferNoSchedule"],
            resources={f"example.com/r{i}": 5},
            images={f"image-{i}:v1": 1000 * i},
        )
        node_seen(scheduler, node)
        for one in objects_of(i):
            object_seen(scheduler, None, one)
        pods = list(pods_of(i))
        for pod in pods:
            pod_seen(scheduler, pod)
            while (outcome := scheduler.schedule_one()) is not None:
                bound += bool(outcome.node)
        for pod in pods:
            pod_gone(scheduler, pod)
        for other in scheduler.handle.objects.every():
            object_gone(scheduler, other)
        node_gone(scheduler, node)
        scheduler.cache.remove_namespace(f"ns-{i}")
        client.__init__(objects=client.objects)  # type: ignore[misc]  # it notes what it is told
    return bound


def fields_of(one: object) -> Iterator[tuple[str, object]]:
    """Yield what an object holds under a name."""
    yield from getattr(one, "__dict__", {}).items()
    for kind in type(one).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(one, name):
                yield name, getattr(one, name)


def sizes(scheduler: Scheduler) -> dict[int, tuple[str, int]]:
    """Return each collection and array that a scheduler reaches: where it is, and its length."""
    found: dict[int, tuple[str, int]] = {}
    kept: list[object] = [scheduler]  # what is reached stays, so that no identity comes twice
    seen = {id(scheduler)}
    waiting: deque[tuple[object, str]] = deque([(scheduler, "")])
    passed = (str, bytes, int, float, type, types.ModuleType, types.CodeType, type(None))
    while waiting:
        one, place = waiting.popleft()
        inside = list(fields_of(one))
        named = [(held, f"{type(one).__name__}.{name}") for name, held in inside]
        # The globals of a function are those of its module.
        others = [] if isinstance(one, Callable) else gc.get_referents(one)  # type: ignore[arg-type]
        if isinstance(one, types.MethodType):
            others = [one.__self__, one.__func__]
        elif isinstance(one, types.FunctionType):
            others = [cell.cell_contents for cell in one.__closure__ or ()]
        for held, where in (*named, *((other, place) for other in others)):
            if id(held) in seen or isinstance(held, passed):
                continue
            seen.add(id(held))
            kept.append(held)
            waiting.append((held, where))
            if isinstance(held, (dict, list, set, frozenset, tuple, deque)):
                found[id(held)] = where, len(held)
            elif isinstance(held, np.ndarray):
                found[id(held)] = where, held.size
    return found


def small_tables(scheduler: Scheduler) -> None:
    """Let the tables look for what is not used any more after few names."""
    nodes, pods = scheduler.cache.nodes, scheduler.cache.pods
    for store in (nodes.strings, nodes.taint_sets, nodes.port_sets, nodes.usage):
        store.many = store._due = MANY
    pods.many_labels = pods._labels_due = MANY
    nodes.many_named = nodes._named_due = MANY
    for table in (nodes, pods):
        table.eviction.most = table.eviction._due = MANY


def test_new_names_leave_a_scheduler_that_is_no_larger() -> None:
    """Thousands of pods and hundreds of nodes come and go, no name, label or owner twice.

    After the second round, no collection is larger than after the first one; caches and logs are
    within their limits.
    """
    clock = FakeClock(1_700_000_000_000_000_000)
    client = MemoryClient()
    scheduler = build(client=client, now=clock)
    client.objects = scheduler.handle.objects
    small_tables(scheduler)
    node_seen(scheduler, make_node("stays", labels={HOST: "stays", ZONE: "here"}))
    bound = churn(scheduler, clock, 0)
    gc.collect()
    before = sizes(scheduler)
    assert churn(scheduler, clock, ROUND) == bound == 10 * ROUND
    gc.collect()
    after = sizes(scheduler)
    grown = {
        place: size
        for key, (place, size) in after.items()
        if size > 2 * MANY + before.get(key, ("", 0))[1]
    }
    assert {place: size for place, size in grown.items() if place not in BOUNDED} == {}
    assert all(size <= BOUNDED[place] for place, size in grown.items())
