"""Puts other policies in force between two cycles; what has begun ends under those it began with.

Theory of operation. Everything that can fail happens first, without touching the active policies:
the files are compiled, the profiles built, their events registered, every queued pod given its new
place in the order. Then one assignment changes the scheduler's profiles, and the queue follows. An
attempt holds the profile that it began with, so pods that are being decided, wait for permission or
are being bound end with the plugins that reserved for them. Only Permit is asked anew: a pod that
waits is allowed, rejected or held by the plugins now in force. Pods of a profile that is gone stay
in the queue, gated, until a profile of that name comes back.
"""

from __future__ import annotations

from policy_sched.framework.runtime import Hook
from policy_sched.model import POLICY_RELOAD, QueuedPod
from policy_sched.plugins import Preempting
from policy_sched.plugins.rules import inputs_of
from policy_sched.profiles.build import PlanDiff, declared_inputs
from policy_sched.profiles.reload import ActivePolicies, Compilation, PolicyStore, Reload
from policy_sched.queue import Rejection
from policy_sched.scheduler import (
    NO_PROFILE,
    Events,
    Scheduler,
    queue_gate,
    queue_hints,
    queue_order,
    queue_sort,
    record_no_profile,
)
from policy_sched.scheduler.setup.profiles import Assembly


class Reloader:
    """Reloads the policies of one scheduler; ``assembly`` made its profiles from `store`'s set.

    `store.prepare` may run in a thread while the scheduler works, `commit` only between two cycles.
    """

    def __init__(self, scheduler: Scheduler, assembly: Assembly, store: PolicyStore) -> None:
        self.store = store
        self._scheduler = scheduler
        self.assembly = assembly
        self._events: dict[Hook, Events] = {}

    def reload(self) -> Reload:
        """Load the files again; afterwards the new set is in force, or everything is as before."""
        return self.commit(self.store.prepare())

    def commit(self, compilation: Compilation) -> Reload:
        """Put what was compiled in force, if it has no errors and differs."""
        return self.store.commit(compilation, self._enact)

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
        scheduler.profiles = built.profiles
        came_or_went = frozenset((*changes.added, *changes.removed))

        def helps(rejection: Rejection) -> bool:
            rejectors = rejection.rejected_by | rejection.pending
            return rejection.profile in came_or_went or changes.helps(rejection.profile, rejectors)

        regate = frozenset((*changes.gates, *changes.removed))
        queue.reload(gate, hints, sort_key=sort_key, order=order, helps=helps, regate=regate)
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
