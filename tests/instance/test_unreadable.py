"""Objects from an API server that have nulls, or cannot be decoded at all."""

from __future__ import annotations

from typing import Any

from policy_sched.client.apimachinery.object import Key, Stored, encoded
from policy_sched.client.apimachinery.resources import NODE
from policy_sched.embedded.store.watch_history import UPDATED, StoreChange
from policy_sched.instance.app.cluster_instance import ClusterInstance
from tests.instance.app.test_cluster_instance import World, acted, node, pod, until

CSI_NODE = ("storage.k8s.io/v1", "CSINode")


def rewrite(world: World, key: Key, *steps: str | int, value: Any) -> None:
    """Set a value at a path of a stored object, without validation."""
    store = world.cluster.store
    old = store.get(key.kind, key.namespace, key.name)
    data = here = old.data
    for step in steps[:-1]:
        here = here[step]  # type: ignore[index]  # a path of names and numbers
    here[steps[-1]] = value  # type: ignore[index]
    version = store.version + 1
    data["metadata"]["resourceVersion"] = str(version)
    odd = Stored(old.resource, version, encoded(data), old.typed)
    store._commit([StoreChange(UPDATED, 0, odd, old)])


def unready(instance: ClusterInstance) -> str:
    """Return the message of the readiness check of objects."""
    checks = {check.name: check.test for check in instance.checks()["readyz"]}
    return checks["readable-objects"]()


def unreadable_nodes(instance: ClusterInstance) -> str:
    """Return the number of unreadable nodes in the metrics."""
    lines = instance.metrics.text().splitlines()
    found = [one for one in lines if one.startswith("policy_sched_unreadable_objects{")]
    return next((one.rpartition(" ")[2] for one in found if 'kind="Node"' in one), "")


def test_a_node_whose_images_have_no_names_is_followed() -> None:
    """Its updates were dropped: pods were bound to it in spite of new taints."""

    async def play(world: World) -> None:
        world.apply(node("a"), node("b"))
        async with world.served(), world.scheduler() as instance:
            await until(lambda: instance.ready)
            taint = {"key": "k", "value": "v", "effect": "NoSchedule"}
            rewrite(world, Key(NODE, "", "a"), "status", "images", value=[{"names": None}])
            rewrite(world, Key(NODE, "", "a"), "spec", value={"taints": [taint]})
            world.apply(*(pod(f"p{i}") for i in range(3)))
            await until(lambda: len(world.bound()) == 3)
            assert set(world.bound().values()) == {"b"}
            assert unready(instance) == ""
        async with world.served(), world.scheduler() as again:
            await until(lambda: again.ready)
            assert again.scheduler.cache.nodes.live_count == 2

    acted(play)


def test_a_node_that_cannot_be_read_is_left_out_until_it_can_be() -> None:
    """It was used with its old taints and capacity, and only the log reported it."""

    async def play(world: World) -> None:
        world.apply(node("a"), pod("first"))
        async with world.served(), world.scheduler() as instance:
            await until(lambda: world.bound() == {"first": "a"})
            rewrite(world, Key(NODE, "", "a"), "spec", value={"taints": 5})
            await until(lambda: not instance.scheduler.cache.nodes.live_count)
            world.apply(pod("second"))
            condition = await until(lambda: world.condition("second", "PodScheduled"))
            assert condition["message"] == "no nodes available to schedule pods"
            assert unready(instance) == "Node a"
            assert float(unreadable_nodes(instance)) == 1
            messages = [r for r in world.records if r.get("msg") == "Watch failed"]
            assert messages[-1]["error"] == (
                "a: a Node that cannot be read: spec.taints: taints must be a list, not the number"
                " 5; it is left out until it can be read"
            )
            rewrite(world, Key(NODE, "", "a"), "spec", value={})
            await until(lambda: "second" in world.bound())
            assert unready(instance) == ""
            assert float(unreadable_nodes(instance)) == 0
            assert instance.scheduler.cache.nodes.live_count == 1
            assert instance.scheduler.cache.check() == []

    acted(play)


def test_the_limits_of_a_csi_node_that_cannot_be_read_stay() -> None:
    """Without them more volumes than a node can attach would be assigned."""

    async def play(world: World) -> None:
        driver = {"name": "d", "nodeID": "a", "topologyKeys": None, "allocatable": {"count": 1}}
        meta = {"name": "a"}
        world.apply(node("a"))
        world.apply(
            {"apiVersion": CSI_NODE[0], "kind": CSI_NODE[1], "metadata": meta}
            | {"spec": {"drivers": [driver]}}
        )
        async with world.served(), world.scheduler() as instance:
            await until(lambda: instance.ready)
            rewrite(world, Key(CSI_NODE, "", "a"), "spec", value={"drivers": 5})
            await until(lambda: unready(instance))
            (found,) = instance.informers.objects(CSI_NODE)
            assert found.spec.drivers[0].allocatable.count == 1
            assert unready(instance) == "CSINode a"

    acted(play)
