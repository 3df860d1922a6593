"""Which spread constraints hold for a pod: its own, or the profile's for the pod's workload.

A pod without constraints gets the profile's default ones if a Service, ReplicationController,
ReplicaSet or StatefulSet selects it; these say which pods are spread. The facts are those of
kube-scheduler's podtopologyspread/common.go and plugins/helper/spread.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from policy_sched.cluster import ApiObjects
from policy_sched.cluster.counts import PodMatch, SelectorIndex
from policy_sched.model import (
    NOTHING,
    PodInfo,
    ReplicaSet,
    ReplicationController,
    Selector,
    Service,
    SpreadConstraint,
    SpreadConstraints,
    StatefulSet,
    TopologySpreadConstraint,
    equality_selector,
    label_selector,
    spread_constraints,
)

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"

SYSTEM_DEFAULTS: Final = spread_constraints(
    (
        TopologySpreadConstraint(
            max_skew=3, topology_key=HOSTNAME, when_unsatisfiable="ScheduleAnyway"
        ),
        TopologySpreadConstraint(
            max_skew=5, topology_key=ZONE, when_unsatisfiable="ScheduleAnyway"
        ),
    )
)

#: How many different pods' constraints are kept.
KEPT: Final = 8192


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint and the pods that count for it.

    ``selector`` says whether the pod itself counts; ``match`` counts no pods at all where the
    selector is empty, although an empty selector selects every pod: kube-scheduler has it so.
    """

    spread: SpreadConstraint
    selector: Selector
    match: PodMatch


@dataclass(frozen=True, slots=True)
class Constraints:
    """The constraints of one pod. ``all_labels``: nodes without one of the labels do not count."""

    hard: tuple[Constraint, ...] = ()
    soft: tuple[Constraint, ...] = ()
    all_labels: bool = True
    error: str = ""


NONE: Final = Constraints()


class ConstraintCache:
    """Tells each pod's constraints; what was worked out is kept for equal pods.

    ``args``: PodTopologySpreadArgs as a mapping.
    """

    def __init__(self, args: Mapping[str, object], objects: ApiObjects) -> None:
        self._system = args.get("defaultingType", "System") == "System"
        self._defaults = SYSTEM_DEFAULTS if self._system else _listed(args)
        self._objects = objects
        self._has_defaults = bool(self._defaults)
        self._version = -1
        self._services: dict[str, SelectorIndex[Mapping[str, str]]] = {}
        self._workloads = False
        self._own: dict[tuple[object, ...], Constraints] = {}
        self._default: dict[tuple[object, ...], Constraints] = {}

    def of(self, pod: PodInfo) -> Constraints:
        """Return the constraints that hold for the pod."""
        if pod.pod.spec.topology_spread_constraints:
            own = pod.topology_spread
            if own:
                return self._of_pod(pod, own)
        if not self._has_defaults:
            return NONE
        if self._version != self._objects.version:
            self._read_objects()
        if not self._workloads:
            return NONE
        key = (pod.namespace, pod.labels_key, pod.owner_key)
        found = self._default.get(key)
        if found is None:
            if len(self._default) >= KEPT:
                self._default.clear()
            found = self._default[key] = self._of_workload(pod)
        return found

    def may_hold(self, pod: PodInfo) -> bool:
        """Return quickly whether constraints may hold for the pod."""
        if pod.pod.spec.topology_spread_constraints:
            return True
        if self._has_defaults and self._version != self._objects.version:
            self._read_objects()
        return self._has_defaults and bool(self._workloads)

    def _of_pod(self, pod: PodInfo, own: SpreadConstraints) -> Constraints:
        reads_labels = any(c.match_label_keys for c in (*own.hard, *own.soft))
        key = (own, pod.namespace, pod.labels_key if reads_labels else ())
        found = self._own.get(key)
        if found is None:
            if len(self._own) >= KEPT:
                self._own.clear()
            hard = tuple(_counted(c.for_labels(pod.labels), pod.namespace) for c in own.hard)
            soft = tuple(_counted(c.for_labels(pod.labels), pod.namespace) for c in own.soft)
            found = self._own[key] = Constraints(hard, soft, True, own.error)
        return found

    def _of_workload(self, pod: PodInfo) -> Constraints:
        selector = self._selector(pod)
        if not selector.requirements:
            return NONE

        def bind(constraint: SpreadConstraint) -> Constraint:
            return _counted(msgspec.structs.replace(constraint, selector=selector), pod.namespace)

        hard = tuple(bind(c) for c in self._defaults.hard)
        soft = tuple(bind(c) for c in self._defaults.soft)
        return Constraints(hard, soft, not self._system, self._defaults.error)

    def _selector(self, pod: PodInfo) -> Selector:
        """Return what selects the pods of the pod's workload; empty if nothing does."""
        labels: dict[str, str] = {}
        services = self._services.get(pod.namespace)
        for wanted in () if services is None else services.candidates(pod.labels):
            if wanted.items() <= pod.labels.items():
                labels.update(wanted)
        owner = pod.owner_key[:2]
        if owner == ("v1", "ReplicationController"):
            found = self._objects.named(ReplicationController, pod.namespace, pod.owner_name)
            labels.update(found.spec.selector if found is not None else {})
        selector = equality_selector(labels)
        workload: ReplicaSet | StatefulSet | None = None
        if owner == ("apps/v1", "ReplicaSet"):
            workload = self._objects.named(ReplicaSet, pod.namespace, pod.owner_name)
        elif owner == ("apps/v1", "StatefulSet"):
            workload = self._objects.named(StatefulSet, pod.namespace, pod.owner_name)
        if workload is None:
            return selector
        try:
            added = label_selector(workload.spec.selector)
        except ValueError:
            return selector
        return Selector(selector.requirements + added.requirements)

    def _read_objects(self) -> None:
        """List the services anew after an object changed."""
        self._version = self._objects.version
        self._default.clear()
        self._services.clear()
        for service in self._objects.of(Service):
            if service.spec.selector:
                namespace = service.metadata.namespace or "default"
                index = self._services.setdefault(namespace, SelectorIndex())
                index.add(equality_selector(service.spec.selector), service.spec.selector)
        kinds = (ReplicationController, ReplicaSet, StatefulSet)
        self._workloads = bool(self._services) or any(self._objects.of(kind) for kind in kinds)


def _listed(args: Mapping[str, object]) -> SpreadConstraints:
    listed: Any = args.get("defaultConstraints") or ()
    return spread_constraints(msgspec.convert(listed, tuple[TopologySpreadConstraint, ...]))


def _counted(constraint: SpreadConstraint, namespace: str) -> Constraint:
    selector = constraint.selector
    counted = selector if selector.requirements else NOTHING
    match = PodMatch(((frozenset((namespace,)), counted),), terminating=False)
    return Constraint(constraint, selector, match)
