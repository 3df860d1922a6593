"""Snapshots: the objects of a kind in order, at every version that is remembered."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from policy_sched.client.apimachinery.object import Key
from policy_sched.client.apimachinery.resources import Expired
from policy_sched.embedded.apiserver.endpoints.list import EARLIER, Snapshots, key_of
from policy_sched.embedded.store.store import ObjectStore
from policy_sched.testing import FakeClock
from tests.embedded.world import START

MAP = ("v1", "ConfigMap")
PLACES = [(space, name) for space in ("a", "a-b", "b") for name in ("x", "x-y", "x.y", "z")]
CHANGES = st.lists(st.tuples(st.sampled_from(PLACES), st.booleans(), st.booleans()), max_size=40)


def _store(history: int = 1000) -> ObjectStore:
    store = ObjectStore(FakeClock(START), history=history)
    for name in ("a", "a-b", "b"):
        store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return store


def _change(store: ObjectStore, place: tuple[str, str]) -> None:
    """Create an object, or change it if it is there."""
    namespace, name = place
    found = store.find(MAP, namespace, name)
    meta = {"namespace": namespace, "name": name}
    if found is None:
        store.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    else:
        store.revise(found, {**found.data, "data": {"version": str(store.version)}})


@settings(deadline=None)
@given(CHANGES)
def test_every_version_is_as_it_was(changes: list[tuple[tuple[str, str], bool, bool]]) -> None:
    """Whatever came, changed and went, and whenever it was looked at before."""
    store = _store()
    snapshots = Snapshots(store)
    seen: dict[int, list[tuple[str, int]]] = {}
    for place, gone, looked in changes:
        if gone and store.find(MAP, *place) is not None:
            store.delete(Key(MAP, *place))
        else:
            _change(store, place)
        if looked:
            snapshots.present(MAP)
        found = sorted((key_of(one), one.version) for one in store.select(MAP))
        seen[store.version] = found
    for version, wanted in seen.items():
        shot = snapshots.at(MAP, version)
        assert [(key_of(one), one.version) for one in shot.objects] == wanted
        assert list(shot.keys) == [key for key, _ in wanted]
        for namespace in ("a", "a-b", "b", "c"):
            first, end = shot.span(namespace, "a-b/x.")
            inside = [k for k, _ in wanted if k.startswith(f"{namespace}/") and k >= "a-b/x."]
            assert list(shot.keys[first:end]) == inside


def test_a_snapshot_is_immutable() -> None:
    """A list that is read slowly is one state."""
    store = _store()
    snapshots = Snapshots(store)
    for place in PLACES:
        _change(store, place)
    first = snapshots.present(MAP)
    keys = list(first.keys)
    store.delete(Key(MAP, "a", "x"))
    assert list(snapshots.present(MAP).keys) == [key for key in keys if key != "a/x"]
    assert list(first.keys) == [key_of(one) for one in first.objects] == keys
    assert snapshots.present(MAP) is snapshots.present(MAP)


def test_expired_versions_are_not_served() -> None:
    """Though it was looked at before; and states that are not requested any more are dropped."""
    store = _store(history=2)
    snapshots = Snapshots(store)
    _change(store, ("a", "x"))
    version = store.version
    snapshots.present(MAP)
    for _ in range(3):
        _change(store, ("a", "x"))
    assert len(snapshots.at(MAP, version).objects) == 1
    for _ in range(3):
        _change(store, ("a", "x"))
    with pytest.raises(Expired):
        snapshots.at(MAP, version)
    store = _store()
    snapshots = Snapshots(store)
    shots = []
    for _ in range(EARLIER + 2):
        _change(store, ("a", "x"))
        shots.append(store.version)
    for version in shots:
        assert snapshots.at(MAP, version).objects[0].version == version
    assert snapshots.at(MAP, shots[0]).objects[0].version == shots[0]
