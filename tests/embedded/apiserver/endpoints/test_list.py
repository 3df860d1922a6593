"""Lists: pages of one version, selectors, and what is said of versions that are not there.

Snapshots: the objects of a kind in order, at every version that is remembered.
"""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings, strategies as st

from policy_sched.client.apimachinery.object import Key
from policy_sched.client.apimachinery.resources import Expired
from policy_sched.embedded.apiserver.endpoints.list import EARLIER, Snapshots, key_of
from policy_sched.embedded.store.store import ObjectStore
from policy_sched.testing import FakeClock
from tests.embedded.apiserver.world import PODS, World, pod, serving
from tests.embedded.world import START


async def pods(world: World, count: int) -> None:
    """Create pods p0, p1, ..."""
    for index in range(count):
        await world.create(PODS, pod(f"p{index}", parity="even" if index % 2 == 0 else "odd"))


def names(body: dict[str, Any]) -> list[str]:
    """Return the names of a list's items."""
    return [item["metadata"]["name"] for item in body["items"]]


def test_pages_are_of_one_version_whatever_happens_between_them() -> None:
    """Pods that come, go and change after the first page are as they were."""

    async def run() -> None:
        async with serving() as world:
            await pods(world, 5)
            _, first = await world.ask("GET", f"{PODS}?limit=2")
            assert first["metadata"]["remainingItemCount"] == 3
            await world.create(PODS, pod("p11"))
            await world.ask("DELETE", f"{PODS}/p3")
            merge = "application/merge-patch+json"
            patch = {"metadata": {"labels": {"parity": "none"}}}
            await world.ask("PATCH", f"{PODS}/p4", patch, type=merge)
            document, page = names(first), first
            while token := page["metadata"].get("continue"):
                _, page = await world.ask("GET", f"{PODS}?limit=2&continue={quote(token)}")
                document += names(page)
                assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
            assert document == ["p0", "p1", "p2", "p3", "p4"]
            assert page["items"][-1]["metadata"]["labels"] == {"parity": "even"}
            _, exact = await world.ask(
                "GET",
                f"{PODS}?resourceVersionMatch=Exact&resourceVersion="
                + first["metadata"]["resourceVersion"],
            )
            assert names(exact) == document
            assert names((await world.ask("GET", PODS))[1]) == ["p0", "p1", "p11", "p2", "p4"]

    asyncio.run(run())


def test_a_page_of_an_expired_version_has_a_token_for_the_rest() -> None:
    """410, with a token that leads on at the present version."""

    async def run() -> None:
        async with serving(history=4) as world:
            await pods(world, 4)
            _, first = await world.ask("GET", f"{PODS}?limit=2")
            for index in range(20):
                await world.create(PODS, pod(f"q{index}"))
            token = quote(first["metadata"]["continue"])
            status, body = await world.ask("GET", f"{PODS}?limit=2&continue={token}")
            assert (status, body["reason"]) == (410, "Expired")
            token = quote(body["metadata"]["continue"])
            status, body = await world.ask("GET", f"{PODS}?limit=2&continue={token}")
            assert (status, names(body)) == (200, ["p2", "p3"])

    asyncio.run(run())


def test_selectors_choose_by_labels_and_fields_in_namespaces() -> None:
    """By labels and by fields, in one namespace and in all."""

    async def run() -> None:
        async with serving() as world:
            await pods(world, 4)
            for query, wanted in (
                ("labelSelector=parity%3Deven", ["p0", "p2"]),
                ("labelSelector=parity%20in%20(odd)", ["p1", "p3"]),
                ("labelSelector=!parity", []),
                ("fieldSelector=metadata.name!%3Dp1,status.phase%3DPending", ["p0", "p2", "p3"]),
                ("fieldSelector=spec.nodeName%3D,metadata.namespace%3Ddefault&limit=1", ["p0"]),
            ):
                assert names((await world.ask("GET", f"/api/v1/pods?{query}"))[1]) == wanted

    asyncio.run(run())


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ("fieldSelector=spec.foo%3D1", 400, "field label not supported: spec.foo"),
        ("limit=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("continue=x", 400, "continue key is not valid"),
        ("resourceVersion=99999", 504, "Timeout: Too large resource version: 99999, current: "),
        (f"resourceVersion={2**64 - 1}", 504, "Timeout: Too large resource version: 18446744"),
        (f"resourceVersion={2**64}", 400, 'resourceVersion: Invalid value: "18446744073709551616"'),
        ("resourceVersion=99999999999999999999", 400, 'resourceVersion: Invalid value: "99999'),
        ("resourceVersion=-1", 400, 'resourceVersion: Invalid value: "-1"'),
        ("resourceVersionMatch=Exact", 422, 'ListOptions.meta.k8s.io "" is invalid'),
        ("resourceVersion=1&resourceVersionMatch=X", 422, 'ListOptions.meta.k8s.io "" is invalid'),
        ("sendInitialEvents=false", 422, 'ListOptions.meta.k8s.io "" is invalid'),
    ],
)
def test_wrong_options_are_refused(query: str, status: int, message: str) -> None:
    """With the API server's code and words."""

    async def run() -> Any:
        async with serving() as world:
            return await world.ask("GET", f"{PODS}?{query}")

    code, body = asyncio.run(run())
    assert code == status == body["code"]
    assert body["message"].startswith(message)


def test_other_forms_are_given_and_refused() -> None:
    """Metadata alone, of an object and of a list; protobuf alone is not acceptable."""

    async def run() -> None:
        async with serving() as world:
            await pods(world, 2)
            form = "application/json;as=PartialObjectMetadata{};v=v1;g=meta.k8s.io"
            _, body = await world.ask("GET", PODS, accept=form.format("List"))
            assert (body["kind"], names(body)) == ("PartialObjectMetadataList", ["p0", "p1"])
            assert "spec" not in body["items"][0]
            _, body = await world.ask("GET", f"{PODS}/p0", accept=form.format(""))
            assert body["kind"] == "PartialObjectMetadata"
            both = "application/vnd.kubernetes.protobuf"
            assert (await world.ask("GET", PODS, accept=both))[0] == 406
            assert (await world.ask("GET", PODS, accept=f"{both},application/json"))[0] == 200

    asyncio.run(run())


def test_long_lists_are_written_in_chunks() -> None:
    """1,201 pods in one answer."""

    async def run() -> None:
        async with serving() as world:
            for index in range(1201):
                world.cluster.store.create(pod(f"p{index:04}"))
            _, body = await world.ask("GET", "/api/v1/pods?resourceVersion=0")
            assert names(body) == [f"p{index:04}" for index in range(1201)]
            assert {"kind", "apiVersion"}.isdisjoint(body["items"][700])

    asyncio.run(run())


def test_events_are_the_same_in_both_groups() -> None:
    """What was said in events.k8s.io is listed, selected and changed as core events too."""

    async def run() -> None:
        async with serving() as world:
            event = {
                "metadata": {"name": "e"},
                "eventTime": "2026-01-01T00:00:00.000000Z",
                "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
                "note": "Bound",
                "reason": "Scheduled",
                "action": "Binding",
                "reportingController": "default-scheduler",
                "reportingInstance": "default-scheduler-0",
                "type": "Normal",
            }
            await world.create("/apis/events.k8s.io/v1/namespaces/default/events", event)
            core = "/api/v1/namespaces/default/events"
            query = "fieldSelector=involvedObject.name%3Dp,reason%3DScheduled"
            _, body = await world.ask("GET", f"{core}?{query}")
            (item,) = body["items"]
            assert (item["message"], item["involvedObject"]["name"]) == ("Bound", "p")
            about = {"name": "q", "namespace": "default"}
            old = {"metadata": {"name": "f"}, "involvedObject": about, "message": "Hi"}
            await world.create(core, old)
            _, body = await world.ask("GET", "/apis/events.k8s.io/v1/events")
            assert [entry["note"] for entry in body["items"]] == ["Bound", "Hi"]

    asyncio.run(run())


MAP = ("v1", "ConfigMap")
PLACES = [(space, name) for space in ("a", "a-b", "b") for name in ("x", "x-y", "x.y", "z")]
CHANGES = st.lists(st.tuples(st.sampled_from(PLACES), st.booleans(), st.booleans()), max_size=40)


def _store(history: int = 1000) -> ObjectStore:
    store = ObjectStore(FakeClock(START), history=history)
    for name in ("a", "a-b", "b"):
        store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return store


def _change(store: ObjectStore, namespaced_name: tuple[str, str]) -> None:
    """Create an object, or change it if it is there."""
    namespace, name = namespaced_name
    stored = store.find(MAP, namespace, name)
    meta = {"namespace": namespace, "name": name}
    if stored is None:
        store.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta})
    else:
        store.revise(stored, {**stored.data, "data": {"version": str(store.version)}})


@settings(deadline=None)
@given(CHANGES)
def test_every_version_is_as_it_was(changes: list[tuple[tuple[str, str], bool, bool]]) -> None:
    """Whatever came, changed and went, and whenever it was looked at before."""
    store = _store()
    snapshots = Snapshots(store)
    seen: dict[int, list[tuple[str, int]]] = {}
    for namespaced_name, gone, looked in changes:
        if gone and store.find(MAP, *namespaced_name) is not None:
            store.delete(Key(MAP, *namespaced_name))
        else:
            _change(store, namespaced_name)
        if looked:
            snapshots.present(MAP)
        versions = sorted((key_of(stored), stored.version) for stored in store.select(MAP))
        seen[store.version] = versions
    for version, wanted in seen.items():
        shot = snapshots.at(MAP, version)
        assert [(key_of(stored), stored.version) for stored in shot.objects] == wanted
        assert list(shot.keys) == [key for key, _ in wanted]
        for namespace in ("a", "a-b", "b", "c"):
            first, end = shot.span(namespace, "a-b/x.")
            inside = [k for k, _ in wanted if k.startswith(f"{namespace}/") and k >= "a-b/x."]
            assert list(shot.keys[first:end]) == inside


def test_a_snapshot_is_immutable() -> None:
    """A list that is read slowly is one state."""
    store = _store()
    snapshots = Snapshots(store)
    for namespaced_name in PLACES:
        _change(store, namespaced_name)
    first = snapshots.present(MAP)
    keys = list(first.keys)
    store.delete(Key(MAP, "a", "x"))
    assert list(snapshots.present(MAP).keys) == [key for key in keys if key != "a/x"]
    assert list(first.keys) == [key_of(obj) for obj in first.objects] == keys
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
