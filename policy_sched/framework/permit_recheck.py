"""Evaluates Permit again for waiting pods when the result may have changed.

Theory of operation. A Permit plugin that returns Wait may also return a function that evaluates
again. Pods that wait for the same condition, such as the members of a group, share a topic. The
topic's version changes when anything that the results depend on changes, so an unchanged topic
costs one comparison, however many pods wait.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from policy_sched.errors import PluginError
from policy_sched.framework.status import Code, Status

if TYPE_CHECKING:
    from policy_sched.framework.waiting_pods import WaitingPod

Ask = Callable[[], Status]


@dataclass(frozen=True, slots=True)
class PermitCondition:
    """A function that evaluates Permit again, and the version it depends on.

    ``version``: equal values mean that no answer of the ``topic`` has changed. ``alike``: the
    answer is the same for every pod of the topic.
    """

    ask: Ask
    topic: Hashable
    version: Callable[[], Hashable]
    alike: bool = False

    def __call__(self) -> Status:
        """Return the plugin's answer."""
        return self.ask()


@dataclass(slots=True)
class _Topic:
    version: Hashable = None
    pods: dict[str, tuple[WaitingPod, str, Ask]] = field(default_factory=dict)


class PermitRechecker:
    """The waiting pods whose Permit plugins can be evaluated again."""

    def __init__(self) -> None:
        self._topics: dict[Hashable, _Topic] = {}

    def add(self, waiting: WaitingPod) -> None:
        """Add a pod that begins to wait."""
        for plugin, ask in waiting.again.items():
            topic = self._topics.setdefault(_topic(plugin, ask), _Topic())
            topic.pods[waiting.pod.uid] = (waiting, plugin, ask)

    def remove(self, waiting: WaitingPod) -> None:
        """Drop a pod that waits no longer."""
        for plugin, ask in waiting.again.items():
            key = _topic(plugin, ask)
            topic = self._topics.get(key)
            if topic is not None:
                topic.pods.pop(waiting.pod.uid, None)
                if not topic.pods:
                    del self._topics[key]

    def ask(self) -> None:
        """Evaluate the pods of every topic whose version has changed."""
        for topic in tuple(self._topics.values()):
            _, _, ask = next(iter(topic.pods.values()))
            alike = False
            if isinstance(ask, PermitCondition):
                version = ask.version()
                if version == topic.version:
                    continue
                topic.version, alike = version, ask.alike
            for waiting, plugin, again in tuple(topic.pods.values()):
                if waiting.answered or plugin not in waiting.pending_plugins:
                    continue
                try:
                    status = again()
                except PluginError as error:
                    status = Status(Code.ERROR, (str(error),))
                if status.ok:
                    waiting.allow(plugin)
                elif status.code is not Code.WAIT:
                    waiting.reject(plugin, status.message())
                elif alike:
                    break


def asked_of(again: Ask) -> Ask:
    """Return the function that answers, by itself."""
    return again.ask if isinstance(again, PermitCondition) else again


def asking(again: Ask, ask: Ask) -> Ask:
    """Return ``again`` with another function that answers."""
    return replace(again, ask=ask) if isinstance(again, PermitCondition) else ask


def _topic(plugin: str, ask: Ask) -> Hashable:
    return (plugin, ask.topic) if isinstance(ask, PermitCondition) else plugin
