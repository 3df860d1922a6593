"""Hints: which plugins registered for which events, and whether an event is worth an attempt.

Theory of operation. A plugin names the events that may help a pod which it rejected, each with a
hint: a function of the pod and the object before and after. Only plugins that rejected the pod
are asked. A hint that fails counts as "queue": better one attempt too many than a pod that is
forgotten. What a Pending plugin waits for has happened when its hint says "queue", so that pod
pays no backoff. A table is never changed; after a reload the queue gets another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from policy_sched.errors import PluginError
from policy_sched.model import (
    ClusterEvent,
    ClusterEventWithHint,
    Hint,
    PodInfo,
    QueuedPod,
    QueueingHint,
)
from policy_sched.queue.unschedulable_pods import Rejection

Registered: TypeAlias = Mapping[str, Mapping[str, Iterable[ClusterEventWithHint]]]
"""By profile (schedulerName) and plugin: what it registered for."""

_QUEUE: Final = QueueingHint.QUEUE.value
_SKIP: Final = QueueingHint.SKIP.value
ERROR: Final = "Error"
"""Counted as the result of a hint that failed; the other results are those of QueueingHint."""


class Strategy(IntEnum):
    """What is done with a pod after an event."""

    SKIP = 0
    """It stays where it is."""
    AFTER_BACKOFF = 1
    """It is queued when its backoff is over."""
    IMMEDIATELY = 2
    """It is queued at once."""


Told: TypeAlias = Callable[[str, str, str, float], None]
"""Called after a hint ran: plugin, event label, result, seconds."""


@dataclass(frozen=True, slots=True)
class HintWatch:
    """Callback for the durations of queueing hints; ``timer`` returns seconds."""

    tell: Told
    timer: Callable[[], float]


class HintTable:
    """Everybody's events and hints; ``results`` counts (plugin, event label, result)."""

    def __init__(self, registered: Registered) -> None:
        listed = {
            profile: {plugin: tuple(events) for plugin, events in plugins.items()}
            for profile, plugins in registered.items()
        }
        self._registered = {
            profile: [
                (plugin, one.event, one.hint)
                for plugin, events in plugins.items()
                for one in events
            ]
            for profile, plugins in listed.items()
        }
        self._every = {
            profile: {
                plugin: min(one.every for one in timed)
                for plugin, events in plugins.items()
                if (timed := [one for one in events if one.every])
            }
            for profile, plugins in listed.items()
        }
        self._found: dict[tuple[str, ClusterEvent], dict[str, tuple[Hint | None, ...]]] = {}
        self._last: tuple[ClusterEvent, str, dict[str, dict[str, tuple[Hint | None, ...]]]] | None
        self._last = None
        self._of_interest: dict[ClusterEvent, bool] = {}
        self.results: Counter[tuple[str, str, str]] = Counter()
        self._watch: HintWatch | None = None

    def watch(self, tell: Told, timer: Callable[[], float]) -> None:
        """Take the time of each hint from now on."""
        self._watch = HintWatch(tell, timer)

    def instead_of(self, other: HintTable) -> HintTable:
        """Return this table, with the other table's HintWatch."""
        self._watch = other._watch
        return self

    def interests_anybody(self, event: ClusterEvent) -> bool:
        """Tell whether any plugin of any profile registered for the event."""
        known = self._of_interest.get(event)
        if known is None:
            known = event.wildcard or any(
                self._listeners(profile, event) for profile in self._registered
            )
            self._of_interest[event] = known
        return known

    def every(self, queued: QueuedPod) -> int:
        """Return after how many ns a rejected pod is tried again by the time; 0: never."""
        times = self._every.get(queued.info.scheduler_name)
        if not times:
            return 0
        plugins = queued.rejected_by | queued.pending
        return min((times[plugin] for plugin in plugins if plugin in times), default=0)

    def concerns(self, rejection: Rejection, event: ClusterEvent) -> bool:
        """Tell whether a group of pods has to be judged at all: False means that all would stay.

        A gated pod is moved only by events that the plugin which gates it registered for.
        """
        listeners = self._listeners(rejection.profile, event)
        if rejection.gated_by and rejection.gated_by not in listeners:
            return False
        if event.wildcard or rejection.profile not in self._registered:
            return True
        rejectors = rejection.rejected_by | rejection.pending
        return not rejectors or not rejectors.isdisjoint(listeners)

    def judge(self, queued: QueuedPod, event: ClusterEvent, old: object, new: object) -> Strategy:
        """Return what an event means for a pod that was rejected."""
        rejectors = queued.rejected_by | queued.pending
        if not rejectors:
            return Strategy.AFTER_BACKOFF
        if event.wildcard:
            concerned = new is None or (isinstance(new, PodInfo) and new.uid == queued.info.uid)
            return Strategy.AFTER_BACKOFF if concerned else Strategy.SKIP
        profile = queued.info.scheduler_name
        if profile not in self._registered:
            return Strategy.AFTER_BACKOFF
        strategy = Strategy.SKIP
        label, of_profiles = self._of(event)
        listeners = of_profiles.get(profile)
        if listeners is None:
            listeners = of_profiles[profile] = self._listeners(profile, event)
        for plugin, hints in listeners.items():
            if plugin not in rejectors:
                continue
            for hint in hints:
                if self._queues(plugin, label, hint, queued.info, old, new):
                    break
            else:
                continue
            if plugin in queued.pending:
                return Strategy.IMMEDIATELY
            strategy = Strategy.AFTER_BACKOFF
            if not queued.pending:
                break
        return strategy

    def _of(self, event: ClusterEvent) -> tuple[str, dict[str, dict[str, tuple[Hint | None, ...]]]]:
        """Return an event's label and listeners by profile; one event is judged for many pods."""
        last = self._last
        if last is None or last[0] is not event:
            last = self._last = event, event.label, {}
        return last[1], last[2]

    def _queues(
        self, plugin: str, label: str, hint: Hint | None, pod: PodInfo, old: object, new: object
    ) -> bool:
        result = _QUEUE
        watch = self._watch
        start = 0.0 if watch is None else watch.timer()
        if hint is not None:
            try:
                result = _SKIP if hint(pod, old, new) is QueueingHint.SKIP else _QUEUE
            except PluginError:
                result = ERROR
            if watch is not None:
                watch.tell(plugin, label, result, watch.timer() - start)
        self.results[plugin, label, result] += 1
        return result != _SKIP

    def _listeners(self, profile: str, event: ClusterEvent) -> dict[str, tuple[Hint | None, ...]]:
        """Return the hints that a profile's plugins registered for an event, by plugin."""
        known = self._found.get((profile, event))
        if known is None:
            known = {}
            for plugin, wanted, hint in self._registered.get(profile, ()):
                if wanted.covers(event):
                    known[plugin] = (*known.get(plugin, ()), hint)
            self._found[profile, event] = known
        return known


NO_HINTS: Final = HintTable({})
