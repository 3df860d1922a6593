"""Service accounts: every namespace has its default one."""

from __future__ import annotations

from policy_sched.client.apimachinery.object import Key
from policy_sched.client.apimachinery.resources import ACCOUNT, NAMESPACE, NODE
from tests.embedded.world import World, node


def accounts(world: World) -> set[str]:
    """Return the namespaces that have their default account."""
    return {
        account.namespace for account in world.store.select(ACCOUNT) if account.name == "default"
    }


def test_every_namespace_has_a_default_account() -> None:
    """Those that are there from the beginning, and those that come."""
    world = World()
    world.run(0)
    first = {"default", "kube-system", "kube-public", "kube-node-lease"}
    assert accounts(world) == first
    world.store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    world.run(0)
    assert accounts(world) == {*first, "shop"}
    assert world.cluster.next_wakeup() is None


def test_the_default_account_is_recreated_unless_its_namespace_is_deleted() -> None:
    """One that is deleted is made anew, with another uid."""
    world = World()
    world.store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    world.run(0)
    before = world.store.get(ACCOUNT, "shop", "default").uid
    world.cluster.delete(Key(ACCOUNT, "shop", "default"))
    world.run(0)
    assert world.store.get(ACCOUNT, "shop", "default").uid != before
    world.cluster.delete(Key(NAMESPACE, "", "shop"))
    world.run(0)
    assert "shop" not in accounts(world)


def test_nodes_are_in_no_namespace() -> None:
    """A node that came as the last one left was deleted, as if a namespace had ended."""
    world = World(nodes=1)
    world.run(0)
    world.cluster.delete(Key(NODE, "", "n0"))
    world.cluster.apply(node("n1"))
    world.run(0)
    assert [other_node.name for other_node in world.store.select(NODE)] == ["n1"]
