"""The report of claims: per request and node why devices are not had, and what would help.

Selectors have file and line where the manifests that were read have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import msgspec

from policy_sched.manifests import POD_CLAIM, ManifestPosition
from policy_sched.model import ApiObject, Pod, ResourceClaim, ResourceClaimSpec, counted
from policy_sched.plugins.dynamicresources import RatedDevice
from policy_sched.source import Marked

WORDS: Final = {
    "updated": "in pools that are being updated",
    "invalid": "in invalid pools",
    "allocated": "allocated",
    "node": "on other nodes",
    "capacity": "short of capacity",
    "counters": "short of shared counters",
    "tainted": "tainted",
    "rule": "rejected by a rule",
}
"""Why devices are refused, besides by selectors: they are allocated, on other nodes, and so on."""
#: Names of nodes that a line has.
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class SelectorStep:
    """A selector that rejects devices: of a class by its name, or of a request of a claim."""

    kind: str
    name: str
    request: str
    index: int
    place: str = ""
    """Its file and line, "" where these are not known."""

    def __str__(self) -> str:
        return f"selector at {self.place}" if self.place else self.title

    @property
    def title(self) -> str:
        """The selector without its position."""
        of = f"class {self.name}" if self.kind == "class" else f"request {self.request}"
        return f"selector {self.index} of {of}"


@dataclass(frozen=True, slots=True)
class RefusedStep:
    """How many devices are refused for one reason: "selector", or one of WORDS."""

    why: str
    count: int = 1
    selector: SelectorStep | None = None
    taint: str = ""
    error: str = ""
    """The error of a selector, the rule, or why a pool is invalid."""

    def __str__(self) -> str:
        if self.why == "rule":
            return f"{self.count} rejected by rule {self.error}"
        if self.selector is None:
            return f"{self.count} {WORDS[self.why]}"
        if self.error:
            why = self.error.removeprefix("CEL runtime error: ").partition("\n")[0]
            return f"{self.count} failed in {self.selector} ({why})"
        return f"{self.count} rejected by {self.selector}"


@dataclass(slots=True)
class DevicesStep:
    """Nodes that are alike for a request: their devices, why some are refused, and the rest."""

    nodes: list[str]
    devices: int
    refused: list[RefusedStep]
    fit: int


class RequestStep(msgspec.Struct, rename="camel"):
    """A request of a claim on the nodes that reject the pod; ``count`` 0 means all devices."""

    claim: str
    request: str
    device_class: str
    count: int
    nodes: list[DevicesStep]
    resource: str = ""
    container: str = ""


@dataclass(frozen=True, slots=True)
class ClaimChangeStep:
    """A change with which the claims would be allocated, and on how many nodes."""

    kind: str
    """Toleration, count, constraint, selector, or free (allocated devices are given back)."""
    claim: str = ""
    request: str = ""
    name: str = ""
    fits: int = 0
    nodes: Sequence[str] = ()
    selector: SelectorStep | None = None
    resource: str = ""
    container: str = ""

    @classmethod
    def of(cls, kind: str, step: RequestStep, name: str = "") -> ClaimChangeStep:
        """Return a change of a request, whose nodes are not known yet."""
        change = cls(kind, step.claim, step.request, name)
        return replace(change, resource=step.resource, container=step.container)

    def on(self, nodes: Sequence[str]) -> ClaimChangeStep:
        """Return the change with the nodes on which the claims would be allocated."""
        return replace(self, fits=len(nodes), nodes=sorted(nodes)[:_NAMED])


class AllocatedClaim(msgspec.Struct, frozen=True):
    """A claim that has its devices, and the nodes that reach them."""

    claim: str
    devices: tuple[str, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClaimSteps:
    """All that is reported of a pod's claims."""

    requests: list[RequestStep]
    allocated: list[AllocatedClaim]
    changes: list[ClaimChangeStep]


def devices_lines(steps: ClaimSteps) -> Iterator[str]:
    """Yield why devices do not suffice, request by request."""
    yield from map(allocated_text, steps.allocated)
    for request in steps.requests:
        if not request.nodes:
            continue
        yield f"{request_title(request)}:"
        rows = request_rows(request)
        width = max(len(names) for names, _ in rows)
        yield from (f"  {names:<{width}}  {text}" for names, text in rows)


def allocated_text(claim: AllocatedClaim) -> str:
    """Return where an allocated claim can be used."""
    where = _first_names(claim.nodes, len(claim.nodes)) if claim.nodes else "no node"
    devices = ", ".join(claim.devices) or "no devices"
    return f"Claim {claim.claim} is allocated ({devices}): {where} can use it"


def request_title(request: RequestStep) -> str:
    """Return what a request asks for."""
    many = counted(request.count, "device") if request.count else "all devices"
    of = f"request {request.request} of claim {request.claim}"
    if request.resource:
        of = f"{request.resource} in container {request.container}"
    return f"Devices for {of} ({many} of class {request.device_class})"


def request_rows(request: RequestStep) -> list[tuple[str, str]]:
    """Return nodes that are alike for a request, and what they have."""
    return [
        (_first_names(step.nodes, len(step.nodes)), _devices_text(step, request.count))
        for step in request.nodes
    ]


def _devices_text(step: DevicesStep, count: int) -> str:
    if not step.devices:
        return "no devices"
    parts = [str(refused) for refused in step.refused]
    parts += [f"{step.fit} {'fits' if step.fit == 1 else 'fit'}"] if step.fit else []
    text = f"{counted(step.devices, 'device')}: {', '.join(parts)}"
    if count and 0 < step.fit < count:
        text += f"; {count} are needed"
    elif count and step.fit >= count and not any(refused.error for refused in step.refused):
        text += "; enough for this request alone"
    return text


class RatedStep(msgspec.Struct, rename="camel"):
    """A device of the best node, and what rules say of it for a request."""

    request: str
    device: str
    score: float
    chosen: bool
    refused_by: str = ""
    """The rule that refuses it, and its message; empty where none does."""

    def __str__(self) -> str:
        if self.refused_by:
            return f"rejected by rule {self.refused_by}"
        score = int(self.score) if self.score.is_integer() else self.score
        return f"score {score}{', chosen' if self.chosen else ''}"


def rated_steps(devices: Sequence[RatedDevice]) -> list[RatedStep]:
    """Return devices as they are tried, request by request; those that are refused come last."""
    steps = []
    for device in devices:
        verdict, name = device.verdict, device.request.name
        steps.append(
            RatedStep(name, device.device.name, verdict.score, device.chosen, verdict.named)
        )
    order = {name: i for i, name in enumerate(dict.fromkeys(step.request for step in steps))}
    return sorted(steps, key=lambda step: (order[step.request], bool(step.refused_by), -step.score))


def rated_lines(steps: Sequence[RatedStep], node: str) -> Iterator[str]:
    """Yield the devices of a node with their scores."""
    width = max((len(rated.device) for rated in steps), default=0)
    request = None
    for step in steps:
        if step.request != request:
            request = step.request
            yield f"Devices of {node} for request {request}:"
        yield f"  {step.device:<{width}}  {step}"


def change_text(change: ClaimChangeStep) -> str:
    """Return a change as a line for people."""
    where = f"{counted(change.fits, 'node')}: {_first_names(change.nodes, change.fits)}"
    return f"{_change_words(change)} it would fit on {where}"


def _change_words(step: ClaimChangeStep) -> str:
    of = f"request {step.request} of {step.claim}"
    match step.kind:
        case "toleration":
            return f"with {of} tolerating {step.name}"
        case "count":
            if step.resource:
                return f"with {step.name} of {step.resource} in container {step.container}"
            return f"with {counted(int(step.name), 'device')} for {of}"
        case "constraint":
            return f"without the constraint {step.name} of {step.claim}"
        case "selector":
            return f"without the {step.selector}"
    return "with the allocated devices given back"


def _first_names(names: Sequence[str], count: int) -> str:
    shown = ", ".join(names[:_NAMED])
    more = count - len(names[:_NAMED])
    return f"{shown} and {more} more" if more > 0 else shown


Positions = Mapping[tuple[str, str, str], ManifestPosition]
Path = tuple[str | int, ...]
Step = TypeVar("Step", RefusedStep, ClaimChangeStep)


def locate_selectors(steps: ClaimSteps, positions: Positions, objects: Iterable[ApiObject]) -> None:
    """Add file and line of each selector to an explanation's steps where they are known."""
    listed = list(objects)

    def located(step: Step) -> Step:
        if step.selector is None:
            return step
        position_text = _position_text(step.selector, positions, listed)
        return replace(step, selector=replace(step.selector, place=position_text))

    for request in steps.requests:
        for node in request.nodes:
            node.refused = [located(step) for step in node.refused]
    steps.changes[:] = [located(step) for step in steps.changes]


def _position_text(step: SelectorStep, positions: Positions, objects: list[ApiObject]) -> str:
    if step.kind == "class":
        return _line(positions.get(("DeviceClass", "", step.name)), ("spec", *_of(step)))
    namespace, _, name = step.name.rpartition("/")
    claim = next((c for c in objects if isinstance(c, ResourceClaim) and _is(c, step.name)), None)
    if claim is None:
        return ""
    path = _of_request(claim.spec, step)
    own = positions.get(("ResourceClaim", namespace, name))
    if own is not None:
        return _line(own, ("spec", *path))
    template = _template(claim, objects)
    return _line(
        positions.get(("ResourceClaimTemplate", namespace, template)), ("spec", "spec", *path)
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
        for choice_index, choice in enumerate(request.first_available):
            if choice.name == sub:
                return (*path, "firstAvailable", choice_index, *_of(step))
    return ()


def _template(claim: ResourceClaim, objects: list[ApiObject]) -> str:
    """Return the name of the template that a claim was made of, "" if that is not known."""
    entry = claim.metadata.annotations.get(POD_CLAIM)
    owners = {owner.name for owner in claim.metadata.owner_references if owner.controller}
    for pod in objects:
        if isinstance(pod, Pod) and pod.metadata.name in owners:
            for reference in pod.spec.resource_claims:
                if reference.name == entry:
                    return reference.resource_claim_template_name or ""
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
