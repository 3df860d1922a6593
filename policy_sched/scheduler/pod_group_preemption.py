"""Workload-aware preemption: which pods are evicted so that a whole pod group fits.

Theory of operation. All pods of a lower priority than the group's are taken off their nodes, all
over the cluster, and the default algorithm decides the group. If it fits, one unit after the other
is put back, and taken off again if the group does not fit beside it. What is left are the victims.
In the end all pods are on their nodes again. The trials run no PostFilter plugins, and a group
fits as soon as its gang has enough pods: victims make room for so many only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec.structs import replace

from policy_sched.cluster import TakenOff
from policy_sched.framework import Code, Handle, Status
from policy_sched.model import PodGroup, PodInfo
from policy_sched.preemption import Unit, in_order_of_reprieve, units_below
from policy_sched.scheduler import placement_search
from policy_sched.scheduler.attempt import Attempt
from policy_sched.scheduler.eviction import DEFAULT_PREEMPTION
from policy_sched.scheduler.pod_group_algorithm import GroupTrial

NOT_REGISTERED: Final = (
    "default preemption plugin is not registered, workload aware preemption is disabled"
)
CONSTRAINED: Final = (
    "workload aware preemption is not supported for pod groups with scheduling constraints"
)
NEVER: Final = "not eligible due to preemptionPolicy=Never."
NO_VICTIMS: Final = "No preemption victims found for incoming preemptor"


def with_victims(
    plan: placement_search.GroupPlan, handle: Handle, placements: placement_search.Domains | None
) -> placement_search.GroupPlan:
    """Return the plan of a group that does not fit with the victims that make room for it.

    Or with the reason why none do, behind its own. ``placements``: those that the group may go to;
    None: the nodes are not parted.
    """
    pod, profile = plan.attempts[0].queued.info, plan.attempts[0].profile
    if all(hook.plugin != DEFAULT_PREEMPTION for hook in profile.pipeline.at("post_filter")):
        return _refused(plan, NOT_REGISTERED)
    group = handle.objects.named(PodGroup, pod.namespace, pod.pod_group)
    if group is None:
        text = f'failed to get pod group object: podgroup "{pod.pod_group}" not found'
        return replace(plan, status=Status(Code.ERROR, (text,)))
    if group.topology_key:
        return _refused(plan, CONSTRAINED)
    if any(attempt.queued.info.preemption_policy == "Never" for attempt in plan.attempts):
        return _refused(plan, NEVER)
    units = units_below(handle.cache, handle.objects, group.priority, handle.now())
    if not units:
        return _refused(plan, NO_VICTIMS)
    victims = _search(plan.attempts, units, handle, placements)
    if isinstance(victims, Status):
        if victims.code is Code.ERROR:
            return replace(plan, status=victims)
        return _refused(plan, victims.message())
    shown = next(iter(plan.tried))
    return replace(plan, best=shown, victims=victims)


def _refused(plan: placement_search.GroupPlan, text: str) -> placement_search.GroupPlan:
    status = Status(plan.status.code, (plan.status.message(), text))
    return replace(plan, status=status)


def _search(
    attempts: Sequence[Attempt],
    units: Sequence[Unit],
    handle: Handle,
    placements: placement_search.Domains | None,
) -> tuple[PodInfo, ...] | Status:
    """Return the victims, the most important one first; or why the group does not fit at all."""
    order = in_order_of_reprieve(handle.cache, handle.objects, units)
    with _taken_off(handle, units) as gone:
        status = _fits(attempts, gone, handle, placements)
        if not status.ok:
            return status
        for unit in order:
            before = gone.pop(id(unit))
            _put_back(before, handle)
            if not _fits(attempts, gone, handle, placements).ok:
                gone[id(unit)] = _take_off(unit, handle)
        return tuple(pod for unit in units if id(unit) in gone for pod in unit.pods)


def _fits(
    attempts: Sequence[Attempt],
    gone: dict[int, list[TakenOff]],
    handle: Handle,
    placements: placement_search.Domains | None,
) -> Status:
    """Return the status of the group as the cluster is now."""
    absent = tuple(off.info for taken in gone.values() for off in taken)
    trial = GroupTrial(handle, None, post_filter=False, absent=absent)
    fresh = [Attempt(attempt.queued, attempt.profile) for attempt in attempts]
    if placements is None:
        return placement_search.try_all_nodes(fresh, trial).status
    return placement_search.try_placements(fresh, placements, trial, None).status


@contextmanager
def _taken_off(handle: Handle, units: Iterable[Unit]) -> Iterator[dict[int, list[TakenOff]]]:
    """Take the pods of all units off their nodes; those still gone in the end are put back."""
    gone = {id(unit): _take_off(unit, handle) for unit in units}
    try:
        yield gone
    finally:
        for taken in gone.values():
            _put_back(taken, handle)


def _take_off(unit: Unit, handle: Handle) -> list[TakenOff]:
    return [handle.cache.take_off(pod.uid) for pod in unit.pods]


def _put_back(taken: Iterable[TakenOff], handle: Handle) -> None:
    for off in taken:
        handle.cache.put_back(off)
