"""Pods that hold a node but wait for permission to be bound.

A waiting pod waits for one or more Permit plugins; when all have allowed it, it goes on; when one
rejects it or its time is up, it is undone. Time comes in from outside, as seconds of any clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policy_sched.framework.status import SUCCESS, Code, Status
from policy_sched.model.pod_info import PodInfo

#: No plugin may hold a pod for longer, in seconds (kube-scheduler's maxTimeout).
MAX_TIMEOUT: Final = 15 * 60.0


class WaitingPod:
    """One pod that Permit plugins told to wait; the plugins hold this object."""

    def __init__(self, pod: PodInfo, node: str, waits: dict[str, float], now: float) -> None:
        self.pod = pod
        self.node = node
        self.started = now
        self._deadlines = {
            plugin: now + min(timeout, MAX_TIMEOUT) for plugin, timeout in waits.items()
        }
        self._answer: Status | None = None

    @property
    def pending_plugins(self) -> tuple[str, ...]:
        """The plugins that have not allowed the pod yet, sorted."""
        return tuple(sorted(self._deadlines))

    def allow(self, plugin: str) -> None:
        """Take back the plugin's wait; the last one lets the pod go on."""
        self._deadlines.pop(plugin, None)
        if not self._deadlines and self._answer is None:
            self._answer = SUCCESS

    def reject(self, plugin: str, message: str) -> None:
        """Send the pod back; the first answer stands."""
        if self._answer is None:
            self._answer = Status(Code.UNSCHEDULABLE, (message,), plugin)

    def answer(self, now: float) -> Status | None:
        """Return Success, the rejection, the rejection for lateness, or None: still waiting."""
        if self._answer is None and self._deadlines:
            deadline, plugin = min((end, name) for name, end in self._deadlines.items())
            if now >= deadline:
                waited = seconds_text(deadline - self.started)
                self.reject(
                    plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}"
                )
        return self._answer


class WaitingPods:
    """All waiting pods, by UID, in the order in which they began to wait."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(tuple(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)

    def add(self, waiting: WaitingPod) -> None:
        """Keep a pod that begins to wait."""
        self._pods[waiting.pod.uid] = waiting

    def get(self, uid: str) -> WaitingPod | None:
        """Return the waiting pod with that UID, or None."""
        return self._pods.get(uid)

    def remove(self, uid: str) -> None:
        """The pod waits no longer."""
        self._pods.pop(uid, None)


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
