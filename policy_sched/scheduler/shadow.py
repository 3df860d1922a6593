"""A shadow: decides the pods of another scheduler beside it, and compares.

Theory of operation. A fair comparison decides on what the other scheduler saw. The stream of
changes tells it: when a pod's binding comes, all that was bound before counts on its real node,
and nothing that was decided later does. So the pod is decided then, as it was before its binding,
and afterwards counts where it really is: nothing of ours is ever assumed. Three answers of the
other scheduler are compared: a binding; a condition ``Unschedulable`` (with or without room made
on a node); a nomination without one, which tells early of a binding that takes its time. A pod
that nobody answers for in ``patience`` is decided, too, once.

A pod with volumes that are not bound yet is decided when it comes: before its binding shows, the
other scheduler has its volumes made where it wants the pod, and we could only agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from policy_sched.model.pod_info import PodInfo
from policy_sched.model.storage import PersistentVolumeClaim
from policy_sched.scheduler.attempt import Profile
from policy_sched.scheduler.loop import Scheduler
from policy_sched.scheduler.shadow_choice import Choice, choose
from policy_sched.scheduler.shadow_records import Comparison, Result, Side

SECOND: Final = 1_000_000_000
PATIENCE: Final = 30 * SECOND
"""Nanoseconds in which another scheduler has usually answered, retries included."""
MOST_KEPT: Final = 256
"""Decisions made beforehand that are kept; of more pods the oldest are decided late."""
UNSCHEDULABLE: Final = "Unschedulable"

Report = Callable[[Comparison], None]


@dataclass(slots=True)
class Waiting:
    """A pod of the other scheduler that has no node, and what was said of it.

    ``answer`` is the last answer of the other scheduler, ``told`` our last comparison with it,
    ``choice`` what we decided beforehand.
    """

    info: PodInfo
    answer: Side | None = None
    told: tuple[object, ...] = ()
    choice: Choice | None = None


class Shadow:
    """Compares what `scheduler` would do with what another one does; ``report`` is told.

    ``of`` is the other one's name. Pods are decided by our profile of that name, or by the only
    one. ``rng`` breaks ties, which count as agreement anyway.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        of: str,
        report: Report,
        rng: Random,
        patience: int = PATIENCE,
    ) -> None:
        self.of = of
        self.watching = False
        self._scheduler = scheduler
        self._report = report
        self._rng = rng
        self._patience = patience
        self._waiting: dict[str, Waiting] = {}
        # Both in the order of time.
        self._deadlines: dict[str, int] = {}
        self._kept: dict[str, Waiting] = {}
        # Pods with unbound volumes for which no node was found when they came.
        self._unkept: dict[str, Waiting] = {}
        # The rows of nodes by name, and of which version of the table they are.
        self._rows: dict[str, int] = {}
        self._rows_of = -1

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def profile(self) -> tuple[str, Profile]:
        """The profile that decides, and its name."""
        profiles = self._scheduler.profiles
        name = self.of if self.of in profiles else next(iter(profiles))
        return name, profiles[name]

    def begin(self) -> None:
        """The whole cluster is known: from now on decisions are compared."""
        self.watching = True
        waiting = list(self._waiting.values())
        for one in waiting:
            self._nominate(one.info)
        for one in waiting:  # its own nomination is part of the answer that is compared
            self._scheduler.handle.nominator.clear(one.info.uid)
            self._answered(one)

    def pause(self) -> None:
        """What comes now comes in no order: nothing is compared until `begin`."""
        self.watching = False

    def waiting(self, uid: str) -> PodInfo | None:
        """Return a pod of the other scheduler that has no node, as far as we know."""
        one = self._waiting.get(uid)
        return None if one is None else one.info

    def pod_seen(self, pod: PodInfo) -> bool:
        """A pod came or changed; the cache has not been told yet. Returns whether it is compared.

        A pod that was bound before we knew it is not.
        """
        if pod.scheduler_name != self.of:
            return False
        if pod.node_name:
            return self._bound(pod)
        if pod.scheduling_gates or pod.terminating:
            self.pod_gone(pod.uid)
            return False
        self._scheduler.handle.groups.seen(pod)
        one = self._waiting.get(pod.uid)
        if one is None:
            one = self._waiting[pod.uid] = Waiting(pod)
            self._deadlines[pod.uid] = self._scheduler.handle.now() + self._patience
        one.info = pod
        if self.watching:
            self._answered(one)
        return False

    def claim_seen(self, claim: PersistentVolumeClaim) -> None:
        """A claim came, which pods may have waited for before anything could be decided."""
        meta = claim.metadata
        for one in list(self._unkept.values()) if self.watching else ():
            info = one.info
            if info.namespace == meta.namespace and meta.name in info.pvc_names:
                self._decide_beforehand(one)

    def pod_gone(self, uid: str) -> None:
        """A pod was deleted."""
        if self._take(uid) is not None:
            self._scheduler.handle.groups.gone(uid)
            self._scheduler.handle.nominator.clear(uid)

    def overdue(self) -> None:
        """Decide the pods that the other scheduler has left without an answer for too long."""
        now = self._scheduler.handle.now()
        while self.watching and self._deadlines:
            uid, deadline = next(iter(self._deadlines.items()))
            if deadline > now:
                return
            del self._deadlines[uid]
            one = self._waiting[uid]
            self._compare(one, None, self._choose(one))

    def next_time(self) -> int | None:
        """Return when a pod is overdue, in nanoseconds since 1970; None: none will be."""
        return next(iter(self._deadlines.values()), None) if self.watching else None

    # Inside.

    def _take(self, uid: str) -> Waiting | None:
        """Wait for a pod's node no more."""
        self._deadlines.pop(uid, None)
        self._kept.pop(uid, None)
        self._unkept.pop(uid, None)
        return self._waiting.pop(uid, None)

    def _answered(self, one: Waiting) -> None:
        """Compare if the other scheduler has said something new of a pod that has no node."""
        answer = _answer(one.info)
        new = answer is not None and answer != one.answer
        if new and answer is not None:
            # It chose before it nominated the pod, which we do below.
            choice = one.choice if _promised(answer) else None
            choice = choice or self._choose(one)
            one.answer = answer
            self._deadlines.pop(one.info.uid, None)
            self._compare(one, answer, choice)
        self._nominate(one.info)
        self._decide_beforehand(one)

    def _bound(self, pod: PodInfo) -> bool:
        """The other scheduler has bound a pod: compare, and let it count where it is."""
        one = self._take(pod.uid)
        if one is None or not self.watching:
            return False
        if one.answer is not None and _promised(one.answer) and one.answer.node == pod.node_name:
            return True  # told when it was promised
        answer = Side(pod.node_name)
        self._compare(one, answer, one.choice or self._choose(one))
        return True

    def _choose(self, one: Waiting) -> Choice:
        """Decide a pod with the nominations that the other scheduler has made so far."""
        return choose(one.info, self.profile[1], self._scheduler.handle, self._rng)

    def _compare(self, one: Waiting, answer: Side | None, choice: Choice) -> None:
        """Report, unless the same was reported of the pod before."""
        table = self._scheduler.handle.nodes
        theirs = answer or Side()
        if theirs.node is not None:
            view = choice.of_node(theirs.node, table)
            theirs = Side(
                theirs.node,
                theirs.message,
                theirs.preempts,
                score=view.score,
                rejected_by=view.rejected_by,
                reasons=view.reasons,
            )
        ours = choice.side
        result = Result.ERROR if choice.broken else _result(answer, theirs, ours)
        told = (result, theirs.node, ours.node, ours.preempts)
        if one.told == told:
            return
        one.told = told
        difference = {}
        scored = ours.score is not None and theirs.score is not None
        if ours.node and theirs.node and ours.node != theirs.node and scored:
            difference = choice.difference(ours.node, theirs.node, table)
        pipeline, pod = choice.profile.pipeline, one.info
        self._report(
            Comparison(
                time=self._scheduler.handle.now() / 1e9,
                pod=pod.key,
                uid=pod.uid,
                result=result,
                scheduler=self.of,
                profile=self.profile[0],
                theirs=theirs,
                ours=ours,
                difference=difference,
                feasible_nodes=choice.feasible,
                evaluated_nodes=choice.nodes,
                beforehand=choice.kept is not None,
                requests=pod.requests,
                generation=pipeline.generation,
                content_hash=pipeline.content_hash,
            )
        )

    # What has to be remembered.

    def _nominate(self, pod: PodInfo) -> None:
        """Promise the pod the room that the other scheduler promised it, and no other."""
        nominator, node = self._scheduler.handle.nominator, pod.nominated_node_name
        if nominator.node_of(pod.uid) == node:
            return
        if node:
            nominator.nominate(pod, node)
        else:
            nominator.clear(pod.uid)

    def _unbound_volumes(self, pod: PodInfo) -> bool:
        named = self._scheduler.handle.objects.named
        found = (named(PersistentVolumeClaim, pod.namespace, name) for name in pod.pvc_names)
        return any(claim is None or not claim.spec.volume_name for claim in found)

    def _decide_beforehand(self, one: Waiting) -> None:
        """Keep a decision if later the volumes would decide; one that finds no node yet is none."""
        if one.choice is not None or not self._unbound_volumes(one.info):
            return
        choice = self._choose(one)
        if choice.side.node is None or choice.side.preempts:
            self._unkept[one.info.uid] = one
            return
        self._unkept.pop(one.info.uid, None)
        if len(self._kept) >= MOST_KEPT:
            self._kept.pop(next(iter(self._kept))).choice = None
        table = self._scheduler.handle.nodes
        if self._rows_of != table.journal.static_version:
            self._rows_of, self._rows = table.journal.static_version, dict(table.row_of)
        one.choice = choice.keep(self._rows)
        self._kept[one.info.uid] = one


def _answer(pod: PodInfo) -> Side | None:
    """Return what a pod's status says of its scheduling; None: nothing yet."""
    nominated = pod.nominated_node_name or None
    for condition in pod.pod.status.conditions:
        refused = condition.type == "PodScheduled" and condition.status == "False"
        if refused and condition.reason == UNSCHEDULABLE:
            return Side(nominated, condition.message, preempts=nominated is not None)
    return Side(nominated) if nominated else None


def _promised(answer: Side) -> bool:
    """Tell whether a pod is about to be bound, and nothing has to make room for it."""
    return answer.node is not None and not answer.preempts


def _result(answer: Side | None, theirs: Side, ours: Side) -> Result:
    if answer is None:
        return Result.UNDECIDED
    # Who has to evict others first has less than who need not.
    their_rank, our_rank = _rank(theirs), _rank(ours)
    if their_rank != our_rank:
        return Result.UNSCHEDULABLE if our_rank < their_rank else Result.SCHEDULABLE
    if theirs.node == ours.node:
        return Result.AGREE
    as_good = theirs.score is not None and ours.score is not None and theirs.score >= ours.score
    return Result.AGREE if as_good else Result.DIFFER


def _rank(side: Side) -> int:
    if side.node is None:
        return 0
    return 1 if side.preempts else 2
