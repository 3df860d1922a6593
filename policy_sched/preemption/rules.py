"""Preemption rules of a policy: eligible preemptors, possible victims, their order, and node order.

A policy's ``preemption`` section says it; kube-scheduler's choices are the section of the shipped
policy DefaultPreemption, which also says what another policy leaves open.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from policy_sched.cluster import Keys
from policy_sched.cluster.tables import PodRows, PodTable
from policy_sched.framework import Scope, Signature
from policy_sched.framework.evaluate import key_getter
from policy_sched.model import GroupCounts, PodInfo
from policy_sched.preemption.policy_section import BoundPreemption, CandidateNodes, Taken

Rows: TypeAlias = NDArray[np.intp]


class Candidates(msgspec.Struct, frozen=True):
    """Nodes on which the pod fits once the victims are gone.

    ``rows``: rows of the node table, shape (m,). ``victims``: shape (depth, m). ``violations``: how
    many of a node's victims break a disruption budget, int64, shape (m,). ``in_order``: the most
    important victim comes first; an extender may name them in any order, and those of any node.
    """

    rows: Rows
    victims: PodRows
    violations: NDArray[np.int64]
    in_order: bool = False

    def at(self, places: Rows) -> Candidates:
        """Return the candidates at some places."""
        return replace(
            self,
            rows=self.rows[places],
            victims=self.victims.at(places),
            violations=self.violations[places],
        )

    def victims_at(self, place: int) -> list[int]:
        """Return the victims at one place: rows of the pod table."""
        rows, there = self.victims.rows[:, place], self.victims.there[:, place]
        victims: list[int] = rows[there].tolist()
        return victims


Order: TypeAlias = Callable[[PodInfo | None], Keys]
"""From the pod that evicts to the sort keys of its victims; None where they do not read it."""
NodeKey: TypeAlias = Callable[[PodInfo, CandidateNodes], NDArray[Any]]
"""From the pod that evicts and nodes with their victims to one number each, shape (m,); a smaller
one is better."""


class PreemptionRules(msgspec.Struct, frozen=True):
    """The choices of one policy. Any of them may raise RuleError.

    ``eligible``: whether the pod may evict at all. ``victim``: which of many pods it may evict, as
    bools of their shape; where there is no pod the value does not count. ``takes``, ``unit``,
    ``false_part``, ``units_are_groups``: see `BoundPreemption`. ``victim_order``: the most
    important pod has the smallest key; it is the first to be reprieved; ``order_reads_pod``: it is
    another one for each pod that evicts. ``node_order``: keys of candidates, the deciding one
    first; a later one is computed only for those that share the smallest value so far;
    ``stable_keys`` are the places of those that depend on nothing but the node and its victims.
    ``key``: all that the choice and order of victims read of the pod that evicts; None if they
    read what moves without a change of the node.
    """

    eligible: Callable[[PodInfo], bool]
    victim: Callable[[PodInfo, PodRows], NDArray[np.bool_]]
    takes: Callable[[PodInfo, Sequence[tuple[PodInfo, int]], list[Taken]], bool]
    unit: Callable[[PodInfo, GroupCounts], str] | None
    false_part: Callable[[PodInfo, tuple[PodInfo, int], Sequence[Taken]], str]
    units_are_groups: bool
    victim_order: Order
    order_reads_pod: bool
    node_order: tuple[NodeKey, ...]
    stable_keys: frozenset[int]
    key: Callable[[PodInfo], Hashable] | None


def rules_of(bound: BoundPreemption, pods: PodTable, now: Callable[[], int]) -> PreemptionRules:
    """Return the choices of a policy over one cluster's tables; ``now`` gives the time in ns."""
    started = pods.column(("startTime",))

    def victim_order(pod: PodInfo | None) -> Keys:
        def keys(rows: Rows) -> tuple[NDArray[Any], ...]:
            # Upstream asks the clock for the start of pods that have none, at each comparison, and
            # the later value is the later start: of two such equals the later comer is first.
            arrival = pods.arrival[rows]
            last = np.where(started.values[rows] == 0, -arrival, arrival)
            return (*bound.victim_order(pod, rows), last)

        return keys

    def node_key(key: Callable[[PodInfo, int, CandidateNodes], NDArray[Any]]) -> NodeKey:
        return lambda pod, spots: key(pod, now(), spots)

    return PreemptionRules(
        eligible=lambda pod: bound.eligible(pod, now()),
        victim=lambda pod, others: bound.victim(pod, now(), others),
        takes=lambda pod, unit, taken: bound.takes(pod, now(), unit, taken),
        unit=bound.unit,
        false_part=lambda pod, victim, taken: bound.false_part(pod, now(), victim, taken),
        units_are_groups=bound.units_are_groups,
        victim_order=victim_order,
        order_reads_pod=bool(bound.order_reads.pod),
        node_order=tuple(node_key(key) for key in bound.node_keys),
        stable_keys=bound.stable_keys,
        key=_key(bound),
    )


def _key(bound: BoundPreemption) -> Callable[[PodInfo], Hashable] | None:
    reads = bound.victim_reads | bound.order_reads
    if reads.scope > Scope.NODE or any(path[0] == "namespaceObject" for path in reads.pod):
        return None
    return key_getter(Signature(reads.pod, Scope.NODE, proved=True))
