"""Types the objects of a policy's inputs by their schemas.

A schema is a CustomResourceDefinition, or a JSON schema with the fields that rules read; those of
kinds that Kubernetes defines are in stdlib/inputs.toml. Only what a schema says of types counts:
an API server has validated the objects already.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from policy_sched import source
from policy_sched.language import stdlib, syntax
from policy_sched.language.diagnostics import InputSource, Problem, Text, did_you_mean
from policy_sched.language.values import OWNER, types

CRD: Final = "CustomResourceDefinition"
NO_SCHEMA: Final = "PS801"
UNTYPED: Final = "PS803"
MAX_INPUTS: Final = 20
MAX_SCHEMA_BYTES: Final = 1 << 20
MAX_SCHEMA_FIELDS: Final = 5_000
MAX_SCHEMA_DEPTH: Final = 32

META: Final[Mapping[str, types.Type]] = {
    "name": types.STRING,
    "namespace": types.STRING,
    "labels": types.map_of(types.STRING, types.STRING),
    "annotations": types.map_of(types.STRING, types.STRING),
    "creationTime": types.TIMESTAMP,
    "seenAt": types.TIMESTAMP,
    "ownerKind": types.STRING,
    "ownerName": types.STRING,
}
"""What every object has besides the fields of its schema."""
_NOT_READ: Final = frozenset({"apiVersion", "kind", "metadata", *META})
_SCALARS: Final = {
    "integer": types.INT,
    "number": types.DOUBLE,
    "boolean": types.BOOL,
}
_FREE: Final = types.quantity_of("free")
_CACHED: Final = frozenset({("v1", "Node"), ("v1", "Namespace")})
"""Kinds whose objects the scheduler's cache has, by name."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

Path = tuple[str | int, ...]
Add = Callable[[Sequence[Problem], Text], None]


class CheckedInput(msgspec.Struct, frozen=True):
    """An input whose objects have types; ``namespaced``: their kind has namespaces.

    ``identity`` names what a scheduler keeps of it: equal ones are kept once.
    ``plural``: the resource of the kind, "" where the schema is no definition. ``subresource``:
    whether the status may be written, as far as the schema says.
    """

    source: InputSource
    type: types.InputType
    namespaced: bool = False
    identity: str = ""
    plural: str = ""
    subresource: bool = False

    @property
    def name(self) -> str:
        """The name by which rules read it."""
        return self.source.name.text


class _RefusedError(Exception):
    """A schema that cannot be used: the path in it, or the span, what is wrong, and the fix."""

    def __init__(
        self, path: Path, code: str, message: str, hint: str = "", span: source.Span | None = None
    ) -> None:
        super().__init__(message)
        self.path, self.code, self.message, self.hint = path, code, message, hint
        self.span = span


URL_PARAM: Final = re.compile(r"\$\(params\.(\w+)\)")
"""A parameter in the url of an input."""


def check_inputs(
    sources: Sequence[InputSource], params: Mapping[str, object], add: Add
) -> tuple[CheckedInput, ...]:
    """Return the inputs that are right, parameters put into their urls; report all others."""
    checked: dict[str, CheckedInput] = {}
    for number, given in enumerate(sources):
        name = given.name
        problem = None
        if name.text in checked:
            problem = ("PS111", f"two inputs are called `{name.text}`", "")
        elif name.text in syntax.KEYWORDS:
            problem = ("PS005", f"`{name.text}` is a reserved word and cannot name an input", "")
        elif number >= MAX_INPUTS:
            problem = ("PS501", f"more than {MAX_INPUTS} inputs", "")
        if problem is not None:
            add([_whole(name, *problem)], name)
            continue
        entry = _checked(_with_url(given, params, add) if "$(" in given.url else given, add)
        if entry is not None:
            checked[name.text] = replace(entry, type=replace(entry.type, most=given.most))
    return tuple(checked.values())


def _with_url(given: InputSource, params: Mapping[str, object], add: Add) -> InputSource:
    """Return an input with the parameters that its url names; report one that leads nowhere."""
    for name in URL_PARAM.findall(given.url):
        if not isinstance(params.get(name), str):
            close = did_you_mean(name, params)
            why = "is not a string" if name in params else f"does not exist{close}"
            message = f"the parameter `{name}` of the url {why}"
            add([_whole(given.name, "PS102", message, "state it in params, as text")], given.name)
            return given
    url = URL_PARAM.sub(lambda match: str(params[match[1]]), given.url)
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        message = f"`{source.shortened(url, quote=False)}` is no URL of http or https"
        add([_whole(given.name, "PS707", message, "write http://HOST:PORT/PATH")], given.name)
    return replace(given, url=url)


def as_read(inputs: Sequence[CheckedInput], read: Collection[str]) -> tuple[CheckedInput, ...]:
    """Return inputs with the fields that rules read, alone: nothing else of an object is kept.

    ``read`` are names of parts with their fields, such as ``inputs.quota.spec.max``, and with
    ``*`` where all fields count.
    """
    kept = []
    for entry in inputs:
        given, kind = entry.source, entry.type
        root = None if kind.root is None else _pruned(kind.root, read)
        kind = replace(kind, record=_pruned(kind.record, read, META.keys() - OWNER), root=root)
        key = "" if given.key is None else given.key.text
        parts = (given.api_version, given.kind, given.url, given.items, given.poll, key, kind)
        digest = hashlib.sha256("\0".join(map(repr, parts)).encode()).hexdigest()[:16]
        kept.append(replace(entry, type=kind, identity=f"{entry.name}-{digest}"))
    return tuple(kept)


def _pruned(
    kind: types.ObjectType, read: Collection[str], always: Collection[str] = ()
) -> types.ObjectType:
    if f"{kind.name}.*" in read:
        return kind
    fields = [
        (name, _pruned_part(inner, read))
        for name, inner in kind.fields
        if name in always or f"{kind.name}.{name}" in read
    ]
    return replace(kind, fields=tuple(fields), untyped=())


def _pruned_part(kind: types.Type, read: Collection[str]) -> types.Type:
    match kind:
        case types.ObjectType():
            return _pruned(kind, read)
        case types.ListType():
            return types.list_of(_pruned_part(kind.element, read))
        case types.MapType():
            return types.map_of(kind.key, _pruned_part(kind.value, read))
    return kind


def objects_read(read: Collection[str]) -> tuple[types.ObjectType, ...]:
    """Return the types of `object` of pods, nodes and groups with the fields that are read."""
    environment = stdlib.policy_environment()
    objects = [record.object for record in environment.records.values()]
    pruned = [_pruned(whole, read) for whole in objects if whole is not None]
    return tuple(kind for kind in pruned if kind.fields)


def objects_of(inputs: Sequence[CheckedInput]) -> dict[str, types.ObjectType]:
    """Return the record types of the inputs' objects and of their parts, by name."""
    by_name: dict[str, types.ObjectType] = {}
    todo: list[types.Type] = []
    for entry in inputs:
        todo += [entry.type.record, *([entry.type.root] if entry.type.root else ())]
    while todo:
        kind = todo.pop()
        match kind:
            case types.ListType() | types.OptionalType():
                todo.append(kind.element)
            case types.MapType():
                todo.append(kind.value)
            case types.ObjectType():
                by_name[kind.name] = kind
                todo += [inner for _, inner in kind.fields]
    return by_name


def _whole(text: Text, code: str, message: str, hint: str = "") -> Problem:
    return Problem(0, max(1, len(text.text)), code, message, hint)


def _checked(given: InputSource, add: Add) -> CheckedInput | None:
    if given.annotation and given.schema is None:
        stated = _stated(given, add)
        return _of_annotation(given, _Types(given, stated), _schema_of(stated))
    if given.schema is None:
        shape = stdlib.kinds_of_inputs().get((given.api_version, given.kind))
        if shape is None and given.kind and given.fields:
            return _by_schema(given, _schema_of([path for path, _ in given.fields]), add)
        if shape is None:
            add([_no_schema(given)], given.name)
            return None
        whole = stdlib.object_type(shape.type, f"inputs.{given.name.text}")
        fields = {**{name: kind for name, kind in whole.fields if name != "metadata"}, **META}
        record = replace(whole, fields=tuple(fields.items()))
        cached = (given.api_version, given.kind) in _CACHED
        if cached and given.key is not None:
            message = f"the key of a {given.kind} is its name"
            add([_whole(given.key, "PS707", message, "leave the key out")], given.key)
        kind = types.InputType(record.name, record, cached=cached)
        return CheckedInput(given, kind, shape.namespaced, plural=shape.plural)
    place = given.schema
    if given.refused:
        add([_whole(place, NO_SCHEMA, given.refused, _where_from(given))], place)
        return None
    if len(given.content.encode(errors="replace")) > MAX_SCHEMA_BYTES:
        message = f"the schema is larger than {MAX_SCHEMA_BYTES >> 20} MiB"
        add([_whole(place, "PS501", message, "state the fields that rules read, alone")], place)
        return None
    file = source.SourceFile(str(FilePath(place.file).parent / place.text), given.content)
    try:
        return _by_schema(given, _document(file), add)
    except _RefusedError as refused:
        text = Text(given.content, file.path)
        start, end = refused.span or _span(file, refused.path)
        problem = Problem(start, max(end, start + 1), refused.code, refused.message, refused.hint)
        add([problem], text)
        return None


def _no_schema(given: InputSource) -> Problem:
    what = f"{given.kind} of {given.api_version}" if given.kind else given.url
    close = did_you_mean(given.kind, [kind for _, kind in stdlib.kinds_of_inputs()])
    message = f"there is no schema for {what}{close}"
    return _whole(given.name, NO_SCHEMA, message, _where_from(given))


def _where_from(given: InputSource) -> str:
    if given.url:
        return "write `schema: FILE`, a JSON schema with the fields that rules read"
    group, _, _ = given.api_version.rpartition("/")
    if "." not in group:  # kinds of Kubernetes: no CustomResourceDefinition describes them
        kinds = [kind for api, kind in stdlib.kinds_of_inputs() if api == given.api_version]
        need_none = f"{', '.join(sorted(kinds))} need none; " if kinds else ""
        return f"{need_none}write `schema: FILE`, a JSON schema with the fields that rules read"
    return (
        f"write `schema: FILE`; `kubectl get crd -o yaml` of the kind in {group} prints it, or"
        " write a JSON schema with the fields that rules read"
    )


def _document(file: source.SourceFile) -> Any:
    """Return the one document of a schema's file. Raises _RefusedError."""
    try:
        whole = msgspec.json.decode(file.text)
    except (msgspec.DecodeError, RecursionError):
        whole = None  # it is YAML
    if isinstance(whole, dict):
        return whole
    documents, problems = source.plain_documents(file)
    values = []
    for document in documents:
        text = None if document.refused else document.json()
        if text is None:
            refused = [document.refused] if document.refused else document.whole.look(file).problems
            problems = [*refused, *problems]
            if not problems:
                raise _RefusedError((), "PS701", "the schema holds a number that JSON cannot hold")
            break
        values.append(msgspec.json.decode(text))
    if problems:
        first = problems[0]
        at = file.offset(first.line, first.column)
        raise _RefusedError((), first.code, first.message, first.hint, (at, at + first.width))
    values = [value for value in values if value is not None]
    if len(values) != 1 or not isinstance(values[0], dict):
        raise _RefusedError((), NO_SCHEMA, "a schema is one document, a mapping")
    return values[0]


def _span(file: source.SourceFile, path: Path) -> tuple[int, int]:
    """Return where a part of a schema stands; its key where it has one."""
    documents, _ = source.parse_documents(file, None)
    return documents[0].key_span(path) if documents else (0, 1)


def _has_status(document: dict[str, Any], root: Path) -> bool:
    """Return whether the status may be written; a schema that is no definition does not say."""
    if document.get("kind") != CRD:
        return True
    version = document
    for step in root[: root.index("schema")]:
        version = version[step]  # type: ignore[index]  # the path leads through mappings
    return "status" in (version.get("subresources") or {})


def _by_schema(given: InputSource, document: dict[str, Any], add: Add) -> CheckedInput:
    """Return the input with the types of its schema. Raises _RefusedError."""
    name = f"inputs.{given.name.text}"
    namespaced, plural = False, ""
    root: Path = ()
    schema: Any = document
    if document.get("kind") == CRD:
        root, namespaced = _of_definition(given, document)
        plural = str(document["spec"]["names"].get("plural") or "")
        for step in root:
            schema = schema[step]
    types_of = _Types(given, _stated(given, add))
    if given.annotation:
        return _of_annotation(given, types_of, schema, root)
    if not given.url:
        record = types_of.object(schema, root, name, META)
        kind = types.InputType(name, record)
        writable = not given.poll and _has_status(document, root)
        return CheckedInput(given, kind, namespaced, plural=plural, subresource=writable)
    whole = types_of.object(schema, root, f"{name}.root", {})
    item: types.Type = whole
    for step in given.items.split(".") if given.items else ():
        fields = dict(item.fields) if isinstance(item, types.ObjectType) else {}
        if step not in fields:
            message = f"the schema has no `{given.items}`{did_you_mean(step, fields)}"
            raise _RefusedError(root, NO_SCHEMA, message, "write it as in the answer")
        item = fields[step]
    inner = item.value if isinstance(item, types.MapType) else getattr(item, "element", item)
    if not isinstance(inner, types.ObjectType):
        message = f"`{given.items}` of the answer is {item}, not a list or a map of objects"
        raise _RefusedError(root, NO_SCHEMA, message)
    fields = {**dict(inner.fields), **META}
    record = types.ObjectType(name, tuple(fields.items()), inner.untyped)
    return CheckedInput(given, types.InputType(name, record, whole))


def _of_annotation(
    given: InputSource, types_of: _Types, schema: Any, root: Path = ()
) -> CheckedInput:
    """Return the input of an annotation's JSON, which has no metadata of its own."""
    name = f"inputs.{given.name.text}"
    record = replace(types_of.object(schema, root, name, {}), bare=True)
    return CheckedInput(given, types.InputType(name, record, annotation=given.annotation))


def _text(name: object) -> str:
    return source.shortened(name, quote=False) if isinstance(name, str) else ""


def _schema_of(paths: Collection[str]) -> dict[str, Any]:
    """Return the schema of an object with fields at some paths, of whatever type."""
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    for path in paths:
        inner = schema
        for step in path.split("."):
            inner = inner.setdefault("properties", {}).setdefault(step, {"type": "object"})
    return schema


def _of_definition(given: InputSource, document: dict[str, Any]) -> tuple[Path, bool]:
    """Return where a CustomResourceDefinition has the schema of the input's version."""
    spec = document.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    names = spec.get("names")
    kind = names.get("kind") if isinstance(names, dict) else None
    group, _, version = given.api_version.rpartition("/")
    if kind != given.kind:
        other = f"kind {shown}" if (shown := _text(kind)) else "no kind"
        message = f"the CustomResourceDefinition is of {other}, the input of {given.kind}"
        raise _RefusedError(("spec", "names", "kind"), NO_SCHEMA, message)
    if spec.get("group") != group:
        other = _text(spec.get("group")) or "no group"
        message = f"the CustomResourceDefinition is of {other}, the input of {group}"
        raise _RefusedError(("spec", "group"), NO_SCHEMA, message)
    versions = spec.get("versions")
    there = []
    for i, entry in enumerate(versions if isinstance(versions, list) else ()):
        if not isinstance(entry, dict):
            continue
        there.append(str(entry.get("name")))
        schema = entry.get("schema")
        if entry.get("name") == version and isinstance(schema, dict):
            if isinstance(schema.get("openAPIV3Schema"), dict):
                path: Path = ("spec", "versions", i, "schema", "openAPIV3Schema")
                return path, spec.get("scope") == "Namespaced"
            raise _RefusedError(("spec", "versions", i), NO_SCHEMA, "the version has no schema")
    message = f"the CustomResourceDefinition has no version {version}"
    raise _RefusedError(("spec", "versions"), NO_SCHEMA, message, f"it has {', '.join(there)}")


def _stated(given: InputSource, add: Add) -> dict[str, types.Type]:
    """Return the types of fields that are written by hand, by path."""
    stated = {}
    for path, text in given.fields:
        try:
            stated[path] = types.parse_type(text.text)
        except ValueError as error:
            add([_whole(text, UNTYPED, f"type of `{path}`: {error}")], text)
    return stated


@dataclass(slots=True)
class _Types:
    """Turns the parts of one schema into types; counts its fields."""

    given: InputSource
    stated: Mapping[str, types.Type]
    fields: int = field(default=0)

    def object(
        self, schema: Any, path: Path, name: str, more: Mapping[str, types.Type]
    ) -> types.ObjectType:
        """Return the record of a schema with properties; ``more`` are fields besides."""
        if len(path) > 2 * MAX_SCHEMA_DEPTH:
            message = f"the schema is nested more than {MAX_SCHEMA_DEPTH} deep"
            raise _RefusedError(path, "PS501", message, "leave out what no rule reads")
        properties = schema.get("properties") if isinstance(schema, dict) else None
        typed: dict[str, types.Type] = {}
        untyped = []
        for key, inner in properties.items() if isinstance(properties, dict) else ():
            if (more and key in _NOT_READ) or not _NAME.fullmatch(key):
                continue
            self.fields += 1
            if self.fields > MAX_SCHEMA_FIELDS:
                message = f"the schema has more than {MAX_SCHEMA_FIELDS} fields"
                raise _RefusedError(path, "PS501", message, "leave out what no rule reads")
            kind = self.part(inner, (*path, "properties", key), f"{name}.{key}")
            if kind is None:
                untyped.append(key)
            else:
                typed[key] = kind
        return types.ObjectType(name, (*typed.items(), *more.items()), tuple(untyped))

    def part(self, schema: Any, path: Path, name: str) -> types.Type | None:
        """Return the type of a part, None where the schema does not state it."""
        stated = self.stated.get(name.removeprefix(f"inputs.{self.given.name.text}."))
        if stated is not None or not isinstance(schema, dict):
            return stated
        kind = schema.get("type")
        if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "quantity":
            return _FREE if "pattern" in schema or "format" in schema else None
        if kind == "string":
            return types.TIMESTAMP if schema.get("format") == "date-time" else types.STRING
        if kind == "array":
            element = self.part(schema.get("items"), (*path, "items"), name)
            return None if element is None else types.list_of(element)
        if kind == "object" or (kind is None and "properties" in schema):
            return self._mapping(schema, path, name)
        return _SCALARS.get(kind) if isinstance(kind, str) else None

    def _mapping(self, schema: dict[str, Any], path: Path, name: str) -> types.Type | None:
        if isinstance(schema.get("properties"), dict):
            return self.object(schema, path, name, {})
        if isinstance(schema.get("additionalProperties"), dict):
            at = (*path, "additionalProperties")
            value = self.part(schema["additionalProperties"], at, name)
            if value == _FREE:
                return types.RESOURCES
            return None if value is None else types.map_of(types.STRING, value)
        return None
