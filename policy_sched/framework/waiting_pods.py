"""Pods that hold a node but are not bound: they wait for permission, or for their PreBind.

Theory of operation. A waiting pod waits for one or more Permit plugins; when all have allowed it,
it continues; when one rejects it or its time is up, it is undone. Both kinds can be preempted
without a word to the API server. Times are nanoseconds since 1970, time-outs are seconds.

A Permit plugin that returns Wait may also return a function that evaluates again. Pods that wait
for the same condition share a topic. The topic's version changes when anything that the results
depend on changes, so an unchanged topic costs one comparison, however many pods wait. Where they
depend on the pod's group, those of groups that changed are evaluated, however many groups wait.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import replace

from policy_sched.cluster import WatchedGroups
from policy_sched.errors import PluginError
from policy_sched.framework.status import SUCCESS, Code, PendingStatus, Status
from policy_sched.model import SECOND, GroupKey, PodInfo

Permit = Callable[[], Status]


class PermitCondition(msgspec.Struct, frozen=True):
    """A function that evaluates Permit again, and what it depends on.

    ``version``: equal values mean that no status of the ``topic`` has changed; where there is a
    ``group``, only those of its pods whose group has. ``alike``: the status is the same for every
    pod of the topic, and of the group.
    """

    permit: Permit
    topic: Hashable
    version: Callable[[], Hashable]
    alike: bool = False
    group: GroupKey | None = None

    def __call__(self) -> Status:
        """Return the plugin's status."""
        return self.permit()


_Waiting: TypeAlias = dict[str, tuple["WaitingPod", str, Permit]]
"""By UID pods with the plugin that they wait for, and how it is asked again."""


@dataclass(slots=True)
class _Topic:
    """The pods of a topic, by their group."""

    version: Hashable = None
    groups: dict[GroupKey | None, _Waiting] = field(default_factory=dict)


class PermitRechecker:
    """The waiting pods whose Permit plugins can be evaluated again."""

    def __init__(self) -> None:
        self._topics: dict[Hashable, _Topic] = {}

    def add(self, waiting: WaitingPod) -> None:
        """Add a pod that begins to wait."""
        for plugin, again in waiting.again.items():
            name, group = _topic(plugin, again)
            pods = self._topics.setdefault(name, _Topic()).groups.setdefault(group, {})
            pods[waiting.pod.uid] = (waiting, plugin, again)

    def remove(self, waiting: WaitingPod) -> None:
        """Drop a pod that waits no longer."""
        for plugin, again in waiting.again.items():
            name, group = _topic(plugin, again)
            if name in self._topics and group in self._topics[name].groups:
                self._topics[name].groups[group].pop(waiting.pod.uid, None)
                self._tidy(name, group)

    def _tidy(self, name: Hashable, group: GroupKey | None) -> None:
        """Drop a group without pods, and a topic without groups."""
        groups = self._topics[name].groups
        if not groups[group]:
            del groups[group]
        if not groups:
            del self._topics[name]

    def recheck(self, changed: Collection[GroupKey]) -> None:
        """Evaluate the pods of every topic whose version has changed, and those of some groups.

        What a plugin has allowed, and what has ended, is not looked at again.
        """
        for name, topic in tuple(self._topics.items()):
            groups: Iterable[GroupKey | None] = topic.groups
            _, _, condition = next(iter(next(iter(topic.groups.values())).values()))
            if isinstance(condition, PermitCondition):
                version = condition.version()
                if version == topic.version:
                    groups = [key for key in changed if key in topic.groups]
                topic.version = version
            for group in tuple(groups):
                self._recheck_group(topic.groups[group])
                self._tidy(name, group)

    def _recheck_group(self, pods: _Waiting) -> None:
        over = []
        for uid, (waiting, plugin, again) in pods.items():
            if waiting.ended or plugin not in waiting.pending_plugins:
                over.append(uid)
                continue
            try:
                status = again()
            except PluginError as error:
                status = Status(Code.ERROR, (str(error),))
            if status.ok:
                waiting.allow(plugin)
            elif status.code is not Code.WAIT:
                waiting.reject(plugin, status.message())
            elif isinstance(again, PermitCondition) and again.alike:
                break
        for uid in over:
            del pods[uid]


def permit_of(again: Permit) -> Permit:
    """Return the function that evaluates Permit, by itself."""
    return again.permit if isinstance(again, PermitCondition) else again


def with_permit(again: Permit, permit: Permit) -> Permit:
    """Return ``again`` with another function that evaluates Permit."""
    return replace(again, permit=permit) if isinstance(again, PermitCondition) else permit


def _topic(plugin: str, again: Permit) -> tuple[Hashable, GroupKey | None]:
    """Return the topic and the group of a condition."""
    if isinstance(again, PermitCondition):
        return (plugin, again.topic), again.group
    return plugin, None


#: No plugin may hold a pod for longer, in seconds (kube-scheduler's maxTimeout).
MAX_TIMEOUT: Final = 15 * 60.0


class WaitingPod:
    """One pod that waits for Permit plugins; the plugins hold this object.

    ``waits``: the plugins with their time-outs, which count from ``now``. ``again``: functions
    that plugins would answer with when they run again: Success allows, a rejection rejects, Wait
    waits on.
    """

    polled = False

    def __init__(
        self,
        pod: PodInfo,
        node: str,
        waits: Mapping[str, float],
        now: int,
        again: Mapping[str, Callable[[], Status]] | None = None,
    ) -> None:
        self.pod = pod
        self.node = node
        self.started = now
        self.wake: Callable[[], None] | None = None
        self._status: Status | None = None
        self.wait_for(waits, again or {}, ())

    def wait_for(
        self,
        waits: Mapping[str, float],
        again: Mapping[str, Callable[[], Status]],
        reasons: Sequence[str],
    ) -> None:
        """Wait for other plugins than before; the time that has passed counts."""
        self.reasons = tuple(reasons)
        self.again = dict(again)
        self._deadlines = {
            plugin: self.started + round(min(timeout, MAX_TIMEOUT) * SECOND)
            for plugin, timeout in waits.items()
        }
        if self.wake is not None:
            self.wake()

    @property
    def pending_plugins(self) -> tuple[str, ...]:
        """The plugins that have not allowed the pod yet, sorted."""
        return tuple(sorted(self._deadlines))

    @property
    def ended(self) -> bool:
        """Whether the pod was allowed or rejected."""
        return self._status is not None

    @property
    def deadline(self) -> int | None:
        """When the first plugin's time is up; None if no plugin is waited for."""
        return min(self._deadlines.values(), default=None)

    def allow(self, plugin: str) -> None:
        """Take back the plugin's wait; the last one lets the pod go on."""
        self._deadlines.pop(plugin, None)
        if not self._deadlines:
            self._end(SUCCESS)

    def reject(self, plugin: str, message: str) -> None:
        """Reject the pod; later results are ignored."""
        self._end(Status(Code.UNSCHEDULABLE, (message,), plugin))

    def preempt(self, plugin: str, message: str) -> None:
        """Send the pod back to be tried anew, as nothing is wrong with it; see `reject`."""
        self._end(Status(Code.ERROR, (f"waiting on permit for pod: {message}",), plugin))

    def allow_all(self) -> None:
        """Let the pod go on, whatever it waits for."""
        self._end(SUCCESS)

    def _end(self, status: Status) -> None:
        if self._status is None:
            self._status = status
            if self.wake is not None:
                self.wake()

    def status_at(self, now: int) -> Status | None:
        """Return Success, the rejection, the rejection for lateness, or None: still waiting."""
        if self._status is None and self._deadlines:
            deadline, plugin = min((end, name) for name, end in self._deadlines.items())
            if now >= deadline:
                waited = seconds_text((deadline - self.started) / SECOND)
                self.reject(
                    plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}"
                )
        return self._status


class WaitingPods:
    """All waiting pods by UID, in the order in which they began to wait.

    ``pre_binding``: by UID the work of PreBind plugins that can still be called off. ``watched``:
    the groups of waiting pods; it is told of each change of a group.
    """

    def __init__(self) -> None:
        self.pods: dict[str, WaitingPod] = {}
        """The waiting pods by UID; to be read only."""
        self._groups: dict[GroupKey, dict[str, WaitingPod]] = {}
        self._rechecker = PermitRechecker()
        self.watched = WatchedGroups()
        self.pre_binding: dict[str, PendingStatus] = {}

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(tuple(self.pods.values()))

    def __len__(self) -> int:
        return len(self.pods)

    def add(self, waiting: WaitingPod) -> None:
        """Keep a pod that begins to wait."""
        pod = waiting.pod
        self.pods[pod.uid] = waiting
        if pod.pod_group:
            key = (pod.namespace, pod.pod_group)
            self._groups.setdefault(key, {})[pod.uid] = waiting
            self.watched.watch(key, 1)
        self._rechecker.add(waiting)

    def get(self, uid: str) -> WaitingPod | None:
        """Return the waiting pod with that UID, or None."""
        return self.pods.get(uid)

    def remove(self, uid: str) -> None:
        """The pod waits no longer."""
        waiting = self.pods.pop(uid, None)
        if waiting is None:
            return
        self._rechecker.remove(waiting)
        key = (waiting.pod.namespace, waiting.pod.pod_group)
        group = self._groups.get(key)
        if group is not None:
            del group[uid]
            self.watched.watch(key, -1)
            if not group:
                del self._groups[key]

    def wait_for(
        self,
        waiting: WaitingPod,
        waits: Mapping[str, float],
        again: Mapping[str, Callable[[], Status]],
        reasons: Sequence[str],
    ) -> None:
        """Have a waiting pod wait for other plugins; see `WaitingPod.wait_for`."""
        self._rechecker.remove(waiting)
        waiting.wait_for(waits, again, reasons)
        self._rechecker.add(waiting)

    def of_group(self, key: GroupKey) -> dict[str, WaitingPod]:
        """Return the waiting pods of a pod group, by UID; to be read only."""
        return self._groups.get(key, {})

    def preempt(self, uid: str, plugin: str) -> bool:
        """Send a pod back for a more important one; False if it neither waits nor pre-binds."""
        waiting = self.pods.get(uid)
        if waiting is not None:
            waiting.preempt(plugin, "preempted")
            return True
        work = self.pre_binding.get(uid)
        if work is not None:
            work.finish(Status(Code.ERROR, (f"preempted by {plugin}",)))
            return True
        return False

    def recheck(self) -> None:
        """Permit the plugins of waiting pods again for which something has changed."""
        self._rechecker.recheck(self.watched.take())


def seconds_text(seconds: float) -> str:
    """Return a duration as Go prints it: ``1m30s``, ``2.5s``, ``15m0s``, ``500ms``."""
    if seconds < 1:
        return f"{round(seconds * 1000):d}ms" if seconds else "0s"
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    text = f"{rest:.9f}".rstrip("0").rstrip(".") + "s"
    if hours:
        return f"{hours:.0f}h{minutes:.0f}m{text}"
    return f"{minutes:.0f}m{text}" if minutes else text
