"""Promises of the environment: records, variables, sections."""

from __future__ import annotations

import pytest

from policy_sched.language.check.policy import check_expression
from policy_sched.language.stdlib import environment
from policy_sched.language.values import types

ENVIRONMENT = environment.policy_environment()
RECORDS = ENVIRONMENT.records
SECTIONS = [*ENVIRONMENT.sections, environment.ANY, environment.DEFINITION]


def test_every_record_is_described() -> None:
    """Each record type has fields and sentences."""
    for record in RECORDS.values():
        assert record.fields
        for field in record.fields.values():
            assert field.doc.endswith("."), field
            assert field.range is None or (
                field.type == types.INT and field.range[0] < field.range[1]
            )


def test_records_refer_to_records() -> None:
    """A field's type names only records that exist."""
    kinds = [f.type for r in RECORDS.values() for f in r.fields.values()]
    kinds += [v.type for v in ENVIRONMENT.variables.values()]
    named = {p.name for k in kinds for p in types.parts(k) if isinstance(p, types.RecordType)}
    assert named <= set(RECORDS)


@pytest.mark.parametrize("name", SECTIONS)
def test_sections_see_what_exists(name: str) -> None:
    """A section sees variables of the table, the parameters and the policy's variables."""
    visible = ENVIRONMENT.section(name).visible
    assert visible <= {*ENVIRONMENT.variables, "params", "variables"}
    assert {"params", "variables"} <= visible
    assert "pod" in visible or name in ("requeue.every", "measures")


@pytest.mark.parametrize(
    ("name", "field"), [(r, f) for r in ("pod", "node") for f in RECORDS[r.title()].fields]
)
def test_every_field_can_be_read(name: str, field: str) -> None:
    """Each field of pod and node is an expression of its declared type."""
    tree, diagnostics = check_expression(f"{name}.{field}")
    assert diagnostics == []
    assert tree is not None
    assert tree.type == RECORDS[name.title()].fields[field].type


def test_sections_of_a_name() -> None:
    """A name tells in which sections it can be used, and in which part of preemption."""
    sections_with = ENVIRONMENT.sections_with
    assert sections_with("node")[:2] == ("filter", "score")
    assert sections_with("event") == ("requeue",)
    assert sections_with("victim") == ("preemption.victim", "preemption.victimOrder")
    assert sections_with("scores") == ("score.normalize",)


def test_habits_lead_to_names_that_exist() -> None:
    """A name of another language is translated into one of this language."""
    names = {*ENVIRONMENT.variables, *ENVIRONMENT.functions, "true", "false"}
    assert set(ENVIRONMENT.habits.values()) <= names


def test_the_checker_takes_any_environment() -> None:
    """An expression is checked against the environment that is passed, not against a global one."""
    other = environment.Environment(
        variables={"device": environment.Variable("device", types.INT, "S", "A number.")},
        records={},
        sections={
            "selector": environment.Section(
                "selector", frozenset({"device"}), (types.BOOL,), "bool"
            )
        },
        overloads=ENVIRONMENT.overloads,
        habits={},
    )
    tree, _ = check_expression("device > 1", "selector", environment=other)
    assert tree is not None
    _, problems = check_expression("pod.priority > 1", "selector", environment=other)
    assert [one.message for one in problems] == ["no variable is called `pod`"]
