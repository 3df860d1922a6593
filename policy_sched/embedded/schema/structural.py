"""Structural schemas: what a CustomResourceDefinition says of its objects, and what follows.

An object is pruned, completed with defaults and validated by walking schema and object side by
side. What an object had before and still has is not validated again (ratcheting), so a schema may
become stricter under existing objects. (apiextensions' structural schemas, and kube-openapi's
validation.)
"""

from __future__ import annotations

import ipaddress
import json
import math
import uuid
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
import re2

from policy_sched.client.apimachinery import encoded, parsed
from policy_sched.embedded.schema.problems import MOST_STEPS, Problems
from policy_sched.manifests import Plain
from policy_sched.model import formats

MISSING: Final = object()
"""Instead of a value that is not there."""
NOWHERE: Final = "<nil>"
"""The place of problems that kube-apiserver reports without one."""
META: Final = ("apiVersion", "kind", "metadata")
SEARCHED: Final = 1000
"""Characters of a text times instructions of a pattern that take as long as a look at a value."""
ENUMERATED: Final = 50
"""Values of an enumeration that take as long."""


class Rule(msgspec.Struct, rename="camel", omit_defaults=True):
    """One of x-kubernetes-validations."""

    rule: str = ""
    message: str = ""
    message_expression: str = ""
    reason: str | None = None
    field_path: str = ""
    optional_old_self: bool | None = None


_NAMES: Final = {
    "one_of": "oneOf", "all_of": "allOf", "any_of": "anyOf", "negated": "not", "ref": "$ref",
    "meta_schema": "$schema",
    **{f"x_{name.replace('-', '_')}": f"x-kubernetes-{name}" for name in (
        "preserve-unknown-fields", "embedded-resource", "int-or-string", "list-map-keys",
        "list-type", "map-type", "validations",
    )},
}  # fmt: skip


def _field_name(name: str) -> str:
    first, *others = name.split("_")
    return _NAMES.get(name) or first + "".join(word.capitalize() for word in others)


class Schema(msgspec.Struct, rename=_field_name, omit_defaults=True):
    """JSONSchemaProps. What is never allowed has the type Any."""

    type: str = ""
    format: str = ""
    title: str = ""
    description: str = ""
    default: Any = None
    maximum: int | float | None = None
    exclusive_maximum: bool = False
    minimum: int | float | None = None
    exclusive_minimum: bool = False
    max_length: int | None = None
    min_length: int | None = None
    pattern: str = ""
    max_items: int | None = None
    min_items: int | None = None
    unique_items: bool = False
    multiple_of: int | float | None = None
    enum: list[Any] = []
    max_properties: int | None = None
    min_properties: int | None = None
    required: list[str] = []
    items: Schema | list[Any] | None = None
    all_of: list[Schema] = []
    one_of: list[Schema] = []
    any_of: list[Schema] = []
    negated: Schema | None = None
    properties: dict[str, Schema] = {}
    additional_properties: Schema | bool | None = None
    nullable: bool = False
    example: Any = None
    external_docs: dict[str, str] | None = None
    ref: str | None = None
    meta_schema: str = ""
    id: str = ""
    additional_items: Any = None
    pattern_properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    dependencies: dict[str, Any] = {}
    x_preserve_unknown_fields: bool | None = None
    x_embedded_resource: bool = False
    x_int_or_string: bool = False
    x_list_map_keys: list[str] = []
    x_list_type: str | None = None
    x_map_type: str | None = None
    x_validations: list[Rule] = []

    @property
    def item(self) -> Schema | None:
        """The schema of a list's items."""
        return self.items if isinstance(self.items, Schema) else None

    @property
    def value(self) -> Schema | None:
        """The schema of a map's values."""
        given = self.additional_properties
        return given if isinstance(given, Schema) else None

    def inner(self, name: str) -> Schema | None:
        """Return the schema of a field, or of a key of a map."""
        return self.properties.get(name) or self.value

    def parts(self, at: str) -> Iterator[tuple[str, Schema]]:
        """Yield the schemas of what is inside, with the places."""
        for name, schema in sorted(self.properties.items()):
            yield f"{at}.properties[{name}]", schema
        if self.value is not None:
            yield f"{at}.additionalProperties", self.value
        if self.item is not None:
            yield f"{at}.items", self.item

    def conditions(self, at: str) -> Iterator[tuple[str, Schema]]:
        """Yield the conditions on a value besides the schema's own, with the places."""
        for word, schemas in (
            ("allOf", self.all_of),
            ("anyOf", self.any_of),
            ("oneOf", self.one_of),
        ):
            yield from ((f"{at}.{word}[{index}]", schema) for index, schema in enumerate(schemas))
        if self.negated is not None:
            yield f"{at}.not", self.negated


KNOWN: Final = {field.encode_name: field.name for field in msgspec.structs.fields(Schema)}
_SCHEMAS: Final = frozenset({"items", "not", "additionalProperties"})
_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf"})


def unknown_in_schema(given: Any, at: str) -> Iterator[str]:
    """Yield the paths of fields that no schema has."""
    for name, value in given.items() if isinstance(given, dict) else ():
        if name not in KNOWN:
            yield f"{at}.{name}"
        elif name in _SCHEMAS:
            yield from unknown_in_schema(value, f"{at}.{name}")
        elif name in _LISTS and isinstance(value, list):
            for index, item in enumerate(value):
                yield from unknown_in_schema(item, f"{at}.{name}[{index}]")
        elif name == "properties" and isinstance(value, dict):
            for key, item in value.items():
                yield from unknown_in_schema(item, f"{at}.properties[{key}]")


# Pruning and defaults.


def prune(schema: Schema, value: Any, at: str, *, root: bool = False) -> Iterator[str]:
    """Remove what a schema does not have, in place; yield the paths of it.

    ``root``: the value is an object of its own, whose metadata are not the schema's.
    """
    if isinstance(value, list):
        for index, item in enumerate(value):
            if schema.item is not None:
                yield from prune(schema.item, item, f"{at}[{index}]")
        return
    if not isinstance(value, dict):
        return
    whole = root or schema.x_embedded_resource
    for name in list(value):
        here = f"{at}.{name}" if at else name
        inner = schema.inner(name)
        if whole and name in META:
            continue
        if inner is not None:
            yield from prune(inner, value[name], here)
        elif not schema.x_preserve_unknown_fields and schema.additional_properties is not True:
            del value[name]
            yield here


def complete(schema: Schema, value: Any) -> None:
    """Write defaults where an object has nothing, in place; nulls that may not be are removed."""
    if isinstance(value, list):
        for item in value:
            if schema.item is not None:
                complete(schema.item, item)
        return
    if not isinstance(value, dict):
        return
    for name in list(value):
        inner = schema.inner(name)
        if value[name] is None and inner is not None and not inner.nullable:
            del value[name]
    for name, inner in schema.properties.items():
        if name not in value and inner.default is not None:
            value[name] = msgspec.json.decode(encoded(inner.default))
    for name in value:
        inner = schema.inner(name)
        if inner is not None:
            complete(inner, value[name])


# Validation.


def type_of(value: object) -> str:
    """Return the name of a value's type."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
    return "array" if isinstance(value, list) else "object"


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> Any:
    """Return a pattern compiled. Raises ValueError if it is none."""
    options = re2.Options()
    options.log_errors = False  # RE2 would write them to standard error
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0] if error.args else ""
        raise ValueError(why.decode() if isinstance(why, bytes) else str(why)) from None


def _matches(problems: Problems, pattern: str, text: str) -> bool:
    expression = compiled(pattern)
    steps = len(text) * expression.programsize // SEARCHED
    return not problems.spend(steps) or expression.search(text) is not None


def _has_zone(text: str) -> None:
    if "T" not in text.upper() or (text[-1] not in "Zz" and text[-6:-5] not in "+-"):
        raise ValueError
    parsed(text)


def _check_url(text: str) -> None:
    if not urlsplit(text).scheme and not text.startswith("/"):
        raise ValueError


_FORMATS: Final[dict[str, Callable[[str], object]]] = {
    "date-time": _has_zone,
    "datetime": _has_zone,
    "date": lambda text: parsed(f"{text}T00:00:00Z") if len(text) == 10 else int(""),
    "duration": formats.nanoseconds_of,
    "ipv4": ipaddress.IPv4Address,
    "ipv6": ipaddress.IPv6Address,
    "cidr": lambda text: ipaddress.ip_network(text, strict=False) if "/" in text else int(""),
    "uuid": uuid.UUID,
    "byte": lambda text: b64decode(text, validate=True),
    "uri": _check_url,
    "hostname": lambda text: int("") if list(formats.subdomain(text.lower())) else None,
}
"""What a format of texts must be readable as; others are not checked, as in kube-apiserver."""
_WIDTHS: Final = {"int32": 2**31, "int64": 2**63}


def _readable(form: str, text: str) -> bool:
    try:
        _FORMATS[form](text)
    except (ValueError, IndexError, OverflowError):
        return False
    return True


def validate(problems: Problems, schema: Schema, value: Any, at: str, old: Any = MISSING) -> None:
    """Note what is wrong with a value; ``old``: what it was before."""
    _validate(problems, schema, value, at, old)
    if problems.exhausted:
        problems.forbidden(at, f"checking it by its schema takes more than {MOST_STEPS} steps")


def _validate(problems: Problems, schema: Schema, value: Any, at: str, old: Any = MISSING) -> None:
    if old is not MISSING and old == value and type(old) is type(value):
        return
    if (value is None and schema.nullable) or not problems.spend(
        1 + len(schema.enum) // ENUMERATED
    ):
        return
    where = f"{at} in body"
    wanted = ("integer", "string") if schema.x_int_or_string else (schema.type,)
    actual = type_of(value)
    if schema.type == "number" and actual == "integer":
        actual = "number"
    if any(wanted) and actual not in wanted:
        problems.wrong_type(at, actual, f'{where} must be of type {",".join(wanted)}: "{actual}"')
        return
    if schema.enum and value not in schema.enum:
        words = [word if isinstance(word, str) else encoded(word).decode() for word in schema.enum]
        problems.unsupported(at, value, words)
    match value:
        case str():
            _check_text(problems, schema, value, at)
        case bool():
            pass
        case int() | float():
            _check_number(problems, schema, value, at)
        case list():
            _check_list(problems, schema, value, at, old)
        case dict():
            _check_object(problems, schema, value, at, old)
    _check_conditions(problems, schema, value, at)


def _check_text(problems: Problems, schema: Schema, text: str, at: str) -> None:
    where = f"{at} in body"
    if schema.max_length is not None and len(text) > schema.max_length:
        problems.too_long(at, schema.max_length)
    if schema.min_length is not None and len(text) < schema.min_length:
        why = f"{where} should be at least {schema.min_length} chars long"
        problems.invalid(at, text, why)
    if schema.pattern and not _matches(problems, schema.pattern, text):
        problems.invalid(at, text, f"{where} should match '{schema.pattern}'")
    if schema.format in _FORMATS and not _readable(schema.format, text):
        shown = json.dumps(text, ensure_ascii=False)
        problems.invalid(at, text, f"{where} must be of type {schema.format}: {shown}")


def _check_number(problems: Problems, schema: Schema, number: float, at: str) -> None:
    where = f"{at} in body"
    width = _WIDTHS.get(schema.format)
    if width is not None and not -width <= number < width:
        why = f"Checked value must be of type {schema.type} with format {schema.format}"
        problems.invalid(at, number, f"{why} in {at}")
    for limit, exclusive, word, sign in (
        (schema.maximum, schema.exclusive_maximum, "less", 1),
        (schema.minimum, schema.exclusive_minimum, "greater", -1),
    ):
        if limit is not None and (sign * number > sign * limit or (exclusive and number == limit)):
            equal = "" if exclusive else " or equal to"
            problems.invalid(at, number, f"{where} should be {word} than{equal} {limit}")
    factor = schema.multiple_of
    if factor and not math.isclose(number / factor, round(number / factor), rel_tol=1e-12):
        problems.invalid(at, number, f"{where} should be a multiple of {factor}")


def _check_list(problems: Problems, schema: Schema, items: list[Any], at: str, old: Any) -> None:
    if schema.max_items is not None and len(items) > schema.max_items:
        problems.too_many(at, len(items), schema.max_items)
    if schema.min_items is not None and len(items) < schema.min_items:
        why = f"{at} in body should have at least {schema.min_items} items"
        problems.invalid(at, len(items), why)
    seen: set[bytes] = set()
    before = items_by_key(schema, old)
    for index, item in enumerate(items):
        key = item_key(schema, item)
        if key is not None:
            if key in seen:
                problems.duplicate(f"{at}[{index}]", msgspec.json.decode(key))
            seen.add(key)
        if schema.item is not None:
            former = before.get(key, MISSING) if key is not None else MISSING
            _validate(problems, schema.item, item, f"{at}[{index}]", former)


def item_key(schema: Schema, item: Any) -> bytes | None:
    """Return what an item of a list is known by, None if it is known by its place alone."""
    if schema.x_list_type == "set":
        return encoded(item)
    if schema.x_list_type != "map" or not isinstance(item, dict):
        return None
    return encoded({key: item[key] for key in sorted(schema.x_list_map_keys) if key in item})


def items_by_key(schema: Schema, items: Any) -> dict[bytes | None, Any]:
    """Return the items of a list of list type map by their keys; nothing of another one."""
    if schema.x_list_type != "map" or not isinstance(items, list):
        return {}
    return {item_key(schema, item): item for item in items}


def _check_object(problems: Problems, schema: Schema, value: Plain, at: str, old: Any) -> None:
    for word, limit, sign in (
        ("most", schema.max_properties, 1), ("least", schema.min_properties, -1),
    ):  # fmt: skip
        if limit is not None and sign * len(value) > sign * limit:
            why = f"{at} in body should have at {word} {limit} properties"
            problems.invalid(at, len(value), why)
    for name in schema.required:
        if name not in value:
            problems.required(f"{at}.{name}" if at else name)
    before = old if isinstance(old, dict) else {}
    for name, inner_value in value.items():
        inner = schema.inner(name)
        if inner is not None:
            here = f"{at}.{name}" if at else name
            _validate(problems, inner, inner_value, here, before.get(name, MISSING))


def _check_conditions(problems: Problems, schema: Schema, value: Any, at: str) -> None:
    name = f'"{at}"'
    failures: list[Problems] = [_tried(problems, inner, value, at) for inner in schema.all_of]
    if any(tried.causes for tried in failures):
        for tried in failures:
            problems.take(tried)
        problems.invalid(NOWHERE, "", f"{name} must validate all the schemas (allOf)")
    if schema.any_of:
        tried_any = [_tried(problems, inner, value, at) for inner in schema.any_of]
        if all(tried.causes for tried in tried_any):
            problems.invalid(NOWHERE, "", f"{name} must validate at least one schema (anyOf)")
            problems.take(min(tried_any, key=lambda tried: len(tried.causes)))
    if schema.one_of:
        tried_one = [_tried(problems, inner, value, at) for inner in schema.one_of]
        count = sum(not tried.causes for tried in tried_one)
        if count != 1:
            count_text = f"Found {count} valid alternatives" if count else "Found none valid"
            why = f"{name} must validate one and only one schema (oneOf). {count_text}"
            problems.invalid(NOWHERE, "", why)
            if not count:
                problems.take(min(tried_one, key=lambda tried: len(tried.causes)))
    if schema.negated is not None and not _tried(problems, schema.negated, value, at).causes:
        problems.invalid(NOWHERE, "", f"{name} must not validate the schema (not)")


def _tried(problems: Problems, schema: Schema, value: Any, at: str) -> Problems:
    tried = problems.apart()
    _validate(tried, schema, value, at)
    return tried


class MergeRules:
    """How server-side apply takes the objects of a schema apart."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def keys_of(self, names: Sequence[str]) -> tuple[str, ...] | None:
        """Return the key fields of a list's items, ("",) of a set, None if the list is atomic."""
        schema = self._at(names)
        if schema is None or schema.x_list_type in (None, "atomic"):
            return ("",) if tuple(names) == ("metadata", "finalizers") else None
        return ("",) if schema.x_list_type == "set" else tuple(schema.x_list_map_keys)

    def atomic(self, names: Sequence[str]) -> bool:
        """Return whether a map is one value."""
        schema = self._at(names)
        return schema is not None and schema.x_map_type == "atomic"

    def _at(self, names: Sequence[str]) -> Schema | None:
        """Return the schema of a field; items of lists are no step on the way."""
        at: Schema | None = self._schema
        for name in names:
            while at is not None and at.item is not None:
                at = at.item
            at = at.inner(name) if at is not None else None
        return at
