"""The keys that may stand at a place of a file, from the JSON Schemas, with what they mean."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from policy_sched.profiles.models import CONFIGURATION_FILE, POLICY_FILE, TEST_FILE, schemas

_FILES: Final = {
    "Policy": POLICY_FILE,
    "KubeSchedulerConfiguration": CONFIGURATION_FILE,
    "PolicyTest": TEST_FILE,
}


def keys_at(text: str, line: int, path: tuple[str, ...]) -> dict[str, str]:
    """Return the keys below ``path`` in the document of a line (from 0), with their meaning."""
    root = _schema(_FILES.get(_kind(text, line), POLICY_FILE))
    found: dict[str, str] = {}
    for schema in _below(root, root, path):
        for key, value in schema.get("properties", {}).items():
            found.setdefault(key, str(value.get("description", "")))
    return found


def _kind(text: str, line: int) -> str:
    """Return the kind that the document of a line says it has; a Policy if it says nothing."""
    lines = text.split("\n")
    breaks = [i for i, one in enumerate(lines) if one.startswith("---")]
    start = max((i for i in breaks if i <= line), default=0)
    end = min((i for i in breaks if i > line), default=len(lines))
    found = re.search(r"^kind:\s*(\w+)", "\n".join(lines[start:end]), re.MULTILINE)
    return found[1] if found else "Policy"


@cache
def _schema(file: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(schemas()[file])
    return loaded


def _below(
    root: Mapping[str, Any], schema: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas of mappings at a path; lists are looked through."""
    for one in _resolved(root, schema):
        if not path:
            yield one
            continue
        inner = one.get("properties", {}).get(path[0])
        if inner is None and isinstance(one.get("additionalProperties"), dict):
            inner = one["additionalProperties"]
        if inner is not None:
            yield from _below(root, inner, path[1:])


def _resolved(root: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a schema with references followed, and its choices and items beside it."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        yield from _resolved(root, root["definitions"][name])
        return
    yield schema
    for key in ("then", "else"):
        if key in schema:
            yield from _resolved(root, schema[key])
    for key in ("allOf", "anyOf", "oneOf"):
        for choice in schema.get(key, ()):
            yield from _resolved(root, choice)
    items = schema.get("items")
    if isinstance(items, dict):
        yield from _resolved(root, items)
