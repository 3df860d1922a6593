"""What differs between two compiled sets of policies, as far as somebody has to act on it.

A profile's plugins are compared by what they say: a policy by its texts and parameters, a Python
plugin by its arguments. A rejection is void where the plugin that spoke it is gone, or says
something else now; a plugin that came can only reject more, and a score helps nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from policy_sched.language.sources import PolicySource
from policy_sched.profiles.build import CompiledPlan
from policy_sched.profiles.compile import content_hash
from policy_sched.profiles.models import KubeSchedulerConfiguration
from policy_sched.profiles.resolve import ProfilePlan

REJECTING: Final = ("preEnqueue", "preFilter", "filter", "reserve", "permit", "preBind", "bind")
"""Points whose plugins can turn a pod away; postFilter is asked about everybody's rejections."""

GATING: Final = ("preEnqueue",)

RESTART: Final = (
    "leader_election",
    "client_connection",
    "enable_profiling",
    "enable_contention_profiling",
    "delay_cache_until_active",
    "pod_initial_backoff_seconds",
    "pod_max_backoff_seconds",
)
"""Settings that count only from the next start."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What a new set changes; profiles by schedulerName, sorted.

    ``policies``: names of the policies that came, went or say something else. ``filters``:
    profiles whose filters or other rejecting plugins differ, ``gates`` those whose PreEnqueue
    plugins do. ``void``: by profile, the plugins whose rejections may not hold any more; None
    instead of names: everybody's.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    policies: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    queue_sort: bool = False
    void: Mapping[str, frozenset[str] | None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def helps(self, profile: str, rejected_by: Iterable[str]) -> bool:
        """May a pod of the profile, that these plugins rejected, be accepted now?

        A pod that nobody rejected met an error: it may.
        """
        if profile not in self.void:
            return False
        names = self.void[profile]
        rejectors = frozenset(rejected_by)
        return names is None or not rejectors or not names.isdisjoint(rejectors)


def changes_between(old: Sequence[CompiledPlan], new: Sequence[CompiledPlan]) -> Changes:
    """Return what differs between two sets."""
    before = {ready.plan.scheduler_name: ready for ready in old}
    after = {ready.plan.scheduler_name: ready for ready in new}
    both = sorted(before.keys() & after.keys())
    changed = [n for n in both if before[n].content_hash != after[n].content_hash]
    if [n for n in before if n in after] != [n for n in after if n in before]:
        # The first profile's queue sort is everybody's.
        changed = both
    pairs = {name: (before[name].plan, after[name].plan) for name in changed}
    void = {name: _void(*pair) for name, pair in pairs.items()}
    return Changes(
        added=tuple(sorted(after.keys() - before.keys())),
        removed=tuple(sorted(before.keys() - after.keys())),
        changed=tuple(changed),
        policies=_policies(before.values(), after.values()),
        filters=_differing(pairs, REJECTING),
        gates=_differing(pairs, GATING),
        queue_sort=_queue_sort(old) != _queue_sort(new),
        void={name: names for name, names in void.items() if names is None or names},
    )


def restarts_between(
    old: KubeSchedulerConfiguration, new: KubeSchedulerConfiguration
) -> tuple[str, ...]:
    """Return the settings that differ and wait for a restart, as the file spells them."""
    fields = type(old).model_fields
    return tuple(
        fields[name].alias or name for name in RESTART if getattr(old, name) != getattr(new, name)
    )


def _void(old: ProfilePlan, new: ProfilePlan) -> frozenset[str] | None:
    if old.extenders != new.extenders or _of(old, ("postFilter",)) != _of(new, ("postFilter",)):
        return None
    after = _of(new, REJECTING)
    return frozenset(name for name, says in _of(old, REJECTING).items() if after.get(name) != says)


def _differing(
    pairs: Mapping[str, tuple[ProfilePlan, ProfilePlan]], points: Iterable[str]
) -> tuple[str, ...]:
    """Return the profiles whose plugins say something else at the points."""
    return tuple(name for name, (old, new) in pairs.items() if _of(old, points) != _of(new, points))


def _of(plan: ProfilePlan, points: Iterable[str]) -> dict[str, str]:
    """Return the plugins at the points with a hash of what they say there, scores left out."""
    found: dict[str, str] = {}
    for point in points:
        for name, _ in plan.points.get(point, ()):
            if name not in found:
                found[name] = content_hash(_words(plan, name))
    return found


def _words(plan: ProfilePlan, name: str) -> object:
    source = plan.policies.get(name)
    if source is None:
        return plan.args.get(name, {})
    return replace(source, score=None, queue_sort=())


def _queue_sort(plans: Sequence[CompiledPlan]) -> str:
    """Return a hash of what orders the queue: the first profile's plugin."""
    plan = plans[0].plan
    names = [name for name, _ in plan.points.get("queueSort", ())]
    return content_hash([[name, plan.policies.get(name), plan.args.get(name)] for name in names])


def _policies(old: Iterable[CompiledPlan], new: Iterable[CompiledPlan]) -> tuple[str, ...]:
    before, after = _sources(old), _sources(new)
    names = sorted({name for name, _ in before ^ after})
    return tuple(names)


def _sources(plans: Iterable[CompiledPlan]) -> set[tuple[str, str]]:
    found: dict[int, tuple[PolicySource, str]] = {}
    for ready in plans:
        for name, source in ready.plan.policies.items():
            found[id(source)] = (source, name)
    return {(name, content_hash(source)) for source, name in found.values()}
