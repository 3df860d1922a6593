"""Formats of build servers: cases as JUnit XML and TAP, diagnostics as SARIF and Code Quality."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import quote

from policy_sched import __version__
from policy_sched.errors import Diagnostic, Severity, one_line
from policy_sched.language.diagnostics import Code, codes as catalogue
from policy_sched.model import counted
from policy_sched.report import CaseResult, json_text
from policy_sched.source import xml_text

SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
INFORMATION_URI: Final = "https://policysched.dev/"  # the domain of the API group


def by_file(
    files: Sequence[str], diagnostics: Sequence[Diagnostic]
) -> Iterator[tuple[str, list[Diagnostic]]]:
    """Yield every file with what was found in it, files without findings included."""
    groups = {file: list(group) for file, group in groupby(sorted(diagnostics), lambda d: d.file)}
    for file in dict.fromkeys([*files, *groups]):
        yield file, groups.get(file, [])


def failures(problems: Sequence[Diagnostic], *, strict: bool) -> list[Diagnostic]:
    """Return those that fail a build: errors, and if it is strict warnings too."""
    fatal = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    return [problem for problem in problems if problem.severity in fatal]


def cases_of(
    files: Sequence[str],
    diagnostics: Sequence[Diagnostic],
    seconds: Mapping[str, float],
    *,
    strict: bool = False,
) -> Iterator[CaseResult]:
    """Yield a case per file; what does not fail a build is a note.

    ``seconds``: how long each file took.
    """
    for file, problems in by_file(files, diagnostics):
        bad = failures(problems, strict=strict)
        yield CaseResult(
            file,
            "policy-sched.check",
            file,
            file,
            seconds.get(file, 0.0),
            counted(len(bad), "problem") if bad else "",
            tuple(problem.render() for problem in bad),
            tuple(problem.render() for problem in problems if problem not in bad),
        )


def as_junit(cases: Iterable[CaseResult]) -> str:
    """Return JUnit XML: a suite per file."""
    every = list(cases)
    from xml.etree import ElementTree as ET  # noqa: PLC0415  few commands write XML

    root = ET.Element("testsuites", _counts(every))
    for file, group in groupby(every, key=lambda case: case.file):
        of_file = list(group)
        name = xml_text(file)
        attributes = {"name": name, **_counts(of_file), "skipped": "0", "file": name}
        suite = ET.SubElement(root, "testsuite", attributes)
        for result in of_file:
            facts = {"classname": xml_text(result.group), "name": xml_text(result.name)}
            facts |= {"time": f"{result.seconds:.3f}", "file": name}
            case = ET.SubElement(suite, "testcase", facts)
            if result.failure:
                failure = ET.SubElement(case, "failure", {"message": xml_text(result.failure)})
                failure.text = xml_text("\n".join(result.problems))
            if result.notes:
                ET.SubElement(case, "system-out").text = xml_text("\n".join(result.notes))
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _counts(cases: Sequence[CaseResult]) -> dict[str, str]:
    failed = sum(bool(case.failure) for case in cases)
    seconds = math.fsum(case.seconds for case in cases)
    counts = {"tests": str(len(cases)), "failures": str(failed), "errors": "0"}
    return {**counts, "time": f"{seconds:.3f}"}


def as_tap(cases: Iterable[CaseResult]) -> str:
    """Return TAP version 14: a test per case, with what was found as comments."""
    every = list(cases)
    lines = ["TAP version 14", f"1..{len(every)}"]
    for number, case in enumerate(every, start=1):
        title = one_line(case.title).replace("\\", "\\\\").replace("#", "\\#")
        lines.append(f"{'not ok' if case.failure else 'ok'} {number} - {title}")
        remarks = (*case.problems, *case.notes)
        lines += (f"# {line}" for text in remarks for line in text.split("\n"))
    return "\n".join(lines) + "\n"


def as_sarif(diagnostics: Sequence[Diagnostic]) -> str:
    """Return a SARIF 2.1.0 log with one run; a rule for each code that was found."""
    codes = sorted({problem.code for problem in diagnostics})
    numbers = {code: number for number, code in enumerate(codes)}
    run = {
        "tool": {
            "driver": {
                "name": "policy-sched",
                "semanticVersion": __version__,
                "informationUri": INFORMATION_URI,
                "rules": [_rule(code) for code in codes],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(problem, numbers) for problem in sorted(diagnostics)],
    }
    log = {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}
    return json_text(log)


def _rule(code: str) -> dict[str, Any]:
    described = catalogue().get(code, Code(code, ""))
    return {
        "id": code,
        "shortDescription": {"text": described.meaning},
        "help": {"text": f"Run policy-sched docs {code} for an explanation."},
        "defaultConfiguration": {"level": str(described.severity)},
    }


def _result(problem: Diagnostic, numbers: Mapping[str, int]) -> dict[str, Any]:
    text = "\n".join(part for part in (problem.message, problem.context, problem.hint) if part)
    region = {
        "startLine": problem.line,
        "startColumn": problem.column,
        "endColumn": problem.column + problem.width,
    }
    uri = quote(PurePath(problem.file).as_posix(), safe="/")
    location = {"artifactLocation": {"uri": uri}, "region": region}
    return {
        "ruleId": problem.code,
        "ruleIndex": numbers[problem.code],
        "level": str(problem.severity),
        "message": {"text": text},
        "locations": [{"physicalLocation": location}],
    }


_GITLAB: Final = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.NOTE: "info"}


def as_gitlab(diagnostics: Sequence[Diagnostic]) -> str:
    """Return the JSON that GitLab shows as Code Quality in a merge request.

    A fingerprint names a problem from one pipeline to the next, so it has no line in it; equal
    problems of a file are numbered.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    entries = []
    for problem in sorted(diagnostics):
        path = PurePath(problem.file).as_posix()
        identity = (path, problem.code, problem.context, problem.message)
        text = "\0".join((*identity, str(seen[identity])))
        seen[identity] += 1
        entries.append(
            {
                "description": "; ".join(part for part in (problem.message, problem.hint) if part),
                "check_name": problem.code,
                "fingerprint": hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(),
                "severity": _GITLAB[problem.severity],
                "location": {"path": path, "lines": {"begin": problem.line}},
            }
        )
    return json_text(entries)
