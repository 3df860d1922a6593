"""Devices as selectors and the search see them, and which node reaches what.

Theory of operation. A slice is parsed once, when it is first seen; so is every device in it. What
a selector returns for a device depends on the device alone and is kept with it (`SelectorResults`):
pods and nodes share the result. Mostly a selector reads the driver and a few attributes by constant
names; devices that have these in common have one result, so that 40,000 devices of one kind are one
evaluation.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from policy_sched import model
from policy_sched.framework import UNITS, AttemptBudget
from policy_sched.language import cel
from policy_sched.language.cel import CelError, Record, device_record
from policy_sched.language.syntax import ast, children

BLOCKING: Final = frozenset({"NoSchedule", "NoExecute"})


class DeviceId(NamedTuple):
    """What names a device in the whole cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


class NodeView(msgspec.Struct, frozen=True):
    """A node, as far as devices look at it."""

    name: str
    labels: Mapping[str, str]


class SelectorError(Exception):
    """A selector fails for a device: what the allocation ends with."""


Value = tuple[str, int | bool | str]
"""An attribute's kind and value; versions compare as texts."""


class DeviceView:
    """A device of a slice."""

    __slots__ = (
        "_may_fail", "_record", "_values", "blocking", "capacity", "consumed_counters",
        "device", "id", "number", "selected", "shareable", "slice",
    )  # fmt: skip

    def __init__(self, device: model.Device, whole: model.ResourceSlice) -> None:
        spec = whole.spec
        self.device = device
        self.slice = whole
        self.id = DeviceId(spec.driver, spec.pool.name, device.name)
        self.shareable = device.allow_multiple_allocations
        """Whether several claims may have it at the same time."""
        self.capacity: Mapping[str, model.DeviceCapacity] = device.capacity
        self.blocking = tuple(taint for taint in device.taints if taint.effect in BLOCKING)
        self.consumed_counters = tuple(
            (counters.counter_set, name, model.nanos(counter.value))
            for counters in device.consumes_counters
            for name, counter in counters.counters.items()
        )
        self.number = -1
        """The number of the device in the `DeviceTable`, once it has one."""
        self._may_fail = tuple(
            counters for counters in device.attributes.items() if _may_fail(counters[1])
        )
        """The attributes that may be an error, whichever one a selector reads."""
        self._record: Record | CelError | None = None
        self.selected: dict[str, bool | str] = {}
        """By selector, whether it takes the device, or why it fails; see `SelectorResults`."""
        self._values: dict[str, Value | None] = {}

    def record(self) -> Record:
        """Return the device as selectors see it. Raises CelError."""
        if self._record is None:
            try:
                self._record = as_record(self.slice.spec.driver, self.device)
            except CelError as error:
                self._record = error
        if isinstance(self._record, CelError):
            raise self._record
        return self._record

    def read(self, names: Iterable[tuple[str, str]] | None) -> Hashable:
        """Return what a selector's result depends on that reads these attributes and capacities.

        Names are full, each with the field that it is in; None: it may read all.
        """
        driver, device = self.slice.spec.driver, self.device
        if names is None:
            attributes, capacity = device.attributes.items(), device.capacity.items()
            return driver, device.allow_multiple_allocations, tuple(attributes), tuple(capacity)
        values_read: list[object] = [driver, device.allow_multiple_allocations, *self._may_fail]
        for kind, name in names:
            values: Mapping[str, object] = (
                device.attributes if kind == "attributes" else device.capacity
            )
            domain, _, short = name.partition("/")
            # Of two with one name the later one counts.
            keys = (name, short) if domain == driver else (name,)
            values_read += [(key, value) for key, value in values.items() if key in keys]
        return tuple(values_read)

    def attribute(self, name: str) -> Value | None:
        """Return an attribute by its full name, None if the device has none or of another kind."""
        if name in self._values:
            return self._values[name]
        value = self._values[name] = self._attribute(name)
        return value

    def _attribute(self, name: str) -> Value | None:
        attributes = self.device.attributes
        value = attributes.get(name)
        if value is None:
            domain, _, short = name.partition("/")
            if domain == self.slice.spec.driver:
                value = attributes.get(short)
        return None if value is None else _valued(value)

    def on_node(self, node: NodeView) -> bool:
        """Tell whether a device that has nodes of its own is on one. Raises ValueError."""
        device = self.device
        if device.node_name is not None:
            return device.node_name == node.name
        return device.all_nodes or selects(device.node_selector, node)


def _may_fail(value: model.DeviceAttribute) -> bool:
    return value.int_value is None and value.bool_value is None and value.string is None


def as_record(driver: str, device: model.Device) -> Record:
    """Return a device as selectors see it. Raises CelError for attributes that have no value."""
    return device_record(
        driver,
        {name: _plain(value) for name, value in device.attributes.items()},
        {name: capacity.value for name, capacity in device.capacity.items()},
        allow_multiple_allocations=device.allow_multiple_allocations,
    )


def _plain(value: model.DeviceAttribute) -> int | bool | str | tuple[str, str] | None:
    if value.version is not None:
        return ("version", value.version)
    for plain in (value.int_value, value.bool_value, value.string):
        if plain is not None:
            return plain
    return None


def _valued(value: model.DeviceAttribute) -> Value | None:
    if value.string is not None:
        return "string", value.string
    if value.bool_value is not None:
        return "bool", value.bool_value
    if value.int_value is not None:
        return "int", value.int_value
    return None if value.version is None else ("version", value.version)


@lru_cache(maxsize=4096)
def _terms(selector: model.NodeSelector) -> tuple[object, ...]:
    return tuple(model.node_term(term) for term in selector.node_selector_terms)


def selects(selector: model.NodeSelector | None, node: NodeView) -> bool:
    """Tell whether a node selector takes a node. Raises ValueError if it cannot be read."""
    if selector is None:
        return False
    return any(callable(term) and term(node.labels, node.name) for term in _terms(selector))


def parsed(whole: model.ResourceSlice) -> tuple[DeviceView, ...]:
    """Return the devices of a slice."""
    return tuple(DeviceView(device, whole) for device in whole.spec.devices)


def node_selector_fault(selector: model.NodeSelector | None) -> str:
    """Return why a node selector cannot be read, "" if it can."""
    if selector is None:
        return ""
    try:
        _terms(selector)
    except ValueError as error:
        return str(error)
    return ""


NANO: Final = 10**9
_NOTHING: Final[Mapping[str, int]] = {}


def consumption(
    device: DeviceView, requests: Mapping[str, model.Amount], used: Mapping[str, int] | None
) -> dict[str, model.Quantity] | None:
    """Return what a request takes of each capacity of a device; None if that is not to be had.

    ``used``: what others take already, in nano-units.
    """
    if any(name not in device.capacity for name in requests):
        return None
    before = used or _NOTHING
    amounts: dict[str, model.Quantity] = {}
    for name, capacity in device.capacity.items():
        consumed = _consumed(requests.get(name), capacity)
        if _violates(consumed, capacity.request_policy):
            return None
        if before.get(name, 0) + consumed.nanos > model.quantity(capacity.value).nanos:
            return None
        amounts[name] = consumed
    return amounts


def _consumed(request: model.Amount | None, capacity: model.DeviceCapacity) -> model.Quantity:
    policy = capacity.request_policy
    if request is None:
        default = None if policy is None else policy.default
        return model.quantity(capacity.value if default is None else default)
    requested = model.quantity(request)
    if policy is None:
        return requested
    limits = policy.valid_range
    if limits is not None:
        least = model.quantity(limits.min or 0)
        if requested.nanos < least.nanos:
            return least
        if limits.step is not None:
            step = model.quantity(limits.step).value()
            over = requested.value() - least.value()
            steps = -(-over // step) if step else 0
            return model.Quantity((least.value() + steps * step) * NANO, model.Format.BINARY_SI)
        return requested
    for valid in map(model.quantity, policy.valid_values):
        if valid.nanos >= requested.nanos:
            return valid
    return requested


def _violates(consumed: model.Quantity, policy: model.CapacityRequestPolicy | None) -> bool:
    if policy is None:
        return False
    if policy.default is not None and model.quantity(policy.default).nanos == consumed.nanos:
        return False
    limits = policy.valid_range
    if limits is not None:
        if limits.max is not None and consumed.nanos > model.quantity(limits.max).nanos:
            return True
        step = 0 if limits.step is None else model.quantity(limits.step).value()
        return bool(step and (consumed.value() - model.quantity(limits.min or 0).value()) % step)
    values = [model.quantity(value).nanos for value in policy.valid_values]
    return bool(values) and consumed.nanos not in values


# Selectors.

Reads = frozenset[tuple[str, str]]
"""Attributes and capacities by full name, each with the field of the device that it is in."""
_KINDS: Final = ("attributes", "capacity")
_SIMPLE: Final = ("driver", "allowMultipleAllocations")
_MOST_RESULTS: Final = 10_000
_MOST_SELECTORS: Final = 4096
#: Units of the evaluation itself, and of compiling a character: 4 to 8 us.
_EVALUATION: Final = 10
_CHARACTER: Final = 3


@lru_cache(maxsize=4096)
def reads_of(expression: str) -> Reads | None:
    """Return what a selector reads beside the driver; None where that depends on the device."""
    tree = cel.compile_selector(expression).tree
    if tree is None:
        return frozenset()  # the same error for every device
    reads = set()
    stack = [tree]
    while stack:
        node = stack.pop()
        read = _constant_read(node)
        if read is not None:
            reads.add(read)
        elif isinstance(node, ast.Ident) and node.name == "device":
            return None
        elif not _simple_read(node):
            stack.extend(children(node))
    return frozenset(reads)


def _simple_read(node: ast.Node) -> bool:
    match node:
        case ast.Select(operand=ast.Ident(name="device"), name=name):
            return name in _SIMPLE
    return False


def _constant_read(node: ast.Node) -> tuple[str, str] | None:
    """Return kind and full name of ``device.kind["domain"].name``, None for anything else."""
    match node:
        case (
            ast.Select(operand=inner, name=short)
            | ast.IndexExpr(operand=inner, index=ast.Literal(value=str() as short))
        ):
            match inner:
                case (
                    ast.IndexExpr(
                        operand=ast.Select(operand=ast.Ident(name="device"), name=kind),
                        index=ast.Literal(value=str() as domain),
                    )
                    | ast.Select(
                        operand=ast.Select(operand=ast.Ident(name="device"), name=kind), name=domain
                    )
                ) if kind in _KINDS:
                    return kind, f"{domain}/{short}"
    return None


class _Kept(NamedTuple):
    """A selector, what it reads, and its results by what a device has of that."""

    selector: cel.Selector
    reads: Reads | None
    results: dict[Hashable, bool | str]


class SelectorResults:
    """What selectors return, one result for devices that a selector cannot tell apart.

    ``budget`` is what work is paid from; None: work is free.
    """

    def __init__(self, budget: AttemptBudget | None = None) -> None:
        self._budget = budget
        self._kept: dict[str, _Kept] = {}
        self.work = 0
        """Units of work that all evaluations took."""

    @property
    def units(self) -> int:
        """The units of an attempt."""
        return UNITS if self._budget is None else self._budget.units

    def selected(self, expression: str, device: DeviceView) -> bool:
        """Tell whether a selector takes a device.

        Raises SelectorError, without the place, and DeadlineExceeded.
        """
        result = device.selected.get(expression)
        if result is None:
            result = device.selected[expression] = self._result(expression, device)
        if isinstance(result, str):
            raise SelectorError(result)
        return result

    def _result(self, expression: str, device: DeviceView) -> bool | str:
        kept = self._kept.get(expression)
        if kept is None:
            kept = self._compile(expression)
        key = device.read(kept.reads)
        result = kept.results.get(key)
        if result is None:
            if len(kept.results) >= _MOST_RESULTS:
                kept.results.clear()
            result = kept.results[key] = self._evaluate(kept.selector, device)
        return result

    def _compile(self, expression: str) -> _Kept:
        if self._budget is not None:
            self._budget.spend(_CHARACTER * len(expression))
        if len(self._kept) >= _MOST_SELECTORS:
            self._kept.clear()
        kept = _Kept(cel.compile_selector(expression), reads_of(expression), {})
        self._kept[expression] = kept
        return kept

    def _evaluate(self, selector: cel.Selector, device: DeviceView) -> bool | str:
        if selector.error:
            return f"CEL compile error: {selector.error}"
        budget = self._budget
        if budget is not None:
            budget.spend(_EVALUATION)
        evaluation = cel.Evaluation() if budget is None else cel.Evaluation(budget.left)
        result: bool | str | None = None
        try:
            result, _ = selector.evaluate(device.record(), evaluation)
        except cel.InterruptError:
            pass  # what it took is more than there is
        except cel.CelError as error:
            result = f"CEL runtime error: {error}"
        self.work += evaluation.work
        if budget is not None:
            (budget.spend if result is None else budget.charge)(evaluation.work)
        assert result is not None, "without units the budget is exceeded"
        return result
