"""Reads the selectors of device classes and resource claims in manifests, with their places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from policy_sched.errors import Diagnostic
from policy_sched.language.diagnostics import Text
from policy_sched.profiles import models
from policy_sched.profiles.load.document import DocumentPosition, device_objects, locator
from policy_sched.source import Marked

#: Where the requests of a kind are; a device class has selectors of its own.
_REQUESTS: Final[Mapping[str, models.Path]] = {
    "ResourceClaim": ("spec", "devices", "requests"),
    "ResourceClaimTemplate": ("spec", "spec", "devices", "requests"),
}
_CLASS: Final = "DeviceClass"


class DeviceSelectorText(msgspec.Struct, frozen=True):
    """A selector's text with its place, and the object that it is of."""

    text: Text
    object: str


def device_selectors(marked: Marked) -> tuple[list[DeviceSelectorText], list[Diagnostic]]:
    """Return the selectors of the objects of a document, and what is not a text in their place."""
    place = DocumentPosition(marked.file.path, marked)
    texts: list[DeviceSelectorText] = []
    problems: list[Diagnostic] = []
    for root, value in device_objects(marked.value):
        for path, expression in _selectors(value, root):
            if isinstance(expression, models.ModelProblem):
                problems.append(place.diagnostic(expression))
            else:
                locate = locator(marked, path)
                text = Text(expression, place.name, locate, models.path_text(path[len(root) :]))
                texts.append(DeviceSelectorText(text, _title(value)))
    return texts, problems


def _title(value: Mapping[str, Any]) -> str:
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return f"{value['kind']} {name}" if isinstance(name, str) else str(value["kind"])


def _selectors(
    value: Mapping[str, Any], root: models.Path
) -> Iterator[tuple[models.Path, str | models.ModelProblem]]:
    """Yield the expressions of an object, or the problem of each that is not a text."""
    if value["kind"] == _CLASS:
        yield from _of_selectors(_at(value, ("spec",)), (*root, "spec"))
        return
    path = _REQUESTS[value["kind"]]
    requests = _at(value, path)
    for i, request in enumerate(requests if isinstance(requests, list) else ()):
        at = (*root, *path, i)
        yield from _of_selectors(request, at)  # as v1beta1 has it
        exactly = _at(request, ("exactly",))
        yield from _of_selectors(exactly, (*at, "exactly"))
        choices = _at(request, ("firstAvailable",))
        for k, choice in enumerate(choices if isinstance(choices, list) else ()):
            yield from _of_selectors(choice, (*at, "firstAvailable", k))


def _of_selectors(
    value: object, path: models.Path
) -> Iterator[tuple[models.Path, str | models.ModelProblem]]:
    selectors, path = _at(value, ("selectors",)), (*path, "selectors")
    if selectors is None:
        return
    if not isinstance(selectors, list):
        yield path, models.problem_at(path, "Invalid value: must be a list", models.WRONG_TYPE)
        return
    for i, selector in enumerate(selectors):
        at = (*path, i, "cel", "expression")
        expression = _at(selector, ("cel", "expression"))
        if expression is None or expression == "":
            yield at, models.required(at)
        elif isinstance(expression, str):
            yield at, expression
        else:
            yield (
                at,
                models.problem_at(at, "Invalid value: must be a text: quote it", models.WRONG_TYPE),
            )


def _at(value: object, path: models.Path) -> Any:
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
