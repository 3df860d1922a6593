"""A score that fails counts as 0: the verbs that show scores say where, and why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policy_sched.cli.main import run

CLUSTER = """\
apiVersion: v1
kind: Node
metadata: {name: small}
status: {allocatable: {cpu: "4", pods: "110"}}
---
apiVersion: v1
kind: Node
metadata: {name: large}
status: {allocatable: {cpu: "4", pods: "110"}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: i}]}
"""
POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {{name: Mine}}
spec:
  score: {score}
"""
ON_LARGE = "node.name == 'large' ? {} : 5.0"
INFINITY = "double(size(node.name)) * 1e300 * 1e300"
NONE_ON_LARGE = "node.name == 'large' ? clamp((score - 5.0) / (score - 5.0), 0.0, 9.0) : 1.0"
PRODUCT = "node.name == 'large' ? 9223372036854775807 * size(node.name) : 5"
SCORES = {
    "a double beyond int64": (ON_LARGE.format("1e300"), "MinMax", "overflow"),
    "an infinity": (ON_LARGE.format(INFINITY), "MinMax", "not finite"),
    "not a number": (ON_LARGE.format(f"{INFINITY} * 0.0"), "MinMax", "not finite"),
    "an int": (PRODUCT, "Max", "overflow"),
    "normalised": ("5.0", {"expression": NONE_ON_LARGE}, "not finite"),
}


@pytest.mark.parametrize(("expression", "normalize", "why"), SCORES.values(), ids=SCORES)
def test_a_score_that_fails_is_reported(
    expression: str,
    normalize: object,
    why: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A price of 1e300 made a node the worst one, and neither explain nor simulate showed why."""
    cluster, policy = tmp_path / "cluster.yaml", tmp_path / "policy.yaml"
    cluster.write_text(CLUSTER, encoding="utf-8")
    score = json.dumps({"expression": expression, "normalize": normalize})
    policy.write_text(POLICY.format(score=score), encoding="utf-8")
    given = ["--cluster", str(cluster), "--policies", str(policy)]
    assert run(["explain", "p", *given]) == 0
    shown = capsys.readouterr().out
    assert f"  the score of Mine fails on 1 of 2 nodes, which score 0: {why}\n" in shown
    assert run(["explain", "p", *given, "-o", "json"]) == 0
    failures = json.loads(capsys.readouterr().out)["failedScores"]
    assert failures == {"Mine": f"fails on 1 of 2 nodes, which score 0: {why}"}
    assert run(["simulate", str(cluster), "--policies", str(policy)]) == 0
    shown = capsys.readouterr().out
    assert f", failed on 1, which score 0: {why}\n" in shown


def test_eval_reports_a_double_that_is_no_score(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """1e300 was shown as the value, though as a score it fails; elsewhere it is a value."""
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(CLUSTER, encoding="utf-8")
    words = ["eval", ON_LARGE.format("1e300"), "--cluster", str(cluster)]
    assert run([*words, "--section", "score"]) == 0
    shown = capsys.readouterr().out
    assert "large  error PS603: overflow\n" in shown
    assert "small  5\n" in shown
    assert run(words) == 0
    assert "large  1e+300\n" in capsys.readouterr().out
