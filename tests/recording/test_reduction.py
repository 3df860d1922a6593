"""What of a cluster is in a snapshot: no more than decisions read."""

from __future__ import annotations

from typing import Any

import msgspec

from policy_sched.manifests.decode import decode_as
from policy_sched.model.cluster_objects import Deployment
from policy_sched.model.kinds import KINDS
from policy_sched.model.meta import ApiObject, ObjectMeta
from policy_sched.recording.reduction import reduced

SECRET = "hunter2"


def written(data: dict[str, Any], *annotations: str) -> str:
    """Return what is written of an object."""
    item = decode_as(data, KINDS[data["apiVersion"], data["kind"]], lambda *_: None)
    assert item is not None
    return "\n".join(msgspec.json.encode(x).decode() for x in reduced([item], annotations))


META = {
    "name": "x",
    "resourceVersion": SECRET,
    "annotations": {
        "kubectl.kubernetes.io/last-applied-configuration": SECRET,
        "acme.com/rack": "r1",
        "volume.kubernetes.io/selected-node": "n1",
    },
    "managedFields": [{"manager": SECRET}],
}


def test_a_pod_has_no_secrets() -> None:
    """Environment, commands, arguments, probes, mounts, messages: none of them decides."""
    container = {
        "name": "c",
        "image": "nginx",
        "command": [SECRET],
        "args": [SECRET],
        "env": [{"name": "PASSWORD", "value": SECRET}],
        "envFrom": [{"secretRef": {"name": SECRET}}],
        "volumeMounts": [{"name": SECRET, "mountPath": f"/{SECRET}"}],
        "livenessProbe": {"httpGet": {"path": f"/{SECRET}"}},
        "resources": {"requests": {"cpu": "1"}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": META,
        "spec": {
            "containers": [container],
            "volumes": [{"name": "v", "secret": {"secretName": SECRET}}],
            "imagePullSecrets": [{"name": SECRET}],
        },
        "status": {
            "conditions": [
                {"type": "DisruptionTarget", "status": "True", "reason": "R", "message": SECRET}
            ]
        },
    }
    text = written(pod)
    assert SECRET not in text
    assert '"requests":{"cpu":"1"}' in text
    assert '{"type":"DisruptionTarget","status":"True","reason":"R"}' in text
    assert '"annotations":{"volume.kubernetes.io/selected-node":"n1"}' in text


def test_annotations_that_policies_read_can_be_kept() -> None:
    """They are named one by one."""
    node = {"apiVersion": "v1", "kind": "Node", "metadata": META}
    assert "acme.com/rack" not in written(node)
    assert '"acme.com/rack":"r1"' in written(node, "acme.com/rack")


def test_templates_and_parameters_are_left_out() -> None:
    """A replica set is there for its selector, a claim for its requests."""
    container = {"name": SECRET, "image": SECRET}
    sets = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": META,
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"spec": {"containers": [container]}},
        },
    }
    assert SECRET not in written(sets)
    assert '"matchLabels":{"app":"web"}' in written(sets)
    opaque = {"driver": "gpu.example.com", "parameters": {"password": SECRET}}
    devices = {"requests": [{"name": "r"}], "config": [{"opaque": opaque}]}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": META,
        "spec": {"devices": devices},
        "status": {"allocation": {"devices": {"config": [{"opaque": opaque}]}}},
    }
    assert SECRET not in written(claim)
    assert '"driver":"gpu.example.com"' in written(claim)


def test_what_decides_nothing_is_left_out() -> None:
    """Pods that have ended, and workloads, which decisions know by their pods."""
    deployment = Deployment("apps/v1", "Deployment", ObjectMeta(name="web"))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}
    ended: list[ApiObject] = [deployment]
    assert reduced(ended) == []
    assert written({**pod, "status": {"phase": "Succeeded"}}) == ""
