"""The workloads of ``bench``: kube-scheduler's own benchmarks (scheduler_perf), in process.

Nodes and pods are those of scheduler_perf's templates. Init pods are bound before anything is
measured, round robin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import msgspec

from policy_sched.bench import device_manifests as devices, manifests as make
from policy_sched.bench.manifests import Maker, Manifest, node_name
from policy_sched.errors import PolicySchedError
from policy_sched.model import HOSTNAME, ZONE, Node, Pod
from policy_sched.policytest import load_scenarios


@dataclass(frozen=True, slots=True)
class Workload:
    """One benchmark: how a node, the init pods and the i-th measured pod look, and how many."""

    name: str
    node: Maker
    init_pods: tuple[Maker, ...]
    """Kinds of init pods, of each the same number, one kind after the other."""
    pod: Maker
    nodes: int
    pods: int
    init_per_node: float
    """Init pods bound to each node (a fraction of the nodes if below 1)."""
    note: str = ""
    threshold: int | None = None
    """Pods per second below which scheduler_perf's own run, with an API server, fails."""
    objects: tuple[Manifest, ...] = ()
    """Other API objects that are there."""
    churn: Maker | None = None
    """Pods that come between measured ones and are not measured."""
    churn_every: int = 0
    """One pod of ``churn`` comes before the first of so many measured pods."""
    of_node: Callable[[int], list[Manifest]] | None = None
    """Other API objects that come with the i-th node, such as its devices."""
    claim: Maker | None = None
    """The resource claim that comes with the i-th measured pod."""
    policies: tuple[str, ...] = ()
    """Shipped policies that take part, by folder; the rate is compared with SchedulingBasic's."""


def node_json(workload: Workload, index: int) -> bytes:
    """Return the JSON of a node, as the API server sends it."""
    return msgspec.json.encode(workload.node(index))


def pod_json(workload: Workload, index: int) -> bytes:
    """Return the JSON of a measured pod, as the API server sends it."""
    return msgspec.json.encode(workload.pod(index))


def churn_json(workload: Workload, first: int, pods: int) -> dict[int, bytes]:
    """Return the JSON of the pods that come between measured pods ``first`` up to so many more.

    They go by the place, counted from 0, of the measured pod that they come before.
    """
    if workload.churn is None:
        return {}
    churn = workload.churn
    positions = range(0, pods, workload.churn_every)
    return {position: msgspec.json.encode(churn(first + position)) for position in positions}


def claims_json(workload: Workload, first: int, pods: int) -> list[bytes]:
    """Return the JSON of the resource claims of measured pods ``first`` up to so many more."""
    if workload.claim is None:
        return []
    return [msgspec.json.encode(workload.claim(first + i)) for i in range(pods)]


def init_pods_json(workload: Workload, nodes: int) -> Iterator[bytes]:
    """Yield the JSON of every init pod, bound to the nodes in turn."""
    count = round(nodes * workload.init_per_node)
    share = -(-count // max(1, len(workload.init_pods)))
    for i in range(count):
        manifest = workload.init_pods[i // share](i)
        spec = manifest["spec"]
        assert isinstance(spec, dict)
        spec["nodeName"] = node_name(i % nodes)
        yield msgspec.json.encode(manifest)


def _spreading(name: str, when: str, threshold: int) -> Workload:
    constraint = {
        "maxSkew": 5,
        "topologyKey": ZONE,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"color": "blue"}},
    }
    spec: Manifest = {"topologySpreadConstraints": [constraint]}
    pod = make.labelled("spread", "default", "blue", spec)
    return Workload(
        name,
        make.moon_node,
        (make.plain("init"),),
        pod,
        nodes=5000,
        pods=5000,
        init_per_node=1.0,
        threshold=threshold,
    )


def _attracted(
    name: str,
    color: str,
    kind: str,
    topology_key: str,
    *,
    threshold: int,
    preferred: bool = False,
) -> Workload:
    """Return a workload whose init pods and measured pods ask for, or shun, each other."""
    term: Manifest = {
        "labelSelector": {"matchLabels": {"color": color}},
        "topologyKey": topology_key,
        "namespaces": ["sched-1", "sched-0"],
    }
    rule: Manifest = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    if preferred:
        weighted = {"weight": 1, "podAffinityTerm": term}
        rule = {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}
    spec: Manifest = {"affinity": {kind: rule}}
    return Workload(
        name,
        make.zoned_node if topology_key == ZONE else make.node,
        (make.labelled("init", "sched-0", color, spec),),
        make.labelled("pod", "sched-1", color, spec),
        nodes=5000,
        pods=5000,
        init_per_node=1.0,
        threshold=threshold,
    )


BASIC: Final = Workload(
    "SchedulingBasic",
    make.node,
    (make.plain("init"),),
    make.plain("pod"),
    nodes=5000,
    pods=10_000,
    init_per_node=0.2,
    threshold=270,
)
NODE_AFFINITY: Final = Workload(
    "SchedulingNodeAffinity",
    make.zoned_node,
    (make.affine("init"),),
    make.affine("affinity"),
    nodes=5000,
    pods=10_000,
    init_per_node=1.0,
    threshold=220,
)
DISTINCT: Final = replace(
    BASIC,
    name="SchedulingDistinct",
    pod=make.distinct,
    threshold=None,
    note="not of scheduler_perf: SchedulingBasic with pods of which no two are alike",
)
DAEMON_SET: Final = Workload(
    "SchedulingDaemonset",
    make.node_beside_named,
    (),
    make.bound_by_name,
    nodes=15_001,
    pods=30_000,
    init_per_node=0,
    threshold=390,
    note="one of the nodes is the named one that every measured pod needs",
)

AFFINITY: Final = _attracted("SchedulingPodAffinity", "blue", "podAffinity", ZONE, threshold=35)
ANTI_AFFINITY: Final = replace(
    _attracted("SchedulingPodAntiAffinity", "green", "podAntiAffinity", HOSTNAME, threshold=60),
    pods=2000,
    init_per_node=0.2,
)
PREFERRED_AFFINITY: Final = _attracted(
    "SchedulingPreferredPodAffinity", "red", "podAffinity", HOSTNAME, threshold=90, preferred=True
)
PREFERRED_ANTI_AFFINITY: Final = _attracted(
    "SchedulingPreferredPodAntiAffinity",
    "yellow",
    "podAntiAffinity",
    HOSTNAME,
    threshold=90,
    preferred=True,
)
_ATTRACTED: Final = (AFFINITY, ANTI_AFFINITY, PREFERRED_AFFINITY, PREFERRED_ANTI_AFFINITY)

DEFAULT_SPREADING: Final = Workload(
    "DefaultTopologySpreading",
    make.moon_node,
    (make.plain("init"),),
    make.behind_service,
    nodes=5000,
    pods=10_000,
    init_per_node=1.0,
    objects=(make.service(),),
)
NEIGHBOURS: Final = (
    _spreading("TopologySpreading", "DoNotSchedule", 85),
    _spreading("PreferredTopologySpreading", "ScheduleAnyway", 125),
    DEFAULT_SPREADING,
    *_ATTRACTED,
)
"""Workloads whose pods look at the pods around them."""

MIXED_BASE: Final = Workload(
    "MixedSchedulingBasePod",
    make.zoned_node,
    (make.plain("init"), *(maker for workload in _ATTRACTED for maker in workload.init_pods)),
    make.plain("pod"),
    nodes=5000,
    pods=5000,
    init_per_node=2.0,
    threshold=140,
)

PREEMPTION_BASIC: Final = Workload(
    "PreemptionBasic",
    make.node,
    (make.low_priority,),
    make.high_priority("high"),
    nodes=1000,
    pods=1000,
    init_per_node=4.0,
    note="a pod takes two decisions: it evicts three pods, which are gone at once, and is bound",
)
PREEMPTION_ASYNC: Final = Workload(
    "PreemptionAsync",
    make.node,
    (make.low_priority,),
    make.plain("pod"),
    nodes=5000,
    pods=5000,
    init_per_node=4.0,
    threshold=160,
    note="no clock runs here: instead of every 200 ms a pod of high priority, which evicts three "
    "others, comes every 32 pods, as it does upstream at the threshold of 160 pods/s",
    churn=make.high_priority("churn"),
    churn_every=32,
)
UNSCHEDULABLE: Final = Workload(
    "Unschedulable",
    make.node,
    (make.plain("init"),),
    make.plain("pod"),
    nodes=5000,
    pods=10_000,
    init_per_node=0.02,
    threshold=170,
    note="no clock runs here: instead of every 200 ms a pod that fits nowhere comes every 34 "
    "pods, as it does upstream at the threshold of 170 pods/s",
    churn=make.large,
    churn_every=34,
)
UNSCHEDULABLE_DISTINCT: Final = Workload(
    "UnschedulableDistinct",
    make.full_node,
    (make.filling,),
    make.distinct,
    nodes=5000,
    pods=10_000,
    init_per_node=1.0,
    note="not of scheduler_perf: pods of which no two are alike, and none fits; a third of the "
    "nodes each have a taint, no cpu and no memory left",
)
MAKING_ROOM: Final = (PREEMPTION_BASIC, PREEMPTION_ASYNC, UNSCHEDULABLE, UNSCHEDULABLE_DISTINCT)
"""Workloads with pods that fit nowhere."""

DRY_RUN: Final = Workload(
    "PreemptionDryRun",
    make.node,
    (make.budgeted,),
    make.high_priority("high"),
    nodes=5000,
    pods=200,
    init_per_node=10.0,
    note="not of scheduler_perf: the search for victims on all nodes, with 3 disruption budgets",
    objects=tuple(make.budget(number) for number in range(3)),
)
"""No pod is decided in it; see `preemption`."""

_claiming = partial(
    Workload,
    node=make.node,
    init_pods=(),
    pod=devices.pod,
    nodes=500,
    init_per_node=0,
    objects=(devices.device_class(),),
)
ONE_DEVICE: Final = _claiming(
    "SchedulingWithResourceClaimTemplate",
    of_node=devices.whole_devices,
    claim=devices.one_device,
    pods=2500,
    threshold=40,
    note="8 devices on each node; no claim controller runs here: a claim comes with its pod",
)
MATCHING: Final = _claiming(
    "SchedulingWithMatchAttribute",
    of_node=devices.whole_devices,
    claim=devices.matching,
    pods=1500,
    note="not of scheduler_perf: 2 of 8 devices with an attribute in common",
)
CONSUMABLE_CAPACITY: Final = _claiming(
    "ConsumableCapacity",
    of_node=devices.shareable_devices,
    claim=devices.share,
    pods=2500,
    note="an eighth of one of 8 devices, by its memory",
)
PARTITIONABLE: Final = _claiming(
    "Partitionable",
    of_node=devices.partitionable_devices,
    claim=devices.partition,
    pods=2500,
    note="one of the two halves of one of 8 devices",
)
WITH_DEVICES: Final = (ONE_DEVICE, MATCHING, CONSUMABLE_CAPACITY, PARTITIONABLE)
"""Workloads whose pods claim devices: scheduler_perf's of topic dra."""

CAPACITY: Final = replace(
    BASIC,
    name="CapacityScheduling",
    pod=make.of_team,
    objects=tuple(make.quota(number) for number in range(make.TEAMS)),
    policies=("capacity",),
    threshold=None,
    note=f"not of scheduler_perf: each of {make.TEAMS:,} namespaces has an ElasticQuota",
)
NUMA: Final = replace(
    BASIC,
    name="NodeResourceTopologyMatch",
    of_node=make.zones_of_node,
    policies=("numa",),
    threshold=None,
    note="not of scheduler_perf: 8 zones on each node, and each container needs one of them",
)
WITH_INPUTS: Final = (CAPACITY, NUMA)
"""Workloads whose shipped policies read objects of other kinds."""

WORKLOADS: Final = {
    "NodeAffinity": NODE_AFFINITY,
    "MixedBase": MIXED_BASE,
    **{
        workload.name: workload
        for workload in (BASIC, DISTINCT, NODE_AFFINITY, MIXED_BASE, DAEMON_SET)
    },
    **{
        workload.name: workload
        for workload in (*NEIGHBOURS, *MAKING_ROOM, *WITH_DEVICES, *WITH_INPUTS)
    },
}
"""Workloads by name, with the short names that people use."""


_SAME: Final = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})
"""Resources of which nodes and pods keep the benchmark's own amounts."""


def workload_from_test(workload: Workload, path: str) -> Workload:
    """Return a workload whose nodes and measured pods look like those of a file's first scenario.

    Raises PolicyError with every problem of the file, and PolicySchedError if it has no node or no
    pending pod.
    """
    scenario = next(iter(load_scenarios(path)), None)
    objects = () if scenario is None else scenario.objects
    pending = () if scenario is None else scenario.pending
    nodes = [_plain(node) for node in objects if isinstance(node, Node)]
    if not nodes or not pending:
        raise PolicySchedError(f"{path}: no node or no pending pod in its first scenario")
    others = tuple(_plain(other) for other in objects if not isinstance(other, Node | Pod))
    return replace(
        workload,
        node=_node_maker(workload.node, nodes),
        pod=_pod_maker(workload.pod, _plain(pending[0])),
        objects=(*workload.objects, *others),
        threshold=None,
        note=f"nodes and pods look like those of {path}",
    )


def _plain(value: object) -> Manifest:
    return msgspec.json.decode(msgspec.json.encode(value), type=dict[str, object])


def _node_maker(make: Maker, models: list[Manifest]) -> Maker:
    def made(index: int) -> Manifest:
        model, node = models[index % len(models)], make(index)
        _dress(node, model, ())
        own, other = _part(node, "spec"), _part(model, "spec")
        own.update({key: other[key] for key in ("taints", "unschedulable") if key in other})
        for key in ("capacity", "allocatable"):
            amounts = _part(_part(model, "status"), key)
            _part(node, "status")[key] = {**_part(_part(node, "status"), key), **_devices(amounts)}
        return node

    return made


def _pod_maker(make: Maker, model: Manifest) -> Maker:
    wanted: Manifest = {}
    for container in _containers(model):
        wanted |= _devices(_part(_part(container, "resources"), "requests"))

    def made(index: int) -> Manifest:
        pod = make(index)
        _dress(pod, model, ("namespace", "ownerReferences"))
        spec, other = _part(pod, "spec"), _part(model, "spec")
        spec.update({k: v for k, v in other.items() if k not in ("containers", "nodeName")})
        resources = _part(_containers(pod)[0], "resources")
        for key in ("requests", "limits"):
            resources[key] = {**_part(resources, key), **wanted}
        return pod

    return made


def _dress(made: Manifest, model: Manifest, keys: tuple[str, ...]) -> None:
    """Give an object a model's labels (its own win), annotations and some other metadata."""
    own, other = _part(made, "metadata"), _part(model, "metadata")
    own["labels"] = {**_part(other, "labels"), **_part(own, "labels")}
    own["annotations"] = {**_part(own, "annotations"), **_part(other, "annotations")}
    own.update({key: other[key] for key in keys if key in other})


def _part(manifest: Mapping[str, object], key: str) -> Manifest:
    part = manifest.get(key, {})
    assert isinstance(part, dict)
    return part


def _containers(pod: Manifest) -> list[Manifest]:
    containers = _part(pod, "spec")["containers"]
    assert isinstance(containers, list)
    return containers


def _devices(amounts: Manifest) -> Manifest:
    return {name: amount for name, amount in amounts.items() if name not in _SAME}
