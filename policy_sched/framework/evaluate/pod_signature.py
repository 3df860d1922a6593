"""The signature of a pod: the values of the fields that plugins read, as a dictionary's key."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, itemgetter
from typing import Any

from policy_sched.framework import PodKey, Signature
from policy_sched.model import PodInfo, field_key

Key = tuple[object, ...]


def key_getter(signature: Signature) -> Callable[[PodInfo], Key]:
    """Return the function from a pod to the values that ``signature`` names, as a tuple."""
    of_fields = _fields_getter(signature.fields)
    if not signature.keys:
        return of_fields
    # Every pod has a name: a plain function is asked for each.
    keys = [key if isinstance(key, PodKey) else PodKey(key, "name") for key in signature.keys]
    plain = [(place, key.function) for place, key in enumerate(keys) if key.attribute == "name"]
    # Of one attribute, too, it is to return a tuple.
    attributes = [key.attribute for key in keys if key.attribute != "name"] or ["terminating"]
    concerns: Callable[[PodInfo], tuple[Any, ...]] = attrgetter(*attributes, attributes[0])
    all_unless = [name for key in keys for name in key.unless]
    nones = (None,) * len(keys)
    asked = [(key.function, attrgetter(key.attribute), key.unless) for key in keys]

    def with_keys(pod: PodInfo) -> Key:
        if any(concerns(pod)) or any(all_unless):
            values = [*of_fields(pod)]
            for function, concerned, unless in asked:
                values.append(function(pod) if concerned(pod) or any(unless) else None)
            return tuple(values)
        if not plain:
            return of_fields(pod) + nones
        others: list[Any] = [*nones]
        for place, function in plain:
            others[place] = function(pod)
        return of_fields(pod) + tuple(others)

    return with_keys


def part_getter(whole: Signature, part: Signature) -> Callable[[Key], Key]:
    """Return the function from a key of ``whole`` to the values that ``part`` names in it."""
    attributes, parts = _places(whole.fields)
    places: list[object] = [*attributes, *parts, *whole.keys]
    attributes, parts = _places(part.fields)
    wanted = [places.index(position) for position in (*attributes, *parts, *part.keys)]
    if len(wanted) > 1:
        return itemgetter(*wanted)
    return lambda key: tuple([key[position] for position in wanted])


def _places(fields: frozenset[tuple[str, ...]]) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the attributes of a pod that are read, and the entries of others, both in order."""
    whole = sorted({_attribute(path) for path in fields if len(path) == 1 or _of_namespace(path)})
    return whole, sorted((p[0], p[1]) for p in fields if len(p) > 1 and not _of_namespace(p))


def _fields_getter(fields: frozenset[tuple[str, ...]]) -> Callable[[PodInfo], Key]:
    whole, parts = _places(fields)
    getter: Callable[[PodInfo], Any] = attrgetter(*whole) if whole else lambda _pod: ()

    def single(pod: PodInfo) -> Key:
        return (getter(pod),)

    first: Callable[[PodInfo], Key] = single if len(whole) == 1 else getter
    if not parts:
        return first

    def with_parts(pod: PodInfo) -> Key:
        return first(pod) + tuple(getattr(pod, name).get(key) for name, key in parts)

    return with_parts


def _of_namespace(path: tuple[str, ...]) -> bool:
    return path[0] == "namespaceObject"


def _attribute(path: tuple[str, ...]) -> str:
    # A namespace's labels are those of its name until the journal has a change of them.
    return "namespace" if _of_namespace(path) else field_key(path[0])
