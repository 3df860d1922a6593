"""Promises about the judge of mutants: there are enough, and random pairs see a difference."""

from __future__ import annotations

from pathlib import Path
from random import Random

from policy_sched.prove.prover import Prover, Settings

from .mutants import POLICIES, all_mutants, disagreements


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
