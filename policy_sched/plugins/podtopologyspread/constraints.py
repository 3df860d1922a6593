"""The spread constraints of a pod, the nodes that count, and pods per topology domain.

A pod without constraints gets the profile's default ones if a Service, ReplicationController,
ReplicaSet or StatefulSet selects it; their selectors count the pods. The facts are those of
kube-scheduler's podtopologyspread/common.go, of plugins/helper/spread.go and of component-helpers'
``nodeaffinity``.

Theory of operation: the rows that count for a constraint are cached until a node's static fields
change, and pods by domain follow each pod that comes or goes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched import model
from policy_sched.cluster import ApiObjects
from policy_sched.cluster.counts import ROW, Counts, Domain, PodCounts, PodMatch, SelectorIndex
from policy_sched.cluster.tables import NodeTable

SYSTEM_DEFAULTS: Final = model.spread_constraints(
    (
        model.TopologySpreadConstraint(
            max_skew=3, topology_key=model.HOSTNAME, when_unsatisfiable="ScheduleAnyway"
        ),
        model.TopologySpreadConstraint(
            max_skew=5, topology_key=model.ZONE, when_unsatisfiable="ScheduleAnyway"
        ),
    )
)

#: Number of different pods whose constraints are cached.
KEPT_CONSTRAINTS: Final = 8192


class Constraint(msgspec.Struct, frozen=True):
    """One constraint and the pods that count for it.

    ``selector`` decides whether the pod itself counts; ``match`` counts no pods if the
    selector is empty, although an empty selector selects every pod, as in kube-scheduler.
    """

    spread: model.SpreadConstraint
    selector: model.Selector
    match: PodMatch


class Constraints(msgspec.Struct, frozen=True):
    """The constraints of one pod. ``all_labels``: nodes without one of the labels do not count."""

    hard: tuple[Constraint, ...] = ()
    soft: tuple[Constraint, ...] = ()
    all_labels: bool = True
    error: str = ""


NONE: Final = Constraints()
_CONTROLLERS: Final[tuple[type[model.ApiObject], ...]] = (
    model.ReplicationController,
    model.ReplicaSet,
    model.StatefulSet,
)
_WORKLOADS: Final[tuple[type[model.ApiObject], ...]] = (model.Service, *_CONTROLLERS)


class ConstraintCache:
    """Returns the constraints of pods; equal pods share them.

    ``args``: PodTopologySpreadArgs as a mapping.
    """

    def __init__(self, args: Mapping[str, object], objects: ApiObjects) -> None:
        self._system = args.get("defaultingType", "System") == "System"
        self._defaults = SYSTEM_DEFAULTS if self._system else _listed(args)
        self._objects = objects
        self._has_defaults = bool(self._defaults)
        self.workloads = tuple(objects.live(kind) for kind in _WORKLOADS if self._has_defaults)
        """The objects without which no default constraint applies to any pod."""
        self._version = -1
        self._services: dict[str, SelectorIndex[Mapping[str, str]]] = {}
        self._workloads = False
        self._own: dict[tuple[object, ...], Constraints] = {}
        self._default: dict[tuple[object, ...], Constraints] = {}

    def of(self, pod: model.PodInfo) -> Constraints:
        """Return the constraints that apply to the pod."""
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
        constraints = self._default.get(key)
        if constraints is None:
            if len(self._default) >= KEPT_CONSTRAINTS:
                self._default.clear()
            constraints = self._default[key] = self._of_workload(pod)
        return constraints

    def may_hold(self, pod: model.PodInfo) -> bool:
        """Return quickly whether constraints may apply to the pod."""
        if pod.pod.spec.topology_spread_constraints:
            return True
        if self._has_defaults and self._version != self._objects.version:
            self._read_objects()
        return self._has_defaults and bool(self._workloads)

    def _of_pod(self, pod: model.PodInfo, own: model.SpreadConstraints) -> Constraints:
        reads_labels = any(c.match_label_keys for c in (*own.hard, *own.soft))
        key = (own, pod.namespace, pod.labels_key if reads_labels else ())
        constraints = self._own.get(key)
        if constraints is None:
            if len(self._own) >= KEPT_CONSTRAINTS:
                self._own.clear()
            hard = tuple(_counted(c.for_labels(pod.labels), pod.namespace) for c in own.hard)
            soft = tuple(_counted(c.for_labels(pod.labels), pod.namespace) for c in own.soft)
            constraints = self._own[key] = Constraints(hard, soft, True, own.error)
        return constraints

    def _of_workload(self, pod: model.PodInfo) -> Constraints:
        selector = self._selector(pod)
        if not selector.requirements:
            return NONE

        def bind(constraint: model.SpreadConstraint) -> Constraint:
            return _counted(msgspec.structs.replace(constraint, selector=selector), pod.namespace)

        hard = tuple(bind(c) for c in self._defaults.hard)
        soft = tuple(bind(c) for c in self._defaults.soft)
        return Constraints(hard, soft, not self._system, self._defaults.error)

    def _selector(self, pod: model.PodInfo) -> model.Selector:
        """Return the selector of the pod's workload; empty if nothing selects the pod."""
        labels: dict[str, str] = {}
        services = self._services.get(pod.namespace)
        for wanted in () if services is None else services.candidates(pod.labels):
            if wanted.items() <= pod.labels.items():
                labels.update(wanted)
        owner = pod.owner_key[:2]
        if owner == ("v1", "ReplicationController"):
            controller = self._objects.named(
                model.ReplicationController, pod.namespace, pod.owner_name
            )
            labels.update(controller.spec.selector if controller is not None else {})
        selector = model.equality_selector(labels)
        workload: model.ReplicaSet | model.StatefulSet | None = None
        if owner == ("apps/v1", "ReplicaSet"):
            workload = self._objects.named(model.ReplicaSet, pod.namespace, pod.owner_name)
        elif owner == ("apps/v1", "StatefulSet"):
            workload = self._objects.named(model.StatefulSet, pod.namespace, pod.owner_name)
        if workload is None:
            return selector
        try:
            added = model.label_selector(workload.spec.selector)
        except ValueError:
            return selector
        return model.Selector(selector.requirements + added.requirements)

    def _read_objects(self) -> None:
        """List services and workloads anew after a change."""
        self._version = self._objects.version
        self._default.clear()
        self._services.clear()
        for service in self._objects.of(model.Service):
            if service.spec.selector:
                namespace = service.metadata.namespace or "default"
                index = self._services.setdefault(namespace, SelectorIndex())
                index.add(model.equality_selector(service.spec.selector), service.spec.selector)
        self._workloads = bool(self._services) or any(
            self._objects.live(kind) for kind in _CONTROLLERS
        )


def _listed(args: Mapping[str, object]) -> model.SpreadConstraints:
    listed: Any = args.get("defaultConstraints") or ()
    return model.spread_constraints(
        msgspec.convert(listed, tuple[model.TopologySpreadConstraint, ...])
    )


def _counted(constraint: model.SpreadConstraint, namespace: str) -> Constraint:
    selector = constraint.selector
    counted = selector if selector.requirements else model.NOTHING
    match = PodMatch(((frozenset((namespace,)), counted),), terminating=False)
    return Constraint(constraint, selector, match)


Mask: TypeAlias = NDArray[np.bool_]

#: Number of different sets of rows that are cached.
KEPT_RESULTS: Final = 512
#: Effects that keep a pod off a node.
_KEEPS_OFF: Final = ("NoSchedule", "NoExecute")


class NodeInclusion:
    """Masks over the rows [0, n) of a node table; None is every row."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table

    def affinity(self, pod: model.PodInfo) -> Mask | None:
        """Return the rows that the pod's node selector and required node affinity allow."""
        affinity = pod.node_affinity
        required = affinity is not None and affinity.required is not None
        if not pod.node_selector and not required:
            return None
        mask = np.ones(self._table.n, np.bool_)
        for key, value in pod.node_selector.items():
            mask &= self._codes(key) == self._table.strings.find(value)
        if affinity is not None and affinity.required is not None:
            mask &= self._terms(affinity.required.node_selector_terms)
        return mask

    def taints(self, pod: model.PodInfo) -> Mask | None:
        """Return the rows without a taint that rejects the pod."""
        table = self._table
        ids = table.lookup(("taints",)).values[: table.n]
        sets = table.taint_sets
        borne = np.array(
            [
                all(
                    taint.effect not in _KEEPS_OFF or model.tolerated(taint, pod.tolerations)
                    for taint in sets.members(number)
                )
                for number in range(len(sets.sets))
            ],
            np.bool_,
        )
        return None if borne.all() else borne[ids]

    def _terms(self, terms: tuple[model.NodeSelectorTerm, ...]) -> Mask:
        """Return the rows that one of the terms matches; empty and invalid terms match none."""
        included = np.zeros(self._table.n, np.bool_)
        for term in terms:
            try:
                valid = model.node_term(term) is not None
            except ValueError:
                continue
            if valid:
                mask = np.ones(self._table.n, np.bool_)
                for r in term.match_expressions:
                    mask &= self._meets(model.requirement(r.key, r.operator, r.values))
                for r in term.match_fields:
                    mask &= self._field(r)
                included |= mask
        return included

    def _meets(self, r: model.Requirement) -> Mask:
        codes = self._codes(r.key)
        if r.operator in ("In", "NotIn"):
            among = np.isin(codes, [self._table.strings.find(value) for value in r.values])
            return among if r.operator == "In" else ~among
        if r.operator in ("Exists", "DoesNotExist"):
            has: Mask = codes != 0
            return has if r.operator == "Exists" else ~has
        distinct, inverse = np.unique(codes, return_inverse=True)
        texts = [self._table.strings.text(code) for code in distinct.tolist()]
        met = np.array([r.matches({r.key: text}) for text in texts], np.bool_)
        met &= distinct != 0
        return met[inverse]

    def _field(self, r: model.NodeSelectorRequirement) -> Mask:
        wanted = r.operator == "In"
        if r.key != model.NAME_FIELD:
            return np.full(self._table.n, (r.values[0] == "") is wanted)
        names = self._table.lookup(("name",)).values[: self._table.n]
        same: Mask = names == self._table.strings.find(r.values[0])
        return same if wanted else ~same

    def _codes(self, key: str) -> NDArray[np.int32]:
        codes: NDArray[np.int32] = self._table.lookup(("label", key)).values[: self._table.n]
        return codes


class Included(msgspec.Struct, frozen=True):
    """The rows that count for a constraint if not all do, and their domains.

    ``mask``: bool, shape (n,). ``part``: the domains over these rows. ``exists``: bool, shape
    (domain.count,): which domains have a row that counts.
    """

    mask: Mask
    part: Domain
    exists: Mask


class Distribution(msgspec.Struct, frozen=True, eq=False):
    """The pods that count for one constraint, as they come and go.

    ``totals``: int64, shape (domain.count + 1,), pods by domain; the last is of nodes without the
    label. ``included``: the rows that count, None for all.
    """

    domain: Domain
    included: Included | None
    totals: NDArray[np.int64]
    view: memoryview[int]
    """The same numbers, which are read faster one by one."""
    counts: Counts
    version: int
    """That of the counts; they keep the totals up to date until theirs is another one."""


class SpreadCounter:
    """Counts for the pods of one cluster; sets of rows are cached until a node changes."""

    def __init__(self, table: NodeTable, counts: PodCounts) -> None:
        self._table = table
        self._counts = counts
        self._nodes = NodeInclusion(table)
        self._version = -1
        self._included: dict[tuple[object, ...], Included | None] = {}

    @property
    def live_count(self) -> int:
        """The number of nodes."""
        return self._table.live_count

    def domain(self, key: str) -> Domain:
        """Return the current domains of a label."""
        return self._counts.domains.of(key)

    def labelled(self, keys: tuple[str, ...]) -> Mask | None:
        """Return the rows that have all of the labels; None if every node has them."""
        mask: Mask | None = None
        for key in keys:
            domain = self._counts.domains.of(key)
            if not domain.complete:
                mask = _both(mask, domain.present)
        return mask

    def distribution(
        self, pod: model.PodInfo, constraint: Constraint, keys: tuple[str, ...]
    ) -> Distribution:
        """Return the pods by domain over the rows with all labels ``keys`` that count."""
        domain = self._counts.domains.of(constraint.spread.topology_key)
        return self._distribution(constraint, domain, self._rows(pod, constraint, keys, domain))

    def by_row(self, constraint: Constraint) -> Distribution:
        """Return the pods that count on each row."""
        return self._distribution(constraint, self._counts.domains.of(ROW), None)

    def _distribution(
        self, constraint: Constraint, domain: Domain, included: Included | None
    ) -> Distribution:
        counts = self._counts.selected.of(constraint.match)
        totals = counts.by(domain) if included is None else counts.by(included.part)[:-1]
        return Distribution(domain, included, totals, totals.data, counts, counts.version)

    def _rows(
        self, pod: model.PodInfo, constraint: Constraint, keys: tuple[str, ...], domain: Domain
    ) -> Included | None:
        if self._version != self._table.journal.nodes_version:
            self._version = self._table.journal.nodes_version
            self._included.clear()
        spread = constraint.spread
        by_affinity = spread.honor_affinity and (pod.node_selector or pod.node_affinity is not None)
        key = (
            domain.key,
            keys,
            (pod.node_selector_key, pod.node_affinity) if by_affinity else None,
            pod.tolerations if spread.honor_taints else None,
        )
        if key not in self._included:
            if len(self._included) >= KEPT_RESULTS:
                self._included.clear()
            mask = self.labelled(keys)
            if by_affinity:
                mask = _both(mask, self._nodes.affinity(pod))
            if spread.honor_taints:
                mask = _both(mask, self._nodes.taints(pod))
            self._included[key] = None if mask is None else _included(mask, domain)
        return self._included[key]


def _included(mask: Mask, domain: Domain) -> Included:
    exists = np.zeros(domain.count + 1, np.bool_)
    exists[domain.ids[mask]] = True
    return Included(mask, domain.part(mask), exists[:-1])


def _both(mask: Mask | None, other: Mask | None) -> Mask | None:
    if mask is None or other is None:
        return other if mask is None else mask
    return mask & other
