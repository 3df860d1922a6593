"""Counts the replicas that fit: each is decided and bound as the scheduler does it.

Theory of operation. The cluster is a copy in this process. Replica after replica enters the queue,
is decided by the pipeline of its profile, reserves and is bound, so volumes, devices and the limits
of topology count as in the cluster. The first replica that fits nowhere ends the free room. If its
preemption names victims, they leave, and the replica is decided again: it counts among those that
need evictions, and so do the next ones. A disruption budget loses one with each of its pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from msgspec.structs import replace

from policy_sched.client import VirtualClient
from policy_sched.errors import PolicySchedError, nearest
from policy_sched.fit import report
from policy_sched.fit.unit import FitUnit
from policy_sched.framework import Status
from policy_sched.framework.evaluate import FEASIBLE
from policy_sched.manifests import set_creation_times
from policy_sched.model import ApiObject, PodDisruptionBudget, PodInfo, label_selector
from policy_sched.profiles.build import CompiledPlan
from policy_sched.report import Advance, unshown
from policy_sched.scheduler import (
    Bind,
    Outcome,
    Scheduler,
    free_claims,
    make_claims,
    object_seen,
    pod_gone,
    single_pass,
)
from policy_sched.scheduler.setup import assemble, load_cluster

LIMIT: Final = 50_000
"""Replicas up to which they are counted."""
PREEMPTING: Final = 100
"""Further replicas, with evictions, up to which they are counted."""
ADVANCE: Final = 256
"""Replicas between two reports of progress."""


@dataclass(frozen=True, slots=True)
class FitCluster:
    """A copy of a cluster to count in, with its scheduler."""

    scheduler: Scheduler
    client: VirtualClient

    @classmethod
    def of(
        cls,
        plans: Sequence[CompiledPlan],
        objects: Iterable[ApiObject],
        *,
        seed: int = 0,
        now: Callable[[], int] | None = None,
    ) -> FitCluster:
        """Return a cluster of these objects.

        Pending pods wait; the room of those that are nominated is theirs.
        """
        given = list(objects)
        client = VirtualClient()
        scheduler = assemble(plans, seed=seed, objects=given, client=client, now=now)
        client.objects = scheduler.handle.objects
        for pod in load_cluster(scheduler.cache, given):
            if pod.status.nominated_node_name:
                info = PodInfo.of(pod)
                scheduler.handle.nominator.nominate(info, info.nominated_node_name)
        return cls(scheduler, client)

    def close(self) -> None:
        """Close the connections to extenders."""
        for extender in self.scheduler.handle.extenders:
            extender.close()


def fit(
    cluster: FitCluster,
    unit: FitUnit,
    *,
    limit: int = LIMIT,
    preempting: int = PREEMPTING,
    label: str = "",
    advance: Advance = unshown,
) -> report.Fit:
    """Count the replicas of a unit that fit; the cluster is used up.

    ``limit`` and ``preempting`` bound the replicas in free room and those with evictions.
    ``label``: a label of nodes by whose values the result is broken down. ``advance`` is called
    with the number of further replicas. Raises PolicySchedError if no profile decides the pods, or
    no node has the label.
    """
    _check_label(cluster.scheduler, label)
    count = _Count(cluster, unit, advance)
    count.run(limit, preempting)
    return count.result(label)


def _check_label(scheduler: Scheduler, label: str) -> None:
    nodes = [node for node in scheduler.cache.nodes.nodes if node is not None]
    label_names = {key for node in nodes for key in node.metadata.labels} if label else set[str]()
    if label_names and label not in label_names:
        close = nearest(label, label_names)
        hint = f"; did you mean {close}?" if close else ""
        raise PolicySchedError(f'no node has the label "{label}"{hint}')


class _Count:
    """A count in progress."""

    def __init__(self, cluster: FitCluster, unit: FitUnit, advance: Advance) -> None:
        self._scheduler, self._client = cluster.scheduler, cluster.client
        self._table = cluster.scheduler.cache.nodes
        self._unit, self._advance = unit, advance
        self._open = np.zeros(self._table.n, np.bool_)
        self._first: Mapping[int, Status] = {}
        self._last: Outcome | None = None
        self._free, self._limited, self._free_by_node = 0, False, Counter[str]()
        self._preempting, self._preempting_limited = 0, False
        self._preempting_by_node = Counter[str]()
        self._victims: list[report.Victim] = []
        self._message = self._last_message = ""
        self._exhausted: Mapping[int, Status] = {}

    def run(self, limit: int, preempting: int) -> None:
        """Count up to the bounds."""
        self._check_profiles()
        for obj in self._unit.shared:
            object_seen(self._scheduler, None, obj)
        while self._free < limit:
            infos, failure = self._add(self._free)
            if failure is not None:
                self._message = self._last_message = failure
                self._exhausted = self._statuses(self._last)
                self._preempt(infos, preempting)
                return
            self._free += 1
            self._free_by_node.update(self._client.bindings[info.uid] for info in infos)
            if self._free % ADVANCE == 0:
                self._advance(ADVANCE)
        self._limited = True

    def _check_profiles(self) -> None:
        profiles = self._scheduler.profiles
        for pod in self._unit.pods:
            name = PodInfo.of(pod).scheduler_name
            if name not in profiles:
                have = ", ".join(sorted(profiles))
                text = f'no profile has schedulerName "{name}"; there is {have}'
                raise PolicySchedError(f"{self._unit.name}: {text}")

    def _preempt(self, infos: Sequence[PodInfo], most: int) -> None:
        """Count replicas with evictions; ``infos`` is the first one that did not fit."""
        failure: str | None = self._message
        while self._client.leaving:
            if self._preempting >= most:
                self._preempting_limited = True
                return
            victims: list[report.Victim] = []
            while failure is not None and self._client.leaving:
                gone = self._evict()
                if not gone:
                    break
                victims += gone
                self._scheduler.queue.activate([info.uid for info in self._unbound(infos)])
                failure = self._decide(infos)
            if failure is None:
                self._preempting += 1
                self._victims += victims
                bindings = self._client.bindings
                self._preempting_by_node.update(bindings[info.uid] for info in infos)
                infos, failure = self._add(self._free + self._preempting)
                while failure is None:  # the last evictions made room for more than one
                    self._preempting += 1
                    self._preempting_by_node.update(bindings[info.uid] for info in infos)
                    if self._preempting >= most:
                        self._preempting_limited = True
                        return
                    infos, failure = self._add(self._free + self._preempting)
            self._last_message = failure or ""

    # One replica.

    def _add(self, index: int) -> tuple[list[PodInfo], str | None]:
        """Add a copy of the unit and decide it; return its pods, and why it does not fit."""
        scheduler = self._scheduler
        objects, copies = self._unit.copy(index + 1)
        set_creation_times([*objects, *copies], scheduler.handle.now())
        for obj in objects:
            object_seen(scheduler, None, obj)
        infos = [PodInfo.of(make_claims(scheduler, pod)) for pod in copies]
        kept = ""
        for info in infos:
            gated = scheduler.add_pod(info)
            kept = "" if gated is None else gated.message
        return infos, self._decide(infos, kept)

    def _decide(self, infos: Sequence[PodInfo], kept: str = "") -> str | None:
        """Decide the pods that are ready, once each; return why not all are bound, if so.

        ``kept``: why a pod does not enter the queue.
        """
        scheduler, self._last = self._scheduler, None
        for outcome in single_pass(scheduler):
            if not self._free and isinstance(outcome.decision, Bind):
                self._note_open(outcome.decision)
            if outcome.message and not self._statuses(self._last):
                self._last = outcome
        scheduler.run_due()
        if not self._unbound(infos):
            return None
        if self._last is not None:
            return self._last.message
        for waiting in scheduler.handle.waiting_pods:
            by = ", ".join(waiting.pending_plugins)
            return ": ".join((f"the pods wait for {by}", *waiting.reasons))
        held = next(filter(None, (scheduler.queue.why_held(info.uid) for info in infos)), "")
        return kept or held or "the pod does not enter the queue"

    def _unbound(self, infos: Iterable[PodInfo]) -> list[PodInfo]:
        return [info for info in infos if info.uid not in self._client.bindings]

    def _note_open(self, decision: Bind) -> None:
        """Note the nodes that a pod of the first replica could go to."""
        filtering = decision.evaluation.filtering
        if not self._first:
            self._first = dict(filtering.statuses())
        self._open[: filtering.first.size] |= filtering.first[: self._open.size] == FEASIBLE

    # Evictions.

    def _evict(self) -> list[report.Victim]:
        """Remove the pods that preemption chose."""
        victims = []
        for deletion in self._client.leaving:
            info = self._scheduler.cache.pod(deletion.uid)
            if info is None:
                continue
            owner = f"{info.namespace}/{info.owner_kind}/{info.owner_name}"
            victims.append(
                report.Victim(
                    info.key,
                    self._scheduler.cache.node_of(info.uid),
                    info.priority,
                    owner if info.owner_kind else "",
                    self._spend_budgets(info),
                )
            )
            pod_gone(self._scheduler, info)
            free_claims(self._scheduler, info)
        self._client.leaving.clear()
        return victims

    def _spend_budgets(self, pod: PodInfo) -> bool:
        """Take one disruption from each budget of a pod; return whether one had none left."""
        over = False
        for budget in self._scheduler.handle.objects.of(PodDisruptionBudget):
            if (budget.metadata.namespace or "default") != pod.namespace:
                continue
            if not _selects(budget, pod):
                continue
            allowed = budget.status.disruptions_allowed
            over |= allowed <= 0
            status = replace(budget.status, disruptions_allowed=max(0, allowed - 1))
            object_seen(self._scheduler, budget, replace(budget, status=status))
        return over

    # The result.

    def _statuses(self, outcome: Outcome | None) -> Mapping[int, Status]:
        """Return why each node rejected a pod, by row."""
        decision = None if outcome is None else outcome.decision
        if decision is None or isinstance(decision, Bind) or decision.diagnosis is None:
            return {}
        return dict(decision.diagnosis.statuses)

    def result(self, label: str) -> report.Fit:
        """Return what was counted."""
        table, names = self._table, {*self._free_by_node, *self._preempting_by_node}
        for name in self._free_by_node:
            self._open[table.row_of[name]] = True
        rows = sorted(table.row_of.values())
        opened = [row for row in rows if self._open[row]]
        closed = [row for row in rows if not self._open[row]]
        by_node = [
            report.NodeFit(name, self._free_by_node[name], self._preempting_by_node[name])
            for name in sorted(names)
        ]
        return report.Fit(
            unit=self._unit.name,
            pods=len(self._unit.pods),
            nodes=len(rows),
            open=len(opened),
            replicas=self._free,
            limited=self._limited,
            preempting=self._preempting,
            preempting_limited=self._preempting_limited,
            by_node=tuple(sorted(by_node, key=lambda fit: (-fit.pods, -fit.preempting, fit.node))),
            excluded=_tally(self._first or self._exhausted, closed),
            exhausted=_tally(self._exhausted, opened),
            message=self._message,
            last_message=self._last_message,
            evicted=len(self._victims),
            over_budget=sum(victim.over_budget for victim in self._victims),
            victims=tuple(self._victims),
            label=label,
            by_label=tuple(self._by_label(label, rows)) if label else (),
        )

    def _by_label(self, label: str, rows: Sequence[int]) -> list[report.LabelFit]:
        table = self._table
        groups: dict[str | None, list[int]] = {}
        for row in rows:
            node = table.nodes[row]
            value = None if node is None else node.metadata.labels.get(label)
            groups.setdefault(value, []).append(row)
        fits = []
        for value, members in groups.items():
            opened = [row for row in members if self._open[row]]
            fits.append(
                report.LabelFit(
                    value,
                    len(members),
                    len(opened),
                    sum(self._free_by_node[table.names[row]] for row in members),
                    sum(self._preempting_by_node[table.names[row]] for row in members),
                    _tally(self._exhausted, opened),
                )
            )
        return sorted(fits, key=lambda fit: (fit.value is None, fit.value or ""))


def _tally(statuses: Mapping[int, Status], rows: Iterable[int]) -> dict[str, int]:
    """Return how many of some rows have each reason, the most frequent first."""
    counts = Counter(reason for row in rows if row in statuses for reason in statuses[row].reasons)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _selects(budget: PodDisruptionBudget, pod: PodInfo) -> bool:
    """Return whether a budget selects a pod; an empty or broken selector selects none."""
    try:
        selector = label_selector(budget.spec.selector)
    except ValueError:
        return False
    return bool(selector.requirements) and selector.matches(pod.labels)


def objects_of(scheduler: Scheduler) -> list[ApiObject]:
    """Return all objects as the scheduler counts them; of pending pods, the nominated ones.

    A pod that is assumed on a node is on it. The objects are shared, and not to be changed.
    """
    cache, nominator = scheduler.cache, scheduler.handle.nominator
    nodes = [node for node in cache.nodes.nodes if node is not None]
    objects: list[ApiObject] = [*nodes, *cache.nodes.namespaces.values()]
    objects += scheduler.handle.objects.every()
    for uid in cache.held():
        info = cache.pod(uid)
        if info is not None:
            objects.append(_on(info, cache.node_of(uid)))
    for node, pods in nominator.nominated():
        for info in pods:
            pod = info.pod
            status = replace(pod.status, nominated_node_name=node)
            objects.append(replace(pod, status=status))
    return objects


def _on(info: PodInfo, node: str) -> ApiObject:
    pod = info.pod
    if pod.spec.node_name == node:
        return pod
    return replace(pod, spec=replace(pod.spec, node_name=node))
