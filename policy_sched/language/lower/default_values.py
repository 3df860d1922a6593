"""Default value of each type: the value of a row under an error mask, so that nothing raises."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from policy_sched.language.runtime import NO_DOMAIN, NOTHING, Activation
from policy_sched.language.stdlib import version
from policy_sched.language.values import (
    BOOL,
    DOUBLE,
    DURATION,
    INT,
    NO_NODE,
    RESOURCES,
    SELECTOR,
    SEMVER,
    STRING,
    TIMESTAMP,
    ImageFacts,
    ListType,
    MapType,
    QuantityType,
    RecordType,
    Type,
)
from policy_sched.model import (
    NO_GROUP,
    Condition,
    Container,
    HostPort,
    Namespace,
    ObjectMeta,
    Pod,
    PodInfo,
    QueuedPod,
    Selector,
    Taint,
    Toleration,
)

_SIMPLE: dict[Type, object] = {
    BOOL: False,
    INT: 0,
    DURATION: 0,
    TIMESTAMP: 0,
    DOUBLE: 0.0,
    STRING: "",
    RESOURCES: {},
    SEMVER: version("0.0.0"),
    SELECTOR: Selector(()),
}
_RECORDS: dict[str, object] = {
    "Taint": Taint(),
    "Toleration": Toleration(),
    "HostPort": HostPort("", "", 0),
    "Condition": Condition(),
    "Container": Container("", "", "", {}, {}),
    "Image": ImageFacts(),
    "Node": NO_NODE,
    "Pod": PodInfo.of(Pod()),
    "Cluster": NO_DOMAIN,
    "Domain": NO_DOMAIN,
    "Namespace": Namespace(metadata=ObjectMeta(name="")),
    "PodGroup": NO_GROUP,
    "Queue": QueuedPod(PodInfo.of(Pod())),
    "Cycle": Activation(),
    "Event": NOTHING,
}


def default_of(kind: Type) -> Any:
    """Return a harmless value of a type; None for what is only touched where it is no garbage."""
    match kind:
        case QuantityType():
            return Fraction(0) if kind.dimension == "free" else 0
        case ListType():
            return ()
        case MapType():
            return {}
        case RecordType() if kind.fields:
            return {name: default_of(of) for name, of in kind.fields}
        case RecordType():
            return _RECORDS.get(kind.name)
    return _SIMPLE.get(kind)
