"""Diagnostics for build servers: JUnit, TAP and SARIF."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from policy_sched.cli.main import run
from policy_sched.cli.output.junit_tap_sarif import as_gitlab, as_junit, as_sarif, as_tap, cases_of
from policy_sched.errors import Diagnostic, Severity

ERROR = Diagnostic("b.yaml", 3, 5, "PS102", "Node has no field 'x'", "did you mean 'y'?", width=2)
WARNING = Diagnostic("c#.yaml", 1, 2, "PS401", "always <true>", severity=Severity.WARNING)
FILES = ["a.yaml", "b.yaml", "c#.yaml"]


@pytest.mark.parametrize(("strict", "failed"), [(False, 1), (True, 2)])
def test_junit_has_a_suite_per_file(strict: bool, failed: int) -> None:
    """Files without a problem are there, too; warnings fail only with the option.

    Build servers showed neither the time of a case nor its file.
    """
    seconds = {"a.yaml": 0.25, "b.yaml": 1.0, "c#.yaml": 0.5}
    root = ET.fromstring(as_junit(cases_of(FILES, [WARNING, ERROR], seconds, strict=strict)))
    counts = {"tests": "3", "failures": str(failed), "errors": "0", "time": "1.750"}
    assert root.attrib == counts
    cases = [(case.get("file"), case.get("time")) for case in root.iter("testcase")]
    assert cases == [("a.yaml", "0.250"), ("b.yaml", "1.000"), ("c#.yaml", "0.500")]
    assert [suite.get("name") for suite in root] == FILES
    failures = [
        case.get("name") for case in root.iter("testcase") if case.find("failure") is not None
    ]
    assert failures == FILES[3 - failed - (not strict) : 3 - (not strict)]
    text = "".join(root.itertext())
    assert "always <true>" in text
    assert "did you mean 'y'?" in text


def test_tap_counts_the_files() -> None:
    """A hash in a name is escaped, and diagnostics are comments."""
    lines = as_tap(cases_of(FILES, [ERROR, WARNING], {})).rstrip().split("\n")
    assert lines[:3] == ["TAP version 14", "1..3", "ok 1 - a.yaml"]
    assert "not ok 2 - b.yaml" in lines
    assert "ok 3 - c\\#.yaml" in lines
    assert all(line.startswith(("#", "ok", "not ok")) for line in lines[2:])


def test_sarif_names_rules_and_places() -> None:
    """One rule per code, a region for each result, and the address that code scanning asks for."""
    log = json.loads(as_sarif([WARNING, ERROR]))
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    assert run["tool"]["driver"]["name"] == "policy-sched"
    assert run["tool"]["driver"]["informationUri"] == "https://policysched.dev/"
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["PS102", "PS401"]
    first, second = run["results"]
    assert first["level"] == "error"
    assert second["level"] == "warning"
    location = first["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "b.yaml"
    assert location["region"] == {"startLine": 3, "startColumn": 5, "endColumn": 7}
    assert run["tool"]["driver"]["rules"][first["ruleIndex"]]["id"] == first["ruleId"]


def test_what_a_file_says_breaks_no_format() -> None:
    """Control characters in XML, spaces in an address, line breaks in the name of a test."""
    odd = Diagnostic("my dir/é#1.yaml", 1, 1, "PS012", "bad quantity '\x01\x1b[31m\ufffe'")
    text = as_junit(cases_of([], [odd], {}))
    assert r"bad quantity '\x01\e[31m" in "".join(ET.fromstring(text).itertext())
    location = json.loads(as_sarif([odd]))["runs"][0]["results"][0]["locations"][0]
    uri = location["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "my%20dir/%C3%A9%231.yaml"
    assert as_tap(cases_of(["a\nb.yaml"], [], {})).splitlines()[2:] == [r"ok 1 - a\\nb.yaml"]


@pytest.mark.parametrize("form", ["junit", "tap", "sarif", "gitlab"])
def test_nothing_found_is_a_document_as_well(
    form: str, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    """A build server gets its file whatever was found."""
    fine = tmp_path_factory.mktemp("fine") / "policy.yaml"
    head = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: P}\n"
    fine.write_text(head + "spec: {score: {expression: '1'}}\n", encoding="utf-8")
    assert run(["check", str(fine), "-o", form]) == 0
    assert capsys.readouterr().out


def test_gitlab_has_an_entry_for_each_problem() -> None:
    """A fingerprint stays when lines move, and no two are alike."""
    first, second, warning = entries = json.loads(as_gitlab([WARNING, ERROR, ERROR]))
    assert first["location"] == {"path": "b.yaml", "lines": {"begin": 3}}
    assert (first["check_name"], first["severity"]) == ("PS102", "critical")
    assert first["description"] == "Node has no field 'x'; did you mean 'y'?"
    assert (warning["severity"], second["severity"]) == ("major", "critical")
    assert len({entry["fingerprint"] for entry in entries}) == 3
    (moved,) = json.loads(as_gitlab([replace(ERROR, line=9)]))
    assert moved["fingerprint"] == first["fingerprint"]
    assert json.loads(as_gitlab([])) == []
