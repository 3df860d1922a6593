"""Tests of groups that feature gates decide: what a person states, and what is told of it."""

from __future__ import annotations

from pathlib import Path

from policy_sched.policytest.runner import run_file

TEST = """\
apiVersion: policysched.dev/v1alpha1
kind: PolicyTest
name: a gang of three on two nodes
gates: GenericWorkload=true,GangScheduling=true
objects:
- {node: n1, cpu: 1}
- {node: n2, cpu: 1}
- apiVersion: scheduling.k8s.io/v1alpha2
  kind: PodGroup
  metadata: {name: ring, namespace: default}
  spec: {schedulingPolicy: {gang: {minCount: COUNT}}}
pending:
- {pod: a, cpu: 1, spec: {schedulingGroup: {podGroupName: ring}}}
- {pod: b, cpu: 1, spec: {schedulingGroup: {podGroupName: ring}}}
- {pod: c, cpu: 1, spec: {schedulingGroup: {podGroupName: ring}}}
- {pod: d, cpu: 1}
expect:
"""


def steps(folder: Path, count: int, expect: str) -> list[list[str]]:
    """Return the fields of each step that are not as expected."""
    path = folder / "tests.yaml"
    path.write_text(TEST.replace("COUNT", str(count)) + expect)
    return [[one.field for one in result.differences] for result in run_file(str(path))]


def test_a_gang_that_does_not_fit_leaves_the_nodes_to_others(tmp_path: Path) -> None:
    """Its pods are decided together at the first one's turn; the last pod finds a node."""
    expect = """\
- pod: a
  group: {code: Unschedulable, order: [a, b, c]}
- {pod: b, chosen: null, message: {matches: waiting for minCount pods}}
- {pod: c, chosen: null}
- {pod: d, chosen: n1}
"""
    assert steps(tmp_path, 3, expect) == [[], [], [], []]


def test_a_pod_that_fails_with_its_group_is_on_no_node(tmp_path: Path) -> None:
    """Though it had one while the group was tried."""
    assert steps(tmp_path, 3, "- {pod: a, chosen: n1}\n") == [["chosen"]]


def test_a_gang_that_fits_takes_them(tmp_path: Path) -> None:
    """A surplus pod fails, and so does the one behind the group."""
    expect = """\
- pod: a
  chosen: n1
  permit: {code: Wait}
  group: {code: Success, condition: {status: "True", reason: Scheduled}}
- {pod: b, chosen: n2, permit: {code: Success}}
- {pod: c, chosen: null}
- {pod: d, chosen: null}
"""
    assert steps(tmp_path, 2, expect) == [[], [], [], []]


def test_what_differs_is_named(tmp_path: Path) -> None:
    """Field by field."""
    expect = """\
- pod: a
  group: {code: Success, waitingOnPreemption: true, victims: [a]}
"""
    assert steps(tmp_path, 3, expect) == [
        ["group.code", "group.waitingOnPreemption", "group.victims"]
    ]
