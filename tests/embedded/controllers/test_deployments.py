"""Conditions of deployments: what ``kubectl wait`` and ``kubectl rollout status`` read."""

from __future__ import annotations

from policy_sched.client.apimachinery.resources import DEPLOYMENT
from tests.embedded.controllers.test_replicas import deployed
from tests.embedded.world import World


def said(world: World) -> dict[str, tuple[str, str]]:
    """Return status and reason of each condition."""
    stored = world.status(DEPLOYMENT).get("conditions") or ()
    return {condition["type"]: (condition["status"], condition["reason"]) for condition in stored}


def test_a_deployment_is_available_once_enough_pods_are_ready() -> None:
    """And has progressed once all of them are, with the name of its replica set."""
    world = World()
    world.cluster.apply(deployed(2))
    world.run(0)
    assert said(world) == {
        "Available": ("False", "MinimumReplicasUnavailable"),
        "Progressing": ("True", "ReplicaSetUpdated"),
    }
    world.run(2)
    assert said(world) == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }
    last = world.status(DEPLOYMENT)["conditions"][-1]
    assert last["message"].startswith('ReplicaSet "web-')
    assert last["message"].endswith('" has successfully progressed.')
    assert last["lastUpdateTime"] == "2026-01-01T00:00:01Z"
    assert last["lastTransitionTime"] == "2026-01-01T00:00:00Z"


def test_a_stalled_rollout_is_reported() -> None:
    """After progressDeadlineSeconds; the pods that are there stay available."""
    world = World(nodes=1)
    world.cluster.apply(deployed(1, progressDeadlineSeconds=30))
    world.run(2)
    stuck = deployed(1, "app:2", progressDeadlineSeconds=30)
    stuck["spec"]["template"]["spec"]["nodeSelector"] = {"no": "where"}
    world.cluster.apply(stuck)
    world.run(29)
    assert said(world)["Progressing"] == ("True", "NewReplicaSetCreated")
    world.run(5)
    assert said(world) == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("False", "ProgressDeadlineExceeded"),
    }
    world.cluster.apply(deployed(1, progressDeadlineSeconds=30))
    world.run(2)
    assert said(world)["Progressing"] == ("True", "NewReplicaSetAvailable")


def test_a_paused_deployment_has_a_condition() -> None:
    """And goes on when it is resumed."""
    world = World()
    world.cluster.apply(deployed(2))
    world.run(2)
    world.cluster.apply(deployed(2, paused=True))
    world.run(1)
    assert said(world)["Progressing"] == ("Unknown", "DeploymentPaused")
    world.cluster.apply(deployed(2))
    world.run(1)
    assert said(world)["Progressing"] == ("True", "NewReplicaSetAvailable")


def test_without_a_deadline_there_is_no_progressing_condition() -> None:
    """As the deployment controller has it."""
    world = World()
    data = deployed(1)
    world.cluster.apply(data)
    world.run(2)
    stored = world.store.get(DEPLOYMENT, "default", "web")
    without = stored.data
    del without["spec"]["progressDeadlineSeconds"]
    world.store.revise(stored, without)
    world.run(1)
    assert set(said(world)) == {"Available"}
