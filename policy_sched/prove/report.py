"""Verdicts as lines, plain data, Markdown, cases and diagnostics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from policy_sched.errors import Diagnostic, one_line
from policy_sched.prove.counterexample import text_of
from policy_sched.prove.prover import BOUNDED, PROVEN, REFUTED, UNKNOWN, Verdict
from policy_sched.report import CaseResult, Document

_SHOWN: Final = ("claim", "file", "line", "column", "answer", "reason")


@dataclass(frozen=True, slots=True)
class ProofReport:
    """What is known of each claim."""

    verdicts: Sequence[Verdict]

    def last_line(self) -> str:
        """Return the sentence that ends every report."""
        counts = dict.fromkeys((PROVEN, BOUNDED, REFUTED, UNKNOWN), 0)
        for verdict in self.verdicts:
            counts[verdict.answer] += 1
        shown = [f"{counts[PROVEN]} proven"]
        if counts[BOUNDED]:
            shown.append(f"{counts[BOUNDED]} proven up to a bound")
        shown += [f"{counts[answer]} {answer}" for answer in (REFUTED, UNKNOWN)]
        claims = "claim" if len(self.verdicts) == 1 else "claims"
        return f"{len(self.verdicts)} {claims}: {', '.join(shown)}"

    def diagnostics(self) -> list[Diagnostic]:
        """Return what is refuted or unknown, at its rule."""
        problems = [verdict.diagnostic() for verdict in self.verdicts]
        return sorted(problem for problem in problems if problem is not None)

    def text_lines(self) -> Iterator[str]:
        """Yield a line for each claim, and the pod and node that show what is refuted."""
        for file, group in groupby(self.verdicts, key=lambda verdict: verdict.file):
            yield file
            for verdict in group:
                yield f"  {verdict.line}: {verdict.claim}: {answer_text(verdict)}"
                yield from (f"      {line}" for line in refutation(verdict))
        yield self.last_line()

    def document(self) -> Document:
        """Return every claim with its answer and the test that shows it."""
        return {
            "claims": [
                {
                    **{name: getattr(verdict, name) for name in _SHOWN},
                    "lists": list(verdict.lists),
                    "bound": verdict.bound if verdict.lists else None,
                    "test": verdict.test,
                    "seconds": verdict.seconds,
                }
                for verdict in self.verdicts
            ]
        }

    def markdown_lines(self) -> Iterator[str]:
        """Yield a table of the claims, and the examples of what is refuted."""
        yield "| claim | line | answer |"
        yield "|---|---|---|"
        for verdict in self.verdicts:
            cells = (verdict.claim, f"{verdict.file}:{verdict.line}", answer_text(verdict))
            yield f"| {' | '.join(_cell(cell) for cell in cells)} |"
        for verdict in self.verdicts:
            lines = refutation(verdict)
            if lines:
                yield from ("", f"{_cell(verdict.claim)}:", "")
                yield from (f"    {one_line(line)}" for line in lines)
        yield ""
        yield self.last_line()

    def cases(self) -> Iterator[CaseResult]:
        """Yield a case for each claim; an unknown one is a note."""
        for verdict in self.verdicts:
            text = one_line(answer_text(verdict))
            refuted = verdict.answer == REFUTED
            yield CaseResult(
                verdict.file,
                "policy-sched.prove",
                verdict.claim,
                f"{verdict.file}: {verdict.claim}",
                verdict.seconds,
                text if refuted else "",
                (text, *refutation(verdict)) if refuted else (),
                (text,) if verdict.answer == UNKNOWN else (),
            )


def answer_text(verdict: Verdict) -> str:
    """Return the answer, with what it rests on or why it is none."""
    if verdict.answer == BOUNDED:
        return f"{BOUNDED} {verdict.bound} elements of {', '.join(verdict.lists)}"
    return f"{verdict.answer}: {verdict.reason}" if verdict.reason else verdict.answer


def refutation(verdict: Verdict) -> list[str]:
    """Return the lines of the pod and the node that refute a claim; none if nothing does."""
    if verdict.answer != REFUTED or verdict.test is None:
        return []
    parts = {key: verdict.test[key] for key in ("objects", "pending", "expect")}
    return text_of(parts).splitlines()


def _cell(text: str) -> str:
    plain = one_line(text).replace("\\", "\\\\")
    return "".join(f"\\{c}" if c in "|`*_[]<>" else c for c in plain)
