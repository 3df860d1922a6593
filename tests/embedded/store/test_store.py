"""The object store: versions, watches, optimistic concurrency, ownership.

UIDs of objects.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from policy_sched.client.apimachinery import resources
from policy_sched.client.apimachinery.object import Key
from policy_sched.embedded.store import watch_history
from policy_sched.embedded.store.deletion import DeleteOptions
from policy_sched.embedded.store.patch import JSON, STRATEGIC
from policy_sched.embedded.store.store import _UUIDS, ObjectStore, uid_of
from policy_sched.testing import FakeClock
from tests.embedded.world import START, node, pod
from tests.examples import scaled


def new_store(history: int = 1000) -> ObjectStore:
    """Return a store with the namespace default."""
    store = ObjectStore(FakeClock(START), history=history)
    meta = {"name": "default"}
    store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    return store


def replayed(changes: list[watch_history.StoreChange], into: dict[Any, int]) -> None:
    """Follow changes with a mirror: place to version."""
    for change in changes:
        key = (change.new.resource.key, *change.new.namespaced_name)
        if change.type == watch_history.DELETED:
            del into[key]
        else:
            assert (key in into) == (change.type != watch_history.ADDED)
            into[key] = change.new.version


class Requests(RuleBasedStateMachine):
    """Random requests of all kinds; several watches follow, one of them through a selector."""

    names = Bundle("names")

    def __init__(self) -> None:
        super().__init__()
        self.store = new_store()
        self.watches: list[tuple[watch_history.Watch, dict[Any, int]]] = [(self.store.watch(), {})]
        self.selected = self.store.watch(resources.POD, labels="app=web"), {}
        self.last = self.store.version

    @rule(target=names, number=st.integers(0, 4), app=st.sampled_from(["web", "db"]))
    def create(self, number: int, app: str) -> str:
        """A name that is taken is refused (AlreadyExists); else the object is as it was sent."""
        given = pod(f"p{number}")
        given["metadata"]["labels"] = {"app": app}
        there = self.store.find(resources.POD, "default", f"p{number}") is not None
        try:
            made = self.store.create(given)
        except resources.ApiError:
            assert there
        else:
            assert not there
            assert made.version > self.last
        return f"p{number}"

    @rule(name=names, app=st.sampled_from(["web", "db"]), stale=st.booleans())
    def update(self, name: str, app: str, stale: bool) -> None:
        """An update of an older version is refused and changes nothing."""
        stored = self.store.find(resources.POD, "default", name)
        if stored is None:
            return
        data = stored.data
        data["metadata"]["labels"] = {"app": app}
        if stale:
            data["metadata"]["resourceVersion"] = str(stored.version - 1)
        try:
            new = self.store.update(data)
        except resources.ApiError:
            assert stale
            assert self.store.find(resources.POD, "default", name) is stored
        else:
            assert new.labels == {"app": app}
            assert (new is stored) == (stored.labels == {"app": app})

    @rule(name=names)
    def bind(self, name: str) -> None:
        """A pod is bound once."""
        stored = self.store.find(resources.POD, "default", name)
        binding = {"metadata": {"name": name}, "target": {"name": "n"}}
        bound = stored is None or bool(stored.data["spec"].get("nodeName")) or stored.deleting
        try:
            self.store.bind("default", name, binding)
        except resources.ApiError:
            assert bound
        else:
            assert not bound

    @rule(name=names, grace=st.sampled_from([None, 0]))
    def delete(self, name: str, grace: int | None) -> None:
        """A bound pod waits for its end; all others go at once."""
        stored = self.store.find(resources.POD, "default", name)
        if stored is None:
            return
        waits = bool(stored.data["spec"].get("nodeName")) and grace is None
        self.store.delete(Key(resources.POD, "default", name), DeleteOptions(grace))
        assert (self.store.find(resources.POD, "default", name) is not None) == waits

    @rule()
    def follow(self) -> None:
        """Another watch begins here."""
        if len(self.watches) < 4:
            self.watches.append((self.store.watch(), {}))

    @rule(limit=st.integers(1, 5))
    def drain(self, limit: int) -> None:
        """A watch may be read in parts."""
        for watch, versions in self.watches[:2]:
            replayed(watch.drain(limit), versions)

    @invariant()
    def versions_only_rise(self) -> None:
        """And every object's is that of its own last change."""
        assert self.store.version >= self.last
        self.last = self.store.version
        versions = [stored.version for stored in self.store.everything()]
        assert len(set(versions)) == len(versions)
        assert max(versions) <= self.store.version

    def teardown(self) -> None:
        """In the end every watch has seen what a list shows, each version once."""
        for watch, versions in self.watches:
            replayed(watch.drain(), versions)
            assert versions == {
                (stored.resource.key, *stored.namespaced_name): stored.version
                for stored in self.store.everything()
            }
        watch, web = self.selected
        replayed(watch.drain(), web)
        listed = self.store.select(resources.POD, labels="app=web")
        assert web == {
            (resources.POD, *stored.namespaced_name): stored.version for stored in listed
        }


Requests.TestCase.settings = settings(
    max_examples=scaled(60), stateful_step_count=40, deadline=None
)
TestRequests = Requests.TestCase


def test_a_watch_behind_the_history_expires() -> None:
    """And nothing is left out in silence."""
    store = new_store(history=5)
    watch = store.watch()
    watch.drain()
    for number in range(30):
        store.create(node(f"n{number}"))
    with pytest.raises(resources.Expired) as caught:
        watch.drain()
    assert caught.value.code == 410


def test_a_watch_can_begin_at_a_version() -> None:
    """It shows what came after it."""
    store = new_store()
    store.create(node("a"))
    watch = store.watch(resources.NODE, since=store.version)
    store.create(node("b"))
    store.create(pod("p"))
    assert [change.new.name for change in watch.drain()] == ["b"]
    assert not watch.behind


def test_a_namespace_must_be_there() -> None:
    """Objects of a missing namespace are refused; a deleted one waits for its finalizers."""
    store = new_store()
    lost = pod("p")
    lost["metadata"]["namespace"] = "none"
    with pytest.raises(resources.ApiError, match='namespaces "none" not found'):
        store.create(lost)
    assert store.delete(Key(resources.NAMESPACE, "", "default")).data["status"] == {
        "phase": "Terminating"
    }
    assert store.find(resources.NAMESPACE, "", "default") is not None


def test_finalizers_keep_an_object_until_they_are_gone() -> None:
    """It is marked at first; the update that takes the last one away ends it."""
    store = new_store()
    given = node("a")
    given["metadata"]["finalizers"] = ["example.com/a"]
    store.create(given)
    marked = store.delete(Key(resources.NODE, "", "a"))
    assert marked.deleting
    store.patch(Key(resources.NODE, "", "a"), {"metadata": {"finalizers": None}})
    assert store.find(resources.NODE, "", "a") is None


def test_a_status_is_written_apart() -> None:
    """An update leaves the status alone, a status update all else."""
    store = new_store()
    store.create(pod("p"))
    key = Key(resources.POD, "default", "p")
    patch = {"metadata": {"labels": {"a": "b"}}, "status": {"phase": "Running"}}
    assert store.patch(key, patch).data["status"]["phase"] == "Pending"
    changed = store.patch(key, {**patch, "metadata": {"labels": {"a": "c"}}}, subresource="status")
    assert (changed.data["status"]["phase"], changed.labels) == ("Running", {"a": "b"})


def test_generations_count_changes_of_the_spec() -> None:
    """Labels and status do not count."""
    store = new_store()
    store.create(pod("p", schedulingGates=[{"name": "g"}]))
    key = Key(resources.POD, "default", "p")
    store.patch(key, {"metadata": {"labels": {"a": "b"}}})
    assert store.get(resources.POD, "default", "p").data["metadata"]["generation"] == 1
    operations = [{"op": "remove", "path": "/spec/schedulingGates"}]
    store.patch(key, operations, JSON)
    assert store.get(resources.POD, "default", "p").data["metadata"]["generation"] == 2


def test_a_field_that_is_null_does_not_change_the_spec() -> None:
    """A label on a deployment with a projected volume raised its generation."""
    store = new_store()
    volumes = [{"name": "v", "projected": {}}]
    inner = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": inner}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    head = {
        "apiVersion": resources.DEPLOYMENT[0],
        "kind": resources.DEPLOYMENT[1],
        "metadata": {"name": "d"},
    }
    store.create({**head, "spec": spec})
    changed = store.patch(
        Key(resources.DEPLOYMENT, "default", "d"), {"metadata": {"labels": {"x": "y"}}}
    )
    assert changed.data["metadata"]["generation"] == 1


def test_immutable_fields_of_a_pod_are_kept() -> None:
    """Its spec can hardly be changed, and gates can only be taken away."""
    store = new_store()
    store.create(pod("p"))
    key = Key(resources.POD, "default", "p")
    for patch in (
        {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}},
        {"spec": {"nodeName": "n"}},
        {"spec": {"schedulingGates": [{"name": "new"}]}},
    ):
        with pytest.raises(resources.ApiError) as caught:
            store.patch(key, patch, STRATEGIC)
        assert caught.value.code == 422
    image = {"spec": {"containers": [{"name": "c", "image": "app:2"}]}}
    changed = store.patch(key, image, STRATEGIC).data
    assert changed["spec"]["containers"][0]["image"] == "app:2"
    assert changed["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "100m"}}


def test_priority_classes_stand_for_numbers() -> None:
    """Named, by default, and none; a class that is missing is refused."""
    store = new_store()
    for name, value, default in (("high", 1000, False), ("usual", 5, True)):
        store.create(
            {
                "apiVersion": resources.PRIORITY_CLASS[0],
                "kind": resources.PRIORITY_CLASS[1],
                "metadata": {"name": name},
                "value": value,
                "globalDefault": default,
                **({"preemptionPolicy": "Never"} if name == "high" else {}),
            }
        )
    high = store.create(pod("a", priorityClassName="high")).data["spec"]
    assert (high["priority"], high["preemptionPolicy"]) == (1000, "Never")
    usual = store.create(pod("b")).data["spec"]
    assert (usual["priority"], usual["priorityClassName"]) == (5, "usual")
    system = store.create(pod("c", priorityClassName="system-node-critical")).data["spec"]
    assert system["priority"] == 2_000_001_000
    with pytest.raises(resources.ApiError, match="no PriorityClass with name none was found"):
        store.create(pod("d", priorityClassName="none"))


def test_several_objects_change_together_or_not_at_all() -> None:
    """A revision that does not fit its kind leaves the others undone."""
    store = new_store()
    first, second = store.create(node("a")), store.create(node("b"))
    good, bad = first.data, second.data
    good["metadata"]["labels"] = {"a": "b"}
    bad["spec"]["unschedulable"] = 7
    with pytest.raises(resources.ApiError):
        store.revise_all([(first, good), (second, bad)])
    assert store.get(resources.NODE, "", "a") is first
    bad["spec"]["unschedulable"] = True
    store.revise_all([(first, good), (second, bad)])
    assert store.get(resources.NODE, "", "b").version == store.version


def test_generated_names_are_free() -> None:
    """generateName is completed by five letters."""
    store = new_store()
    given = pod("")
    given["metadata"] = {"generateName": "web-"}
    names = {store.create(given).name for _ in range(50)}
    assert len(names) == 50
    assert all(len(name) == 9 and name.startswith("web-") for name in names)


@given(st.text(st.characters(codec="utf-8")))
def test_they_are_uuids_of_version_five(seed: str) -> None:
    """As the standard library makes them of the same seed."""
    assert uid_of(seed) == str(uuid.uuid5(uuid.UUID(bytes=_UUIDS), seed))
