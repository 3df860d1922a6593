"""Running pods that plugins evict from time to time: when they are looked at, and which of them go.

A plugin looks at the pods of its profile that are bound and not terminating. Disruption budgets
hold: of a budget's pods no more are evicted than its status allows, whichever plugin asks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from policy_sched.errors import ClusterError, PluginError
from policy_sched.framework import Evictions, Handle, PodToEvict
from policy_sched.language import RuleError
from policy_sched.model import PodDisruptionBudget, PodInfo
from policy_sched.preemption import budget_of
from policy_sched.scheduler import api_calls
from policy_sched.scheduler.attempt import Profile

LOG: Final = logging.getLogger(__name__)


class EvictionRound(msgspec.Struct, frozen=True):
    """A look at the running pods of a profile, on behalf of a plugin."""

    profile: str
    plugin: str
    rules: Evictions


def eviction_rounds(profiles: Mapping[str, Profile]) -> list[EvictionRound]:
    """Return the looks that plugins of these profiles ask for; one that fails asks for none."""
    looks = []
    for name, profile in profiles.items():
        for hook in profile.pipeline.at("evictions"):
            try:
                rules = profile.runner.call("evictions", hook)
            except PluginError as error:
                LOG.warning("%s", error)
                continue
            if rules is not None:
                looks.append(EvictionRound(name, hook.plugin, rules))
    return looks


class EvictionTimes:
    """When the next look of each plugin is due.

    The first one follows a whole interval after the plugin was seen, so that a start, a change of
    leader and a reload evict nothing at once.
    """

    def __init__(self) -> None:
        self._due: dict[tuple[str, str], int] = {}
        self.next: int | None = None
        """When the next look is due, in ns since 1970; None without one."""

    def take(self, profiles: Mapping[str, Profile], now: int) -> list[EvictionRound]:
        """Return the looks that are due, and set the times of the next ones."""
        due, times = [], {}
        for look in eviction_rounds(profiles):
            key, later = (look.profile, look.plugin), now + look.rules.every
            at = min(self._due.get(key, later), later)
            if at <= now:
                due.append(look)
            times[key] = later if at <= now else at
        self._due, self.next = times, min(times.values(), default=None)
        return due


def candidates(
    look: EvictionRound, pods: Iterable[PodInfo], handle: Handle
) -> Iterator[PodToEvict | RuleError]:
    """Yield the pods that may go, in any order, and why others cannot be judged."""
    for pod in pods:
        node = pod.node_name
        if not node or pod.terminating or pod.scheduler_name != look.profile:
            continue
        if handle.cache.node_of(pod.uid) != node:
            continue  # it is gone by now
        try:
            victim = look.rules.judge(pod, node)
        except RuleError as error:
            yield error
        except PluginError as error:
            yield RuleError(str(error))
        except ClusterError:
            continue  # its node is gone
        else:
            if victim is not None:
                yield victim


def in_turn(victims: Iterable[PodToEvict], handle: Handle) -> Iterator[PodToEvict]:
    """Yield pods that go, the first one first, as far as disruption budgets allow.

    A pod counts for its budgets as soon as it is yielded.
    """
    budgets = [
        budget
        for item in handle.objects.of(PodDisruptionBudget)
        if (budget := budget_of(item)) is not None
    ]
    left: dict[int, int] = {}

    def order(victim: PodToEvict) -> tuple[object, ...]:
        pod = victim.pod
        return victim.key, pod.priority, -(pod.start_time or 0), pod.key

    for victim in sorted(victims, key=order):
        covering = [i for i, budget in enumerate(budgets) if budget.covers(victim.pod)]
        if all(left.get(i, budgets[i].allowed) > 0 for i in covering):
            for i in covering:
                left[i] = left.get(i, budgets[i].allowed) - 1
            yield victim


def evict(
    victim: PodToEvict,
    look: EvictionRound,
    handle: Handle,
    done: Callable[[ClusterError | None], None],
) -> None:
    """Evict a pod, and record an event.

    ``done`` is called with the error, or None once it goes.
    """

    def responded(_: object, error: ClusterError | None) -> None:
        if error is None:
            note = victim.note or f"Evicted by policy {look.plugin}"
            api_calls.record_event(handle, victim.pod, "Normal", "Evicted", "Evicting", note)
        done(error)

    handle.client.send(api_calls.pod_eviction(victim.pod), responded)
