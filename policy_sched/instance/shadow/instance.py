"""A scheduler that decides the pods of another one, and writes nothing to the cluster.

Theory of operation. Changes from the informers go to the cache, and to a `Shadow`, which compares.
No pod is ever queued, so nothing is executed; the client would reject writes as well: this
instance never leads, and its connection is read-only (`Settings.read_only`). Changes of the time
in which a watch was broken arrive in no order, soon after it is restored, without an end mark. So
they are applied without a comparison, and so are those of the moment after.
"""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from policy_sched.client.kube.cache import Change, ReflectorSettings
from policy_sched.client.kube.rest import Api
from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import ClusterError, PolicySchedError
from policy_sched.instance.app import ClusterInstance, in_event_loop
from policy_sched.instance.observability import ERROR, INFO, Decided, RotatedLog, Write, points_text
from policy_sched.instance.shadow.comparison import PATIENCE, Shadow
from policy_sched.instance.shadow.log import (
    Agreement,
    Comparison,
    NodeFill,
    NodeSeen,
    PodGone,
    PodPlaced,
    ShadowMetrics,
    ShadowRecord,
    Start,
)
from policy_sched.model import Node, PersistentVolumeClaim, Pod, PodInfo
from policy_sched.profiles.reload import PolicyStore
from policy_sched.scheduler import object_changed, pod_gone, pod_seen

CHANGES_PER_STEP: Final = 64
"""Changes that one step applies; each may be a decision."""
CATCHING_UP: Final = 10**9
"""Nanoseconds after a watch is restored in which the missed changes arrive."""


@dataclass(frozen=True, slots=True)
class ShadowOptions:
    """The other scheduler's name, and the file of records ("": none)."""

    of: str
    log: str = ""
    patience: int = PATIENCE


class ShadowInstance(ClusterInstance):
    """A shadow behind ``api``, which must be read-only."""

    rolls_out = False  # what it decides is carried out nowhere

    def __init__(
        self,
        store: PolicyStore,
        api: Api,
        options: ShadowOptions,
        write: Write,
        *,
        seed: int = 0,
        watching: ReflectorSettings | None = None,
    ) -> None:
        if not api.settings.read_only:
            raise ClusterError("a shadow needs a client that only reads")
        profiles = [plan.plan.scheduler_name for plan in store.current.plans]
        if len(profiles) > 1 and options.of not in profiles:
            named = ", ".join(profiles)
            text = f'no profile has schedulerName "{options.of}", and there are several: {named}'
            raise PolicySchedError(f"--shadow: {text}")
        super().__init__(store, api, None, write, seed=seed, watching=watching)
        random = Random(seed)  # noqa: S311 - a seed makes choices repeatable; no secret
        self.shadow = Shadow(self.scheduler, options.of, self._compared, random, options.patience)
        self.compared = 0
        """Decisions that were compared so far."""
        self._compares_from = 0
        self._comparing: Future[None] | None = None
        self._file = None
        if options.log:
            self._file = RotatedLog(options.log, self._start, self._log_trouble)
        self.shadow_metrics = ShadowMetrics()
        self.metrics.add(self.shadow_metrics, self._look_at_shadow)
        self.shadow_metrics.profile(self.shadow.profile[0])

    @property
    def leads(self) -> bool:
        """Return False: nothing may be written."""
        return False

    def _step(self) -> int:
        """Apply changes, and compare; return 0, for no pod is scheduled."""
        if self.scheduler.handle.extenders and in_event_loop():
            self._comparing = self._worker.begin(self._take_in)
        else:
            self._take_in()
        return 0

    def _beforehand(self) -> None:
        super()._beforehand()
        if self._comparing is not None and self._comparing.done():
            compared, self._comparing = self._comparing, None
            self._worker.finish()
            compared.result()

    def _take_in(self) -> None:
        self._heed_gaps()
        self._take_answers()
        self.informers.drain(self._handle, CHANGES_PER_STEP, self._slice())
        informers = self.informers
        read = informers.synced and informers.following and not informers.behind
        if read and not self._ready:
            self._begin()
        self.shadow.overdue()
        if self.stopping and not self._abandoned:
            self._abandon()

    def waiting(self, uid: str) -> tuple[PodInfo, str] | None:
        """Return a pending pod of the other scheduler, and the profile that decides it here."""
        pod = self.shadow.waiting(uid)
        return None if pod is None else (pod, self.shadow.profile[0])

    def next_wakeup(self) -> int | None:
        """Return the time of the next step, the present included; None: none is scheduled."""
        if self.deciding:
            return super().next_wakeup()
        if self.informers.behind:
            return self.now()
        return self._compares_from if self._catches_up else self.shadow.next_time()

    def close(self) -> None:
        """Close the log, and mark the instance as closed."""
        super().close()
        if self._file is not None:
            self._file.close()

    # Changes.

    @property
    def _catches_up(self) -> bool:
        """Whether changes arrive that are not compared."""
        return self._ready and self.informers.following and not self.shadow.watching

    def _begin(self) -> None:
        self._ready = True
        nodes = self.scheduler.cache.nodes.live_count
        profile = self.shadow.profile[0]
        text = "Read the cluster; comparing decisions, writing none"
        self.log.write(INFO, text, nodes=nodes, shadowOf=self.shadow.of, profile=profile)
        if self._file is not None:
            self._file.begin()
        self.shadow.begin()

    def _heed_gaps(self) -> None:
        """Compare while changes arrive in order; after a gap, a moment later."""
        if not self.informers.following:
            self._compares_from = self.now() + CATCHING_UP
            self.shadow.pause()
        elif self._catches_up and self.now() >= self._compares_from:
            self.shadow.begin()

    def _adopt(self, profiles: Collection[str]) -> None:  # noqa: ARG002 - nothing is queued
        """Do nothing: no pod is queued, and later decisions use the new policies."""
        self.shadow_metrics.profile(self.shadow.profile[0])

    def _handle(self, change: Change[Any]) -> None:
        thing = change.object
        if isinstance(thing, Pod):
            info = PodInfo.of(thing)
            if change.new is None:
                self._pod_gone(info)
            else:
                self._pod_seen(info)
            return
        if object_changed(self.scheduler, change.old, change.new):
            self.shadow.changes.note(thing.kind, thing.metadata.name)
        if isinstance(thing, PersistentVolumeClaim) and change.old is None:
            self.shadow.claim_seen(thing)
        if isinstance(thing, Node):
            name, gone = thing.metadata.name, change.new is None
            self._note(NodeSeen(name, None if gone else self._fill(name).allocatable))

    def _pod_seen(self, pod: PodInfo) -> None:
        if pod.node_name and self._ready and self.shadow.waiting(pod.uid):
            missed = self.shadow_metrics.shadow_missed_pods_total
            missed.values[()] += not self.shadow.watching
        compared = self.shadow.pod_seen(pod)
        if not pod.node_name:
            return
        # Recorded first: a new file begins with the nodes as they are before its first record.
        if not compared and self.scheduler.cache.pod(pod.uid) is None:
            self._note(PodPlaced(pod.uid, pod.node_name, pod.requests))
        pod_seen(self.scheduler, pod)

    def _pod_gone(self, pod: PodInfo) -> None:
        bound = self.scheduler.cache.pod(pod.uid)
        if bound is not None:
            self._note(PodGone(pod.uid, bound.node_name, bound.requests))
        self.shadow.pod_gone(pod.uid)
        pod_gone(self.scheduler, pod)

    def _look_at_shadow(self) -> None:
        """Set the gauges."""
        lost = 0 if self._file is None else self._file.lost
        self.shadow_metrics.shadow_pending_pods.values[()] = len(self.shadow)
        self.shadow_metrics.shadow_log_lost_lines.values[()] = lost

    def _compared(self, comparison: Comparison) -> None:
        self.compared += 1
        self.shadow_metrics.compared(comparison)
        if comparison.result is not Agreement.AGREE:
            level = ERROR if comparison.result is Agreement.ERROR else INFO
            facts = {
                "pod": comparison.pod,
                "result": comparison.result.value,
                "theirs": comparison.theirs.node,
                "ours": comparison.ours.node,
                "why": why(comparison),
                **_victims(comparison),
                **({"cause": comparison.cause} if comparison.cause else {}),
                "generation": comparison.generation,
                "contentHash": comparison.content_hash,
            }
            self.log.write(level, "Would have decided differently", **facts)
        ours = comparison.ours.node or ""
        self.log.last.append(
            Decided(self.now(), comparison.pod, ours, why(comparison), comparison.generation)
        )
        self._note(comparison)

    # The log.

    def _note(self, record: ShadowRecord) -> None:
        if self._file is not None and self._ready:
            self._file.write(record)

    def _start(self, continues: bool) -> Start:
        table = self.scheduler.cache.nodes
        nodes = tuple(self._fill(name) for name in sorted(table.row_of))
        profile = self.shadow.profile[0]
        return Start(self.now() / 1e9, self.shadow.of, profile, nodes, continues)

    def _fill(self, name: str) -> NodeFill:
        table = self.scheduler.cache.nodes
        row = table.row_of[name]
        node = table.nodes[row]
        resources = [] if node is None else sorted(node.status.allocatable)
        requested = {r: _amount(table, ("requested", r), row) for r in resources if r != "pods"}
        requested["pods"] = _amount(table, ("podCount",), row)
        return NodeFill(
            name,
            {resource: _amount(table, ("allocatable", resource), row) for resource in resources},
            {resource: amount for resource, amount in requested.items() if amount},
        )

    def _log_trouble(self, what: str) -> None:
        self.log.write(ERROR, "The shadow's log cannot be written; lines are left out", err=what)


def _amount(table: NodeTable, column: tuple[str, ...], row: int) -> int:
    return int(table.lookup(column).values[row])


def _victims(comparison: Comparison) -> dict[str, object]:
    """Return the pods that each side evicts, if any."""
    sides = {"theirVictims": comparison.theirs.victims, "ourVictims": comparison.ours.victims}
    return {name: list(victims) for name, victims in sides.items() if victims}


def why(comparison: Comparison) -> str:
    """Return the reason of a difference in one sentence."""
    ours, theirs = comparison.ours, comparison.theirs
    if comparison.result is Agreement.AGREE:
        return "as the other scheduler decided"
    if comparison.result is Agreement.UNDECIDED:
        return "the other scheduler has not decided"
    if ours.node is None or comparison.result is Agreement.ERROR:
        return ours.message
    if theirs.node is None or comparison.result is Agreement.SCHEDULABLE:
        return f"the other scheduler: {theirs.message}"
    if theirs.rejected_by:
        return f"{theirs.rejected_by} rejects {theirs.node}: {', '.join(theirs.reasons)}"
    if theirs.preempts and ours.preempts:
        if not theirs.victims:
            return f"no eviction on {theirs.node} would make room"
        return f"{', '.join(ours.victims)} on {ours.node} are rather evicted"
    if theirs.score is None or ours.score is None:
        return ours.message or f"{theirs.node} was not among the evaluated nodes"
    return points_text(ours.node, ours.score, theirs.node, theirs.score, comparison.difference)
