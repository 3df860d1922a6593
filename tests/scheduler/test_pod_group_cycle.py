"""A group whose pods go to one place together: which, and what becomes of each pod."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from policy_sched.client.memory import MemoryClient
from policy_sched.client.request import ObjectRequest, ObjectResponse
from policy_sched.errors import ClusterError
from policy_sched.framework.hookspecs import hookimpl
from policy_sched.framework.results import PASSES, PermitResult, Placement, Placements
from policy_sched.framework.status import SKIP, SUCCESS, WAIT, Code, Status
from policy_sched.model import pod_group
from policy_sched.model.meta import Condition, ObjectMeta
from policy_sched.model.pod_info import PodInfo, QueueState
from policy_sched.scheduler import event_handlers
from policy_sched.scheduler.attempt import Bind, Reject
from policy_sched.scheduler.pod_group_cycle import dry_run_group
from policy_sched.scheduler.scheduler import Scheduler
from policy_sched.scheduler.setup.factory import assemble, read
from policy_sched.testing import FakeClock, make_node, make_pod
from tests.examples import scaled
from tests.scheduler.pod_groups import Driven, group
from tests.scheduler.world import client_of, scheduler_of

POLICY = str(Path(__file__).parents[2] / "policies" / "rack-gang")
RACK = "topology.example.com/rack"
PLANS = read(None, [POLICY])[0]
NOWHERE = "0/{} placements are available, first placement status: pod group is unschedulable"


def member(name: str, of: str = "ring", **spec: Any) -> PodInfo:
    """Return a pod of a group; it requests 1 cpu."""
    return PodInfo.of(
        make_pod(**{"name": name, "cpu": "1", "labels": {pod_group.POD_GROUP_LABEL: of}, **spec})
    )


class Run(Driven):
    """A scheduler with the RackGang policy; nodes ``a0``, ``a1``, ... are in rack ``a``."""

    def __init__(
        self,
        *groups: pod_group.CoschedulingGroup | pod_group.PodGroup,
        client: MemoryClient | None = None,
        **racks: Sequence[int],
    ) -> None:
        clock = FakeClock()
        super().__init__(assemble(PLANS, now=clock, objects=groups, client=client), clock)
        for rack, cpus in racks.items():
            for i, cpu in enumerate(cpus):
                self.node(f"{rack}{i}", cpu, rack)

    def node(self, name: str, cpu: int, rack: str) -> None:
        """A node comes, or changes."""
        labels = {RACK: rack} if rack else {}
        event_handlers.node_seen(self.scheduler, make_node(name, cpu=str(cpu), labels=labels))

    def place(self, name: str) -> QueueState:
        """Return where the queue has a pod."""
        queued = self.scheduler.queue.get(f"default/{name}")
        return QueueState.OUT if queued is None else queued.place

    def assert_nothing_held(self) -> None:
        """No node, no plugin and no list remembers an attempt in vain."""
        assert self.scheduler.cache.nodes.pod_total == len(self.bound)
        assert self.scheduler.cache.check() == []
        assert not self.scheduler.queue.in_flight()
        assert len(self.scheduler.handle.waiting_pods) == 0


class TestARackForAll:
    """The domain is chosen with the whole group in view."""

    def test_all_go_where_all_have_room(self) -> None:
        """Not to the rack in which the first of them would have scored best."""
        run = Run(group("ring", 3), a=[2], b=[2, 2], c=[1])
        run.add(member("x"), member("y"), member("z"))
        run.go()
        assert set(run.bound) == {"x", "y", "z"}
        assert {node[0] for node in run.bound.values()} == {"b"}
        run.assert_nothing_held()

    def test_of_several_the_best_rated_is_taken(self) -> None:
        """The score counts the group's pods already: the rack that is the fullest then."""
        run = Run(group("ring", 2), a=[8], b=[3], c=[4])
        run.add(member("x"), member("y"))
        run.go()
        assert set(run.bound.values()) == {"b0"}

    def test_nodes_without_a_rack_are_no_place(self) -> None:
        """However much room they have; a pod of no group goes there all the same."""
        run = Run(group("ring", 2), a=[1])
        run.node("big", 90, "")
        run.add(member("x"), member("y"), PodInfo.of(make_pod("solo", cpu="2")))
        run.go()
        assert run.bound == {"solo": "big"}

    def test_ties_are_broken_at_random(self) -> None:
        """Each of the equal racks is taken now and then."""
        seen = set()
        for seed in range(8):
            run = Run(group("ring", 1), a=[4], b=[4])
            run.scheduler._rng = Random(seed)
            run.add(member("x"))
            run.go()
            seen |= set(run.bound.values())
        assert seen == {"a0", "b0"}

    def test_each_pod_reports_its_own_result(self) -> None:
        """Not what is left when the last one of the group has its node."""
        run = Run(group("ring", 3), a=[1, 1, 1])
        run.add(member("x"), member("y"), member("z"))
        counts = []
        first = run.scheduler.schedule_one()
        assert first is not None
        for outcome in (first, *first.others):
            assert isinstance(outcome.decision, Bind)
            evaluation = outcome.decision.evaluation
            counts.append(evaluation.filtering.feasible_rows().size)
            assert evaluation.scoring is not None
            shares = evaluation.scoring.weighted(np.array([outcome.decision.row], np.intp))
            total = evaluation.scoring.total.item(outcome.decision.row)
            assert sum(share[0] for share in shares.values()) == total
        assert counts == [3, 2, 1]

    def test_a_pod_that_comes_later_joins_the_others(self) -> None:
        """Even if another rack would be rated higher for it alone."""
        run = Run(group("ring", 2), a=[2, 8], b=[8])
        run.add(member("x"), member("y"))
        run.go()
        rack = next(iter(run.bound.values()))[0]
        other = "b" if rack == "a" else "a"
        run.scheduler.cache.add_pod(
            PodInfo.of(make_pod("filler", cpu="5", node_name=f"{other}0" if other == "b" else "a1"))
        )
        run.add(member("late"))
        run.go()
        assert run.bound["late"][0] == rack

    def test_the_groups_own_label_counts(self) -> None:
        """A PodGroup of the workload API may name the label whose value its nodes share."""
        spec = pod_group.PodGroupSpec(
            scheduling_policy=pod_group.GroupPolicy(gang=pod_group.GangPolicy(min_count=2)),
            scheduling_constraints=pod_group.SchedulingConstraints(
                topology=(pod_group.TopologyConstraint(key="row"),)
            ),
        )
        own = pod_group.PodGroup(metadata=ObjectMeta(name="ring", namespace="default"), spec=spec)
        run = Run(own)
        for name, row in (("n1", "1"), ("n2", "2"), ("n3", "2")):
            node = make_node(name, cpu="1", labels={RACK: "same", "row": row})
            event_handlers.node_seen(run.scheduler, node)
        run.add(member("x"), member("y"))
        run.go()
        assert set(run.bound.values()) == {"n2", "n3"}


class TestNoRackForAll:
    """All members go back, and nothing is held in the meantime."""

    def test_every_member_has_a_reason(self) -> None:
        """The pod that does not fit in the first domain reports it; the others report the group."""
        run = Run(group("ring", 3), a=[2], b=[1])
        run.add(member("x"), member("y"), member("z"))
        outcomes = run.go()
        assert [outcome.pod.name for outcome in outcomes] == ["x", "y", "z"]
        assert all(outcome.status.code is Code.UNSCHEDULABLE for outcome in outcomes)
        assert run.message("x") == run.message("y") == NOWHERE.format(2)
        assert run.message("z") == "0/1 nodes are available: 1 Insufficient cpu."
        assert {run.place(name) for name in "xyz"} == {QueueState.UNSCHEDULABLE}
        run.assert_nothing_held()
        assert run.scheduler.next_wakeup() is not None

    def test_no_node_is_in_a_domain(self) -> None:
        """Then there is no placement at all, which a label ends."""
        run = Run(group("ring", 1), a=[])
        run.node("n", 4, "")
        run.add(member("x"))
        run.go()
        assert run.message("x") == "no feasible placements found"
        run.node("n", 4, "a")
        run.clock.advance(10)
        run.go()
        assert run.bound == {"x": "n"}

    def test_room_brings_all_of_them_back(self) -> None:
        """One is woken, and takes the others along, out of backoff or the pool."""
        run = Run(group("ring", 3), a=[2], b=[1])
        run.add(member("x"), member("y"), member("z"))
        run.go()
        run.node("a1", 1, "a")
        run.clock.advance(10)
        run.go()
        assert {node[0] for node in run.bound.values()} == {"a"}
        assert set(run.bound) == {"x", "y", "z"}
        run.assert_nothing_held()

    def test_more_pods_than_needed(self) -> None:
        """The group needs its minimum; pods beyond it that do not fit wait."""
        run = Run(group("ring", 2), a=[2])
        run.add(member("x"), member("y"), member("z"))
        run.go()
        assert set(run.bound) == {"x", "y"}
        assert run.message("z") == "0/1 nodes are available: 1 Insufficient cpu."
        assert run.place("z") is QueueState.UNSCHEDULABLE
        run.node("a1", 1, "a")
        run.clock.advance(10)
        run.go()
        assert run.bound["z"] == "a1"

    def test_pods_that_wait_already_are_left_alone_by_a_rehearsal(self) -> None:
        """Trying a sibling out does not send back those that wait for permission."""
        run = Run(group("ring", 2), a=[4])
        run.add(member("x"), member("y"))
        run.go()
        plan = dry_run_group(
            member("z"), run.scheduler.profiles["default-scheduler"], run.scheduler.handle
        )
        assert plan is not None
        assert plan.best is not None
        assert plan.best.name == "a"
        run.assert_nothing_held()


def workload(name: str, count: int, *conditions: Condition) -> pod_group.PodGroup:
    """Return a pod group of the workload API."""
    spec = pod_group.PodGroupSpec(
        scheduling_policy=pod_group.GroupPolicy(gang=pod_group.GangPolicy(min_count=count))
    )
    status = pod_group.PodGroupStatus(conditions=conditions)
    meta = ObjectMeta(name=name, namespace="default", uid=f"uid-of-{name}")
    return pod_group.PodGroup(metadata=meta, spec=spec, status=status)


class TestTheGroupsCondition:
    """A PodGroup of the workload API is told what became of its pods."""

    @staticmethod
    def told(run: Run) -> dict[str, tuple[str, str]]:
        """Let two pods be tried; return what was said of groups."""
        run.add(member("x"), member("y"))
        run.go()
        return run.client.group_conditions

    def test_a_group_whose_pods_have_nodes_is_scheduled(self) -> None:
        """When its pods have nodes, bound or not yet."""
        assert self.told(Run(workload("ring", 2), a=[2])) == {"default/ring": ("Scheduled", "")}

    def test_an_unschedulable_group_has_words_for_the_whole(self) -> None:
        """With the words for the group as a whole."""
        found = self.told(Run(workload("ring", 2), a=[1]))
        assert found == {"default/ring": ("Unschedulable", NOWHERE.format(1))}

    def test_an_error_of_one_pod_is_the_groups(self) -> None:
        """An error of one pod is the group's."""
        scheduler = placing(
            Racks(reserve=Status(Code.ERROR, ("no disk",))), group=workload("ring", 1)
        )
        scheduler.schedule_one()
        reason, message = client_of(scheduler).group_conditions["default/ring"]
        assert reason == "SchedulerError"
        assert message.startswith("failed to schedule other pod from a pod group: ")

    def test_what_stands_there_is_not_written_again(self) -> None:
        """Nor is a group that was scheduled once unscheduled by what becomes of later pods."""
        no = Condition(
            type=pod_group.SCHEDULED,
            status="False",
            reason="Unschedulable",
            message=NOWHERE.format(1),
        )
        assert self.told(Run(workload("ring", 2, no), a=[1])) == {}
        assert self.told(Run(workload("ring", 2, no), a=[2])) != {}
        yes = Condition(type=pod_group.SCHEDULED, status="True", reason="Scheduled")
        assert self.told(Run(workload("ring", 2, yes), a=[1])) == {}

    def test_the_coscheduling_plugins_group_has_no_such_condition(self) -> None:
        """Its status is another one."""
        assert self.told(Run(group("ring", 2), a=[2])) == {}

    def test_a_cluster_that_refuses(self) -> None:
        """The pods are bound all the same."""

        class Refusing(MemoryClient):
            def send(self, request: ObjectRequest, done: ObjectResponse | None = None) -> None:
                raise ClusterError("no such resource")

        run = Run(workload("ring", 2), a=[2], client=Refusing())
        self.told(run)
        assert set(run.bound) == {"x", "y"}

    def test_its_status_requeues_no_pod(self) -> None:
        """A group whose condition was written is not tried again for that."""
        run = Run(workload("ring", 2), a=[1])
        self.told(run)
        no = Condition(type=pod_group.SCHEDULED, status="False")
        event_handlers.object_seen(run.scheduler, workload("ring", 2), workload("ring", 2, no))
        assert {run.place(name) for name in "xy"} == {QueueState.UNSCHEDULABLE}
        event_handlers.object_seen(run.scheduler, workload("ring", 2), workload("ring", 1))
        assert QueueState.UNSCHEDULABLE not in {run.place(name) for name in "xy"}


class TestErrors:
    """What breaks for one ends the attempt of all, and all back off."""

    def test_profiles_that_differ(self) -> None:
        """Pods of one group have one schedulerName, as kube-scheduler wants it."""
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [
                {
                    "schedulerName": name,
                    "plugins": {"multiPoint": {"enabled": [{"name": "RackGang"}]}},
                }
                for name in ("one", "two")
            ],
        }
        plans, _ = read(config, [POLICY])
        scheduler = assemble(plans, objects=[group("ring", 2)])
        scheduler.cache.add_node(make_node("n", labels={RACK: "a"}))
        for priority, name in enumerate(("two", "one")):
            scheduler.add_pod(member(name, scheduler_name=name, priority=priority))
        scheduler.run_due()
        first = scheduler.schedule_one()
        assert first is not None
        words = (
            "all pods in a single pod group should have the same .spec.schedulerName set, "
            'got: "one" and "two"'
        )
        assert [outcome.message for outcome in (first, *first.others)] == [words, words]

    @pytest.mark.parametrize(
        ("answers", "words"),
        [
            ({"reserve": Status(Code.ERROR, ("no disk",))}, "no disk"),
            ({"permit": PermitResult(Status(Code.ERROR, ("no law",)))}, "no law"),
            ({"filter": ValueError("no idea")}, 'running "x0" filter plugin: no idea'),
        ],
    )
    def test_the_pod_that_fails_says_what_and_the_others_that_it_did(
        self, answers: dict[str, object], words: str
    ) -> None:
        """It says what; the others say that it was another one."""
        scheduler = placing(Racks(**answers))
        first = scheduler.schedule_one()
        assert first is not None
        messages = [outcome.message for outcome in (first, *first.others)]
        assert words in messages[0]
        assert messages[1] == f"failed to schedule other pod from a pod group: {messages[0]}"
        places = {queued.place for queued in scheduler.queue.backoff()}
        assert places == {QueueState.BACKOFF}
        assert scheduler.cache.nodes.pod_total == 0

    def test_a_generator_that_breaks(self) -> None:
        """The group's error is told by each of its pods."""
        scheduler = placing(Racks(generate=ValueError("no map")))
        first = scheduler.schedule_one()
        assert first is not None
        words = 'running PlacementGenerate plugin "x0": no map'
        assert [outcome.message for outcome in (first, *first.others)] == [words, words]
        refused = placing(Racks(generate=Placements({}, Status(Code.UNSCHEDULABLE, ("later",)))))
        outcome = refused.schedule_one()
        assert outcome is not None
        assert outcome.message == 'running PlacementGenerate plugin "x0": later'

    def test_rows_that_do_not_exist(self) -> None:
        """A plugin that names them breaks the attempt, not the scheduler."""
        outcome = placing(Racks(racks=7)).schedule_one()
        assert outcome is not None
        words = 'running PlacementGenerate plugin "x0": domain "r2" has rows that are none of the 2'
        assert outcome.message == words

    @pytest.mark.parametrize("score", [101, -1, ValueError("no scale")])
    def test_a_score_that_is_none(self, score: object) -> None:
        """It matters only where there is a choice."""
        outcome = placing(Racks(score=score)).schedule_one()
        assert outcome is not None
        assert "plugin" in outcome.message
        assert not outcome.node
        alone = placing(Racks(score=score, racks=1), nodes=1).schedule_one()
        assert alone is not None
        assert alone.node == "n0"


class Racks:
    """A third party's plugin: a rack for each node; answers as told, an exception is raised."""

    def __init__(self, **answers: object) -> None:
        self._answers = answers

    def _answer(self, point: str, default: object) -> Any:
        answer = self._answers.get(point, default)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @hookimpl
    def filter(self) -> Any:
        return self._answer("filter", PASSES)

    @hookimpl
    def reserve(self) -> Any:
        return self._answer("reserve", SUCCESS)

    @hookimpl
    def permit(self) -> Any:
        return self._answer("permit", PermitResult())

    @hookimpl
    def placement_generate(self) -> Any:
        count = self._answer("racks", 2)
        found = {f"r{row}": np.array([row], np.intp) for row in range(count)}
        return self._answer("generate", Placements(found))

    @hookimpl
    def placement_score(self, placement: Placement) -> Any:
        return self._answer("score", 10 * int(placement.rows[0]))


def placing(*plugins: object, nodes: int = 2, group: pod_group.PodGroup | None = None) -> Scheduler:
    """Return a scheduler with two pods of a group in its queue."""
    scheduler = scheduler_of(*plugins, nodes=nodes)
    if group is not None:
        scheduler.handle.objects.put(group)
    for name in ("p", "q"):
        scheduler.add_pod(member(name))
    scheduler.run_due()
    return scheduler


class TestThirdParties:
    """Python plugins part and rate, too."""

    def test_the_domain_with_the_highest_sum_is_taken(self) -> None:
        """The domain with the highest sum is taken."""
        assert {placing(Racks()).schedule_one().node for _ in range(3)} == {"n1"}  # type: ignore[union-attr]  # there is one

    def test_a_domain_is_what_all_plugins_leave(self) -> None:
        """Where several part the nodes, one of each has to agree."""

        class Last:
            @hookimpl
            def placement_generate(self) -> Placements:
                return Placements({"odd": np.array([0], np.intp)})

        outcome = placing(Racks(), Last()).schedule_one()
        assert outcome is not None
        assert outcome.node == "n0"

    def test_a_plugin_that_skips_does_not_reject(self) -> None:
        """If all do, each pod goes by itself."""
        scheduler = placing(Racks(generate=Placements(status=SKIP)))
        assert scheduler.schedule_one() is not None
        assert not scheduler.queue.in_flight()
        assert len(scheduler.queue.active()) == 1

    def test_a_pod_that_is_not_permitted(self) -> None:
        """A rejection speaks of one node, as everywhere; waiting alone makes no gang."""
        no = placing(Racks(permit=PermitResult(Status(Code.UNSCHEDULABLE, ("no",)))))
        outcome = no.schedule_one()
        assert outcome is not None
        assert outcome.message == "0/1 nodes are available: 1 no."
        waits = placing(Racks(permit=PermitResult(WAIT, 10.0))).schedule_one()
        assert waits is not None
        assert waits.message == NOWHERE.format(2)

    def test_what_a_reservation_takes_is_given_back(self) -> None:
        """Each rehearsal undoes its own, in reverse."""
        log: list[str] = []

        class Books(Racks):
            @hookimpl
            def reserve(self, pod: PodInfo, node: str) -> Status:  # type: ignore[override]  # hooks take what they need
                log.append(f"+{pod.name}{node}")
                return SUCCESS

            @hookimpl
            def unreserve(self, pod: PodInfo, node: str) -> None:
                log.append(f"-{pod.name}{node}")

        scheduler = placing(Books(racks=1), nodes=1)
        scheduler.schedule_one()
        scheduler.schedule_one()
        assert log == ["+pn0", "+qn0", "-qn0", "-pn0", "+pn0", "+qn0"]


@settings(max_examples=scaled(40), deadline=None)
@given(
    racks=st.lists(st.lists(st.integers(1, 4), max_size=3), min_size=1, max_size=4),
    pods=st.lists(st.integers(1, 3), min_size=1, max_size=5),
    needed=st.integers(1, 5),
)
def test_all_or_nothing_in_one_rack(racks: list[list[int]], pods: list[int], needed: int) -> None:
    """At least the minimum is bound, all in one rack, or none; and nothing stays assumed."""
    run = Run(group("ring", needed))
    for i, cpus in enumerate(racks):
        for j, cpu in enumerate(cpus):
            run.node(f"r{i}{j}", cpu, f"r{i}")
    run.add(*(member(f"p{i}", cpu=str(cpu)) for i, cpu in enumerate(pods)))
    run.go()
    bound = run.bound
    assert not bound or len(bound) >= needed
    assert len({node[:2] for node in bound.values()}) <= 1
    run.assert_nothing_held()
    if not bound and len(pods) >= needed and needed == 1:
        assert all(min(pods) > cpu for cpus in racks for cpu in cpus)


def test_pods_that_are_alike_share_their_rejection() -> None:
    """A gang of 10,000 pods took 3.4 s: the same reasons were counted for each pod in each rack."""
    run = Run(group("ring", 3), a=[1, 1], b=[1])
    run.add(
        *(member(name, cpu=cpu) for name, cpu in (("p", "2"), ("q", "2"), ("r", "1"), ("s", "2")))
    )
    queued = run.scheduler.queue.get("default/p")
    assert queued is not None
    plan = dry_run_group(
        queued.info, run.scheduler.profiles["default-scheduler"], run.scheduler.handle
    )
    assert plan is not None
    for one in plan.tried:
        first, second, bound, last = (member.decision for member in one.members)
        assert first is second
        assert not isinstance(bound, Reject)
        assert isinstance(first, Reject)
        assert isinstance(last, Reject)
        assert last is not first, "a pod was assumed in between"
        assert last.message == first.message
