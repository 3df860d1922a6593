"""Runtime classes: what a pod's runtime takes besides the pod, and which nodes have it.

The RuntimeClass admission plugin writes both into a pod when it is created.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import field

from policy_sched.model.meta import ApiObject, ApiStruct
from policy_sched.model.pod import PodSpec
from policy_sched.model.quantity import Amount, nanos
from policy_sched.model.records import Toleration

MOST_TOLERATIONS: Final = 1_000
"""Tolerations of a pod that are compared with those of its runtime class."""


class Overhead(ApiStruct):
    """What each pod of a class takes in addition."""

    pod_fixed: dict[str, Amount] = field(default_factory=dict)


class Scheduling(ApiStruct):
    """Where the pods of a class can run."""

    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


class RuntimeClass(ApiObject):
    """A runtime class."""

    overhead: Overhead | None = None
    scheduling: Scheduling | None = None


class RejectedError(ValueError):
    """Why a pod is refused, in the words of the admission plugin."""


def admit(spec: PodSpec, found: RuntimeClass) -> None:
    """Write into a pod what its runtime class says. Raises RejectedError if that contradicts it."""
    if found.overhead is not None:
        if spec.overhead and not _equal(spec.overhead, found.overhead.pod_fixed):
            what = "Pod's Overhead doesn't match RuntimeClass's defined Overhead"
            raise RejectedError(f"pod rejected: {what}")
        spec.overhead = dict(found.overhead.pod_fixed)
    if found.scheduling is None:
        return
    for key, value in sorted(found.scheduling.node_selector.items()):
        own = spec.node_selector.get(key, value)
        if own != value:
            wanted = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}"
            raise RejectedError(f"conflict: {wanted}; pod.spec.nodeSelector[{key}] = {own}")
    spec.node_selector = {**spec.node_selector, **found.scheduling.node_selector}
    if found.scheduling.tolerations:
        every = (*spec.tolerations, *found.scheduling.tolerations)
        if len(every) > MOST_TOLERATIONS:
            what = f"more than {MOST_TOLERATIONS} tolerations with those of the RuntimeClass"
            raise RejectedError(f"pod rejected: {what}")
        spec.tolerations = merged(every)


def check_overhead(spec: PodSpec, found: RuntimeClass | None) -> None:
    """Raise RejectedError if a pod has an overhead that no runtime class gives it."""
    if spec.overhead and (found is None or found.overhead is None):
        what = "Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise RejectedError(f"pod rejected: {what}")


def merged(every: tuple[Toleration, ...]) -> tuple[Toleration, ...]:
    """Return tolerations without those that another one includes; of equal ones the first."""
    kept: list[Toleration] = []
    for place, one in enumerate(every):
        later = (other for other in every[place + 1 :] if other != one)
        if not any(_includes(other, one) for other in (*kept, *later)):
            kept.append(one)
    return tuple(kept)


def _includes(wide: Toleration, one: Toleration) -> bool:
    """Tell whether a toleration bears whatever another one does."""
    if wide == one:
        return True
    if one.key != wide.key and not (not wide.key and wide.operator == "Exists"):
        return False
    if wide.effect not in ("", one.effect):
        return False
    if one.effect == "NoExecute" and wide.toleration_seconds is not None:
        seconds = one.toleration_seconds
        if seconds is None or seconds > wide.toleration_seconds:
            return False
    if wide.operator in ("", "Equal"):
        return one.operator in ("", "Equal") and one.value == wide.value
    return wide.operator == "Exists"


def _equal(one: Mapping[str, Amount], other: Mapping[str, Amount]) -> bool:
    def amounts(given: Mapping[str, Amount]) -> dict[str, int]:
        return {name: nanos(str(amount)) for name, amount in given.items()}

    return amounts(one) == amounts(other)
