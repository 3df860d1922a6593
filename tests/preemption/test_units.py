"""Victims by units: gangs give what they can spare, and then all they have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from policy_sched.framework import DeadlineExceeded
from policy_sched.model import PodGroup, PodInfo
from policy_sched.preemption.policy_section import BoundPreemption
from policy_sched.preemption.rules import rules_of
from policy_sched.preemption.search import CandidateLimit, PreemptionSearch
from policy_sched.scheduler.scheduler import Scheduler
from policy_sched.scheduler.setup.factory import assemble
from policy_sched.testing import make_node, make_pod
from tests import finite
from tests.examples import scaled
from tests.preemption.clusters import attempt_of, budget_of, plans
from tests.preemption.oracle import OracleBudget
from tests.preemption.test_policy_section import sections

GANG = "podGroup.scheduled <= podGroup.minCount ? podGroup.name : pod.uid"
BARE = 'podGroup.scheduled <= podGroup.minCount ? podGroup.name : ""'
APP = 'pod.labels[?"app"].orValue("")'
VICTIM = "victim.priority < pod.priority"
MIN = {"g": 2, "h": 3, "": 0}
CPU = 4000


@dataclass(frozen=True)
class Running:
    """A pod on a node; ``group`` and ``app`` may be empty."""

    name: str
    node: int
    cpu: int
    priority: int
    group: str
    app: str


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Running], int, list[OracleBudget]]:
    """Draw the pods of some nodes, how much cpu the new pod needs, and budgets."""
    pods: list[Running] = []
    for node in range(1 + draw(finite.numbers(3))):
        for number in range(draw(finite.numbers(5))):
            cpu = draw(st.sampled_from([500, 1000, 1500]))
            if sum(pod.cpu for pod in pods if pod.node == node) + cpu <= CPU:
                pods.append(
                    Running(
                        f"n{node}-{number}",
                        node,
                        cpu,
                        draw(st.sampled_from([0, 1, 2, 2, 20])),
                        draw(st.sampled_from(["", "g", "g", "h"])),
                        draw(st.sampled_from(["", "a", "b"])),
                    )
                )
    budgets = draw(st.lists(st.builds(OracleBudget, st.sampled_from("ab"), st.just(1)), max_size=2))
    return pods, draw(st.sampled_from([1000, 2000, 3500])), budgets


def info_of(pod: Running) -> PodInfo:
    """Return the pod as the scheduler decodes it."""
    return PodInfo.of(
        make_pod(
            pod.name,
            uid=pod.name,
            requests={"cpu": f"{pod.cpu}m"},
            labels={"app": pod.app} if pod.app else {},
            priority=pod.priority,
            started="2026-01-01T00:00:00Z",
            node_name=f"n{pod.node}",
            scheduling_group={"podGroupName": pod.group} if pod.group else None,
        )
    )


def manifest(name: str) -> dict[str, Any]:
    """Return a gang."""
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": MIN[name]}}},
    }


def scheduler_with(pods: Sequence[Running], budgets: Sequence[OracleBudget]) -> Scheduler:
    """Return a scheduler whose nodes have the pods."""
    objects: list[object] = [budget_of(budget, i) for i, budget in enumerate(budgets)]
    objects += [msgspec.convert(manifest(name), PodGroup) for name in ("g", "h")]
    scheduler = assemble(plans(), objects=objects)
    for node in range(1 + max((pod.node for pod in pods), default=0)):
        scheduler.cache.add_node(make_node(f"n{node}", cpu=f"{CPU}m", pods=20))
    for pod in pods:
        scheduler.cache.add_pod(info_of(pod))
    return scheduler


def search_of(scheduler: Scheduler, unit: str) -> PreemptionSearch:
    """Return the search of a policy that has only the rule of units."""
    order = [{"expression": "victim.priority", "order": "Descending"}]
    found, handle = sections(victim=VICTIM, victimOrder=order, unit=unit), scheduler.handle
    assert found is not None, unit
    rules = rules_of(BoundPreemption(found[1], handle.nodes, handle.pods), handle.pods, handle.now)
    limit = CandidateLimit(100, 100)
    return PreemptionSearch(scheduler.cache, handle.objects, rules, limit, (), handle)


def expected(
    pods: Sequence[Running], node: int, cpu: int, budgets: Sequence[OracleBudget], unit: str
) -> tuple[list[str], int] | None:
    """Return the victims that make room on a node, and how many break a budget, by hand."""
    order = sorted(pods, key=lambda pod: -pod.priority)  # sorted is stable: else in order of names
    taken: list[tuple[list[Running], list[int]]] = []
    gone: dict[Running, int] = {}
    for pod in [pod for pod in reversed(order) if pod.node == node]:
        if pod in gone:
            continue
        together, needed = [pod], []
        if unit == APP and pod.app:
            together = [o for o in order if o.app == pod.app and o.group == pod.group]
        group = [other for other in order if other.group == pod.group]
        left = [other for other in group if other not in gone]
        if unit in (GANG, BARE) and pod.group and len(left) <= MIN[pod.group]:
            together = left
            needed = [gone[other] for other in group if other in gone]
        if unit == APP:
            together = [other for other in together if other not in gone]
        if all(other.priority < 10 for other in together):
            for earlier in needed:
                taken[earlier][1].append(len(taken))
            gone |= dict.fromkeys(together, len(taken))
            taken.append((together, []))
    used = sum(pod.cpu for pod in pods if pod.node == node and pod not in gone)
    if not taken or used + cpu > CPU:
        return None
    every = [pod for pod in order if pod in gone]
    breaking = [
        pod
        for i, pod in enumerate(every)
        if any(pod.app == b.app and sum(p.app == b.app for p in every[: i + 1]) > b.allowed
               for b in budgets)
    ]  # fmt: skip
    reprieve = sorted(
        range(len(taken)),
        key=lambda n: (
            not any(pod in breaking for pod in taken[n][0]),
            min(every.index(pod) for pod in taken[n][0]),
        ),
    )
    decided: dict[int, bool] = {}
    while len(decided) < len(taken):
        number = next(
            n for n in reprieve if n not in decided and all(m in decided for m in taken[n][1])
        )
        unit_pods, needs = taken[number]
        more = sum(pod.cpu for pod in unit_pods if pod.node == node)
        decided[number] = all(decided[n] for n in needs) and used + more + cpu <= CPU
        used += more * decided[number]
    victims = [pod for pod in every if not decided[gone[pod]]]
    return [pod.name for pod in victims], sum(pod in breaking for pod in victims)


@pytest.mark.parametrize("unit", [GANG, BARE, APP, '""', "pod.uid"])
@settings(max_examples=scaled(120), deadline=None)
@given(clusters())
def test_victims_are_those_of_a_plain_model(
    unit: str, cluster: tuple[list[Running], int, list[OracleBudget]]
) -> None:
    """Units over several nodes, budgets, and gangs that have pods to spare: taken and reprieved."""
    pods, cpu, budgets = cluster
    scheduler = scheduler_with(pods, budgets)
    new = PodInfo.of(make_pod("new", requests={"cpu": f"{cpu}m"}, priority=10))
    attempt = attempt_of(scheduler, new)
    if attempt is None:
        return
    rows = np.arange(scheduler.cache.nodes.n)
    found = search_of(scheduler, unit).dry_run(attempt, rows).candidates
    infos = scheduler.cache.pods.infos
    victims = {
        row: ([info.name for r in found.victims_at(place) if (info := infos[r])], broken)
        for place, (row, broken) in enumerate(
            zip(found.rows.tolist(), found.violations.tolist(), strict=True)
        )
    }
    by_hand = {row: expected(pods, row, cpu, budgets, unit) for row in rows.tolist()}
    assert victims == {row: answer for row, answer in by_hand.items() if answer}


def test_a_large_unit_is_paid_for() -> None:
    """Gangs of thousands of pods on hundreds of nodes kept a scheduler busy for minutes."""
    pods = [Running(f"p{i}", i % 20, 100, 0, "h", "") for i in range(200)]
    scheduler = scheduler_with(pods, [])
    new = PodInfo.of(make_pod("new", requests={"cpu": "4"}, priority=10))
    attempt = attempt_of(scheduler, new)
    assert attempt is not None
    scheduler.handle.budget.units = 500
    with pytest.raises(DeadlineExceeded):
        search_of(scheduler, "podGroup.name").dry_run(attempt, np.arange(20))
