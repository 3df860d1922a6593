"""Diagnostics in the forms that build servers read: JUnit XML, TAP, SARIF and GitLab's."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import PurePath
from typing import Any, Final
from urllib.parse import quote
from xml.etree import ElementTree as ET

from policy_sched import __version__
from policy_sched.errors import Diagnostic, Severity, one_line
from policy_sched.language.diagnostics import Code
from policy_sched.language.diagnostics import codes as catalogue
from policy_sched.source import xml_text

SARIF_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def by_file(
    files: Sequence[str], diagnostics: Sequence[Diagnostic]
) -> Iterator[tuple[str, list[Diagnostic]]]:
    """Yield every file with what was found in it, files without findings included."""
    found = {file: list(group) for file, group in groupby(sorted(diagnostics), lambda d: d.file)}
    for file in dict.fromkeys([*files, *found]):
        yield file, found.get(file, [])


def failures(found: Sequence[Diagnostic], *, strict: bool) -> list[Diagnostic]:
    """Return those that fail a build: errors, and if it is strict warnings too."""
    fatal = {Severity.ERROR, Severity.WARNING} if strict else {Severity.ERROR}
    return [one for one in found if one.severity in fatal]


def as_junit(
    files: Sequence[str],
    diagnostics: Sequence[Diagnostic],
    seconds: Mapping[str, float],
    *,
    strict: bool = False,
) -> str:
    """Return JUnit XML: a suite and a case per file; what does not fail a build is its output.

    ``seconds``: how long each file took.
    """
    root = ET.Element("testsuites")
    failed = total = 0
    for file, found in by_file(files, diagnostics):
        bad = failures(found, strict=strict)
        total += 1
        failed += bool(bad)
        name = xml_text(file)
        counts = {"tests": "1", "failures": str(int(bool(bad))), "errors": "0", "skipped": "0"}
        spent = {"time": f"{seconds.get(file, 0.0):.3f}", "file": name}
        suite = ET.SubElement(root, "testsuite", {"name": name, **counts, **spent})
        of_case = {"classname": "policy-sched.check", "name": name, **spent}
        case = ET.SubElement(suite, "testcase", of_case)
        if bad:
            failure = ET.SubElement(case, "failure", {"message": _count(len(bad))})
            failure.text = _rendered(bad)
        rest = [one for one in found if one not in bad]
        if rest:
            ET.SubElement(case, "system-out").text = _rendered(rest)
    spent_in_all = f"{sum(seconds.values()):.3f}"
    root.attrib.update({"tests": str(total), "failures": str(failed), "errors": "0"})
    root.set("time", spent_in_all)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True)


def as_tap(files: Sequence[str], diagnostics: Sequence[Diagnostic], *, strict: bool = False) -> str:
    """Return TAP version 14: a test per file, with its diagnostics as comments."""
    groups = list(by_file(files, diagnostics))
    lines = ["TAP version 14", f"1..{len(groups)}"]
    for number, (file, found) in enumerate(groups, start=1):
        bad = failures(found, strict=strict)
        shown = one_line(file).replace("\\", "\\\\").replace("#", "\\#")
        lines.append(f"{'not ok' if bad else 'ok'} {number} - {shown}")
        lines += (f"# {line}" for one in found for line in one.render().split("\n"))
    return "\n".join(lines)


def as_sarif(diagnostics: Sequence[Diagnostic]) -> str:
    """Return a SARIF 2.1.0 log with one run; a rule for each code that was found."""
    codes = sorted({one.code for one in diagnostics})
    numbers = {code: number for number, code in enumerate(codes)}
    run = {
        "tool": {
            "driver": {
                "name": "policy-sched",
                "semanticVersion": __version__,
                "rules": [_rule(code) for code in codes],
            }
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(one, numbers) for one in sorted(diagnostics)],
    }
    log = {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=False)


def _rule(code: str) -> dict[str, Any]:
    known = catalogue().get(code, Code(code, ""))
    return {
        "id": code,
        "shortDescription": {"text": known.meaning},
        "help": {"text": f"Run policy-sched docs {code} for an explanation."},
        "defaultConfiguration": {"level": str(known.severity)},
    }


def _result(one: Diagnostic, numbers: Mapping[str, int]) -> dict[str, Any]:
    text = "\n".join(part for part in (one.message, one.context, one.hint) if part)
    region = {
        "startLine": one.line,
        "startColumn": one.column,
        "endColumn": one.column + one.width,
    }
    uri = quote(PurePath(one.file).as_posix(), safe="/")
    place = {"artifactLocation": {"uri": uri}, "region": region}
    return {
        "ruleId": one.code,
        "ruleIndex": numbers[one.code],
        "level": str(one.severity),
        "message": {"text": text},
        "locations": [{"physicalLocation": place}],
    }


_GITLAB: Final = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.NOTE: "info"}


def as_gitlab(diagnostics: Sequence[Diagnostic]) -> str:
    """Return the JSON that GitLab shows as Code Quality in a merge request.

    A fingerprint names a problem from one pipeline to the next, so it has no line in it; equal
    problems of a file are numbered.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    entries = []
    for one in sorted(diagnostics):
        path = PurePath(one.file).as_posix()
        identity = (path, one.code, one.context, one.message)
        text = "\0".join((*identity, str(seen[identity])))
        seen[identity] += 1
        entries.append(
            {
                "description": "; ".join(part for part in (one.message, one.hint) if part),
                "check_name": one.code,
                "fingerprint": hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(),
                "severity": _GITLAB[one.severity],
                "location": {"path": path, "lines": {"begin": one.line}},
            }
        )
    return json.dumps(entries, indent=2, ensure_ascii=False)


def _rendered(diagnostics: Sequence[Diagnostic]) -> str:
    return xml_text("\n".join(one.render() for one in diagnostics))


def _count(problems: int) -> str:
    return "1 problem" if problems == 1 else f"{problems} problems"
