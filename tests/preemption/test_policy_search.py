"""Searches by rules of policies: in arrays, pod by pod, and node by node they find the same."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from random import Random
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from policy_sched.language.sections import PreemptionChoices
from policy_sched.preemption import dry_runs, search
from policy_sched.preemption.policy_section import BoundPreemption
from policy_sched.preemption.rules import rules_of
from policy_sched.preemption.search import CandidateLimit, Eviction, PreemptionSearch
from policy_sched.scheduler.scheduler import Scheduler
from tests.examples import scaled
from tests.preemption.clusters import (
    OracleCluster,
    attempt_of,
    clusters,
    info_of,
    one_by_one,
    scheduler_of,
)
from tests.preemption.test_policy_section import one_by_one as pod_by_pod, sections

LAST: Final = 'startTime.orValue(timestamp("2262-04-11T00:00:00Z"))'
LOWER: Final = "victim.priority < pod.priority"
SECTIONS: Final[dict[str, dict[str, Any]]] = {
    "labels": {"victim": f'{LOWER} && victim.labels[?"app"].orValue("") != "b"'},
    "a column": {"victim": "victim.hostNetwork"},
    "oldest first": {
        "victim": LOWER,
        "victimOrder": [{"expression": f"victim.{LAST}"}],
        "nodeOrder": [
            {"expression": f"victims.map(v, v.{LAST}).min()", "order": "Descending"},
            {"expression": "victims.size()"},
        ],
    },
    "the pod's own app last": {
        "victim": LOWER,
        "victimOrder": [{"expression": "victim.priority == pod.priority - 5 ? 1 : 0"}],
        "nodeOrder": [{"expression": "pdbViolations", "order": "Descending"}],
    },
    "crowded nodes": {
        "victim": f"{LOWER} && node.podCount > 2",
        "nodeOrder": [{"expression": 'victims.sum(v, v.requests["cpu"].units())'}],
    },
}
LIMITS: Final = [CandidateLimit(100, 100), CandidateLimit(0, 1), CandidateLimit(50, 1)]


@cache
def choices_of(name: str) -> PreemptionChoices:
    found = sections(**SECTIONS[name])
    assert found is not None
    return found[1]


def found(
    scheduler: Scheduler,
    choices: PreemptionChoices,
    cluster: OracleCluster,
    limit: CandidateLimit,
    *,
    alone: bool,
) -> object:
    """Return the node and its victims, or by row why there are none."""
    attempt = attempt_of(scheduler, info_of(cluster.pod))
    if attempt is None:
        return None
    if alone:
        attempt.filter_dry_run.node_by_node, attempt.filter_dry_run.by_state = True, False
    handle = scheduler.handle
    bound = BoundPreemption(choices, handle.nodes, handle.pods)
    rules = rules_of(bound, handle.pods, handle.now)
    searching = PreemptionSearch(scheduler.cache, handle.objects, rules, limit)
    answers: list[object] = []
    rows = np.arange(scheduler.cache.nodes.n)
    for seed in range(2):  # the second one meets what was kept
        answer = searching.search(attempt, rows, Random(seed))
        if isinstance(answer, Eviction):
            answers.append((answer.row, [pod.name for pod in answer.victims]))
        else:
            assert isinstance(answer, Mapping)
            answers.append(dict(answer))
    return answers


@pytest.mark.parametrize("name", SECTIONS)
@settings(max_examples=scaled(40), deadline=None)
@given(clusters(), st.sampled_from(LIMITS))
def test_rules_find_the_same_in_arrays_and_one_by_one(
    name: str, cluster: OracleCluster, limit: CandidateLimit
) -> None:
    """Nodes at once and one after the other, and rules in arrays and pod by pod."""
    choices, scheduler = choices_of(name), scheduler_of(cluster)
    with one_by_one(0):
        together = found(scheduler, choices, cluster, limit, alone=False)
        bare = found(scheduler, pod_by_pod(choices), cluster, limit, alone=False)
    few = found(scheduler, choices, cluster, limit, alone=False)
    alone = found(scheduler, choices, cluster, limit, alone=True)
    assert together == bare == few == alone


@settings(max_examples=scaled(60), deadline=None)
@given(clusters(), st.sampled_from(LIMITS), st.sampled_from([1, 2, 1000]))
def test_looking_ahead_finds_the_same(
    cluster: OracleCluster, limit: CandidateLimit, near: int
) -> None:
    """How many nodes are looked at in one go does not decide which one is chosen."""
    choices, scheduler = choices_of("oldest first"), scheduler_of(cluster)
    with one_by_one(0), pytest.MonkeyPatch.context() as patch:
        ahead = found(scheduler, choices, cluster, limit, alone=False)
        patch.setattr(search, "AHEAD", 1)
        patch.setattr(dry_runs, "NEAR", near)
        assert found(scheduler, choices, cluster, limit, alone=False) == ahead
