"""x-kubernetes-validations: rules in CEL over the objects of a schema, with upstream's limits.

A schema becomes a type for the checker, sizes for the estimate of costs, and a way to turn JSON
into CEL's values. (apiextensions' schema/cel.)
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from policy_sched.client.apimachinery import parsed
from policy_sched.embedded.schema.problems import Problems
from policy_sched.embedded.schema.structural import (
    META,
    MISSING,
    NOWHERE,
    Rule,
    Schema,
    item_key,
    items_by_key,
)
from policy_sched.language import cel
from policy_sched.language.syntax import KEYWORDS, RESERVED
from policy_sched.language.values import types
from policy_sched.manifests import Plain
from policy_sched.model import formats

EXPRESSION_COST: Final = 10_000_000
"""Units of cost that a rule may take for all the places of an object where it applies."""
SCHEMA_COST: Final = 100_000_000
"""Units that all rules of a schema may take together."""
OBJECT_COST: Final = 1_000_000
"""Units that the rules may spend on one object: a second or two, in which nothing else happens.

kube-apiserver lets them spend ten times as much.
"""
MOST_RULES: Final = 1_000
"""Rules that a schema may have; kube-apiserver has no such limit."""
MOST_TEXT: Final = 64 * 1024
"""Characters of all its rules together; they take a second or two to compile."""
MESSAGE_LENGTH: Final = 5 * 1024
_REQUEST: Final = 3 * 1024 * 1024
"""Bytes of the largest request, which bounds what has no bound of its own."""
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED: Final = re.compile(r"__|\.|-|/")
_NAME: Final = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_META_TYPE: Final = types.RecordType(
    "object", (("name", types.STRING), ("generateName", types.STRING))
)
_TIMES: Final = frozenset({"date", "date-time", "datetime"})
_LINE: Final = re.compile(r"[\n\r]")


def escaped(name: str) -> str:
    """Return what expressions call a field, "" if they cannot."""
    if name in KEYWORDS | RESERVED:
        return f"__{name}__"
    if not _NAME.fullmatch(name):
        return ""
    return _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name)


def type_of(schema: Schema, *, root: bool = False) -> types.Type:
    """Return the type of a schema's values; ``root``: they are objects of their own."""
    if schema.x_int_or_string:
        return types.DYN
    match schema.type:
        case "string" if schema.format in _TIMES:
            return types.TIMESTAMP
        case "string" if schema.format == "duration":
            return types.DURATION
        case "string" if schema.format == "byte":
            return types.BYTES
        case "string":
            return types.STRING
        case "boolean":
            return types.BOOL
        case "integer":
            return types.INT
        case "number":
            return types.DOUBLE
        case "array" if schema.item is not None:
            return types.list_of(type_of(schema.item))
        case "object" if schema.value is not None:
            return types.map_of(types.STRING, type_of(schema.value))
        case "object":
            return types.RecordType("object", tuple(_fields(schema, root=root).items()))
    return types.DYN


def _fields(schema: Schema, *, root: bool) -> dict[str, types.Type]:
    fields = {escaped(name): type_of(inner) for name, inner in schema.properties.items()}
    if root or schema.x_embedded_resource:
        fields |= {"apiVersion": types.STRING, "kind": types.STRING, "metadata": _META_TYPE}
    fields.pop("", None)
    return fields


def least_bytes(schema: Schema) -> int:
    """Return the bytes of JSON that a schema's value has at least."""
    match schema.type:
        case "boolean":
            return 4
        case "integer" | "number":
            return 1
        case "object" if schema.properties:
            names = (name for name in schema.required if name in schema.properties)
            return 2 + sum(len(name) + 4 + least_bytes(schema.properties[name]) for name in names)
    return 1 if schema.x_int_or_string else 2


def shape_of(schema: Schema) -> cel.Shape:
    """Return how large a schema's values may be."""
    if schema.x_int_or_string:
        return cel.Shape("any", _REQUEST)
    match schema.type:
        case "string" if schema.format in _TIMES or schema.format == "duration":
            return cel.Shape()
        case "string":
            return cel.Shape("bytes" if schema.format == "byte" else "string", _length(schema))
        case "array" if schema.item is not None:
            size = _most(schema.max_items, 1 + least_bytes(schema.item))
            return cel.Shape("list", size, element=shape_of(schema.item))
        case "object" if schema.value is not None:
            size = _most(schema.max_properties, 6 + least_bytes(schema.value))
            key = cel.Shape("string", _REQUEST)
            return cel.Shape("map", size, key, shape_of(schema.value))
        case "object":
            fields = {escaped(name): shape_of(part) for name, part in schema.properties.items()}
            return cel.Shape(fields=fields)
    return cel.Shape()


def _length(schema: Schema) -> int:
    if schema.max_length is not None:
        return 4 * schema.max_length
    words = [word for word in schema.enum if isinstance(word, str)]
    return max(map(len, words)) if words else _REQUEST - 2


def _most(given: int | None, least: int) -> int:
    return given if given is not None else (_REQUEST - 2) // least


def value_of(schema: Schema | None, value: Any) -> Any:
    """Return JSON as a value of CEL."""
    if isinstance(value, list):
        item = schema.item if schema is not None else None
        return [value_of(item, inner) for inner in value]
    if isinstance(value, dict):
        if schema is None or not schema.properties:
            of = schema.value if schema is not None else None
            return cel.CelMap({key: value_of(of, inner) for key, inner in value.items()})
        fields = {
            escaped(key): value_of(schema.inner(key), inner)
            for key, inner in value.items()
            if key in schema.properties or key in META
        }
        return cel.CelMap(fields)
    if schema is not None and schema.type == "number" and isinstance(value, int):
        return float(value)
    if schema is not None and schema.type == "string" and isinstance(value, str):
        if schema.format in _TIMES:
            return cel.Timestamp(parsed(value))
        if schema.format == "duration":
            return cel.Duration(formats.nanoseconds_of(value))
    return value


class CompiledRule(msgspec.Struct, frozen=True):
    """A rule with its expressions; ``message`` is None where it has no messageExpression."""

    rule: Rule
    expression: cel.Expression
    message: cel.Expression | None

    @property
    def transition(self) -> bool:
        """Whether the rule compares with the value before."""
        return "oldSelf" in self.expression.reads


def compile_rules(schema: Schema, *, root: bool) -> list[CompiledRule]:
    """Compile the rules of one place of a schema."""
    kind, shape = type_of(schema, root=root), shape_of(schema)
    if root:
        fields = {"metadata": cel.Shape(fields={"name": cel.Shape("string", 253)})}
        shape = cel.Shape(fields={**fields, **(shape.fields or {})})
    compiled = []
    for rule in schema.x_validations:
        old = types.optional_of(kind) if rule.optional_old_self else kind
        names, shapes = {"self": kind, "oldSelf": old}, {"self": shape, "oldSelf": shape}
        expression = cel.compile_expression(rule.rule, names, shapes)
        message = None
        if rule.message_expression.strip():
            message = cel.compile_expression(rule.message_expression, names, shapes)
        compiled.append(CompiledRule(rule, expression, message))
    return compiled


class SchemaRules:
    """The rules of a schema, at all its places; to be made of a schema that was checked."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._compiled: dict[int, list[CompiledRule]] = {}
        self._inside: set[int] = set()
        """Schemas in which there are rules somewhere, by identity."""
        self._compile(schema, root=True)

    def _compile(self, schema: Schema, *, root: bool = False) -> bool:
        if schema.x_validations:
            self._compiled[id(schema)] = compile_rules(schema, root=root)
        parts = [self._compile(part) for _, part in schema.parts("")]
        if any(parts) or schema.x_validations:
            self._inside.add(id(schema))
        return id(schema) in self._inside

    def __bool__(self) -> bool:
        return bool(self._inside)

    def check(self, problems: Problems, value: Any, old: Any) -> None:
        """Note which rules do not hold for an object; ``old``: what it was before, or MISSING."""
        _Run(problems, self._compiled, self._inside).check(self._schema, value, old, "")


class _Run:
    """The rules of one object: what is left of its budget."""

    def __init__(
        self, problems: Problems, rules: dict[int, list[CompiledRule]], inside: set[int]
    ) -> None:
        self._problems = problems
        self._rules = rules
        self._inside = inside
        self._left = OBJECT_COST

    def check(self, schema: Schema, value: Any, old: Any, at: str) -> None:
        """Check the rules of a schema, and those inside."""
        if id(schema) not in self._inside or value is None or self._left < 0:
            return
        if rules := self._rules.get(id(schema)):
            self._check(rules, schema, value, old, at)
        if isinstance(value, list) and schema.item is not None:
            before = items_by_key(schema, old)
            for index, item in enumerate(value):
                key = item_key(schema, item)
                former = before.get(key, MISSING) if key is not None else MISSING
                self.check(schema.item, item, former, f"{at}[{index}]")
        elif isinstance(value, dict):
            for name in value:
                inner = schema.inner(name)
                if inner is not None:
                    former = old.get(name, MISSING) if isinstance(old, dict) else MISSING
                    here = f"{at}.{name}" if at else name
                    self.check(inner, value[name], former, here)

    def _check(
        self, rules: list[CompiledRule], schema: Schema, value: Any, old: Any, at: str
    ) -> None:
        scope = {"self": value_of(schema, value)}
        former = None if old is MISSING or old is None else value_of(schema, old)
        for rule in rules:
            optional = bool(rule.rule.optional_old_self)
            if rule.transition and former is None and not optional:
                continue
            if optional:
                scope["oldSelf"] = cel.Optional(former is not None, former)
            elif former is not None:
                scope["oldSelf"] = former
            if self._left < 0:
                return
            holds, why = self._holds(rule, scope)
            if not holds and not (old is not MISSING and old == value and not rule.transition):
                self._fail(rule, schema, at, why, scope)

    def _holds(self, rule: CompiledRule, scope: Plain) -> tuple[bool, str]:
        """Return whether a rule holds, and why it could not be evaluated."""
        shown = rule.rule.message.strip() or rule.rule.rule.strip()
        try:
            holds, cost = rule.expression.value(scope, math.inf)
        except cel.CostError as error:
            self._left = -1
            return False, (
                f"'{error}': no further validation rules will be run due to call cost exceeds"
                f" limit for rule: {shown}"
            )
        except cel.CelError as error:
            self._left -= 1
            if str(error).startswith("no such overload"):
                return False, (
                    f"'{error}': call arguments did not match a supported operator, function or"
                    f" macro signature for rule: {shown}"
                )
            return False, f"{error} evaluating rule: {shown}"
        self._left -= cost
        if self._left < 0:
            return False, (
                "validation failed due to running out of cost budget, no further validation"
                " rules will be run"
            )
        return holds is True, ""

    def _fail(self, rule: CompiledRule, schema: Schema, at: str, why: str, scope: Plain) -> None:
        kind, problems = schema.type, self._problems
        if why:
            problems.invalid(at, kind, why)
            return
        default = rule.rule.message.strip() or f"failed rule: {rule.rule.rule.strip()}"
        detail = self._message(rule, scope) or default
        steps = list(path_steps(rule.rule.field_path, schema)) if rule.rule.field_path else []
        where = (at + "".join(text for text, _ in steps)).removeprefix(".")
        match rule.rule.reason:
            case "FieldValueRequired":
                problems.required(where, detail)
            case "FieldValueForbidden":
                problems.forbidden(where, detail)
            case "FieldValueDuplicate":
                problems.duplicate(where, kind)
            case _:
                problems.invalid(where, kind, detail)

    def _message(self, rule: CompiledRule, scope: Plain) -> str:
        """Return the text of a rule's messageExpression, "" if it gives none."""
        if rule.message is None:
            return ""
        try:
            text, cost = rule.message.value(scope, max(self._left, 0))
        except cel.CelError:
            return ""
        self._left -= cost
        fits = isinstance(text, str) and len(text) <= MESSAGE_LENGTH and not _LINE.search(text)
        return text.strip() if fits else ""


_STEP: Final = re.compile(r"\.([^.\[\]']+)|\['((?:[^'\\]|\\.)*)'\]")


def path_steps(path: str, schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Yield the steps of a fieldPath as messages have them, with the schemas that they lead to.

    Raises ValueError where it does not lead to a field.
    """
    end = 0
    for match in _STEP.finditer(path):
        name = match[1] or re.sub(r"\\(.)", r"\1", match[2] or "")
        inner = schema.inner(name)
        if match.start() != end or inner is None:
            break
        yield f".{name}" if schema.properties else f"[{name}]", inner
        schema, end = inner, match.end()
    if end != len(path) or not path:
        raise ValueError("does not refer to a valid field")


class RuleCosts:
    """Checks the rules of a new schema: that they compile, and what they cost."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._total = 0.0
        self._expensive: list[tuple[str, float]] = []
        self._count = 0
        self._text = 0

    def check(
        self, schema: Schema, at: str, cardinality: float, *, root: bool, uncorrelated: str
    ) -> None:
        """Check the rules of one place.

        ``cardinality``: how often it is there in an object, infinite if nothing limits it.
        ``uncorrelated``: the place within which values have no value before, "" if they have.
        """
        self._count += len(schema.x_validations)
        self._text += sum(len(r.rule) + len(r.message_expression) for r in schema.x_validations)
        if self._count > MOST_RULES or self._text > MOST_TEXT:
            return
        count = cardinality
        if not math.isfinite(cardinality):
            count = _REQUEST // (least_bytes(schema) + 1)
        for index, compiled in enumerate(compile_rules(schema, root=root)):
            here = f"{at}.x-kubernetes-validations[{index}]"
            self._check(compiled, here, count, uncorrelated)

    def _check(self, compiled: CompiledRule, at: str, count: float, uncorrelated: str) -> None:
        problems, rule = self._problems, compiled.rule
        shown = msgspec.to_builtins(rule)
        parts = [
            ("rule", compiled.expression, types.BOOL, "cel expression must evaluate to a bool")
        ]
        if compiled.message is not None:
            must = "messageExpression must evaluate to a string"
            parts.append(("messageExpression", compiled.message, types.STRING, must))
        for name, expression, wanted, must in parts:
            if expression.error:
                problems.invalid(f"{at}.{name}", shown, expression.error)
            elif expression.result not in (wanted, types.DYN):
                problems.invalid(f"{at}.{name}", shown, must)
            cost = expression.cost * (count if name == "rule" else 1)
            self._total += cost
            self._expensive.append((f"{at}.{name}", cost))
            if cost > EXPRESSION_COST:
                what = "estimated rule cost" if name == "rule" else f"estimated {name} cost"
                problems.forbidden(f"{at}.{name}", _exceeded(what, cost, EXPRESSION_COST))
        if compiled.transition and uncorrelated:
            why = "oldSelf cannot be used on the uncorrelatable portion of the schema within"
            problems.invalid(f"{at}.rule", rule.rule, f"{why} {uncorrelated}")
        if not compiled.transition and rule.optional_old_self is not None:
            why = "may not be set if oldSelf is not used in rule"
            problems.invalid(f"{at}.optionalOldSelf", rule.optional_old_self, why)

    def finish(self, at: str) -> None:
        """Check what all rules cost together."""
        if self._count > MOST_RULES:
            self._problems.too_many(at, self._count, MOST_RULES)
        if self._text > MOST_TEXT:
            why = f"its rules have more than {MOST_TEXT} characters together"
            self._problems.forbidden(at, why)
        if self._total > SCHEMA_COST:
            self._expensive.sort(key=lambda pair: -pair[1])
            why = "contributed to estimated rule cost total exceeding cost limit for entire"
            for where, cost in self._expensive[:4]:
                if cost > SCHEMA_COST / 100:
                    self._problems.forbidden(where, f"{why} OpenAPIv3 schema")
            what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
            self._problems.forbidden(at, _exceeded(what, self._total, SCHEMA_COST))


def _exceeded(what: str, cost: float, limit: float) -> str:
    factor = cost / limit
    shown = (
        "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    )
    return (
        f"{what} exceeds budget by factor of {shown} (try simplifying the rule, or adding maxItems,"
        " maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )


UNCHECKED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing"
    " errors to complete validation"
)
_BLOCKING: Final = frozenset({
    "FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany",
    "FieldValueTypeInvalid",
})  # fmt: skip


def unchecked(problems: Problems) -> bool:
    """Return whether the rules cannot be checked of an object with these problems, and note it."""
    if not any(reason in _BLOCKING for _, reason, _ in problems.causes):
        return False
    problems.invalid(NOWHERE, None, UNCHECKED)
    return True
