"""Pods in flight: each sees the events that came after it was popped, and no event stays longer."""

from __future__ import annotations

from hypothesis import given, strategies as st

from policy_sched.model.cluster_event import NODE_ADD
from policy_sched.model.pod_info import QueuedPod
from policy_sched.queue.in_flight_events import InFlight
from tests.queue.pods import queued


def seen(flights: InFlight, pod: QueuedPod) -> list[object]:
    return [happening.new for happening in flights.since(pod)]


def test_a_pod_sees_the_events_after_its_pop() -> None:
    """Events before a pod was popped are no news to it."""
    flights, first, second = InFlight(), queued("first"), queued("second")
    flights.add(first)
    flights.note(NODE_ADD, None, "n1")
    flights.add(second)
    flights.note(NODE_ADD, None, "n2")
    assert seen(flights, first) == ["n1", "n2"]
    assert seen(flights, second) == ["n2"]


def test_no_event_is_kept_without_pods_in_flight() -> None:
    """Events cost nothing while nothing is decided."""
    flights = InFlight()
    flights.note(NODE_ADD, None, "n1")
    assert flights.events == ()


def test_the_same_event_twice_is_kept_once() -> None:
    """Unless a pod was popped between the two, for which the second one is the first."""
    flights, node, first, second = InFlight(), object(), queued("first"), queued("second")
    flights.add(first)
    flights.note(NODE_ADD, None, node)
    flights.note(NODE_ADD, None, node)
    assert seen(flights, first) == [node]
    flights.add(second)
    flights.note(NODE_ADD, None, node)
    assert seen(flights, first) == [node, node]
    assert seen(flights, second) == [node]


@given(st.lists(st.sampled_from(["pop", "event", "first", "last"]), max_size=40))
def test_events_are_kept_while_a_pod_needs_them(steps: list[str]) -> None:
    """Every pod sees exactly its events, and the oldest pod sees all that are kept."""
    flights = InFlight()
    expected: dict[str, list[object]] = {}
    pods: dict[str, QueuedPod] = {}
    for number, step in enumerate(steps):
        if step == "pop":
            pod = queued(f"p{number}")
            flights.add(pod)
            pods[pod.info.uid], expected[pod.info.uid] = pod, []
        elif step == "event":
            flights.note(NODE_ADD, None, number)
            for events in expected.values():
                events.append(number)
        elif pods:
            uid = list(pods)[0 if step == "first" else -1]
            flights.remove(pods.pop(uid))
            del expected[uid]
        assert {uid: seen(flights, pod) for uid, pod in pods.items()} == expected
        assert [one.new for one in flights.events] == next(iter(expected.values()), [])
