"""kube-scheduler's own decisions, recorded: every step must come out as it did."""

from __future__ import annotations

import gzip
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from policy_sched.policytest.report import ScenarioReport, StepResult
from policy_sched.policytest.runner import ScenarioRun, run_file, run_files

HERE = Path(__file__).parents[1] / "conformance"
CONFORMANCE = Path(os.environ.get("POLICY_SCHED_CONFORMANCE") or HERE)
"""Where the recorded files are: the copy beside the tests, or other seeds of the same families."""

STEPS = {
    "resources": 480,
    "taints": 480,
    "nodeaffinity": 480,
    "nodename_ports": 480,
    "images": 400,
    "gates": 240,
    "config": 320,
    "spread": 480,
    "interpod": 480,
    "volumes": 400,
    "preemption": 640,
    "mixed": 1200,
    "gang": 874,
    "gang-topology": 550,
    "everything": 1413,
    "dra": 687,
    "config-2": 960,
    "edge": 840,
    "nominated": 389,
    "nominated-ops": 375,
    "quantities": 379,
    "podshapes": 415,
    "storage": 437,
    "profiles": 471,
    "relations": 639,
    "queue": 22500,
    "queue-2": 10000,
}
"""Families of scenarios and sequences, and how many steps each has."""
SEQUENCES: Final = frozenset({"nominated-ops", "queue", "queue-2"})
SCENARIOS: Final = {family: steps for family, steps in STEPS.items() if family not in SEQUENCES}


@pytest.mark.parametrize(("family", "steps"), STEPS.items(), ids=STEPS)
def test_every_decision_is_kube_schedulers(family: str, steps: int) -> None:
    """Statuses, reasons, every plugin's score of every node, messages; every pod of the queue."""
    compare(run_file(str(CONFORMANCE / f"{family}.jsonl.gz")), steps)


def compare(results: Sequence[StepResult], steps: int) -> None:
    """Assert that all steps came out as recorded, and that there are so many."""
    if CONFORMANCE != HERE:
        steps = len(results)
    expected = f"{steps} of {steps} steps as expected"
    report = ScenarioReport(results)
    assert report.last_line() == expected, "\n".join(report.text_lines())


LIVES: Final = {"life": 1431, "life-dra": 1198, "life-gang": 352}
"""Families of lives, and how many steps each has."""
TIES: Final = {("life-dra-037", "14: patch Pod p05 at 104200 ms")}
"""Steps in which kube-scheduler pops two pods of equal keys in no order of its own."""


@pytest.mark.parametrize(("family", "steps"), LIVES.items(), ids=LIVES)
def test_whole_lives_are_kube_schedulers(family: str, steps: int) -> None:
    """Pods were tried again at other times than by kube-scheduler, and five lives ended otherwise.

    Every attempt with scores and message, and the queue after each step.
    """
    path = str(CONFORMANCE / f"{family}.jsonl.gz")
    results = run_files([path], ScenarioRun(exact=True))
    assert not results.problems
    wrong = [result for result in results.results if not result.ok]
    shown = "\n".join(ScenarioReport(wrong).text_lines())
    if CONFORMANCE != HERE:
        assert len(wrong) * 100 <= len(results.results), shown
        return
    assert {(result.scenario, result.pod) for result in wrong} <= TIES, shown
    assert len(results.results) == steps


ODD = [*sorted((HERE / "differences").iterdir()), HERE / "dra-cases" / "quirks.jsonl.gz"]


@pytest.mark.parametrize("path", ODD, ids=lambda p: p.stem)
def test_odd_decisions_are_kube_schedulers_too(path: Path) -> None:
    """These scenarios had another node, condition or message than with kube-scheduler 1.36.2.

    Three lives had other attempts, too.
    """
    results = run_files([str(path)], ScenarioRun(exact=True)).results
    assert results
    assert all(result.ok for result in results), "\n".join(ScenarioReport(results).text_lines())


@pytest.mark.parametrize("path", sorted((HERE / "refused").iterdir()), ids=lambda p: p.stem)
def test_amounts_beyond_int64_are_refused_by_name(path: Path) -> None:
    """Pods with 7Ei of memory were scheduled, with other scores than kube-scheduler's overflows."""
    data = path.read_bytes()
    lines = (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()
    results = run_files([str(path)])
    assert not results.results
    assert {problem.line for problem in results.problems} == set(range(1, len(lines) + 1))
    assert {problem.code for problem in results.problems} == {"PS707"}
    assert all("must be less than or equal to" in problem.message for problem in results.problems)


PINNED: Final = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata:
  name: Pinned
spec:
  preFilter:
    nodeNames: '["n2"]'
    message: no pinned node
"""
NOMINATED: Final = """\
apiVersion: policysched.dev/v1alpha1
kind: PolicyTest
name: nominated elsewhere
policies: [policy.yaml]
objects: [{node: n1, taints: ["a=b:NoSchedule"]}, {node: n2}]
pending:
- apiVersion: v1
  kind: Pod
  metadata: {name: fits, namespace: default}
  spec: {tolerations: [{operator: Exists}], containers: [{name: c}]}
  status: {nominatedNodeName: n1}
- apiVersion: v1
  kind: Pod
  metadata: {name: not, namespace: default}
  spec: {containers: [{name: c, resources: {requests: {cpu: 100}}}]}
  status: {nominatedNodeName: n1}
expect:
- {pod: fits, chosen: n1}
- pod: not
  message: "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
  rejected: {n1: node(s) had untolerated taint(s), n2: Insufficient cpu}
"""


def test_a_nominated_node_that_pre_filter_leaves_out_is_evaluated(tmp_path: Path) -> None:
    """A pod was told that PreFilter leaves its nominated node out, though every filter passes."""
    (tmp_path / "policy.yaml").write_text(PINNED)
    (tmp_path / "tests.yaml").write_text(NOMINATED)
    results = run_file(str(tmp_path / "tests.yaml"))
    assert [result.differences for result in results] == [(), ()]
