"""Abstract values of lowering: a constant, an operation, or a structure of these.

Theory of operation. Lowering runs an expression over these values instead of over numbers. A
`Constant` is known at compile time. A `Value` is one operation with its error and range. The others
are structures that exist at run time only if something needs them as a value: an optional is a
presence and a value, the labels of a node are columns that are not selected yet, a constant list
under node-level tests is a list of masked values (`MaskedList`), and a list that is still being
filtered and mapped is a loop that has not run yet (`Comprehension`).
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Any, Final, TypeAlias

import msgspec

from policy_sched import model
from policy_sched.cluster.tables import NO_QUOTA
from policy_sched.language import values
from policy_sched.language.ir import Op
from policy_sched.language.runtime import NO_DOMAIN, NOTHING, Activation
from policy_sched.language.stdlib import version
from policy_sched.language.values import types


class UnitOf(types.QuantityType, frozen=True):
    """The type of a resource's amount whose name is known at run time, before the node is.

    ``scale`` is how many of the resource's units make one: 1000 of cpu, 1 of all others.
    """

    scale: Op | None = None


class Constant(msgspec.Struct, frozen=True):
    """A value known at compile time: a Python value of the type's form."""

    value: Any
    type: types.Type

    @property
    def err(self) -> Op | None:
        """A constant has no error."""
        return None


class Value(msgspec.Struct, frozen=True):
    """A value at run time; ``err`` is None where it is proved that there is no error."""

    op: Op
    err: Op | None
    type: types.Type
    range: values.Interval = values.DOUBLES


def truth(op: Op, err: Op | None = None) -> Value:
    """Return a bool at run time."""
    return Value(op, err, types.BOOL, values.BOOLS)


class Opt(msgspec.Struct, frozen=True):
    """An optional: whether it is present (a bool without error), and the value if it is."""

    present: Constant | Value
    value: Abstract
    err: Op | None
    type: types.Type


class NodeRecord(msgspec.Struct, frozen=True):
    """The node under evaluation."""

    type: types.Type
    err: Op | None = None


class ImageRecord(msgspec.Struct, frozen=True):
    """An image of the node, by a name that is known before the node is."""

    name: Constant | Value
    type: types.Type
    err: Op | None = None


class NodeMap(msgspec.Struct, frozen=True):
    """A map or resources of the node, as a family of columns (``label``, ``free``, ...)."""

    family: str
    type: types.Type
    err: Op | None = None


class MaskedList(msgspec.Struct, frozen=True):
    """A list of values of which each is there where its mask (None: always) is true."""

    items: tuple[tuple[Value | None, Abstract], ...]
    err: Op | None
    type: types.Type


class Comprehension(msgspec.Struct, frozen=True):
    """A list that is a loop over a run-time list, not run yet.

    ``errors`` are errors of the stages so far, inside the loop, in the order of the stages.
    """

    source: Op
    param: Op
    index: Op | None
    errors: tuple[Op, ...]
    mask: Value | None
    value: Abstract
    err: Op | None
    type: types.Type


Abstract: TypeAlias = (
    Constant | Value | Opt | NodeRecord | ImageRecord | NodeMap | MaskedList | Comprehension
)

#: The years 1 to 9999 in ns since 1970: beyond int64, so arithmetic on them is never unchecked.
_YEARS: Final = values.Interval(-62_135_596_800 * 10**9, 253_402_300_800 * 10**9 - 1)
_REPS: Final = {
    types.BOOL: "b",
    types.INT: "i",
    types.DURATION: "i",
    types.TIMESTAMP: "i",
    types.DOUBLE: "f",
    types.STRING: "s",
}


def rep_of(kind: types.Type) -> str:
    """Return how a run-time value of a type is held where it is not over rows."""
    if isinstance(kind, types.QuantityType):
        return "o" if kind.dimension == "free" else "i"
    return _REPS.get(kind, "o")


def range_of(kind: types.Type) -> values.Interval:
    """Return the range of all values of a type, if they are numbers."""
    if kind == types.BOOL:
        return values.BOOLS
    if kind == types.TIMESTAMP:
        return _YEARS
    return values.INT64 if rep_of(kind) == "i" else values.DOUBLES


_SIMPLE: dict[types.Type, object] = {
    types.BOOL: False,
    types.INT: 0,
    types.DURATION: 0,
    types.TIMESTAMP: 0,
    types.DOUBLE: 0.0,
    types.STRING: "",
    types.RESOURCES: {},
    types.SEMVER: version("0.0.0"),
    types.SELECTOR: model.Selector(()),
}
_RECORDS: dict[str, object] = {
    "Taint": model.Taint(),
    "Toleration": model.Toleration(),
    "HostPort": model.HostPort("", "", 0),
    "Condition": model.Condition(),
    "Container": model.Container("", "", "", {}, {}),
    "SeccompProfile": model.SeccompProfile(),
    "Image": values.ImageFacts(),
    "Node": values.NO_NODE,
    "Pod": model.PodInfo.of(model.Pod()),
    "Cluster": NO_DOMAIN,
    "Domain": NO_DOMAIN,
    "Namespace": model.Namespace(metadata=model.ObjectMeta(name="")),
    "PodGroup": model.NO_GROUP,
    "Quota": NO_QUOTA,
    "Queue": model.QueuedPod(model.PodInfo.of(model.Pod())),
    "Cycle": Activation(),
    "Event": NOTHING,
    "Device": values.NO_DEVICE,
    "DeviceAttribute": values.AttributeFacts(),
    "DeviceRequest": values.NO_REQUEST,
    "AllocatedDevice": values.AllocatedDeviceFacts(),
    "Allocation": values.NO_ALLOCATION,
}


def default_of(kind: types.Type) -> Any:
    """Return a placeholder value of a type; None if it is read only where it is valid."""
    match kind:
        case types.QuantityType():
            return Fraction(0) if kind.dimension == "free" else 0
        case types.ListType():
            return ()
        case types.MapType():
            return {}
        case types.ObjectType():
            return _blank(kind)
        case types.RecordType() if kind.fields:
            return {name: default_of(of) for name, of in kind.fields}
        case types.RecordType():
            return _RECORDS.get(kind.name)
    return _SIMPLE.get(kind)


@cache
def _blank(kind: types.ObjectType) -> values.BlankObject:
    """Return the one record without an object, so that looking an object up twice is one op."""
    return values.BlankObject({name: default_of(of) for name, of in kind.fields})
