"""Label and field selectors in the API's text form: ``app=web,tier in (a,b)``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from policy_sched.client.apimachinery.errors import bad_request
from policy_sched.client.apimachinery.object import Stored
from policy_sched.model import LABEL_OPERATORS, Pod, parse_selector

Match = Callable[[Stored], bool]
"""Whether an object is selected."""

_EQUAL: Final = re.compile(r"([^=!\s]+)\s*(==|=|!=)\s*(\S*)")


def label_match(text: str) -> Match:
    """Return a test of an object's labels. Raises ApiError if the text is no selector."""
    try:
        selector = parse_selector(text, LABEL_OPERATORS)
    except ValueError as error:
        raise bad_request(f"unable to parse requirement: {error}") from None
    return lambda stored: selector.matches(stored.labels)


def field_match(text: str) -> Match:
    """Return a test of an object's fields. Raises ApiError if the text is no selector."""
    wanted: list[tuple[str, bool, str]] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        found = _EQUAL.fullmatch(part)
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
