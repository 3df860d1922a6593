"""Deletion in the foreground: what is owned goes first, and the owner when all of it has gone."""

from __future__ import annotations

from pathlib import Path

from policy_sched.client.apimachinery.object import Key
from policy_sched.client.apimachinery.resources import DEPLOYMENT, JOB, POD, REPLICA_SET
from policy_sched.embedded.store.deletion import DeleteOptions
from tests.embedded.controllers.test_replicas import deployed
from tests.embedded.world import World, workload

FOREGROUND = DeleteOptions(foreground=True)


def test_a_deployment_waits_for_its_sets_and_these_for_their_pods() -> None:
    """No pods are made meanwhile; a second deletion changes nothing."""
    world = World()
    world.cluster.apply(deployed(2))
    world.run(2)
    key = Key(DEPLOYMENT, "default", "web")
    last = world.store.delete(key, FOREGROUND)
    assert last.data["metadata"]["finalizers"] == ["foregroundDeletion"]
    world.run(10)
    for kind in (DEPLOYMENT, REPLICA_SET, POD):
        assert all(one.deleting for one in world.store.select(kind))
        assert world.store.select(kind)
    world.store.delete(key, FOREGROUND)
    world.run(25)
    for kind in (DEPLOYMENT, REPLICA_SET, POD):
        assert world.store.select(kind) == []
    assert world.cluster.next_wakeup() is None


def test_what_owns_nothing_goes_at_once() -> None:
    """As in the background."""
    world = World()
    world.cluster.apply(deployed(0))
    world.run(1)
    (replicas,) = world.store.select(REPLICA_SET)
    world.store.delete(Key(REPLICA_SET, *replicas.place), FOREGROUND)
    assert world.store.find(REPLICA_SET, *replicas.place) is None


def test_the_pods_of_a_job_are_counted_and_go() -> None:
    """Their own finalizers hold nothing up."""
    world = World(stop=0)
    world.cluster.apply(workload("Job", "j", parallelism=2, completions=2))
    world.run(2)
    world.store.delete(Key(JOB, "default", "j"), FOREGROUND)
    world.run(5)
    assert world.store.select(JOB) == world.store.select(POD) == []


def test_what_others_own_too_stays() -> None:
    """It forgets the owner that goes."""
    world = World()
    made = {}
    for name in ("a", "b"):
        meta = {"name": name, "namespace": "default"}
        made[name] = world.store.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    owners = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": one.uid}
        for name, one in made.items()
    ]
    meta = {"name": "c", "namespace": "default", "ownerReferences": owners}
    world.store.create({"apiVersion": "v1", "kind": "Secret", "metadata": meta})
    world.store.delete(Key(("v1", "ConfigMap"), "default", "a"), FOREGROUND)
    world.run(1)
    assert world.store.find(("v1", "ConfigMap"), "default", "a") is None
    left = world.store.get(("v1", "Secret"), "default", "c")
    assert [one.name for one in left.typed.metadata.owner_references] == ["b"]


def test_a_process_that_ends_meanwhile_goes_on(tmp_path: Path) -> None:
    """What waits is written in the objects."""
    path = str(tmp_path / "cluster.db")
    world = World(path=path)
    world.cluster.apply(deployed(1))
    world.run(2)
    world.store.delete(Key(DEPLOYMENT, "default", "web"), FOREGROUND)
    world.cluster.close()
    again = World(nodes=0, path=path)
    again.clock.ns = world.clock.ns
    again.run(60)
    assert again.store.select(DEPLOYMENT) == []
    assert again.store.select(POD) == []
    again.cluster.close()
