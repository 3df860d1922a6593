"""JSONPath, as far as columns of custom resources have it: kubectl's dialect, without templates.

Fields, ``*``, indexes and slices, unions of names, ``..`` and filters that compare. (client-go's
util/jsonpath.) Missing fields give nothing.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

import msgspec

MOST: Final = 10_000
"""Values that a path may lead to on its way: ``..*..*`` would multiply them."""
_STEP: Final = re.compile(
    r"(?P<deep>\.\.)?\.?(?:(?P<name>(?:\\.|[^.\[\]\\])+)|\[(?P<inner>(?:'[^']*'|\"[^\"]*\"|[^\]'\"])+)\])"
)
_FILTER: Final = re.compile(r"\?\(\s*(.+?)\s*(?:(==|!=|<=|>=|<|>)\s*(.+?)\s*)?\)")
_SLICE: Final = re.compile(r"(-?\d*):(-?\d*)(?::(\d+))?")
_NUMBER: Final = re.compile(r"-?\d+")
_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, ">": operator.gt,
    "<=": operator.le, ">=": operator.ge,
}  # fmt: skip
Step = Callable[[Any], Iterator[Any]]


@lru_cache(maxsize=1024)
def steps_of(path: str) -> tuple[Step, ...]:
    """Return the steps of a path. Raises ValueError if it cannot be read."""
    steps: list[Step] = []
    end = 0
    while end < len(path):
        match = _STEP.match(path, end)
        if match is None:
            if path[end:] == ".":  # the object itself
                break
            raise ValueError(f"cannot read {path[end:]!r}")
        if match["deep"]:
            steps.append(_deep)
        if match["name"] is not None:
            name = re.sub(r"\\(.)", r"\1", match["name"])
            steps.append(_all if name == "*" else _named((name,)))
        else:
            steps.append(_bracket(match["inner"].strip()))
        end = match.end()
    return tuple(steps)


def values_at(path: str, data: Any) -> list[Any]:
    """Return the values that a path leads to; none if it leads to too many on its way."""
    values = [data]
    for step in steps_of(path):
        values = [inner for value in values for inner in step(value)]
        if len(values) > MOST:
            return []
    return values


def _all(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        yield from value.values() if isinstance(value, dict) else value


def _deep(value: Any) -> Iterator[Any]:
    yield value
    for inner in _all(value):
        yield from _deep(inner)


def _named(names: tuple[str, ...]) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict):
            yield from (value[name] for name in names if name in value)

    return step


def _bracket(text: str) -> Step:
    if text == "*":
        return _all
    if filtered := _FILTER.fullmatch(text):
        return _filter(*filtered.groups())
    if _NUMBER.fullmatch(text):
        return _slice(int(text), int(text) + 1 or None, 1)
    if cut := _SLICE.fullmatch(text):
        first, last, every = (int(part) if part else None for part in cut.groups())
        return _slice(first, last, every)
    names = [part.strip() for part in text.split(",")]
    if all(len(name) > 1 and name[0] == name[-1] and name[0] in "'\"" for name in names):
        return _named(tuple(name[1:-1] for name in names))
    raise ValueError(f"cannot read [{text}]")


def _slice(first: int | None, last: int | None, every: int | None) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[first:last:every]

    return step


def _filter(left: str, sign: str | None, right: str | None) -> Step:
    sides = _side(left), _side(right) if right else None

    def step(value: Any) -> Iterator[Any]:
        for item in value if isinstance(value, list) else ():
            a = sides[0](item)
            if sides[1] is None or sign is None:
                if a:
                    yield item
                continue
            b = sides[1](item)
            try:
                if a and b and _OPERATORS[sign](a[0], b[0]):
                    yield item
            except TypeError:
                continue

    return step


def _side(text: str) -> Callable[[Any], list[Any]]:
    """Return what gives one side of a comparison for an item."""
    if text.startswith("@"):
        steps_of(text[1:])
        return lambda item: values_at(text[1:], item)
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return lambda _: [text[1:-1]]
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        raise ValueError(f"cannot read {text}") from None
    return lambda _: [value]
