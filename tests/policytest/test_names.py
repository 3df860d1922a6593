"""Expectations name what is there, and state something."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.cli.main import run

TEST = """\
apiVersion: policysched.dev/v1alpha1
kind: PolicyTest
name: x
objects:
- {node: worker-1}
- {node: worker-2}
- {pod: old, node: worker-1}
pending: [web]
"""


def problems(
    folder: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> tuple[list[str], list[str]]:
    """Run a test that fails; return position and message of each problem, and the hints."""
    file = folder / "tests.yaml"
    file.write_text(text, encoding="utf-8")
    assert run(["test", str(file)]) == 1
    lines = capsys.readouterr().err.splitlines()
    found = [line.removeprefix(f"{file}:") for line in lines if line.startswith(str(file))]
    return found, [line.strip().removeprefix("= ") for line in lines if line.startswith("   = ")]


@pytest.mark.parametrize(
    ("expect", "name", "message", "hint"),
    [
        ("notOn: [wroker-1]", "wroker-1", "node wroker-1", "did you mean 'worker-1'?"),
        ("notOn: zebra", "zebra", "node zebra", "nodes: worker-1, worker-2"),
        ("chosen: worker-3", "worker-3", "node worker-3", "did you mean 'worker-2'?"),
        ("order: [[worker-1, worker2]]", "worker2", "node worker2", "did you mean 'worker-2'?"),
        ("scores: {worker: 1}", "worker:", "node worker", "did you mean 'worker-2'?"),
        ("victims: [odl]", "odl", "pod default/odl", "did you mean 'old'?"),
        (
            "preemption: [{node: worker-1, victims: [lod, other/old]}]",
            "lod",
            "pod default/lod",
            "did you mean 'old'?",
        ),
        (
            "scores: {worker-1: {plugins: {TaintTolerance: 0}}}",
            "TaintTolerance",
            "plugin TaintTolerance that a profile enables",
            "did you mean 'TaintToleration'?",
        ),
        (
            "scores: {worker-1: {plugins: {NodeName: 0}}}",
            "NodeName",
            "plugin NodeName with a score that a profile enables",
            (
                "plugins: DynamicResources, ImageLocality, InterPodAffinity, NodeAffinity, "
                "NodeResourcesBalancedAllocation, NodeResourcesFit, PodTopologySpread, "
                "TaintToleration and 1 more"
            ),
        ),
        (
            "rejected: {worker-1: {plugin: NodePort, rule: 'filter[3]'}}",
            "NodePort",
            "plugin NodePort that a profile enables",
            "did you mean 'NodePorts'?",
        ),
        (
            "rejected: {worker-1: {rule: NodeName.filter-1}, worker-2: {rule: 'filter[0]'}}",
            "NodeName.",
            "rule NodeName.filter-1",
            "did you mean 'NodeName.filter[0]'?",
        ),
    ],
)
def test_names_of_nothing_are_errors(
    expect: str,
    name: str,
    message: str,
    hint: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`notOn: [wroker-1]` and a misspelt plugin with score 0 were tests that could not fail."""
    line = f"expect: [{{pod: web, {expect}}}]"
    messages, hints = problems(tmp_path, f"{TEST}{line}\n", capsys)
    assert messages[0] == f"9:{line.index(name) + 1}: error PS705: there is no {message}"
    assert hints[0] == hint


@pytest.mark.parametrize(
    ("expect", "position", "message"),
    [
        ("", "1:1", "the test expects nothing"),
        ("expect: []\n", "9:1", "the test expects nothing"),
        ("expect:\n", "9:1", "the test expects nothing"),
        ("expect: [{pod: web}]\n", "9:10", "nothing is expected of web"),
        ("expect: [{pod: web, notOn: [], scores: {}}]\n", "9:10", "nothing is expected of web"),
        ("expect: [{pod: web, errors: [late]}]\n", "9:10", "nothing is expected of web"),
        ("expect: [{pod: web, errorAt: Filter}]\n", "9:10", "nothing is expected of web"),
        ("expect: [{pod: web, pods: [nix], less: []}]\n", "9:10", "nothing is expected of web"),
    ],
)
def test_a_test_without_expectations_says_so(
    expect: str, position: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`expect: []` was "0 of 0 steps as expected", exit code 0.

    So is what compares nothing: empty maps, and what stands in records alone.
    """
    messages, _ = problems(tmp_path, TEST + expect, capsys)
    assert messages == [f"{position}: error PS704: {message}"]


def test_update_completes_what_states_nothing(tmp_path: Path) -> None:
    """Names that are gone and missing expectations are what --update is for."""
    file = tmp_path / "tests.yaml"
    file.write_text(
        TEST.replace("pending: [web]", "pending: [web, {pod: db, node: worker-1}]").replace(
            "{pod: db, node: worker-1}", "db"
        )
        + "expect:\n- pod: web\n- {pod: db, chosen: worker-9}\n",
        encoding="utf-8",
    )
    assert run(["test", str(file), "--update"]) == 0
    assert "worker-9" not in file.read_text(encoding="utf-8")


def test_an_unreadable_pod_is_one_problem(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pod with a bad quantity was reported as "not pending", too, and its node as missing."""
    text = TEST.replace("[web]", "[{pod: web, cpu: lots}]").replace(
        "{node: worker-2}", "{node: worker-2, cpu: many}"
    )
    messages, _ = problems(
        tmp_path,
        f"{text}ops: [{{decide: web}}]\nexpect: [{{pod: web, chosen: worker-2}}]\n",
        capsys,
    )
    assert [message.partition(":")[0] for message in messages] == ["6", "8"]
