"""The results of scenarios, and how they are shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from policy_sched.errors import one_line
from policy_sched.policytest.comparison import Deviation, Value
from policy_sched.policytest.coverage import LocationCoverage, coverage_data, coverage_lines
from policy_sched.policytest.expectations import ExpectedOutcome
from policy_sched.report import CaseResult, Document


@dataclass(frozen=True, slots=True)
class StepResult:
    """The differences of one step; none means that all was as expected.

    ``got`` is what happened, where that is kept; ``seconds``: how long the step took. ``exact``:
    whether a step of a recorded life came out alike in everything; None of other steps.
    ``skipped``: why nothing was compared, empty where something was.
    """

    file: str
    scenario: str
    pod: str
    differences: tuple[Deviation, ...]
    got: ExpectedOutcome | None = field(default=None, compare=False, repr=False)
    seconds: float = field(default=0.0, compare=False, repr=False)
    exact: bool | None = None
    skipped: str = ""

    @property
    def ok(self) -> bool:
        """Whether the step was as expected."""
        return not self.differences


@dataclass(frozen=True, slots=True)
class ScenarioReport:
    """The results of scenarios, and what was seen of rules, where that was looked for."""

    results: Sequence[StepResult]
    coverage: Sequence[LocationCoverage] | None = None

    def last_line(self) -> str:
        """Return the sentence that ends every report."""
        compared = [r for r in self.results if not r.skipped]
        words = f"{sum(r.ok for r in compared)} of {len(compared)} steps as expected"
        if len(compared) < len(self.results):
            words += f", {len(self.results) - len(compared)} skipped"
        lives = [r.exact for r in self.results if r.exact is not None]
        return f"{words}, {sum(lives)} of {len(lives)} of lives exactly" if lives else words

    def text_lines(self) -> Iterator[str]:
        """Yield a line per difference, below its scenario and pod, and one line per file."""
        for file, of_file in groupby(self.results, key=lambda r: r.file):
            steps = list(of_file)
            for scenario, of_scenario in groupby(steps, key=lambda r: r.scenario):
                wrong = [r for r in of_scenario if not r.ok]
                if wrong:
                    yield f"{file}: {scenario}"
                for result in wrong:
                    yield f"  {result.pod}"
                    for difference in result.differences:
                        yield f"    {difference.field}"
                        yield f"      expected {value_text(difference.expected)}"
                        yield f"      got      {value_text(difference.got)}"
            compared = [r for r in steps if not r.skipped]
            yield f"{file}: {sum(r.ok for r in compared)} of {len(compared)}"
            for reason, count in Counter(r.skipped for r in steps if r.skipped).items():
                yield f"{file}: {count} skipped: {reason}"
        yield self.last_line()
        if self.coverage is not None:
            yield from coverage_lines(self.coverage)

    def document(self) -> Document:
        """Return counts, every difference with its place, and rule coverage."""
        document: Document = {
            "steps": sum(not r.skipped for r in self.results),
            "asExpected": sum(r.ok and not r.skipped for r in self.results),
            "skipped": sum(bool(r.skipped) for r in self.results),
            "exact": sum(r.exact is True for r in self.results),
            "differences": [
                {
                    "file": r.file,
                    "scenario": r.scenario,
                    "pod": r.pod,
                    "field": d.field,
                    "expected": d.expected,
                    "got": d.got,
                }
                for r in self.results
                for d in r.differences
            ],
        }
        if self.coverage is not None:
            document["coverage"] = coverage_data(self.coverage)
        return document

    def cases(self) -> Iterator[CaseResult]:
        """Yield a case per step."""
        for result in self.results:
            yield CaseResult(
                result.file,
                result.scenario,
                result.pod,
                f"{result.file}: {result.scenario}: {result.pod}",
                result.seconds,
                ", ".join(d.field for d in result.differences),
                tuple(_lines_of(result)),
                (f"skipped: {result.skipped}",) if result.skipped else (),
            )


def _lines_of(result: StepResult) -> Iterator[str]:
    """Yield what differs, each in a text of its own."""
    for deviation in result.differences:
        expected, got = value_text(deviation.expected), value_text(deviation.got)
        yield one_line(f"{deviation.field}: expected {expected}, got {got}")


def value_text(value: Value) -> str:
    """Return what a field holds, as text."""
    return ", ".join(value) or "(none)" if isinstance(value, list) else str(value)
