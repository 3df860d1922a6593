"""Objects that nobody meant seriously: the controllers live on, and do what they can."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.client.embedded.resources import DEPLOYMENT
from tests.client.embedded.controllers.test_deployment_conditions import said
from tests.client.embedded.controllers.test_replicas import deployed
from tests.client.embedded.world import World


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
