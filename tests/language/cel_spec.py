"""Cases of cel-spec's conformance files, and values in the form in which they are compared."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .oracle_time import SECOND
from .oracle_values import Optional
from .textproto import Message, read

DIRECTORY: Final = Path(__file__).parents[2].parent / "shared" / "cel-spec"
#: Values that have no counterpart here: a case that expects one must be refused.
FOREIGN: Final = ("uint64_value", "bytes_value", "null_value", "type_value", "enum_value")
TIMES: Final = {
    "[type.googleapis.com/google.protobuf.Duration]": "duration",
    "[type.googleapis.com/google.protobuf.Timestamp]": "timestamp",
}


class Foreign:
    """Marks an expected value that the rule language cannot have."""


class Anything:
    """Stands for the value of a case that only says which type it has."""


@dataclass(frozen=True, slots=True)
class Case:
    """One conformance case: ``expected`` is a value; of no use where it ``fails`` at run time.

    ``text`` binds the case's variables by ``cel.bind``.
    """

    file: str
    section: str
    name: str
    text: str
    expected: Any
    fails: bool

    def __str__(self) -> str:
        return f"{self.file}/{self.section}/{self.name}: {self.text}"


def cases() -> Iterator[Case]:
    """Read all cases, in the order of the files."""
    for path in sorted(DIRECTORY.glob("*.textproto")):
        for section in _messages(read(path.read_text(encoding="utf-8")), "section"):
            for test in _messages(section, "test"):
                yield _case(path.stem, str(section["name"][0]), test)


def _messages(message: Message, name: str) -> list[Message]:
    return [m for m in message.get(name, []) if isinstance(m, dict)]


def _case(file: str, section: str, test: Message) -> Case:
    values = _messages(test, "value") + [
        v for r in _messages(test, "typed_result") for v in _messages(r, "result")
    ]
    expected = value_of(values[0]) if values else True
    if "check_only" in test:
        expected = Anything
    fails = "eval_error" in test
    bindings, container = _messages(test, "bindings"), "container" in test
    text = _bound(str(test["expr"][0]), bindings, in_full=container)
    return Case(file, section, str(test["name"][0]), text, expected, fails)


def _bound(text: str, bindings: list[Message], *, in_full: bool) -> str:
    """Return the text with its variables bound; as it is where a binding cannot be written.

    ``in_full``: the case has a container, by which a name stands for a longer one: that one is
    what is bound, and refused for its dots.
    """
    found = text
    for binding in bindings:
        name, value = str(binding["key"][0]), _messages(binding, "value")[0]
        literal = _literal(_messages(value, "value")[0]) if "value" in value else None
        if literal is None or ("." in name and not in_full):
            return text
        if name not in ("true", "false", "null"):  # no variable can be called so
            found = f"cel.bind({name}, {literal}, {found})"
    return found


def _literal(message: Message) -> str | None:
    """Return how an expression writes a value; None where it cannot."""
    kind, (value, *_) = next(iter(message.items()))
    match kind, value:
        case "bool_value", _:
            return str(value).lower()
        case "int64_value", _:
            return str(value)
        case "double_value", _:
            return repr(float(value))  # type: ignore[arg-type]
        case "string_value", _:
            return json.dumps(value)
        case "list_value", dict():
            parts = [_literal(v) for v in _messages(value, "values")]
            return f"[{', '.join(p for p in parts if p)}]" if all(parts) else None
        case "map_value", dict():
            entries = [
                (_literal(_messages(e, "key")[0]), _literal(_messages(e, "value")[0]))
                for e in _messages(value, "entries")
            ]
            return "{" + ", ".join(f"{k}: {v}" for k, v in entries) + "}"
        case "object_value", dict():
            name = next(iter(value)).strip("[]")
            return f"{name.rpartition('/')[2]}{{}}"
    return None


def value_of(message: Message) -> Any:
    """Return an expected value; `Foreign` where the rule language has no such value."""
    kind, (value, *_) = next(iter(message.items()))
    match kind:
        case "bool_value" | "int64_value" | "string_value":
            return value
        case "double_value":
            return float(value)  # type: ignore[arg-type]
        case "list_value":
            assert isinstance(value, dict)
            return [value_of(v) for v in _messages(value, "values")]
        case "map_value":
            assert isinstance(value, dict)
            return {
                value_of(_messages(entry, "key")[0]): value_of(_messages(entry, "value")[0])
                for entry in _messages(value, "entries")
            }
        case "object_value":
            assert isinstance(value, dict)
            return _time(value)
    return Foreign


def _time(message: Message) -> Any:
    name, (value, *_) = next(iter(message.items()))
    if name not in TIMES or not isinstance(value, dict):
        return Foreign
    return sum(
        int(value.get(part, [0])[0]) * unit  # type: ignore[arg-type, misc]
        for part, unit in (("seconds", SECOND), ("nanos", 1))
    )


def same(got: Any, expected: Any) -> bool:
    """Compare values strictly: types count, NaN is NaN, and so is the sign of zero."""
    if isinstance(expected, list):
        return isinstance(got, list) and len(got) == len(expected) and all(map(same, got, expected))
    if isinstance(expected, dict):
        return (
            isinstance(got, dict)
            and got.keys() == expected.keys()
            and all(same(got[k], expected[k]) for k in expected)
        )
    if type(got) is not type(expected):
        return False
    if isinstance(expected, Optional):
        return got.present == expected.present and same(got.value, expected.value)
    if isinstance(expected, float):
        if math.isnan(expected):
            return math.isnan(got)
        return bool(got == expected and math.copysign(1, got) == math.copysign(1, expected))
    return bool(got == expected)
