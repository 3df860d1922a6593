"""Revisions of stateful and daemon sets: what ``kubectl rollout history`` and ``undo`` read."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.client.apimachinery.object import Key
from policy_sched.client.apimachinery.resources import DAEMON_SET, REVISION, STATEFUL_SET
from policy_sched.embedded.store.patch import STRATEGIC
from policy_sched.model.kinds import Kind
from tests.embedded.world import World, pod_spec, workload


def apply(world: World, kind: Kind, image: str, **spec: Any) -> None:
    """Let a set have a template with an image, and wait until its pods have it."""
    template = pod_spec()
    template["containers"][0]["image"] = image
    world.cluster.apply(workload(kind[1], template=template, **spec))
    world.run(120)


def history(world: World) -> dict[int, str]:
    """Return the image of each revision."""
    items = [revision.data for revision in world.store.select(REVISION)]
    return {
        revision["revision"]: revision["data"]["spec"]["template"]["spec"]["containers"][0]["image"]
        for revision in sorted(items, key=lambda revision: int(revision["revision"]))
    }


@pytest.mark.parametrize("kind", [STATEFUL_SET, DAEMON_SET])
def test_each_template_is_a_revision(kind: Kind) -> None:
    """And can be had again: the patch that a revision holds puts its template in place."""
    world = World(stop=0)
    apply(world, kind, "app:1")
    apply(world, kind, "app:2")
    assert history(world) == {1: "app:1", 2: "app:2"}
    first = next(pod for pod in world.store.select(REVISION) if pod.data["revision"] == 1)
    (owner,) = first.typed.metadata.owner_references
    assert (owner.kind, owner.name, owner.controller) == (kind[1], "web", True)
    assert first.labels["app"] == "web"
    world.store.patch(Key(kind, "default", "web"), first.data["data"], STRATEGIC)
    world.run(120)
    assert history(world) == {2: "app:2", 3: "app:1"}
    images = {pod.data["spec"]["containers"][0]["image"] for pod in world.pods()}
    assert images == {"app:1"}


@pytest.mark.parametrize("kind", [STATEFUL_SET, DAEMON_SET])
def test_old_revisions_are_forgotten_and_go_with_their_set(kind: Kind) -> None:
    """As many are kept as the set says, besides those that are in force."""
    world = World(stop=0)
    for number in range(5):
        apply(world, kind, f"app:{number}", revisionHistoryLimit=1)
    assert list(history(world)) == [3, 4, 5]
    world.delete(kind, "web")
    world.run(1)
    assert history(world) == {}


def test_a_roll_out_of_a_stateful_set_ends() -> None:
    """The present revision is the wanted one once all pods are of it."""
    world = World(stop=0)
    apply(world, STATEFUL_SET, "app:1", replicas=2)
    before = world.status(STATEFUL_SET)
    assert before["currentRevision"] == before["updateRevision"]
    template = pod_spec()
    template["containers"][0]["image"] = "app:2"
    world.cluster.apply(workload("StatefulSet", template=template, replicas=2))
    world.run(0)
    status = world.status(STATEFUL_SET)
    assert status["currentRevision"] == before["updateRevision"] != status["updateRevision"]
    world.run(60)
    after = world.status(STATEFUL_SET)
    assert after["currentRevision"] == after["updateRevision"] == status["updateRevision"]
    assert (after["currentReplicas"], after["updatedReplicas"]) == (2, 2)
