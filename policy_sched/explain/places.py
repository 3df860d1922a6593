"""Finds the lines of selectors that an explanation names, in the manifests that were read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from policy_sched.explain.devices import ClaimChangeStep, ClaimSteps, RefusedStep, SelectorStep
from policy_sched.manifests import POD_CLAIM, ManifestPosition
from policy_sched.model import ApiObject, Pod, ResourceClaim, ResourceClaimSpec
from policy_sched.source import Marked

Places = Mapping[tuple[str, str, str], ManifestPosition]
Path = tuple[str | int, ...]
Step = TypeVar("Step", RefusedStep, ClaimChangeStep)


def locate_selectors(steps: ClaimSteps, places: Places, objects: Iterable[ApiObject]) -> None:
    """Add file and line of each selector to an explanation's steps where they are known."""
    listed = list(objects)

    def located(step: Step) -> Step:
        if step.selector is None:
            return step
        place = _place(step.selector, places, listed)
        return replace(step, selector=replace(step.selector, place=place))

    for request in steps.requests:
        for node in request.nodes:
            node.refused = [located(step) for step in node.refused]
    steps.changes[:] = [located(step) for step in steps.changes]


def _place(step: SelectorStep, places: Places, objects: list[ApiObject]) -> str:
    if step.kind == "class":
        return _line(places.get(("DeviceClass", "", step.name)), ("spec", *_of(step)))
    namespace, _, name = step.name.rpartition("/")
    claim = next((c for c in objects if isinstance(c, ResourceClaim) and _is(c, step.name)), None)
    if claim is None:
        return ""
    path = _of_request(claim.spec, step)
    own = places.get(("ResourceClaim", namespace, name))
    if own is not None:
        return _line(own, ("spec", *path))
    template = _template(claim, objects)
    return _line(
        places.get(("ResourceClaimTemplate", namespace, template)), ("spec", "spec", *path)
    )


def _is(claim: ResourceClaim, name: str) -> bool:
    return f"{claim.metadata.namespace or 'default'}/{claim.metadata.name}" == name


def _of(step: SelectorStep) -> Path:
    return ("selectors", step.index, "cel", "expression")


def _of_request(spec: ResourceClaimSpec, step: SelectorStep) -> Path:
    """Return the path of a selector below the spec of its claim."""
    parent, _, sub = step.request.partition("/")
    for index, request in enumerate(spec.devices.requests):
        if request.name != parent:
            continue
        path: Path = ("devices", "requests", index)
        if not sub:
            return (*path, "exactly", *_of(step))
        for number, choice in enumerate(request.first_available):
            if choice.name == sub:
                return (*path, "firstAvailable", number, *_of(step))
    return ()


def _template(claim: ResourceClaim, objects: list[ApiObject]) -> str:
    """Return the name of the template that a claim was made of, "" if that is not known."""
    entry = claim.metadata.annotations.get(POD_CLAIM)
    owners = {owner.name for owner in claim.metadata.owner_references if owner.controller}
    for pod in objects:
        if isinstance(pod, Pod) and pod.metadata.name in owners:
            for one in pod.spec.resource_claims:
                if one.name == entry:
                    return one.resource_claim_template_name or ""
    return ""


def _line(position: ManifestPosition | None, path: Path) -> str:
    marked = None if position is None else position.look().marked
    if marked is None or marked.node(path) is None:
        return ""
    line, _ = marked.file.position(_start(marked, path))
    return f"{marked.file.path}:{line}"


def _start(marked: Marked, path: Path) -> int:
    try:
        return marked.scalar_map(path)(0)
    except KeyError:
        return marked.span(path)[0]
