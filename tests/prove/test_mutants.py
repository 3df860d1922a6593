"""Promises about the judge of mutants: there are enough, and random pairs see a difference."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Final

import pytest

from policy_sched.prove.prover import Prover, Settings

from .mutants import POLICIES, all_mutants, disagreements, judged


def test_random_pairs_see_what_is_refuted(tmp_path: Path) -> None:
    """The pairs that agree where a mutant is proven would differ where one is refuted."""
    old = str(POLICIES / "spot-nodes" / "policy.yaml")
    text = Path(old).read_text().replace("pod.priority < params", "pod.priority > params")
    new = str(tmp_path / "policy.yaml")
    Path(new).write_text(text)
    assert disagreements(Prover(Settings((old,), 3, 5.0, (new,))), old, new, Random(1)) > 0


def test_there_are_enough_mutants() -> None:
    """The command has 300 different ones to judge."""
    texts = {(name, text) for name, _, text in all_mutants()}
    assert len(texts) >= 300


SAMPLE: Final = slice(0, 12)
"""Of the mutants in turn: one of each policy but the last two."""


@pytest.mark.usefixtures("few_clusters")
def test_no_mutant_of_a_sample_is_proven_that_differs(tmp_path: Path) -> None:
    """The command judges 300; most of these are refuted, and the scheduler confirms each."""
    answers = [
        judged(name, text, 2.0, tmp_path)[0] for name, _, text in list(all_mutants())[SAMPLE]
    ]
    assert set(answers) <= {"refuted", "proven", "bounded", "unknown", "refused", "elsewhere"}, (
        answers
    )
    assert answers.count("refuted") >= 7


def test_what_domains_decide_is_refuted_by_a_small_cluster(tmp_path: Path) -> None:
    """Counts over racks have no term; the scheduler confirms a difference on a few nodes."""
    text = (POLICIES / "rack-spread" / "policy.yaml").read_text().replace(" + 1 - ", " + 1 + ")
    answer, verdicts = judged("rack-spread", text, 1.0, tmp_path)
    assert answer == "refuted"
    (test,) = (verdict.test for verdict in verdicts if "nodes pass" in verdict.claim)
    assert test is not None
    labels = [each["metadata"].get("labels", {}) for each in test["objects"]]
    assert any("topology.example.com/rack" in each for each in labels)
