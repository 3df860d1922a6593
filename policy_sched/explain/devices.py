"""The report of claims: per request and node why devices are not had, and what would help."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from policy_sched.model import counted
from policy_sched.plugins import dynamicresources

_WORDS: Final = {
    "updated": "in pools that are being updated",
    "invalid": "in invalid pools",
    "allocated": "allocated",
    "node": "on other nodes",
    "capacity": "short of capacity",
    "counters": "short of shared counters",
    "tainted": "tainted",
    "rule": "rejected by a rule",
}
#: Names of nodes that a line has.
_NAMED: Final = 3


@dataclass(slots=True)
class SelectorStep:
    """A selector that rejects devices; ``place`` is its file and line where these are known."""

    kind: str
    name: str
    request: str
    index: int
    place: str = ""

    @classmethod
    def of(cls, one: dynamicresources.SelectorOf) -> SelectorStep:
        """Return a selector whose place is not known."""
        return cls(one.kind, one.name, one.request, one.index)

    def __str__(self) -> str:
        return f"selector at {self.place}" if self.place else self.title

    @property
    def title(self) -> str:
        """The selector without its place."""
        of = f"class {self.name}" if self.kind == "class" else f"request {self.request}"
        return f"selector {self.index} of {of}"


@dataclass(slots=True)
class RefusedStep:
    """How many devices are refused for one reason."""

    why: str
    count: int
    selector: SelectorStep | None = None
    taint: str = ""
    error: str = ""

    def __str__(self) -> str:
        if self.why == "rule":
            return f"{self.count} rejected by rule {self.error}"
        if self.selector is None:
            return f"{self.count} {_WORDS[self.why]}"
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


@dataclass(slots=True)
class ClaimChangeStep:
    """A change with which the claims would be allocated, and on how many nodes."""

    kind: str
    claim: str
    request: str
    name: str
    fits: int
    nodes: list[str]
    selector: SelectorStep | None = None
    resource: str = ""
    container: str = ""


@dataclass(frozen=True, slots=True)
class ClaimSteps:
    """All that is reported of a pod's claims."""

    requests: list[RequestStep]
    allocated: list[dynamicresources.AllocatedClaim]
    changes: list[ClaimChangeStep]


def claim_steps(found: dynamicresources.ClaimsExplained, rejecting: Collection[str]) -> ClaimSteps:
    """Return the report for the nodes that reject the pod for its claims."""
    return ClaimSteps(
        [_request(devices, rejecting) for devices in found.requests],
        [claim for claim in found.allocated if set(rejecting) - set(claim.nodes)],
        [_change(change) for change in found.changes],
    )


def _request(devices: dynamicresources.RequestDevices, rejecting: Collection[str]) -> RequestStep:
    alike: dict[object, DevicesStep] = {}
    for node in devices.nodes:
        if node.node not in rejecting:
            continue
        key = (node.devices, frozenset(node.refused), node.fit)
        if key not in alike:
            alike[key] = _devices(node)
        alike[key].nodes.append(node.node)
    steps = sorted(alike.values(), key=lambda step: (-step.fit, -step.devices, step.nodes[0]))
    return RequestStep(
        devices.claim,
        devices.request,
        devices.device_class,
        devices.count,
        steps,
        devices.resource,
        devices.container,
    )


def _devices(node: dynamicresources.NodeDevices) -> DevicesStep:
    refused = sorted((_refused(why, count) for why, count in node.refused), key=_order)
    return DevicesStep([], node.devices, refused, node.fit)


def _refused(why: dynamicresources.Refusal, count: int) -> RefusedStep:
    selector = None if why.selector is None else SelectorStep.of(why.selector)
    taint = "" if why.taint is None else f"{why.taint.key}:{why.taint.effect}"
    return RefusedStep(why.why, count, selector, taint, why.error)


def _order(step: RefusedStep) -> tuple[int, str]:
    return ["updated", "invalid", "allocated", "selector", *_WORDS].index(step.why), str(step)


def _change(change: dynamicresources.ClaimChange) -> ClaimChangeStep:
    selector = None if change.selector is None else SelectorStep.of(change.selector)
    nodes = sorted(change.nodes)[:_NAMED]
    return ClaimChangeStep(
        change.kind,
        change.claim,
        change.request,
        change.name,
        len(change.nodes),
        nodes,
        selector,
        change.resource,
        change.container,
    )


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


def allocated_text(claim: dynamicresources.AllocatedClaim) -> str:
    """Return where an allocated claim can be used."""
    where = _some(claim.nodes, len(claim.nodes)) if claim.nodes else "no node"
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
        (_some(step.nodes, len(step.nodes)), _devices_text(step, request.count))
        for step in request.nodes
    ]


def _devices_text(step: DevicesStep, count: int) -> str:
    if not step.devices:
        return "no devices"
    parts = [str(one) for one in step.refused]
    parts += [f"{step.fit} {'fits' if step.fit == 1 else 'fit'}"] if step.fit else []
    text = f"{counted(step.devices, 'device')}: {', '.join(parts)}"
    if count and 0 < step.fit < count:
        text += f"; {count} are needed"
    elif count and step.fit >= count and not any(one.error for one in step.refused):
        text += "; enough for this request alone"
    return text


class RatedStep(msgspec.Struct, rename="camel"):
    """A device of the best node, and what rules say of it for a request.

    ``refused_by``: the rule that refuses it, and its message; empty where none does.
    """

    request: str
    device: str
    score: float
    chosen: bool
    refused_by: str = ""

    def __str__(self) -> str:
        if self.refused_by:
            return f"rejected by rule {self.refused_by}"
        score = int(self.score) if self.score.is_integer() else self.score
        return f"score {score}{', chosen' if self.chosen else ''}"


def rated_steps(found: Sequence[dynamicresources.RatedDevice]) -> list[RatedStep]:
    """Return devices as they are tried, request by request; those that are refused come last."""
    steps = []
    for device in found:
        verdict = device.verdict
        words = f" ({verdict.message})" if verdict.refused_by and verdict.message else ""
        name = device.request.name
        refused = verdict.refused_by + words
        steps.append(RatedStep(name, device.device.name, verdict.score, device.chosen, refused))
    order = {name: i for i, name in enumerate(dict.fromkeys(step.request for step in steps))}
    return sorted(steps, key=lambda step: (order[step.request], bool(step.refused_by), -step.score))


def rated_lines(steps: Sequence[RatedStep], node: str) -> Iterator[str]:
    """Yield the devices of a node with their scores."""
    width = max((len(one.device) for one in steps), default=0)
    request = None
    for step in steps:
        if step.request != request:
            request = step.request
            yield f"Devices of {node} for request {request}:"
        yield f"  {step.device:<{width}}  {step}"


def change_text(one: ClaimChangeStep) -> str:
    """Return a change as a line for people."""
    where = f"{counted(one.fits, 'node')}: {_some(one.nodes, one.fits)}"
    return f"{_change_words(one)} it would fit on {where}"


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


def _some(names: Sequence[str], count: int) -> str:
    shown = ", ".join(names[:_NAMED])
    more = count - len(names[:_NAMED])
    return f"{shown} and {more} more" if more > 0 else shown
