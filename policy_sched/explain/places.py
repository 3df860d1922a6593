"""Finds the lines of selectors that an explanation names, in the manifests that were read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from policy_sched.explain.devices import ClaimSteps, SelectorStep
from policy_sched.manifests import POD_CLAIM, ManifestPosition
from policy_sched.model import ApiObject, Pod, ResourceClaim, ResourceClaimSpec
from policy_sched.source import Marked

Places = Mapping[tuple[str, str, str], ManifestPosition]
Path = tuple[str | int, ...]


def locate_selectors(steps: ClaimSteps, places: Places, objects: Iterable[ApiObject]) -> ClaimSteps:
    """Return an explanation's steps with file and line of each selector where they are known."""
    listed = list(objects)
    for one in _selectors(steps):
        one.place = _place(one, places, listed)
    return steps


def _selectors(steps: ClaimSteps) -> Iterator[SelectorStep]:
    for request in steps.requests:
        for node in request.nodes:
            yield from (one.selector for one in node.refused if one.selector is not None)
    yield from (one.selector for one in steps.changes if one.selector is not None)


def _place(one: SelectorStep, places: Places, objects: list[ApiObject]) -> str:
    if one.kind == "class":
        return _line(places.get(("DeviceClass", "", one.name)), ("spec", *_of(one)))
    namespace, _, name = one.name.rpartition("/")
    claim = next((c for c in objects if isinstance(c, ResourceClaim) and _is(c, one.name)), None)
    if claim is None:
        return ""
    path = _of_request(claim.spec, one)
    own = places.get(("ResourceClaim", namespace, name))
    if own is not None:
        return _line(own, ("spec", *path))
    template = _template(claim, objects)
    return _line(
        places.get(("ResourceClaimTemplate", namespace, template)), ("spec", "spec", *path)
    )


def _is(claim: ResourceClaim, name: str) -> bool:
    return f"{claim.metadata.namespace or 'default'}/{claim.metadata.name}" == name


def _of(one: SelectorStep) -> Path:
    return ("selectors", one.index, "cel", "expression")


def _of_request(spec: ResourceClaimSpec, one: SelectorStep) -> Path:
    """Return the path of a selector below the spec of its claim."""
    parent, _, sub = one.request.partition("/")
    for index, request in enumerate(spec.devices.requests):
        if request.name != parent:
            continue
        path: Path = ("devices", "requests", index)
        if not sub:
            return (*path, "exactly", *_of(one))
        for number, choice in enumerate(request.first_available):
            if choice.name == sub:
                return (*path, "firstAvailable", number, *_of(one))
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
