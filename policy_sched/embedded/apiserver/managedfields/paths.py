"""Objects as sets of fields: each field that holds a value, by its path.

A path is written in the elements of FieldsV1: ``f:NAME`` of a field, ``k:{KEYS}`` of an item of a
list, ``v:VALUE`` of an item that is its own key. An item is a field of its own, besides those in
it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from policy_sched.client.apimachinery import bad_request, encoded
from policy_sched.embedded.apiserver.managedfields.topology import (
    SET,
    Names,
    atomic,
    key_values,
    keys_of,
)
from policy_sched.embedded.apiserver.registry import too_large
from policy_sched.manifests import Plain

Path = tuple[str, ...]
Fields = dict[Path, Any]
"""What an object's fields hold; `ITEM` where an item itself is meant."""
ITEM: Final = object()
ELEMENTS: Final = 60_000
"""Elements that the paths of an object may have together."""
DEEP: Final = 100
"""Elements that a path may have; no kind of the API's own has as many."""
_ITSELF: Final = "."


def fields_of(kind: str, data: Plain, *, strict: bool = False) -> Fields:
    """Return the fields of an object that hold values.

    A list whose items cannot be told apart is one value; with ``strict`` ApiError is raised, as it
    is if the paths are too long together.
    """
    found = _Found()
    if data:
        _walk(kind, data, ((), ()), found, strict=strict)
    return found


class _Found(dict[Path, Any]):
    """Fields, which raise ApiError when their paths become too long together."""

    def __init__(self) -> None:
        super().__init__()
        self._room = ELEMENTS

    def __setitem__(self, path: Path, value: Any) -> None:
        self._room -= len(path)
        if self._room < 0:
            raise too_large("the object has too many fields to note their managers")
        super().__setitem__(path, value)


def _walk(kind: str, value: Any, place: tuple[Path, Names], found: Fields, *, strict: bool) -> None:
    path, names = place
    if isinstance(value, dict) and value and not atomic(names) and len(path) < DEEP:
        for key, one in value.items():
            _walk(kind, one, ((*path, f"f:{key}"), (*names, key)), found, strict=strict)
        return
    keys = keys_of(kind, names) if isinstance(value, list) and value else None
    items = elements(value, keys) if keys else None
    if keys and items is None and strict:
        raise bad_request(
            f"failed to create typed patch object: {text(path)}: associative list with keys has an"
            " element that omits a key field or appears twice"
        )
    if items is None:
        found[path] = value
        return
    for element, item in items.items():
        found[*path, element] = ITEM
        if isinstance(item, dict):
            _walk(kind, item, ((*path, element), names), found, strict=strict)


def elements(items: Iterable[Any], keys: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the items of a list by their elements, None if they cannot be told apart."""
    found: dict[str, Any] = {}
    for item in items:
        if keys == SET:
            element = f"v:{encoded(item).decode()}" if not isinstance(item, dict | list) else None
        else:
            values = key_values(item, keys)
            element = None if values is None else f"k:{encoded(values).decode()}"
        if element is None or element in found:
            return None
        found[element] = item
    return found


def text(path: Path) -> str:
    """Return a path as messages have it: ``.spec.containers[name="c"].image``."""
    parts = []
    for element in path:
        form, _, rest = element.partition(":")
        if form == "f":
            parts.append(f".{rest}")
        elif form == "k":
            values = msgspec.json.decode(rest).items()
            parts.append(f"[{','.join(f'{k}={encoded(v).decode()}' for k, v in values)}]")
        else:
            parts.append(f"[={rest}]")
    return "".join(parts)


def as_fields_v1(paths: Iterable[Path]) -> Plain:
    """Return a set of paths as FieldsV1."""
    root: Plain = {}
    for path in sorted(paths):
        at = root
        for element in path:
            at = at.setdefault(element, {})
        if path[-1][0] != "f":
            at[_ITSELF] = {}
    for path in paths:  # a field that holds a value beside fields in it
        at = root
        for element in path:
            at = at[element]
        if at:
            at[_ITSELF] = {}
    return root


def from_fields_v1(data: Any) -> frozenset[Path]:
    """Return the paths of FieldsV1; what is none is left out."""
    found = _Found()

    def walk(at: Any, path: Path) -> None:
        if len(path) > DEEP or not isinstance(at, dict):
            return
        if path and (not at or _ITSELF in at):
            found[path] = ITEM
        for element, inner in at.items():
            if _is_element(element):
                walk(inner, (*path, element))

    walk(data, ())
    return frozenset(found)


def _is_element(text: str) -> bool:
    if text[:2] == "f:":
        return True
    if text[:2] not in ("k:", "v:"):
        return False
    try:
        value = msgspec.json.decode(text[2:])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return isinstance(value, dict) is (text[:2] == "k:")
