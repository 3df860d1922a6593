"""Shows the results of scenarios: as text, as JSON, and as JUnit XML for build servers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from xml.etree import ElementTree as ET

from policy_sched.errors import one_line
from policy_sched.policytest.comparison import Difference, Value
from policy_sched.policytest.expectations import Outcome
from policy_sched.source import xml_text


@dataclass(frozen=True, slots=True)
class StepResult:
    """The differences of one step; none means that all was as expected.

    ``got`` is what happened, where that is kept; ``seconds``: how long the step took.
    """

    file: str
    scenario: str
    pod: str
    differences: tuple[Difference, ...]
    got: Outcome | None = field(default=None, compare=False, repr=False)
    seconds: float = field(default=0.0, compare=False, repr=False)

    @property
    def ok(self) -> bool:
        """Whether the step was as expected."""
        return not self.differences


def last_line(results: Sequence[StepResult]) -> str:
    """Return the sentence that ends every report."""
    return f"{sum(r.ok for r in results)} of {len(results)} steps as expected"


def text_lines(results: Sequence[StepResult]) -> Iterator[str]:
    """Yield a line per difference, below its scenario and pod, and one line per file."""
    for file, of_file in groupby(results, key=lambda r: r.file):
        steps = list(of_file)
        for scenario, of_scenario in groupby(steps, key=lambda r: r.scenario):
            wrong = [r for r in of_scenario if not r.ok]
            if wrong:
                yield f"{file}: {scenario}"
            for result in wrong:
                yield f"  {result.pod}"
                for difference in result.differences:
                    yield f"    {difference.field}"
                    yield f"      expected {_shown(difference.expected)}"
                    yield f"      got      {_shown(difference.got)}"
        yield f"{file}: {sum(r.ok for r in steps)} of {len(steps)}"
    yield last_line(results)


def as_json(results: Sequence[StepResult], coverage: Mapping[str, object] | None = None) -> str:
    """Return one JSON document: counts, every difference with its place, and rule coverage."""
    document: dict[str, object] = {
        "steps": len(results),
        "asExpected": sum(r.ok for r in results),
        "differences": [
            {
                "file": r.file,
                "scenario": r.scenario,
                "pod": r.pod,
                "field": d.field,
                "expected": d.expected,
                "got": d.got,
            }
            for r in results
            for d in r.differences
        ],
    }
    if coverage is not None:
        document["coverage"] = coverage
    return json.dumps(document, indent=2, ensure_ascii=False)


def as_junit(results: Sequence[StepResult]) -> str:
    """Return JUnit XML: a suite per file, a case per step."""
    root = ET.Element("testsuites", _counts(results))
    for file, of_file in groupby(results, key=lambda r: r.file):
        steps = list(of_file)
        name = xml_text(file)
        counts = {"name": name, **_counts(steps), "skipped": "0", "file": name}
        suite = ET.SubElement(root, "testsuite", counts)
        for result in steps:
            attributes = {
                "classname": xml_text(result.scenario),
                "name": xml_text(result.pod),
                "time": f"{result.seconds:.3f}",
                "file": name,
            }
            case = ET.SubElement(suite, "testcase", attributes)
            if not result.ok:
                fields = ", ".join(d.field for d in result.differences)
                failure = ET.SubElement(case, "failure", {"message": fields})
                failure.text = xml_text("\n".join(_lines_of(result)))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True)


def as_tap(results: Sequence[StepResult]) -> str:
    """Return TAP version 14: a test per step, with its differences as comments."""
    lines = ["TAP version 14", f"1..{len(results)}"]
    for number, result in enumerate(results, start=1):
        name = one_line(f"{result.file}: {result.scenario}: {result.pod}")
        shown = name.replace("\\", "\\\\").replace("#", "\\#")
        lines.append(f"{'ok' if result.ok else 'not ok'} {number} - {shown}")
        lines += (f"# {line}" for line in _lines_of(result))
    return "\n".join(lines)


def _lines_of(result: StepResult) -> Iterator[str]:
    """Yield what differs, each in a text of its own."""
    for one in result.differences:
        yield one_line(f"{one.field}: expected {_shown(one.expected)}, got {_shown(one.got)}")


def _counts(results: Sequence[StepResult]) -> dict[str, str]:
    failures = sum(not r.ok for r in results)
    seconds = f"{math.fsum(r.seconds for r in results):.3f}"
    tests = str(len(results))
    return {"tests": tests, "failures": str(failures), "errors": "0", "time": seconds}


def _shown(value: Value) -> str:
    return ", ".join(value) or "(none)" if isinstance(value, list) else str(value)
