"""The clock, the client and the forms of a pod under virtual time."""

from __future__ import annotations

from policy_sched.client.memory import VirtualClient
from policy_sched.model.pod_info import PodInfo, running_form
from policy_sched.scheduler import api_calls
from policy_sched.simulate import one_shot
from policy_sched.testing import make_pod

TIME = 1_767_225_600_123_456_000


def test_time_stands_still_until_it_is_set() -> None:
    """A clock is read by calling it."""
    clock = one_shot.VirtualClock(5)
    assert clock() == clock() == 5
    clock.ns = 7
    assert clock() == 7


def test_the_client_answers_bindings_and_evictions_at_once() -> None:
    """Bindings are answered at once."""
    client, pod = VirtualClient(), PodInfo.of(make_pod("p"))
    answers: list[object] = []
    client.bind(pod, "n", answers.append)
    client.send(api_calls.pod_deletion(pod))
    client.record_event(pod, "Normal", "Scheduled", "Binding", "note")
    client.send(api_calls.disruption_target(pod, "text", TIME))
    assert answers == [None]
    assert client.bound == [(pod, "n")]
    assert [deletion.uid for deletion in client.leaving] == [pod.uid]
    assert client.events == []


def test_the_client_remembers_nominations_that_change() -> None:
    """Set, left alone, and taken back; a condition without a nomination is not recorded."""
    client, pod = VirtualClient(), PodInfo.of(make_pod("p"))
    client.send(api_calls.pod_unschedulable(pod, "Unschedulable", "text", TIME, "n"))
    client.send(api_calls.pod_unschedulable(pod, "Unschedulable", "text", TIME, None))
    client.send(api_calls.pod_unschedulable(pod, "Unschedulable", "text", TIME, ""))
    client.send(api_calls.nomination(pod, ""))
    assert client.nominated == [(pod.uid, "n"), (pod.uid, ""), (pod.uid, "")]
    assert PodInfo.of(one_shot.nominated_form(pod.pod, "n")).nominated_node_name == "n"


def test_a_pod_takes_forms_as_its_life_goes_on() -> None:
    """Created, bound, leaving, and made anew; the one before stays as it is."""
    plain = make_pod("p", uid="u", cpu="1")
    created = one_shot.created_form(plain, TIME)
    assert PodInfo.of(created).creation_time == TIME
    assert one_shot.created_form(created, TIME + 1) is created
    bound = running_form(created, "n", TIME)
    assert (PodInfo.of(bound).node_name, PodInfo.of(bound).start_time) == ("n", TIME)
    leaving = one_shot.leaving_form(bound, TIME)
    assert PodInfo.of(leaving).terminating
    assert [condition.type for condition in leaving.status.conditions] == ["DisruptionTarget"]
    again = PodInfo.of(one_shot.next_form(leaving, "p-again-1", TIME))
    assert (again.name, again.node_name, again.terminating) == ("p-again-1", "", False)
    assert (again.uid, again.requests) == ("default/p-again-1", {"cpu": 1000})
    assert plain.metadata.creation_timestamp is None
    assert not created.spec.node_name
