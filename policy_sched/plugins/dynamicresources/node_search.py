"""Runs the allocator for one pod on one node after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from policy_sched.framework import SUCCESS, Code, Handle, Status
from policy_sched.model import Node, ResourceClaim
from policy_sched.plugins.dynamicresources.allocator import Allocator, NodeError, Taken
from policy_sched.plugins.dynamicresources.binding_conditions import Readiness, readiness
from policy_sched.plugins.dynamicresources.devices import NodeView, selects
from policy_sched.plugins.dynamicresources.extended_resources import (
    ExtendedResourceError,
    ExtendedResources,
    Variant,
    variant_on,
)
from policy_sched.plugins.dynamicresources.gathered import UNRESOLVABLE, Gathered
from policy_sched.plugins.dynamicresources.pools import PoolError
from policy_sched.plugins.dynamicresources.requests import AllocationError, ClaimPlan
from policy_sched.plugins.dynamicresources.resource_claims import ResourceClaims, uid_of

NOT_AVAILABLE: Final = "resourceclaim not available on the node"


def _rejection(text: str) -> Status:
    return Status(UNRESOLVABLE, (text,))


_NOT_ALLOCATED: Final = _rejection("cannot allocate all claims")
_UNAVAILABLE: Final = _rejection(NOT_AVAILABLE)
_LATE: Final = "deadline exceeded"


@dataclass(slots=True)
class Found:
    """What a node gives: the claims that were to be allocated, each with its devices."""

    claims: list[ResourceClaim]
    taken: list[list[Taken]]
    variant: Variant | None = None


class NodeSearch:
    """Searches nodes; times are nanoseconds, and ``filter_timeout`` 0 is no limit."""

    def __init__(
        self,
        handle: Handle,
        claims: ResourceClaims,
        extended: ExtendedResources,
        filter_timeout: int,
        binding_timeout: int,
    ) -> None:
        self.handle = handle
        self.claims = claims
        self.extended = extended
        self.filter_timeout = filter_timeout
        self.binding_timeout = binding_timeout
        self.cancelled: Callable[[], str] = lambda: ""

    def begin(self, found: Gathered) -> PodSearch:
        """Begin to ask for a pod."""
        return PodSearch(self, found)


class PodSearch:
    """The search for one pod, on any node."""

    def __init__(self, search: NodeSearch, found: Gathered) -> None:
        self._search = search
        self._found = found
        self._table = search.handle.nodes
        self._state = search.claims.state
        self._now = search.handle.now() if found.clocked else 0
        self.unavailable: set[str] = set()
        """Takes the UIDs of allocated claims that keep the pod from a node."""

    def answer(self, row: int) -> Status:
        """Return Filter's status for a node."""
        node = self._table.nodes[row]
        assert node is not None, "only live rows are searched"
        view = NodeView(node.metadata.name, node.metadata.labels)
        try:
            got = self._allocate(node, view)
        except ExtendedResourceError as failure:
            return _rejection(str(failure))
        except AllocationError as error:
            return self._failure(view, error)
        if got is None:
            return _NOT_ALLOCATED
        if self._found.shape is not None and got.variant is None:
            self._search.claims.keep(self._found.shape, row, node, got)
        unusable = [claim for claim in self._found.user if not self._usable(claim, view)]
        if unusable:
            self.unavailable.update(map(uid_of, unusable))
            return _UNAVAILABLE
        return SUCCESS

    def _failure(self, view: NodeView, error: AllocationError) -> Status:
        if isinstance(error, NodeError):
            return _rejection(str(error))
        if error.stopped == _LATE:
            text = f"node {view.name}: timed out trying to allocate devices"
            return Status(Code.ERROR, (text,))
        if error.stopped:
            return _rejection(f"asked by caller to stop allocating devices: {error.stopped}")
        return Status(Code.ERROR, (str(error),))

    def find(self, row: int) -> Found | None:
        """Return what a node gives, None if it has not enough. Raises AllocationError."""
        node = self._table.nodes[row]
        assert node is not None, "a node was chosen"
        kept = self._search.claims.found.get(self._found.shape, {}).get(row)
        if kept is not None and kept[0] is node and isinstance(kept[1], Found):
            return Found([plan.claim for plan in self._found.plans], kept[1].taken)
        view = NodeView(node.metadata.name, node.metadata.labels)
        try:
            return self._allocate(node, view)
        except ExtendedResourceError:
            return None

    def names(self, row: int) -> list[frozenset[str]]:
        """Return of each of the user's claims the requests with devices on a node, in order.

        Raises AllocationError and ExtendedResourceError where the node does not suit.
        """
        found = self.find(row)
        fresh = iter([] if found is None else found.taken)
        names = []
        for claim in self._found.user:
            allocation = claim.status.allocation
            if allocation is not None:
                names.append(frozenset(one.request for one in allocation.devices.results))
            else:
                names.append(frozenset(one.request.full_name for one in next(fresh, [])))
        return names

    def keeping_from(self, rows: Sequence[int]) -> set[str]:
        """Return the UIDs of the allocated claims that some of these nodes cannot use."""
        found: set[str] = set()
        for row in rows:
            node = self._table.nodes[row]
            if node is not None:
                view = NodeView(node.metadata.name, node.metadata.labels)
                claims = (one for one in self._found.user if not self._usable(one, view))
                found.update(map(uid_of, claims))
        return found

    def _usable(self, claim: ResourceClaim, view: NodeView) -> bool:
        allocation = claim.status.allocation
        if allocation is None:
            return True
        if allocation.node_selector is not None and not selects(allocation.node_selector, view):
            return False
        if not self._found.clocked:
            return True
        state = readiness(claim, self._now, self._search.binding_timeout)
        return state in (Readiness.READY, Readiness.WAITING)

    def _allocate(self, node: Node, view: NodeView) -> Found | None:
        """Return what a node gives; None if nothing is found.

        Raises AllocationError, and ExtendedResourceError where extended resources cannot be served.
        """
        found = self._found
        plans, claims, special = found.plans, [plan.claim for plan in found.plans], None
        if found.special is not None:
            special = variant_on(node, found.special, found.pod, self._search.extended)
            if special is not None:
                plans = [*plans, self._plan(special.claim)]
                claims.append(special.claim)
        if not plans:
            return Found([], [], special)
        search = self._search
        try:
            pools = search.claims.slices.gather(view)
        except PoolError as error:
            raise AllocationError(f"gather pool information: {error}") from None
        try:
            taken = Allocator(view, pools, self._state, self._stop()).allocate(plans)
        except AllocationError:
            if not any(plan.borrowed for plan in plans):
                raise
            own = [self._plan(plan.claim) if plan.borrowed else plan for plan in plans]
            taken = Allocator(view, pools, self._state, self._stop()).allocate(own)
        return None if taken is None else Found(claims, taken, special)

    def _stop(self) -> Callable[[], str]:
        """Return why the search on a node is to end."""
        search = self._search
        if not search.filter_timeout:
            return search.cancelled
        now = search.handle.now
        deadline = now() + search.filter_timeout
        return lambda: search.cancelled() or (_LATE if now() > deadline else "")

    def _plan(self, claim: ResourceClaim) -> ClaimPlan:
        return ClaimPlan.of(claim, self._search.extended.device_class)
