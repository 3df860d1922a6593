"""Dry runs of many nodes at once equal those of single nodes, with filters on other nodes."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings, strategies as st

from policy_sched.framework.evaluate import nominated_pods
from policy_sched.framework.status import Status
from policy_sched.model.pod_info import PodInfo
from policy_sched.preemption.attempt import PreemptionAttempt
from policy_sched.preemption.search import CandidateLimit, Eviction, PreemptionSearch
from policy_sched.scheduler.scheduler import Scheduler
from policy_sched.scheduler.setup.factory import assemble
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled
from tests.preemption.clusters import one_by_one, plans, shipped_rules

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
ALL = CandidateLimit(100, 100)


def selector(app: str) -> dict[str, object]:
    return {"matchLabels": {"app": app}}


def pod_of(rng: Random, name: str, priority: int, node: str = "") -> PodInfo:
    """Return a pod whose filters may read the pods around it."""
    spec: dict[str, object] = {}
    if rng.random() < 0.4:
        kind = rng.choice(["podAffinity", "podAntiAffinity"])
        term = {
            "labelSelector": selector(rng.choice("abc")),
            "topologyKey": rng.choice([HOST, ZONE]),
        }
        spec["affinity"] = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    if rng.random() < 0.4:
        spec["topology_spread_constraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": rng.choice([HOST, ZONE]),
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector(rng.choice("abc")),
            }
        ]
    pod = make_pod(
        name,
        cpu=rng.choice(["500m", "1", "2"]),
        labels={"app": rng.choice("abc")},
        priority=priority,
        node_name=node,
        **spec,
    )
    return PodInfo.of(pod)


def world(rng: Random, nodes: int = 4) -> Scheduler:
    """Return nodes of two zones, running pods, and pods that are nominated."""
    scheduler = assemble(plans(), cached=False)
    for i in range(nodes):
        labels = {HOST: f"n{i}", ZONE: f"z{i % 2}"}
        scheduler.cache.add_node(make_node(f"n{i}", cpu="3", labels=labels))
        for k in range(rng.randrange(4)):
            scheduler.cache.add_pod(pod_of(rng, f"p{i}-{k}", rng.choice([0, 0, 20]), f"n{i}"))
        if rng.random() < 0.4:
            nominated = pod_of(rng, f"nominated-{i}", rng.choice([5, 20]))
            scheduler.handle.nominator.nominate(nominated, f"n{i}")
    return scheduler


def messages(scheduler: Scheduler, attempt: PreemptionAttempt) -> dict[int, object]:
    """Return by row the victims, or why there are none."""
    rules = shipped_rules(scheduler)
    search = PreemptionSearch(scheduler.cache, scheduler.handle.objects, rules, ALL)
    rows = list(range(scheduler.cache.nodes.n))
    found = search.dry_run(attempt, scheduler.cache.nodes.live.values[: len(rows)].nonzero()[0])
    answers: dict[int, object] = dict(found.rejections)
    for place, row in enumerate(found.candidates.rows.tolist()):
        answers[row] = sorted(found.candidates.victims_at(place))
    return answers


@settings(max_examples=scaled(150), deadline=None)
@given(st.integers(0, 2**32))
def test_together_is_as_one_after_the_other(seed: int) -> None:
    """Victims, reasons, and capacity beside nominated pods are the same in both ways."""
    rng = Random(seed)
    scheduler = world(rng)
    attempt = attempt_of(scheduler, pod_of(rng, "new", 10))
    if attempt is not None:
        with one_by_one(rng.choice([0, 4])):
            assert_alike(scheduler, attempt)


def attempt_of(scheduler: Scheduler, pod: PodInfo) -> PreemptionAttempt | None:
    """Return the attempt to evict for a pod; None if PreFilter rejects it."""
    evaluation = scheduler.profiles["default-scheduler"].evaluator.evaluate(pod)
    if evaluation.rejection is not None:
        return None
    filter_dry_run, nominations = (
        evaluation.filtering.filter_dry_run,
        nominated_pods.Nominations(scheduler.cache, scheduler.handle.nominator),
    )
    key = evaluation.filtering.key
    return PreemptionAttempt(
        pod, evaluation.state, filter_dry_run, scheduler.cache, nominations, key
    )


@settings(max_examples=scaled(150), deadline=None)
@given(st.integers(0, 2**32))
def test_a_few_candidates_are_as_those_found_one_after_the_other(seed: int) -> None:
    """Where few are enough, nodes are looked at in blocks, and later ones leave earlier ones."""
    rng = Random(seed)
    scheduler = world(rng, nodes=16)
    attempt = attempt_of(scheduler, pod_of(rng, "new", 10))
    if attempt is None:
        return
    limit, rules = CandidateLimit(1, rng.randrange(2, 9)), shipped_rules(scheduler)
    found = []
    for by_state in (attempt.filter_dry_run.by_state, False):
        attempt.filter_dry_run.by_state = by_state
        search = PreemptionSearch(scheduler.cache, scheduler.handle.objects, rules, limit)
        with one_by_one(0):
            eviction = search.search(attempt, np.arange(16), Random(seed))
        found.append(eviction if isinstance(eviction, Eviction | Status) else dict(eviction))
    assert found[0] == found[1]


def assert_alike(scheduler: Scheduler, attempt: PreemptionAttempt) -> None:
    pod, filter_dry_run, nominations = attempt.pod, attempt.filter_dry_run, attempt.nominations
    nominated = nominations.nominated_pods_on(pod, range(4))
    answers: list[tuple[dict[int, object], dict[int, tuple[int, Status]]]] = []
    for by_state in (filter_dry_run.by_state, False):
        filter_dry_run.by_state = by_state
        room = filter_dry_run.rejections_with(
            scheduler.cache.overlay, attempt.state, pod, nominated
        )
        answers.append((messages(scheduler, attempt), room))
    assert answers[0] == answers[1]
