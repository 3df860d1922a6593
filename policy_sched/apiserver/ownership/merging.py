"""Objects put together field by field, and fields taken out of them again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from policy_sched.apiserver.ownership.paths import Path, elements
from policy_sched.apiserver.ownership.topology import SET, Names, atomic, keys_of
from policy_sched.model.expansion import Plain


def merged(kind: str, live: Any, applied: Any, names: Names = ()) -> Any:
    """Return a value with another one written over it; the arguments stay as they are."""
    if isinstance(live, dict) and isinstance(applied, dict) and not atomic(names):
        result = dict(live)
        for key, value in applied.items():
            result[key] = merged(kind, live.get(key), value, (*names, key))
        return result
    keys = keys_of(kind, names) if isinstance(applied, list) else None
    if keys and isinstance(live, list):
        old, new = elements(live, keys), elements(applied, keys)
        if old is not None and new is not None:
            if keys == SET:
                return list((old | new).values())
            both = {e: merged(kind, old[e], new[e], names) if e in old else new[e] for e in new}
            return list((old | both).values())
    return applied


def without(kind: str, data: Plain, paths: Iterable[Path]) -> Plain:
    """Return an object without some fields and items; what is empty then goes with them.

    The keys of an item stay as long as the item.
    """
    result = data
    for path in sorted(paths, key=len):
        if len(path) < 2 or not _is_key(path[-1], path[-2]):
            result = _removed(kind, result, path, ())
    return result


def _is_key(field: str, item: str) -> bool:
    return item.startswith("k:") and field[2:] in msgspec.json.decode(item[2:])


def _removed(kind: str, value: Any, path: Path, names: Names) -> Any:
    """Return a value without what a path leads to; None if nothing is left of it."""
    element, rest = path[0], path[1:]
    form, _, name = element.partition(":")
    if form == "f":
        if not isinstance(value, dict) or name not in value:
            return value
        result = dict(value)
        inner = _removed(kind, result[name], rest, (*names, name)) if rest else None
        if inner is None:
            del result[name]
        else:
            result[name] = inner
        return result or (None if names else result)
    keys = keys_of(kind, names)
    items = elements(value, keys) if keys and isinstance(value, list) else None
    if items is None or element not in items:
        return value
    inner = _removed(kind, items[element], rest, names) if rest else None
    if inner is None:
        del items[element]
    else:
        items[element] = inner
    return list(items.values()) or None


def present(value: Any) -> Any:
    """Return plain data without fields that are null."""
    if isinstance(value, dict):
        return {key: present(one) for key, one in value.items() if one is not None}
    return [present(one) for one in value] if isinstance(value, list) else value
