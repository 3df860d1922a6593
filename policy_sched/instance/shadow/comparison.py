"""Shadow mode: decides the pods of another scheduler without binding, and compares.

Theory of operation. A fair comparison uses the state that the other scheduler decided on. The order
of events provides it: when a pod's binding arrives, all earlier bindings are in the cache, and no
later decision is. So the shadow decides the pod at that moment, without its binding, and then adds
it to the node it is bound to; the shadow's own choice is never assumed. Three responses of the
other scheduler are compared: a binding; a condition ``Unschedulable`` (with or without a
preemption); a nomination without preemption. A pod without a response within ``patience`` is
decided once, too.

kube-scheduler publishes ``status.nominatedNodeName`` before PreBind (1.36): from then on it has
assumed the pod on that node. Such a pod counts there like a bound one; the nomination of a
preemptor only reserves. A preemption writes the condition and the nomination in one patch. So a
nomination is not a preemptor's if the condition stays, or if it reports that preemption failed.

A rejection is written at once, a binding takes a while: where the shadow finds a node for a
rejected pod, other pods may be assumed there. So the pod is decided again while bindings arrive,
and it counts as a difference if there is still a node ``SETTLING`` later.

A deleted pod counted for the other scheduler if the decision was made before the deletion. So where
the decisions differ, the shadow decides again with the pods that left their nodes since the pod
arrived, in the last ``SETTLING``, back on them, one more each time: the decisions agree if one of
these finds the other scheduler's node among the best. In the same way it decides again without the
pods that were bound while this one waited: bindings run side by side, so one that was decided later
may arrive first.

Where both preempt, on different nodes, they agree if the shadow's rules rank the victims there
equal. What is left is reported with a cause where the order of events does not give the state that
the other scheduler saw: a claim that has not arrived, or a change of the last moment.

A pod with unbound volumes is decided when it arrives: once a node is selected for a volume, only
that node fits. If a nomination arrives earlier, the pod is decided then.

kube-scheduler allocates a pod's claims in PreBind and binds the pod then. Claims that are reserved
for the pod alone are decided as if they were not allocated.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from msgspec.structs import replace

from policy_sched import model
from policy_sched.cluster.tables import NodeTable
from policy_sched.instance.shadow.causes import SKEW, LastChanges
from policy_sched.instance.shadow.choice import ShadowDecision, choose, names_of
from policy_sched.instance.shadow.log import Agreement, Comparison, LoggedDecision
from policy_sched.plugins.volumes import SELECTED_NODE
from policy_sched.scheduler import Profile, Scheduler

PATIENCE: Final = 30 * model.SECOND
"""Nanoseconds in which another scheduler usually responds, retries included."""
SETTLING: Final = model.SECOND
"""Nanoseconds in which bindings arrive that were decided before a rejection or a deletion."""
MOST_DOUBTED: Final = 32
"""Rejected pods that are decided again; if there are more, the oldest are reported at once."""
MOST_BOUND: Final = 8
"""Pods whose bindings may have overtaken the binding of a pod that was decided before."""
MOST_DELETED: Final = 16
"""Deleted pods that may have counted for the other scheduler."""
MOST_KEPT: Final = 256
"""Early decisions that are kept; if there are more, the oldest pods are decided late."""
UNSCHEDULABLE: Final = "Unschedulable"
PREEMPTION_IN_VAIN: Final = " preemption: "
"""Part of a condition's message if PostFilter found no candidate."""

Report = Callable[[Comparison], None]


@dataclass(slots=True)
class ShadowedPod:
    """A pending pod of the other scheduler, and the decisions reported for it."""

    info: model.PodInfo
    arrived: int
    since: int
    """Pods that had been deleted when it arrived; ``after``: that had been bound."""
    after: int
    response: LoggedDecision | None = None
    """The other scheduler's current response; ``compared``: the one compared last."""
    compared: LoggedDecision | None = None
    reported: tuple[object, ...] = ()
    """The comparison reported last."""
    choice: ShadowDecision | None = None
    """An early decision, made while its claims ``unbound`` were not bound."""
    unbound: frozenset[str] = frozenset()
    doubt: ShadowDecision | None = None
    """A node found for a rejected pod: reported at ``doubted_until`` if there is still one."""
    doubted_until: int = 0


class Shadow:
    """Compares the decisions of `scheduler` with another scheduler's; ``report`` receives the
    comparisons.

    ``of`` is the other scheduler's name. Pods are decided by the profile of that name, or by the
    only one. ``rng`` breaks ties, which count as agreement anyway.
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
        self.changes = LastChanges(scheduler.handle)
        self._scheduler = scheduler
        self._report = report
        self._rng = rng
        self._patience = patience
        self._waiting: dict[str, ShadowedPod] = {}
        # Both in order of time.
        self._deadlines: dict[str, int] = {}
        self._kept: dict[str, ShadowedPod] = {}
        # Pods with unbound volumes for which no node was found when they arrived.
        self._unkept: dict[str, ShadowedPod] = {}
        # Rejected pods for which there is a node, in order of time.
        self._doubted: dict[str, ShadowedPod] = {}
        self._doubted_at = -1
        # The number of pods that left their nodes, and the last of them with number and time.
        self._deletions = 0
        self._deleted: deque[tuple[int, int, model.PodInfo]] = deque(maxlen=MOST_DELETED)
        # When the last pod was deleted, and its name.
        self._left = (-SETTLING, "")
        # The number of pods that were bound, and the last of them with number and time.
        self._bindings = 0
        self._last_bound: deque[tuple[int, int, str]] = deque(maxlen=MOST_BOUND)
        # Rows of nodes by name, and the version of the table that they belong to.
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
        """Compare decisions from now on: the cluster is listed."""
        self.watching = True
        waiting = list(self._waiting.values())
        for pending in waiting:
            self._hold(pending)
        for pending in waiting:  # its own nomination is part of the response that is compared
            self._release(pending.info.uid)
            self._compare_response(pending)

    def pause(self) -> None:
        """Compare nothing until `begin`: events of a list arrive in no order."""
        self.watching = False

    def waiting(self, uid: str) -> model.PodInfo | None:
        """Return a pod of the other scheduler that has no node yet."""
        pending = self._waiting.get(uid)
        return None if pending is None else pending.info

    def pod_seen(self, pod: model.PodInfo) -> bool:
        """Handle a new or changed pod before the cache does; return whether it is compared.

        A pod that was bound before it was known is not.
        """
        if pod.node_name:
            compared = pod.scheduler_name == self.of and self._bound(pod)
            if self._scheduler.handle.cache.pod(pod.uid) is None:
                self._bindings += 1
                self._last_bound.append((self._bindings, self._scheduler.handle.now(), pod.uid))
            return compared
        if pod.scheduler_name != self.of:
            return False
        if pod.scheduling_gates or pod.terminating:
            self.pod_gone(pod.uid)
            return False
        self._scheduler.handle.groups.seen(pod)
        pending = self._waiting.get(pod.uid)
        if pending is None:
            now = self._scheduler.handle.now()
            pending = ShadowedPod(pod, now, self._deletions, self._bindings, _response(pod, None))
            self._waiting[pod.uid] = pending
            self._deadlines[pod.uid] = now + self._patience
        else:
            pending.response, pending.info = _response(pod, pending), pod
        if self.watching:
            self._compare_response(pending)
        return False

    def claim_seen(self, claim: model.PersistentVolumeClaim) -> None:
        """Handle a new or changed claim, which pending pods may need for a decision."""
        meta = claim.metadata
        for pending in list(self._unkept.values()) if self.watching else ():
            info = pending.info
            if info.namespace == meta.namespace and meta.name in info.pvc_names:
                self._decide_beforehand(pending)

    def pod_gone(self, uid: str) -> None:
        """Handle the deletion of a pod before the cache does."""
        handle = self._scheduler.handle
        counted = handle.cache.pod(uid)
        if counted is not None:
            self._deletions += 1
            there = counted.on(handle.cache.node_of(uid))
            self._deleted.append((self._deletions, handle.now(), there))
        pending = self._take(uid)
        gone = counted if pending is None else pending.info
        if gone is not None:
            self._left = handle.now(), gone.key
        if pending is not None:
            self._scheduler.handle.groups.gone(uid)
            self._release(uid)

    def overdue(self) -> None:
        """Decide the pods without a response for too long."""
        now = self._scheduler.handle.now()
        if self.watching and self._doubted:
            self._look_again(now)
        while self.watching and self._deadlines:
            uid, deadline = next(iter(self._deadlines.items()))
            if deadline > now:
                return
            del self._deadlines[uid]
            pending = self._waiting[uid]
            self._compare(pending, None, self._choose(pending))

    def next_time(self) -> int | None:
        """Return when the next pod is overdue, in nanoseconds since 1970; None: no pod waits."""
        if not self.watching:
            return None
        first = next(iter(self._deadlines.values()), None)
        doubted = next((pending.doubted_until for pending in self._doubted.values()), None)
        return min((time for time in (first, doubted) if time is not None), default=None)

    # Comparisons.

    def _take(self, uid: str) -> ShadowedPod | None:
        """Stop waiting for a pod's response."""
        self._deadlines.pop(uid, None)
        self._kept.pop(uid, None)
        self._unkept.pop(uid, None)
        self._doubted.pop(uid, None)
        return self._waiting.pop(uid, None)

    def _compare_response(self, pending: ShadowedPod) -> None:
        """Compare a pod without a node if the other scheduler's response is new."""
        response = pending.response
        if response is not None and response != pending.compared:
            self._unassume(pending)
            decided = _is_binding(response) and self._open(pending.info) != pending.unbound
            choice = (pending.choice if decided else None) or self._chosen(pending, response)
            pending.compared = response
            self._deadlines.pop(pending.info.uid, None)
            self._doubted.pop(pending.info.uid, None)
            if response.node is None and choice.side.node is not None:
                self._doubt(pending, choice)
            else:
                self._compare(pending, response, choice)
        self._hold(pending)
        self._decide_beforehand(pending)

    def _doubt(self, pending: ShadowedPod, choice: ShadowDecision) -> None:
        """Report a node for a rejected pod only if it is still there later."""
        if len(self._doubted) >= MOST_DOUBTED:
            oldest = self._doubted.pop(next(iter(self._doubted)))
            assert oldest.doubt is not None, "it is doubted"
            self._compare(oldest, oldest.compared, oldest.doubt)
        pending.doubt = choice
        pending.doubted_until = self._scheduler.handle.now() + SETTLING
        self._doubted[pending.info.uid] = pending

    def _look_again(self, now: int) -> None:
        """Decide rejected pods again after changes; report those whose time is over."""
        version = self._scheduler.handle.nodes.journal.version
        changed, self._doubted_at = version != self._doubted_at, version
        for uid, pending in list(self._doubted.items()):
            choice = self._choose(pending) if changed else pending.doubt
            if choice is not None and (choice.side.node is None or pending.doubted_until <= now):
                del self._doubted[uid]
                self._compare(pending, pending.compared, choice)

    def _bound(self, pod: model.PodInfo) -> bool:
        """Compare a binding of the other scheduler, and add the pod to its node."""
        pending = self._take(pod.uid)
        if pending is None or not self.watching:
            return False
        last = pending.compared
        if last is not None and _is_binding(last) and last.node == pod.node_name:
            return True  # reported with its nomination
        self._unassume(pending)
        response = LoggedDecision(pod.node_name)
        with self._unallocated(pod):
            self._compare(pending, response, pending.choice or self._chosen(pending, response))
        return True

    def _chosen(self, pending: ShadowedPod, response: LoggedDecision) -> ShadowDecision:
        """Decide a pod as of before its response; deletions and bindings after it are undone."""
        choice = self._choose(pending)
        moved = self._deletions != pending.since or self._bindings != pending.after
        if (
            not moved
            or judged(response, choice, self._scheduler.handle.nodes)[1] is Agreement.AGREE
        ):
            return choice
        undone = (self._with_deleted_pods, self._without_bound_pods)
        earlier = (undo(pending, response) for undo in undone)
        return next(filter(None, earlier), None) or self._choose(pending)

    def _with_deleted_pods(
        self, pending: ShadowedPod, response: LoggedDecision
    ) -> ShadowDecision | None:
        """Return a decision with deleted pods back on their nodes, if it agrees."""
        cache, table = self._scheduler.handle.cache, self._scheduler.handle.nodes
        oldest = self._scheduler.handle.now() - SETTLING
        back: list[str] = []
        try:
            for nth, time, pod in reversed(self._deleted):
                if nth <= pending.since or time < oldest:
                    return None
                if cache.pod(pod.uid) is not None or pod.node_name not in table.row_of:
                    continue
                cache.assume(model.PodInfo.of(pod.pod), pod.node_name)
                back.append(pod.uid)
                choice = self._choose(pending)
                if judged(response, choice, self._scheduler.handle.nodes)[1] is Agreement.AGREE:
                    return choice.keep(self._rows_by_name())
        finally:
            for uid in back:
                cache.forget(uid)
        return None

    def _without_bound_pods(
        self, pending: ShadowedPod, response: LoggedDecision
    ) -> ShadowDecision | None:
        """Return a decision without the pods that were bound while it waited, if it agrees."""
        cache = self._scheduler.handle.cache
        oldest = self._scheduler.handle.now() - SETTLING
        gone: list[model.PodInfo] = []
        try:
            for nth, time, uid in reversed(self._last_bound):
                if nth <= pending.after or time < oldest:
                    return None
                pod = cache.pod(uid)
                if pod is None or cache.is_assumed(uid):
                    continue
                cache.remove_pod(pod)
                gone.append(pod)
                choice = self._choose(pending)
                if judged(response, choice, self._scheduler.handle.nodes)[1] is Agreement.AGREE:
                    return choice.keep(self._rows_by_name())
        finally:
            for pod in reversed(gone):
                cache.add_pod(pod)
        return None

    def _choose(self, pending: ShadowedPod) -> ShadowDecision:
        """Decide a pod with the other scheduler's nominations so far."""
        return choose(pending.info, self.profile[1], self._scheduler.handle, self._rng)

    def _compare(
        self, pending: ShadowedPod, response: LoggedDecision | None, choice: ShadowDecision
    ) -> None:
        """Report a comparison, unless the same was reported for the pod before."""
        table = self._scheduler.handle.nodes
        theirs, result = judged(response, choice, table)
        ours = choice.side
        reported = (result, theirs.node, ours.node, ours.preempts)
        if pending.reported == reported:
            return
        pending.reported = reported
        pipeline, pod = choice.profile.pipeline, pending.info
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
                difference=choice.difference(theirs, table),
                cause="" if result is Agreement.AGREE else self._cause(pending, (theirs, ours)),
                feasible_nodes=choice.feasible,
                evaluated_nodes=choice.nodes,
                beforehand=choice.kept is not None,
                requests=pod.requests,
                generation=pipeline.generation,
                content_hash=pipeline.content_hash,
            )
        )

    def _cause(self, pending: ShadowedPod, sides: Sequence[LoggedDecision]) -> str:
        """Return why the shadow may know another cluster than the other scheduler; "" if not."""
        cause = self.changes.cause(pending.info)
        since = self._scheduler.handle.now() - SKEW
        if cause:
            return cause
        nodes = {side.node for side in sides}
        for other in self._waiting.values():
            node = other.response.node if other.response is not None else None
            if other.response is None and since <= other.arrived < pending.arrived:
                return f"pod {other.info.key} came before and is not bound yet; bindings overtake"
            if node in nodes and node is not None and other is not pending:
                return f"pod {other.info.key} is nominated to {node}, and may have been turned away"
        time, key = self._left
        return f"pod {key} was deleted at the time" if time >= since else ""

    # State between events.

    def _hold(self, pending: ShadowedPod) -> None:
        """Add the pod as the other scheduler counts it: assumed, nominated, or not at all."""
        uid, handle = pending.info.uid, self._scheduler.handle
        node = (pending.response.node if pending.response is not None else None) or ""
        binding = pending.response is not None and _is_binding(pending.response)
        if handle.cache.is_assumed(uid) and not (binding and handle.cache.node_of(uid) == node):
            handle.cache.forget(uid)
        if handle.nominator.node_of(uid) != ("" if binding else node):
            handle.nominator.clear(uid)
        if binding and not handle.cache.node_of(uid):
            handle.cache.assume(model.PodInfo.of(pending.info.pod), node)
        elif node and not binding and not handle.nominator.node_of(uid):
            handle.nominator.nominate(pending.info, node)

    def _unassume(self, pending: ShadowedPod) -> None:
        """Turn the assumed pod of a nomination into a nominated one: it was decided again."""
        handle, uid = self._scheduler.handle, pending.info.uid
        if handle.cache.is_assumed(uid):
            node = handle.cache.node_of(uid)
            handle.cache.forget(uid)
            handle.nominator.nominate(pending.info, node)

    def _release(self, uid: str) -> None:
        """Remove the pod from cache and nominations."""
        cache = self._scheduler.handle.cache
        if cache.is_assumed(uid):
            cache.forget(uid)
        self._scheduler.handle.nominator.clear(uid)

    def _open(self, pod: model.PodInfo) -> frozenset[str]:
        """Return the pod's unbound claims for which no node is selected."""
        named = self._scheduler.handle.objects.named
        kind, names = model.PersistentVolumeClaim, pod.pvc_names
        claims = {name: named(kind, pod.namespace, name) for name in names}
        return frozenset(
            name
            for name, claim in claims.items()
            if claim is None
            or not (claim.spec.volume_name or SELECTED_NODE in claim.metadata.annotations)
        )

    def _decide_beforehand(self, pending: ShadowedPod) -> None:
        """Keep an early decision of a pod with unbound volumes, if it finds a node."""
        info, early = pending.info, pending.choice is None
        unbound = self._open(info) if info.pvc_names and early else None
        if not unbound:
            return
        choice = self._choose(pending)
        if choice.side.node is None or choice.side.preempts:
            self._unkept[info.uid] = pending
            return
        self._unkept.pop(pending.info.uid, None)
        if len(self._kept) >= MOST_KEPT:
            self._kept.pop(next(iter(self._kept))).choice = None
        pending.choice, pending.unbound = choice.keep(self._rows_by_name()), unbound
        self._kept[pending.info.uid] = pending

    @contextmanager
    def _unallocated(self, pod: model.PodInfo) -> Iterator[None]:
        """Take the allocation off the claims that are reserved for the pod alone, and restore it.

        ``pod`` has the claims' names in its status.
        """
        objects = self._scheduler.handle.objects
        named, names = partial(objects.named, model.ResourceClaim, pod.namespace), _claim_names(pod)
        own = [
            claim
            for claim in map(named, names)
            if claim is not None
            and {reference.uid for reference in claim.status.reserved_for} == {pod.uid}
        ]
        for claim in own:
            objects.put(replace(claim, status=model.ResourceClaimStatus()))
        try:
            yield
        finally:
            for claim in own:
                objects.put(claim)

    def _rows_by_name(self) -> dict[str, int]:
        """Return rows by node name, copied when they change."""
        table = self._scheduler.handle.nodes
        if self._rows_of != table.journal.static_version:
            self._rows_of, self._rows = table.journal.static_version, dict(table.row_of)
        return self._rows


def _claim_names(pod: model.PodInfo) -> set[str]:
    """Return the names of the pod's resource claims, made from templates or not."""
    spec, status = pod.pod.spec, pod.pod.status
    names = {claim.resource_claim_name for claim in spec.resource_claims}
    names.update(entry.resource_claim_name for entry in status.resource_claim_statuses)
    if status.extended_resource_claim_status is not None:
        names.add(status.extended_resource_claim_status.resource_claim_name)
    return {name for name in names if name}


def _refusal(pod: model.PodInfo) -> model.Condition | None:
    """Return the pod's condition of a rejection."""
    for condition in pod.pod.status.conditions:
        refused = condition.type == "PodScheduled" and condition.status == "False"
        if refused and condition.reason == UNSCHEDULABLE:
            return condition
    return None


def _response(pod: model.PodInfo, before: ShadowedPod | None) -> LoggedDecision | None:
    """Return the other scheduler's response in a pod's status, after ``before``; None: none yet."""
    node, condition = pod.nominated_node_name or None, _refusal(pod)
    if condition is None:
        return LoggedDecision(node) if node else None
    if node is None:
        return LoggedDecision(None, condition.message)
    if before is not None and _refusal(before.info) == condition:
        if before.info.nominated_node_name == node:
            return before.response
        return LoggedDecision(node)
    in_vain = PREEMPTION_IN_VAIN in condition.message
    last = None if before is None else before.response
    if in_vain and last is not None and last.preempts and last.node == node:
        return last  # it was tried again while its victims end
    return (
        LoggedDecision(node) if in_vain else LoggedDecision(node, condition.message, preempts=True)
    )


def _is_binding(response: LoggedDecision) -> bool:
    """Return whether a response is a nomination without preemption."""
    return response.node is not None and not response.preempts


def judged(
    response: LoggedDecision | None, choice: ShadowDecision, table: NodeTable
) -> tuple[LoggedDecision, Agreement]:
    """Return the response with the evaluation of its node, and the result of the comparison."""
    theirs, ours = response or LoggedDecision(), choice.side
    eviction, victims = None, ours.victims
    if theirs.node is not None:
        view = choice.of_node(theirs.node, table)
        if theirs.preempts and theirs.node != ours.node:
            eviction = choice.eviction(theirs.node)
            victims = names_of(eviction.victims) if eviction else ()
        theirs = LoggedDecision(
            theirs.node,
            theirs.message,
            theirs.preempts,
            victims=victims if theirs.preempts else (),
            score=view.score,
            rejected_by=view.rejected_by,
            reasons=view.reasons,
        )
    if choice.broken:
        return theirs, Agreement.ERROR
    tie = eviction is not None and eviction.as_good
    return theirs, _result(response, theirs, ours, tie=tie)


def _result(
    response: LoggedDecision | None, theirs: LoggedDecision, ours: LoggedDecision, *, tie: bool
) -> Agreement:
    if response is None:
        return Agreement.UNDECIDED
    # A decision that needs evictions ranks below one that does not.
    their_rank, our_rank = _rank(theirs), _rank(ours)
    if their_rank != our_rank:
        return Agreement.UNSCHEDULABLE if our_rank < their_rank else Agreement.SCHEDULABLE
    if theirs.node == ours.node or tie:
        return Agreement.AGREE
    as_good = theirs.score is not None and ours.score is not None and theirs.score >= ours.score
    return Agreement.AGREE if as_good else Agreement.DIFFER


def unscored_result(theirs: LoggedDecision, ours: LoggedDecision) -> Agreement:
    """Return how decisions compare of which one was logged elsewhere, without scores of ours."""
    return _result(theirs, theirs, ours, tie=False)


def _rank(side: LoggedDecision) -> int:
    if side.node is None:
        return 0
    return 1 if side.preempts else 2
