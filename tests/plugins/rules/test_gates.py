"""PreEnqueue rules: pods that they cannot gate are let in without a run of the rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from policy_sched.model.pod_info import PodInfo
from policy_sched.scheduler.setup.factory import build
from policy_sched.testing import make_pod

HEAD = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: Gate}\nspec:\n"
PODS: tuple[dict[str, Any], ...] = (
    {},
    {"priority": 5},
    {"labels": {"tier": "batch"}},
    {"labels": {"tier": "web"}, "priority": 5},
    {"gates": ["a"]},
    {"gates": ["a", "b"], "priority": 5},
    {"namespace": "other"},
)
RULES = (
    "pod.priority > 0",
    "pod.labels['tier'] == 'batch'",
    "pod.name.startsWith('p1')",
    "'team' in namespaceObject.labels",
    "pod.schedulingGates.size() < 2",
)


@pytest.mark.parametrize("rule", RULES)
def test_a_pod_is_gated_exactly_where_the_rules_reject_it(tmp_path: Path, rule: str) -> None:
    """Equal pods are asked about once, and whatever else a rule reads is read each time."""
    path = tmp_path / "policy.yaml"
    rules = f'  preEnqueue:\n  - {{expression: "{rule}", message: must wait}}\n'
    path.write_text(HEAD + rules)
    scheduler = build(None, [str(path)])
    runner = scheduler.profiles["default-scheduler"].runner
    for time in range(2):
        for i, spec in enumerate(PODS):
            pod = PodInfo.of(make_pod(f"p{i}-{time}", **spec))
            gated = bool(runner.run("pre_enqueue", pod).status.plugin)
            assert not gated or runner.may_gate(pod)
            scheduler.add_pod(pod)
            assert (pod.uid in {one.info.uid for one in scheduler.queue.gated()}) is gated
