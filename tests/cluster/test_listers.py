"""ApiObjects: found by kind and name, and no change goes unnoticed."""

from __future__ import annotations

from policy_sched.cluster.listers import ApiObjects
from policy_sched.cluster.tables.journal import STRUCTURE, Journal
from policy_sched.model.cluster_objects import PodDisruptionBudget, ReplicaSet, Service
from policy_sched.model.meta import ObjectMeta
from policy_sched.model.storage import PersistentVolume
from policy_sched.testing import make_node, make_pod


def service(name: str, namespace: str = "") -> Service:
    return Service(kind="Service", metadata=ObjectMeta(name=name, namespace=namespace))


def test_objects_are_found_by_kind_and_name() -> None:
    """A kind's objects come in order of arrival; no namespace means default where there is one."""
    volume = PersistentVolume(kind="PersistentVolume", metadata=ObjectMeta(name="a"))
    one, two = service("a"), service("a", "team")
    objects = ApiObjects([one, volume, two, make_pod(), make_node()])
    assert list(objects.of(Service)) == [one, two]
    assert list(objects.of(ReplicaSet)) == []
    assert objects.named(Service, "default", "a") is one
    assert objects.named(Service, "team", "a") is two
    assert objects.named(Service, "other", "a") is None
    assert objects.named(PersistentVolume, "", "a") is volume


def test_a_newer_form_replaces_the_older_one() -> None:
    """Put replaces, remove drops, and an unknown object may be removed."""
    objects = ApiObjects([service("a")])
    newer = service("a")
    objects.put(newer)
    assert list(objects.of(Service)) == [newer]
    objects.remove(newer)
    objects.remove(newer)
    assert list(objects.of(Service)) == []


def test_every_change_is_noted() -> None:
    """The version rises and the journal says that everything may have changed."""
    journal = Journal()
    objects = ApiObjects([], journal)
    version, seen = objects.version, journal.version
    objects.put(service("a"))
    changes = journal.since(seen)
    assert objects.version > version
    assert changes is not None
    assert changes.kind == STRUCTURE


def test_disruption_budgets_are_not_in_the_journal() -> None:
    """Budget readers compare the version; caches of nodes stay valid."""
    journal = Journal()
    objects = ApiObjects([], journal)
    version, seen = objects.version, journal.version
    budget = PodDisruptionBudget(kind="PodDisruptionBudget", metadata=ObjectMeta(name="a"))
    objects.put(budget)
    objects.remove(budget)
    assert objects.version == version + 2
    assert journal.version == seen
