"""The reference port decides every conformance step as kube-scheduler 1.36 did.

Point 5 of the language's test plan: rules against kube-scheduler, over recorded traces.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from .reference import SCORES
from .reference_objects import ClusterState, Json
from .reference_steps import decide, profile_of, score

DATA = Path(__file__).parents[1] / "conformance"
FAMILIES = ("resources", "taints", "nodeaffinity", "nodename_ports", "images", "gates", "config")


def scenarios(family: str) -> list[Json]:
    """Return the scenarios of one family."""
    with gzip.open(DATA / f"{family}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("family", FAMILIES)
def test_reference_agrees_with_kube_scheduler(family: str) -> None:
    """Statuses, reasons, every score and the best nodes are kube-scheduler's, step by step."""
    for scenario in scenarios(family):
        profile = profile_of(scenario.get("config"))
        cluster = ClusterState(scenario["objects"])
        for pod, expected in zip(scenario["pending"], scenario["expect"], strict=True):
            step = decide(profile, cluster, pod)
            wanted = {key: expected[key] for key in step if key in expected}
            assert {"rejected": {}} | wanted == {"rejected": {}} | step, (
                scenario["name"],
                expected["pod"],
            )
            if "chosen" in expected:
                cluster.nodes[expected["chosen"]].add(pod)


@pytest.mark.parametrize("family", ["spread", "interpod", "volumes", "mixed"])
def test_reference_scores_other_families(family: str) -> None:
    """Where other plugins decide too, the ten plugins' scores are still kube-scheduler's."""
    for scenario in scenarios(family):
        profile = profile_of(scenario.get("config"))
        cluster = ClusterState(scenario["objects"])
        for pod, expected in zip(scenario["pending"], scenario["expect"], strict=True):
            if "scores" not in expected:
                continue
            found = score(profile, cluster, pod, expected["feasible"])["scores"]
            for node, wanted in expected["scores"].items():
                ours = {k: v for k, v in wanted["plugins"].items() if k in SCORES}
                assert found[node]["plugins"] == ours, (scenario["name"], expected["pod"], node)
            cluster.nodes[expected["chosen"]].add(pod)
