"""Deciding a whole cluster.

The clock, the client and the forms of a pod under virtual time.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from policy_sched.client.memory import VirtualClient
from policy_sched.explain.report import Explanation
from policy_sched.model.meta import ApiObject, ObjectMeta
from policy_sched.model.pod import Pod
from policy_sched.model.pod_group import POD_GROUP_LABEL, CoschedulingGroup, CoschedulingSpec
from policy_sched.model.pod_info import PodInfo, running_form
from policy_sched.profiles.build.pipeline import CompiledPlan
from policy_sched.report import unshown
from policy_sched.scheduler import api_calls
from policy_sched.scheduler.setup.factory import assemble, build, load_cluster, read
from policy_sched.simulate import one_shot
from policy_sched.simulate.report import OneShotRun, PreemptionRecord
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled

GANG = str(Path(__file__).parents[2] / "policies" / "gang")


def decided(*objects: ApiObject, seed: int = 0, policies: Sequence[str] = ()) -> OneShotRun:
    """Return the run over some objects."""
    scheduler = build(None, policies, objects=objects, seed=seed)
    pending = load_cluster(scheduler.cache, objects)
    reported: list[int] = []
    run = one_shot.run_queue(scheduler, [PodInfo.of(pod) for pod in pending], reported.append)
    assert scheduler.cache.check() == []
    return run


def nodes_of(run: OneShotRun) -> dict[str, str | None]:
    """Return where each pod went."""
    return {placement.pod: placement.node for placement in run.placements}


def test_every_pending_pod_has_one_placement_in_input_order() -> None:
    """Whatever order the queue decides in, the answer is in the order of the question."""
    run = decided(
        make_node("n1", cpu="2"),
        make_pod("low", cpu="1"),
        make_pod("high", cpu="2", priority=10),
        make_pod("gated", gates=["hold"]),
    )
    assert nodes_of(run) == {"default/low": None, "default/high": "n1", "default/gated": None}
    assert run.placed == 1


def test_running_pods_count_and_ended_pods_do_not() -> None:
    """A pod on a node uses resources there, unless it has ended."""
    full = make_pod("full", cpu="4", node_name="n1")
    ended = make_pod("ended", cpu="4", node_name="n2", phase="Succeeded")
    over = make_pod("over", phase="Failed")
    run = decided(make_node("n1"), make_node("n2"), full, ended, over, make_pod("p", cpu="4"))
    assert nodes_of(run) == {"default/p": "n2"}


def test_a_pod_that_fits_nowhere_has_kube_schedulers_message() -> None:
    """The message is the whole text of the event; the summary counts its reasons."""
    run = decided(
        make_node("n1", cpu="1"),
        make_node("n2", taints=["a=b:NoSchedule"]),
        make_pod("p", cpu="2"),
        make_pod("q", cpu="2"),
    )
    messages = {placement.message for placement in run.placements}
    (message,) = messages
    head = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
    assert message.startswith(head)
    assert run.unschedulable_by == {
        "Insufficient cpu": 2,
        "node(s) had untolerated taint(s)": 2,
    }


def test_pods_that_never_enter_the_queue_have_a_reason() -> None:
    """Gated, of another scheduler, or on their way out."""
    leaving = make_pod("leaving")
    leaving.metadata.deletion_timestamp = make_pod(
        "x", created="2026-01-01T00:00:00Z"
    ).metadata.creation_timestamp
    run = decided(
        make_node("n1"),
        make_pod("gated", gates=["a", "b"]),
        make_pod("other", scheduler_name="mine"),
        leaving,
    )
    assert [placement.message for placement in run.placements] == [
        "waiting for scheduling gates: [a b]",
        'no profile has schedulerName "mine"',
        "skip schedule deleting pod: default/leaving",
    ]


def test_without_nodes_nothing_is_available() -> None:
    """kube-scheduler's words for an empty cluster."""
    run = decided(make_pod("p"))
    assert run.placements[0].message == "no nodes available to schedule pods"
    assert run.allocation == ()


def test_the_seed_decides_ties_and_nothing_else() -> None:
    """The same seed gives the same placements; seeds differ only among equal nodes."""
    cluster = [make_node(f"n{i}") for i in range(20)] + [make_pod(f"p{i}") for i in range(10)]
    runs = [nodes_of(decided(*cluster, seed=seed)) for seed in (1, 1, 2)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_allocation_adds_up() -> None:
    """Requested and allocatable over all nodes, main resources first."""
    run = decided(
        make_node("n1", cpu="4", memory="8Gi", resources={"example.com/x": "2"}),
        make_node("n2", cpu="4", memory="8Gi"),
        make_pod("r", cpu="1", memory="1Gi", node_name="n1"),
        make_pod("p", cpu="500m", requests={"example.com/x": "1"}),
    )
    by_key = {a.resource: (a.requested, a.allocatable) for a in run.allocation}
    assert by_key == {
        "cpu": (1500, 8000),
        "memory": (2**30, 2**34),
        "pods": (2, 220),
        "example.com/x": (1, 2),
    }
    assert list(by_key) == ["cpu", "memory", "pods", "example.com/x"]


def test_preemption_nominates_and_evicts_victims() -> None:
    """The important pod has no node yet; the victim runs on until its node has stopped it."""
    run = decided(
        make_node("n1", cpu="2"),
        make_pod("victim", cpu="2", node_name="n1", started="2026-01-01T00:00:00Z"),
        make_pod("urgent", cpu="2", priority=10),
        make_pod("later", cpu="2"),
    )
    assert nodes_of(run) == {"default/urgent": None, "default/later": None}
    assert run.preemptions == (PreemptionRecord("default/urgent", "n1", ("default/victim",)),)
    assert {a.resource: a.requested for a in run.allocation}["cpu"] == 2000


def gang(members: int, nodes: int) -> OneShotRun:
    """Return the run of a gang of three whose members need a node each."""
    meta = ObjectMeta(name="ring", namespace="default")
    return decided(
        CoschedulingGroup(metadata=meta, spec=CoschedulingSpec(min_member=3)),
        *(make_node(f"n{i}") for i in range(nodes)),
        *(make_pod(f"p{i}", cpu="3", labels={POD_GROUP_LABEL: "ring"}) for i in range(members)),
        policies=[GANG],
    )


def test_pods_that_wait_are_placed_if_they_are_let_go() -> None:
    """The last member of a gang completes it for all."""
    assert gang(3, 3).placed == 3


def test_pods_that_are_held_are_not_placed() -> None:
    """Permission never comes; the message has the reason and the node."""
    run = gang(3, 2)
    assert run.placed == 0
    messages = [placement.message for placement in run.placements]
    held = [message for message in messages if message.startswith("held on n")]
    assert len(held) == 2
    assert any(item.endswith(" by Gang: waiting for 2 more of pod group ring") for item in held)
    assert run.unschedulable_by["waiting for 1 more of pod group ring"] == 1


POLICIES = Path(__file__).parents[2] / "policies"
GROUP = "scheduling.x-k8s.io/pod-group"


@cache
def plans(policy: str = "") -> tuple[CompiledPlan, ...]:
    """Return the default profile, perhaps with a policy."""
    return read(None, [str(POLICIES / policy)] if policy else [])[0]


def simulated(objects: Sequence[ApiObject], policy: str, seed: int) -> OneShotRun:
    """Return the result of `simulate`."""
    scheduler = assemble(plans(policy), seed=seed, objects=objects)
    infos = [PodInfo.of(pod) for pod in load_cluster(scheduler.cache, objects)]
    return one_shot.run_queue(scheduler, infos, unshown)


def explained(
    objects: Sequence[ApiObject], pod: Pod, policy: str = "", seed: int = 0, *, after: bool = True
) -> Explanation:
    """Return the explanation of a pod, with --after-queue or without it."""
    scheduler = assemble(plans(policy), seed=seed, objects=objects)
    pods = [obj for obj in objects if isinstance(obj, Pod)]
    pending = load_cluster(scheduler.cache, [obj for obj in objects if obj is not pod])
    infos = one_shot.waiting_with(pod, pods, pending)
    act = one_shot.explain_after_queue if after else one_shot.explain_now
    return act(scheduler, infos, PodInfo.of(pod).uid, 5)


PODS = st.lists(
    st.tuples(
        st.sampled_from(["500m", "1", "2", "3"]),
        st.sampled_from([0, 10, 1000]),
        st.sampled_from(["", "", "ring"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)
NODES = st.lists(st.tuples(st.sampled_from([1, 2, 4]), st.sampled_from("ab")), max_size=5)


def cluster(
    pods: Sequence[tuple[str, int, str, bool]], nodes: Sequence[tuple[int, str]]
) -> list[ApiObject]:
    """Return nodes in racks, some with a pod that others may evict, and pods, some of a group."""
    meta = ObjectMeta(name="ring", namespace="default")
    spec = CoschedulingSpec(min_member=2)
    objects: list[ApiObject] = [CoschedulingGroup(metadata=meta, spec=spec)]
    for i, (cpu, rack) in enumerate(nodes):
        labels = {"topology.example.com/rack": rack}
        objects.append(make_node(f"n{i}", cpu=str(cpu), labels=labels))
        objects.append(make_pod(f"r{i}", cpu="500m", node_name=f"n{i}", priority=5))
    for i, (cpu, priority, group, elsewhere) in enumerate(pods):
        labels = {GROUP: group} if group else {}
        scheduler = "other" if elsewhere and i % 5 == 4 else "default-scheduler"
        objects.append(
            make_pod(f"p{i}", cpu=cpu, priority=priority, labels=labels, scheduler_name=scheduler)
        )
    return objects


@settings(max_examples=scaled(60), deadline=None)
@given(
    pods=PODS,
    nodes=NODES,
    seed=st.integers(0, 3),
    policy=st.sampled_from(["", "gang", "rack-gang", "gpu-bin-packing"]),
    data=st.data(),
)
def test_after_the_queue_a_pod_goes_where_simulate_puts_it(
    pods: list[tuple[str, int, str, bool]],
    nodes: list[tuple[int, str]],
    seed: int,
    policy: str,
    data: st.DataObject,
) -> None:
    """`explain` printed "goes to n1" for a pod that `simulate` left without a node."""
    objects = cluster(pods, nodes)
    waiting = [obj for obj in objects if isinstance(obj, Pod) and not obj.spec.node_name]
    number = data.draw(st.integers(0, len(waiting) - 1))
    run = simulated(objects, policy, seed)
    expected = run.placements[number]
    explanation = explained(objects, waiting[number], policy, seed)
    assert (explanation.pod, explanation.node, explanation.message) == (
        expected.pod,
        expected.node or "",
        expected.message,
    )
    nominated = {obj.pod: (obj.node, list(obj.victims)) for obj in run.preemptions}
    reported = (explanation.nominated_node, sorted(explanation.victims))
    assert reported == nominated.get(explanation.pod, ("", []))
    if expected.node and policy != "rack-gang":
        assert expected.node in explanation.best
        assert explanation.feasible == expected.feasible


def test_pods_ahead_are_counted() -> None:
    """Those of higher priority, and those of the same that came before."""
    objects = cluster([("1", 0, "", False), ("1", 10, "", False), ("1", 0, "", False)], [(4, "a")])
    waiting = [obj for obj in objects if isinstance(obj, Pod) and not obj.spec.node_name]
    for after in (False, True):
        ahead = [explained(objects, obj, after=after).ahead for obj in waiting]
        assert ahead == [1, 0, 2]


@pytest.mark.parametrize("after", [False, True])
def test_a_pod_that_runs_is_explained_as_if_it_had_no_node(after: bool) -> None:
    """It is in no queue unless requested, and may stay on its node."""
    objects = cluster([("2", 10, "", False), ("2", 10, "", False)], [(4, "a")])
    (running,) = (obj for obj in objects if isinstance(obj, Pod) and obj.spec.node_name)
    explanation = explained(objects, running, after=after)
    assert explanation.best == ([] if after else ["n0"])
    assert explanation.ahead == (2 if after else 0)


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
