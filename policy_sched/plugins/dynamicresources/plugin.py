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
from functools import partial
from operator import attrgetter
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from policy_sched import framework, model
from policy_sched.cluster.tables import NodeView
from policy_sched.errors import PluginError
from policy_sched.framework import NO_CODE, SKIP, SUCCESS, Code, Status
from policy_sched.language import values
from policy_sched.plugins.dynamicresources import claim_writes, device_rules, resource_claims
from policy_sched.plugins.dynamicresources.allocation_result import allocation_result
from policy_sched.plugins.dynamicresources.binding import Binding, Reservation
from policy_sched.plugins.dynamicresources.claim_columns import ClaimColumns, Statuses
from policy_sched.plugins.dynamicresources.claim_store import MOST_SPECS, ClaimStore, ClaimStores
from policy_sched.plugins.dynamicresources.devices import NodeView as DeviceNode
from policy_sched.plugins.dynamicresources.extended_resources import (
    IN_MEMORY,
    ExtendedResourceError,
    ExtendedResources,
)
from policy_sched.plugins.dynamicresources.node_search import NOT_AVAILABLE, TIMED_OUT, NodeSearch
from policy_sched.plugins.dynamicresources.requests import AllocationError

_NOTHING_NEW: Final = "no new claims to deallocate"
_PASSED: Final = framework.PreFilterResult()
_SKIPPED: Final = framework.PreFilterResult(SKIP)
_NO_CLAIMS: Final = framework.PostFilterResult(Status(Code.UNSCHEDULABLE, (_NOTHING_NEW,)))
_NOT_FOUND: Final = framework.PostFilterResult(Status(Code.ERROR, ("not found",)))
_BEST: Final = 8
"""What the first alternative of a request scores."""


class PodClaims(msgspec.Struct):
    """What a cycle knows of the pod's claims: ``passed`` is False where PreFilter rejected them.

    ``unavailable``: the UIDs of allocated claims that a node could not use in a dry run; upstream
    keeps them in the state of the cycle, too.
    """

    passed: bool = False
    unavailable: set[str] = msgspec.field(default_factory=set)


_UNCONCERNED: Final = PodClaims()
"""For all pods that have nothing to do with devices: Filter does not run for them."""


class DynamicResources:
    """Finds, reserves and writes the devices of a pod's claims."""

    def __init__(
        self,
        args: Mapping[str, object],
        handle: framework.Handle,
        rules: device_rules.DeviceRules | None = None,
        serves: tuple[str, str] | None = None,
    ) -> None:
        """Take the rules over devices of a profile; ``serves``: the profile, and their hash."""
        self._handle = handle
        self._rules = rules
        self.scope = (
            framework.Scope.NODE if rules is None else max(framework.Scope.NODE, rules.scope)
        )
        """How far a change can reach what a pod gets on a node."""
        self._table = handle.nodes
        self._claims = handle.shared(resource_claims.ResourceClaims)
        self._extended = handle.shared(ExtendedResources)
        self.claims_key = framework.PodKey(self._claims_key, "may_use_devices")
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
            handle.shared(device_rules.Allocations).put(*serves, self)
        self._binding = Binding(
            handle, self._claims, _duration(args.get("bindingTimeout"), 600 * model.SECOND)
        )
        self._statuses = Statuses()
        self._columns = ClaimColumns(self._search, self._statuses)
        self._named: dict[Hashable, int] = {}
        """Shapes of claims whose allocation failed with words that name the claim.

        Each with how often an attempt could not pay for it: the next one gets further.
        """

    @framework.hookimpl
    def sign_pod(self) -> framework.Signature:
        """Pods whose claims are alike have equal results; a node's devices are its own."""
        return framework.Signature(
            frozenset(),
            self.scope,
            proved=True,
            keys=(self.claims_key,),
            gate=framework.Gate(_has_claims, frozenset({("has_claims",)})),
            kernel=framework.RowKernel(framework.RowRule(self._code), node_by_node=True),
        )

    @framework.hookimpl
    def events_to_register(self) -> tuple[model.ClusterEventWithHint, ...]:
        """Name what can make a rejected pod fit."""
        own = _events(self._claims.get)
        return own if self._rules is None else (*own, *self._rules.events)

    def _claims_key(self, pod: model.PodInfo) -> Hashable:
        if not pod.has_claims and not self._claim_stores.concerns(pod):
            return None
        store = self._claim_stores.of(pod)
        late = self._named.get(store.shape)
        if store.shape is not None and late is None:
            return store.shape if self._rules is None else (store.shape, self._rules.key(pod))
        time = self._handle.now() if store.clocked else 0
        return (pod.uid, self._claims.version, time, late)

    @framework.hookimpl
    def pre_enqueue(self, pod: model.PodInfo) -> Status:
        """Let a pod wait outside of the queue until its claims are there."""
        return self._claim_stores.missing(pod) if pod.has_claims else SUCCESS

    @framework.hookimpl
    def pre_filter(
        self, state: framework.CycleState, pod: model.PodInfo
    ) -> framework.PreFilterResult:
        """Look the claims up; reject the pod where one cannot be allocated anywhere."""
        if not pod.may_use_devices or not self._claim_stores.concerns(pod):
            state.write(_UNCONCERNED)
            return _SKIPPED
        mark = PodClaims()
        state.write(mark)
        store = self._claim_stores.of(pod)
        if not store.status.ok:
            return framework.PreFilterResult(store.status)
        if store.empty:
            return _SKIPPED
        mark.passed = True
        return _PASSED

    @framework.hookimpl
    def filter(
        self, state: framework.CycleState, pod: model.PodInfo, rows: framework.Rows, nodes: NodeView
    ) -> framework.FilterResult:
        """Refuse nodes that do not reach an allocated claim, or lack devices for another."""
        store = self._claim_stores.of(pod)
        mark = state.read(PodClaims)
        dry_run = nodes is not self._table
        unavailable = mark.unavailable if mark is not None and dry_run else None
        codes = self._columns.codes(store, rows, unavailable)
        fatal: set[int] = set()
        if codes.any():
            listed = self._statuses.listed
            fatal.update(c for c in set(codes.tolist()) if listed[c].code is Code.ERROR)
            if fatal:
                if len(self._named) >= MOST_SPECS:
                    self._named.clear()
                late = self._named.get(store.shape, 0)
                self._named[store.shape] = late + self._search.budget.exceeded
        return framework.FilterResult(
            codes, self._statuses.describe, fatal=frozenset(fatal), names_node=False
        )

    def _code(self, pod: model.PodInfo, row: int) -> int:
        """Return 0 if Filter passes a row, else that Filter itself has to say more."""
        try:
            return 0 if self._columns.passes(self._claim_stores.of(pod), row) else NO_CODE
        except framework.DeadlineExceeded:
            return NO_CODE

    @framework.hookimpl
    def post_filter(
        self, state: framework.CycleState, pod: model.PodInfo, diagnosis: framework.Diagnosis
    ) -> framework.PostFilterResult:
        """Give back the devices of one unused claim that keeps the pod from fitting."""
        mark = state.read(PodClaims)
        if mark is None:
            return _NOT_FOUND
        if not mark.passed or not self._claim_stores.concerns(pod):
            return _NO_CLAIMS
        store = self._claim_stores.of(pod)
        if store.empty:
            return _NO_CLAIMS
        extended_claim = store.extended_claim
        if extended_claim is not None and extended_claim.metadata.name != IN_MEMORY:
            return _done(
                "deletion of ResourceClaim completed", partial(self._delete, extended_claim)
            )
        rows = [
            row
            for row, status in diagnosis.statuses.items()
            if status.plugin == "DynamicResources" and status.reasons == (NOT_AVAILABLE,)
        ]
        unavailable = mark.unavailable | self._columns.keeping_from(store, rows)
        free = [
            claim
            for claim in store.user
            if resource_claims.uid_of(claim) in unavailable
            and all(user.uid == pod.uid for user in claim.status.reserved_for)
        ]
        if not free:
            return _done("still not schedulable")
        claim = free[0] if len(free) == 1 else self._handle.random.choice(free)
        return _done(
            claim_writes.DEALLOCATED,
            claim_writes.Run(self._handle.client, claim_writes.given_back(claim, pod)).start,
        )

    @framework.hookimpl
    def pre_score(self, pod: model.PodInfo) -> Status:
        """Leave scoring out where no request has alternatives: all scores are 0 then."""
        if not self._claim_stores.concerns(pod):
            return SKIP
        store = self._claim_stores.of(pod)
        if not store.unallocated:
            return SKIP
        for claim in store.user:
            if any(request.first_available for request in claim.spec.devices.requests):
                return SUCCESS
        return SKIP

    @framework.hookimpl
    def score(self, pod: model.PodInfo, rows: framework.Rows) -> framework.RawScores:
        """Prefer nodes on which requests get their first alternatives."""
        store = self._claim_stores.of(pod)
        searched = self._table.row_of.values() if rows is None else rows.tolist()
        scores = np.zeros(self._table.n if rows is None else rows.size, np.int64)
        for position, row in enumerate(searched):
            try:
                allocations = self._columns.names(store, row)
            except (AllocationError, ExtendedResourceError):
                continue  # a row that Filter has rejected
            scores[row if rows is None else position] = _score(store, allocations)
        return scores

    @framework.hookimpl
    def normalize_score(self, scores: framework.RawScores) -> framework.Scores:
        """The best node gets 100."""
        most = int(scores.max()) if scores.size else 0
        normalized: framework.Scores = scores.astype(np.int64)
        return normalized * 100 // most if most else normalized

    @framework.hookimpl
    def reserve(self, state: framework.CycleState, pod: model.PodInfo, node: str) -> Status:
        """Allocate devices on the node for the claims that have none."""
        if not self._claim_stores.concerns(pod):
            return SUCCESS
        store = self._claim_stores.of(pod)
        if store.empty or not store.status.ok:
            return store.status
        try:
            reservation = self._allocated(store, node)
        except framework.DeadlineExceeded:
            return Status(Code.ERROR, (f"node {node}: {TIMED_OUT}",))
        except AllocationError as error:
            return Status(Code.ERROR, (str(error),))
        if reservation is None:
            return Status(Code.ERROR, ("claim allocation not found for node",))
        state.write(reservation)
        marks = state.read(framework.PodGroupCycle), state.read(framework.PodGroupMember)
        grouped = marks != (None, None)
        for claim, result in reservation.results:
            self._claims.reserve(_reserved_form(claim, result), pod, grouped=grouped)
        reservation.shared = grouped
        for claim in store.user:
            allocation = claim.status.allocation
            if allocation is not None and self._claims.pending(claim, pod) is claim:
                self._claims.reserve(claim, pod)
                reservation.add(claim, allocation)
                reservation.shared = True
        return SUCCESS

    def _allocated(self, store: ClaimStore, node: str) -> Reservation | None:
        """Return what a pod gets on a node, None if that has gone.

        Raises AllocationError and framework.DeadlineExceeded.
        """
        row = self._table.row_of.get(node)
        reservation = Reservation(store.pod.uid, store.user, store.extended_claim)
        if row is None or not store.unallocated:
            return reservation if row is not None else None
        got = self._columns.find(store, row)
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
        store = self._claim_stores.of(pod)
        if not store.status.ok or not store.unallocated or self._table.nodes[row] is None:
            return values.NO_ALLOCATION
        anew = self._rules is not None and not self._rules.steady
        try:
            got = self._columns.find(store, row, anew=anew)
        except (AllocationError, ExtendedResourceError):
            return values.NO_ALLOCATION
        devices = self._claims.node_devices.on(row)
        return (
            values.NO_ALLOCATION
            if got is None
            else device_rules.allocation_facts(got.devices, devices)
        )

    def considered(
        self, pod: model.PodInfo, row: int
    ) -> Iterator[tuple[values.RequestFacts, values.DeviceFacts]]:
        """Yield a pod's requests with the devices of a row's node that rules are evaluated on."""
        node = self._table.nodes[row]
        if not pod.may_use_devices or not self._claim_stores.concerns(pod) or node is None:
            return
        store, view = (
            self._claim_stores.of(pod),
            DeviceNode(node.metadata.name, node.metadata.labels),
        )
        requests = [
            request
            for plan in store.plans
            for alternatives in plan.requests
            for request in alternatives
            if not isinstance(request, AllocationError)
        ]
        in_use = self._claims.state.devices
        with suppress(AllocationError):
            for request in requests:
                for device in self._claims.node_devices.on(row):
                    free = request.admin_access or device.view.id not in in_use
                    if free and request.selects(device.view, view, self._claims.selectors):
                        yield device_rules.as_facts(request), device.facts

    def ranking(self, pod: model.PodInfo, row: int) -> device_rules.Ranking | None:
        """Return what rules make of the devices of a row's node, None without rules."""
        return self._search.begin(self._claim_stores.of(pod)).ranking(row)

    def rated(self, pod: model.PodInfo, row: int) -> list[device_rules.RatedDevice]:
        """Return what rules say about the devices of a row's node; nothing without rules."""
        if self._rules is None:
            return []
        got = {
            (allocated.request, allocated.device)
            for allocated in self.would_allocate(pod, row).devices
        }
        try:
            rate = self._rules.rater(pod, row)
            return [
                device_rules.RatedDevice(
                    request, device, rate(request, device), (request.name, device) in got
                )
                for request, device in self.considered(pod, row)
            ]
        except values.RuleError:
            return []

    def _share_id(self) -> str:
        return str(uuid.UUID(int=self._handle.random.getrandbits(128), version=4))

    @framework.hookimpl
    def unreserve(self, state: framework.CycleState, pod: model.PodInfo) -> None:
        """Take back what was reserved; an allocation that was written stays in its claim."""
        reservation = state.read(Reservation)
        if reservation is None or reservation.pod != pod.uid:
            return
        client = self._handle.client
        for claim in reservation.user:
            self._claims.release(claim, pod)
            current = self._claims.get(claim.metadata.namespace, claim.metadata.name)
            if (
                current is not None
                and current.status.allocation
                and resource_claims.is_reserved(current, pod)
            ):
                claim_writes.drop(client, claim_writes.unreservation(current, pod), self._assume)
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
        left = tuple(
            finalizer
            for finalizer in current.metadata.finalizers
            if finalizer != claim_writes.FINALIZER
        )

        def delete(_response: model.ApiObject | None) -> None:
            claim_writes.drop(
                client, claim_writes.deletion(current), lambda _: self._claims.forget(current)
            )

        if left != current.metadata.finalizers:
            claim_writes.drop(client, claim_writes.with_finalizers(current, left), delete)
        else:
            delete(None)

    @framework.hookimpl
    def pre_bind_pre_flight(self, state: framework.CycleState, pod: model.PodInfo) -> Status:
        """Say whether anything was reserved."""
        reservation = state.read(Reservation)
        return SKIP if reservation is None or reservation.pod != pod.uid else SUCCESS

    @framework.hookimpl
    def pre_bind(
        self, state: framework.CycleState, pod: model.PodInfo, node: str
    ) -> Status | framework.PendingStatus:
        """Write allocations and reservations, and wait for binding conditions."""
        reservation = state.read(Reservation)
        if reservation is None or reservation.pod != pod.uid:
            return SUCCESS
        return self._binding.bind(reservation, pod, node)


def _duration(value: object, default: int) -> int:
    if value is None:
        return default
    return value if isinstance(value, int) else model.nanoseconds_of(str(value))


def _done(text: str, write: Callable[[], object] | None = None) -> framework.PostFilterResult:
    """Return a result whose write waits until plugins that preempt have made their dry runs."""
    return framework.PostFilterResult(Status(Code.UNSCHEDULABLE, (text,)), then=write)


def _reserved_form(
    claim: model.ResourceClaim, result: model.AllocationResult
) -> model.ResourceClaim:
    finalizers = claim.metadata.finalizers
    if claim_writes.FINALIZER not in finalizers:
        finalizers = (*finalizers, claim_writes.FINALIZER)
    return replace(
        claim,
        metadata=replace(claim.metadata, finalizers=finalizers),
        status=replace(claim.status, allocation=result),
    )


def _score(store: ClaimStore, allocations: Sequence[frozenset[str]]) -> int:
    """Add up what the alternatives score that were chosen, claim by claim."""
    score = 0
    for claim, names in zip(store.user, allocations, strict=False):
        for request in claim.spec.devices.requests:
            for index, alternative in enumerate(request.first_available):
                if f"{request.name}/{alternative.name}" in names:
                    score += _BEST - index
    return score


_has_claims: Final[Callable[[model.PodInfo], bool]] = attrgetter("has_claims")


_CHANGE: Final = model.ActionType.ADD | model.ActionType.UPDATE_OTHER
_NODE: Final = (
    model.ActionType.ADD
    | model.ActionType.UPDATE_NODE_LABEL
    | model.ActionType.UPDATE_NODE_ALLOCATABLE
)


def _events(lookup: resource_claims.Lookup) -> tuple[model.ClusterEventWithHint, ...]:
    """Return what can make a rejected pod fit, with hints; ``lookup`` finds claims."""

    def claim_changed(pod: model.PodInfo, old: object, new: object) -> model.QueueingHint:
        """A claim came or changed: one of the pod's, or one that gave its devices back."""
        if not isinstance(new, model.ResourceClaim):
            raise PluginError(f"expected a ResourceClaim, got {type(new).__name__}")
        try:
            claims = resource_claims.claims_of(pod, lookup)
        except resource_claims.ClaimError:
            return model.QueueingHint.SKIP
        before = old if isinstance(old, model.ResourceClaim) else None
        if before is not None and before.status.allocation and not new.status.allocation:
            return model.QueueingHint.QUEUE
        if all(resource_claims.uid_of(claim) != resource_claims.uid_of(new) for claim in claims):
            return model.QueueingHint.SKIP
        return (
            model.QueueingHint.SKIP
            if before is not None and before.status == new.status
            else model.QueueingHint.QUEUE
        )

    def pod_changed(pod: model.PodInfo, _old: object, new: object) -> model.QueueingHint:
        """The pod's own claims were made."""
        if not isinstance(new, model.PodInfo) or new.uid != pod.uid:
            return model.QueueingHint.SKIP
        try:
            resource_claims.claims_of(new, lookup)
        except resource_claims.ClaimError:
            return model.QueueingHint.SKIP
        return model.QueueingHint.QUEUE

    def on(resource: model.EventResource, action: model.ActionType) -> model.ClusterEvent:
        return model.ClusterEvent(resource, action)

    return (
        model.ClusterEventWithHint(on(model.EventResource.NODE, _NODE)),
        model.NODE_TAINT_UPDATE,
        model.ClusterEventWithHint(on(model.EventResource.RESOURCE_CLAIM, _CHANGE), claim_changed),
        model.ClusterEventWithHint(
            on(model.EventResource.POD, model.ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM),
            pod_changed,
        ),
        model.ClusterEventWithHint(on(model.EventResource.DEVICE_CLASS, _CHANGE)),
        model.ClusterEventWithHint(on(model.EventResource.RESOURCE_SLICE, _CHANGE)),
    )
