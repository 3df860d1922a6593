"""Workloads become pods: how many, under which names, and where they are placed."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from policy_sched.manifests.load import load
from policy_sched.manifests.workload_expansion import JOB_INDEX, TEMPLATE_HASH
from policy_sched.model import PodInfo, cluster_objects
from policy_sched.model.kinds import KINDS
from policy_sched.model.meta import ApiObject
from policy_sched.model.pod import Pod, PodTemplate
from policy_sched.model.storage import PersistentVolumeClaim
from policy_sched.report import unshown
from policy_sched.scheduler.setup.factory import build, load_cluster
from policy_sched.simulate import workloads
from policy_sched.simulate.one_shot import run_queue
from policy_sched.testing import make_node

HERE = Path(__file__).parent / "manifests"
ZONE = "topology.kubernetes.io/zone"
CONTAINERS = {"containers": [{"name": "c", "image": "i"}]}


def given(name: str) -> list[ApiObject]:
    """Return the objects of a manifest file beside this one."""
    manifests = load([str(HERE / name)], None)
    assert manifests.diagnostics == []
    return manifests.objects


def decoded(api_version: str, kind: str, name: str, **spec: object) -> ApiObject:
    """Return an object as a manifest would have it."""
    manifest = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }
    return msgspec.convert(manifest, KINDS[api_version, kind])


def owned_pod(name: str, kind: str, owner: str, **status: object) -> Pod:
    """Return a pod that a workload has made already."""
    reference = {"apiVersion": "v1", "kind": kind, "name": owner, "uid": "", "controller": True}
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "ownerReferences": [reference]},
        "spec": CONTAINERS,
        "status": status,
    }
    return msgspec.convert(manifest, Pod)


def pods_by_owner(objects: list[ApiObject]) -> dict[str, list[Pod]]:
    """Return the pods by kind of their owner."""
    by_name: defaultdict[str, list[Pod]] = defaultdict(list)
    for obj in objects:
        if isinstance(obj, Pod):
            by_name[obj.metadata.owner_references[0].kind].append(obj)
    return by_name


def placed(objects: list[ApiObject]) -> dict[str, str | None]:
    """Return the node of each pod."""
    scheduler = build(objects=objects)
    infos = [PodInfo.of(pod) for pod in load_cluster(scheduler.cache, objects)]
    run = run_queue(scheduler, infos, unshown)
    return {placement.pod: placement.node for placement in run.placements}


def test_every_kind_makes_its_pods_and_they_are_placed() -> None:
    """Replicas, a replica set's pods for a deployment, numbered pods, a daemon for each node."""
    objects = workloads.expand(given("workloads.yaml"))
    pods = pods_by_owner(objects)
    names = {kind: [pod.metadata.name for pod in other] for kind, other in pods.items()}
    assert {kind: len(other) for kind, other in names.items()} == {
        "ReplicaSet": 5,
        "StatefulSet": 2,
        "DaemonSet": 2,
        "Job": 2,
    }
    assert names["StatefulSet"] == ["db-1", "db-2"]
    assert [name[:6] for name in names["Job"]] == ["sum-0-", "sum-1-"]
    assert len({name for other in names.values() for name in other}) == 11
    nodes = placed(objects)
    assert None not in nodes.values()
    daemons = {nodes[f"default/{name}"] for name in names["DaemonSet"]}
    assert daemons == {"n1", "n3"}, "the cordoned node too, and not the one with the other disk"


def test_pods_are_completed_as_the_api_server_would() -> None:
    """Requests are the limits where only these are given; the priority is that of the class."""
    pods = pods_by_owner(workloads.expand(given("workloads.yaml")))
    web = pods["ReplicaSet"][0]
    assert web.spec.containers[0].resources.requests == {"cpu": "100m"}
    assert web.metadata.labels["app"] == "web"
    assert {pod.spec.priority for pod in pods["Job"]} == {7}
    assert pods["ReplicaSet"][-1].metadata.namespace == "shop"


def test_a_stateful_set_has_claims_for_each_pod() -> None:
    """One for each template and pod, named after both; the pod's volume is the claim."""
    objects = workloads.expand(given("workloads.yaml"))
    claims = [obj for obj in objects if isinstance(obj, PersistentVolumeClaim)]
    assert [claim.metadata.name for claim in claims] == ["data-db-1", "data-db-2"]
    assert claims[0].spec.storage_class_name == "local"
    (volume,) = pods_by_owner(objects)["StatefulSet"][0].spec.volumes
    assert volume.persistent_volume_claim is not None
    assert volume.persistent_volume_claim.claim_name == "data-db-1"


def test_the_same_manifests_give_the_same_pods() -> None:
    """Names are computed from the objects."""
    first, second = (workloads.expand(given("workloads.yaml")) for _ in range(2))
    assert first == second


def test_pods_are_created_with_their_workload() -> None:
    """Virtual time lets them arrive then; a workload without a time has pods without one."""
    template = {"spec": CONTAINERS}
    for kind in ("Deployment", "StatefulSet"):
        old = decoded("apps/v1", kind, "old", replicas=2, template=template)
        old.metadata.creation_timestamp = datetime(2026, 3, 1, tzinfo=UTC)
        young = decoded("apps/v1", kind, "young", replicas=2, template=template)
        pods = [item for item in workloads.expand([old, young]) if isinstance(item, Pod)]
        times = [pod.metadata.creation_timestamp for pod in pods]
        assert times == [old.metadata.creation_timestamp] * 2 + [None] * 2


def test_what_is_given_stays_in_its_order() -> None:
    """Expanded objects stand behind their workload; a second expansion adds nothing."""
    objects = given("workloads.yaml")
    expanded = workloads.expand(objects)
    assert [item for item in expanded if item in objects] == objects
    assert workloads.expand(expanded) == expanded


def test_pods_that_are_there_are_counted() -> None:
    """A pod that runs is one of the replicas; one that has ended is not."""
    template = {"metadata": {"labels": {"app": "a"}}, "spec": CONTAINERS}
    replica_set = decoded("apps/v1", "ReplicaSet", "a", replicas=3, template=template)
    there = [owned_pod("a-1", "ReplicaSet", "a"), owned_pod("a-2", "ReplicaSet", "a")]
    ended = owned_pod("a-3", "ReplicaSet", "a", phase="Failed")
    expanded = workloads.expand([replica_set, *there, ended])
    assert len(expanded) == 4 + 1


def test_a_deployment_uses_the_replica_set_that_it_has() -> None:
    """A set with the deployment's template takes the missing replicas; no other is made."""
    template = {"metadata": {"labels": {"app": "a"}}, "spec": CONTAINERS}
    deployment = decoded("apps/v1", "Deployment", "a", replicas=4, template=template)
    made = [
        item
        for item in workloads.expand([deployment])
        if isinstance(item, cluster_objects.ReplicaSet)
    ]
    again = workloads.expand([deployment, *made])
    assert sum(isinstance(item, cluster_objects.ReplicaSet) for item in again) == 1
    assert sum(isinstance(item, Pod) for item in again) == 4


@pytest.mark.parametrize("replicas", [0, -1])
def test_a_workload_that_wants_no_pods_has_none(replicas: int) -> None:
    """Nothing comes of zero replicas."""
    template = {"spec": CONTAINERS}
    for kind in ("Deployment", "ReplicaSet", "StatefulSet"):
        workload = decoded("apps/v1", kind, "a", replicas=replicas, template=template)
        assert not any(isinstance(item, Pod) for item in workloads.expand([workload]))


def test_a_workload_without_a_template_makes_nothing() -> None:
    """A cut-down manifest, as for a test of selectors, is no mistake."""
    for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"):
        workload = decoded("apps/v1", kind, "a")
        assert workloads.expand([workload, make_node("n")])[0] == workload
        assert len(workloads.expand([workload, make_node("n")])) == 2


def test_online_boutique_spreads_over_zones() -> None:
    """Its Services make pods spread by default, though two thirds of the nodes are in one zone."""
    zones = "aaaaaabbc"
    nodes: list[ApiObject] = [
        make_node(f"node-{i}", cpu="64", labels={ZONE: zone, "kubernetes.io/hostname": f"node-{i}"})
        for i, zone in enumerate(zones)
    ]
    shop = given("online_boutique.yaml")
    for item in shop:
        if isinstance(item, cluster_objects.Deployment):
            item.spec.replicas = 6
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pod, node in placed(workloads.expand([*nodes, *shop])).items():
        assert node is not None
        deployment = pod.partition("/")[2].rsplit("-", 2)[0]
        counts[deployment][zones[int(node.removeprefix("node-"))]] += 1
    assert len(counts) == 12
    behind_service = {name for name in counts if name != "loadgenerator"}
    for name in behind_service:
        assert max(counts[name].values()) - min(counts[name].values()) <= 2, (name, counts[name])
    assert all(isinstance(node, cluster_objects.Node) for node in nodes)


def test_workloads_together_make_no_more_pods_than_a_cluster_may_have() -> None:
    """A thousand deployments of as many pods as one may want."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}
    many = [
        decoded("apps/v1", "ReplicaSet", f"w{number}", replicas=100_000, template=template)
        for number in range(3)
    ]
    with pytest.raises(
        workloads.ExpansionError, match="ReplicaSet default/w1: the workloads make more"
    ):
        workloads.expand(many)


def runtime_class(**scheduling: object) -> ApiObject:
    """Return a runtime class."""
    data = {"metadata": {"name": "sandboxed"}, "overhead": {"podFixed": {"cpu": "1"}}}
    kind = KINDS["node.k8s.io/v1", "RuntimeClass"]
    return msgspec.convert({**data, "scheduling": scheduling}, kind)


def test_pods_of_workloads_have_the_overhead_of_their_runtime_class() -> None:
    """A controller's pods pass the admission, too; a conflict is reported with the workload."""
    spec = {"runtimeClassName": "sandboxed", "containers": [{"name": "c"}]}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {**spec, "nodeSelector": {"x": "1"}}}
    web = decoded("apps/v1", "ReplicaSet", "web", replicas=2, template=template)
    made = workloads.expand([web, runtime_class(nodeSelector={"y": "2"})])
    pods = [other for other in made if isinstance(other, Pod)]
    assert [other.spec.overhead for other in pods] == [{"cpu": "1"}] * 2
    assert pods[0].spec.node_selector == {"x": "1", "y": "2"}
    with pytest.raises(
        workloads.ExpansionError, match="ReplicaSet default/web: conflict: runtimeClass"
    ):
        workloads.expand([web, runtime_class(nodeSelector={"x": "2"})])


def job(status: dict[str, object] | None = None, **spec: object) -> cluster_objects.Job:
    """Return a job."""
    manifest = {"metadata": {"name": "j"}, "spec": spec, "status": status or {}}
    return msgspec.convert(manifest, cluster_objects.Job)


def pod(phase: str, index: int | None = None) -> Pod:
    """Return a pod of the job, with its completion index."""
    labels = {} if index is None else {JOB_INDEX: str(index)}
    manifest = {"metadata": {"name": "p", "labels": labels}, "status": {"phase": phase}}
    return msgspec.convert(manifest, Pod)


@pytest.mark.parametrize(
    ("spec", "phases", "wanted"),
    [
        ({}, [], 1),
        ({"parallelism": 3}, [], 3),
        ({"completions": 5}, [], 1),
        ({"completions": 5, "parallelism": 3}, [], 3),
        ({"completions": 5, "parallelism": 3}, ["Running", "Succeeded"], 2),
        ({"completions": 5, "parallelism": 3}, ["Succeeded"] * 4, 1),
        ({"completions": 2, "parallelism": 3}, ["Failed"], 2),
        ({"parallelism": 3}, ["Succeeded", "Running"], 0),
        ({"parallelism": 3, "suspend": True}, [], 0),
        ({"parallelism": 0}, [], 0),
    ],
)
def test_so_many_pods_at_a_time(spec: dict[str, object], phases: list[str], wanted: int) -> None:
    """Not more than are missing to the completions; a work queue ends with the first success."""
    assert (
        list(workloads.missing_of_job(job(**spec), [pod(phase) for phase in phases]))
        == [None] * wanted
    )


def test_indexes_that_are_taken_or_done_are_left_out() -> None:
    """The lowest free ones come first; the status may name some as done."""
    indexed = job(
        {"completedIndexes": "0-1,4", "succeeded": 3},
        completions=8,
        parallelism=3,
        completionMode="Indexed",
    )
    assert list(workloads.missing_of_job(indexed, [pod("Running", 2)])) == [3, 5]


@pytest.mark.parametrize("condition", ["Complete", "Failed"])
def test_a_job_that_is_over_wants_nothing(condition: str) -> None:
    """Its conditions are final."""
    over = job({"conditions": [{"type": condition, "status": "True"}]}, parallelism=2)
    assert list(workloads.missing_of_job(over, [])) == []


@pytest.mark.parametrize(
    ("phase", "deleted", "counts"),
    [
        ("", None, True),
        ("Running", None, True),
        ("Succeeded", None, False),
        ("Failed", None, False),
        ("Running", "2026-01-01T00:00:00Z", False),
    ],
)
def test_a_pod_counts_until_it_has_ended_or_leaves(
    phase: str, deleted: str | None, *, counts: bool
) -> None:
    """One that is being deleted is replaced at once."""
    metadata = {"name": "p", "deletionTimestamp": deleted}
    pod = msgspec.convert({"metadata": metadata, "status": {"phase": phase}}, Pod)
    assert workloads.active(pod) is counts


def test_a_daemon_is_for_the_node_that_it_runs_on_or_was_made_for() -> None:
    """The node's name, or the one that its affinity requires; else none."""
    field = {"key": "metadata.name", "operator": "In", "values": ["n2"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    for spec, nodes in (
        ({"nodeName": "n1"}, {"n1"}),
        ({"affinity": affinity}, {"n2"}),
        ({}, set()),
    ):
        pod = msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, Pod)
        assert workloads.daemon_nodes(pod) == nodes


def test_templates_are_the_same_but_for_the_hash() -> None:
    """The label that the controller adds does not count; any other does."""
    plain, hashed, other = (
        msgspec.convert({"metadata": {"labels": labels}}, PodTemplate)
        for labels in ({"a": "1"}, {"a": "1", TEMPLATE_HASH: "x"}, {"a": "2"})
    )
    assert workloads.same_template(plain, hashed)
    assert not workloads.same_template(plain, other)
