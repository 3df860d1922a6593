"""The cluster as its owner uses it: apply, time, and the scheduler's client."""

from __future__ import annotations

import pytest

from policy_sched.client.apimachinery.object import Key
from policy_sched.client.apimachinery.resources import EVENT, GROUP, NAMESPACE, NODE, POD, ApiError
from policy_sched.embedded.client import EmbeddedClient
from policy_sched.embedded.cluster import EmbeddedCluster
from policy_sched.embedded.store.patch import LAST_APPLIED
from policy_sched.errors import ClusterError
from policy_sched.model.meta import ObjectMeta
from policy_sched.model.pod_group import PodGroup
from policy_sched.scheduler import api_calls
from policy_sched.testing import SECOND, FakeClock
from tests.embedded.world import START, World, node, pod, workload


def test_apply_creates_changes_and_removes_fields() -> None:
    """What others have written besides stays."""
    world = World(nodes=0)
    given = node("n", labels={"a": "1", "b": "2"}, taints=[{"key": "t", "effect": "NoSchedule"}])
    world.cluster.apply(given)
    world.store.patch(Key(NODE, "", "n"), {"metadata": {"labels": {"theirs": "x"}}})
    changed = world.cluster.apply(node("n", labels={"a": "3"}))
    assert changed.labels == {"a": "3", "theirs": "x"}
    assert not changed.data["spec"].get("taints")
    assert LAST_APPLIED in changed.typed.metadata.annotations
    assert world.cluster.apply(node("n", labels={"a": "3"})) is changed


def test_apply_writes_the_status_of_nodes_but_not_of_pods() -> None:
    """A node's amounts come from the file; a pod's phase is the kubelet's."""
    world = World()
    world.cluster.apply(node("n0", "16"))
    assert world.store.get(NODE, "", "n0").data["status"]["allocatable"]["cpu"] == "16"
    world.cluster.apply({**pod("p"), "status": {"phase": "Failed"}})
    world.run(2)
    world.cluster.apply({**pod("p"), "status": {"phase": "Failed"}})
    assert world.pod("p").status.phase == "Running"


def test_apply_makes_the_namespace() -> None:
    """A file need not say it."""
    world = World()
    given = pod("p")
    given["metadata"]["namespace"] = "team"
    world.cluster.apply(given)
    assert world.store.find(NAMESPACE, "", "team") is not None


def test_what_was_read_from_a_cluster_keeps_its_uid_and_status() -> None:
    """A pod that ran there runs here."""
    world = World()
    given = pod("p", nodeName="n0", duration="60")
    given["metadata"] |= {"uid": "u-1", "resourceVersion": "77"}
    given["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    stored = world.cluster.load(given)
    assert (stored.uid, world.pod("p").status.phase) == ("u-1", "Running")
    world.run(60)
    assert world.pod("p").status.phase == "Succeeded"


def test_refusals_are_cluster_errors() -> None:
    """With the API's reason."""
    world = World()
    with pytest.raises(ClusterError) as caught:
        world.cluster.apply(pod("Bad_Name"))
    assert isinstance(caught.value, ApiError)
    assert caught.value.reason == "Invalid"
    assert world.cluster.delete(Key(POD, "default", "none")) is None


def test_next_wakeup_tells_when_a_step_is_worth_while() -> None:
    """Now, if something was changed; else when the next thing is due; None if nothing is."""
    world = World()
    world.cluster.step()
    assert world.cluster.next_wakeup() is None
    world.cluster.apply(pod("p", nodeName="n0"))
    assert world.cluster.next_wakeup() == world.clock.ns
    world.cluster.step()
    assert world.cluster.next_wakeup() == world.clock.ns + SECOND


def test_a_cluster_that_fell_behind_looks_at_everything_anew() -> None:
    """More changes than are remembered lie between two steps."""
    clock = FakeClock(START)
    cluster = EmbeddedCluster.open(None, clock, history=10)
    cluster.apply(node("n0"))
    cluster.apply(workload("ReplicaSet", replicas=2))
    cluster.step()
    for number in range(50):
        cluster.apply(node(f"m{number}"))
    cluster.apply(workload("ReplicaSet", replicas=4))
    cluster.step()
    assert len(cluster.store.select(POD)) == 4


def test_a_binding_may_take_its_time() -> None:
    """It is answered in a step, when its time has come; without latency at once."""
    world = World()
    slow = EmbeddedClient(world.cluster, latency=3 * SECOND)
    for name in ("a", "b"):
        world.cluster.apply(pod(name))
    answers: list[ClusterError | None] = []
    world.client.bind(world.info("a"), "n0", answers.append)
    assert answers == [None]
    slow.bind(world.info("b"), "n0", answers.append)
    slow.bind(world.info("b"), "n1", answers.append)
    world.cluster.step()
    assert world.cluster.next_wakeup() == world.clock.ns + SECOND
    world.clock.advance(3)
    world.cluster.step()
    assert answers[:2] == [None, None]
    assert 'is already assigned to node "n0"' in str(answers[2])


def test_faults_are_injected_before_each_call() -> None:
    """A call that fails changes nothing; a binding tells its callback."""
    world = World()
    calls: list[tuple[str, str]] = []

    def fault(call: str, key: str) -> ClusterError | None:
        calls.append((call, key))
        return ClusterError("no answer")

    client = EmbeddedClient(world.cluster, fault=fault)
    world.cluster.apply(pod("p"))
    version, info = world.store.version, world.info("p")
    answers: list[ClusterError | None] = []
    client.bind(info, "n0", answers.append)
    assert str(answers[0]) == "no answer"
    for call in (
        lambda: client.send(api_calls.nomination(info, "n0")),
        lambda: client.send(
            api_calls.pod_unschedulable(info, "Unschedulable", "no", world.clock.ns)
        ),
        lambda: client.send(api_calls.nomination(info, "")),
        lambda: client.send(api_calls.disruption_target(info, "no", world.clock.ns)),
        lambda: client.send(api_calls.pod_deletion(info)),
        lambda: client.record_event(info, "Normal", "R", "A", "n"),
    ):
        with pytest.raises(ClusterError, match="no answer"):
            call()
    assert world.store.version == version
    assert {name for name, _ in calls} == {
        "bind",
        "patch pods/status",
        "delete pods",
        "record_event",
    }


def test_conditions_and_nominations_are_written_into_the_status() -> None:
    """The time of a transition stays as long as the condition's status does."""
    world = World()
    world.cluster.apply(pod("p"))
    for message in ("first", "second"):
        world.client.send(
            api_calls.pod_unschedulable(
                world.info("p"), "Unschedulable", message, world.clock.ns, "n1"
            )
        )
        world.clock.advance(5)
    status = world.store.get(POD, "default", "p").data["status"]
    (condition,) = status["conditions"]
    assert (condition["message"], status["nominatedNodeName"]) == ("second", "n1")
    assert condition["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    world.client.send(api_calls.nomination(world.info("p"), ""))
    assert world.pod("p").status.nominated_node_name == ""
    world.client.send(api_calls.nomination(world.info("p"), "n2"))
    assert world.bind("p", "n0") is None
    bound = world.pod("p")
    assert (bound.status.nominated_node_name, bound.status.conditions[0].status) == ("", "True")


def test_the_condition_of_a_pod_group() -> None:
    """It is written into the status of the group that is meant; one that has gone is no error."""
    world = World()
    plain = {"apiVersion": GROUP[0], "kind": GROUP[1], "metadata": {"name": "g"}}
    world.cluster.apply({**plain, "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}}})
    stored = world.store.get(GROUP, "default", "g")
    meta = ObjectMeta(name="g", namespace="default", uid=stored.uid, generation=1)
    group = PodGroup(metadata=meta)
    other = PodGroup(metadata=ObjectMeta(name="g", namespace="default", uid="another"))
    world.client.send(
        api_calls.group_scheduled(
            group, "Unschedulable", "no room", world.clock.ns, scheduled=False
        )
    )
    world.client.send(
        api_calls.group_scheduled(group, "Scheduled", "", world.clock.ns, scheduled=True)
    )
    world.client.send(
        api_calls.group_scheduled(other, "Unschedulable", "no", world.clock.ns, scheduled=False)
    )
    (condition,) = world.store.get(GROUP, "default", "g").data["status"]["conditions"]
    assert condition == {
        "type": "PodGroupScheduled",
        "status": "True",
        "reason": "Scheduled",
        "message": "",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def test_calls_about_a_pod_that_has_gone_do_no_harm() -> None:
    """Another pod of the same name is not touched."""
    world = World()
    world.cluster.apply(pod("p"))
    old = world.info("p")
    world.delete(POD, "p")
    world.cluster.apply(pod("p"))
    world.client.send(api_calls.pod_deletion(old))
    world.client.send(api_calls.disruption_target(old, "gone", world.clock.ns))
    answers: list[ClusterError | None] = []
    world.client.bind(old, "n0", answers.append)
    assert "UID in precondition" in str(answers[0])
    with pytest.raises(ClusterError, match="UID in precondition"):
        world.client.send(api_calls.pod_unschedulable(old, "Unschedulable", "no", world.clock.ns))
    assert world.pod("p").status.conditions == ()


def test_repeated_events_are_counted() -> None:
    """One object per thing that is said; it is forgotten an hour after it was last said."""
    world = World()
    world.cluster.apply(pod("p"))
    for note in ("no room", "no room", "no luck", "no room"):
        world.client.record_event(
            world.info("p"), "Warning", "FailedScheduling", "Scheduling", note
        )
        world.run(60)
    events = [event.data for event in world.store.select(EVENT)]
    assert [(e["note"], e.get("series", {}).get("count")) for e in events] == [
        ("no room", 3),
        ("no luck", None),
    ]
    assert events[0]["regarding"]["name"] == "p"
    assert events[0]["series"]["lastObservedTime"] == "2026-01-01T00:03:00.000000Z"
    assert world.cluster.next_wakeup() is None
    world.run(3600 - 90)
    assert [event.data["note"] for event in world.store.select(EVENT)] == ["no room"]
    world.client.record_event(world.info("p"), "Normal", "Scheduled", "Binding", "x" * 2000)
    assert len(world.store.select(EVENT)[-1].data["note"]) == 1024


def test_events_beyond_so_many_go_before_their_time() -> None:
    """The oldest first; what was said again lately is not old."""
    world = World()
    world.cluster.events._most = 3
    world.cluster.apply(pod("p"))
    said = ("Warning", "FailedScheduling", "Scheduling")
    for note in ("a", "b", "c", "a", "d", "e"):
        world.client.record_event(world.info("p"), *said, note)
        world.run(1)
    assert sorted(event.data["note"] for event in world.store.select(EVENT)) == ["a", "d", "e"]


def test_events_are_counted_on_after_a_restart() -> None:
    """What is remembered of them is read from them."""
    world = World()
    world.cluster.apply(pod("p"))
    said = ("Warning", "FailedScheduling", "Scheduling", "no room")
    world.client.record_event(world.info("p"), *said)
    again = EmbeddedCluster(world.store, world.cluster.times)
    again.step()
    EmbeddedClient(again).record_event(world.info("p"), *said)
    (event,) = world.store.select(EVENT)
    assert event.data["series"]["count"] == 2
    world.store.delete(Key(EVENT, "default", event.name))
    again.step()
    EmbeddedClient(again).record_event(world.info("p"), *said)
    (event,) = world.store.select(EVENT)
    assert "series" not in event.data
