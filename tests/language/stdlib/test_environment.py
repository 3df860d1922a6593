"""Promises of the environment: records, variables, sections.

Promises of the overload table.
"""

from __future__ import annotations

import re

import pytest

from policy_sched.language.check.policy import check_expression
from policy_sched.language.stdlib import environment
from policy_sched.language.stdlib.environment import Overload, choose, closest
from policy_sched.language.values import types

ENVIRONMENT = environment.policy_environment()
RECORDS = ENVIRONMENT.records
SECTIONS = [*ENVIRONMENT.sections, environment.ANY, environment.DEFINITION]


def test_every_record_is_described() -> None:
    """Each record type has fields and sentences."""
    for record in RECORDS.values():
        assert record.fields or record.name in ("Aggregates", "Quotas")  # those of the policy
        for field in record.fields.values():
            assert field.doc.endswith("."), field
            assert field.range is None or (
                field.type == types.INT and field.range[0] < field.range[1]
            )


def test_records_refer_to_records() -> None:
    """A field's type names only records that exist."""
    kinds = [f.type for r in RECORDS.values() for f in r.fields.values()]
    kinds += [v.type for v in ENVIRONMENT.variables.values()]
    records = (p for k in kinds for p in types.parts(k) if isinstance(p, types.RecordType))
    named = {record.name for record in records if not isinstance(record, types.ObjectType)}
    assert named <= set(RECORDS)


#: Sections of objects that may depend on parameters; keys and parents are facts of an object.
PARAMETRIC = {"quotas.amounts", "quotas.weight", "quotas.priority"}


@pytest.mark.parametrize("name", SECTIONS)
def test_sections_see_what_exists(name: str) -> None:
    """A section sees variables of the table, the parameters and the policy's variables."""
    visible = ENVIRONMENT.section(name).visible
    assert visible <= {*ENVIRONMENT.variables, "params", "variables", "inputs"}
    if name == "inputs.key" or (name.startswith("quotas.") and name != "quotas.pods"):
        assert visible - {"params"} == {"object"}
        assert ("params" in visible) == (name in PARAMETRIC)
        return
    if name == "abortWhen":  # of a rollout, which has no parameters
        assert visible == {"stable", "candidate"}
        return
    assert {"params", "variables"} <= visible
    without_pod = (
        "requeue.every",
        "aggregates.since",
        "measures",
        "queueOrder.keys",
        "queueOrder.strict",
    )
    assert "pod" in visible or name in without_pod


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


SPELLINGS = ENVIRONMENT.overloads
FUNCTIONS, METHODS, OPERATORS = ENVIRONMENT.functions, ENVIRONMENT.methods, ENVIRONMENT.operators
OVERLOADS = {overload.id: overload for overload in reversed(SPELLINGS)}


def an_example(kind: types.Type) -> types.Type:
    """Return a type without variables that suits a parameter of type ``kind``."""
    match kind:
        case types.TypeVariable():
            return types.INT
        case types.ListType():
            return types.list_of(an_example(kind.element))
        case types.OptionalType():
            return types.optional_of(an_example(kind.element))
        case types.MapType():
            return types.map_of(an_example(kind.key), an_example(kind.value))
    return types.map_of(types.STRING, types.INT) if kind == types.RAW else kind


@pytest.mark.parametrize("overload", SPELLINGS, ids=lambda o: o.signature)
def test_every_overload_can_be_chosen(overload: Overload) -> None:
    """An overload is found by its name and takes the types that it declares."""
    table = {"operator": OPERATORS, "function": FUNCTIONS}.get(overload.kind, METHODS)
    candidates = [
        o for o in table[overload.name] if len(o.params) == len(overload.params) or o.variadic
    ]
    choice = choose(candidates, [an_example(p) for p in overload.params])
    assert choice is not None
    assert choice.overload.id == overload.id
    if overload.kind == "either":
        assert overload in FUNCTIONS[overload.name]


@pytest.mark.parametrize("overload", OVERLOADS.values(), ids=lambda o: o.id)
def test_every_overload_is_described(overload: Overload) -> None:
    """An id is a word, and a sentence says what the overload does."""
    assert re.fullmatch(r"[A-Za-z]\w*", overload.id)
    assert overload.doc.endswith(".")
    namespace = overload.name.partition(".")[0] if "." in overload.name else ""
    assert not namespace or namespace in ENVIRONMENT.namespaces


def test_ids_are_names_and_types() -> None:
    """The ids by which builtins are keyed keep their form."""
    wanted = {
        *("add_int_int", "neg_int", "not_bool", "eq_any_any", "lt_int_double", "in_any_list"),
        *("percent_quantity_quantity", "matches_selector_map", "matches_string_string"),
        *("size_list", "min_any", "min_list", "tolerates_pod_taint", "optional_none"),
        *("math_round_double", "fitsIn_resources_resources_list_list", "matchesAffinity_node_raw"),
    }
    assert wanted <= set(OVERLOADS)


def test_two_spellings_may_be_one_overload() -> None:
    """Sums of quantities are one builtin, written with an operator or with a method."""
    assert [o.id for o in METHODS["add"]] == ["add_quantity_quantity", "add_quantity_int"]
    assert OVERLOADS["add_quantity_quantity"].kind == "operator"
    assert len(SPELLINGS) == len(OVERLOADS) + 2


@pytest.mark.parametrize(
    ("name", "signature"),
    [
        ("add_int_int", "int + int -> int"),
        ("neg_int", "-int -> int"),
        ("contains_string_string", "string.contains(string) -> bool"),
        ("percent_int_int", "percent(int, int) -> int"),
        ("min_any", "min(ordered, ...) -> ordered"),
        ("optional_none", "optional.none() -> optional(unknown)"),
    ],
)
def test_signatures_read_as_written(name: str, signature: str) -> None:
    """A signature is what an author would write, with types for values."""
    assert OVERLOADS[name].signature == signature


def test_unknown_arguments_take_the_common_result() -> None:
    """An argument of unknown type leaves the result open only where overloads differ in it."""
    by_sign = {op: [o for o in OPERATORS[op] if len(o.params) == 2] for op in "+<"}
    opened = choose(by_sign["+"], [types.UNKNOWN, types.UNKNOWN])
    assert opened is not None
    assert opened.result == types.UNKNOWN
    compared = choose(by_sign["<"], [types.UNKNOWN, types.UNKNOWN])
    assert compared is not None
    assert str(compared.result) == "bool"


def test_dimensions_of_a_call() -> None:
    """Quantities of a call agree on one dimension, or the call names the two that do not."""
    candidates = FUNCTIONS["percent"]
    agreed = choose(candidates, [types.quantity_of("cpu"), types.quantity_of("free")])
    assert agreed is not None
    assert (agreed.dimension, agreed.clash) == ("cpu", ())
    differing = choose(candidates, [types.quantity_of("cpu"), types.quantity_of("bytes")])
    assert differing is not None
    assert differing.clash == ("bytes", "cpu")


def test_the_nearest_overloads_are_offered() -> None:
    """The overloads that miss the arguments by least come first."""
    assert closest(FUNCTIONS["percent"], [types.INT, types.STRING])[0] == "percent(int, int) -> int"


@pytest.mark.parametrize(
    "text", ["size()", "min()", "clamp(1)", "optional.none(1)", "now.getHours(1)"]
)
def test_the_number_of_arguments_counts(text: str) -> None:
    """Too few or too many arguments are no overload."""
    assert [d.code for d in check_expression(text)[1]] == ["PS201"]
