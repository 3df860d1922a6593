"""What one replica is: the pods and claims of manifests, and their copies."""

from __future__ import annotations

import io

import pytest

from policy_sched.errors import PolicyError
from policy_sched.fit.unit import FitUnit, unit_of
from policy_sched.manifests.load import load
from policy_sched.model.cluster_objects import PriorityClass, ReplicaSet
from policy_sched.model.meta import ApiObject, ObjectMeta
from policy_sched.model.storage import PersistentVolumeClaim

TEMPLATE = """
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: nginx}]
"""


def unit(text: str, *cluster: ApiObject) -> FitUnit:
    """Return the unit of a manifest."""
    manifests = load(["-"], io.StringIO(text), cluster=cluster)
    assert not manifests.diagnostics
    return unit_of(manifests, cluster, "-")


def refusal(text: str) -> str:
    """Return the problems of a manifest, a line each."""
    with pytest.raises(PolicyError) as caught:
        unit(text)
    return "\n".join(f"{d.line}: {d.message}" for d in caught.value.diagnostics)


POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, uid: abc}
spec:
  nodeName: n1
  schedulingGates: [{name: quota}]
  priorityClassName: high
  containers: [{name: c, image: nginx}]
  volumes:
  - {name: own, persistentVolumeClaim: {claimName: data}}
  - {name: shared, persistentVolumeClaim: {claimName: common}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop}
spec: {storageClassName: fast}
"""


def test_a_pod_of_a_cluster_is_counted_as_a_new_one() -> None:
    """Node, gates, status and UID of a pod that was printed by kubectl do not matter."""
    high = PriorityClass("scheduling.k8s.io/v1", "PriorityClass", ObjectMeta(name="high"), value=7)
    replica = unit(POD, high)
    assert replica.name == "shop/web"
    (pod,) = replica.pods
    assert (pod.spec.node_name, pod.spec.scheduling_gates, pod.metadata.uid) == ("", (), "")
    assert pod.spec.priority == 7


def test_a_copy_has_its_own_claims() -> None:
    """A claim beside the pod is made for each replica; one of the cluster is shared."""
    high = PriorityClass("scheduling.k8s.io/v1", "PriorityClass", ObjectMeta(name="high"))
    replica = unit(POD, high)
    objects, (pod,) = replica.copy(3)
    assert [obj.metadata.name for obj in objects] == ["data-fit-3"]
    assert pod.metadata.name == "web-fit-3"
    assert pod.metadata.uid == "fit/shop/web-fit-3"
    claims = [v.persistent_volume_claim for v in pod.spec.volumes]
    assert [claim.claim_name for claim in claims if claim] == ["data-fit-3", "common"]


@pytest.mark.parametrize(
    ("kind", "version", "spec"),
    [
        ("Deployment", "apps/v1", "replicas: 7"),
        ("ReplicaSet", "apps/v1", "replicas: 7"),
        ("StatefulSet", "apps/v1", "replicas: 7"),
        ("Job", "batch/v1", "parallelism: 7"),
        ("ReplicationController", "v1", "replicas: 7"),
    ],
)
def test_a_workload_stands_for_one_of_its_pods(kind: str, version: str, spec: str) -> None:
    """Its number of replicas does not matter; its controller owns the pod."""
    text = (
        f"apiVersion: {version}\nkind: {kind}\nmetadata: {{name: web}}\nspec:\n  {spec}{TEMPLATE}"
    )
    replica = unit(text)
    (pod,) = replica.pods
    assert pod.metadata.labels["app"] == "web"
    owner = pod.metadata.owner_references[0]
    assert owner.kind == ("ReplicaSet" if kind == "Deployment" else kind)
    assert any(isinstance(item, ReplicaSet) for item in replica.shared) is (kind == "Deployment")


def test_a_stateful_set_has_a_claim_for_each_replica() -> None:
    """Claims of its templates are made for each copy."""
    text = f"""
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: db}}
spec:
  volumeClaimTemplates:
  - {{metadata: {{name: data}}, spec: {{storageClassName: fast}}}}{TEMPLATE}"""
    objects, (pod,) = unit(text).copy(1)
    assert [type(obj) for obj in objects] == [PersistentVolumeClaim]
    assert objects[0].metadata.name == "data-db-0-fit-1"
    claim = pod.spec.volumes[0].persistent_volume_claim
    assert claim is not None
    assert claim.claim_name == "data-db-0-fit-1"


def test_ephemeral_volumes_have_their_claims() -> None:
    """The claim of an ephemeral volume is made for each copy, and belongs to its pod."""
    template = "{spec: {storageClassName: fast, resources: {requests: {storage: 1Gi}}}}"
    text = f"""
apiVersion: v1
kind: Pod
metadata: {{name: web}}
spec:
  containers: [{{name: c, image: nginx}}]
  volumes: [{{name: scratch, ephemeral: {{volumeClaimTemplate: {template}}}}}]
"""
    (claim,), (pod,) = unit(text).copy(1)
    assert isinstance(claim, PersistentVolumeClaim)
    assert claim.metadata.name == "web-fit-1-scratch"
    assert claim.metadata.owner_references[0].uid == pod.metadata.uid
    assert claim.spec.storage_class_name == "fast"
    assert claim.spec.resources.requests == {"storage": "1Gi"}


GANG = """
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: train}
spec: {schedulingPolicy: {gang: {minCount: 3}}}
---
apiVersion: v1
kind: Pod
metadata: {name: worker}
spec:
  schedulingGroup: {podGroupName: train}
  containers: [{name: c, image: nginx}]
"""


def test_one_replica_of_a_gang_is_the_whole_group() -> None:
    """The only pod of a group is repeated; each copy has its own group."""
    replica = unit(GANG)
    assert replica.name == "default/train"
    objects, pods = replica.copy(1)
    assert [obj.metadata.name for obj in objects] == ["train-fit-1"]
    assert [pod.metadata.name for pod in pods] == [f"worker-{i}-fit-1" for i in range(3)]
    groups = {p.spec.scheduling_group.pod_group_name for p in pods if p.spec.scheduling_group}
    assert groups == {"train-fit-1"}


def test_a_label_names_a_group_too() -> None:
    """A group of the coscheduling plugin is copied in the same way."""
    text = """
apiVersion: scheduling.x-k8s.io/v1alpha1
kind: PodGroup
metadata: {name: train}
spec: {minMember: 2}
---
apiVersion: v1
kind: Pod
metadata: {name: worker, labels: {scheduling.x-k8s.io/pod-group: train}}
spec: {containers: [{name: c, image: nginx}]}
"""
    _, pods = unit(text).copy(2)
    labels = [pod.metadata.labels["scheduling.x-k8s.io/pod-group"] for pod in pods]
    assert labels == ["train-fit-2"] * 2


def test_a_group_without_enough_pods_is_refused() -> None:
    """Of two pods it is not known which one is to be repeated."""
    second = GANG.split("---")[1].replace("worker", "other")
    assert refusal(f"{GANG}---{second}") == "8: the group train needs 3 pods, and 2 are here"


def test_what_is_no_replica_is_refused() -> None:
    """All problems are reported at once, each with its line."""
    text = f"""apiVersion: v1
kind: Node
metadata: {{name: n1}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: agent}}
spec:{TEMPLATE}"""
    assert refusal(text) == (
        "2: a Node is part of the cluster, not of a replica\n"
        "6: a DaemonSet has one pod for each node, so its replicas are not counted"
    )


def test_a_file_without_a_pod_is_refused() -> None:
    """An object that is no pod does not fit anywhere."""
    text = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"
    assert refusal(text) == "1: there is no pod here, and no workload with pods"
