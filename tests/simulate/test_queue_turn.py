"""A pod explained in its turn: after the queue ahead of it, as simulate decides it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy_sched.explain.explanation import Explanation
from policy_sched.model.meta import ApiObject, ObjectMeta
from policy_sched.model.pod import Pod
from policy_sched.model.pod_group import CoschedulingGroup, CoschedulingSpec
from policy_sched.model.pod_info import PodInfo
from policy_sched.profiles.build.pipeline import CompiledPlan
from policy_sched.scheduler.setup.factory import assemble, read
from policy_sched.simulate.cluster_load import load_cluster
from policy_sched.simulate.one_shot import run_cluster
from policy_sched.simulate.queue_turn import explain_after_queue, explain_now, waiting_with
from policy_sched.simulate.report import Run
from policy_sched.testing import make_node, make_pod

POLICIES = Path(__file__).parents[2] / "policies"
GROUP = "scheduling.x-k8s.io/pod-group"


@cache
def plans(policy: str = "") -> tuple[CompiledPlan, ...]:
    """Return the default profile, perhaps with a policy."""
    return read(None, [str(POLICIES / policy)] if policy else [])[0]


def simulated(objects: Sequence[ApiObject], policy: str, seed: int) -> Run:
    """Return what `simulate` decides."""
    scheduler = assemble(plans(policy), seed=seed, objects=objects)
    return run_cluster(scheduler, load_cluster(scheduler.cache, objects), lambda _more: None)


def explained(
    objects: Sequence[ApiObject], pod: Pod, policy: str = "", seed: int = 0, *, after: bool = True
) -> Explanation:
    """Return what `explain` says of a pod, with --after-queue or without it."""
    scheduler = assemble(plans(policy), seed=seed, objects=objects)
    pods = [one for one in objects if isinstance(one, Pod)]
    pending = load_cluster(scheduler.cache, [one for one in objects if one is not pod])
    infos = waiting_with(pod, pods, pending)
    act = explain_after_queue if after else explain_now
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


@settings(max_examples=60, deadline=None)
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
    """`explain` said "goes to n1" of a pod that `simulate` left without a node."""
    objects = cluster(pods, nodes)
    waiting = [one for one in objects if isinstance(one, Pod) and not one.spec.node_name]
    number = data.draw(st.integers(0, len(waiting) - 1))
    run = simulated(objects, policy, seed)
    expected = run.placements[number]
    found = explained(objects, waiting[number], policy, seed)
    assert (found.pod, found.node, found.message) == (
        expected.pod,
        expected.node or "",
        expected.message,
    )
    nominated = {one.pod: (one.node, list(one.victims)) for one in run.preemptions}
    told = (found.nominated_node, sorted(found.victims))
    assert told == nominated.get(found.pod, ("", []))
    if expected.node and policy != "rack-gang":
        assert expected.node in found.best
        assert found.feasible == expected.feasible


def test_pods_ahead_are_counted() -> None:
    """Those of higher priority, and those of the same that came before."""
    objects = cluster([("1", 0, "", False), ("1", 10, "", False), ("1", 0, "", False)], [(4, "a")])
    waiting = [one for one in objects if isinstance(one, Pod) and not one.spec.node_name]
    for after in (False, True):
        ahead = [explained(objects, one, after=after).ahead for one in waiting]
        assert ahead == [1, 0, 2]


@pytest.mark.parametrize("after", [False, True])
def test_a_pod_that_runs_is_explained_as_if_it_had_no_node(after: bool) -> None:
    """It is in no queue unless that is asked for, and may stay where it is."""
    objects = cluster([("2", 10, "", False), ("2", 10, "", False)], [(4, "a")])
    (running,) = (one for one in objects if isinstance(one, Pod) and one.spec.node_name)
    found = explained(objects, running, after=after)
    assert found.best == ([] if after else ["n0"])
    assert found.ahead == (2 if after else 0)
