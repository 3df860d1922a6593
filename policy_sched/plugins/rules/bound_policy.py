"""A policy bound to a node table: the evaluations of pod time."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from policy_sched.cluster.tables import (
    NEVER,
    ROOT,
    Aggregate,
    Contribution,
    Grant,
    Lookup,
    NodeTable,
    NodeView,
    OtherPod,
    PodTable,
    QuotaKind,
    Quotas,
    Since,
    weight_in_thousandths,
)
from policy_sched.framework import PodToEvict
from policy_sched.language import (
    BoundUnit,
    CompiledAggregate,
    CompiledPolicy,
    CompiledQuotaObjects,
    CompiledQuotas,
    Eviction,
    GateRule,
    Input,
    Out,
    Sections,
    Unit,
)
from policy_sched.language.runtime import Activation, Runtime
from policy_sched.language.values import Failure, LimitError, RuleError, Some
from policy_sched.model import NO_GROUP, GroupCounts, PodInfo, QueuedPod
from policy_sched.plugins.rules.bound_filter import BoundFilter
from policy_sched.plugins.rules.bound_placement import BoundPlacement
from policy_sched.plugins.rules.bound_score import NO_CYCLE, BoundScore
from policy_sched.plugins.rules.kept_rows import KeptRows
from policy_sched.plugins.rules.life_cycle import BoundLifeCycle
from policy_sched.preemption import BoundPreemption


class Reversed:
    """A string that sorts in descending order."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __lt__(self, other: Reversed) -> bool:
        return other.text < self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reversed) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


Scores = npt.NDArray[np.int64]
Test = Callable[[PodInfo, Activation, int], Iterable[Any]]


_Gates: TypeAlias = Sequence[tuple[GateRule, BoundUnit, BoundUnit | None]]
"""Rules about a pod, each with what decides and what explains."""


def sort_key(
    keys: BoundUnit | None,
    descending: Sequence[bool],
    queued: QueuedPod,
    group: GroupCounts = NO_GROUP,
) -> tuple[Any, ...]:
    """Return the values of keys for a queued pod: less comes first.

    A key that fails is the zero of its type, one that is no number is below all numbers.
    """
    if keys is None:
        return ()
    out = keys.scalar(queued.info, Activation(queued=queued, pod_group=group), 0)
    return order_key(keys, descending, out)


def order_key(keys: BoundUnit, descending: Sequence[bool], out: Out) -> tuple[Any, ...]:
    """Return the values of keys that can be compared: less comes first; as `sort_key`."""
    values = []
    for root, falls in zip(keys.unit.roots, descending, strict=True):
        value: Any
        if isinstance(out, Failure) or (root.error is not None and out[root.error]):
            value = root.zero
        else:
            value = out[root.value]
        if value != value:  # noqa: PLR0124  # NaN, which nothing is before or after
            value = -math.inf
        if falls:
            value = Reversed(value) if isinstance(value, str) else -value
        values.append(value)
    return tuple(values)


class BoundEviction:
    """The ``evict`` section over one cluster's tables."""

    def __init__(self, section: Eviction, runtime: Runtime) -> None:
        self._section = section
        self._unit = BoundUnit(section.unit, runtime)
        self._order = None if section.order is None else BoundUnit(section.order, runtime)
        self._explain = None if section.explain is None else BoundUnit(section.explain, runtime)

    def judge(self, pod: PodInfo, cycle: Activation, row: int) -> PodToEvict | None:
        """Return a pod that is to be evicted, None for one that stays. Raises RuleError."""
        section = self._section
        victim = self._unit.evaluate(0, pod, cycle, row)
        if isinstance(victim, Failure):
            raise RuleError(f"rule {section.name}: {victim.message}")
        if not victim:
            return None
        key: tuple[Any, ...] = ()
        if self._order is not None:
            out = self._order.scalar(pod, cycle, row)
            key = order_key(self._order, section.descending, out)
        note: Any = section.message
        if self._explain is not None:
            note = self._explain.evaluate(0, pod, cycle, row)
        if isinstance(note, Failure):
            note = f"rule {section.name}: {note.message}"
        return PodToEvict(pod, key, str(note))


class Refusal(NamedTuple):
    """Why a rule about the pod alone rejects it; ``resolvable``: preemption may help."""

    text: str
    resolvable: bool


def _refusal(gates: _Gates, pod: PodInfo, cycle: Activation) -> Refusal | None:
    """Return why the first of some rules rejects a pod, or None if none does."""
    for gate, bound, explain in gates:
        root, out = bound.unit.roots[0], bound.scalar(pod, cycle, 0)
        if isinstance(out, Failure) or root.error is not None:
            passes = bound.value_of(root, out)
        else:
            passes = out[root.value]
        if isinstance(passes, Failure):
            if gate.on_error == "Allow":
                continue
            return Refusal(f"rule {gate.name}: {passes.message}", gate.resolvable)
        if not passes:
            return Refusal(_words(gate, explain, pod, cycle), gate.resolvable)
    return None


def _words(gate: GateRule, explain: BoundUnit | None, pod: PodInfo, cycle: Activation) -> str:
    if explain is None:
        return gate.message
    words = explain.evaluate(0, pod, cycle, 0)
    if isinstance(words, Failure):
        return gate.message or f"rule {gate.name}: {words.message}"
    return str(words)


class BoundPodRules:
    """The rules of ``preFilter`` over the node table, or over a view of it."""

    def __init__(self, sections: Sections, runtime: Runtime) -> None:
        self.runtime = Runtime(runtime.table, runtime.pods)
        whole = sections.pre_filter_together
        self._together = None if whole is None else BoundUnit(whole, self.runtime)
        self._roots = [(root.value, root.error) for root in (() if whole is None else whole.roots)]
        self._gates = [
            (
                rule,
                BoundUnit(rule.unit, self.runtime),
                None if rule.explain is None else BoundUnit(rule.explain, self.runtime),
            )
            for rule in sections.pre_filter
        ]

    def refusal(
        self, pod: PodInfo, cycle: Activation, nominated: Sequence[OtherPod]
    ) -> Refusal | None:
        """Return why a rule rejects the pod, or None if none does.

        ``nominated``: pods that it gives way to; the rules hold with them and without them.
        """
        if nominated:
            self.runtime.others = tuple(nominated)
            try:
                refusal = self.refusal(pod, cycle, ())
            finally:
                self.runtime.others = ()
            if refusal is not None:
                return refusal
        # For speed: whether all rules surely hold is one call.
        bound = self._together
        out = None if bound is None else bound.scalar(pod, cycle, 0)
        if bound is not None and out is not None and not isinstance(out, Failure):
            for value, error in self._roots:
                if not out[value] or (error is not None and out[error]):
                    break
            else:
                return None
        return _refusal(self._gates, pod, cycle)


class BoundPolicy:
    """A policy over one cluster's tables. Its results are right for the tables as they are now.

    ``rows`` is an intp array of row numbers, or None for all rows [0, table.n); results for
    dead rows are undefined.
    """

    def __init__(self, sections: Sections, table: NodeTable, pods: PodTable | None = None) -> None:
        self._sections = sections
        self._table = table
        self._pods = pods
        self.runtime = runtime = Runtime(table, pods)
        self.aggregates = {
            given.name: _counted(given, table, sections.inputs) for given in sections.aggregates
        }
        """The aggregates of the policy, by name: they count for as long as this exists."""
        self.quotas = [_quotas(given, table, runtime) for given in sections.quotas]
        """The same of quotas."""

        def bound(unit: Unit | None) -> BoundUnit | None:
            return None if unit is None else BoundUnit(unit, runtime)

        self._match = bound(sections.match)
        self._score_match = bound(sections.score_match)
        self._gates = [
            (gate, BoundUnit(gate.unit, runtime), bound(gate.explain))
            for gate in sections.pre_enqueue
        ]
        self.pre_enqueue = self._matched_refusal if self._match else partial(_refusal, self._gates)
        """Returns why a pod may not enter the queue, or None if it may."""
        self._moments = [
            (BoundUnit(moment.unit, runtime), moment.signs, moment.after)
            for moment in sections.moments
        ]
        self.before = BoundPodRules(sections, runtime)
        self._before_overlay: BoundPodRules | None = None
        self._keys = bound(sections.queue_sort)
        program = sections.sort_program
        self.queue_sort = None if program is None else program.bind(runtime)
        """Returns what `queue_key` returns for pods of no group; None where keys may fail."""
        self._names = bound(sections.node_names)
        self._filter = BoundFilter(sections, table, runtime)
        self._overlay: BoundFilter | None = None
        """The filter over the overlay that was last evaluated."""
        self.aborting = frozenset(
            2 * i + 2 for i, rule in enumerate(sections.rules) if rule.on_error == "Abort"
        )
        """The codes of `filter` that end the attempt, unless the node is out anyway."""
        self.score = (
            None
            if sections.score is None
            else BoundScore(sections.name, sections.score, table, runtime)
        )
        """Raw scores, and what normalisation makes of them."""
        self.preemption = (
            None
            if sections.preemption is None or pods is None
            else BoundPreemption(sections.preemption, table, pods)
        )
        """Which pods may preempt, which pods are victims, and which nodes are preferred."""
        placed = sections.placement
        self.placement = placed if placed is None else BoundPlacement(sections.name, placed, table)
        """Which domain a node belongs to, and how good a domain is for a group."""
        self.evict = None if sections.evict is None else BoundEviction(sections.evict, runtime)
        """Which running pods are evicted from time to time."""
        self.life = BoundLifeCycle(sections.life, table)
        """What follows the choice of a node."""

    def keep_rows(self, like: Callable[[PodInfo], Hashable]) -> None:
        """Keep results by row for pods of which this is equal; no rule may read pods of nodes."""
        self._filter.kept = KeptRows(self._table, like, np.int16)
        score = self._sections.score
        if self.score is not None and score is not None and not score.double:
            self.score.kept = KeptRows(self._table, like, np.int64)

    # Before nodes are looked at.

    def matches(self, pod: PodInfo, cycle: Activation) -> bool:
        """Return whether all matchConditions hold; RuleError if none is false but one fails."""
        return self._all(self._match, pod, cycle)

    def matches_score(self, pod: PodInfo, cycle: Activation) -> bool:
        """Return whether all matchConditions of the score hold; raises as `matches`."""
        return self._all(self._score_match, pod, cycle)

    def plain_match(self, *, score: bool = False) -> tuple[Test, ...] | None:
        """Return the functions that `matches` calls, and `matches_score`; None if one may fail.

        Each returns a tuple, all of which must be true.
        """
        units = [bound for bound in (self._match, self._score_match if score else None) if bound]
        if any(bound.unit.can_fail or bound.unit.program.metered for bound in units):
            return None
        return tuple([bound.functions.scalar for bound in units])

    def _all(self, bound: BoundUnit | None, pod: PodInfo, cycle: Activation) -> bool:
        if bound is None:
            return True
        try:
            out = bound.functions.scalar(pod, cycle, 0)
        except LimitError as error:
            raise RuleError(f"matchConditions: {error}") from None
        if not bound.unit.can_fail:
            return all(out)
        values = [bound.value_of(root, out) for root in bound.unit.roots]
        for i, value in enumerate(values):
            if isinstance(value, Failure) and all(isinstance(v, Failure) or v for v in values):
                raise RuleError(f"matchConditions[{i}]: {value.message}")
        return all(values)

    def _matched_refusal(self, pod: PodInfo, cycle: Activation) -> Refusal | None:
        """Do as `pre_enqueue`; where a matchCondition fails, so does each rule."""
        try:
            if not self.matches(pod, cycle):
                return None
        except RuleError as error:
            strict = (gate for gate, *_ in self._gates if gate.on_error != "Allow")
            texts = (Refusal(f"rule {gate.name}: {error}", gate.resolvable) for gate in strict)
            return next(texts, None)
        return _refusal(self._gates, pod, cycle)

    def next_moment(self, pod: PodInfo, cycle: Activation) -> int:
        """Return when a rule that rejected the pod may change by time, ns since 1970; 0: never."""
        times = []
        for bound, signs, after in self._moments:
            out = bound.scalar(pod, cycle, 0)
            values = [bound.value_of(root, out) for root in bound.unit.roots]
            if not any(isinstance(value, Failure) for value in values):
                due = after + sum(sign * value for sign, value in zip(signs, values, strict=True))
                if due > cycle.now:
                    times.append(due)
        return min(times, default=0)

    def pod_rules(self, nodes: NodeView) -> BoundPodRules:
        """Return the rules of ``preFilter`` over a view of the nodes, or over the node table."""
        if nodes is self._table:
            return self.before
        rules = self._before_overlay
        if rules is None or rules.runtime.table is not nodes:
            rules = BoundPodRules(self._sections, Runtime(nodes, self._pods))
            self._before_overlay = rules
        return rules

    def queue_key(self, queued: QueuedPod, group: GroupCounts = NO_GROUP) -> tuple[Any, ...]:
        """Return the sort keys of a queued pod: less comes first.

        A key that fails is the zero of its type, one that is no number is below all numbers.
        """
        return sort_key(self._keys, self._sections.descending, queued, group)

    def node_names(self, pod: PodInfo, cycle: Activation) -> frozenset[str] | None:
        """Return the only nodes to look at, by name, or None for all. May raise RuleError."""
        if self._names is None:
            return None
        value = self._names.evaluate(0, pod, cycle, 0)
        if isinstance(value, Failure):
            raise RuleError(f"preFilter.nodeNames: {value.message}")
        if isinstance(value, Some):
            value = value.value
        return None if value is None else frozenset(value)

    # Filter.

    def filters(self, nodes: NodeView | None = None) -> BoundFilter:
        """Return the filter rules over a view of the nodes; over the node table without one."""
        if nodes is None or nodes is self._table:
            return self._filter
        known = self._overlay
        if known is None or known.nodes is not nodes:
            known = self._overlay = BoundFilter(self._sections, nodes, Runtime(nodes, self._pods))
        return known


class _NotedInput(Mapping[str, Any]):
    """The objects of an input by key; it notes which are looked up."""

    def __init__(self, identity: str, objects: Mapping[str, Any], lookups: set[Lookup]) -> None:
        self._identity = identity
        self._objects = objects
        self._lookups = lookups

    def __contains__(self, key: object) -> bool:
        self._lookups.add((self._identity, str(key)))
        return key in self._objects

    def __getitem__(self, key: str) -> Any:
        self._lookups.add((self._identity, key))
        return self._objects[key]

    def __iter__(self) -> Iterator[str]:
        self._lookups.add((self._identity, None))
        return iter(self._objects)

    def __len__(self) -> int:
        self._lookups.add((self._identity, None))
        return len(self._objects)


class _Counting(Runtime):
    """The node table for what pods count with; it notes which objects of inputs are looked up."""

    def __init__(self, table: NodeTable) -> None:
        super().__init__(table)
        self.lookups: set[Lookup] = set()

    def input(self, identity: str) -> Mapping[str, Any]:
        """Return the objects of an input by key."""
        return _NotedInput(identity, super().input(identity), self.lookups)

    def input_exceeds(self, identity: str) -> bool:
        """Return whether an input has more objects than a rule may read at once."""
        self.lookups.add((identity, None))
        return super().input_exceeds(identity)

    def input_root(self, identity: str, default: Any) -> Any:
        """Return what a polled answer says beside its items, else ``default``."""
        self.lookups.add((identity, ROOT))
        return super().input_root(identity, default)


def _counted(given: CompiledAggregate, table: NodeTable, inputs: Iterable[Input]) -> Aggregate:
    """Return an aggregate that counts from now on; equal ones of other profiles are the same."""
    known = table.aggregates.get(given.identity)
    if known is not None:
        return known
    runtime = _Counting(table)
    unit, reads = BoundUnit(given.unit, runtime), given.unit.reads
    by_node = frozenset(entry.identity for entry in inputs if "input" in reads.node)
    reads_nodes, first = bool(reads.node), int(given.conditional)
    reads_queue = ("queue",) in reads.pod

    def contribute(pod: PodInfo, row: int) -> Contribution | None:
        if row < 0 and reads_nodes:
            return None
        runtime.lookups.update([(identity, table.names[row]) for identity in by_node])
        cycle = NO_CYCLE
        if reads_queue:
            cycle = Activation(queued=table.aggregates.waiting[pod.uid])
        out = unit.scalar(pod, cycle, max(row, 0))
        values = [unit.value_of(root, out) for root in unit.unit.roots]
        if any(isinstance(value, Failure) for value in values) or (first and not values[0]):
            return None
        keys = tuple(values[first : first + given.keys])
        value = values[-1] if given.valued else 1
        if isinstance(value, float) and not math.isfinite(value):
            return None
        return Contribution(keys if given.keys > 1 else keys[0], value)

    aggregate = Aggregate(
        given.kind,
        frozenset(given.sources),
        contribute,
        by_node=given.by_node,
        reads_nodes=reads_nodes,
        reads_queue=reads_queue,
        reads_namespaces=("namespaceObject",) in reads.pod,
        inputs=reads.objects | by_node,
        roots=reads.inputs,
        since=None if given.since is None else _since(given.since, table),
        half_life=given.half_life,
    )
    if aggregate.inputs or aggregate.roots:
        aggregate.lookups = runtime.lookups
    table.aggregates.add(given.identity, aggregate)
    return aggregate


def _since(given: Unit, table: NodeTable) -> Since:
    """Return since when the pods of a key count."""
    runtime = _Counting(table)
    unit = BoundUnit(given, runtime)

    def moment(key: Hashable) -> tuple[int, frozenset[Lookup]]:
        runtime.lookups.clear()
        value = unit.value_of(unit.unit.roots[0], unit.scalar(None, SimpleNamespace(key=key), 0))
        return NEVER if isinstance(value, Failure) else value, frozenset(runtime.lookups)

    return Since(moment, ("key",) in given.reads.pod)


def _quotas(given: CompiledQuotas, table: NodeTable, runtime: Runtime) -> Quotas:
    """Return quotas that count from now on; equal ones of other profiles are the same."""
    known = table.quotas.get(given.identity)
    if known is not None:
        return known
    pods, reads = BoundUnit(given.pods, runtime), given.pods.reads

    scalar, at = pods.functions.scalar, given.pods.roots[0].value

    def key_of(pod: PodInfo) -> str:
        key = pods.evaluate(0, pod, NO_CYCLE, 0)
        return "" if isinstance(key, Failure) else str(key)

    def surely(pod: PodInfo) -> str:
        # For speed: a rule that cannot fail, such as pod.namespace.
        key: str = scalar(pod, NO_CYCLE, 0)[at]
        return key

    if not (given.pods.can_fail or given.pods.program.metered):
        key_of = surely
    quotas = Quotas(
        key_of,
        [
            QuotaKind(
                kind.input,
                table.input_table(kind.input),
                _grants(kind, runtime),
                kind.publish,
                _shown(kind, runtime),
            )
            for kind in given.kinds
        ],
        table.total_allocatable,
        caps=given.caps,
        shares_cluster=given.shares_cluster,
        reads_namespaces=("namespaceObject",) in reads.pod,
        inputs=reads.objects,
        roots=reads.inputs,
    )
    quotas.tell = table.quota_problem
    aggregates, name = table.aggregates, f"{given.identity}/demand"
    quotas.count = lambda wanted: aggregates.add(name, wanted)
    for (identity, key), why in quotas.problems.items():
        quotas.tell(identity, key, why)
    table.quotas[given.identity] = quotas
    table.aggregates.add(given.identity, quotas.used)
    return quotas


def _grants(kind: CompiledQuotaObjects, runtime: Runtime) -> Callable[[Any], Grant]:
    """Return what reads an object of a quota; what cannot be computed is as if not stated."""
    unit = BoundUnit(kind.unit, runtime)

    def grant(record: Any) -> Grant:
        out, problem = unit.scalar(None, SimpleNamespace(object=record), 0), ""
        said: dict[str, Any] = {}
        for name, root in zip(kind.names, unit.unit.roots, strict=True):
            value = unit.value_of(root, out)
            if isinstance(value, Failure):
                problem = problem or f"{name}: {value.message}"
            elif name == "weight":
                said[name] = weight_in_thousandths(value)
            else:
                said[name] = value
        return Grant(**said, problem=problem)

    return grant


def _shown(kind: CompiledQuotaObjects, runtime: Runtime) -> Callable[[Any], Sequence[Any]]:
    """Return what reads the numbers that an object shows."""
    if kind.shown is None:
        return lambda _record: ()
    unit = BoundUnit(kind.shown, runtime)

    def shown(record: Any) -> Sequence[Any]:
        out = unit.scalar(None, SimpleNamespace(object=record), 0)
        values = [unit.value_of(root, out) for root in unit.unit.roots]
        return [None if isinstance(value, Failure) else value for value in values]

    return shown


def bind(policy: CompiledPolicy, nodes: NodeTable, pods: PodTable | None = None) -> BoundPolicy:
    """Return a policy over a cluster's tables; opens the columns that its rules read.

    Without ``pods`` there is no preemption.
    """
    return BoundPolicy(policy.sections, nodes, pods)
