"""The result of a run over a cluster: placements, summary, and effect of policies.

Theory of operation of Application. Every pod is evaluated with every policy of its profile, on the
cluster just before the pod's decision; a pod that is not decided by itself (it is gated, or placed
with its group), on the final cluster. Policies of the default profile are left out.

The machine formats contain no times, paths or versions: the same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import NodeTable
from policy_sched.framework import Handle
from policy_sched.language import CompiledPolicy
from policy_sched.language.runtime import Activation, no_allocation
from policy_sched.language.values import RuleError
from policy_sched.model import PodInfo, counted, quantity_text
from policy_sched.plugins.dynamicresources import Allocations
from policy_sched.plugins.rules import BoundScore, bind
from policy_sched.profiles.build import CompiledPlan
from policy_sched.profiles.models import PLUGIN_POINTS
from policy_sched.report import Document, table
from policy_sched.scheduler import Scheduler


class RuleHits(msgspec.Struct, frozen=True):
    """The pods and nodes that one filter rule of a policy rejects, as if it were alone."""

    rule: str
    pods: int
    """Pods for which it rejects a node."""
    nodes: int
    """Nodes that it rejects for one of these pods."""


class AppliedPolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    """The pods and nodes that a policy applied to."""

    policy: str
    profile: str
    matched: int
    """Pods of the profile for which no matchCondition is false."""
    pods: int
    """Pods of the profile."""
    rejected: int | None
    """Nodes that its filter rejects for one of the pods; None without a filter."""
    scored: int | None
    """Nodes to which its score gives more than 0 for one of the pods; None without a score."""
    nodes: int
    failed: int = 0
    """Nodes on which its score fails for one of the pods and counts as 0."""
    error: str = ""
    """The first reason of a failure."""
    unanswered: tuple[str, ...] = ()
    """URLs that its inputs ask and of which there is no answer."""
    rules: tuple[RuleHits, ...] = ()
    """Those of each filter rule, if they are counted one by one."""


class Application:
    """Observes a scheduler's decisions, and counts the pods and nodes that policies apply to.

    ``by_rule``: those of each filter rule, too.
    """

    def __init__(
        self, scheduler: Scheduler, plans: Sequence[CompiledPlan], *, by_rule: bool = False
    ) -> None:
        self._table = scheduler.handle.nodes
        self._policies = [
            _Policy(scheduler.handle, ready.plan.scheduler_name, policy, by_rule=by_rule)
            for ready in plans
            for name, policy in ready.policies.items()
            if name not in PLUGIN_POINTS
        ]
        self._seen: set[str] = set()
        if self._policies:
            scheduler.observers.deciding.append(lambda attempt: self.show(attempt.queued.info))

    def show(self, info: PodInfo) -> None:
        """Count a pod for the policies of its profile."""
        self._seen.add(info.uid)
        for policy in self._policies:
            if policy.profile == info.scheduler_name:
                policy.show(info)

    def report(self, infos: Sequence[PodInfo]) -> tuple[AppliedPolicy, ...]:
        """Return what the policies applied to among these pods."""
        for info in infos:
            if info.uid not in self._seen:
                self.show(info)
        return tuple(policy.applied(infos, self._table) for policy in self._policies)


class _Policy:
    """One policy of one profile, and the pods and nodes it applied to."""

    def __init__(
        self, handle: Handle, profile: str, policy: CompiledPolicy, *, by_rule: bool
    ) -> None:
        self.profile = profile
        self._by_rule = by_rule
        self._rules: dict[str, tuple[int, NDArray[np.bool_]]] = {}
        self._handle, self._policy = handle, policy
        self._bound = bind(policy, handle.nodes, handle.pods)
        self._matched: set[str] = set()
        self._rejected: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._scored: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._failed: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._error = ""

    def show(self, pod: PodInfo) -> None:
        handle, bound = self._handle, self._bound
        counts = handle.groups.counts(pod)
        allocating = handle.shared(Allocations).latest(self.profile)
        cycle = Activation(
            now=handle.now(),
            profile=self.profile,
            pod_group=counts,
            allocation=no_allocation if allocating is None else allocating.would_allocate,
        )
        try:
            if not bound.matches(pod, cycle):
                return
        except RuleError:
            return  # the attempt fails with this error
        self._matched.add(pod.uid)
        if self._policy.sections.filter is not None:
            codes = bound.filters().codes(pod, cycle)
            if codes is not None:
                self._rejected = _either(self._rejected, codes != 0)
            if self._by_rule:
                self._note_rules(pod, cycle)
        try:
            scores = bound.score is not None and bound.matches_score(pod, cycle)
        except RuleError:
            return
        if scores and bound.score is not None:
            self._scored = _either(self._scored, bound.score.raw(pod, cycle) > 0)
            self._note_failures(bound.score, pod, cycle)

    def _note_rules(self, pod: PodInfo, cycle: Activation) -> None:
        nodes = self._handle.nodes
        live = nodes.live.values[: nodes.n]
        for name, codes in self._bound.filters().by_rule(pod, cycle):
            pods, rows = self._rules.setdefault(name, (0, np.zeros(0, np.bool_)))
            own = np.zeros(nodes.n, np.bool_) if codes is None else (codes != 0) & live
            self._rules[name] = pods + bool(own.any()), _either(rows, own)

    def _note_failures(self, score: BoundScore, pod: PodInfo, cycle: Activation) -> None:
        nodes = self._handle.nodes
        failed = np.zeros(nodes.n, np.bool_)
        rows, error = score.failed(pod, cycle, np.flatnonzero(nodes.live.values[: nodes.n]))
        failed[rows] = True
        self._failed = _either(self._failed, failed)
        self._error = self._error or error

    def _unanswered(self, table: NodeTable) -> tuple[str, ...]:
        asked = {
            given.url: table.input_table(given.identity)
            for given in self._policy.sections.inputs
            if given.url
        }
        return tuple(url for url, said in asked.items() if said.root is None and not said.by_key)

    def applied(self, pods: Sequence[PodInfo], table: NodeTable) -> AppliedPolicy:
        policy, live = self._policy, table.live.values[: table.n]
        return AppliedPolicy(
            policy.name,
            self.profile,
            sum(pod.uid in self._matched for pod in pods),
            len(pods),
            _count(self._rejected, live) if policy.sections.filter is not None else None,
            _count(self._scored, live) if policy.sections.score is not None else None,
            table.live_count,
            _count(self._failed, live),
            self._error,
            self._unanswered(table),
            tuple(
                RuleHits(name, pods, _count(rows, live))
                for name, (pods, rows) in self._rules.items()
            ),
        )


def _either(mask: NDArray[np.bool_], fresh: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the union of two masks; newer nodes are further rows."""
    union = fresh.copy()
    union[: mask.size] |= mask[: union.size]
    return union


def _count(rows: NDArray[np.bool_], live: NDArray[np.bool_]) -> int:
    shared = min(rows.size, live.size)
    return int(np.count_nonzero(rows[:shared] & live[:shared]))


NOWHERE: Final = "-"


class PodPlacement(msgspec.Struct, frozen=True):
    """The decision for one pod: its node, or why it has none."""

    pod: str
    node: str | None
    message: str
    feasible: int
    """Nodes that passed every filter."""
    score: int | None
    """Total of the chosen node, None if nothing was scored."""
    cpu: str
    memory: str
    reasons: tuple[str, ...]
    """Reasons in kube-scheduler's words, each once, that of most nodes first."""


class PreemptionRecord(msgspec.Struct, frozen=True):
    """A preemption: the pod, its nominated node, and the victims."""

    pod: str
    node: str
    victims: tuple[str, ...]


class Allocation(msgspec.Struct, frozen=True):
    """One resource over all nodes, in the scheduler's units (milli for cpu)."""

    resource: str
    requested: int
    allocatable: int

    @property
    def percent(self) -> float:
        """Requested share of the allocatable amount, in per cent; 0 if nothing is allocatable."""
        return 100.0 * self.requested / self.allocatable if self.allocatable else 0.0

    @property
    def amounts(self) -> tuple[str, str]:
        """The requested and the allocatable amount as text."""
        name = self.resource
        return quantity_text(name, self.requested), quantity_text(name, self.allocatable)


class NodeUsage(msgspec.Struct, frozen=True):
    """A node, its pods, and by resource what is requested and allocatable, in milli for cpu."""

    node: str
    pods: int
    amounts: Mapping[str, tuple[int, int]]

    def share(self, resource: str) -> float | None:
        """Return the requested share of a resource, None if the node has none of it."""
        requested, allocatable = self.amounts.get(resource, (0, 0))
        return requested / allocatable if allocatable else None


class OneShotRun(msgspec.Struct, frozen=True):
    """A finished run.

    ``seconds`` covers the decisions; everything else is deterministic.

    ``unschedulable_by`` counts pods by reason; a pod that was rejected for several reasons counts
    for each of them.
    """

    nodes: int
    placements: tuple[PodPlacement, ...]
    unschedulable_by: Mapping[str, int]
    preemptions: tuple[PreemptionRecord, ...]
    allocation: tuple[Allocation, ...]
    seconds: float
    policies: tuple[AppliedPolicy, ...] = ()
    """What each policy applied to."""
    skipped_extenders: Mapping[str, tuple[int, str]] = msgspec.field(default_factory=dict)
    """The number of failures of ignorable extenders, by name, and the last error of each."""

    @property
    def placed(self) -> int:
        """Pods that have a node."""
        return sum(placement.node is not None for placement in self.placements)

    def text_lines(self, *, wide: bool = False) -> Iterator[str]:
        """Yield the table of placements and the summary."""
        yield from self.table_lines(wide=wide)
        yield ""
        yield from self.summary_lines()

    def table_lines(self, *, wide: bool) -> Iterator[str]:
        """Yield the table of placements, one line per pending pod in input order."""
        rows = [
            ("POD", "NODE", "FEASIBLE", "SCORE", "CPU", "MEMORY", "MESSAGE"),
            *(
                (
                    p.pod,
                    p.node or NOWHERE,
                    str(p.feasible),
                    _text(p.score),
                    p.cpu,
                    p.memory,
                    p.message,
                )
                for p in self.placements
            ),
        ]
        yield from table(rows if wide else [(*row[:2], row[-1]) for row in rows])

    def summary_lines(self) -> Iterator[str]:
        """Yield the summary as text."""
        yield self.placed_text()
        if self.unschedulable_by:
            yield ""
            yield "Unschedulable pods by reason:"
            width = len(str(max(self.unschedulable_by.values())))
            for reason, count in by_count(self.unschedulable_by):
                yield f"  {count:>{width}}  {reason}"
        if self.preemptions:
            yield ""
            yield "Preemption:"
            for record in self.preemptions:
                victims = ", ".join(record.victims)
                yield f"  {record.pod} is nominated to {record.node}; victims: {victims}"
        if self.policies:
            yield ""
            yield from policy_lines(self.policies)
        if self.skipped_extenders:
            yield ""
            yield "Extenders that failed and were ignored:"
            for name, (count, error) in self.skipped_extenders.items():
                yield f"  {name}: {counted(count, 'failure')}, the last: {error}"
        if self.allocation:
            yield ""
            yield "Allocation:"
            amounts = [amount.amounts for amount in self.allocation]
            first, second = (max(map(len, column)) for column in zip(*amounts, strict=True))
            rows = [
                ("", a.resource, f"{used:>{first}} of {given:>{second}}", f"{a.percent:.1f} %")
                for a, (used, given) in zip(self.allocation, amounts, strict=True)
            ]
            yield from table(rows, (3,), gap="  ")

    def placed_text(self) -> str:
        """Return how many pods have a node."""
        pods = counted(len(self.placements), "pod")
        return f"{self.placed:,} of {pods} placed on {counted(self.nodes, 'node')}"

    def document(self) -> Document:
        """Return placements and summary as plain data; amounts are in the scheduler's units."""
        return {
            "placements": list(self.records()),
            "summary": {
                "nodes": self.nodes,
                "pods": len(self.placements),
                "placed": self.placed,
                "unschedulable": len(self.placements) - self.placed,
                "unschedulableByReason": dict(by_count(self.unschedulable_by)),
                "policies": policy_document(self.policies),
                "preemptions": msgspec.to_builtins(self.preemptions),
                "allocation": {
                    a.resource: {
                        "requested": a.amounts[0],
                        "allocatable": a.amounts[1],
                        "percent": round(a.percent, 2),
                    }
                    for a in self.allocation
                },
                "skippedExtenders": {
                    name: {"failures": count, "error": error}
                    for name, (count, error) in self.skipped_extenders.items()
                },
            },
        }

    def records(self) -> Iterator[Document]:
        """Yield pod, node or null, and message of each pending pod."""
        for p in self.placements:
            yield {"pod": p.pod, "node": p.node, "message": p.message}

    def speed_line(self) -> str:
        """Return the number of decisions per second."""
        total = len(self.placements)
        rate = f"{total / self.seconds:,.0f}" if self.seconds > 0 else "-"
        return f"{counted(total, 'decision')} in {self.seconds:.2f} s ({rate} decisions/s)"


def policy_lines(policies: Sequence[AppliedPolicy], title: str = "Policies:") -> Iterator[str]:
    """Yield the number of pods and nodes that each policy applied to."""
    yield title
    several = len({policy.profile for policy in policies}) > 1
    rows = [
        (
            "",
            f"{policy.policy} in profile {policy.profile}" if several else policy.policy,
            applied_text(policy),
        )
        for policy in policies
    ]
    yield from table(rows, gap="  ")


def applied_text(applied: AppliedPolicy) -> str:
    """Return the number of pods and nodes that a policy applied to, as text."""
    parts = [f"matched {applied.matched:,} of {counted(applied.pods, 'pod')}"]
    nodes = counted(applied.nodes, "node")
    if applied.rejected is not None:
        parts.append(f"rejected {applied.rejected:,} of {nodes}")
    if applied.scored is not None:
        parts.append(f"scored {applied.scored:,} of {nodes} above 0")
    if applied.failed:
        parts.append(f"failed on {applied.failed:,}, which score 0: {applied.error}")
    return ", ".join(parts)


def policy_document(policies: Sequence[AppliedPolicy]) -> list[dict[str, object]]:
    """Return the number of pods and nodes that each policy applied to, as plain data."""
    return [msgspec.to_builtins(policy) for policy in policies]


def by_count(counts: Mapping[str, int]) -> Sequence[tuple[str, int]]:
    """Return names with their counts, the highest first."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _text(value: int | None) -> str:
    return NOWHERE if value is None else str(value)
