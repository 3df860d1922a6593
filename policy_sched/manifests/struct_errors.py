"""Finds everything in plain data that does not fit a struct, by path and by position.

msgspec decodes fast but stops at the first error and names no map key. This walk is for the
objects that it rejects: it reports all errors, and returns the data as Go reads JSON: a null
field is absent, and a null item of a list or map is the zero value of its type. Objects with errors
are read once more with positions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec
import msgspec.inspect as types

from policy_sched import source
from policy_sched.errors import Diagnostic, Severity
from policy_sched.model import excess, nanos
from policy_sched.source import MAX_LOOK

Path = tuple[str | int, ...]
"""The path of a value in an object: keys of mappings, indexes of sequences."""

Report = Callable[[Path, str, str, str], None]
"""Receives path, code, message and hint of one problem."""

WRONG_TYPE: Final = "PS703"
MISSING: Final = "PS704"
BAD_VALUE: Final = "PS707"

T = TypeVar("T")


_LEFT_OUT: Final = object()
"""Marks a value that a lenient walk leaves out."""

MOST_PROBLEMS: Final = 1_000
"""Problems of one object that are reported; what follows is not looked at."""

_SHAPES: Final[dict[object, types.Type]] = {}
"""Cache of struct descriptions."""


def fit(value: object, kind: type[T], report: Report) -> T | None:
    """Return ``value`` decoded as ``kind``; None after all its problems were reported."""
    if kind not in _SHAPES:
        _SHAPES[kind] = types.type_info(kind)
    walk = _Walk(report)
    try:
        cleaned = walk.visit(value, _SHAPES[kind], ())
    except _TooManyProblemsError:
        return None
    return None if walk.failed else msgspec.convert(cleaned, kind)


def fit_partly(value: object, kind: type[T]) -> T:
    """Return ``value`` decoded as ``kind``, without the fields that do not fit."""
    if kind not in _SHAPES:
        _SHAPES[kind] = types.type_info(kind)
    walk = _Walk(_unreported, lenient=True)
    cleaned = walk.visit(value, _SHAPES[kind], ())
    return msgspec.convert({} if walk.failed else cleaned, kind)


def _unreported(_path: Path, _code: str, _message: str, _hint: str) -> None:
    """Report nothing: values that do not fit are left out."""


def _described(value: object) -> str:
    """Return a description of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return f"the number {value}"
        case str():
            return f"the text {value!r}" if len(value) <= 40 else "a text"
        case dict():
            return "a mapping"
        case list():
            return "a list"
    return type(value).__name__


_RESOURCE_LISTS: Final = frozenset(
    {"requests", "limits", "allocatable", "capacity", "allocatedResources", "overhead"}
)
"""Fields with amounts by the names of resources."""


class _TooManyProblemsError(Exception):
    """An object has more problems than are reported."""


class _Walk:
    """One walk over one object; ``lenient``: fields and items that do not fit are left out."""

    def __init__(self, report: Report, *, lenient: bool = False) -> None:
        self._report = report
        self._lenient = lenient
        self._problems = 0
        self.failed = False

    def visit(self, value: object, shape: types.Type, path: Path) -> Any:
        """Return the value without nulls; report values that do not fit."""
        match shape:
            case types.StructType():
                return self._struct(value, shape, path)
            case types.DictType():
                return self._mapping(value, shape, path)
            case types.VarTupleType():
                return self._sequence(value, shape, path)
            case types.UnionType():
                return self._union(value, shape, path)
            case types.StrType():
                return self._text(value, path)
            case types.IntType():
                return self._integer(value, shape, path)
            case types.BoolType():
                return (
                    value if isinstance(value, bool) else self._wrong(value, "true or false", path)
                )
            case types.DateTimeType():
                return self._time(value, path)
            case types.AnyType():
                return value
        raise TypeError(f"no struct of the model has a {type(shape).__name__}")

    def _struct(self, value: object, shape: types.StructType, path: Path) -> Any:
        if not isinstance(value, dict):
            return self._wrong(value, "a mapping", path)
        known = {field.encode_name: field for field in shape.fields}
        return {
            name: fitted
            for name, inner in value.items()
            if name in known
            and inner is not None
            and (fitted := self._inner(inner, known[name].type, (*path, name))) is not _LEFT_OUT
        }

    def _mapping(self, value: object, shape: types.DictType, path: Path) -> Any:
        if not isinstance(value, dict):
            return self._wrong(value, "a mapping", path)
        return {
            name: fitted
            for name, inner in value.items()
            if (fitted := self._inner(inner, shape.value_type, (*path, name))) is not _LEFT_OUT
        }

    def _sequence(self, value: object, shape: types.VarTupleType, path: Path) -> Any:
        if not isinstance(value, list):
            return self._wrong(value, "a list", path)
        items = [self._inner(v, shape.item_type, (*path, i)) for i, v in enumerate(value)]
        return [item for item in items if item is not _LEFT_OUT] if self._lenient else items

    def _inner(self, value: object, shape: types.Type, path: Path) -> Any:
        """Visit a field or an item; a lenient walk leaves it out if it does not fit."""
        if value is None:
            value = _zero(shape)
        if not self._lenient:
            return self.visit(value, shape, path)
        fitted = self.visit(value, shape, path)
        failed, self.failed = self.failed, False
        return _LEFT_OUT if failed else fitted

    def _union(self, value: object, shape: types.UnionType, path: Path) -> Any:
        if _is_amount(shape):
            return self._amount(value, path)
        options = [t for t in shape.types if not isinstance(t, types.NoneType)]
        if len(options) > 1 and isinstance(value, str):  # a number or a percentage
            return value
        return self.visit(value, options[0], path)

    def _text(self, value: object, path: Path) -> Any:
        if isinstance(value, str):
            return value
        plain = isinstance(value, bool | int | float)
        hint = f'write it in quotes: "{_written(value)}"' if plain else ""
        return self._wrong(value, "text", path, hint)

    def _integer(self, value: object, shape: types.IntType, path: Path) -> Any:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            return self._wrong(value, "a whole number", path)
        if (shape.ge is not None and value < shape.ge) or (
            shape.le is not None and value > shape.le
        ):
            self._problem(path, BAD_VALUE, f"{value} is not between {shape.ge} and {shape.le}")
        return value

    def _time(self, value: object, path: Path) -> Any:
        if not isinstance(value, str):
            return self._wrong(value, "a time", path)
        try:
            return msgspec.convert(value, datetime)
        except msgspec.ValidationError:
            message = f"{value!r} is not a time"
            self._problem(path, BAD_VALUE, message, "write it as 2006-01-02T15:04:05Z")
            return value

    def _amount(self, value: object, path: Path) -> Any:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return self._wrong(value, "a quantity", path)
        try:
            quantity = nanos(value)
        except ValueError as error:
            self._problem(path, BAD_VALUE, f"{_described(value)} is not a quantity: {error}")
            return value
        resource = str(path[-1]) if path[-2:-1] and path[-2] in _RESOURCE_LISTS else "storage"
        why = "must be greater than or equal to 0" if quantity < 0 else excess(resource, quantity)
        if why:
            hint = "" if quantity < 0 else "kube-scheduler's sums and scores of more overflow int64"
            self._problem(path, BAD_VALUE, f"{_described(value)} {why}", hint)
        return value

    def _wrong(self, value: object, expected: str, path: Path, hint: str = "") -> Any:
        name = str(path[-1]) if path and isinstance(path[-1], str) else "this"
        message = f"{name} must be {expected}, not {_described(value)}"
        self._problem(path, WRONG_TYPE, message, hint)
        return value

    def _problem(self, path: Path, code: str, message: str, hint: str = "") -> None:
        self.failed = True
        self._report(path, code, message, hint)
        self._problems += 1
        if self._problems == MOST_PROBLEMS and not self._lenient:
            words = f"the object has {MOST_PROBLEMS} problems; the rest of it is not looked at"
            self._report(path, code, words, "")
            raise _TooManyProblemsError


def _zero(shape: types.Type) -> object:
    """Return the zero value of the Go type, for a null item of a list or a map."""
    match shape:
        case types.StructType() | types.DictType():
            return {}
        case types.VarTupleType():
            return []
        case types.IntType():
            return 0
        case types.BoolType():
            return False
        case types.DateTimeType():
            return "0001-01-01T00:00:00Z"
    return 0 if _is_amount(shape) else ""


def _is_amount(shape: types.Type) -> bool:
    """Return whether a shape is that of `quantity.Amount`: text, integer or float."""
    if not isinstance(shape, types.UnionType):
        return False
    return any(isinstance(t, types.FloatType) for t in shape.types)


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class LocatedManifest(msgspec.Struct, frozen=True):
    """An object read with positions: its plain data, or the problems of its text.

    ``marked`` is None if only the line is known: for JSON that YAML cannot read, and for objects
    of more than 1 MiB. ``ended``: the rest of the file cannot be read.
    """

    value: object
    file: source.SourceFile
    marked: source.Marked | None = None
    problems: Sequence[Diagnostic] = ()
    ended: bool = False

    def diagnostic(self, path: Path, code: str, message: str, hint: str) -> Diagnostic:
        """Return the diagnostic of a path inside the object."""
        span = (0, 1) if self.marked is None else self.marked.span(path)
        where = ".".join(str(step) for step in path)
        context = f"at {where}" if self.marked is None and where else ""
        return source.diagnostic(self.file, span, code, message, hint=hint, context=context)

    def warning(self, path: Path, code: str, message: str, hint: str) -> Diagnostic:
        """Return a warning about the key at a path inside the object."""
        span = (0, 1) if self.marked is None else self.marked.key_span(path)
        grave = Severity.WARNING
        return source.diagnostic(self.file, span, code, message, hint=hint, severity=grave)


class ManifestPosition(msgspec.Struct, frozen=True):
    """The position of an object in a file of YAML or JSON."""

    file: source.SourceFile
    record: source.PlainRecord
    is_json: bool = False

    def __str__(self) -> str:
        return f"{self.file.path}:{self.file.position(self.record.start)[0]}"

    def plain(self) -> object:
        """Read a valid object without positions."""
        if self.record.json is not None:
            return msgspec.json.decode(self.record.json)
        if self.is_json:
            return json.loads(self.file.text[self.record.start : self.record.end])
        return self.look().value

    def look(self) -> LocatedManifest:
        """Read the object with positions."""
        if self.is_json:
            return _look_at_json(self.file.section(self.record.start, self.record.end))
        if self.record.json is not None and self.record.end - self.record.start > MAX_LOOK:
            section = self.file.section(self.record.start, self.record.end)
            return LocatedManifest(msgspec.json.decode(self.record.json), section)
        parsed = self.record.look(self.file)
        if parsed.problems or not parsed.documents:
            section = self.file.section(self.record.start, self.record.end)
            return LocatedManifest(None, section, None, parsed.problems, parsed.ended)
        marked = parsed.documents[0]
        return LocatedManifest(marked.value, marked.file, marked)


def _look_at_json(file: source.SourceFile) -> LocatedManifest:
    """Read JSON with positions, by parsing it as YAML, a superset of nearly all JSON."""
    refused = source.unprintable(file) or len(file.text) > MAX_LOOK
    parsed = None if refused else source.parse_text(file, _without_surrogates(file.text))
    try:
        value = json.loads(file.text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        message = f"the text is not JSON: {error.msg}"
        return LocatedManifest(
            None, file, None, [source.diagnostic(file, error.pos, source.UNREADABLE, message)]
        )
    except RecursionError as error:
        return LocatedManifest(
            None, file, None, [source.json_problem(file, error, source.UNREADABLE)]
        )
    except ValueError as error:  # a constant, or a number of more digits than int() accepts
        faults = [] if parsed is None else parsed.problems
        other = source.diagnostic(file, 0, source.UNREADABLE, f"the text is not JSON: {error}")
        return LocatedManifest(None, file, None, faults or [other])
    value = _without_halves(value)
    if parsed is not None and len(parsed.documents) == 1 and not parsed.problems:
        return LocatedManifest(value, file, parsed.documents[0])
    problems = [] if parsed is None else parsed.problems
    if any("duplicate key" in problem.message for problem in problems):
        return LocatedManifest(None, file, None, problems)
    return LocatedManifest(value, file)  # JSON that is not YAML: no exact positions


def _without_halves(value: object) -> object:
    """Return a value without unpaired surrogates.

    Each is replaced by U+FFFD, as Go does when it reads JSON.
    """
    text = json.dumps(value, ensure_ascii=False)
    mended = _HALF.sub("\ufffd", text)
    return value if mended == text else json.loads(mended)


def _refuse_constant(word: str) -> object:
    raise ValueError(f"{word} is not a JSON number")


_HALF: Final = re.compile("[\ud800-\udfff]")
_ESCAPE: Final = re.compile(r"\\(?:u[dD][89a-fA-F][0-9a-fA-F]{2}|.)")


def _without_surrogates(text: str) -> str:
    """Return a text of the same length without unpaired surrogates, which YAML rejects."""
    return _ESCAPE.sub(lambda match: "x" * 6 if len(match[0]) == 6 else match[0], text)
