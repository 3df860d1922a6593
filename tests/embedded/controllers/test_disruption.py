"""Disruption budgets: how many more of their pods may go."""

from __future__ import annotations

import pytest

from policy_sched.client.apimachinery.resources import BUDGET, POD
from tests.embedded.world import Plain, World, pod, workload


def budget(**spec: object) -> Plain:
    """Return a budget for the pods labelled ``app: web``."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


def allowed(world: World) -> tuple[int, int, int, int]:
    """Return the four counts: allowed, healthy, desired, expected."""
    status = world.status(BUDGET)
    fields = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    return tuple(status[field] for field in fields)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("spec", "counts"),
    [
        ({"minAvailable": 3}, (2, 5, 3, 5)),
        ({"minAvailable": "50%"}, (2, 5, 3, 5)),
        ({"maxUnavailable": 1}, (1, 5, 4, 5)),
        ({"maxUnavailable": "30%"}, (2, 5, 3, 5)),
        ({"minAvailable": 9}, (0, 5, 9, 5)),
    ],
)
def test_the_status_counts_what_may_go(spec: Plain, counts: tuple[int, ...]) -> None:
    """Percentages are of what the controllers want, rounded up."""
    world = World()
    world.cluster.apply(workload("Deployment", replicas=5))
    world.cluster.apply(budget(**spec))
    world.run(2)
    assert allowed(world) == counts


def test_pods_that_leave_or_start_change_it() -> None:
    """A pod that is being deleted is not healthy, nor is one that is not ready yet."""
    world = World()
    world.cluster.apply(budget(maxUnavailable=2))
    world.cluster.apply(workload("ReplicaSet", replicas=4))
    world.run(0.5)
    assert allowed(world) == (0, 0, 2, 4)
    world.run(1)
    assert allowed(world) == (2, 4, 2, 4)
    world.delete(POD, world.names()[0])
    world.run(0.5)
    assert allowed(world) == (1, 3, 2, 4)
    world.run(1)
    assert allowed(world) == (2, 4, 2, 4)


def test_pods_without_a_controller_count_one_by_one() -> None:
    """Labels that change bring a pod under the budget, and take it out."""
    world = World()
    world.cluster.apply(budget(minAvailable=1))
    for name, app in (("a", "web"), ("b", "web"), ("c", "other")):
        given = pod(name)
        given["metadata"]["labels"] = {"app": app}
        world.cluster.apply(given)
    world.run(2)
    assert allowed(world) == (1, 2, 1, 2)
    given = pod("c")
    given["metadata"]["labels"] = {"app": "web"}
    world.cluster.apply(given)
    world.run(0)
    assert allowed(world) == (2, 3, 1, 3)
    world.cluster.apply(budget(minAvailable=3))
    world.run(0)
    assert allowed(world) == (0, 3, 3, 3)
