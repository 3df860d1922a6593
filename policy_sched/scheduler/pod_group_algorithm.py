"""The default algorithm for a pod group: its pods one after the other, on one set of nodes.

Theory of operation. The pods are decided in order. A pod that finds a node, or is nominated to one
by preemption, is assumed there and its Reserve and Permit plugins run, so that the next pod sees
it. The group fits if a Permit plugin allows one of them: that is where a gang counts how many it
has. In the end everything is undone in reverse order: the result is a value, and nothing was
evicted or patched.

A pod is assumed in the cache, so that the next one sees it, and taken back in the end. One thing
differs from a pod that is really assumed. kube-scheduler's snapshot lists the nodes whose pods have
affinity terms, and does not add to these lists while a group is decided. So where no other pod of a
node has required anti-affinity, that of the group's pods there is not respected; and where none has
any affinity, their terms do not score, except for pods that have preferred terms themselves. These
terms are taken out of the counts meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from random import Random
from typing import Final, Self, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched import framework
from policy_sched.cluster import PodStateError
from policy_sched.errors import PluginError
from policy_sched.framework.evaluate import Domain, Evaluation
from policy_sched.model import PodInfo
from policy_sched.scheduler import scheduling_cycle
from policy_sched.scheduler.attempt import Attempt, Bind, Decision, Preempt, Reject
from policy_sched.scheduler.binding_cycle import undo


class Held(msgspec.Struct):
    """A pod that is assumed on a node for now; ``nominated``: where it was nominated before.

    ``unlisted`` and ``unscored``: its terms do not count as required anti-affinity, and for scores.
    """

    attempt: Attempt
    node: str
    nominated: str
    unlisted: bool = False
    unscored: bool = False

    @property
    def pod(self) -> PodInfo:
        """The pod."""
        return self.attempt.queued.info


class AssumedMembers:
    """A context in which pods of a group are assumed; all are taken back at its end.

    ``absent``: pods that were taken off their nodes for the trial.
    """

    def __init__(self, handle: framework.Handle, absent: Iterable[PodInfo] = ()) -> None:
        self.held: list[Held] = []
        self._uids: set[str] = set()
        self._handle = handle
        self._absent = tuple(pod for pod in absent if pod.has_pod_affinity)
        self._scoring = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self.held:
            self.take_back(self.held[-1])

    def look(self, pod: PodInfo) -> None:
        """Prepare the counts for the evaluation of a pod."""
        own = pod.has_pod_affinity and bool(pod.affinity_terms.preferred)
        if own is not self._scoring:
            for held in self.held:
                if held.unscored:
                    self._count_scored(held, 1 if own else -1)
            self._scoring = own

    def assume(self, attempt: Attempt, node: str) -> Held:
        """Assume a pod on a node. Raises PodStateError if it is assumed already."""
        pod, handle = attempt.queued.info, self._handle
        nominated = handle.nominator.node_of(pod.uid)
        handle.cache.assume(pod, node)
        handle.nominator.clear(pod.uid)  # it counts on its node now
        held = Held(attempt, node, nominated)
        self.held.append(held)
        self._uids.add(pod.uid)
        if pod.has_pod_affinity:
            others = self._others(node)
            held.unlisted = not any(other.affinity_terms.anti_affinity for other in others)
            held.unscored = not others
            self._count_unlisted(held, -1)
            if not self._scoring:
                self._count_scored(held, -1)
        return held

    def take_back(self, held: Held) -> None:
        """Undo a pod, and what its Reserve plugins did."""
        assert held is self.held[-1], "the last one is taken back first"
        self.held.pop()
        self._uids.discard(held.pod.uid)
        self._count_unlisted(held, 1)
        if not self._scoring:
            self._count_scored(held, 1)
        undo(held.attempt, held.node, self._handle)
        if held.nominated:
            self._handle.nominator.nominate(held.pod, held.nominated)

    def _others(self, node: str) -> list[PodInfo]:
        """Return the pods with affinity terms that were on a node before."""
        there = self._handle.nodes.pods_on(self._handle.nodes.row_of[node]).values()
        pods = [pod for pod in there if pod.has_pod_affinity and pod.uid not in self._uids]
        return pods + [pod for pod in self._absent if pod.node_name == node]

    def _count_unlisted(self, held: Held, sign: int) -> None:
        if held.unlisted:
            row, carried = self._handle.nodes.row_of[held.node], self._handle.cache.counts.carried
            for term in held.pod.affinity_terms.anti_affinity:
                carried.anti_affinity.add(term, row, sign)

    def _count_scored(self, held: Held, sign: int) -> None:
        if held.unscored:
            row, carried = self._handle.nodes.row_of[held.node], self._handle.cache.counts.carried
            terms = held.pod.affinity_terms
            for term in terms.affinity:
                carried.affinity.add(term, row, sign)
            for weight, term in terms.preferred:
                carried.preferred.add(term, row, sign * weight)


#: Upstream's words for a group of which too few pods find a node.
UNSCHEDULABLE: Final = "pod group is unschedulable"
#: For a group that fits when the victims of its pods are gone.
WAITING: Final = f"{UNSCHEDULABLE}, pod group is waiting for preemption to complete"
#: What the framework adds to the reasons of plugins that let a pod wait.
ASKED_TO_WAIT: Final = "one or more plugins asked to wait and no plugin rejected pod"

NONE_FITS: Final = framework.Status(framework.Code.UNSCHEDULABLE, (UNSCHEDULABLE,))
FITS_LATER: Final = framework.Status(framework.Code.UNSCHEDULABLE, (WAITING,))


class Member(msgspec.Struct, frozen=True):
    """What was decided about one pod of a group.

    ``permit``: the result of the Permit plugins, Success or Wait, if the pod got so far.
    """

    attempt: Attempt
    decision: Decision
    permit: framework.Status | None = None

    @property
    def node(self) -> str:
        """The node that the pod was assumed on, empty if on none."""
        return "" if isinstance(self.decision, Reject) else self.decision.node


class Nodes(msgspec.Struct, frozen=True):
    """The nodes that a group is tried on; ``domain`` is None for all, ``rows`` are ascending."""

    name: str
    rows: NDArray[np.intp]
    domain: Domain | None = None


class GroupTrial(msgspec.Struct, frozen=True):
    """How the pods of a group are tried.

    ``rng`` breaks ties among nodes; without it the first by name is taken. ``post_filter``:
    whether PostFilter plugins run, and ``no_preemption`` why they may not evict pods for single
    pods. ``absent``: pods that are taken off their nodes meanwhile. ``watched``: the UIDs of pods
    of which everything is kept that was found out about nodes.
    """

    handle: framework.Handle
    rng: Random | None
    post_filter: bool = True
    no_preemption: str = ""
    watched: Collection[str] = ()
    absent: Collection[PodInfo] = ()


class GroupResult(msgspec.Struct, frozen=True):
    """What was decided about the pods of a group on some nodes.

    ``members`` ends with the pod that met an error, if one did. ``waiting``: the group fits when
    victims are gone; ``status`` is Unschedulable then, too. ``scores``: what each PlacementScore
    plugin adds; empty where ``unrated`` says why there are none.
    """

    name: str
    nodes: int
    members: tuple[Member, ...]
    status: framework.Status
    waiting: bool = False
    placed: int = 0
    scores: Mapping[str, int] = msgspec.field(default_factory=dict)
    unrated: str = ""

    @property
    def feasible(self) -> bool:
        """Whether the group fits there, now or when victims are gone."""
        return self.status.ok or self.waiting

    @property
    def total(self) -> int:
        """The sum of its scores."""
        return sum(self.scores.values())


Rejections: TypeAlias = dict[tuple[int, int], tuple[Evaluation, Reject]]
"""By identity of an evaluation and version of the cluster, the evaluation and its rejection."""


def schedule_members(
    attempts: Sequence[Attempt], nodes: Nodes, trial: GroupTrial, assumed: AssumedMembers
) -> GroupResult:
    """Decide the pods of a group; those that found a node are assumed there."""
    members: list[Member] = []
    rejections: Rejections = {}
    summary: Evaluation | None = None
    status, preempting = NONE_FITS, False
    for attempt in attempts:
        assumed.look(attempt.queued.info)
        decision = _decide(attempt, nodes, trial, rejections, summary)
        if isinstance(decision, Bind):
            summary = decision.evaluation
        member = _hold(attempt, decision, assumed)
        members.append(member)
        decision = member.decision
        if isinstance(decision, Reject):
            if decision.status.code is framework.Code.ERROR:
                text = f"failed to schedule other pod from a pod group: {decision.message}"
                status = framework.Status(framework.Code.ERROR, (text,))
                break
            continue
        preempting = preempting or isinstance(decision, Preempt)
        if member.permit is not None and member.permit.ok:
            status = FITS_LATER if preempting else framework.SUCCESS
    waiting = status is FITS_LATER
    return GroupResult(
        nodes.name, nodes.rows.size, tuple(members), status, waiting, len(assumed.held)
    )


def _decide(
    attempt: Attempt,
    nodes: Nodes,
    trial: GroupTrial,
    rejections: Rejections,
    earlier: Evaluation | None,
) -> Decision:
    """Return to which of the nodes a pod goes, what makes room there, or why to none.

    Pods that share an evaluation share its rejection, as long as nothing is assumed in between.
    ``earlier``: the summary of the pod that had a node last.
    """
    pod, profile, table = attempt.queued.info, attempt.profile, trial.handle.nodes
    if table.live_count == 0:
        return Reject(
            framework.Status(framework.Code.UNSCHEDULABLE, (framework.NO_NODES,)),
            framework.NO_NODES,
            framework.Diagnosis(0),
        )
    try:
        evaluation = profile.evaluator.evaluate(pod, nodes.domain)
        # Pods that are alike share the evaluation; what plugins write belongs to this pod alone.
        attempt.state = evaluation.state.clone()
        attempt.state.write(framework.PodGroupCycle(trial.no_preemption))
        best = evaluation.best()
        if best.size:
            row = (
                scheduling_cycle.select_host(evaluation, trial.rng, pod)
                if trial.rng
                else _first(best, table.names)
            )
            assert row is not None, "a node is feasible"
            if pod.uid not in trial.watched:
                return Bind(table.names[row], row, evaluation.summary(row, earlier))
            evaluation = evaluation.snapshot()
            evaluation.filtering.statuses()  # computed now: the cluster may differ later
            return Bind(table.names[row], row, evaluation)
        if not trial.post_filter:
            key = id(evaluation), table.journal.version
            if key not in rejections:
                rejection = scheduling_cycle.rejected(
                    scheduling_cycle.diagnosed(evaluation, nodes.rows.size), nominated=False
                )
                rejections[key] = evaluation, rejection
            return rejections[key][1]
        return scheduling_cycle.no_node_fits(attempt, evaluation, nodes.rows.size)
    except PluginError as error:
        return scheduling_cycle.broken(str(error))


def _first(best: NDArray[np.intp], names: Sequence[str]) -> int:
    """Return that one of some rows whose name comes first."""
    return best.item(0) if best.size == 1 else min(best.tolist(), key=names.__getitem__)


def _hold(attempt: Attempt, decision: Decision, assumed: AssumedMembers) -> Member:
    """Assume the pod on its node, and run Reserve and Permit plugins.

    A pod that one of them rejects is taken back.
    """
    if isinstance(decision, Reject):
        return Member(attempt, decision)
    tried = Attempt(attempt.queued, attempt.profile, attempt.state.clone())
    tried.state.write(framework.DryRunMarker())
    pod, node, runner = tried.queued.info, decision.node, tried.profile.runner
    try:
        held = assumed.assume(tried, node)
    except PodStateError as error:
        return Member(attempt, scheduling_cycle.broken(str(error)))
    try:
        status = runner.run("reserve", tried.state, pod, node).status
        if status.ok:
            permitted = runner.run("permit", tried.state, pod, node)
            status = permitted.status
            if status.code is framework.Code.WAIT:
                reasons = [wait.status.reasons for wait in permitted.waits.values()]
                status = framework.Status(
                    framework.Code.WAIT, (*chain.from_iterable(reasons), ASKED_TO_WAIT)
                )
    except PluginError as error:
        status = framework.Status(framework.Code.ERROR, (str(error),))
    if status.ok or status.code is framework.Code.WAIT:
        return Member(attempt, decision, status)
    assumed.take_back(held)
    if not status.rejected:
        return Member(attempt, scheduling_cycle.broken(status.message()))
    message = f"0/1 nodes are available: 1 {status.message()}."
    return Member(attempt, Reject(status, message))
