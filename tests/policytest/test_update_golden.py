"""Updating what tests expect: values that differ are replaced, all else stays as written."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.errors import PolicyError, PolicySchedError
from policy_sched.policytest.expectations import STATUSES
from policy_sched.policytest.runner import ScenarioRun, run_file
from policy_sched.policytest.update_golden import OF_NAMES, PLAIN, update_file
from policy_sched.profiles.models import Expectation, keys_of

HEAD = """\
# what is promised
name: two nodes
objects:
- {node: n1, cpu: 2}
- {node: n2, cpu: 4}
- {node: n3, taints: ["a=b:NoSchedule"]}
pending: [{pod: a, cpu: 2}, {pod: b, cpu: 8}]
"""


def updated(folder: Path, text: str) -> str:
    """Update a file with that text, see that it holds then, and return its text."""
    file = folder / "tests.yaml"
    file.write_text(HEAD + text, encoding="utf-8")
    assert update_file(str(file), ScenarioRun())
    assert all(result.ok for result in run_file(str(file)))
    assert not update_file(str(file), ScenarioRun())
    return file.read_text(encoding="utf-8").removeprefix(HEAD)


def test_only_what_differs_is_rewritten(tmp_path: Path) -> None:
    """Comments, patterns and limits that hold, and the order of keys stay."""
    text = """\
expect:
- pod: a # the small one
  chosen: n1 # wrong
  preEnqueue: gone
  rejected:
    n3: nope # why
    n2: nope
  scores:
    n2: {min: 5, max: 7}
    n1: {total: {min: 1}, plugins: {TaintToleration: 5}} # two
  order: [n1, n2]
  # the end
- {pod: b, chosen: n2, message: {matches: taint}}
"""
    assert (
        updated(tmp_path, text)
        == """\
expect:
- pod: a # the small one
  chosen: n2 # wrong
  rejected:
    n3: node(s) had untolerated taint(s) # why
  scores:
    n2: {total: 436}
    n1: {total: {min: 1}, plugins: {TaintToleration: 300}} # two
  order: [n2, n1]
  # the end
- {pod: b, chosen: null, message: {matches: taint}}
"""
    )


def test_what_did_not_happen_is_left_out(tmp_path: Path) -> None:
    """Groups, placements, claims and PreBind were given the message, and the file was none then."""
    text = """\
expect:
- pod: a
  chosen: n2
  preBind: {code: Error}
  claims: {gpu: {reservedFor: [a]}}
  deallocated: [gpu]
  placement: zone-a
  placements: {zone-a: 5}
  group: {order: [a]}
"""
    assert updated(tmp_path, text) == "expect:\n- pod: a\n  chosen: n2\n  deallocated: []\n"


def test_evictions_are_updated(tmp_path: Path) -> None:
    """They are stated of no pod, and were passed over."""
    text = """\
ops: [{evict: true}, {decide: a}, {order: true}]
expect:
- evicted: [a] # none is
- {pod: a, chosen: n1}
- queue: [a, b]
"""
    shown = updated(tmp_path, text)
    assert "- evicted: [] # none is\n- {pod: a, chosen: n2}\n- queue: [b]\n" in shown


def test_every_key_can_be_updated() -> None:
    """All others are of records, or are no result."""
    restated = {*STATUSES, *OF_NAMES, *PLAIN, "rejected", "group"}
    assert {*keys_of(Expectation)} - restated == {"pod", "errors", "op", "pods", "less", "errorAt"}


def test_later_steps_follow_earlier_ones(tmp_path: Path) -> None:
    """What a mended placement changes for the next pod is mended too."""
    text = "expect:\n- {pod: a, chosen: n1}\n- {pod: b, message: fits}\n"
    shown = updated(tmp_path, text)
    assert "{pod: a, chosen: n2}" in shown
    assert "message: '0/3 nodes are available" in shown


def test_nothing_stated_is_filled_in(tmp_path: Path) -> None:
    """A scenario without expectations gets one per pod, a bare step its placement."""
    shown = updated(
        tmp_path, "# no expectations yet\n---\nname: x\npending: [c]\nexpect:\n- pod: c\n"
    )
    assert "expect:\n- pod: a\n  chosen: n2\n- pod: b\n  chosen: null\n  message: '0/3" in shown
    assert "- pod: c\n  chosen: null\n  message: " in shown


def test_records_are_not_mended(tmp_path: Path) -> None:
    """What a machine wrote stays, and a file with mistakes is left alone."""
    record = tmp_path / "a.jsonl"
    record.write_text("{}\n")
    with pytest.raises(PolicySchedError, match="only YAML files"):
        update_file(str(record), ScenarioRun())
    broken = tmp_path / "tests.yaml"
    broken.write_text("{name: x, pendign: []}")
    with pytest.raises(PolicyError):
        update_file(str(broken), ScenarioRun())
    assert broken.read_text() == "{name: x, pendign: []}"


def test_a_link_out_of_the_repository_is_not_updated(tmp_path: Path) -> None:
    """`test --update` wrote to whatever file a link in the repository led to."""
    other, link = tmp_path / "other.yaml", tmp_path / "repository/tests.yaml"
    other.write_text(HEAD, encoding="utf-8")
    (tmp_path / "repository/.git").mkdir(parents=True)
    link.symlink_to(other)
    with pytest.raises(PermissionError, match=r"tests.yaml is a symbolic link to"):
        update_file(str(link), ScenarioRun())
    assert other.read_text(encoding="utf-8") == HEAD


def test_orders_of_the_queue_and_raw_scores_are_mended(tmp_path: Path) -> None:
    """`--update` writes the order of the queue that is, and leaves the pods of no interest out."""
    text = """\
plugin: ImageLocality
expect:
- queue: [b, a] # which comes first
- {pod: a, queue: [[a, b]], raw: {n1: 5, n2: 0}}
"""
    assert (
        updated(tmp_path, text)
        == """\
plugin: ImageLocality
expect:
- queue: [[a, b]] # which comes first
- {pod: a, queue: [[a, b]], raw: {n1: 0, n2: 0}}
"""
    )
