"""The garbage collector and the namespace controller: dependents and contents, object by object."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.client.apimachinery import resources
from policy_sched.client.apimachinery.object import Key
from policy_sched.embedded.store.deletion import DeleteOptions
from policy_sched.embedded.store.sqlite import SqliteStorage
from policy_sched.embedded.store.watch_history import DELETED
from tests.embedded.controllers.test_replicas import deployed
from tests.embedded.world import Plain, World, pod, workload

FOREGROUND = DeleteOptions(foreground=True)
CONFIG_MAP = "v1", "ConfigMap"
MANY = 1000


def many(world: World, number: int = MANY) -> Key:
    """Create config maps that one owns; return the key of the owner."""
    meta: Plain = {"name": "owner", "namespace": "default"}
    head = {"apiVersion": CONFIG_MAP[0], "kind": CONFIG_MAP[1]}
    owner = world.store.create({**head, "metadata": meta})
    references = [{**head, "name": owner.name, "uid": owner.uid}]
    for number_ in range(number):
        meta = {"namespace": "default", "ownerReferences": references, "name": f"c{number_}"}
        world.store.create({**head, "metadata": meta})
    world.run()
    return Key(CONFIG_MAP, "default", "owner")


@pytest.mark.parametrize("options", [None, FOREGROUND, DeleteOptions(orphan=True)])
def test_an_owner_of_very_many_is_deleted_in_many_turns(options: DeleteOptions | None) -> None:
    """Deleting an owner of 10,000 was one change, and no other request was answered meanwhile."""
    world = World(nodes=0)
    key = many(world)
    before = world.store.version
    world.store.delete(key, options)
    assert world.store.version - before == 1
    turns = 0
    while world.cluster.next_wakeup() is not None and turns < 2 * MANY:
        before, turns = world.store.version, turns + 1
        world.cluster.step(lambda: True)
        assert world.store.version - before <= 200
    left = world.store.select(CONFIG_MAP)
    orphaned = options is not None and options.orphan
    assert len(left) == (MANY if orphaned else 0)
    assert not any(stored.typed.metadata.owner_references for stored in left)


def test_a_namespace_of_very_many_is_deleted_in_many_turns() -> None:
    """It is Terminating until its contents have gone, and nothing is created in it meanwhile."""
    world = World(nodes=0)
    many(world)
    key = Key(resources.NAMESPACE, "", "default")
    marked = world.store.delete(key)
    assert marked.data["status"]["phase"] == "Terminating"
    head = {"apiVersion": CONFIG_MAP[0], "kind": CONFIG_MAP[1]}
    with pytest.raises(resources.ApiError, match="because it is being terminated"):
        world.store.create({**head, "metadata": {"name": "late", "namespace": "default"}})
    turns = 0
    while world.cluster.next_wakeup() is not None and turns < 3 * MANY:
        before, turns = world.store.version, turns + 1
        world.cluster.step(lambda: True)
        assert world.store.version - before <= 200
    assert turns > MANY / 100
    assert world.store.find(resources.NAMESPACE, "", "default") is None
    assert list(world.store.everything("default")) == []


def test_pods_of_a_deleted_namespace_end_in_their_grace_period() -> None:
    """The namespace waits for its kubelets, and for objects that finalizers hold."""
    world = World()
    world.cluster.apply(deployed(2))
    held = {"name": "held", "namespace": "default", "finalizers": ["example.com/a"]}
    world.store.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": held})
    world.run(2)
    world.store.delete(Key(resources.NAMESPACE, "", "default"))
    world.run(10)
    assert all(other.deleting for other in world.store.select(resources.POD))
    assert len(world.pods()) == 2
    world.run(25)
    assert world.pods() == []
    assert [other.name for other in world.store.everything("default")] == ["held"]
    world.store.patch(Key(CONFIG_MAP, "default", "held"), {"metadata": {"finalizers": None}})
    world.run(1)
    assert world.store.find(resources.NAMESPACE, "", "default") is None


@pytest.mark.parametrize("deleted", ["owner", "namespace"])
def test_an_interrupted_deletion_continues_after_a_restart(deleted: str, tmp_path: Path) -> None:
    """The file tells which owners have gone, and keeps that only as long as dependents are left."""
    path = str(tmp_path / "cluster.db")
    world = World(nodes=0, path=path)
    key = many(world, 300)
    world.store.delete(key if deleted == "owner" else Key(resources.NAMESPACE, "", "default"))
    world.cluster.step(lambda: True)
    assert len(world.store.select(CONFIG_MAP)) > 100
    world.cluster.close()
    again = World(nodes=0, path=path)
    again.run(1)
    assert again.store.select(CONFIG_MAP) == []
    assert again.store.deleted_owners == set()
    again.cluster.close()
    third = SqliteStorage(path)
    assert third.deleted_owners({key.name: None}) == set()
    assert third.deleted_owners(()) == set()
    third.close()


def test_pods_of_a_snapshot_without_their_owners_are_kept() -> None:
    """Their owners were never deleted here."""
    world = World()
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}
    given = pod("p")
    given["metadata"] |= {"ownerReferences": [owner], "uid": "v"}
    world.cluster.load(given)
    world.run(5)
    assert world.names() == ["p"]


def test_an_object_may_name_an_owner_twice() -> None:
    """The second reference to one uid ended the request that deleted the object."""
    world = World(nodes=0)
    key = many(world, 1)
    (reference,) = world.store.get(CONFIG_MAP, "default", "c0").data["metadata"]["ownerReferences"]
    change = {"metadata": {"ownerReferences": [reference, {**reference, "name": "other"}]}}
    world.store.patch(Key(CONFIG_MAP, "default", "c0"), change)
    world.store.delete(key)
    world.run(1)
    assert world.store.select(CONFIG_MAP) == []


def test_a_deployment_waits_for_its_sets_and_these_for_their_pods() -> None:
    """No pods are made meanwhile; a second deletion changes nothing."""
    world = World()
    world.cluster.apply(deployed(2))
    world.run(2)
    key = Key(resources.DEPLOYMENT, "default", "web")
    last = world.store.delete(key, FOREGROUND)
    assert last.data["metadata"]["finalizers"] == ["foregroundDeletion"]
    world.run(10)
    for kind in (resources.DEPLOYMENT, resources.REPLICA_SET, resources.POD):
        assert all(stored.deleting for stored in world.store.select(kind))
        assert world.store.select(kind)
    world.store.delete(key, FOREGROUND)
    world.run(25)
    for kind in (resources.DEPLOYMENT, resources.REPLICA_SET, resources.POD):
        assert world.store.select(kind) == []
    assert world.cluster.next_wakeup() is None


def test_an_object_without_dependents_is_deleted_at_once() -> None:
    """As in the background."""
    world = World()
    world.cluster.apply(deployed(0))
    world.run(1)
    (replicas,) = world.store.select(resources.REPLICA_SET)
    world.store.delete(Key(resources.REPLICA_SET, *replicas.namespaced_name), FOREGROUND)
    assert world.store.find(resources.REPLICA_SET, *replicas.namespaced_name) is None


def test_the_pods_of_a_job_are_counted_and_go() -> None:
    """Their own finalizers hold nothing up."""
    world = World(stop=0)
    world.cluster.apply(workload("Job", "j", parallelism=2, completions=2))
    world.run(2)
    world.store.delete(Key(resources.JOB, "default", "j"), FOREGROUND)
    world.run(5)
    assert world.store.select(resources.JOB) == world.store.select(resources.POD) == []


def test_an_object_with_another_owner_is_kept() -> None:
    """It forgets the owner that goes."""
    world = World()
    made = {}
    for name in ("a", "b"):
        meta = {"name": name, "namespace": "default"}
        made[name] = world.store.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    owners = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": value.uid}
        for name, value in made.items()
    ]
    meta = {"name": "c", "namespace": "default", "ownerReferences": owners}
    world.store.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta})
    world.store.delete(Key(("v1", "ConfigMap"), "default", "a"), FOREGROUND)
    world.run(1)
    assert world.store.find(("v1", "ConfigMap"), "default", "a") is None
    left = world.store.get(("v1", "Secret"), "default", "c")
    assert [value.name for value in left.typed.metadata.owner_references] == ["b"]


def test_an_object_with_two_owners_is_deleted_with_the_last_one() -> None:
    """And the chain goes on: what it owns goes with it."""
    world = World(nodes=0)
    head = {"apiVersion": CONFIG_MAP[0], "kind": CONFIG_MAP[1]}
    uids: dict[str, str] = {}
    for name, owners in (("a", ""), ("b", ""), ("c", "ab"), ("d", "c")):
        references = [{**head, "name": owner, "uid": uids[owner]} for owner in owners]
        meta = {"name": name, "namespace": "default", "ownerReferences": references}
        uids[name] = world.store.create({**head, "metadata": meta}).uid
    world.store.delete(Key(CONFIG_MAP, "default", "a"))
    world.run(1)
    assert {config_map.name for config_map in world.store.select(CONFIG_MAP)} == {"b", "c", "d"}
    watch = world.store.watch(CONFIG_MAP, since=world.store.version)
    world.store.delete(Key(CONFIG_MAP, "default", "b"))
    world.run(1)
    assert world.store.select(CONFIG_MAP) == []
    assert [(c.type, c.new.name) for c in watch.drain()] == [(DELETED, n) for n in "bcd"]


def test_foreground_deletion_continues_after_a_restart(tmp_path: Path) -> None:
    """What waits is written in the objects."""
    path = str(tmp_path / "cluster.db")
    world = World(path=path)
    world.cluster.apply(deployed(1))
    world.run(2)
    world.store.delete(Key(resources.DEPLOYMENT, "default", "web"), FOREGROUND)
    world.cluster.close()
    again = World(nodes=0, path=path)
    again.clock.ns = world.clock.ns
    again.run(60)
    assert again.store.select(resources.DEPLOYMENT) == []
    assert again.store.select(resources.POD) == []
    again.cluster.close()
