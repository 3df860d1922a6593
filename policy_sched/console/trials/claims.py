"""Prove it: what holds of edited policies for every pod and node, and their claims.

It is `policy-sched prove` over policies that are in no file yet.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from policy_sched.console.trials.edits import edited
from policy_sched.console.trials.questions import TRIALS, Question
from policy_sched.errors import Diagnostic, PolicyError
from policy_sched.profiles.reload import PolicyFiles

BOUND: Final = 3
SECONDS: Final = 2.0
"""Elements of a list that are looked at, and seconds of the solver for each claim."""
LONGEST: Final = TRIALS.processor_time * 0.75
"""Seconds of processor time after which no further claim is asked."""


@dataclass(frozen=True, slots=True)
class ClaimAnswer:
    """A claim, its place, the answer in a word and in words, and a test that refutes it, if any."""

    claim: str
    place: str
    answer: str
    words: str
    refutation: str = ""


@dataclass(frozen=True, slots=True)
class Proofs:
    """The answers to all claims, or the problems for which nothing was asked."""

    problems: tuple[Diagnostic, ...]
    summary: str = ""
    answers: tuple[ClaimAnswer, ...] = ()


@dataclass(frozen=True, slots=True)
class ProofQuestion(Question[Proofs]):
    """What holds of edited policies? ``files`` are in force, ``edits`` new texts by path."""

    files: PolicyFiles
    edits: Mapping[str, str]

    def result(self) -> Proofs:
        """Decide what `policy-sched prove` asks of the edited files, and their claims."""
        from policy_sched import prove  # noqa: PLC0415  z3-solver may be absent

        def decided() -> Iterator[prove.Verdict]:
            for settings in prove.parts_of(copy.files.policies, (), BOUND, SECONDS):
                prover = prove.Prover(settings)
                for number, claim in enumerate(prover.claims):
                    if time.process_time() < until:
                        yield prover.verdict(number)
                    else:
                        yield replace(prover.blank(claim), reason="there was no time left for it")

        until = time.process_time() + LONGEST
        with edited(self.files, self.edits) as copy:
            try:
                report = prove.ProofReport(list(decided()))
            except PolicyError as error:
                return Proofs(copy.renamed(error.diagnostics))
            answers = [
                ClaimAnswer(
                    verdict.claim,
                    f"{copy.text(verdict.file)}:{verdict.line}",
                    verdict.answer,
                    copy.text(prove.answer_text(verdict)),
                    "\n".join(prove.refutation(verdict)),
                )
                for verdict in report.verdicts
            ]
            return Proofs((), report.last_line(), tuple(answers))
