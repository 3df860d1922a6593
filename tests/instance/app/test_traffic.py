"""Recording while scheduling: what a running instance writes, and that it never waits for it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from threading import Event

import msgspec
import pytest

from policy_sched.errors import PolicySchedError
from policy_sched.instance.app.traffic import RecordingThread, recorded_policies
from policy_sched.model.meta import ApiObject
from policy_sched.model.pod import Pod
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.profiles.reload.store import PolicyStore, ReloadResult
from policy_sched.recording.events import Added, Decided, Deleted, Modified, PolicyChanged
from policy_sched.recording.reading import Recording
from policy_sched.recording.recorder import Recorder
from policy_sched.testing import FakeClock, make_node, make_pod
from tests.instance.app.test_cluster_instance import (
    World as Served,
    acted,
    node,
    pod as waiting,
    until,
)
from tests.instance.app.test_embedded_instance import NODES, World, pod
from tests.profiles.policy_texts import config, write


def test_an_embedded_cluster_is_recorded(tmp_path: Path) -> None:
    """Objects, our decisions with the hash of the policies in force, and a change of these."""
    world = World(tmp_path)
    instance = world.start()
    first = instance.reloader.store.current.content_hash
    instance.record_traffic(str(tmp_path / "traffic"))
    instance.step()
    world.apply(nodes=NODES, web=pod("web") + pod("big", cpu="99"))
    world.clock.ns += 7
    world.policy('node.name == "b"')
    assert world.reload() is ReloadResult.LOADED
    second = instance.reloader.store.current.content_hash
    world.apply(nodes=NODES, web=pod("web"), more=pod("late"))
    instance.step()
    instance.close()
    recording = Recording.open(tmp_path / "traffic")
    events = list(recording.events())
    assert recording.notes == []
    assert recording.policies.keys() == {first, second}
    assert [e.hash for e in events if isinstance(e, PolicyChanged)] == [first, second]
    decided = {(e.pod, e.node, e.policies) for e in events if isinstance(e, Decided)}
    assert {("default/web", "a", first), ("default/late", "b", second)} <= decided
    (failed,) = {e.message for e in events if isinstance(e, Decided) and e.pod == "default/big"}
    assert failed.startswith("0/2 nodes are available: ")
    changed = [e.object for e in events if isinstance(e, Modified) and isinstance(e.object, Pod)]
    bound = dict.fromkeys((o.metadata.name, o.spec.node_name) for o in changed if o.spec.node_name)
    assert list(bound) == [("web", "a"), ("late", "b")]
    assert [e.object.metadata.name for e in events if isinstance(e, Deleted)] == ["big"]
    nodes = [e for e in events if isinstance(e, Added) and e.object.kind == "Node"]
    assert [one.object.metadata.name for one in nodes] == ["a", "b"]
    assert (tmp_path / "traffic" / "000001.jsonl.gz").stat().st_mode & 0o777 == 0o600
    assert "policy_sched_recording_lost_lines 0.0" in instance.metrics.text()
    assert "policy_sched_recording_bytes_total 0.0" not in instance.metrics.text()


def test_a_candidate_decides_under_its_own_hash(tmp_path: Path) -> None:
    """While a rollout tries other policies, their texts are kept, too; a promotion is a change."""
    world = World(tmp_path)
    instance = world.start()
    instance.record_traffic(str(tmp_path / "traffic"))
    instance.step()
    world.policy('node.name == "b"')
    reloader, store = instance.reloader, instance.reloader.store
    stable = store.current.content_hash
    reloader.stage(store.prepare())
    assert store.staged is not None
    candidate = store.staged.content_hash
    reloader.choose(lambda pod: pod.name == "canary")
    world.apply(nodes=NODES, web=pod("web") + pod("canary"))
    reloader.promote()
    world.apply(nodes=NODES, web=pod("web") + pod("canary"), late=pod("late"))
    instance.close()
    recording = Recording.open(tmp_path / "traffic")
    events = list(recording.events())
    assert recording.policies.keys() == {stable, candidate}
    assert {(e.pod, e.node, e.policies) for e in events if isinstance(e, Decided)} == {
        ("default/web", "a", stable),
        ("default/canary", "b", candidate),
        ("default/late", "b", candidate),
    }
    assert [e.hash for e in events if isinstance(e, PolicyChanged)] == [stable, candidate]


def test_a_live_cluster_is_recorded(tmp_path: Path) -> None:
    """Our own bindings once, and what other policies would read of the cluster, too."""

    hashes: list[str] = []

    async def play(served: Served) -> None:
        budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
        served.apply(node("a"), budget | {"metadata": {"name": "b", "namespace": "default"}})
        async with served.served(), served.scheduler() as instance:
            instance.record_traffic(str(tmp_path / "traffic"), ["example.com/kept"])
            await until(lambda: instance.ready)
            served.apply(waiting("p"))
            await until(lambda: served.bound() == {"p": "a"})
            seen = instance.informers.reflectors[-1].mirror
            await until(lambda: [pod for pod in seen if pod.spec.node_name])
            await until(lambda: not instance.informers.behind)
            instance.close()
            hashes.append(instance.reloader.store.current.content_hash)

    acted(play)
    events = list(Recording.open(tmp_path / "traffic").events())
    (bound,) = [event for event in events if isinstance(event, Decided)]
    assert (bound.pod, bound.node, bound.policies) == ("default/p", "a", *hashes)
    kinds = {event.object.kind for event in events if isinstance(event, Added)}
    assert {"Node", "Pod", "Namespace", "PodDisruptionBudget"} <= kinds


def test_recorded_policies_are_complete(tmp_path: Path) -> None:
    """Written to another place they compile alike, with their schemas and gates."""
    folder = tmp_path / "given"
    folder.mkdir()
    schema = '{"type": "object", "properties": {"spec": {"type": "object"}}}'
    (folder / "quota.json").write_text(schema)
    inputs = "  inputs: [{name: q, apiVersion: example.com/v1, kind: Quota, schema: quota.json}]\n"
    world = World(tmp_path)
    world.policy('node.name == "a"')
    text = (tmp_path / "policies" / "keep.yaml").read_text()
    (folder / "one.yaml").write_text(
        text.replace("Keep", "One").replace("spec:\n", "spec:\n" + inputs)
    )
    write(tmp_path / "config.yaml", config({"default-scheduler": ["Keep", "One"]}))
    files = PolicyFiles(
        str(tmp_path / "config.yaml"),
        (str(tmp_path / "policies"), str(folder / "one.yaml")),
        feature_gates={"GenericWorkload": True},
    )
    content_hash = PolicyStore(files, lambda: 0).current.content_hash
    recorded = recorded_policies(files, content_hash)
    assert sorted(recorded.files) == [
        "0/keep.yaml",
        "1-file/one.yaml",
        "1-file/quota.json",
        "config/config.yaml",
    ]
    other = tmp_path / "other"
    for name, content in recorded.files.items():
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        (other / name).write_text(content)
    again = PolicyFiles(
        str(other / recorded.config),
        tuple(str(other / name) for name in recorded.policies),
        feature_gates=recorded.feature_gates,
    )
    plans = [PolicyStore(one, lambda: 0).current.plans for one in (files, again)]
    assert [list(plan.policies) for plan in plans[1]] == [list(plan.policies) for plan in plans[0]]
    data = recorded_policies(PolicyFiles({"kind": "K"}), "x")
    assert data.files == {"config/config.json": '{"kind":"K"}'}


class Threaded:
    """A recording thread whose writes may be held up."""

    def __init__(self, path: Path, most: int) -> None:
        self.goes_on = Event()
        self.goes_on.set()
        self.full = False
        self.troubles: list[str] = []
        self.objects: list[ApiObject] = []
        self.clock = FakeClock(10**18)
        self.path = path
        self.thread = RecordingThread(
            Recorder(path, write=self.write),
            PolicyStore(PolicyFiles(), lambda: 0),
            self.clock,
            self.everything,
            self.troubles.append,
            most,
        )

    def everything(self) -> Iterable[ApiObject]:
        """Return what is there."""
        return self.objects

    def write(self, handle: int, data: bytes) -> int:
        """Write when it goes on, and while there is room."""
        self.goes_on.wait()
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(handle, data)

    def put(self, name: str) -> None:
        """Have a pod come."""
        self.objects.append(make_pod(name))
        self.thread.changed(self.objects[-1])


def test_a_disk_that_hangs_is_not_waited_for(tmp_path: Path) -> None:
    """Beyond a bound changes are missed and counted; then all objects are compared anew."""
    threaded = Threaded(tmp_path / "traffic", most=5)
    threaded.goes_on.clear()
    threaded.thread.begin()
    for number in range(40):
        threaded.put(f"p{number}")
    assert threaded.thread.lost >= 30
    threaded.goes_on.set()
    while threaded.thread._told:  # the thread writes
        os.sched_yield()
    threaded.put("last")
    threaded.thread.close()
    recording = Recording.open(tmp_path / "traffic")
    names = {e.object.metadata.name for e in recording.events() if isinstance(e, Added)}
    assert names == {f"p{number}" for number in range(40)} | {"last"}
    assert threaded.troubles == []


def test_a_full_disk_is_told_and_counted(tmp_path: Path) -> None:
    """In the loop's thread; and so is a folder that cannot be written from the beginning."""
    threaded = Threaded(tmp_path / "traffic", most=1000)
    threaded.full = True
    threaded.thread.begin()
    threaded.put("a")
    threaded.thread.close()
    assert [text.endswith("No space left on device") for text in threaded.troubles] == [True]
    assert threaded.thread.lost == 1
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="Not a directory"):
        Recorder(tmp_path / "file" / "traffic")
    first = Recorder(tmp_path / "one")
    with pytest.raises(PolicySchedError, match="another process records there"):
        Recorder(tmp_path / "one")
    first.close(0)


def test_what_breaks_ends_the_recording_alone(tmp_path: Path) -> None:
    """An object that cannot be written is told, and the scheduler goes on."""
    threaded = Threaded(tmp_path / "traffic", most=1000)
    threaded.objects.append(make_node("n"))
    threaded.thread.begin()
    bad = msgspec.structs.replace(make_pod("bad"))
    bad.spec.priority = object()  # type: ignore[assignment]  # no JSON
    threaded.thread.changed(bad)
    threaded.thread.close()
    assert len(threaded.troubles) == 1
    assert "the recording ends" in threaded.troubles[0]
