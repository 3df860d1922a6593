"""Rules in CEL over custom objects: what they see, what they say, and what they may cost."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.embedded.schema.definition_checks import check_schema, schema_of
from policy_sched.embedded.schema.problems import Problems
from policy_sched.embedded.schema.structural import MISSING
from policy_sched.embedded.schema.validation_rules import SchemaRules, escaped

Plain = dict[str, Any]
INTEGER: Plain = {"type": "integer"}
STRING: Plain = {"type": "string", "maxLength": 20}


def schema(*rules: Any, **properties: Plain) -> Plain:
    """Return the schema of objects whose spec has rules, texts or whole ones."""
    given = [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": given}
    return {"type": "object", "properties": {"spec": spec}}


def said(of: Plain, spec: Any, old: Any = MISSING) -> list[str]:
    """Return what rules say of an object's spec."""
    problems = Problems()
    before = old if old is MISSING else {"spec": old}
    SchemaRules(schema_of(of)).check(problems, {"spec": spec}, before)
    return [f"{at}: {words}" for at, _, words in problems.causes]


def refused(of: Plain) -> list[str]:
    """Return why a schema is refused."""
    problems = Problems()
    check_schema(problems, schema_of(of), "s")
    return [f"{at}: {words}" for at, _, words in problems.causes]


def test_a_rule_that_does_not_hold_is_said() -> None:
    """Objects that a cluster refuses were stored."""
    of = schema("self.min <= self.max", min=INTEGER, max=INTEGER)
    assert refused(of) == []
    assert said(of, {"min": 1, "max": 2}) == []
    assert said(of, {"min": 3, "max": 2}) == [
        'spec: Invalid value: "object": failed rule: self.min <= self.max'
    ]
    assert said(of, {"min": 3}) == [
        'spec: Invalid value: "object": no such key: max evaluating rule: self.min <= self.max'
    ]


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("FieldValueInvalid", 'spec.a: Invalid value: "object": a is 1'),
        ("FieldValueRequired", "spec.a: Required value: a is 1"),
        ("FieldValueForbidden", "spec.a: Forbidden: a is 1"),
        ("FieldValueDuplicate", 'spec.a: Duplicate value: "object"'),
    ],
)
def test_rules_have_messages_reasons_and_places(reason: str, words: str) -> None:
    """The words of a definition's author were lost."""
    rule = {
        "rule": "self.a > 1", "message": "too small", "reason": reason,
        "messageExpression": "'a is ' + string(self.a)", "fieldPath": ".a",
    }  # fmt: skip
    of = schema(rule, a=INTEGER)
    assert refused(of) == []
    assert said(of, {"a": 1}) == [words]


def test_a_message_that_cannot_be_made_falls_back() -> None:
    """Of a messageExpression that fails the message stays."""
    rule = {"rule": "self.a > 1", "message": "too small", "messageExpression": "self.b"}
    of = schema(rule, a=INTEGER, b=STRING)
    assert said(of, {"a": 1}) == ['spec: Invalid value: "object": too small']


def test_transition_rules_compare_with_the_value_before() -> None:
    """Immutable fields could be changed."""
    of = schema("self.a == oldSelf.a", a=INTEGER)
    assert said(of, {"a": 1}) == []
    assert said(of, {"a": 1}, {"a": 1}) == []
    assert said(of, {"a": 2}, {"a": 1}) == [
        'spec: Invalid value: "object": failed rule: self.a == oldSelf.a'
    ]
    rule = {"rule": "oldSelf.hasValue() || self.a == 1", "optionalOldSelf": True}
    optional = schema(rule, a=INTEGER)
    assert refused(optional) == []
    assert said(optional, {"a": 2}) != []
    assert said(optional, {"a": 2}, {"a": 2}) == []


def test_items_of_map_lists_have_a_past() -> None:
    """An item is known by its keys, wherever it stands."""
    item = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": STRING, "a": INTEGER},
        "x-kubernetes-validations": [{"rule": "self.a >= oldSelf.a"}],
    }
    parts = {
        "type": "array", "items": item, "maxItems": 9, "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }  # fmt: skip
    of = schema(parts=parts)
    assert refused(of) == []
    old = {"parts": [{"name": "x", "a": 1}, {"name": "y", "a": 5}]}
    new = {"parts": [{"name": "y", "a": 4}, {"name": "x", "a": 1}]}
    assert said(of, new, old) == [
        'spec.parts[0]: Invalid value: "object": failed rule: self.a >= oldSelf.a'
    ]
    atomic = schema(parts={**parts, "x-kubernetes-list-type": "atomic"})
    del atomic["properties"]["spec"]["properties"]["parts"]["x-kubernetes-list-map-keys"]
    (words,) = refused(atomic)
    assert words.endswith(
        "oldSelf cannot be used on the uncorrelatable portion of the schema within"
        " s.properties[spec].properties[parts]"
    )


def test_what_did_not_change_is_not_refused() -> None:
    """A rule that came later made every update of older objects fail."""
    of = schema("self.a > 1", a=INTEGER, b=INTEGER)
    assert said(of, {"a": 1}, {"a": 1}) == []
    assert said(of, {"a": 1, "b": 1}, {"a": 1}) != []


def test_values_have_the_types_of_the_schema() -> None:
    """Times, numbers, maps, int-or-string and names that CEL reserves."""
    number, time = {"type": "number"}, {"type": "string", "format": "date-time"}
    amounts = {"type": "object", "additionalProperties": INTEGER, "maxProperties": 5}
    of = schema(
        "self.share / 2.0 < 1.0",
        "self.at < timestamp('2030-01-01T00:00:00Z')",
        "self.amounts.all(k, self.amounts[k] > 0)",
        "type(self.either) == int || self.either == '5%'",
        "self.__namespace__ == 'n' && self.a__dash__b == 1",
        share=number, at=time, amounts=amounts, namespace=STRING,
        either={"x-kubernetes-int-or-string": True}, **{"a-b": INTEGER},
    )  # fmt: skip
    assert refused(of) == []
    good = {
        "share": 1, "at": "2026-01-01T00:00:00Z", "amounts": {"x": 1}, "namespace": "n",
        "either": "5%", "a-b": 1,
    }  # fmt: skip
    assert said(of, good) == []
    assert len(said(of, {**good, "amounts": {"x": 0}, "either": "6%"})) == 2
    assert escaped("a/b__c.d") == "a__slash__b__underscores__c__dot__d"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("self.b > 1", "undefined field 'b'"),
        ("self.a ==", "Syntax error"),
        ("self.a", "cel expression must evaluate to a bool"),
        ("self.a == 'x'", "found no matching overload for '_==_' applied to '(int, string)'"),
        ({"rule": "true", "messageExpression": "1"}, "messageExpression must evaluate to a string"),
        ({"rule": " "}, "rule: Required value: rule is not specified"),
        ({"rule": "true\n", "message": " "}, "message must be non-empty if specified"),
        ({"rule": "true\n&& true"}, "message must be specified if rule contains line breaks"),
        ({"rule": "true", "reason": "Bad"}, 'reason: Unsupported value: "Bad": supported values:'),
        ({"rule": "true", "fieldPath": ".b"}, "fieldPath must be a valid path"),
        (
            {"rule": "true", "optionalOldSelf": True},
            "optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule",
        ),
    ],
)
def test_rules_that_are_wrong_are_refused(rule: Any, words: str) -> None:
    """A mistake in a rule showed when the first object came, or never."""
    (refusal,) = refused(schema(rule, a=INTEGER))
    assert words in refusal
    assert refusal.startswith("s.properties[spec].x-kubernetes-validations[0].")


TRY = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays,"
    " maps, and strings are declared)"
)


def test_rules_that_may_cost_too_much_are_refused() -> None:
    """A rule over lists without a limit held up all requests."""
    unbounded = {"type": "array", "items": {"type": "string"}}
    of = schema("self.xs.all(x, self.xs.exists(y, x == y))", xs=unbounded)
    at = "s.properties[spec].x-kubernetes-validations[0].rule"
    total, schemas = "estimated rule cost total", "OpenAPIv3 schema"
    over = "exceeds budget by factor of more than 100x"
    assert refused(of) == [
        f"{at}: Forbidden: estimated rule cost {over} {TRY}",
        f"{at}: Forbidden: contributed to {total} exceeding cost limit for entire {schemas}",
        f"s: Forbidden: x-kubernetes-validations {total} for entire {schemas} {over} {TRY}",
    ]
    bounded = {**unbounded, "maxItems": 10, "items": STRING}
    assert refused(schema("self.xs.all(x, self.xs.exists(y, x == y))", xs=bounded)) == []


def test_more_rules_than_a_schema_may_have_are_refused() -> None:
    """Each is compiled when the definition comes."""
    (words,) = refused(schema(*["self.a > 1"] * 1001, a=INTEGER))
    assert words == "s: Too many: 1001: must have at most 1000 items"
    long = " && ".join(["self.a > 1"] * 600)
    (words,) = refused(schema(*[long] * 8, a=INTEGER))
    assert words == "s: Forbidden: its rules have more than 65536 characters together"


def test_the_rules_of_one_object_have_a_budget() -> None:
    """Rules that are cheap each took long over an object of many items."""
    rule = {"rule": "self.all(x, self.all(y, !x.contains('b')))", "message": "m"}
    inner = {"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": [rule]}
    of = schema(xs=inner)
    (words,) = said(of, {"xs": ["a" * 10_000] * 40})
    assert words == (
        "spec.xs: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no"
        " further validation rules will be run due to call cost exceeds limit for rule: m"
    )
    lists = schema(ys={"type": "array", "items": inner})
    (words,) = said(lists, {"ys": [["a" * 10_000] * 20] * 5})
    assert words == (
        'spec.ys[2]: Invalid value: "array": validation failed due to running out of cost budget,'
        " no further validation rules will be run"
    )
