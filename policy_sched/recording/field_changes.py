"""Changes of objects, field by field: what differs between two structs, and its application.

A change is a map from paths of fields, by their names in JSON, to new values. Lists of structs
mostly change in one place, so ``status.images[2:3]`` stands for that part of the old list.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from datetime import datetime
from functools import cache, lru_cache
from types import UnionType
from typing import Any, Final, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec.structs import astuple, replace

_PART: Final = re.compile(r"([^\[\]]+)(?:\[([0-9]{1,9}):([0-9]{1,9})\])?")
_WHOLE: Final = frozenset({str, int, float, bool, dict, datetime, type(None)})
"""Types of values that are no structs and no lists."""
_PLANS: Final = 4096
"""Combinations of paths whose application is kept."""


@cache
def _paths(kind: Hashable, prefix: str) -> tuple[str, ...]:
    """Return the paths of a struct's fields."""
    names: tuple[str, ...] = getattr(kind, "__struct_encode_fields__")  # noqa: B009 - a struct
    return tuple(prefix + name for name in names)


def find_differences(
    old: msgspec.Struct, new: msgspec.Struct, prefix: str, differences: dict[str, Any]
) -> None:
    """Add what differs between two structs of one type to what was found, by path."""
    paths = _paths(type(old), prefix)
    for path, before, after in zip(paths, astuple(old), astuple(new), strict=True):
        if before is after or before == after:
            continue
        kind = type(before)
        if kind is not type(after) or kind in _WHOLE:
            differences[path] = after
        elif kind is not tuple:
            find_differences(before, after, f"{path}.", differences)
        elif before and after:
            start, stop, part = _part_that_differs(before, after)
            differences[f"{path}[{start}:{stop}]"] = part
        else:
            differences[path] = after


def _part_that_differs(
    before: tuple[Any, ...], after: tuple[Any, ...]
) -> tuple[int, int, tuple[Any, ...]]:
    """Return the start and stop of a part of a list, and what stands there instead."""
    shorter = min(len(before), len(after))
    start = 0
    while start < shorter and before[start] == after[start]:
        start += 1
    behind = 0
    while behind < shorter - start and before[-1 - behind] == after[-1 - behind]:
        behind += 1
    return start, len(before) - behind, after[start : len(after) - behind]


def applied(obj: Any, values: Mapping[str, msgspec.Raw]) -> Any:
    """Return a struct with changed fields. Raises ValueError for a misfit."""
    return _apply(obj, _plan(obj.__class__, tuple(values)), values)


_Step: TypeAlias = tuple[str, str, "msgspec.json.Decoder[Any] | None", int, int, tuple[Any, ...]]
"""Name of the field, key of the value, its decoder, start and stop (-1: whole), steps below."""


def _apply(obj: Any, plan: tuple[_Step, ...], values: Mapping[str, msgspec.Raw]) -> Any:
    changes = {}
    for name, key, decoder, start, stop, below in plan:
        if decoder is None:
            inner = getattr(obj, name)
            if inner is None:
                raise ValueError(f"the object has no {name}")
            changes[name] = _apply(inner, below, values)
            continue
        value = decoder.decode(values[key])
        if stop >= 0:
            before = getattr(obj, name)
            if stop > len(before) or start > stop:
                raise ValueError(f"{key}: the list has {len(before)} items")
            value = before[:start] + value + before[stop:]
        changes[name] = value
    return replace(obj, **changes)


@lru_cache(_PLANS)
def _plan(kind: Any, keys: tuple[str, ...]) -> tuple[_Step, ...]:
    """Return how fields of a struct are set. Raises ValueError for one that it does not have."""
    return _steps(kind, {key: key.split(".") for key in keys})


def _steps(kind: type[msgspec.Struct], paths: Mapping[str, list[str]]) -> tuple[_Step, ...]:
    types = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    grouped: dict[str, dict[str, list[str]]] = {}
    for key, (first, *rest) in paths.items():
        grouped.setdefault(first, {})[key] = rest
    steps: list[_Step] = []
    for part, deeper in grouped.items():
        match = _PART.fullmatch(part)
        field = types.get(match[1]) if match else None
        if match is None or field is None:
            raise ValueError(f"{next(iter(deeper))}: there is no field {part}")
        key = next(iter(deeper))
        if all(deeper.values()) and match[2] is None:
            inner = _struct_in(field.type)
            if inner is None:
                raise ValueError(f"{key}: {part} has no fields")
            steps.append((field.name, "", None, 0, -1, _steps(inner, deeper)))
        elif len(deeper) > 1 or deeper[key]:
            raise ValueError(f"{key}: {part} is given twice")
        else:
            start, stop = (-1, -1) if match[2] is None else (int(match[2]), int(match[3]))
            if stop >= 0 and get_origin(field.type) is not tuple:
                raise ValueError(f"{key}: {match[1]} is no list")
            steps.append((field.name, key, _decoder(field.type), start, stop, ()))
    if len({step[0] for step in steps}) < len(steps):
        raise ValueError(f"{next(iter(paths))}: a field is given twice")
    return tuple(steps)


def _struct_in(annotation: Any) -> type[msgspec.Struct] | None:
    """Return the struct that a field has, or may have."""
    union = get_origin(annotation) in (UnionType, Union)
    types = [t for t in (get_args(annotation) if union else [annotation]) if isinstance(t, type)]
    return next((t for t in types if issubclass(t, msgspec.Struct)), None)


@cache
def _decoder(annotation: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(annotation)
