"""Canary: the profiles of a candidate set of policies, and which pods they decide.

Theory of operation. A scheduler has one set of profiles in force, the stable one, and at most one
candidate beside it, bound to the same tables. Which of them decides a pod follows from the pod
alone, so it is the same at each of its attempts: the gate of the queue, the hints, and all points
from PreFilter to PostFilter are those of its side. What orders the queue is the stable set's. An
attempt keeps the profile that it began with, whatever becomes of the candidate meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

from msgspec.structs import replace

from policy_sched.model import ClusterEventWithHint, Hint, PodInfo, QueuedPod, QueueingHint
from policy_sched.scheduler.attempt import Profile


class Canary:
    """A candidate's profiles by schedulerName; ``chosen`` returns whether they decide a pod."""

    def __init__(self, profiles: Mapping[str, Profile], chosen: Callable[[PodInfo], bool]) -> None:
        self.profiles = profiles
        self.chosen = chosen

    def profile_of(self, pod: PodInfo) -> Profile | None:
        """Return the profile that decides a pod, None if that is the stable one."""
        profile = self.profiles.get(pod.scheduler_name)
        return profile if profile is not None and self.chosen(pod) else None


def side_hint(
    registered: ClusterEventWithHint, belongs: Callable[[PodInfo], bool]
) -> ClusterEventWithHint:
    """Return what a plugin registered, for the pods of one side alone.

    Where both sides have a plugin of that name, a timer retries the pods of both.
    """
    hint, moment, alike = registered.hint, registered.moment, registered.alike

    def evaluate(pod: PodInfo, old: object, new: object) -> QueueingHint:
        if not belongs(pod):
            return QueueingHint.SKIP
        return QueueingHint.QUEUE if hint is None else hint(pod, old, new)

    def when(queued: QueuedPod) -> int:
        return moment(queued) if moment is not None and belongs(queued.info) else 0

    own: Hint = evaluate
    key: Callable[[PodInfo], Hashable] | None = None
    if hint is None:
        key = belongs
    elif alike is not None:
        of_side = alike

        def key(pod: PodInfo) -> Hashable:
            return belongs(pod) and (True, of_side(pod))

    return replace(registered, hint=own, moment=when if moment is not None else None, alike=key)
