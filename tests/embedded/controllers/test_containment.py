"""Errors of controllers: one object that breaks a look does not end the others, or the process."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from policy_sched.client.apimachinery.object import Key
from policy_sched.client.apimachinery.resources import DAEMON_SET, DEPLOYMENT, STATEFUL_SET
from policy_sched.embedded.controllers.workqueue import Over
from policy_sched.embedded.store.watch_history import StoreChange
from policy_sched.testing import SECOND
from tests.embedded.world import World, pod, workload


def put(world: World, kind: str, spec: dict[str, Any]) -> Key:
    """Store a broken workload past all checks, as stores of earlier versions may hold it."""
    stored = world.store.create(workload(kind, "broken"))
    data = stored.data
    data["spec"] |= spec
    world.store.revise(stored, data)
    return stored.key


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("DaemonSet", {"updateStrategy": 1}), ("StatefulSet", {"updateStrategy": True}),
        ("Deployment", {"strategy": 5}), ("Job", {"backoffLimit": []}),
    ],
)  # fmt: skip
def test_an_object_that_fails_blocks_no_other(
    kind: str, spec: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """One object ended the process; now it is logged, counted and tried again, ever more rarely."""
    world = World()
    world.cluster.step()
    key = put(world, kind, spec)
    world.cluster.apply(workload("Deployment", "good", replicas=2))
    world.run(60)
    assert sum(record.startswith("good-") for record in world.names()) == 2
    controller = kind.lower()
    errors = world.store.sync_errors[controller]
    assert 8 <= errors <= 40, "the back-off doubles from 5 ms"
    said = [
        record.getMessage()
        for record in caplog.records
        if record.name == "policy_sched.controllers"
    ]
    assert said[0].startswith(f"{controller}: failed to sync Key(kind={key.kind}")
    assert len(said) == errors

    world.delete(key.kind, key.name)
    world.run(200)
    assert world.store.sync_errors[controller] <= errors + 2


class Fails:
    """A component that fails as a whole."""

    kinds = frozenset({DEPLOYMENT})

    def __init__(self) -> None:
        self.tried = 0

    def observe(self, change: StoreChange) -> None:
        """Fail."""
        raise KeyError(change.new.name)

    def run(self, over: Over) -> bool:
        """Fail."""
        self.tried += 1
        raise RuntimeError("nothing works")

    def next_wakeup(self) -> int | None:
        """Return now."""
        return 0


def test_a_component_that_fails_as_a_whole_pauses() -> None:
    """The others go on, and the loop that drives them does not spin."""
    world = World()
    fails = Fails()
    world.cluster.components = (fails, *world.cluster.components)
    world.cluster._observers[DEPLOYMENT].insert(0, fails)
    world.cluster.apply(workload("Deployment", replicas=2))
    world.run(10)
    assert world.phases() == ["Running", "Running"]
    assert 8 <= fails.tried <= 13
    wakeup = world.cluster.next_wakeup()
    assert wakeup is not None
    assert wakeup > world.clock() + SECOND // 100


def test_stored_objects_that_cannot_be_read_are_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Every start with --data ended with a traceback; the others are there, and it is told."""
    path = str(tmp_path / "cluster.db")
    world = World(path=path)
    for kind in ("DaemonSet", "StatefulSet", "Deployment", "ReplicaSet"):
        world.cluster.apply(workload(kind, kind.lower(), replicas=1))
    world.cluster.apply(pod("p"))
    world.cluster.close()
    database = sqlite3.connect(path)
    for kind, json in (
        ("DaemonSet", b'{"kind":"DaemonSet","metadata":{"name":"x"},"spec":{"updateStrategy":1}}'),
        ("StatefulSet", b"not JSON"),
        ("ReplicaSet", b'"text"'),
    ):
        database.execute("UPDATE objects SET json = ? WHERE kind = ?", (json, kind))
    database.execute("UPDATE objects SET kind = 'Nothing' WHERE kind = 'Deployment'")
    database.commit()
    database.close()

    again = World(nodes=0, path=path)
    kinds = {key.kind[1]: why for key, why in again.store.set_aside.items()}
    assert sorted(kinds) == ["DaemonSet", "Nothing", "ReplicaSet", "StatefulSet"]
    assert "DaemonSetSpec.spec.updateStrategy" in kinds["DaemonSet"]
    assert sum("is set aside" in record.getMessage() for record in caplog.records) == 4
    again.run(5)
    assert again.phases() == ["Running"]
    again.cluster.apply(workload("DaemonSet", "daemonset"))
    assert Key(DAEMON_SET, "default", "daemonset") not in again.store.set_aside
    assert Key(STATEFUL_SET, "default", "statefulset") in again.store.set_aside
    again.cluster.close()
