"""Recorded cycles of Kueue: how many the shipped policy Cohorts decides alike, and why not all."""

from __future__ import annotations

import gzip
import itertools
import json
from pathlib import Path

import pytest

from policy_sched.policytest import ScenarioReport, run_files
from tests.policies.kueue_model import Model
from tests.policies.kueue_records import EQUAL, UNEXPLAINED, summary

RECORDS = Path(__file__).parents[3] / "shared/plugins/kueue"
pytestmark = pytest.mark.skipif(
    not RECORDS.is_dir(), reason="the records lie beside the repository"
)

EVERY = 20
"""Of so many scenarios of a family the first is decided; the command decides them all."""
EQUAL_AT_LEAST = {"flat": 15, "fair": 10, "tree": 12, "flavors": 2, "preempt": 13}
"""Scenarios of the 15 of each family."""
IN_TURN_AT_LEAST = {"flat": 14, "preempt": 9}
"""The same where each head sees what those before it got, as in a scheduler that runs."""
MOST_UNEXPLAINED = 1
"""Of the 15, those for which no set of rules that was tried explains the difference."""


@pytest.mark.parametrize("family", EQUAL_AT_LEAST)
def test_the_policy_decides_as_kueue_but_for_rules_it_does_not_have(family: str) -> None:
    """Admissions and victims of all cycles; the others are attributed to a rule of Kueue."""
    counts, unexplained = summary(str(RECORDS / f"kueue-{family}.jsonl.gz"), every=EVERY)
    assert counts.total() == 300 / EVERY
    assert counts[EQUAL] >= EQUAL_AT_LEAST[family], counts
    assert counts[UNEXPLAINED] <= MOST_UNEXPLAINED, unexplained


@pytest.mark.parametrize("family", IN_TURN_AT_LEAST)
def test_heads_that_are_decided_in_turn_mostly_come_out_the_same(family: str) -> None:
    """A scheduler that runs has no cycles: who is decided later sees what others got."""
    counts, _ = summary(str(RECORDS / f"kueue-{family}.jsonl.gz"), rounds=False, every=EVERY)
    assert counts[EQUAL] >= IN_TURN_AT_LEAST[family], counts


@pytest.mark.parametrize("family", EQUAL_AT_LEAST)
def test_the_model_of_kueue_decides_as_was_recorded(family: str) -> None:
    """What the attribution rests on: with all rules the model is Kueue."""
    with gzip.open(RECORDS / f"kueue-{family}.jsonl.gz", "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in itertools.islice(lines, 0, None, EVERY)]
    for record in records:
        recorded = [
            (
                {
                    admitted["workload"]: {p["name"]: p["count"] for p in admitted["podSets"]}
                    for admitted in cycle["admitted"]
                },
                {marked["workload"] for marked in cycle["preempted"]},
            )
            for cycle in record["expect"]
        ]
        cycles = itertools.islice(Model(record).cycles(), len(recorded))
        assert [(a, set(v)) for a, v in cycles] == recorded, record["name"]


def test_the_verb_reads_cycles(tmp_path: Path) -> None:
    """Somebody who ran them was told of unknown keys; what follows a difference is not compared."""
    with gzip.open(RECORDS / "kueue-flat.jsonl.gz", "rt", encoding="utf-8") as lines:
        record = json.loads(next(itertools.islice(lines, 1, None)))
    record["expect"][1]["admitted"].append({"workload": "nobody", "podSets": []})
    file = tmp_path / "cycles.jsonl"
    file.write_text(json.dumps(record), encoding="utf-8")
    results = run_files([str(file)])
    report = [
        line.removeprefix(f"{file}: ") for line in ScenarioReport(results.results).text_lines()
    ]
    assert not results.problems
    assert report[:3] == ["kueue-flat-1", "  cycle 2", "    admitted"]
    assert report[-2].endswith("skipped: an earlier cycle differs")
