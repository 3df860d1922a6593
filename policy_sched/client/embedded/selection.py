"""Label and field selectors in the API's text form: ``app=web,tier in (a,b)``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from policy_sched.client.embedded.api_error import bad_request
from policy_sched.client.embedded.stored import Stored
from policy_sched.model.pod import Pod
from policy_sched.model.selectors import LABEL_OPERATORS, Selector, requirement

Match = Callable[[Stored], bool]
"""Whether an object is selected."""

_SET: Final = re.compile(r"^([^\s=!,()]+)\s+(in|notin)\s*\(([^()]*)\)$")
_EQUAL: Final = re.compile(r"^([^=!\s]+)\s*(==|=|!=)\s*(\S*)$")
_PART: Final = re.compile(r"[^,(]+(?:\([^)]*\))?")


def label_match(text: str) -> Match:
    """Return a test of an object's labels. Raises ApiError if the text is no selector."""
    try:
        selector = Selector(tuple(requirement(*part) for part in _label_parts(text)))
    except ValueError as error:
        raise bad_request(f"unable to parse requirement: {error}") from None
    return lambda stored: selector.matches(stored.labels)


def _label_parts(text: str) -> Iterator[tuple[str, str, tuple[str, ...], tuple[str, ...]]]:
    for part in (found[0].strip() for found in _PART.finditer(text)):
        if found := _SET.match(part):
            given = found[3].split(",") if found[3].strip() else []
            values = tuple(value.strip() for value in given)
            yield found[1], "In" if found[2] == "in" else "NotIn", values, LABEL_OPERATORS
        elif found := _EQUAL.match(part):
            yield found[1], "NotIn" if found[2] == "!=" else "In", (found[3],), LABEL_OPERATORS
        elif part.startswith("!"):
            yield part[1:].strip(), "DoesNotExist", (), LABEL_OPERATORS
        else:
            yield part, "Exists", (), LABEL_OPERATORS


def field_match(text: str) -> Match:
    """Return a test of an object's fields. Raises ApiError if the text is no selector."""
    wanted: list[tuple[str, bool, str]] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        found = _EQUAL.match(part)
        if found is None:
            raise bad_request(f"invalid field selector: {part!r}")
        wanted.append((found[1], found[2] != "!=", found[3]))
    return lambda stored: all((_field(stored, path) == v) is same for path, same, v in wanted)


def _field(stored: Stored, path: str) -> str:
    typed = stored.typed
    if path == "metadata.name":
        return stored.name
    if path == "metadata.namespace":
        return stored.namespace
    if path == "spec.nodeName" and isinstance(typed, Pod):
        return typed.spec.node_name
    if path == "status.phase" and isinstance(typed, Pod):
        return typed.status.phase
    value: object = stored.data
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
