"""Objects that nobody meant seriously: the controllers live on, and do what they can."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.client.embedded.resources import DEPLOYMENT, QUOTA, SERVICE
from tests.client.embedded.controllers.test_deployment_conditions import said
from tests.client.embedded.controllers.test_replicas import deployed
from tests.client.embedded.world import World

META = {"name": "x", "namespace": "default"}


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
    "spec",
    [
        [], {"hard": ["pods"]}, {"hard": {"pods": "1"}, "scopes": "all"},
        {"hard": {"pods": "1"}, "scopeSelector": "x"}, {"hard": {"pods": [1]}},
        {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [{"scopeName": 1}]}},
    ],
)  # fmt: skip
def test_quotas_that_cannot_be_counted(spec: Any) -> None:
    """They are kept."""
    world = World()
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": META, "spec": spec}
    world.store.create(quota)
    world.run(3)
    assert "status" not in world.store.get(QUOTA, "default", "x").data


@pytest.mark.parametrize("ports", ["80", [80], [{"port": "x"}], {"a": 1}])
def test_services_with_odd_ports(ports: Any) -> None:
    """They have an address all the same, if they are taken at all."""
    world = World()
    spec = {"ports": ports, "type": "NodePort"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": META, "spec": spec}
    world.store.create(service)
    world.run(1)
    found = world.store.get(SERVICE, "default", "x").data["spec"]
    assert found["clusterIP"].startswith("10.96.")
