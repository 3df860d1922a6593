"""Handle: what a plugin may reach, given to it when its profile is built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from policy_sched.client import Client
from policy_sched.cluster import ApiObjects, Cache
from policy_sched.cluster.tables import NOMINATED, NodeTable, PodTable
from policy_sched.framework.attempt_budget import AttemptBudget
from policy_sched.framework.extender import Extender
from policy_sched.framework.pod_groups import PodGroups
from policy_sched.framework.waiting_pods import WaitingPods
from policy_sched.queue import Nominator

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Handle:
    """The scheduler as plugins see it.

    ``cache`` is read-only for plugins; its ``nodes`` are the columns that a filter evaluates.
    ``objects`` are the other API objects, by kind.
    ``now`` returns nanoseconds since the epoch, from whatever clock drives the scheduler.
    ``extenders`` are the services that take part in filtering, scoring, preemption and binding,
    now; a reload of policies may change them.
    ``groups`` counts the pods of each pod group.
    ``budget`` is what work that pods can make expensive is paid from.
    ``random`` is for plugins' choices among equals; its seed comes from the scheduler's.
    """

    cache: Cache
    waiting_pods: WaitingPods
    nominator: Nominator
    client: Client
    now: Callable[[], int]
    objects: ApiObjects = field(default_factory=ApiObjects)
    random: Random = field(default_factory=lambda: Random(0))  # noqa: S311 - no secret
    extenders: Sequence[Extender] = ()
    groups: PodGroups = field(init=False)
    budget: AttemptBudget = field(init=False)
    _shared: dict[Callable[[Any], Any], Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        """Count pod groups over what is here."""
        groups = PodGroups(self.cache, self.waiting_pods, self.objects)
        object.__setattr__(self, "groups", groups)
        aggregates, nominator = self.nodes.aggregates, self.nominator
        aggregates.now = self.now
        aggregates.join(
            NOMINATED,
            lambda: [(pod, node) for node, pods in nominator.nominated() for pod in pods],
            lambda: setattr(nominator, "told", aggregates.nominated),
        )
        object.__setattr__(self, "budget", AttemptBudget(self.now))

    def shared(self, make: Callable[[Handle], T]) -> T:
        """Return what all profiles' plugins have in common, made once by a class or function.

        It outlives reloads of policies.
        """
        if make not in self._shared:
            self._shared[make] = make(self)
        made: T = self._shared[make]
        return made

    @property
    def nodes(self) -> NodeTable:
        """The node table."""
        return self.cache.nodes

    @property
    def pods(self) -> PodTable:
        """The table of pods on nodes."""
        return self.cache.pods
