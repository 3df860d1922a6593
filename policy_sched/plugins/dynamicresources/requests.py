"""Requests of a claim, checked and made ready before any device is looked for."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from policy_sched import model
from policy_sched.errors import PolicySchedError
from policy_sched.plugins.dynamicresources.devices import (
    DeviceView,
    NodeView,
    SelectorError,
    SelectorResults,
    Value,
)
from policy_sched.plugins.dynamicresources.pools import Pool


class Constraint(Protocol):
    """A constraint; ``request`` and ``sub`` name what a device is tried for."""

    def add(self, request: str, sub: str, device: DeviceView) -> bool:
        """Tell whether a device may be added, and remember it if so."""

    def remove(self, request: str, sub: str, device: DeviceView) -> None:
        """Forget a device that was added."""


def constraint_of(constraint: model.DeviceConstraint) -> Constraint | None:
    """Return what remembers the devices of a constraint; None if it is of no kind known."""
    if constraint.match_attribute is not None:
        return MatchAttribute(frozenset(constraint.requests), constraint.match_attribute)
    if constraint.distinct_attribute is not None:
        return DistinctAttribute(frozenset(constraint.requests), constraint.distinct_attribute)
    return None


def covers(requests: frozenset[str], request: str, sub: str) -> bool:
    """Tell whether a list of requests means one; an empty one means all."""
    if not requests or request in requests:
        return True
    return bool(sub) and f"{request}/{sub}" in requests


class MatchAttribute:
    """All devices have the attribute, with one value."""

    def __init__(self, requests: frozenset[str], name: str) -> None:
        self._requests = requests
        self.name = name
        self._value: Value | None = None
        self._count = 0

    def covers(self, request: str, sub: str) -> bool:
        """Tell whether a request is meant."""
        return not self._requests or covers(self._requests, request, sub)

    def add(self, request: str, sub: str, device: DeviceView) -> bool:
        """The first device sets the value."""
        if not self.covers(request, sub):
            return True
        value = device.attribute(self.name)
        if value is None or (self._count and value != self._value):
            return False
        self._value = value
        self._count += 1
        return True

    def remove(self, request: str, sub: str, device: DeviceView) -> None:  # noqa: ARG002 - as Constraint has it
        """Without devices there is no value."""
        if self.covers(request, sub):
            self._count -= 1


class DistinctAttribute:
    """The attribute differs; of each request only the value of its last device counts."""

    def __init__(self, requests: frozenset[str], name: str) -> None:
        self._requests = requests
        self._name = name
        self._values: dict[str, Value] = {}

    def add(self, request: str, sub: str, device: DeviceView) -> bool:
        """A device is refused whose value is remembered."""
        if self._requests and not covers(self._requests, request, sub):
            return True
        value = device.attribute(self._name)
        if value is None or value in self._values.values():
            return False
        self._values[request] = value
        return True

    def remove(self, request: str, sub: str, device: DeviceView) -> None:  # noqa: ARG002 - as Constraint has it
        """Forget the request's value."""
        if covers(self._requests, request, sub):
            self._values.pop(request, None)


EXACT_COUNT: Final = "ExactCount"
ALL: Final = "All"
MAX_DEVICES: Final = 32
_NO_AMOUNTS: Final[Mapping[str, model.Amount]] = {}

Classes = Callable[[str], model.DeviceClass | None]
"""Finds a device class by name."""


class AllocationError(PolicySchedError):
    """Allocating failed, and that is no result: the attempt ends with these words.

    ``stopped``: why the search was ended, "" where it failed by itself.
    """

    def __init__(self, message: str, stopped: str = "") -> None:
        super().__init__(message)
        self.stopped = stopped


@dataclass(slots=True)
class Request:
    """A request or a subrequest; ``parent`` is the request that it belongs to."""

    claim: str
    parent: str
    sub: str
    mode: str
    count: int
    class_name: str
    expressions: tuple[tuple[str, str], ...]
    """Selectors with the place that is named when one fails."""
    tolerations: tuple[model.Toleration, ...]
    capacity: Mapping[str, model.Amount]
    admin_access: bool = False
    all_devices: list[tuple[DeviceView, Pool]] = field(default_factory=list)
    key: Hashable = field(init=False)
    """What decides which devices the request can have if it is alone."""
    full_name: str = field(init=False)
    """The name in results."""

    def __post_init__(self) -> None:
        expressions = tuple(text for _, text in self.expressions)
        capacity = tuple(self.capacity.items())
        self.key = expressions, self.tolerations, capacity, self.admin_access
        self.full_name = f"{self.parent}/{self.sub}" if self.sub else self.parent

    @property
    def name(self) -> str:
        """The name in messages."""
        return self.sub or self.parent

    def selects(self, device: DeviceView, node: NodeView, results: SelectorResults) -> bool:
        """Return whether a device is selected. Raises AllocationError and DeadlineExceeded."""
        for path, expression in self.expressions:
            try:
                if not results.selected(expression, device):
                    return False
            except SelectorError as error:
                raise AllocationError(f"{path}: {error}") from None
        if device.slice.spec.per_device_node_selection:
            try:
                return device.on_node(node)
            except ValueError as error:
                raise AllocationError(f"failed to parse node selector: {error}") from None
        return True

    def tolerates(self, device: DeviceView) -> bool:
        """Return whether the request tolerates every taint of a device."""
        return all(model.tolerated(taint, self.tolerations) for taint in device.blocking)


@dataclass(slots=True)
class PreparedClaim:
    """A claim: of each request its alternatives, and the constraints."""

    name: str
    claim: model.ResourceClaim
    requests: list[list[Request]]
    constraints: list[Constraint]


CapacityLeft = Callable[[Request, DeviceView], Mapping[str, model.Quantity] | None]
Allows = Callable[[Request, DeviceView], bool]
"""Tells whether rules let a request have a device."""


def claim_name(claim: model.ResourceClaim) -> str:
    """Return namespace and name of a claim as messages have them."""
    meta = claim.metadata
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


@dataclass(slots=True)
class ClaimPlan:
    """A claim as far as it can be made ready for all nodes at once.

    A request that is wrong is an error in its place, which is raised when its turn comes.
    """

    name: str
    claim: model.ResourceClaim
    requests: list[list[Request | AllocationError]]
    fixed: int | None
    """How many devices are requested, where that is the same on every node."""
    borrowed: bool = False
    """Whether the requests are those of another claim with an equal spec, and named so."""

    def for_claim(self, claim: model.ResourceClaim) -> ClaimPlan:
        """Return the plan for another claim with an equal spec."""
        return ClaimPlan(claim_name(claim), claim, self.requests, self.fixed, borrowed=True)

    @classmethod
    def of(cls, claim: model.ResourceClaim, classes: Classes) -> ClaimPlan:
        """Return the plan of a claim."""
        requests: list[list[Request | AllocationError]] = [
            [
                _checked(claim, request, wanted, classes)
                for wanted in request.first_available or (request.exactly,)
            ]
            for request in claim.spec.devices.requests
        ]
        fixed: int | None = 0
        for alternatives in requests:
            counts = [
                request.count
                for request in alternatives
                if isinstance(request, Request) and request.mode == EXACT_COUNT
            ]
            whole = fixed is not None and len(counts) == len(alternatives)
            fixed = fixed + min(counts) if whole and fixed is not None else None
        return cls(claim_name(claim), claim, requests, fixed)

    def on_node(
        self,
        node: NodeView,
        pools: Sequence[Pool],
        capacity_left: CapacityLeft,
        results: SelectorResults,
        allows: Allows | None = None,
    ) -> PreparedClaim:
        """Make the claim ready for a node; ``allows``: what rules say. Raises AllocationError."""
        requests: list[list[Request]] = []
        least = 0
        for alternatives in self.requests:
            ready = []
            for request in alternatives:
                if isinstance(request, AllocationError):
                    raise request
                if request.mode == ALL:
                    devices = _all_devices(request, node, pools, capacity_left, results)
                    if allows is not None:
                        devices = [device for device in devices if allows(request, device[0])]
                    request = replace(request, all_devices=devices, count=len(devices))  # noqa: PLW2901 - the node's
                ready.append(request)
            requests.append(ready)
            least += min(request.count for request in ready)
        if least > MAX_DEVICES:
            raise AllocationError(
                f"claim {self.name}: number of requested devices {least} exceeds the claim limit "
                f"of {MAX_DEVICES}"
            )
        constraints = []
        for index, stated in enumerate(self.claim.spec.devices.constraints):
            constraint = constraint_of(stated)
            if constraint is None:
                why = "empty constraint (unsupported constraint type?)"
                raise AllocationError(f"claim {self.name}, constraint #{index}: {why}")
            constraints.append(constraint)
        return PreparedClaim(self.name, self.claim, requests, constraints)


def _checked(
    claim: model.ResourceClaim,
    request: model.DeviceRequest,
    wanted: model.ExactDeviceRequest | model.DeviceSubRequest | None,
    classes: Classes,
) -> Request | AllocationError:
    try:
        return _request(claim, request, wanted, classes)
    except AllocationError as error:
        return error


def _request(
    claim: model.ResourceClaim,
    request: model.DeviceRequest,
    wanted: model.ExactDeviceRequest | model.DeviceSubRequest | None,
    classes: Classes,
) -> Request:
    sub = wanted.name if isinstance(wanted, model.DeviceSubRequest) else ""
    where = f"claim {claim_name(claim)}, request {sub or request.name}"
    if wanted is not None:
        for index, selector in enumerate(wanted.selectors):
            if selector.cel is None:
                why = "CEL expression empty (unsupported selector type?)"
                raise AllocationError(f"{where}, selector #{index}: {why}")
    if wanted is None or not wanted.device_class_name:
        raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
    device_class = classes(wanted.device_class_name)
    if device_class is None:
        named = wanted.device_class_name
        why = f'deviceclass.resource.k8s.io "{named}" not found'
        raise AllocationError(f"{where}: could not retrieve device class {named}: {why}")
    if wanted.allocation_mode not in (EXACT_COUNT, ALL):
        raise AllocationError(f"{where}: unsupported count mode {wanted.allocation_mode}")
    return Request(
        claim=claim_name(claim),
        parent=request.name,
        sub=sub,
        mode=wanted.allocation_mode,
        count=wanted.count,
        class_name=wanted.device_class_name,
        expressions=_expressions(claim, wanted, device_class),
        tolerations=wanted.tolerations,
        capacity=_NO_AMOUNTS if wanted.capacity is None else wanted.capacity.requests,
        admin_access=isinstance(wanted, model.ExactDeviceRequest) and wanted.admin_access,
    )


def _expressions(
    claim: model.ResourceClaim,
    wanted: model.ExactDeviceRequest | model.DeviceSubRequest,
    device_class: model.DeviceClass,
) -> tuple[tuple[str, str], ...]:
    of_class = f"class {device_class.metadata.name}"
    of_claim = f"claim {claim_name(claim)}"
    return tuple(
        (f"{path}: selector #{index}", "" if selector.cel is None else selector.cel.expression)
        for path, selectors in (
            (of_class, device_class.spec.selectors),
            (of_claim, wanted.selectors),
        )
        for index, selector in enumerate(selectors)
    )


def _all_devices(
    request: Request,
    node: NodeView,
    pools: Sequence[Pool],
    capacity_left: CapacityLeft,
    results: SelectorResults,
) -> list[tuple[DeviceView, Pool]]:
    """Return every device that is meant; a pool that is not whole is an error, whichever it is."""
    for pool in pools:
        state = "being updated" if pool.incomplete else "invalid" if pool.invalid else ""
        if state:
            raise AllocationError(
                f"claim {request.claim}, request {request.name}: asks for all devices, but "
                f"resource pool {pool} is currently {state}"
            )
    return [
        (device, pool)
        for pool in pools
        for device in pool.devices()
        if request.selects(device, node, results) and capacity_left(request, device) is not None
    ]
