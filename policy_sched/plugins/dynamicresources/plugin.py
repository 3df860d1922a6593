"""The plugin: which nodes have devices for a pod's claims, and what is written when it goes there.

Theory of operation. Filter finds out whether the allocator finds devices on a node; what it finds
is thrown away. Reserve allocates once more, on the node that was chosen, for the very claims of the
pod: so pods whose claims are alike share one evaluation, and only rows on which devices were taken
or given back are evaluated again. Between Reserve and the write the allocation is in flight.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Final

import numpy as np
from msgspec.structs import replace

from policy_sched import model
from policy_sched.cluster.tables import NodeView
from policy_sched.framework import (
    NO_CODE,
    SKIP,
    SUCCESS,
    Code,
    CycleState,
    DeadlineExceeded,
    Diagnosis,
    FilterResult,
    Gate,
    Handle,
    PendingStatus,
    PodGroupCycle,
    PodGroupMember,
    PodKey,
    PostFilterResult,
    PreFilterResult,
    RawScores,
    RowKernel,
    RowRule,
    Rows,
    Scope,
    Scores,
    Signature,
    Status,
    hookimpl,
)
from policy_sched.language import values
from policy_sched.plugins.dynamicresources import events
from policy_sched.plugins.dynamicresources.allocation_result import allocation_result
from policy_sched.plugins.dynamicresources.binding import Binding, Reservation
from policy_sched.plugins.dynamicresources.claim_columns import ClaimColumns, Statuses
from policy_sched.plugins.dynamicresources.claim_store import MOST_SPECS, ClaimStore, ClaimStores
from policy_sched.plugins.dynamicresources.claim_writes import (
    DEALLOCATED,
    FINALIZER,
    Run,
    deletion,
    drop,
    given_back,
    unreservation,
    with_finalizers,
)
from policy_sched.plugins.dynamicresources.device_rules import (
    Allocations,
    DeviceRules,
    Ranking,
    RatedDevice,
    allocation_facts,
    as_facts,
)
from policy_sched.plugins.dynamicresources.devices import NodeView as DeviceNode
from policy_sched.plugins.dynamicresources.extended_resources import (
    IN_MEMORY,
    ExtendedResourceError,
    ExtendedResources,
)
from policy_sched.plugins.dynamicresources.node_search import NOT_AVAILABLE, TIMED_OUT, NodeSearch
from policy_sched.plugins.dynamicresources.requests import AllocationError
from policy_sched.plugins.dynamicresources.resource_claims import (
    ResourceClaims,
    is_reserved,
    uid_of,
)

_NOTHING_NEW: Final = "no new claims to deallocate"
_PASSED: Final = PreFilterResult()
_SKIPPED: Final = PreFilterResult(SKIP)
_NO_CLAIMS: Final = PostFilterResult(Status(Code.UNSCHEDULABLE, (_NOTHING_NEW,)))
_NOT_FOUND: Final = PostFilterResult(Status(Code.ERROR, ("not found",)))
_BEST: Final = 8
"""What the first alternative of a request scores."""


@dataclass(slots=True)
class PodClaims:
    """What a cycle knows of the pod's claims: ``passed`` is False where PreFilter rejected them.

    ``unavailable``: the UIDs of allocated claims that a node could not use in a dry run; upstream
    keeps them in the state of the cycle, too.
    """

    passed: bool = False
    unavailable: set[str] = field(default_factory=set)


_UNCONCERNED: Final = PodClaims()
"""For all pods that have nothing to do with devices: Filter does not run for them."""


class DynamicResources:
    """Finds, reserves and writes the devices of a pod's claims."""

    def __init__(
        self,
        args: Mapping[str, object],
        handle: Handle,
        rules: DeviceRules | None = None,
        serves: tuple[str, str] | None = None,
    ) -> None:
        """Take the rules over devices of a profile; ``serves``: the profile, and their hash."""
        self._handle = handle
        self._rules = rules
        self.scope = Scope.NODE if rules is None else max(Scope.NODE, rules.scope)
        """How far a change can reach what a pod gets on a node."""
        self._table = handle.nodes
        self._claims = handle.shared(ResourceClaims)
        self._extended = handle.shared(ExtendedResources)
        self.claims_key = PodKey(self._claims_key, "may_use_devices")
        """What of a pod decides what its claims get on a node."""
        self._claim_stores = ClaimStores(handle.objects, self._claims, self._extended)
        self._search = NodeSearch(
            handle,
            self._claims,
            self._extended,
            _duration(args.get("filterTimeout"), 10 * model.SECOND),
            _duration(args.get("bindingTimeout"), 600 * model.SECOND),
            rules,
        )
        if serves is not None:
            handle.shared(Allocations).put(*serves, self)
        self._binding = Binding(
            handle, self._claims, _duration(args.get("bindingTimeout"), 600 * model.SECOND)
        )
        self._statuses = Statuses()
        self._columns = ClaimColumns(self._search, self._statuses)
        self._named: dict[Hashable, int] = {}
        """Shapes of claims whose allocation failed with words that name the claim.

        Each with how often an attempt could not pay for it: the next one gets further.
        """

    @hookimpl
    def sign_pod(self) -> Signature:
        """Pods whose claims are alike have equal results; a node's devices are its own."""
        return Signature(
            frozenset(),
            self.scope,
            proved=True,
            keys=(self.claims_key,),
            gate=Gate(_has_claims, frozenset({("has_claims",)})),
            kernel=RowKernel(RowRule(self._code), node_by_node=True),
        )

    @hookimpl
    def events_to_register(self) -> tuple[model.ClusterEventWithHint, ...]:
        """Name what can make a rejected pod fit."""
        found = events.of(self._claims.get)
        return found if self._rules is None else (*found, *self._rules.events)

    def _claims_key(self, pod: model.PodInfo) -> Hashable:
        if not pod.has_claims and not self._claim_stores.concerns(pod):
            return None
        found = self._claim_stores.of(pod)
        late = self._named.get(found.shape)
        if found.shape is not None and late is None:
            return found.shape if self._rules is None else (found.shape, self._rules.key(pod))
        time = self._handle.now() if found.clocked else 0
        return (pod.uid, self._claims.version, time, late)

    @hookimpl
    def pre_enqueue(self, pod: model.PodInfo) -> Status:
        """Let a pod wait outside of the queue until its claims are there."""
        return self._claim_stores.missing(pod) if pod.has_claims else SUCCESS

    @hookimpl
    def pre_filter(self, state: CycleState, pod: model.PodInfo) -> PreFilterResult:
        """Look the claims up; reject the pod where one cannot be allocated anywhere."""
        if not pod.may_use_devices or not self._claim_stores.concerns(pod):
            state.write(_UNCONCERNED)
            return _SKIPPED
        mark = PodClaims()
        state.write(mark)
        found = self._claim_stores.of(pod)
        if not found.status.ok:
            return PreFilterResult(found.status)
        if found.empty:
            return _SKIPPED
        mark.passed = True
        return _PASSED

    @hookimpl
    def filter(
        self, state: CycleState, pod: model.PodInfo, rows: Rows, nodes: NodeView
    ) -> FilterResult:
        """Refuse nodes that do not reach an allocated claim, or lack devices for another."""
        found = self._claim_stores.of(pod)
        mark = state.read(PodClaims)
        dry_run = nodes is not self._table
        unavailable = mark.unavailable if mark is not None and dry_run else None
        codes = self._columns.codes(found, rows, unavailable)
        fatal: set[int] = set()
        if codes.any():
            listed = self._statuses.listed
            fatal.update(c for c in set(codes.tolist()) if listed[c].code is Code.ERROR)
            if fatal:
                if len(self._named) >= MOST_SPECS:
                    self._named.clear()
                late = self._named.get(found.shape, 0)
                self._named[found.shape] = late + self._search.budget.exceeded
        return FilterResult(
            codes, self._statuses.describe, fatal=frozenset(fatal), names_node=False
        )

    def _code(self, pod: model.PodInfo, row: int) -> int:
        """Return 0 if Filter passes a row, else that Filter itself has to say more."""
        try:
            return 0 if self._columns.passes(self._claim_stores.of(pod), row) else NO_CODE
        except DeadlineExceeded:
            return NO_CODE

    @hookimpl
    def post_filter(
        self, state: CycleState, pod: model.PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        """Give back the devices of one unused claim that keeps the pod from fitting."""
        mark = state.read(PodClaims)
        if mark is None:
            return _NOT_FOUND
        if not mark.passed or not self._claim_stores.concerns(pod):
            return _NO_CLAIMS
        found = self._claim_stores.of(pod)
        if found.empty:
            return _NO_CLAIMS
        extended_claim = found.extended_claim
        if extended_claim is not None and extended_claim.metadata.name != IN_MEMORY:
            return _done(
                "deletion of ResourceClaim completed", partial(self._delete, extended_claim)
            )
        rows = [
            row
            for row, status in diagnosis.statuses.items()
            if status.plugin == "DynamicResources" and status.reasons == (NOT_AVAILABLE,)
        ]
        unavailable = mark.unavailable | self._columns.keeping_from(found, rows)
        free = [
            claim
            for claim in found.user
            if uid_of(claim) in unavailable
            and all(one.uid == pod.uid for one in claim.status.reserved_for)
        ]
        if not free:
            return _done("still not schedulable")
        claim = free[0] if len(free) == 1 else self._handle.random.choice(free)
        return _done(DEALLOCATED, Run(self._handle.client, given_back(claim, pod)).start)

    @hookimpl
    def pre_score(self, pod: model.PodInfo) -> Status:
        """Leave scoring out where no request has alternatives: all scores are 0 then."""
        if not self._claim_stores.concerns(pod):
            return SKIP
        found = self._claim_stores.of(pod)
        if not found.unallocated:
            return SKIP
        for claim in found.user:
            if any(request.first_available for request in claim.spec.devices.requests):
                return SUCCESS
        return SKIP

    @hookimpl
    def score(self, pod: model.PodInfo, rows: Rows) -> RawScores:
        """Prefer nodes on which requests get their first alternatives."""
        found = self._claim_stores.of(pod)
        searched = self._table.row_of.values() if rows is None else rows.tolist()
        scores = np.zeros(self._table.n if rows is None else rows.size, np.int64)
        for place, row in enumerate(searched):
            try:
                allocations = self._columns.names(found, row)
            except (AllocationError, ExtendedResourceError):
                continue  # a row that Filter has rejected
            scores[row if rows is None else place] = _score(found, allocations)
        return scores

    @hookimpl
    def normalize_score(self, scores: RawScores) -> Scores:
        """The best node gets 100."""
        most = int(scores.max()) if scores.size else 0
        normalized: Scores = scores.astype(np.int64)
        return normalized * 100 // most if most else normalized

    @hookimpl
    def reserve(self, state: CycleState, pod: model.PodInfo, node: str) -> Status:
        """Allocate devices on the node for the claims that have none."""
        if not self._claim_stores.concerns(pod):
            return SUCCESS
        found = self._claim_stores.of(pod)
        if found.empty or not found.status.ok:
            return found.status
        try:
            reservation = self._allocated(found, node)
        except DeadlineExceeded:
            return Status(Code.ERROR, (f"node {node}: {TIMED_OUT}",))
        except AllocationError as error:
            return Status(Code.ERROR, (str(error),))
        if reservation is None:
            return Status(Code.ERROR, ("claim allocation not found for node",))
        state.write(reservation)
        marks = state.read(PodGroupCycle), state.read(PodGroupMember)
        grouped = marks != (None, None)
        for claim, result in reservation.results:
            self._claims.reserve(_reserved_form(claim, result), pod, grouped=grouped)
        reservation.shared = grouped
        for claim in found.user:
            allocation = claim.status.allocation
            if allocation is not None and self._claims.pending(claim, pod) is claim:
                self._claims.reserve(claim, pod)
                reservation.add(claim, allocation)
                reservation.shared = True
        return SUCCESS

    def _allocated(self, found: ClaimStore, node: str) -> Reservation | None:
        """Return what a pod gets on a node, None if that has gone.

        Raises AllocationError and DeadlineExceeded.
        """
        row = self._table.row_of.get(node)
        reservation = Reservation(found.pod.uid, found.user, found.extended_claim)
        if row is None or not found.unallocated:
            return reservation if row is not None else None
        got = self._columns.find(found, row)
        if got is None:
            return None
        reservation.variant = got.variant
        for claim, devices in zip(got.claims, got.devices, strict=True):
            result = allocation_result(
                claim, devices, node, self._claim_stores.device_class, self._share_id
            )
            reservation.add(claim, result)
        return reservation

    def would_allocate(self, pod: model.PodInfo, row: int) -> values.AllocationFacts:
        """Return what a pod would get on a node; nothing where its claims cannot be allocated."""
        if not pod.may_use_devices or not self._claim_stores.concerns(pod):
            return values.NO_ALLOCATION
        found = self._claim_stores.of(pod)
        if not found.status.ok or not found.unallocated or self._table.nodes[row] is None:
            return values.NO_ALLOCATION
        anew = self._rules is not None and not self._rules.steady
        try:
            got = self._columns.find(found, row, anew=anew)
        except (AllocationError, ExtendedResourceError):
            return values.NO_ALLOCATION
        devices = self._claims.node_devices.on(row)
        return values.NO_ALLOCATION if got is None else allocation_facts(got.devices, devices)

    def considered(
        self, pod: model.PodInfo, row: int
    ) -> Iterator[tuple[values.RequestFacts, values.DeviceFacts]]:
        """Yield a pod's requests with the devices of a row's node that rules are evaluated on."""
        node = self._table.nodes[row]
        if not pod.may_use_devices or not self._claim_stores.concerns(pod) or node is None:
            return
        found, view = (
            self._claim_stores.of(pod),
            DeviceNode(node.metadata.name, node.metadata.labels),
        )
        requests = [
            request
            for plan in found.plans
            for alternatives in plan.requests
            for request in alternatives
            if not isinstance(request, AllocationError)
        ]
        in_use = self._claims.state.devices
        with suppress(AllocationError):
            for request in requests:
                for one in self._claims.node_devices.on(row):
                    free = request.admin_access or one.view.id not in in_use
                    if free and request.selects(one.view, view, self._claims.selectors):
                        yield as_facts(request), one.facts

    def ranking(self, pod: model.PodInfo, row: int) -> Ranking | None:
        """Return what rules make of the devices of a row's node, None without rules."""
        return self._search.begin(self._claim_stores.of(pod)).ranking(row)

    def rated(self, pod: model.PodInfo, row: int) -> list[RatedDevice]:
        """Return what rules say about the devices of a row's node; nothing without rules."""
        if self._rules is None:
            return []
        got = {(one.request, one.device) for one in self.would_allocate(pod, row).devices}
        try:
            rate = self._rules.rater(pod, row)
            return [
                RatedDevice(request, device, rate(request, device), (request.name, device) in got)
                for request, device in self.considered(pod, row)
            ]
        except values.RuleError:
            return []

    def _share_id(self) -> str:
        return str(uuid.UUID(int=self._handle.random.getrandbits(128), version=4))

    @hookimpl
    def unreserve(self, state: CycleState, pod: model.PodInfo) -> None:
        """Take back what was reserved; an allocation that was written stays in its claim."""
        reservation = state.read(Reservation)
        if reservation is None or reservation.pod != pod.uid:
            return
        client = self._handle.client
        for claim in reservation.user:
            self._claims.release(claim, pod)
            current = self._claims.get(claim.metadata.namespace, claim.metadata.name)
            if current is not None and current.status.allocation and is_reserved(current, pod):
                drop(client, unreservation(current, pod), self._assume)
        extended_claim = reservation.extended_claim
        if extended_claim is not None:
            self._claims.release(extended_claim, pod)
            if extended_claim.metadata.name != IN_MEMORY:
                self._delete(extended_claim)

    def _assume(self, response: model.ApiObject | None) -> None:
        if isinstance(response, model.ResourceClaim):
            self._claims.assume(response)

    def _delete(self, claim: model.ResourceClaim) -> None:
        """Delete a claim for extended resources."""
        client = self._handle.client
        current = self._claims.get(claim.metadata.namespace, claim.metadata.name) or claim
        left = tuple(one for one in current.metadata.finalizers if one != FINALIZER)

        def delete(_response: model.ApiObject | None) -> None:
            drop(client, deletion(current), lambda _: self._claims.forget(current))

        if left != current.metadata.finalizers:
            drop(client, with_finalizers(current, left), delete)
        else:
            delete(None)

    @hookimpl
    def pre_bind_pre_flight(self, state: CycleState, pod: model.PodInfo) -> Status:
        """Say whether anything was reserved."""
        reservation = state.read(Reservation)
        return SKIP if reservation is None or reservation.pod != pod.uid else SUCCESS

    @hookimpl
    def pre_bind(self, state: CycleState, pod: model.PodInfo, node: str) -> Status | PendingStatus:
        """Write allocations and reservations, and wait for binding conditions."""
        reservation = state.read(Reservation)
        if reservation is None or reservation.pod != pod.uid:
            return SUCCESS
        return self._binding.bind(reservation, pod, node)


def _duration(value: object, default: int) -> int:
    if value is None:
        return default
    return value if isinstance(value, int) else model.nanoseconds_of(str(value))


def _done(text: str, write: Callable[[], object] | None = None) -> PostFilterResult:
    """Return a result whose write waits until plugins that preempt have made their dry runs."""
    return PostFilterResult(Status(Code.UNSCHEDULABLE, (text,)), then=write)


def _reserved_form(
    claim: model.ResourceClaim, result: model.AllocationResult
) -> model.ResourceClaim:
    finalizers = claim.metadata.finalizers
    if FINALIZER not in finalizers:
        finalizers = (*finalizers, FINALIZER)
    return replace(
        claim,
        metadata=replace(claim.metadata, finalizers=finalizers),
        status=replace(claim.status, allocation=result),
    )


def _score(found: ClaimStore, allocations: Sequence[frozenset[str]]) -> int:
    """Add up what the alternatives score that were chosen, claim by claim."""
    score = 0
    for claim, names in zip(found.user, allocations, strict=False):
        for request in claim.spec.devices.requests:
            for index, one in enumerate(request.first_available):
                if f"{request.name}/{one.name}" in names:
                    score += _BEST - index
    return score


_has_claims: Final[Callable[[model.PodInfo], bool]] = attrgetter("has_claims")
