"""What differs between two compiled sets of policies, as far as the scheduler has to act on it.

Plugins are compared by content: a policy by its texts and parameters, a Python plugin by its
arguments. A rejection is void if its plugin was removed or changed; an added plugin can only
reject more pods, and a score never makes a pod schedulable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from policy_sched.profiles.build.compile import PluginHash
from policy_sched.profiles.build.pipeline import CompiledPlan
from policy_sched.profiles.models import DEFAULT_PLUGINS, KubeSchedulerConfiguration

REJECTING: Final = (
    *("preEnqueue", "preFilter", "filter", "placementGenerate"),
    *("reserve", "permit", "preBind", "bind"),
)
"""Points whose plugins can reject a pod; postFilter runs for rejections of every plugin."""

_NO_ARGS: Final = PluginHash("", "")
"""Of a plugin that takes no arguments."""

GATING: Final = ("preEnqueue",)

RESTART: Final = (
    "leader_election",
    "client_connection",
    "enable_profiling",
    "enable_contention_profiling",
    "delay_cache_until_active",
    "pod_initial_backoff_seconds",
    "pod_max_backoff_seconds",
    "feature_gates",
)
"""Settings that take effect only after a restart."""


class PlanDiff(msgspec.Struct, frozen=True):
    """What a new set changes; profiles by schedulerName, sorted."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    """Names of the policies that were added, removed or changed."""
    gone: tuple[str, ...] = ()
    """Policies that no profile has any more."""
    filters: tuple[str, ...] = ()
    """Profiles whose filters or other rejecting plugins differ."""
    gates: tuple[str, ...] = ()
    """Profiles whose PreEnqueue plugins differ."""
    queue_sort: bool = False
    void: Mapping[str, frozenset[str] | None] = msgspec.field(default_factory=dict)
    """By profile, the plugins whose rejections may not hold any more; None: all plugins."""

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def helps(self, profile: str, rejected_by: Iterable[str]) -> bool:
        """May a pod of the profile, that these plugins rejected, be accepted now?

        A pod without rejecting plugins met an error: it may.
        """
        if profile not in self.void:
            return False
        names = self.void[profile]
        rejectors = frozenset(rejected_by)
        return names is None or not rejectors or not names.isdisjoint(rejectors)


def diff_plans(old: Sequence[CompiledPlan], new: Sequence[CompiledPlan]) -> PlanDiff:
    """Return what differs between two sets."""
    before = {ready.plan.scheduler_name: ready for ready in old}
    after = {ready.plan.scheduler_name: ready for ready in new}
    both = sorted(before.keys() & after.keys())
    changed = [n for n in both if before[n].content_hash != after[n].content_hash]
    if [n for n in before if n in after] != [n for n in after if n in before]:
        # All profiles use the first one's queue sort.
        changed = both
    pairs = {name: (before[name], after[name]) for name in changed}
    void = {name: _void(*pair) for name, pair in pairs.items()}
    return PlanDiff(
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        changed=tuple(changed),
        policies=_policies(before.values(), after.values()),
        gone=tuple(sorted(policy_names(old) - policy_names(new))),
        filters=_differing(pairs, REJECTING),
        gates=_differing(pairs, GATING),
        queue_sort=_queue_sort(old[0], new[0]),
        void={name: names for name, names in void.items() if names is None or names},
    )


def policy_names(plans: Iterable[CompiledPlan]) -> frozenset[str]:
    """Return the names of the policies that decide, the shipped default ones left out."""
    names = {name for ready in plans for name in ready.policies}
    return frozenset(names - {name for name, _ in DEFAULT_PLUGINS})


def restarts_between(
    old: KubeSchedulerConfiguration, new: KubeSchedulerConfiguration
) -> tuple[str, ...]:
    """Return the settings that differ and wait for a restart, as the file spells them."""
    fields = type(old).model_fields
    return tuple(
        fields[name].alias or name for name in RESTART if getattr(old, name) != getattr(new, name)
    )


def _void(old: CompiledPlan, new: CompiledPlan) -> frozenset[str] | None:
    if old.plan.extenders != new.plan.extenders or _differ(old, new, ("postFilter",)):
        return None
    before, after = _names(old, REJECTING), _names(new, REJECTING)
    return (before - after) | {n for n in before & after if not _same(old, new, n)}


def _differing(
    pairs: Mapping[str, tuple[CompiledPlan, CompiledPlan]], points: Iterable[str]
) -> tuple[str, ...]:
    """Return the profiles whose plugins differ at the points."""
    return tuple(name for name, (old, new) in pairs.items() if _differ(old, new, points))


def _differ(old: CompiledPlan, new: CompiledPlan, points: Iterable[str]) -> bool:
    names = _names(old, points)
    return names != _names(new, points) or not all(_same(old, new, name) for name in names)


def _names(ready: CompiledPlan, points: Iterable[str]) -> frozenset[str]:
    """Return the plugins at the points."""
    enabled = ready.plan.points
    return frozenset(name for point in points for name, _ in enabled.get(point, ()))


def _same(old: CompiledPlan, new: CompiledPlan, name: str) -> bool:
    """Is a plugin the same in both, scores left out?"""
    return _hash(old, name).rejecting == _hash(new, name).rejecting


def _hash(ready: CompiledPlan, name: str) -> PluginHash:
    return ready.hashes.get(name, _NO_ARGS)


def _queue_sort(old: CompiledPlan, new: CompiledPlan) -> bool:
    """Is the queue ordered by something else? The first profile's plugin orders it."""
    names = _names(old, ("queueSort",))
    return names != _names(new, ("queueSort",)) or any(
        _hash(old, name).whole != _hash(new, name).whole for name in names
    )


def _policies(old: Iterable[CompiledPlan], new: Iterable[CompiledPlan]) -> tuple[str, ...]:
    """Return the names of the policies that were added, removed or changed."""
    before, after = (
        {(name, ready.hashes[name].whole) for ready in plans for name in ready.policies}
        for plans in (old, new)
    )
    return tuple(sorted({name for name, _ in before ^ after}))
