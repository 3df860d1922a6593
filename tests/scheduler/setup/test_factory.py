"""Assembly: all problems of files are reported, and valid files make one scheduler."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.errors import PolicyError
from policy_sched.model.pod_info import PodInfo
from policy_sched.scheduler.setup import factory
from policy_sched.testing import make_node, make_pod

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint: {enabled: [{name: %s, weight: 2}]}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: %s}}
"""
POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Likes}
spec:
  score: {expression: 'node.name == "n1" ? 100 : 0'}
"""


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_all_problems_of_a_configuration_are_reported_at_once(tmp_path: Path) -> None:
    """A wrong argument does not hide an unknown plugin."""
    config = write(tmp_path, "config.yaml", CONFIG % ("Liks", "Leest"))
    policy = write(tmp_path, "policy.yaml", POLICY)
    with pytest.raises(PolicyError) as caught:
        factory.read(config, [policy])
    assert [(d.line, d.code) for d in caught.value.diagnostics] == [(6, "PS705"), (9, "PS707")]


def test_a_policy_without_a_configuration_is_enabled(tmp_path: Path) -> None:
    """Every policy that is given takes part with weight 1, after the default plugins."""
    policy = write(tmp_path, "policy.yaml", POLICY)
    (plan,), _ = factory.read(None, [policy])
    assert plan.plan.points["score"][-1][0] == "Likes"


def test_one_configuration_decides_alike_with_and_without_shared_evaluations(
    tmp_path: Path,
) -> None:
    """A hundred pods land on the same nodes, whether evaluations are cached or not."""
    config = write(tmp_path, "config.yaml", CONFIG % ("Likes", "MostAllocated"))
    policy = write(tmp_path, "policy.yaml", POLICY)
    plans, _ = factory.read(config, [policy])

    def places(*, cached: bool) -> list[str]:
        scheduler = factory.assemble(plans, seed=7, cached=cached)
        for i in range(6):
            scheduler.cache.add_node(make_node(f"n{i}", cpu="8"))
        nodes = []
        for i in range(100):
            scheduler.add_pod(PodInfo.of(make_pod(f"p{i}", cpu=f"{100 * (i % 5)}m")))
            outcome = scheduler.schedule_one()
            assert outcome is not None
            nodes.append(outcome.node)
        return nodes

    assert places(cached=True) == places(cached=False)


def test_time_stands_still_unless_a_clock_is_given() -> None:
    """A scheduler without a clock has a fixed time, so its output is reproducible."""
    assert factory.build().handle.now() == factory.EPOCH
    assert factory.build(now=lambda: 5).handle.now() == 5
