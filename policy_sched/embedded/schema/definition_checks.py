"""Checks of a CustomResourceDefinition, with kube-apiserver's messages.

(apiextensions' validation.go and schema/validation.go. A schema that all versions share is at
spec.validation there, and so in messages.)
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from policy_sched.client.apimachinery import DEFINITION, cannot_be_handled
from policy_sched.embedded.schema import structural
from policy_sched.embedded.schema.problems import IMMUTABLE, Problems, inside
from policy_sched.embedded.schema.structural import META, Schema
from policy_sched.embedded.schema.validation_rules import RuleCosts, path_steps
from policy_sched.manifests import Plain
from policy_sched.model import formats

_SCOPES: Final = ("Cluster", "Namespaced")
_APPROVED: Final = "api-approved.kubernetes.io"
_PROTECTED: Final = re.compile(r"(.*\.)?(k8s|kubernetes)\.io")
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = (
    "binary", "byte", "date", "date-time", "double", "float", "int32", "int64", "password",
)  # fmt: skip
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_REASONS: Final = tuple(
    f"FieldValue{word}" for word in ("Duplicate", "Forbidden", "Invalid", "Required")
)
_MOST_SELECTABLE: Final = 8
_LINE: Final = re.compile(r"[\n\r]")


def schema_of(given: Any) -> Schema:
    """Return a schema of JSON. Raises ApiError if a field of it has another type."""
    try:
        return msgspec.convert(_present(given), Schema)
    except (msgspec.ValidationError, RecursionError) as error:
        raise cannot_be_handled(DEFINITION, f"json: JSONSchemaProps: {error}") from None


def _present(value: Any) -> Any:
    """Return JSON without fields that are null."""
    if isinstance(value, dict):
        return {key: _present(item) for key, item in value.items() if item is not None}
    return [_present(item) for item in value] if isinstance(value, list) else value


def check_definition(problems: Problems, data: Plain, old: Plain | None) -> None:
    """Check a new or changed definition."""
    spec: Plain = data.get("spec") or {}
    names: Plain = spec.get("names") or {}
    group, versions = spec.get("group") or "", spec.get("versions") or []
    name = data["metadata"].get("name") or ""
    if name != f"{names.get('plural') or ''}.{group}":
        problems.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    _check_group(problems, data, group)
    scope = spec.get("scope") or ""
    if not scope:
        problems.required("spec.scope")
    elif scope not in _SCOPES:
        problems.unsupported("spec.scope", scope, _SCOPES)
    for field in ("plural", "singular", "kind", "listKind"):
        if not names.get(field):
            problems.required(f"spec.names.{field}")
    _check_names(problems, "spec.names", names)
    if spec.get("preserveUnknownFields"):
        why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in"
        problems.invalid(
            "spec.preserveUnknownFields", True, f"{why} spec.versions[*].schema instead"
        )
    strategy = inside(spec.get("conversion"), "strategy") or "None"
    if strategy == "Webhook":
        why = "conversion webhooks are not called by this API server; use None"
        problems.forbidden("spec.conversion.strategy", why)
    elif strategy != "None":
        problems.unsupported("spec.conversion.strategy", strategy, ("None", "Webhook"))
    _check_versions(problems, versions)
    _check_stored(problems, inside(data.get("status"), "storedVersions") or [], versions)
    if old is not None:
        _check_change(problems, spec, old)


def _check_group(problems: Problems, data: Plain, group: str) -> None:
    if not group:
        problems.required("spec.group")
    elif wrong := list(formats.subdomain(group)):
        problems.invalid("spec.group", group, ",".join(wrong))
    elif "." not in group:
        problems.invalid("spec.group", group, "should be a domain with at least one dot")
    if not _PROTECTED.fullmatch(group):
        return
    given = (data["metadata"].get("annotations") or {}).get(_APPROVED) or ""
    at = f"metadata.annotations[{_APPROVED}]"
    see = "see https://github.com/kubernetes/enhancements/pull/1111"
    must = f'protected groups must have approval annotation "{_APPROVED}"'
    if not given:
        problems.required(at, f"{must}, {see}")
    elif not given.startswith("unapproved") and not re.match(r"\w+://\w", given):
        either = 'with either a URL or a reason starting with "unapproved"'
        problems.invalid(at, given, f"{must} {either}, {see}")


def _check_names(problems: Problems, at: str, names: Plain) -> None:
    mixed = "may have mixed case, but should otherwise match: "
    for field, prefix in (("plural", ""), ("singular", ""), ("kind", mixed), ("listKind", mixed)):
        text = names.get(field) or ""
        wrong = list(formats.rfc1035_label(text.lower() if prefix else text)) if text else []
        if wrong:
            problems.invalid(f"{at}.{field}", text, prefix + ",".join(wrong))
    for field in ("shortNames", "categories"):
        for index, text in enumerate(names.get(field) or ()):
            if wrong := list(formats.rfc1035_label(text)):
                problems.invalid(f"{at}.{field}[{index}]", text, ",".join(wrong))
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        problems.invalid(f"{at}.listKind", names["kind"], "kind and listKind may not be the same")


def _check_stored(problems: Problems, stored: list[str], versions: list[Plain]) -> None:
    at, names = "status.storedVersions", [version.get("name") for version in versions]
    for version in versions:
        if version.get("storage") and version.get("name") not in stored:
            problems.invalid(at, stored, f"must have the storage version {version.get('name')}")
    for index, name in enumerate(stored):
        if name not in names:
            why = (
                f"missing from spec.versions; {name} was previously a storage version, and must"
                " remain in spec.versions until a storage migration ensures no data remains"
                f" persisted in {name} and removes {name} from status.storedVersions"
            )
            problems.invalid(f"{at}[{index}]", name, why)


def _check_change(problems: Problems, spec: Plain, old: Plain) -> None:
    before: Plain = old.get("spec") or {}
    fields = [("group",), ("names", "plural")]
    conditions = (old.get("status") or {}).get("conditions") or ()
    if any(c.get("type") == "Established" and c.get("status") == "True" for c in conditions):
        fields += [("scope",), ("names", "kind")]
    for path in fields:
        values: list[Any] = [before, spec]
        for step in path:
            values = [inside(side, step) for side in values]
        if values[0] != values[1]:
            problems.invalid(f"spec.{'.'.join(path)}", values[1] or "", IMMUTABLE)


def _check_versions(problems: Problems, versions: list[Plain]) -> None:
    at = "spec.versions"
    shown = [{k: v[k] for k in ("name", "served", "storage") if k in v} for v in versions]
    names = [version.get("name") or "" for version in versions]
    for index, name in enumerate(names):
        if wrong := list(formats.rfc1035_label(name)):
            problems.invalid(f"{at}[{index}].name", name, ",".join(wrong))
    if len(set(names)) != len(names):
        problems.invalid(at, shown, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        problems.invalid(at, shown, "must have exactly one version marked as storage version")
    shared = {
        field: at_top
        for field, at_top in _SHARED.items()
        if all(version.get(field) == versions[0].get(field) for version in versions)
    }
    for index, version in enumerate(versions):
        paths = {field: shared.get(field, f"{at}[{index}].{field}") for field in _SHARED}
        _check_version(problems, version, f"{at}[{index}]", paths)


_SHARED: Final = {
    "schema": "spec.validation",
    "subresources": "spec.subresources",
    "additionalPrinterColumns": "spec.additionalPrinterColumns",
    "selectableFields": "spec.selectableFields",
}
"""Fields of a version, and their paths in upstream's messages if all versions have them equal."""


def _check_version(problems: Problems, version: Plain, at: str, paths: dict[str, str]) -> None:
    warning = version.get("deprecationWarning")
    if warning is not None:
        words = []
        if not version.get("deprecated"):
            words.append("can only be set for deprecated versions")
        if len(warning) > 256:
            words.append("must be <= 256 characters long")
        problems.each(f"{at}.deprecationWarning", warning, words)
    subresources: Plain = version.get("subresources") or {}
    if subresources.get("scale") is not None:
        _check_scale(problems, f"{paths['subresources']}.scale", subresources["scale"])
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        _check_column(problems, f"{paths['additionalPrinterColumns']}[{index}]", column)
    given = inside(version.get("schema"), "openAPIV3Schema")
    if not isinstance(given, dict):
        problems.required(f"{at}.schema.openAPIV3Schema", "schemas are required")
        return
    schema = schema_of(given)
    check_schema(problems, schema, f"{paths['schema']}.openAPIV3Schema")
    selectable = version.get("selectableFields") or []
    _check_selectable(problems, paths["selectableFields"], selectable, schema)


def _check_scale(problems: Problems, at: str, scale: Plain) -> None:
    for field, roots in (
        ("specReplicasPath", ("spec",)), ("statusReplicasPath", ("status",)),
        ("labelSelectorPath", ("spec", "status")),
    ):  # fmt: skip
        path = scale.get(field) or ""
        if not path:
            if field != "labelSelectorPath":
                problems.required(f"{at}.{field}")
        elif not path.startswith("."):
            problems.invalid(f"{at}.{field}", path, "must be a simple json path starting with .")
        elif not path.startswith(tuple(f".{root}." for root in roots)):
            under = f".{roots[0]}" if len(roots) == 1 else "either .spec or .status"
            problems.invalid(f"{at}.{field}", path, f"should be a json path under {under}")


def _check_column(problems: Problems, at: str, column: Plain) -> None:
    if not column.get("name"):
        problems.required(f"{at}.name")
    must = f"must be one of {','.join(_COLUMN_TYPES)}"
    if column.get("type") not in _COLUMN_TYPES:
        problems.must_be(f"{at}.type", column.get("type"), must)
    if column.get("format") and column["format"] not in _COLUMN_FORMATS:
        must = f"must be one of {','.join(_COLUMN_FORMATS)}"
        problems.invalid(f"{at}.format", column["format"], must)
    path = column.get("jsonPath") or ""
    if not path:
        problems.required(f"{at}.JSONPath")
    elif not path.startswith("."):
        why = "must be a simple json path starting with ."
        problems.invalid(f"{at}.JSONPath", path, why)


def _check_selectable(problems: Problems, at: str, fields: list[Plain], schema: Schema) -> None:
    seen: set[str] = set()
    for index, field in enumerate(fields):
        here, path = f"{at}[{index}].jsonPath", field.get("jsonPath") or ""
        if not path:
            problems.required(here)
            continue
        try:
            steps = list(path_steps(path, schema))
        except ValueError as error:
            problems.invalid(here, path, f"is an invalid path: {error}")
            continue
        if steps[-1][1].type not in ("string", "boolean", "integer"):
            why = "must point to a field of type string, boolean or integer."
            why += " Enum string fields and strings with formats are allowed."
            problems.invalid(here, path, why)
        if path in seen:
            problems.duplicate(here, path)
        seen.add(path)
    if len(seen) > _MOST_SELECTABLE:
        problems.too_many(at, len(seen), _MOST_SELECTABLE)


# Schemas.


def check_schema(problems: Problems, schema: Schema, at: str) -> None:
    """Check that a schema is structural, and that its defaults and rules are right."""
    checked = problems.apart()
    _SchemaCheck(checked).check(schema, at, "root")
    for part, where in _conditions(schema, at):
        _check_condition(checked, part, where)
    if schema.nullable:
        checked.forbidden(f"{at}.nullable", "nullable cannot be true at the root")
    if not checked.causes:
        _check_defaults(checked, schema, at, root=True)
    if not checked.causes:
        costs = RuleCosts(checked)
        _check_rules(costs, schema, at, (1.0, ""), root=True)
        costs.finish(at)
    problems.take(checked)


_LEVELS: Final = {
    "root": "at the root",
    "item": "for specified array items",
    "field": "for specified object fields",
}


class _SchemaCheck:
    """Checks a schema and the schemas in it."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems

    def check(self, schema: Schema, at: str, level: str, *, meta: bool = False) -> None:
        """Check a schema and those in it. ``level``: root, item or field."""
        problems = self._problems
        if schema.type == "array" and schema.items is None:
            problems.required(f"{at}.items", "must be specified")
        if level == "root" and schema.additional_properties is not None:
            problems.forbidden(f"{at}.additionalProperties", "must not be used at the root")
        self._check_type(schema, at, level)
        self._check_meta(schema, at, level, meta=meta)
        check_words(problems, schema, at)
        _check_lists(problems, schema, at)
        for index, rule in enumerate(schema.x_validations):
            _check_rule(problems, rule, f"{at}.x-kubernetes-validations[{index}]", schema)
        for where, part in schema.parts(at):
            item = where.endswith(".items")
            own = level == "root" or schema.x_embedded_resource
            name = where.rpartition("[")[2][:-1]
            self.check(part, where, "item" if item else "field", meta=own and name in META)
            if level == "root" and name in META and part.default is not None:
                problems.forbidden(f"{where}.default", f"must not be set in top-level {name}")

    def _check_type(self, schema: Schema, at: str, level: str) -> None:
        problems, kind = self._problems, schema.type
        free = schema.x_int_or_string or schema.x_preserve_unknown_fields
        if kind == "null":
            why = "type cannot be set to null, use nullable as an alternative"
            problems.forbidden(f"{at}.type", why)
        if kind and kind not in _TYPES:
            problems.unsupported(f"{at}.type", kind, _TYPES)
        if schema.x_embedded_resource and kind != "object":
            must = "must be object if x-kubernetes-embedded-resource is true"
            problems.must_be(f"{at}.type", kind, must)
        elif not kind and not free:
            problems.required(f"{at}.type", f"must not be empty {_LEVELS[level]}")
        if level == "root" and kind and kind != "object":
            problems.invalid(f"{at}.type", kind, "must be object at the root")
        for name, given in (
            ("preserve-unknown-fields", schema.x_preserve_unknown_fields),
            ("embedded-resource", schema.x_embedded_resource),
        ):
            if schema.x_int_or_string and given:
                why = "must be false if x-kubernetes-int-or-string is true"
                problems.invalid(f"{at}.x-kubernetes-{name}", True, why)
        if schema.x_preserve_unknown_fields is False:
            where = f"{at}.x-kubernetes-preserve-unknown-fields"
            problems.invalid(where, False, "must be true or undefined")

    def _check_meta(self, schema: Schema, at: str, level: str, *, meta: bool) -> None:
        """Check what a schema says of an object's own fields."""
        problems, own = self._problems, level == "root" or schema.x_embedded_resource
        if meta and schema.x_embedded_resource:
            where = f"{at}.x-kubernetes-embedded-resource"
            problems.forbidden(where, "must not be used inside of resource meta")
        if schema.x_embedded_resource:
            if schema.additional_properties is not None:
                why = "must not be used if x-kubernetes-embedded-resource is set"
                problems.forbidden(f"{at}.additionalProperties", why)
            if not schema.x_preserve_unknown_fields and not schema.properties:
                why = "must not be empty if x-kubernetes-embedded-resource is true without"
                problems.required(f"{at}.properties", f"{why} x-kubernetes-preserve-unknown-fields")
        for name, wanted in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
            inner = schema.properties.get(name)
            if own and inner is not None and inner.type != wanted:
                where = f"{at}.properties[{name}].type"
                problems.invalid(where, inner.type, f"must be {wanted}")
        given = schema.properties.get("metadata")
        if level == "root" and given is not None:
            more = set(msgspec.to_builtins(given)) - {"type", "properties"}
            if more or set(given.properties) - {"name", "generateName"}:
                why = "must not specify anything other than name and generateName, but metadata is"
                problems.forbidden(f"{at}.properties[metadata]", f"{why} implicitly specified")


_QUADRATIC: Final = (
    "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
)


def check_words(problems: Problems, schema: Schema, at: str) -> None:
    """Check the fields that are never allowed, and the pattern; of a condition, too."""
    both = schema.properties and schema.additional_properties not in (None, True)
    is_list = isinstance(schema.items, list)
    for name, given, why in (
        ("uniqueItems", schema.unique_items, _QUADRATIC),
        ("additionalProperties", both, "additionalProperties and properties are mutual exclusive"),
        ("id", schema.id, ""),
        ("additionalItems", schema.additional_items is not None, ""),
        ("patternProperties", schema.pattern_properties, ""),
        ("definitions", schema.definitions, ""),
        ("dependencies", schema.dependencies, ""),
        ("$ref", schema.ref is not None, ""),
        ("items", is_list, "items must be a schema object and not an array"),
    ):
        if given:
            problems.forbidden(f"{at}.{name}", why or f"{name} is not supported")
    if schema.pattern:
        try:
            structural.compiled(schema.pattern)
        except ValueError as error:
            why = "must be a valid regular expression, but isn't: error parsing regexp:"
            problems.invalid(f"{at}.pattern", schema.pattern, f"{why} {error}")


def _check_lists(problems: Problems, schema: Schema, at: str) -> None:
    for word, given, kind, choices in (
        ("map", schema.x_map_type, "object", ("atomic", "granular")),
        ("list", schema.x_list_type, "array", ("atomic", "set", "map")),
    ):
        if given is None:
            continue
        must = f"must be {kind} if x-kubernetes-{word}-type is specified"
        if schema.type != kind:
            problems.must_be(f"{at}.type", schema.type, must)
        if given not in choices:
            problems.unsupported(f"{at}.x-kubernetes-{word}-type", given, choices)
    type_at = f"{at}.x-kubernetes-list-type"
    keys, item = schema.x_list_map_keys, schema.item
    if keys and schema.x_list_type != "map":
        must = "must be map if x-kubernetes-list-map-keys is non-empty"
        if schema.x_list_type is None:
            problems.required(type_at, must)
        else:
            problems.invalid(type_at, schema.x_list_type, must)
    if schema.x_list_type in ("set", "map") and item is not None and item.nullable:
        why = f"cannot be nullable when x-kubernetes-list-type is {schema.x_list_type}"
        problems.forbidden(f"{at}.items.nullable", why)
    if schema.x_list_type == "set" and item is not None:
        must = "must be atomic as item of a list with x-kubernetes-list-type=set"
        if item.type == "array" and item.x_list_type not in (None, "atomic"):
            problems.invalid(f"{at}.items.x-kubernetes-list-type", item.x_list_type, must)
        if item.type == "object" and item.x_map_type != "atomic":
            problems.invalid(f"{at}.items.x-kubernetes-map-type", item.x_map_type, must)
    if schema.x_list_type == "map":
        _check_keys(problems, item, keys, at)


def _check_keys(problems: Problems, item: Schema | None, keys: list[str], at: str) -> None:
    keys_at = f"{at}.x-kubernetes-list-map-keys"
    if not keys:
        problems.required(keys_at, "must not be empty if x-kubernetes-list-type is map")
    if item is None:
        return
    if item.type != "object":
        must = "must be object if parent array's x-kubernetes-list-type is map"
        problems.invalid(f"{at}.items.type", item.type, must)
        return
    if len(set(keys)) != len(keys):
        problems.invalid(keys_at, keys, "must not contain duplicate entries")
    for key in keys:
        inner, where = item.properties.get(key), f"{at}.items.properties[{key}]"
        if inner is None:
            problems.invalid(keys_at, keys, "entries must all be names of item properties")
            continue
        if inner.type in ("array", "object"):
            why = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            problems.invalid(f"{where}.type", inner.type, why)
        this = "this property is in x-kubernetes-list-map-keys, so it"
        if key not in item.required and inner.default is None:
            why = f"{this} must have a default or be a required property"
            problems.required(f"{where}.default", why)
        if inner.nullable:
            problems.forbidden(f"{where}.nullable", f"{this} cannot be nullable")


def _check_rule(problems: Problems, rule: structural.Rule, at: str, schema: Schema) -> None:
    message = rule.message.strip()
    if not rule.rule.strip():
        problems.required(f"{at}.rule", "rule is not specified")
    elif rule.message and not message:
        problems.invalid(f"{at}.message", rule.message, "message must be non-empty if specified")
    elif _LINE.search(message):
        problems.invalid(f"{at}.message", rule.message, "message must not contain line breaks")
    elif _LINE.search(rule.rule.strip()) and not message:
        problems.required(f"{at}.message", "message must be specified if rule contains line breaks")
    if rule.message_expression and not rule.message_expression.strip():
        why = "messageExpression must be non-empty if specified"
        problems.required(f"{at}.messageExpression", why)
    if rule.reason is not None and rule.reason not in _REASONS:
        problems.unsupported(f"{at}.reason", rule.reason, _REASONS)
    if rule.field_path:
        try:
            list(path_steps(rule.field_path, schema))
        except ValueError:
            problems.invalid(f"{at}.fieldPath", rule.field_path, "fieldPath must be a valid path")


def _conditions(schema: Schema, at: str) -> Iterator[tuple[Schema, str]]:
    """Yield the parts of a schema that have allOf, anyOf, oneOf or not, with their paths."""
    if schema.all_of or schema.any_of or schema.one_of or schema.negated is not None:
        yield schema, at
    for where, part in schema.parts(at):
        yield from _conditions(part, where)


_STRUCTURAL: Final = {
    "type": "empty", "default": "undefined", "title": "empty", "description": "empty",
    "nullable": "false", "externalDocs": "undefined", "additionalProperties": "undefined",
    "x-kubernetes-preserve-unknown-fields": "false", "x-kubernetes-embedded-resource": "false",
    "x-kubernetes-int-or-string": "false", "x-kubernetes-list-map-keys": "empty",
    "x-kubernetes-list-type": "undefined", "x-kubernetes-map-type": "undefined",
    "x-kubernetes-validations": "empty",
}  # fmt: skip
"""Fields that no condition may have, and the value that messages ask for."""
_EITHER: Final = [{"type": "integer"}, {"type": "string"}]


def _check_condition(problems: Problems, schema: Schema, at: str) -> None:
    """Check the conditions of a schema: they may restrict its fields, and add none."""
    free: set[str] = set()
    if schema.x_int_or_string:  # the two forms in which upstream lets types stand
        first = schema.all_of[0].any_of if schema.all_of else []
        for where, either in ((f"{at}.anyOf", schema.any_of), (f"{at}.allOf[0].anyOf", first)):
            if [msgspec.to_builtins(part) for part in either] == _EITHER:
                free |= {f"{where}[0]", f"{where}[1]"}
    for where, nested in schema.conditions(at):
        _check_nested(problems, nested, where, (schema, at), free)


def _check_nested(
    problems: Problems, nested: Schema, at: str, outer: tuple[Schema, str], free: set[str]
) -> None:
    given = msgspec.to_builtins(nested) if at not in free else {}
    for field, must in _STRUCTURAL.items():
        if field in given:
            problems.forbidden(f"{at}.{field}", f"must be {must} to be structural")
    if "metadata" in nested.properties:
        where = f"{at}.properties[metadata]"
        problems.forbidden(where, "must not be specified in a nested context")
    check_words(problems, nested, at)
    schema, schema_at = outer
    for name, part in nested.properties.items():
        where, inner = f"{at}.properties[{name}]", schema.properties.get(name)
        if inner is None:
            why = f"because it is defined in {where}"
            problems.required(f"{schema_at}.properties[{name}]", why)
        else:
            beside = (inner, f"{schema_at}.properties[{name}]")
            _check_nested(problems, part, where, beside, free)
    if nested.item is not None:
        where = f"{at}.items"
        if schema.item is None:
            problems.required(f"{schema_at}.items", f"because it is defined in {where}")
        else:
            _check_nested(problems, nested.item, where, (schema.item, f"{schema_at}.items"), free)
    for where, deeper in nested.conditions(at):
        _check_nested(problems, deeper, where, outer, free)


def _check_defaults(problems: Problems, schema: Schema, at: str, *, root: bool = False) -> None:
    if schema.default is not None and not root:
        value = msgspec.json.decode(msgspec.json.encode(schema.default))
        where = f"{at}.default"
        if list(structural.prune(schema, value, "", root=schema.x_embedded_resource)):
            problems.invalid(where, schema.default, "must not have unknown fields")
        else:
            structural.complete(schema, value)
            structural.validate(problems, schema, value, where)
    for where, part in schema.parts(at):
        if where.endswith(".additionalProperties"):
            continue
        _check_defaults(problems, part, where)


def _check_rules(
    costs: RuleCosts, schema: Schema, at: str, reach: tuple[float, str], *, root: bool = False
) -> None:
    """Check the rules of a schema.

    ``reach``: the most values of the schema in an object, and the path of the nearest list or map
    whose items have no old value, "" if there is none.
    """
    count, uncorrelated = reach
    if schema.x_validations:
        costs.check(schema, at, count, root=root, uncorrelated=uncorrelated)
    for where, part in schema.parts(at):
        inner, alone = count, uncorrelated
        if part is schema.item:
            inner *= math.inf if schema.max_items is None else schema.max_items
            alone = alone or ("" if schema.x_list_type == "map" else at)
        elif part is schema.value:
            inner *= math.inf if schema.max_properties is None else schema.max_properties
        elif schema.x_map_type == "atomic":
            alone = alone or at
        _check_rules(costs, part, where, (inner, alone))


def unknown_fields(data: Plain) -> Iterable[str]:
    """Yield the paths of fields in a definition's schemas that no schema has."""
    versions = inside(data.get("spec"), "versions")
    for index, version in enumerate(versions if isinstance(versions, list) else ()):
        given = inside(inside(version, "schema"), "openAPIV3Schema")
        at = f"spec.versions[{index}].schema.openAPIV3Schema"
        yield from structural.unknown_in_schema(given, at)
