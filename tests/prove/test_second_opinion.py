"""Promises about what z3 proves: another solver, cvc5, is of the same opinion."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import cvc5
import z3

from policy_sched.prove.prover import Prover, Settings, parts_of
from policy_sched.prove.world import FORMS

from .mutants import POLICIES
from .test_decisions import ALIKE

STEPS: Final = 200_000
"""What cvc5 may take for a question, in units of its own, which are the same on each machine."""
LEAST: Final = 55
"""Questions that it has to answer."""
HEAD: Final = {
    "apiVersion": "policysched.dev/v1alpha1",
    "kind": "Policy",
    "metadata": {"name": "P"},
}


def opinion(question: str) -> str:
    """Return what cvc5 says of a question in SMT-LIB: unsat, sat or unknown."""
    solver = cvc5.Solver()
    for name, value in (("rlimit", str(STEPS)), ("strings-exp", "true")):
        solver.setOption(name, value)
    parser = cvc5.InputParser(solver)
    parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, f"(set-logic ALL)\n{question}", "q")
    said = ""
    while not (command := parser.nextCommand()).isNull():
        said += command.invoke(solver, parser.getSymbolManager())
    return said.strip()


def proven(part: Settings) -> Iterator[tuple[str, str]]:
    """Yield the claims that z3 finds no contrary of, each with the question, texts as texts."""
    prover = Prover(part)
    for number, claim in enumerate(prover.claims):
        question = prover.question(number, claim.term)
        if not claim.never or claim.term is False:
            continue
        if question.answer(prover.worlds[number].leaves, (), 2.0, small=False).impossible:
            solver = z3.Solver()
            solver.add(*question.stated)
            yield claim.name, solver.to_smt2()


def shipped() -> Iterator[Settings]:
    """Yield what is to be proved of shipped policies: their claims, and what is always asked."""
    for pattern in ("*/claims.yaml", "*/policy.yaml"):
        for file in sorted(POLICIES.glob(pattern)):
            yield from parts_of([str(file)], (), 3, 2.0)


def rewritten(folder: Path) -> Iterator[Settings]:
    """Yield policies beside others that decide alike."""
    for number, pair in enumerate(ALIKE):
        files = [folder / f"{side}-{number}.yaml" for side in ("old", "new")]
        for file, spec in zip(files, pair, strict=True):
            file.write_text(json.dumps({**HEAD, "spec": spec}))
        yield Settings((str(files[0]),), 3, 2.0, (str(files[1]),))


def test_no_proof_is_refuted_by_another_solver(tmp_path: Path) -> None:
    """cvc5 finds no pod and node either, and says so of nearly all questions."""
    parts = [*shipped(), *rewritten(tmp_path)]
    said = [(name, opinion(text)) for part in parts for name, text in proven(part)]
    assert [name for name, answer in said if answer == "sat"] == []
    assert [answer for _, answer in said].count("unsat") >= LEAST, said


def test_another_solver_can_contradict() -> None:
    """A question that has an answer is not said to have none."""
    text = z3.String("text")
    solver = z3.Solver()
    solver.add(z3.InRe(text, FORMS[2]), z3.Length(text) == 63)
    assert opinion(solver.to_smt2()) == "sat"
