"""A small cluster with storage, for tests of the volume plugins; objects from keywords."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np

from policy_sched.client.memory import MemoryClient
from policy_sched.client.protocol import Client
from policy_sched.cluster.cache import Cache
from policy_sched.cluster.listers import ApiObjects
from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.handle import Handle
from policy_sched.framework.results import FilterResult, PreFilterResult
from policy_sched.framework.status import Status
from policy_sched.framework.waiting_pods import WaitingPods
from policy_sched.model.cluster_objects import Node
from policy_sched.model.meta import ApiObject
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from policy_sched.queue.nominator import Nominator
from policy_sched.testing import FakeClock, make_node, make_pod

T = TypeVar("T", bound=ApiObject)
NODES = ("n0", "n1", "n2")
ZONES = ("a", "a", "b")
ZONE = "topology.kubernetes.io/zone"
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


class World:
    """Nodes n0 and n1 of zone a and n2 of zone b, and the objects that a test adds."""

    def __init__(
        self,
        *objects: ApiObject,
        nodes: Sequence[Node] | None = None,
        client: Client | None = None,
    ) -> None:
        self.clock = FakeClock()
        self.cache = Cache()
        self.objects = ApiObjects(objects, self.cache.nodes.journal)
        self.client = MemoryClient(objects=self.objects)
        self.handle = Handle(
            self.cache,
            WaitingPods(),
            Nominator(),
            client or self.client,
            self.clock,
            self.objects,
        )
        for node in zoned_nodes() if nodes is None else nodes:
            self.cache.add_node(node)

    def run(self, node: str, name: str, *volumes: dict[str, Any], **pod: Any) -> PodInfo:
        """Put a pod on a node."""
        info = pod_with(*volumes, name=name, node_name=node, **pod)
        self.cache.add_pod(info)
        return info


def zoned_nodes() -> list[Node]:
    """Return the three nodes."""
    return [
        make_node(name, labels={ZONE: zone, "kubernetes.io/hostname": name})
        for name, zone in zip(NODES, ZONES, strict=True)
    ]


def pod_with(*volumes: dict[str, Any], name: str = "p", **pod: Any) -> PodInfo:
    """Return a pod whose volumes have these sources."""
    named = [{"name": f"v{i}", **source} for i, source in enumerate(volumes)]
    return PodInfo.of(make_pod(name, volumes=named, **pod))


def uses(claim: str) -> dict[str, Any]:
    """Return the source of a volume that is a claim."""
    return {"persistentVolumeClaim": {"claimName": claim}}


def ask(plugin: Any, pod: PodInfo) -> tuple[PreFilterResult, CycleState]:
    """Return a plugin's PreFilter result, and the state with its data."""
    state = CycleState()
    hook = plugin.pre_filter
    wants_state = "state" in hook.__code__.co_varnames[: hook.__code__.co_argcount]
    return (hook(state, pod) if wants_state else hook(pod)), state


def reasons(verdict: FilterResult, n: int = 3) -> list[tuple[str, ...]]:
    """Return the reasons for all rows, none for feasible ones."""
    answers: list[tuple[str, ...]] = [()] * n
    if verdict.codes is None:
        return answers
    rows = np.flatnonzero(verdict.codes)
    for row, status in zip(rows.tolist(), verdict.describe(rows, verdict.codes[rows]), strict=True):
        answers[row] = status.reasons
    return answers


def rejection(result: PreFilterResult) -> Status:
    """Return the status of a PreFilter result."""
    return result.status


def make_claim(name: str, **fields: Any) -> PersistentVolumeClaim:
    """Return a claim; ``volume`` makes it a bound one."""
    volume = fields.pop("volume", "")
    meta = {
        "name": name,
        "namespace": fields.pop("namespace", "default"),
        "uid": f"uid-{name}",
        "annotations": fields.pop("annotations", BOUND if volume else {}),
        "deletionTimestamp": fields.pop("deleted", None),
        "ownerReferences": fields.pop("owners", []),
    }
    status = {"phase": fields.pop("phase", "Bound" if volume else "Pending")}
    spec = {
        "accessModes": fields.pop("modes", ["ReadWriteOnce"]),
        "resources": {"requests": {"storage": fields.pop("size", "1Gi")}},
        "storageClassName": fields.pop("storage_class", "wait"),
        "volumeName": volume,
        **fields,
    }
    return _make(PersistentVolumeClaim, meta, spec=spec, status=status)


def make_volume(name: str, **fields: Any) -> PersistentVolume:
    """Return a volume; ``zones`` or ``hosts`` limit the nodes that reach it."""
    meta = {
        "name": name,
        "labels": fields.pop("labels", {}),
        "annotations": fields.pop("annotations", {}),
        "deletionTimestamp": fields.pop("deleted", None),
    }
    spec: dict[str, Any] = {
        "capacity": {"storage": fields.pop("size", "1Gi")},
        "accessModes": fields.pop("modes", ["ReadWriteOnce"]),
        "storageClassName": fields.pop("storage_class", "wait"),
    }
    status = {"phase": fields.pop("phase", "Available")}
    for argument, key in (("zones", ZONE), ("hosts", "kubernetes.io/hostname")):
        values = fields.pop(argument, None)
        if values is not None:
            term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return _make(PersistentVolume, meta, spec={**spec, **fields}, status=status)


def make_class(name: str = "wait", **fields: Any) -> StorageClass:
    """Return a storage class, one that waits for the pod unless ``mode`` is another."""
    mode = fields.pop("mode", "WaitForFirstConsumer")
    provisioner = fields.pop("provisioner", "csi.example")
    zones = fields.pop("zones", None)
    if zones is not None:
        term = {"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}
        fields["allowedTopologies"] = [term]
    return _make(
        StorageClass, {"name": name}, provisioner=provisioner, volumeBindingMode=mode, **fields
    )


def make_csi_node(
    name: str, limits: dict[str, int | None] | None = None, migrated: str = ""
) -> CsiNode:
    """Return the CSINode of a node: the limit of each driver."""
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": migrated} if migrated else {}
    drivers = [
        {"name": driver, "nodeID": name, "allocatable": None if n is None else {"count": n}}
        for driver, n in (limits or {}).items()
    ]
    meta = {"name": name, "annotations": annotations}
    return _make(CsiNode, meta, spec={"drivers": drivers})


def make_capacity(name: str, capacity: str, zone: str | None, **fields: Any) -> CsiStorageCapacity:
    """Return the capacity in a zone; None is everywhere."""
    meta = {"name": name, "namespace": "default"}
    topology = {"matchLabels": {} if zone is None else {ZONE: zone}}
    name = fields.pop("storage_class", "wait")
    body = {"storageClassName": name, "nodeTopology": topology, "capacity": capacity, **fields}
    return _make(CsiStorageCapacity, meta, **body)


def make_driver(name: str = "csi.example", *, storage_capacity: bool = True) -> CsiDriver:
    """Return a CSI driver."""
    return _make(CsiDriver, {"name": name}, spec={"storageCapacity": storage_capacity})


def make_attachment(name: str, node: str, volume: str, driver: str) -> VolumeAttachment:
    """Return a volume attachment."""
    spec = {"attacher": driver, "nodeName": node, "source": {"persistentVolumeName": volume}}
    return _make(VolumeAttachment, {"name": name}, spec=spec)


KIND_NAMES = {CsiNode: "CSINode", CsiDriver: "CSIDriver", CsiStorageCapacity: "CSIStorageCapacity"}


def _make(kind: type[T], meta: dict[str, Any], **body: Any) -> T:
    name = KIND_NAMES.get(kind, kind.__name__)
    return msgspec.convert({"kind": name, "metadata": meta, **body}, kind)
