"""What plugins of scheduler-plugins decided: the shipped policies of their names decide alike."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from policy_sched.policytest import ScenarioReport, run_files

RECORDS = Path(__file__).parents[3] / "shared/plugins"
pytestmark = pytest.mark.skipif(
    not RECORDS.is_dir(), reason="the records lie beside the repository"
)

STEPS = {
    "allocatable": 200,
    "capacity": 346,
    "coscheduling": 278,
    "loadvariation": 200,
    "lowrisk": 200,
    "networkoverhead": 200,
    "nodemetadata": 196,
    "nrt": 240,
    "nrt-cache": 240,
    "podstate": 200,
    "preemptiontoleration": 240,
    "qossort": 100,
    "sysched": 200,
    "targetloadpacking": 200,
}
"""Families of records, and how many steps each has."""


def test_scores_of_power_differ_by_the_last_bit_of_an_exponential() -> None:
    """Of 200 decisions of Peaks 186 have its scores; raw ones are such bits times 10^15."""
    results = run_files([str(RECORDS / "peaks.jsonl.gz")]).results
    alike = [all(d.field.startswith("raw.") for d in one.differences) for one in results]
    assert (sum(alike), len(alike)) == (186, 200)


@pytest.mark.parametrize(("family", "steps"), STEPS.items(), ids=STEPS)
def test_every_decision_is_the_plugins(family: str, steps: int) -> None:
    """Nodes, scores before and after normalisation, orders of the queue: from files as they are.

    Somebody who ran them was told of unknown keys, and had to take them out.
    """
    results = run_files([str(RECORDS / f"{family}.jsonl.gz")])
    report = ScenarioReport(results.results)
    assert not results.problems
    assert report.last_line() == f"{steps} of {steps} steps as expected", "\n".join(
        report.text_lines()
    )


def test_orders_of_groups_are_the_plugins_where_they_are_orders() -> None:
    """Of 100 queues of TopologicalSort 81 have no order; in three of the others equals differ."""
    results = run_files([str(RECORDS / "topologicalsort.jsonl.gz")])
    report = ScenarioReport(results.results)
    assert not results.problems
    assert report.last_line() == "16 of 19 steps as expected, 81 skipped"


def first_record(family: str) -> dict[str, Any]:
    """Return the first record of a family."""
    with gzip.open(RECORDS / f"{family}.jsonl.gz", "rt", encoding="utf-8") as lines:
        record: dict[str, Any] = json.loads(next(lines))
    return record


def run_records(folder: Path, *records: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the lines of the report of some records, and the problems."""
    file = folder / "records.jsonl"
    file.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    results = run_files([str(file)])
    lines = [
        line.removeprefix(f"{file}: ") for line in ScenarioReport(results.results).text_lines()
    ]
    return lines, [f"{problem.message} ({problem.hint})" for problem in results.problems]


def test_a_raw_score_that_was_changed_differs(tmp_path: Path) -> None:
    """A score before normalisation, off by one, is one difference."""
    record = first_record("allocatable")
    record["expect"][0]["raw"]["node-00"] += 1
    lines, _ = run_records(tmp_path, record)
    assert lines == [
        "allocatable-0",
        "  default/p-0",
        "    raw.node-00",
        "      expected 22906497579",
        "      got      22906497578",
        "4 of 5",
        "4 of 5 steps as expected",
    ]


def test_an_order_that_was_changed_differs(tmp_path: Path) -> None:
    """Two pods of the queue, the wrong way round, are one difference; equals are shown as such."""
    record = first_record("qossort")
    order = record["expect"][0]["order"]
    order[0], order[1] = order[1], order[0]
    lines, _ = run_records(tmp_path, record)
    assert lines[1:4] == ["  queue", "    queue", lines[3]]
    assert lines[3].startswith("      expected default/p-07, default/p-11, default/p-00")
    assert "default/p-10 = default/p-13" in lines[4]
    assert lines[4].startswith("      got      default/p-11, default/p-07, default/p-00")


def test_steps_without_a_decision_are_skipped_and_said(tmp_path: Path) -> None:
    """A plugin that failed, and answers that are no order: neither differences nor as expected."""
    failed, mixed = first_record("allocatable"), first_record("qossort")
    pod = failed["expect"][1]["pod"]
    failed["expect"][1] = {"pod": pod, "errorAt": "PostFilter", "message": "no corresponding pod"}
    del mixed["expect"][0]["order"]
    lines, problems = run_records(tmp_path, failed, mixed)
    assert not problems
    assert lines[-4:] == [
        "4 of 4",
        "1 skipped: the plugin failed at PostFilter",
        "1 skipped: the plugin's answers are no order",
        "4 of 4 steps as expected, 2 skipped",
    ]


def test_a_record_of_a_plugin_without_a_policy_is_refused(tmp_path: Path) -> None:
    """The plugin is named once, and the records of others run."""
    records = [first_record(family) for family in ("allocatable", "qossort", "qossort")]
    for record in records[1:]:
        record["plugin"] = "CrossNodePreemption"
        record["objects"].append(
            {"apiVersion": "example.com/v1", "kind": "Odd", "metadata": {"name": "a"}}
        )
    lines, problems = run_records(tmp_path, *records)
    assert lines == ["5 of 5", "5 of 5 steps as expected"]
    (problem,) = problems
    assert problem == (
        "no policy ships for the plugin CrossNodePreemption "
        '(its 2 records are not run; "policies": ["FILE"] in a record names a policy)'
    )


def test_objects_that_nothing_reads_are_left_out_of_records(tmp_path: Path) -> None:
    """A plugin's own objects are in its records; a policy that reads none decides without them."""
    record = first_record("allocatable")
    group = {"apiVersion": "example.com/v1", "kind": "AppGroup", "metadata": {"name": "a"}}
    record["objects"].append(group)
    lines, problems = run_records(tmp_path, record)
    assert (lines[-1], problems) == ("5 of 5 steps as expected", [])
