"""Random small clusters for the search and its oracle, and one unschedulable pod."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from random import Random

import msgspec
import pytest
from hypothesis import strategies as st

from policy_sched import thresholds
from policy_sched.framework.evaluate.nominated_pods import Nominations
from policy_sched.framework.evaluate.views import FEASIBLE
from policy_sched.model.cluster_objects import PodDisruptionBudget
from policy_sched.model.pod_info import PodInfo, QueuedPod
from policy_sched.plugins.rules import bind
from policy_sched.preemption.attempt import PreemptionAttempt
from policy_sched.preemption.rules import PreemptionRules, rules_of
from policy_sched.scheduler.attempt import Attempt, Decision
from policy_sched.scheduler.scheduler import Scheduler
from policy_sched.scheduler.scheduling_cycle import decide
from policy_sched.scheduler.setup.factory import CompiledPlan, assemble, read
from policy_sched.testing import make_node, make_pod
from tests import finite
from tests.preemption.oracle import OracleBudget, OracleNode, OraclePod

PRIORITIES = finite.of(-10, 0, 0, 5, 10, 100)
PODS = finite.fields({
    "priority": PRIORITIES,
    "cpu": finite.of(0, 250, 500, 1000, 2000),
    "start": finite.of(None, 1, 2, 3),
    "app": finite.of("", "a", "b"),
    "ports": finite.of((), (), (80,), (443,)),
}).strategy()  # fmt: skip
PENDING = finite.fields({
    "priority": PRIORITIES,
    "cpu": finite.of(0, 500, 1000, 2000, 3000),
    "ports": finite.of((), (80,), (80, 443)),
}).strategy()  # fmt: skip
NODES = finite.fields({
    "running": finite.of(*range(6)),
    "nominated": finite.of(True, False, False, False),
    "cpu": finite.of(1000, 2000, 3000, 4000),
    "pods": finite.of(2, 4, 8),
}).strategy()  # fmt: skip
BUDGETS = finite.lists(
    finite.fields({
        "app": finite.of("a", "b"),
        "allowed": finite.of(0, 1, 2),
        "disrupted": finite.of((), ("n0-0",), ("n0-1", "n1-0")),
    }).map(lambda found: OracleBudget(**found)),
    3,
).strategy()  # fmt: skip


@dataclass(frozen=True)
class OracleCluster:
    """Nodes, budgets and the pod that is to be placed."""

    nodes: tuple[OracleNode, ...]
    budgets: tuple[OracleBudget, ...]
    pod: OraclePod


@st.composite
def clusters(draw: st.DrawFn, *, nominations: bool = True) -> OracleCluster:
    """Draw a cluster of a few nodes that are rather full."""
    nodes = []
    for index in range(1 + draw(finite.numbers(5))):
        name, facts = f"n{index}", draw(NODES)
        running = [_pod(draw, f"{name}-{k}") for k in range(facts["running"])]
        with_nominated = nominations and facts["nominated"]
        nominated = [_pod(draw, f"{name}-nominated")] if with_nominated else []
        sizes = facts["cpu"], facts["pods"]
        nodes.append(OracleNode(name, *sizes, tuple(running), tuple(nominated)))
    pod = OraclePod("new", **draw(PENDING))
    return OracleCluster(tuple(nodes), tuple(draw(BUDGETS)), pod)


def _pod(draw: st.DrawFn, name: str) -> OraclePod:
    return OraclePod(name, **draw(PODS))


WAYS = finite.of(0, thresholds.LOOP_ROWS).strategy()
"""Up to how many nodes are looked at one by one: small clusters as large ones, or as they are."""


@contextmanager
def one_by_one(most: int) -> Iterator[None]:
    """Look at up to so many nodes one by one, and at more of them at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(thresholds, "LOOP_ROWS", most)
        yield


@cache
def plans() -> tuple[CompiledPlan, ...]:
    """The default profile, compiled once."""
    return read(None, ())[0]


def info_of(pod: OraclePod, node: str = "") -> PodInfo:
    """Return the pod as the scheduler decodes it."""
    start = None if pod.start is None else f"2026-01-01T00:00:{pod.start:02d}Z"
    return PodInfo.of(
        make_pod(
            pod.name,
            requests={"cpu": f"{pod.cpu}m"} if pod.cpu else {},
            host_ports=pod.ports,
            labels={"app": pod.app} if pod.app else {},
            priority=pod.priority,
            started=start,
            node_name=node,
        )
    )


def budget_of(budget: OracleBudget, number: int) -> PodDisruptionBudget:
    """Return the budget as an API object."""
    return msgspec.convert(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": f"budget-{number}", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": budget.app}}},
            "status": {
                "disruptionsAllowed": budget.allowed,
                "disruptedPods": dict.fromkeys(budget.disrupted, "2026-01-01T00:00:00Z"),
            },
        },
        PodDisruptionBudget,
    )


def scheduler_of(cluster: OracleCluster) -> Scheduler:
    """Return a scheduler whose cache holds the cluster."""
    budgets = [budget_of(budget, i) for i, budget in enumerate(cluster.budgets)]
    scheduler = assemble(plans(), objects=budgets)
    for node in cluster.nodes:
        scheduler.cache.add_node(make_node(node.name, cpu=f"{node.cpu}m", pods=node.pods))
        for pod in node.running:
            scheduler.cache.add_pod(info_of(pod, node.name))
        for pod in node.nominated:
            scheduler.handle.nominator.nominate(info_of(pod), node.name)
    return scheduler


def shipped_rules(scheduler: Scheduler) -> PreemptionRules:
    """Return kube-scheduler's parameters from the shipped policy."""
    handle = scheduler.handle
    bound = bind(plans()[0].policies["DefaultPreemption"], handle.nodes, handle.pods).preemption
    assert bound is not None
    return rules_of(bound, handle.pods, handle.now)


def decision_for(scheduler: Scheduler, pod: PodInfo) -> Decision:
    """Decide, with deterministic ties."""
    profile = scheduler.profiles["default-scheduler"]
    return decide(Attempt(QueuedPod(pod), profile), scheduler.handle.nodes, Random(0))


def attempt_of(scheduler: Scheduler, pod: PodInfo) -> PreemptionAttempt | None:
    """Return the input of the search, None if the pod fits."""
    evaluation = scheduler.profiles["default-scheduler"].evaluator.evaluate(pod)
    if evaluation.rejection is not None or (evaluation.filtering.first == FEASIBLE).any():
        return None
    nominations = Nominations(scheduler.cache, scheduler.handle.nominator)
    return PreemptionAttempt(
        pod,
        evaluation.state,
        evaluation.filtering.filter_dry_run,
        scheduler.cache,
        nominations,
        evaluation.filtering.key,
    )
