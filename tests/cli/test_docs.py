"""The verbs `docs` and `schema`: the documentation and the schemas, printed."""

from __future__ import annotations

import json

import pytest

from policy_sched.cli.main import run
from policy_sched.language.diagnostics import codes
from policy_sched.language.reference import entries
from policy_sched.language.stdlib.environment import policy_environment


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command line that is done well and return what it prints."""
    assert run(arguments) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("topic", "words"),
    [
        ("PS412", codes()["PS412"].meaning),
        ("ps412", "code of a problem: warning"),
        ("percent", "percent(int, int) -> int"),
        ("node", "node: Node"),
        ("node.labels", "Node.labels: map(string, string)"),
        ("Node.free", "changes with what runs on a node"),
        ("permit", "permit.timeout: duration"),
        ("exists", "e.exists(x, test)"),
        ("check", "### policy-sched check"),
        ("columns", "### Columns of the pod table"),
        ("tutorial", "# Tutorial: "),
        ("operating.md", "## Endpoints"),
        ("no-sampling", "# Why "),
        ("decisions/no-sampling", "# Why "),
        ("endpoints", "| `/healthz` `/livez` `/readyz` |"),
        ("virtual time", "# example/afternoon.yaml"),
        ("architecture", "Node.architecture: string"),
        ("architecture", "# Architecture"),
    ],
)
def test_one_name_has_its_entry(topic: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Codes, functions, variables, fields, sections, macros, verbs, pages and headings."""
    assert words in printed(capsys, "docs", topic)


def test_everything_that_rules_may_name_has_an_entry() -> None:
    """No name of the tables is missing."""
    environment = policy_environment()
    records = environment.records
    names = [*codes(), *environment.variables, *environment.sections, *records, *environment.macros]
    names += [f"{record.name}.{field}" for record in records.values() for field in record.fields]
    names += [overload.name for overload in environment.overloads]
    assert [name for name in names if not entries(name)] == []


def test_without_a_topic_all_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """The list of pages, the commands and the reference."""
    text = printed(capsys, "docs")
    assert "  simulation: Simulation\n" in text
    assert "## Commands" in text
    assert "## Codes of problems" in text


def test_a_name_that_is_not_there_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """With the nearest one that is."""
    assert run(["docs", "percnt"]) == 2
    assert 'did you mean "percent"?' in capsys.readouterr().err
    assert run(["docs", "tutoriall"]) == 2
    assert 'did you mean "tutorial"?' in capsys.readouterr().err


def test_a_heading_ends_where_the_next_one_begins(capsys: pytest.CaptureFixture[str]) -> None:
    """A comment at the beginning of a line of YAML is no heading."""
    text = printed(capsys, "docs", "virtual time")
    assert text.startswith("## Virtual time\n")
    assert "SIGTERM" not in text
    assert "3 of 3 pods placed" in text
    assert "## Traces" not in text


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("policy", "Policy"),
        ("configuration", "KubeSchedulerConfiguration"),
        ("test", "PolicyTest"),
    ],
)
def test_each_kind_has_its_schema(
    kind: str, title: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSON on standard output, and nothing else."""
    assert json.loads(printed(capsys, "schema", kind))["title"] == title
