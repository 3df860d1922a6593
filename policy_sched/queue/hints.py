"""Hints: which plugins registered for which events, and whether an event is worth an attempt.

Theory of operation. A plugin names the events that may help a pod which it rejected, each with a
hint: a function of the pod and the object before and after. Only the hints of plugins that rejected
the pod run, and one run holds for all pods that the hint cannot distinguish
(`ClusterEventWithHint.alike`). A hint that fails counts as "queue": better one attempt too many
than a pod that is forgotten. What a Pending plugin waits for has happened when its hint returns
"queue", so that pod pays no backoff. A table is never changed; after a reload the queue gets
another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final, TypeAlias

import msgspec

from policy_sched.errors import PluginError
from policy_sched.model import ClusterEvent, ClusterEventWithHint, PodInfo, QueuedPod, QueueingHint
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


_LATER: Final = Strategy.AFTER_BACKOFF
_IMMEDIATELY: Final = Strategy.IMMEDIATELY
Listeners: TypeAlias = dict[str, tuple[ClusterEventWithHint, ...]]
"""By plugin: what it registered for that covers an event."""
Observe: TypeAlias = Callable[[str, str, str, float], None]
"""Called after a hint ran: plugin, event label, result, seconds."""


class HintWatch(msgspec.Struct, frozen=True):
    """Callback for the durations of queueing hints; ``timer`` returns seconds."""

    observe: Observe
    timer: Callable[[], float]


class HintTable:
    """The events and hints of all plugins; ``results`` counts (plugin, event label, result)."""

    def __init__(self, registered: Registered) -> None:
        listed = {
            profile: {plugin: tuple(events) for plugin, events in plugins.items()}
            for profile, plugins in registered.items()
        }
        self._registered = listed
        self._timed = {
            profile: {
                plugin: timed
                for plugin, events in plugins.items()
                if (timed := [hint for hint in events if hint.every or hint.moment])
            }
            for profile, plugins in listed.items()
        }
        self._listening: dict[tuple[str, ClusterEvent], Listeners] = {}
        self._of_interest: dict[ClusterEvent, bool] = {}
        self.results: Counter[tuple[str, str, str]] = Counter()
        self._watch: HintWatch | None = None

    @property
    def registered(self) -> Registered:
        """What the plugins registered for."""
        return self._registered

    def watch(self, observe: Observe, timer: Callable[[], float]) -> None:
        """Take the time of each hint from now on."""
        self._watch = HintWatch(observe, timer)

    def instead_of(self, other: HintTable) -> HintTable:
        """Return this table, with the other table's HintWatch."""
        self._watch = other._watch
        return self

    def concerns_any_plugin(self, event: ClusterEvent) -> bool:
        """Tell whether any plugin of any profile registered for the event."""
        concerned = self._of_interest.get(event)
        if concerned is None:
            concerned = event.wildcard or any(
                self._listeners(profile, event) for profile in self._registered
            )
            self._of_interest[event] = concerned
        return concerned

    def retry_at(self, queued: QueuedPod, now: int) -> int:
        """Return when a rejected pod is tried again by the time, ns since 1970; 0: never."""
        timed = self._timed.get(queued.info.scheduler_name)
        if not timed:
            return 0
        times = []
        for plugin in queued.rejected_by | queued.pending:
            for hint in timed.get(plugin, ()):
                if hint.every:
                    times.append(now + hint.every)
                if hint.moment is not None and (moment := hint.moment(queued)):
                    times.append(moment)
        return min(times, default=0)

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
        for _, strategy in self.judge_group([queued], event, old, new):
            return strategy
        return Strategy.SKIP

    def judge_group(
        self, group: Sequence[QueuedPod], event: ClusterEvent, old: object, new: object
    ) -> Iterator[tuple[QueuedPod, Strategy]]:
        """Yield the pods that an event may help, with what is done with each.

        ``group``: pods of one profile that the same plugins rejected, and left pending.
        """
        if not group:
            return
        first = group[0]
        rejectors, profile = first.rejected_by | first.pending, first.info.scheduler_name
        if not rejectors or (profile not in self._registered and not event.wildcard):
            yield from ((queued, Strategy.AFTER_BACKOFF) for queued in group)
        elif event.wildcard:
            only = new.uid if isinstance(new, PodInfo) else None
            for queued in group:
                if new is None or queued.info.uid == only:  # an event of one pod wakes that one
                    yield queued, Strategy.AFTER_BACKOFF
        else:
            listeners = self._listeners(profile, event)
            called = {plugin: listeners[plugin] for plugin in listeners if plugin in rejectors}
            key_of = _key_of([hint for hints in called.values() for hint in hints])
            strategies: dict[Hashable, Strategy] = {}
            for queued in group:
                key = None if key_of is None else key_of(queued.info)
                strategy = strategies.get(key) if key_of is not None else None
                if strategy is None:
                    strategy = strategies[key] = self._judge_one(queued, called, event, (old, new))
                if strategy is not Strategy.SKIP:
                    yield queued, strategy

    def _judge_one(
        self,
        queued: QueuedPod,
        called: Listeners,
        event: ClusterEvent,
        objects: tuple[object, object],
    ) -> Strategy:
        """Run the hints of the plugins that rejected a pod until nothing better can come."""
        strategy, pending, label = Strategy.SKIP, queued.pending, event.label
        best = _IMMEDIATELY if pending else _LATER
        for plugin, hints in called.items():
            if self._queues(plugin, label, hints, queued.info, objects):
                strategy = max(strategy, _IMMEDIATELY if plugin in pending else _LATER)
                if strategy is best:
                    break
        return strategy

    def _queues(
        self,
        plugin: str,
        label: str,
        hints: Sequence[ClusterEventWithHint],
        pod: PodInfo,
        objects: tuple[object, object],
    ) -> bool:
        """Run the hints of one plugin until one of them returns "queue"."""
        results, watch = self.results, self._watch
        for hint in hints:
            if hint.hint is None:
                results[plugin, label, _QUEUE] += 1
                return True
            start = 0.0 if watch is None else watch.timer()
            try:
                result = _SKIP if hint.hint(pod, *objects) is QueueingHint.SKIP else _QUEUE
            except PluginError:
                result = ERROR
            if watch is not None:
                watch.observe(plugin, label, result, watch.timer() - start)
            results[plugin, label, result] += 1
            if result is not _SKIP:
                return True
        return False

    def _listeners(self, profile: str, event: ClusterEvent) -> Listeners:
        """Return what a profile's plugins registered for an event, by plugin."""
        listeners = self._listening.get((profile, event))
        if listeners is None:
            listeners = {}
            for plugin, events in self._registered.get(profile, {}).items():
                covering = tuple(hint for hint in events if hint.event.covers(event))
                if covering:
                    listeners[plugin] = covering
            self._listening[profile, event] = listeners
        return listeners


def _key_of(hints: Sequence[ClusterEventWithHint]) -> Callable[[PodInfo], Hashable] | None:
    """Return a key of pods for which these hints return the same; None if all differ."""
    keys: list[Callable[[PodInfo], Hashable]] = []
    for hint in hints:
        if hint.hint is not None:
            if hint.alike is None:
                return None
            keys.append(hint.alike)
    if len(keys) == 1:
        return keys[0]
    return lambda pod: tuple([key(pod) for key in keys])
