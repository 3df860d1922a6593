"""Shipped policies over many pods: what is kept of an evaluation is what a fresh one finds."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Final

import pytest

from policy_sched.framework.evaluate import Evaluator
from policy_sched.model import PodInfo
from policy_sched.scheduler.scheduling_cycle import select_host
from policy_sched.scheduler.setup import assemble, read
from policy_sched.testing import make_node, make_pod
from tests.framework.evaluate.test_evaluator import assert_equal

POLICIES: Final = Path(__file__).parents[2] / "policies"
PATHS: Final = [
    path
    for path in sorted(POLICIES.glob("*/policy.yaml"))
    if path.parent.name
    not in (
        "cohorts",
        "coscheduling",
        "dominant-resource-fairness",
        "proportion",
        "qossort",
        "topological-sort",
    )
]
"""The policies that need no configuration: one plugin sorts the queue."""
KINDS: Final = [kind for rare in (2, 3) for kind in (rare, *[0] * 48, rare)]
"""The kinds of pods in order: 48 pods change so many nodes that they are no few rows any more."""
QUIET: Final = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Quiet}
spec:
  score: {expression: "clamp(100 - 5 * node.podCount, 0, 100)"}
"""


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.parent.name)
def test_kept_evaluations_of_shipped_policies(path: Path) -> None:
    """Pods of some kinds come between many of another, which change what was kept for them."""
    compare(str(path))


def test_kept_scores_that_read_no_pod(tmp_path: Path) -> None:
    """A score of the node's pods alone is one column for all pods, which is updated in place."""
    path = tmp_path / "policy.yaml"
    path.write_text(QUIET)
    compare(str(path))


def compare(path: str) -> None:
    """Assert that kept evaluations equal fresh ones while nodes fill up and empty."""
    random = Random(5)
    scheduler = assemble(read(None, [path])[0])
    cache, profile = scheduler.cache, scheduler.profiles["default-scheduler"]
    for i in range(64):
        labels = {
            "topology.kubernetes.io/zone": f"z{i % 3}",
            "example.com/rack": f"r{i % 6}",
            "kubernetes.io/hostname": f"n{i}",
        }
        resources = {"nvidia.com/gpu": "4"} if i % 3 else {}
        cache.add_node(
            make_node(
                f"n{i}", cpu=str(4 + i % 3), memory="16Gi", labels=labels, resources=resources
            )
        )
    fresh = Evaluator(profile.runner, cache.nodes, cached=False)
    running: list[PodInfo] = []
    for number, kind in enumerate(KINDS):
        gpus = {"nvidia.com/gpu": "1"} if kind == 3 else {}
        cpu = f"{250 + 50 * kind}m"
        labels = {"app": f"a{kind}", "tenant": f"t{kind % 2}"}
        pod = PodInfo.of(
            make_pod(f"p{number}", cpu=cpu, memory="512Mi", labels=labels, requests=gpus)
        )
        found = profile.evaluator.evaluate(pod)
        assert_equal(found, fresh.evaluate(pod))
        row = select_host(found, random, pod)
        if row is not None:
            running.append(pod)
            cache.assume(pod, cache.nodes.names[row])
        if running and random.randrange(3) == 0:
            cache.forget(running.pop(random.randrange(len(running))).uid)
