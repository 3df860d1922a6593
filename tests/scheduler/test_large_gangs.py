"""What the pods of a large gang cost, in steps of Python instead of seconds."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

from policy_sched.model.pod_group import POD_GROUP_LABEL
from policy_sched.model.pod_info import PodInfo
from policy_sched.scheduler import event_handlers
from policy_sched.scheduler.setup.factory import assemble, read
from policy_sched.testing import FakeClock, make_node, make_pod
from tests.scheduler.pod_groups import GANG, Driven, group, member, pod_group

POLICIES: Final = Path(__file__).parents[2] / "policies"
SMALL: Final = 60
LARGE: Final = 240
NODES: Final = 8


class Steps:
    """Counts the lines that run; each turn of a comprehension is one, too."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, _frame: FrameType, event: str, _argument: object) -> Steps:
        """Count a step; `sys.settrace` takes this."""
        self.count += event == "line"
        return self


def driven(arrange: Callable[[], tuple[Any, ...]], least: int, nodes: int = NODES) -> Driven:
    """Return a scheduler with nodes of one rack, for a gang of which so many pods are needed."""
    clock = FakeClock()
    run = Driven(assemble(arrange(), now=clock, objects=[pod_group(count=least)]), clock)
    for i in range(nodes):
        node = make_node(f"n{i}", cpu="1000", pods=1000, labels={"topology.example.com/rack": "r"})
        event_handlers.node_seen(run.scheduler, node)
    return run


def steps_of(pods: int, least: int, arrange: Callable[[], tuple[Any, ...]], cpu: str = "1") -> int:
    """Decide a gang whose pods request so much, once; return the steps that it takes."""
    run = driven(arrange, least)
    steps = steps_until_all_wait(run, [member(f"p{i:04}", cpu=cpu) for i in range(pods)])
    assert len(run.client.bindings) == (pods if cpu == "1" else 0)
    return steps


def steps_until_all_wait(run: Driven, pods: Iterable[PodInfo]) -> int:
    """Let pods come, and decide them; return the steps that it takes."""
    steps, before = Steps(), sys.gettrace()
    sys.settrace(steps)
    try:
        run.add(*pods)
        while run.scheduler.run_due() or run.scheduler.schedule_one():
            pass
    finally:
        sys.settrace(before)
    return steps.count


def peak(work: Callable[[], object]) -> int:
    """Return how many bytes some work takes at most."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def by_gates() -> tuple[Any, ...]:
    """Return kube-scheduler's own pod group cycle."""
    return read(None, (), feature_gates=GANG)[0]


def by_gang() -> tuple[Any, ...]:
    """Return the policy whose pods wait for each other."""
    return read(None, [str(POLICIES / "gang")])[0]


def by_rack_gang() -> tuple[Any, ...]:
    """Return the policy that decides a group as a whole."""
    return read(None, [str(POLICIES / "rack-gang")])[0]


@pytest.mark.parametrize("needed", [1.0, 0.5], ids=["all", "half"])
@pytest.mark.parametrize("arrange", [by_gates, by_gang, by_rack_gang])
def test_a_pod_of_a_large_gang_costs_no_more(
    arrange: Callable[[], tuple[Any, ...]], needed: float
) -> None:
    """A gang of 2,000 pods took 2 s and one of 10,000 more than 19 s: each pod called all others.

    Four times the pods take four times the steps; one more for each other pod would show.
    """
    small, large = (steps_of(n, int(n * needed), arrange) for n in (SMALL, LARGE))
    assert large < 4.1 * small


class Calls:
    """Counts the calls of PreEnqueue plugins."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        """Count a call; `sys.setprofile` takes this."""
        self.count += event == "call" and frame.f_code.co_name == "pre_enqueue"


@pytest.mark.parametrize("arrange", [by_gates, by_gang, by_rack_gang])
def test_a_gang_that_comes_pod_by_pod_asks_for_few_of_them(
    arrange: Callable[[], tuple[Any, ...]],
) -> None:
    """Each pod that came asked all others of its gang whether they are enough now.

    2,000 pods, one after the other, took 19 s before the last one came.
    """
    clock = FakeClock()
    objects = [pod_group(count=SMALL)]
    run = Driven(assemble(arrange(), now=clock, objects=objects), clock)
    node = make_node("n", cpu="1000", pods=1000, labels={"topology.example.com/rack": "r"})
    event_handlers.node_seen(run.scheduler, node)
    calls, before = Calls(), sys.getprofile()
    sys.setprofile(calls)
    try:
        for i in range(SMALL):
            run.add(member(f"p{i:04}"))
            run.go()
    finally:
        sys.setprofile(before)
    assert len(run.client.bindings) == SMALL
    assert calls.count < 20 * SMALL


@pytest.mark.parametrize("arrange", [by_gates, by_gang, by_rack_gang])
def test_a_pod_of_a_large_gang_that_fits_nowhere_costs_no_more(
    arrange: Callable[[], tuple[Any, ...]],
) -> None:
    """10,000 pods took 15 s: for each one all were looked through for one that has to wait."""
    small, large = (steps_of(n, n, arrange, cpu="2000") for n in (SMALL, LARGE))
    assert large < 4.5 * small


def room_of_one(waiting: int) -> int:
    """Decide a pod of a gang of which others wait; return how many bytes that takes at most."""
    run = driven(by_gang, least=waiting + 2)
    run.add(*[member(f"p{i:04}") for i in range(waiting + 2)])
    for _ in range(waiting):
        run.scheduler.schedule_one()
    assert len(run.scheduler.handle.waiting_pods) == waiting
    return peak(run.scheduler.schedule_one)


def test_pods_that_wait_for_their_gang_are_not_listed_for_each_that_comes() -> None:
    """A gang of 10,000 pods took 44 s and one of 5,000 took 6 s.

    Each time one more pod had a node, those that wait were copied, to look at the first of them.
    """
    few, many = room_of_one(200), room_of_one(2_000)
    assert many < few + 5_000


def test_what_is_known_of_a_member_takes_the_same_room_in_a_large_cluster() -> None:
    """A gang of 10,000 pods on 5,000 nodes took 500 MB: for each pod a score of every node."""
    rooms = []
    for nodes in (NODES, 100 * NODES):
        run = driven(by_gates, SMALL, nodes)
        run.add(*[member(f"p{i:04}") for i in range(SMALL)])
        rooms.append(peak(run.go))
        assert len(run.client.bindings) == SMALL
    small, large = rooms
    assert large < small + 500_000


COSCHEDULING: Final = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {
                "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
                "queueSort": {
                    "enabled": [{"name": "Coscheduling"}],
                    "disabled": [{"name": "PrioritySort"}],
                },
            }
        }
    ],
}


def steps_of_coscheduling(pods: int) -> int:
    """Bind a group of Coscheduling; return the steps that it takes."""
    run = driven(lambda: read(COSCHEDULING, [str(POLICIES / "coscheduling")])[0], 0)
    event_handlers.object_seen(run.scheduler, None, group("large", pods))
    labels = {POD_GROUP_LABEL: "large"}
    members = [make_pod(f"p{i:04}", cpu="1", labels=labels) for i in range(pods)]
    steps = steps_until_all_wait(run, map(PodInfo.of, members))
    assert len(run.client.bindings) == pods
    return steps


def test_a_pod_of_a_large_group_of_coscheduling_costs_no_more() -> None:
    """Each pod that got a node asked all that waited: 25 s for 1,000 pods.

    The rule reads the group's name, by which pods were taken to differ.
    """
    assert steps_of_coscheduling(LARGE) < 4.5 * steps_of_coscheduling(SMALL)


def steps_of_pairs(gangs: int) -> int:
    """Let a pod of each of so many gangs wait, as the other one has no room; return the steps."""
    run = driven(by_gang, 0)
    for i in range(gangs):
        event_handlers.object_seen(run.scheduler, None, pod_group(f"g{i}", count=2))
    large = [member(f"q{i:04}", f"g{i}", cpu="2000") for i in range(gangs)]
    steps = steps_until_all_wait(run, [member(f"p{i:04}", f"g{i}") for i in range(gangs)] + large)
    assert len(run.scheduler.handle.waiting_pods) == gangs
    return steps


def test_a_gang_costs_no_more_where_many_others_wait() -> None:
    """Each event asked all gangs that wait whether they changed: 20 ms where 1,000 do."""
    assert steps_of_pairs(LARGE) < 4.5 * steps_of_pairs(SMALL)
