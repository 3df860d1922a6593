"""Caches of nominations and dry runs do not change decisions."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
from hypothesis import example, given, settings, strategies as st

from policy_sched.framework.evaluate.evaluator import Evaluation
from policy_sched.model.pod_info import PodInfo, QueuedPod
from policy_sched.scheduler import attempt
from policy_sched.scheduler.scheduler import Scheduler
from policy_sched.scheduler.scheduling_cycle import decide
from policy_sched.scheduler.setup.factory import assemble
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled
from tests.preemption.clusters import budget_of, one_by_one, plans
from tests.preemption.oracle import OracleBudget

NODES = 4
TERM = {
    "labelSelector": {"matchLabels": {"app": "a"}},
    "topologyKey": "kubernetes.io/hostname",
}
ALONE = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}


@dataclass(frozen=True)
class Wish:
    """A pod without its name: there are only a few kinds, which recur."""

    cpu: str
    priority: int
    port: int
    app: str
    alone: bool

    def pod(self, name: str) -> PodInfo:
        return PodInfo.of(
            make_pod(
                name,
                cpu=self.cpu,
                priority=self.priority,
                labels={"app": self.app},
                host_ports=(self.port,) if self.port else (),
                affinity=ALONE if self.alone else None,
            )
        )


def kinds_of(rng: Random) -> list[Wish]:
    """Return the few kinds of pods of one example, which recur."""
    cpus, ports = ["1", "2", "3", "4"], [0, 0, 0, 80]
    return [
        Wish(
            rng.choice(cpus),
            rng.choice([0, 0, 5, 10]),
            rng.choice(ports),
            rng.choice("ab"),
            alone=rng.random() < 0.1,
        )
        for _ in range(4)
    ]


class Twins:
    """Two schedulers with the same events; one of them caches nothing."""

    def __init__(self) -> None:
        budgets = [budget_of(OracleBudget("b", 1), 0)]
        self.both = [assemble(plans(), objects=budgets, cached=cached) for cached in (True, False)]
        self.running: list[str] = []
        self.nominated: dict[str, Wish] = {}
        for scheduler in self.both:
            for index in range(NODES):
                name = f"n{index}"
                labels = {"kubernetes.io/hostname": name}
                scheduler.cache.add_node(make_node(name, cpu="4", labels=labels))

    def fill(self, wishes: list[Wish]) -> None:
        for number, wish in enumerate(wishes):
            name = f"running-{number}"
            self.running.append(name)
            for scheduler in self.both:
                scheduler.cache.assume(wish.pod(name), f"n{number % NODES}")

    def step(self, name: str, kinds: list[Wish], rng: Random) -> None:
        """Apply one event; mostly a decision of a pod."""
        chance = rng.random()
        enact = rng.random() < 0.7
        if chance < 0.5:
            self.decide(name, rng.choice(kinds), enact=enact)
        elif chance < 0.65 and self.nominated:
            old = rng.choice(list(self.nominated))
            self.decide(old, self.nominated[old], enact=enact)
        elif chance < 0.75:
            self.nominate(name, rng.choice(kinds), f"n{rng.randrange(NODES + 1)}")
        elif chance < 0.8 and self.nominated:
            self.clear(rng.choice(list(self.nominated)))
        elif chance < 0.96 and self.running:
            self.remove(rng.choice(self.running))
        elif chance > 0.98:
            for scheduler in self.both:
                budget = OracleBudget("b", len(self.running) % 3)
                scheduler.handle.objects.put(budget_of(budget, 0))
        elif chance > 0.96:
            self.change_node(f"n{rng.randrange(NODES)}", rng.choice(["3", "4"]))

    def change_node(self, name: str, cpu: str) -> None:
        for scheduler in self.both:
            labels = {"kubernetes.io/hostname": name}
            scheduler.cache.update_node(make_node(name, cpu=cpu, labels=labels))

    def nominate(self, name: str, wish: Wish, node: str) -> None:
        self.nominated[name] = wish
        for scheduler in self.both:
            scheduler.handle.nominator.nominate(wish.pod(name), node)

    def clear(self, name: str) -> None:
        self.nominated.pop(name, None)
        for scheduler in self.both:
            scheduler.handle.nominator.clear(wish_uid(name))

    def remove(self, name: str) -> None:
        self.running.remove(name)
        for scheduler in self.both:
            pod = scheduler.cache.pod(wish_uid(name))
            assert pod is not None
            scheduler.cache.forget(pod.uid)

    def decide(self, name: str, wish: Wish, *, enact: bool) -> None:
        kept, anew = (decision(scheduler, wish.pod(name)) for scheduler in self.both)
        assert_equal(kept, anew)
        if not enact:
            return
        if isinstance(anew, attempt.Preempt):
            for victim in anew.victims:
                self.remove(victim.name)
            self.nominate(name, wish, anew.node)
        elif isinstance(anew, attempt.Bind):
            self.clear(name)
            self.running.append(name)
            for scheduler in self.both:
                scheduler.cache.assume(wish.pod(name), anew.node)


def wish_uid(name: str) -> str:
    return Wish("1", 0, 0, "a", alone=False).pod(name).uid


def decision(scheduler: Scheduler, pod: PodInfo) -> attempt.Decision:
    profile = scheduler.profiles["default-scheduler"]
    return decide(attempt.Attempt(QueuedPod(pod), profile), scheduler.handle.nodes, Random(0))


def assert_equal(kept: attempt.Decision, anew: attempt.Decision) -> None:
    assert type(kept) is type(anew)
    if isinstance(kept, attempt.Bind) and isinstance(anew, attempt.Bind):
        assert_same_evaluation(kept.evaluation, anew.evaluation)
        assert kept.node == anew.node
        return
    assert not isinstance(kept, attempt.Bind)
    assert not isinstance(anew, attempt.Bind)
    assert kept.message == anew.message
    assert kept.diagnosis is not None
    assert anew.diagnosis is not None
    assert kept.diagnosis.statuses == anew.diagnosis.statuses
    if isinstance(kept, attempt.Preempt) and isinstance(anew, attempt.Preempt):
        assert kept.node == anew.node
        assert [pod.name for pod in kept.victims] == [pod.name for pod in anew.victims]


def assert_same_evaluation(kept: Evaluation, anew: Evaluation) -> None:
    np.testing.assert_array_equal(kept.filtering.first, anew.filtering.first)
    assert kept.filtering.statuses() == anew.filtering.statuses()
    assert kept.scoring is not None
    assert anew.scoring is not None
    np.testing.assert_array_equal(kept.scoring.total, anew.scoring.total)


@settings(max_examples=scaled(25), deadline=None)
@given(st.integers(0, 2**32))
@example(70)  # rows of the pod table are reused: they are not in order of arrival
def test_decisions_are_those_of_a_scheduler_that_keeps_nothing(seed: int) -> None:
    """Pods are nominated, bound, evicted and deleted; equal pods recur."""
    rng, twins = Random(seed), Twins()
    for scheduler in twins.both:
        scheduler.handle.random.seed(seed)
    kinds = kinds_of(rng)
    twins.fill([rng.choice(kinds) for _ in range(10)])
    with one_by_one(rng.choice([0, 4])):
        for number in range(60):
            twins.step(f"p{number}", kinds, rng)


def test_a_budget_that_is_used_up_counts_at_once() -> None:
    """Pods went on to evict where the last search had found that no budget breaks."""
    scheduler = assemble(plans(), objects=[budget_of(OracleBudget("a", 1), 0)])
    for index, app in enumerate("ab"):
        scheduler.cache.add_node(make_node(f"n{index}", cpu="1"))
        pod = Wish("1", index, 0, app, alone=False).pod(f"running-{index}")
        scheduler.cache.assume(pod, f"n{index}")

    def node_for(name: str) -> str:
        chosen = decision(scheduler, Wish("1", 5, 0, "c", alone=False).pod(name))
        assert isinstance(chosen, attempt.Preempt)
        return chosen.node

    assert node_for("first") == "n0", "its pod is the least important one"
    scheduler.handle.objects.put(budget_of(OracleBudget("a", 0), 0))
    assert node_for("second") == "n1"


def test_a_nominated_pod_does_not_give_way_to_itself() -> None:
    """Its equal evicts for both of them, before and after it; it evicts for itself alone."""
    scheduler = assemble(plans())
    scheduler.cache.add_node(make_node("n0", cpu="4"))
    for number in range(4):
        running = Wish("1", 0, 0, "a", alone=False).pod(f"running-{number}")
        scheduler.cache.assume(running, "n0")
    wish = Wish("2", 5, 0, "b", alone=False)
    scheduler.handle.nominator.nominate(wish.pod("first"), "n0")

    def victims_of(name: str) -> int:
        chosen = decision(scheduler, wish.pod(name))
        assert isinstance(chosen, attempt.Preempt)
        return len(chosen.victims)

    assert [victims_of(name) for name in ("second", "first", "second")] == [4, 2, 4]
