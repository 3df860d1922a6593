"""Stored objects of any content: no controller, kubelet or event log fails on them."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from policy_sched.client import apimachinery
from policy_sched.embedded.controllers.workqueue import RetryCounts
from policy_sched.embedded.schema import typed
from policy_sched.embedded.store.sqlite import SqliteStorage
from policy_sched.embedded.store.watch_history import ADDED, StoreChange
from tests.embedded.world import World, workload
from tests.examples import scaled
from tests.fuzz.objects import Objects

Plain = dict[str, Any]
ODD: tuple[Any, ...] = (
    1, -1, 1.5, True, None, "x", "", [], {}, [1], [None], ["x"], {"a": 1}, {"a": None}, [{}],
    [{"a": 1}], "9" * 30, 2**63 - 1, [[]],
)  # fmt: skip
OWNERS = ("ReplicaSet", "Job", "Deployment", "DaemonSet", "StatefulSet")


def odd(value: Any, random: Random, likely: float) -> Any:
    """Return JSON data some of whose values are replaced by others, of whatever type."""
    if random.random() < likely:
        return random.choice(ODD)
    if isinstance(value, dict):
        return {key: odd(inner, random, likely) for key, inner in value.items()}
    return [odd(inner, random, likely) for inner in value] if isinstance(value, list) else value


def made(objects: Objects, random: Random) -> Plain:
    """Return an object of a kind that is served, with odd values in it."""
    data = objects.made(objects.resource())
    meta = data["metadata"]
    meta |= {"uid": f"u{random.randrange(9)}", "namespace": "default"}
    if random.random() < 0.3:
        kind = random.choice(OWNERS)
        version = "batch/v1" if kind == "Job" else "apps/v1"
        owner = {"apiVersion": version, "kind": kind, "name": "o1", "uid": "u5"}
        meta["ownerReferences"] = [{**owner, "controller": True}]
    if random.random() < 0.2:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    likely = random.choice((0, 0.02, 0.1))
    return {
        key: odd(value, random, likely) if isinstance(value, dict) and key != "metadata" else value
        for key, value in data.items()
    }


def put(world: World, data: Plain) -> None:
    """Store an object past all checks but that of its types; one that is there already stays."""
    resource = apimachinery.resource((data["apiVersion"], data["kind"]))
    meta = data["metadata"]
    namespace = meta["namespace"] if resource.namespaced else ""
    if world.store.find(resource.key, namespace, meta["name"]) is None:
        new = apimachinery.seal(resource, typed(resource.key, data), world.store.version + 1)
        world.store._commit([StoreChange(ADDED, 0, new)])


def live(world: World) -> None:
    """Let some time pass in steps of little work; bind what can be bound."""
    for seconds in (1, 20, 70):
        for _ in range(40):
            world.cluster.step(lambda: True)
        for pod in world.store.select(apimachinery.POD)[:10]:
            world._bind(pod)
        world.clock.ns += seconds * 10**9
    world.cluster.step(lambda: True)


@pytest.fixture(autouse=True)
def _raising(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an error of a component fail the test instead of being contained."""

    def failed(_: object, what: object, error: Exception) -> int:
        raise AssertionError(f"{what}: {error!r}") from error

    monkeypatch.setattr(RetryCounts, "failed", failed)


@settings(deadline=None, max_examples=scaled(40))
@given(st.integers(0, 2**32))
def test_no_component_fails_on_objects_of_odd_content(seed: int) -> None:
    """Events without a time and pods that ended their own deletion failed again and again."""
    random, world = Random(seed), World()
    objects = Objects(random)
    world.cluster.apply(workload("ReplicaSet", replicas=1))
    for _ in range(15):
        try:
            put(world, made(objects, random))
        except apimachinery.ApiError:  # refused, or set aside where it was stored
            continue
    live(world)


@settings(deadline=None, max_examples=scaled(15))
@given(st.integers(0, 2**32))
def test_no_component_fails_on_a_file_of_odd_objects(seed: int) -> None:
    """What a file holds is of the right types when it has been read, or is set aside."""
    random = Random(seed)
    objects = Objects(random)
    with TemporaryDirectory() as folder:
        path = str(Path(folder) / "cluster.db")
        SqliteStorage(path).close()
        database = sqlite3.connect(path)
        for number in range(15):
            data = made(objects, random)
            resource = apimachinery.resource((data["apiVersion"], data["kind"]))
            namespaced_name = "default" if resource.namespaced else "", f"o{number}"
            data["metadata"] |= {"name": namespaced_name[1], "resourceVersion": f"{number + 1}"}
            row = (*resource.key, *namespaced_name, number + 1, msgspec.json.encode(data))
            database.execute("INSERT INTO objects VALUES (?, ?, ?, ?, ?, ?)", row)
        database.execute("UPDATE counter SET version = 15")
        database.commit()
        database.close()
        world = World(path=path)
        live(world)
        for stored in world.store.everything():
            assert apimachinery.read(stored.resource, stored.raw) == stored.typed
        world.cluster.close()
