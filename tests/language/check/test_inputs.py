"""Promises of schemas of inputs: what is typed, and what is refused with its place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from policy_sched.errors import Diagnostic
from policy_sched.language.check.inputs import (
    MAX_INPUTS,
    MAX_SCHEMA_FIELDS,
    CheckedInput,
    check_inputs,
)
from policy_sched.language.check.policy import check_policy
from policy_sched.language.diagnostics import (
    InputSource,
    PolicySource,
    QuotaObjects,
    QuotaRule,
    Rule,
    Text,
)
from policy_sched.language.lint import unused_params

QUANTITY = {"x-kubernetes-int-or-string": True, "anyOf": [], "pattern": "^x$"}


def of(schema: object, **more: Any) -> InputSource:
    """Return an input with a schema, as text or as data."""
    content = schema if isinstance(schema, str) else json.dumps(schema)
    given = {"api_version": "example.com/v1", "kind": "Thing", **more}
    return InputSource(Text("things"), schema=Text("s.json"), content=content, **given)


def checked(source: InputSource) -> tuple[tuple[CheckedInput, ...], list[Diagnostic]]:
    """Return the inputs of a policy with one, and the problems."""
    rule = Rule(Text("true"))
    _, problems = check_policy(PolicySource("P", inputs=(source,), filter=(rule,)))
    return check_inputs([source], {}, lambda _problems, _text: None), problems


def record(**properties: object) -> dict[str, object]:
    """Return the schema of an object with some properties."""
    return {"type": "object", "properties": properties}


def test_each_kind_of_field_has_its_type() -> None:
    """A schema's fields are what rules expect: quantities are no texts, maps of them resources."""
    schema = record(
        apiVersion={"type": "string"},
        metadata={"type": "object"},
        spec=record(
            text={"type": "string"},
            time={"type": "string", "format": "date-time"},
            whole={"type": "integer"},
            part={"type": "number"},
            flag={"type": "boolean"},
            amount=QUANTITY,
            amounts={"type": "object", "additionalProperties": QUANTITY},
            texts={"type": "object", "additionalProperties": {"type": "string"}},
            items={"type": "array", "items": record(a={"type": "string"})},
            open={"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        ),
    )
    (entry,), _ = checked(of(schema))
    fields = dict(entry.type.record.fields)
    assert "apiVersion" not in fields
    assert "metadata" not in fields
    spec: Any = fields["spec"]
    assert {name: str(kind) for name, kind in spec.fields} == {
        "text": "string",
        "time": "timestamp",
        "whole": "int",
        "part": "double",
        "flag": "bool",
        "amount": "quantity",
        "amounts": "resources",
        "texts": "map(string, string)",
        "items": "list(inputs.things.spec.items)",
    }
    assert spec.untyped == ("open",)


def deep(levels: int) -> dict[str, Any]:
    """Return a schema of objects in objects."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = record(a=schema)
    return schema


MANY = record(**{f"f{i}": {"type": "string"} for i in range(MAX_SCHEMA_FIELDS + 1)})
RECURSIVE = "a: &a\n  type: object\n  properties: {b: *a}\n"


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (MANY, "PS501: the schema has more than 5000 fields"),
        (deep(40), "PS501: the schema is nested more than 32 deep"),
        (RECURSIVE, "PS701"),
        ("x" * (1 << 20) + "y", "PS501: the schema is larger than 1 MiB"),
        ("a: [", "PS701"),
        ("[1]", "PS801: a schema is one document, a mapping"),
        ("a: 1\n---\nb: 2\n", "PS801: a schema is one document, a mapping"),
    ],
    ids=["fields", "deep", "recursive", "large", "syntax", "list", "several"],
)
def test_hostile_schemas_are_refused(schema: object, words: str) -> None:
    """A schema that blows up is one problem at its place, in bounded time."""
    inputs, problems = checked(of(schema))
    assert inputs == ()
    assert len(problems) == 1
    assert words in f"{problems[0].code}: {problems[0].message}"


CRD = {
    "kind": "CustomResourceDefinition",
    "spec": {
        "group": "example.com",
        "names": {"kind": "Thing"},
        "scope": "Namespaced",
        "versions": [
            {"name": "v1", "schema": {"openAPIV3Schema": record(a={"type": "string"})}},
        ],
    },
}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"kind": "Other"}, "is of kind Thing, the input of Other"),
        ({"api_version": "other.com/v1"}, "is of example.com, the input of other.com"),
        ({"api_version": "example.com/v2"}, "has no version v2"),
    ],
)
def test_a_definition_of_something_else_is_refused(more: dict[str, Any], words: str) -> None:
    """A definition of another kind, group or version than the input's says which it is."""
    (entry,), _ = checked(of(CRD))
    assert entry.namespaced
    inputs, (problem,) = checked(of(CRD, **more))
    assert inputs == ()
    assert (problem.file, problem.code) == ("s.json", "PS801")
    assert words in problem.message


def test_only_what_rules_read_is_kept() -> None:
    """An object costs the fields that rules name; what tells inputs apart follows from them."""
    schema = record(spec=record(a={"type": "string"}, b={"type": "integer"}))

    def with_rule(text: str) -> CheckedInput:
        source = PolicySource("P", inputs=(of(schema),), filter=(Rule(Text(text)),))
        policy, problems = check_policy(source)
        assert policy is not None, problems
        return policy.inputs[0]

    one, other = (
        with_rule(f'inputs.things[?"x"].optMap(t, {test}).orValue(true)')
        for test in ('t.spec.a == "y"', "t.spec.b > 1")
    )
    assert [name for name, _ in dict(one.type.record.fields)["spec"].fields] == ["a"]  # type: ignore[attr-defined]
    assert one.identity != other.identity
    whole = with_rule('inputs.things[?"x"].optMap(t, has(t.spec)).orValue(true)')
    assert [name for name, _ in dict(whole.type.record.fields)["spec"].fields] == ["a", "b"]  # type: ignore[attr-defined]


def test_objects_are_not_compared_as_a_whole() -> None:
    """Two objects that differ in a field that no rule reads would have been equal."""
    rule = Rule(Text('inputs.things["a"] == inputs.things["b"]'))
    _, problems = check_policy(PolicySource("P", inputs=(of(record()),), filter=(rule,)))
    assert "inputs.things is not compared as a whole" in problems[0].message


@pytest.mark.parametrize(
    ("params", "url", "words"),
    [
        ({"address": "127.0.0.1:2020"}, "$(params.address)/watcher", "is no URL of http or https"),
        ({"address": "ftp://a"}, "$(params.address)", "`ftp://a` is no URL"),
        ({"address": "http://a:x"}, "$(params.address)", "is no URL"),
        ({"address": 7}, "http://a:$(params.address)", "`address` of the url is not a string"),
        ({"address": "a"}, "http://$(params.adress)", "did you mean 'address'?"),
        ({}, "$(param.address)", "is no URL"),
    ],
)
def test_a_url_that_leads_nowhere_is_refused(
    params: dict[str, object], url: str, words: str
) -> None:
    """An address without http:// was polled in vain, and all nodes had the score 0."""
    given = of(record(a={"type": "string"}), api_version="", kind="", url=url, poll=1)
    rules = (Rule(Text("true")),)
    _, (problem,) = check_policy(PolicySource("P", params, inputs=(given,), filter=rules))
    assert words in problem.message


def test_parameters_stand_in_a_url() -> None:
    """Where a load watcher is stood in the policy alone: another address needed a copy of it."""
    given = of(record(a={"type": "string"}), api_version="", kind="", poll=1)
    given = replace(given, url="$(params.address)/$(params.path)")
    params = {"address": "http://a:2020", "path": "watcher"}
    (entry,) = check_inputs([given], params, lambda _problems, _text: None)
    assert entry.source.url == "http://a:2020/watcher"
    policy, _ = check_policy(PolicySource("P", params, inputs=(given,)))
    assert policy is not None
    assert unused_params(PolicySource("P", params, inputs=(given,)), policy) == []


def test_a_policy_has_so_many_inputs() -> None:
    """20 of them; each further one is told at its name."""
    schema = record(a={"type": "string"})
    sources = [replace(of(schema), name=Text(f"i{number}")) for number in range(MAX_INPUTS + 2)]
    problems: list[str] = []
    entries = check_inputs(
        sources, {}, lambda found, _text: problems.extend(one.message for one in found)
    )
    assert len(entries) == MAX_INPUTS
    assert problems == [f"more than {MAX_INPUTS} inputs"] * 2


@pytest.mark.parametrize(
    ("number", "path", "status", "problem"),
    [
        ("used", "object.status.used", True, None),
        ("share", "object.status.share", True, None),
        ("used", "object.spec.min", True, ("PS823", "write object.status.used")),
        ("used", "object.status.used + object.spec.min", True, ("PS823", "write object.status.us")),
        ("used", "object.status.share", True, ("PS823", "give the field that type")),
        ("used", "object.status.usde", True, ("PS802", "")),
        ("used", "object.status.used", False, ("PS823", "subresources: {status: {}}")),
        ("usde", "object.status.used", True, ("PS823", "one of used, ")),
    ],
)
def test_a_quota_is_published_in_a_field_of_the_status(
    number: str, path: str, status: bool, problem: tuple[str, str] | None
) -> None:
    """Without a check the API server would have dropped what it does not know, silently."""
    amounts = {"type": "object", "additionalProperties": QUANTITY}
    schema = record(
        spec=record(min=amounts), status=record(used=amounts, share={"type": "integer"})
    )
    version = {"name": "v1", "served": True, "schema": {"openAPIV3Schema": schema}}
    if status:
        version["subresources"] = {"status": {}}
    names = {"plural": "things", "kind": "Thing"}
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
    given = of({"kind": "CustomResourceDefinition", "metadata": {"name": "t"}, "spec": spec})
    objects = QuotaObjects(
        Text("inputs.things"), {"nominal": Text("object.spec.min")}, {number: Text(path)}
    )
    source = PolicySource(
        "P",
        inputs=(given,),
        quotas=(QuotaRule(Text("team"), Text("pod.namespace"), objects),),
        filter=(Rule(Text("true")),),
    )
    _, problems = check_policy(source)
    told = [(found.code, found.hint) for found in problems if found.code != "PS401"]
    if problem is None:
        assert told == []
    else:
        ((code, hint),) = told
        assert code == problem[0]
        assert problem[1] in hint


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("type: object\ntype: object\n", "2:1 duplicate key 'type'"),
        ("type: object\nproperties: [\n", "3:1 did not find expected node content"),
        ("kind: CustomResourceDefinition\n", "1:1 the CustomResourceDefinition is of no kind"),
        ("type: .nan\n", "1:1 the schema holds a number that JSON cannot hold"),
    ],
)
def test_yaml_that_cannot_be_read_has_its_place(text: str, told: str) -> None:
    """All of it was "not valid YAML", at the first character of the file."""
    _, (problem, *_) = checked(of(text))
    assert f"{problem.line}:{problem.column} {problem.message}".startswith(told)
