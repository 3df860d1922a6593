"""Field rules of each kind, read from rules.yaml, and what applies them to an object."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from policy_sched.embedded.schema import Problems
from policy_sched.model import formats
from policy_sched.source import yaml_values

Check = Callable[[Problems, str, Any], None]
"""A function that checks the value at a path."""


class FieldRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The rule for the value of one field.

    A value that is missing or empty is not checked.
    """

    required: bool | str = False
    """It must not be empty, or why not."""
    unique: str = ""
    """No two items of the list have the same value in this field."""
    choice: tuple[str, ...] = ()
    """It is one of these."""
    count: bool = False
    """It is not negative."""
    positive: str = ""
    """It is above zero, in these words."""
    format: str = ""
    """A function of `model.formats`."""
    type: str = msgspec.field(default="", name="is")
    """It has this type."""
    check: str = ""
    """A function, which is called for an empty value, too."""
    empty: bool = False
    """The empty value is checked like any other."""


class FieldRules:
    """The rules of all types. ``checks`` has the functions that they name."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        text = Path(__file__).with_name("rules.yaml").read_text(encoding="utf-8")
        (rules_by_type,) = yaml_values(text)
        self._types = msgspec.convert(rules_by_type, dict[str, dict[str, FieldRule]])
        self._checks = checks

    def apply(self, problems: Problems, at: str, value: Any, kind: str) -> None:
        """Check a value of a type; of a type without rules nothing is checked."""
        for path, rule in self._types.get(kind, {}).items():
            seen: set[Any] = set()
            for here, item in _items_at(at, value, path):
                if rule.unique:
                    _check_unique(problems, f"{here}.{rule.unique}", item.get(rule.unique), seen)
                self._apply(problems, here, item, rule)

    def _apply(self, problems: Problems, at: str, value: Any, rule: FieldRule) -> None:
        if rule.required and not value:
            problems.required(at, rule.required if isinstance(rule.required, str) else "")
            return
        checked = bool(value) or rule.empty
        if rule.choice and checked and value not in rule.choice:
            problems.unsupported(at, value or "", rule.choice)
        if rule.count and isinstance(value, int) and value < 0:
            problems.invalid(at, value, formats.NOT_NEGATIVE)
        if rule.positive and (isinstance(value, int) or rule.empty) and (value or 0) <= 0:
            problems.invalid(at, value or 0, rule.positive)
        if rule.format and checked:
            form = getattr(formats, rule.format)
            problems.each(at, value, form(value if rule.format == "port" else str(value)))
        if rule.type and (value is not None or rule.empty):
            self.apply(problems, at, value, rule.type)
        if rule.check:
            self._checks[rule.check](problems, at, value)


def _check_unique(problems: Problems, at: str, value: Any, seen: set[Any]) -> None:
    if value and value in seen:
        problems.duplicate(at, value)
    seen.add(value)


_ITEMS: Final = "[]"


def _items_at(at: str, value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the places that a path leads to, and their values; None where a field is missing."""
    if not path:
        yield at, value
        return
    step, _, rest = path.partition(".")
    name = step.removesuffix(_ITEMS)
    here = f"{at}.{name}" if at else name
    inner = value.get(name) if isinstance(value, dict) else None
    if step == name:
        yield from _items_at(here, inner, rest)
        return
    for index, item in enumerate(inner if isinstance(inner, list) else ()):
        yield from _items_at(f"{here}[{index}]", item, rest)
