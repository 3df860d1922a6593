"""Recorded lives: what is compared of them, and what is said of a file that is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from policy_sched.cli.main import run as run_command
from policy_sched.errors import PolicyError
from policy_sched.policytest.report import ScenarioReport, StepResult
from policy_sched.policytest.runner import ScenarioRun, run_file, run_files

RECORDED = Path(__file__).parents[1] / "conformance" / "differences" / "16-life-retries.jsonl"


def recorded() -> Any:
    """Return a recorded life: a pod that fits nowhere, tried again when a pod has gone."""
    return json.loads(RECORDED.read_text())


def lived(folder: Path, life: Any, *, exact: bool) -> list[StepResult]:
    """Run a life from a file of its own."""
    path = folder / "life.jsonl"
    path.write_text(json.dumps(life))
    found = run_files([str(path)], ScenarioRun(exact=exact))
    assert not found.problems
    return found.results


def test_another_message_is_a_difference_only_where_everything_is_compared(tmp_path: Path) -> None:
    """Who is bound where is one question, in which words a pod waits another."""
    life = recorded()
    life["expect"][1]["attempts"][0]["message"] = "no room"
    assert all(one.ok for one in lived(tmp_path, life, exact=False))
    results = lived(tmp_path, life, exact=True)
    assert [one.ok for one in results] == [True, False, True, True, True]
    assert [one.field for one in results[1].differences] == ["attempts"]


def test_the_report_tells_how_many_steps_came_out_alike_in_everything(tmp_path: Path) -> None:
    """Retries that change nothing are told of in the last line."""
    life = recorded()
    life["expect"][1]["after"]["unschedulable"] = []
    report = ScenarioReport(lived(tmp_path, life, exact=False))
    assert report.last_line() == "5 of 5 steps as expected, 4 of 5 of lives exactly"
    assert report.document()["exact"] == 4


def test_a_pod_that_is_bound_elsewhere_is_a_difference_of_its_fate(tmp_path: Path) -> None:
    """The step names the pod's node, and the node that was recorded."""
    life = recorded()
    life["expect"][2]["attempts"] = [{"pod": "default/big", "node": "n1"}]
    results = lived(tmp_path, life, exact=False)
    assert [one.ok for one in results] == [True, True, False, True, True]
    (difference,) = results[2].differences
    assert difference.expected == ['{"pod":"default/big","node":"n1"}']
    assert difference.got == []


def test_a_pod_can_come_again_under_its_name(tmp_path: Path) -> None:
    """It is another pod if it has another uid: the old one is gone first."""
    life = recorded()
    again = json.loads(json.dumps(life["events"][0]["put"]))
    again["metadata"]["uid"] = "uid-again"
    again["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "100m"
    life["events"].append({"at": 70000, "put": again})
    after = {"backoff": {}, "gated": [], "nominated": {}, "unschedulable": []}
    attempts = [{"pod": "default/big", "node": "n1"}]
    life["expect"].append({"at": 70000, "after": after, "attempts": attempts})
    assert all(one.ok for one in lived(tmp_path, life, exact=True))


def test_all_that_is_wrong_in_a_file_of_lives_is_told(tmp_path: Path) -> None:
    """Each problem names the line and the place of the object in it."""
    first, second = recorded(), recorded()
    first["objects"][1]["status"]["allocatable"]["cpu"] = "much"
    second["events"][0]["put"]["kind"] = "Secret"
    path = tmp_path / "lives.jsonl"
    path.write_text(f"{json.dumps(first)}\n{json.dumps(second)}\n")
    with pytest.raises(PolicyError) as caught:
        run_file(str(path))
    told = [(one.line, one.message.partition(":")[0]) for one in caught.value.diagnostics]
    assert told == [(1, "objects[1].status.allocatable.cpu"), (2, "events[0].put")]


def test_gates_that_are_none_and_lives_that_expect_nothing_are_told(tmp_path: Path) -> None:
    """The gates ended in a traceback, and a life without steps was green."""
    path = tmp_path / "life.jsonl"
    path.write_text(json.dumps(recorded() | {"gates": "Nope=maybe", "expect": []}))
    with pytest.raises(PolicyError) as caught:
        run_file(str(path))
    told = [one.message for one in caught.value.diagnostics]
    assert told[0].startswith("gates: invalid value of Nope=maybe")
    assert told[1] == 'the test "life-retries" expects nothing'


def test_a_patch_that_breaks_an_object_is_told(tmp_path: Path) -> None:
    """It is applied when it is due; the life and the event are named."""
    life = recorded()
    life["events"][2]["patch"] = {"spec": {"taints": "none"}}
    path = tmp_path / "life.jsonl"
    path.write_text(json.dumps(life))
    (problem,) = run_files([str(path)]).problems
    assert problem.message.startswith("life-retries: events[2].patch.spec.taints: ")


def test_the_command_compares_everything_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`policy-sched test --exact` ends with 1 for another message, without it with 0."""
    life = recorded()
    life["expect"][1]["attempts"][0]["message"] = "no room"
    path = tmp_path / "life.jsonl"
    path.write_text(json.dumps(life))
    assert run_command(["test", str(path)]) == 0
    assert run_command(["test", "--exact", str(path)]) == 1
    assert "expected" in capsys.readouterr().out
