"""Runs the allocator for one pod on one node after another; `claim_columns` says on which."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec
import numpy as np

from policy_sched.framework import SUCCESS, Code, DeadlineExceeded, Handle, Status
from policy_sched.model import Node, ResourceClaim
from policy_sched.plugins.dynamicresources import extended_resources
from policy_sched.plugins.dynamicresources.allocator import (
    INVALID_POOLS,
    AllocatedDevice,
    Allocator,
    Candidate,
    NodeError,
    Offered,
)
from policy_sched.plugins.dynamicresources.binding import Readiness, readiness
from policy_sched.plugins.dynamicresources.claim_store import UNRESOLVABLE, ClaimStore
from policy_sched.plugins.dynamicresources.device_rules import DeviceRules, Ranking, Ratings
from policy_sched.plugins.dynamicresources.devices import NodeView, consumption, selects
from policy_sched.plugins.dynamicresources.pools import NodePools, PoolError
from policy_sched.plugins.dynamicresources.request_columns import RequestColumn, RequestColumns
from policy_sched.plugins.dynamicresources.requests import AllocationError, ClaimPlan, Request
from policy_sched.plugins.dynamicresources.resource_claims import ResourceClaims

NOT_AVAILABLE: Final = "resourceclaim not available on the node"


def rejection(text: str) -> Status:
    """Return the status of a node that pods with the claims cannot use."""
    return Status(UNRESOLVABLE, (text,))


NOT_ALLOCATED: Final = rejection("cannot allocate all claims")
UNAVAILABLE: Final = rejection(NOT_AVAILABLE)
INVALID: Final = rejection(INVALID_POOLS)
TIMED_OUT: Final = "timed out trying to allocate devices"


class NodeAllocation(msgspec.Struct):
    """What a node gives: the claims that were to be allocated, each with its devices."""

    claims: list[ResourceClaim]
    devices: list[list[AllocatedDevice]]
    variant: extended_resources.Variant | None = None


class NodeSearch:
    """Searches nodes; times are nanoseconds, and ``filter_timeout`` 0 is no limit.

    Upstream's filterTimeout is for one node: it looks at 16 at a time, and the first that times out
    ends the attempt. Here nodes come one after the other, so the same time is for all of them
    together: else an attempt on 1,000 nodes might take 1,000 times as long.
    """

    def __init__(
        self,
        handle: Handle,
        claims: ResourceClaims,
        extended: extended_resources.ExtendedResources,
        filter_timeout: int,
        binding_timeout: int,
        rules: DeviceRules | None = None,
    ) -> None:
        self.handle = handle
        self.claims = claims
        self.extended = extended
        self.filter_timeout = filter_timeout
        self.binding_timeout = binding_timeout
        self.budget = handle.budget
        self.row_of = handle.nodes.row_of
        self.requests = RequestColumns(
            claims.devices, claims.state, claims.selectors, handle.budget
        )
        self.rules = rules
        self.ratings = Ratings()
        self.cancelled: Callable[[], str] = lambda: ""

    def first(self, plan: ClaimPlan, column: RequestColumn, row: int) -> NodeAllocation | None:
        """Return the first devices for the only request of a claim; None if there are too few."""
        ((request,),) = plan.requests
        assert isinstance(request, Request), "the request is not wrong"
        numbers = column.on(row, column.suits)[: request.count].tolist()
        if len(numbers) < request.count:
            return None
        views, consumed = self.claims.devices.views, self.claims.state.consumed
        allocated = []
        for device in [views[number] for number in numbers]:
            amounts = None
            if device.shareable:
                amounts = consumption(device, request.capacity, consumed.get(device.id))
            allocated.append(AllocatedDevice(request, device, amounts))
        return NodeAllocation([plan.claim], [allocated])

    def begin(self, store: ClaimStore) -> PodSearch:
        """Begin the search for a pod."""
        self.budget.enter(len(self.row_of), self.filter_timeout)
        return PodSearch(self, store)


class PodSearch:
    """The search for one pod, on one node after another.

    ``columns`` is False where each device is looked at: the results are the same.
    """

    def __init__(self, search: NodeSearch, store: ClaimStore, *, columns: bool = True) -> None:
        self._search = search
        self._store = store
        self._table = search.handle.nodes
        self._state = search.claims.state
        self._now = search.handle.now() if store.clocked else 0
        self._columns = columns

    def status(self, row: int) -> Status:
        """Return Filter's status for a node."""
        status, _ = self.allocation(row)
        if status.ok and not all(self.usable(claim, row) for claim in self._store.user):
            return UNAVAILABLE
        return status

    def allocation(self, row: int) -> tuple[Status, NodeAllocation | None]:
        """Return Filter's status as far as claims are to be allocated, and what was found."""
        try:
            got = self.find(row)
        except extended_resources.ExtendedResourceError as failure:
            return rejection(str(failure)), None
        except DeadlineExceeded:
            text = f"node {self._table.names[row]}: {TIMED_OUT}"
            return Status(Code.ERROR, (text,)), None
        except AllocationError as error:
            return self._failure(error), None
        if got is None:
            return NOT_ALLOCATED, None
        return SUCCESS, got

    def _failure(self, error: AllocationError) -> Status:
        if isinstance(error, NodeError):
            return rejection(str(error))
        if error.stopped:
            return rejection(f"asked by caller to stop allocating devices: {error.stopped}")
        return Status(Code.ERROR, (str(error),))

    def usable(self, claim: ResourceClaim, row: int) -> bool:
        """Tell whether a claim can be used on a node, as far as it is allocated."""
        allocation = claim.status.allocation
        if allocation is None:
            return True
        selector = allocation.node_selector
        if selector is not None and not selects(selector, self._view(row)[1]):
            return False
        return self.ready(claim)

    def ready(self, claim: ResourceClaim) -> bool:
        """Tell whether the devices of an allocated claim can be used as far as is known."""
        if not self._store.clocked:
            return True
        state = readiness(claim, self._now, self._search.binding_timeout)
        return state in (Readiness.READY, Readiness.WAITING)

    def _view(self, row: int) -> tuple[Node, NodeView]:
        node = self._table.nodes[row]
        assert node is not None, "only live rows are searched"
        return node, NodeView(node.metadata.name, node.metadata.labels)

    def find(self, row: int) -> NodeAllocation | None:
        """Return what a node gives; None if nothing is found.

        Raises AllocationError and DeadlineExceeded, and ExtendedResourceError where extended
        resources cannot be served.
        """
        node, view = self._view(row)
        store = self._store
        plans, claims, variant = store.plans, [plan.claim for plan in store.plans], None
        if store.extended_claim is not None:
            variant = extended_resources.variant_on(
                node, store.extended_claim, store.pod, self._search.extended
            )
            if variant is not None:
                plans = [*plans, self._plan(variant.claim)]
                claims.append(variant.claim)
        if not plans:
            return NodeAllocation([], [], variant)
        pools, offered = self._pools(row, view)
        ranking = None if self._search.rules is None else self.ranking(row)
        search = self._search
        allocator = partial(
            Allocator, view, pools, self._state, search.cancelled, offered, ranking,
            search.budget.spend, search.claims.selectors,
        )  # fmt: skip
        try:
            allocated = allocator().allocate(plans)
        except AllocationError:
            if not any(plan.borrowed for plan in plans):
                raise
            allocated = allocator().allocate(
                [self._plan(plan.claim) if plan.borrowed else plan for plan in plans]
            )
        return None if allocated is None else NodeAllocation(claims, allocated, variant)

    def _pools(self, row: int, view: NodeView) -> tuple[NodePools, Offered | None]:
        """Return the pools that a node reaches, and the devices of each request that are worth
        trying.

        Raises AllocationError.
        """
        search, devices = self._search, self._search.claims.devices
        if not self._columns or devices.searched[row]:
            try:
                return search.claims.slices.gather(view), None
            except PoolError as error:
                raise AllocationError(f"gather pool information: {error}") from None
        pools, columns = devices.pools(row), search.requests

        def offered(request: Request) -> list[Candidate] | None:
            column = columns.of(request)
            if column.fails and (devices.partial[row] or column.on(row, column.failing).size):
                return None
            there = devices.offered(row)
            return [there[at] for at in np.flatnonzero(column.places(row, column.offered)).tolist()]

        return pools, offered

    def ranking(self, row: int) -> Ranking | None:
        """Return what rules make of a node's devices, None without rules."""
        search = self._search
        if search.rules is None:
            return None
        devices = search.claims.node_devices.on(row)
        return Ranking(search.rules, search.ratings, self._store.pod, row, devices)

    def _plan(self, claim: ResourceClaim) -> ClaimPlan:
        return ClaimPlan.of(claim, self._search.extended.device_class)
