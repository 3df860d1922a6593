"""Objects of odd content: the controllers go on, and do what they can."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.client.apimachinery.resources import DEPLOYMENT
from tests.embedded.controllers.test_deployments import said
from tests.embedded.controllers.test_replicas import deployed
from tests.embedded.world import Plain, World, pod, workload


@pytest.mark.parametrize(
    "conditions",
    [
        "none", ["none"], [{"status": "True"}], [{"type": "Progressing"}],
        [{"type": "Progressing", "reason": "ReplicaSetUpdated", "lastUpdateTime": 5}],
        [{"type": "Progressing", "reason": "ReplicaSetUpdated", "lastUpdateTime": "noon"}],
        [{"type": "Progressing", "reason": "NewReplicaSetAvailable", "message": 5}],
    ],
)  # fmt: skip
def test_conditions_that_others_have_written(conditions: Any) -> None:
    """They are read as far as they can be, and replaced by what is so."""
    world = World()
    world.cluster.apply(deployed(1))
    world.run(2)
    stored = world.store.get(DEPLOYMENT, "default", "web")
    data = stored.data
    data["status"] = {"conditions": conditions, "readyReplicas": "many"}
    world.store.revise(stored, data)
    world.run(5)
    assert said(world)["Available"][0] == "True"


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (
            workload("Job", "o", ttlSecondsAfterFinished=1, template={"restartPolicy": "Never"}),
            {"conditions": [{"type": "Complete", "status": "True"}, {"status": "True"}]},
        ),
        (
            workload("Job", "o", activeDeadlineSeconds=1),
            {"startTime": "0001-01-01T00:00:00+14:00", "failed": -(2**31)},
        ),
        (
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "o"},
             "spec": {"selector": {"matchExpressions": [{"key": "a"}]}}},
            {},
        ),
        (
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "o"},
             "spec": {"minAvailable": "9999999999%", "selector": {"matchLabels": {"app": "o"}}}},
            {},
        ),
        (
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "o"},
             "spec": {"clusterIPs": ["10.96.3.3"]}},
            {},
        ),
        (
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "o"},
             "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}},
            {},
        ),
        (
            {**pod("o"), "spec": {"containers": [{"name": "c"}], "volumes": [
                {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}},
            {},
        ),
    ],
)  # fmt: skip
def test_odd_content_fails_no_controller(data: Plain, status: Plain) -> None:
    """Conditions without a type, negative counts and selectors without operators failed in loops.

    A store of an earlier version, or a manifest, may hold what the API server refuses.
    """
    world = World()
    world.cluster.apply(workload("ReplicaSet", "o", replicas=2))
    volume = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {}}
    head = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}}
    world.cluster.apply({**head, "spec": volume})
    name = data["metadata"]["name"]
    namespaced = {"name": name, "namespace": "default"}
    stored = world.cluster.apply({**data, "metadata": namespaced})
    world.store.revise(stored, {**stored.data, "status": status})
    world.run(5)
    if data["kind"] == "Service":
        changed = {**data, "metadata": namespaced, "spec": {"clusterIPs": ["10.96.3.4"]}}
        world.cluster.apply(changed)
        world.run(5)
    assert not world.store.sync_errors
