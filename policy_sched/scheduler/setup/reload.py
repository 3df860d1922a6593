"""Puts other policies in force between two cycles; what has begun ends under those it began with.

Theory of operation. Everything that can fail happens first, without touching the active policies:
the files are compiled, the profiles built, their events registered, every queued pod given its new
place in the order. Then one assignment changes the scheduler's profiles, and the queue follows. An
attempt holds the profile that it began with, so pods that are being decided, wait for permission or
are being bound end with the plugins that reserved for them. Only Permit is asked anew: a pod that
waits is allowed, rejected or held by the plugins now in force. Pods of a profile that is gone stay
in the queue, gated, until a profile of that name comes back.

A set may also be staged: it becomes the candidate beside the set in force, which does not notice.
`choose` says which pods the candidate decides; those that wait and change sides are judged anew,
and all others stay untouched. A promotion is the reload that would have been without a candidate;
to drop the candidate leaves the profiles, generation and kept results as they were.
"""

from __future__ import annotations

from collections.abc import Callable

from policy_sched.errors import Diagnostic, PolicyError
from policy_sched.framework.runtime import Hook
from policy_sched.model import POLICY_RELOAD, PodInfo, QueuedPod
from policy_sched.plugins import Preempting
from policy_sched.plugins.rules import inputs_of
from policy_sched.profiles.build import CompiledPlan, PlanDiff, declared_inputs
from policy_sched.profiles.models import NOT_BUILT
from policy_sched.profiles.reload import ActivePolicies, Compilation, PolicyStore, Reload
from policy_sched.queue import Rejection
from policy_sched.scheduler import (
    NO_PROFILE,
    Canary,
    Events,
    Scheduler,
    queue_gate,
    queue_hints,
    queue_order,
    queue_sort,
    record_no_profile,
)
from policy_sched.scheduler.setup.profiles import Assembled, Assembly


class Reloader:
    """Reloads the policies of one scheduler; ``assembly`` made its profiles from `store`'s set.

    `store.prepare` may run in a thread while the scheduler works, all else only between two cycles.
    """

    def __init__(self, scheduler: Scheduler, assembly: Assembly, store: PolicyStore) -> None:
        self.store = store
        self._scheduler = scheduler
        self.assembly = assembly
        self._events: dict[Hook, Events] = {}

    @property
    def plans(self) -> tuple[CompiledPlan, ...]:
        """The plans of the set in force, and of the candidate."""
        staged = self.store.staged
        return self.store.current.plans + (() if staged is None else staged.plans)

    def reload(self) -> Reload:
        """Load the files again; afterwards the new set is in force, or everything is as before."""
        return self.commit(self.store.prepare())

    def commit(self, compilation: Compilation) -> Reload:
        """Put what was compiled in force, if it has no errors and differs."""
        return self.store.commit(compilation, self._enact)

    # A candidate.

    def stage(self, compilation: Compilation) -> Reload:
        """Make what was compiled the candidate, which decides no pod yet.

        It replaces an earlier one. Refused is what has errors, or other extenders than the set in
        force; what equals the set in force is none, and leaves an earlier candidate as it is.
        """
        return self.store.stage(compilation, self._stage)

    def choose(self, chosen: Callable[[PodInfo], bool] | None) -> None:
        """Let the candidate decide these pods from now on; None: it decides none."""
        scheduler, queue = self._scheduler, self._scheduler.queue
        candidates, before = self.assembly.current.candidates, scheduler.canary
        canary = None if chosen is None or not candidates else Canary(candidates, chosen)
        if canary is None and before is None:
            return
        gate = queue_gate(scheduler.profiles, canary)
        hints = queue_hints(scheduler.profiles, self._events, canary)
        scheduler.canary = canary

        def changes_sides(pod: PodInfo) -> bool:
            was, now = (side and side.profile_of(pod) for side in (before, canary))
            return was is not now

        queue.reload(gate, hints, helps=lambda _: False, regate=changes_sides)
        waiting = (*queue.unschedulable(), *queue.gated())
        moved = [queued.info.uid for queued in waiting if changes_sides(queued.info)]
        queue.move_among(moved, POLICY_RELOAD, None)

    def promote(self) -> Reload:
        """Put the candidate in force."""
        return self.store.promote(self._enact)

    def drop(self) -> None:
        """Give the candidate up; the pods that it decided are the stable set's again."""
        if self.store.staged is None:
            return
        self.choose(None)
        self.store.unstage()
        current = self.store.current
        self._settle(self.assembly.build(current.plans, current.generation))

    def _stage(self, policies: ActivePolicies, _changes: PlanDiff) -> None:
        """Build the candidate. Raises PolicyError or PluginError before anything has changed."""
        current = self.store.current
        extenders = [plans[0].plan.extenders for plans in (current.plans, policies.plans)]
        if extenders[0] != extenders[1]:
            raise PolicyError([_other_extenders(self.store.files.paths)])
        built = self.assembly.build(current.plans, current.generation, policies.plans)
        queue_hints(built.candidates, dict(self._events))
        self.choose(None)
        self._settle(built, policies.plans)

    def _settle(self, built: Assembled, candidate: tuple[CompiledPlan, ...] = ()) -> None:
        """Activate what was built, and keep the inputs that it declares."""
        self.assembly.settle(built)
        inputs = declared_inputs((*self.store.current.plans, *candidate))
        kept = {given.identity for given in inputs}
        self._scheduler.handle.shared(inputs_of).keep(kept)

    # A set in force.

    def _enact(self, policies: ActivePolicies, changes: PlanDiff) -> None:
        """Build, then swap. Raises PolicyError or PluginError before anything has changed."""
        scheduler, queue = self._scheduler, self._scheduler.queue
        built = self.assembly.build(policies.plans, policies.generation)
        gate, hints = queue_gate(built.profiles), queue_hints(built.profiles, self._events)
        order = queue_order(built.profiles)
        sort_key = queue_sort(built.profiles) if changes.queue_sort or order is not None else None
        if sort_key is not None:
            strict = queue_sort(built.profiles, strict=True)
            for queued in (*queue.active(), *queue.backoff()):
                strict(queued)  # a sort that fails is refused before anything changes
        self.assembly.settle(built)
        inputs = declared_inputs(policies.plans)
        scheduler.handle.shared(inputs_of).keep({given.identity for given in inputs})
        scheduler.profiles, scheduler.canary = built.profiles, None
        came_or_went = frozenset((*changes.added, *changes.removed))

        def helps(rejection: Rejection) -> bool:
            rejectors = rejection.rejected_by | rejection.pending
            return rejection.profile in came_or_went or changes.helps(rejection.profile, rejectors)

        regated = frozenset((*changes.gates, *changes.removed))

        def regate(pod: PodInfo) -> bool:
            return pod.scheduler_name in regated

        again = regate if regated else None
        queue.reload(gate, hints, sort_key=sort_key, order=order, helps=helps, regate=again)
        queue.move_among(self._preempting(changes), POLICY_RELOAD, None)
        scheduler.permit_again(changes.changed)
        for queued in self._stranded(changes.removed):
            record_no_profile(queued.info, scheduler.handle)

    def _preempting(self, changes: PlanDiff) -> list[str]:
        """Return the UIDs of pods that may evict others where a rejection may not hold any more.

        It may have stood behind the one that their attempt knew.
        """
        profiles = self._scheduler.profiles
        others = {
            n for n in changes.void if n in profiles and profiles[n].pipeline.at("post_filter")
        }
        if not others:
            return []
        preempting = Preempting(self._scheduler.handle)
        waiting = (queued.info for queued in self._scheduler.queue.unschedulable())
        return [pod.uid for pod in waiting if pod.scheduler_name in others and preempting(pod)]

    def _stranded(self, removed: tuple[str, ...]) -> list[QueuedPod]:
        """Return the pods that wait for one of the removed profiles."""
        if not removed:
            return []
        waiting = self._scheduler.queue.gated()
        return [
            queued
            for queued in waiting
            if queued.gated_by == NO_PROFILE and queued.info.scheduler_name in removed
        ]


def _other_extenders(paths: tuple[str, ...]) -> Diagnostic:
    message = "a rollout cannot change extenders: both sides would call those of one of them"
    hint = "change them in a reload of their own, without the Rollout"
    return Diagnostic(paths[0] if paths else "<policies>", 1, 1, NOT_BUILT, message, hint)
