"""The overload table's lines over Kubernetes' own values: quantities, versions, pods, nodes."""

from __future__ import annotations

from typing import Final

_QUANTITY: Final = """
quantity(string) -> quantity | | Such as "500m", "2", "10Gi".
isQuantity(string) -> bool | | Whether the text is a quantity.
quantity.add(quantity) -> quantity | | Sum.
quantity.add(int) -> quantity | | Sum.
quantity.sub(quantity) -> quantity | | Difference.
quantity.sub(int) -> quantity | | Difference.
quantity.compareTo(quantity) -> int | | -1, 0 or 1.
quantity.isLessThan(quantity) -> bool | | Less than.
quantity.isGreaterThan(quantity) -> bool | | Greater than.
quantity.sign() -> int | | -1, 0 or 1.
quantity.isInteger() -> bool | | Whether it is a whole number that int64 holds.
quantity.asInteger() -> int | | The whole number; an error where it is none.
quantity.asApproximateFloat() -> double | | The nearest double.
quantity.units() -> int | ext | In the scheduler's unit: milli for cpu, else the rounded value.
quantity.value() -> int | ext | Rounded up to a whole number.
quantity.milli() -> int | ext | Thousandths, rounded up.
"""

_SEMVER: Final = """
semver(string) -> semver | | A version, such as "1.36.0".
semver(string, bool) -> semver | | A version; true also reads "v1.36".
isSemver(string) -> bool | | Whether the text is a version.
isSemver(string, bool) -> bool | | Whether the text is a version; true also reads "v1.36".
semver.major() -> int | | The first number.
semver.minor() -> int | | The second number.
semver.patch() -> int | | The third number.
semver.compareTo(semver) -> int | | -1, 0 or 1 by precedence.
semver.isLessThan(semver) -> bool | | An earlier version.
semver.isGreaterThan(semver) -> bool | | A later version.
"""

_SCHEDULER: Final = """
taint(string, string, string) -> Taint | | A taint of key, value and effect.
Pod.tolerates(Taint) -> bool | | Whether one of the pod's tolerations tolerates the taint.
Pod.matchesNodeAffinity(Node) -> bool | | Whether nodeSelector and required node affinity match.
Pod.preferredNodeAffinity(Node) -> int | | Weights of matching preferred terms; a bad one aborts.
Pod.hasRequiredNodeAffinity() -> bool | | Whether the pod has a nodeSelector or required affinity.
Pod.hasPreferredNodeAffinity() -> bool | | Whether the pod has preferred node affinity terms.
Pod.requiredNodeNames() -> optional(list(string)) | | Nodes that required affinity names.
Node.matchesAffinity(raw) -> bool | | Whether a node affinity of params matches; none matches all.
Node.affinityPreference(raw) -> int | | Sum of matching preferred weights of an affinity of params.
hasPreferredTerms(raw) -> bool | | Whether a node affinity of params has preferred terms.
selector(string) -> selector | | A label selector, such as "tier in (web, api), !legacy".
selector.matches(map(string, string)) -> bool | | Whether the labels satisfy the selector.
resources.fitsIn(resources) -> bool | | Whether every amount above zero is within the other's.
resources.fitsIn(resources, list(string)) -> bool | | As fitsIn, without these extended resources.
resources.fitsIn(resources, list(string), list(string)) -> bool | | Nor of these groups.
resources.names() -> list(string) | | cpu, memory, ephemeral-storage, then the others by name.
isScalarResource(string) -> bool | | Whether it is extended, huge pages or an attachable volume.
isExtendedResource(string) -> bool | | Whether it is a resource that a device plugin advertises.
HostPort.conflicts(HostPort) -> bool | | Same protocol and port, on one address or on all.
domain(string) -> Domain | reads:node | The nodes that share this node's value of the label.
domains(string) -> list(Domain) | reads:cluster | All domains of the label.
stableHash(string) -> int | | FNV-1a of 64 bits without its sign.
stableHash(string, int) -> int | | The hash modulo the number of buckets.
"""

#: (group, not in Kubernetes' CEL, lines)
SCHEDULER_GROUPS: Final = (
    ("Quantity", False, _QUANTITY),
    ("Version", False, _SEMVER),
    ("Scheduler", True, _SCHEDULER),
)
