"""The kinds of objects that compiled profiles read: what a scheduler watches, and no more.

A watch of a kind that nothing reads costs memory, and where the server does not serve the kind, a
refused request each minute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from policy_sched.language import CompiledPolicy
from policy_sched.model import KINDS, CoschedulingGroup as Coscheduling, Kind, PodGroup
from policy_sched.profiles.build.pipeline import CompiledPlan
from policy_sched.profiles.models import GENERIC_WORKLOAD, PLUGIN_POINTS, PLUGIN_READS

_ALWAYS: Final = frozenset({("v1", "Node"), ("v1", "Namespace"), ("v1", "Pod")})
_GROUP: Final = frozenset(kind for kind, struct in KINDS.items() if struct is PodGroup)
_GROUPS: Final = _GROUP | {kind for kind, struct in KINDS.items() if struct is Coscheduling}
_DEVICE_FACTS: Final = frozenset(
    {"allocation", "devices", "deviceAllocatable", "deviceRequested", "deviceResources"}
)


def kinds_read(plans: Sequence[CompiledPlan]) -> frozenset[Kind]:
    """Return the kinds that the profiles read; a foreign plugin and a hint may read all."""
    return _ALWAYS.union(*(kinds for ready in plans for kinds in _of_profile(ready)))


def reads_pod_groups(plans: Sequence[CompiledPlan]) -> bool:
    """Return whether a feature gate, a policy or a foreign plugin may read PodGroups."""
    return not _GROUP.isdisjoint(kinds_read(plans))


def _of_profile(ready: CompiledPlan) -> Iterator[frozenset[Kind]]:
    plan = ready.plan
    for name in plan.plugins:
        if name not in PLUGIN_POINTS and name not in ready.policies:
            yield frozenset(KINDS)
        elif name != "PodTopologySpread" or _has_defaults(plan.args.get(name, {})):
            yield PLUGIN_READS.get(name, frozenset())
    if GENERIC_WORKLOAD in plan.feature_gates:
        yield _GROUP
    yield from map(_of_policy, ready.policies.values())


def _has_defaults(args: object) -> bool:
    """Return whether PodTopologySpread has constraints that need a pod's services and owner."""
    assert isinstance(args, dict)
    return args.get("defaultingType", "System") == "System" or bool(args.get("defaultConstraints"))


def _of_policy(policy: CompiledPolicy) -> frozenset[Kind]:
    if policy.life.hint is not None:
        return frozenset(KINDS)
    reads = policy.all_reads
    found: frozenset[Kind] = frozenset()
    if any(path[:1] == ("podGroup",) for path in reads.pod):
        found |= _GROUPS
    if not reads.node.isdisjoint(_DEVICE_FACTS):
        found |= PLUGIN_READS["DynamicResources"]
    return found
