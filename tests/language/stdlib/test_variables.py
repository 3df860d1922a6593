"""Promises of the environment: records, variables, sections."""

from __future__ import annotations

import pytest

from policy_sched.language.check.policy import check_expression
from policy_sched.language.stdlib.declarations import FUNCTIONS
from policy_sched.language.stdlib.variables import (
    ANY,
    DEFINITION,
    HABITS,
    RECORDS,
    SECTIONS,
    VARIABLES,
    sections_with,
)
from policy_sched.language.values.type_parser import RECORD_NAMES
from policy_sched.language.values.types import INT, RecordType
from policy_sched.language.values.unify import parts


def test_every_record_is_described() -> None:
    """Each record type that can be named has fields and sentences."""
    assert set(RECORDS) == set(RECORD_NAMES)
    for record in RECORDS.values():
        assert record.fields
        for field in record.fields.values():
            assert field.doc.endswith("."), field
            assert field.range is None or (field.type == INT and field.range[0] < field.range[1])


def test_records_refer_to_records() -> None:
    """A field's type names only records that exist."""
    kinds = [f.type for r in RECORDS.values() for f in r.fields.values()]
    kinds += [v.type for v in VARIABLES.values()]
    named = {p.name for k in kinds for p in parts(k) if isinstance(p, RecordType)}
    assert named <= set(RECORDS)


@pytest.mark.parametrize("section", [*SECTIONS.values(), ANY, DEFINITION], ids=lambda s: s.name)
def test_sections_see_what_exists(section: object) -> None:
    """A section sees variables of the table, the parameters and the policy's variables."""
    visible = getattr(section, "visible", frozenset[str]())
    assert visible <= {*VARIABLES, "params", "variables"}
    assert {"params", "variables"} <= visible
    assert "pod" in visible or getattr(section, "name", "") == "requeue.every"


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
    assert sections_with("node")[:2] == ("filter", "score")
    assert sections_with("event") == ("requeue",)
    assert sections_with("victim") == ("preemption.victim", "preemption.victimOrder")
    assert sections_with("scores") == ("score.normalize",)


def test_habits_lead_to_names_that_exist() -> None:
    """A name of another language is translated into one of this language."""
    assert set(HABITS.values()) <= {*VARIABLES, *FUNCTIONS, "true", "false"}
