"""Explains claims: what keeps each device of a node from each request, and what would help.

Theory of operation. A device is checked for one request alone, in the allocator's order: the
first reason counts. What would help is found by allocating again with one thing changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec
from msgspec import structs
from msgspec.structs import replace as replaced

from policy_sched.framework import AttemptBudget, DeadlineExceeded, Handle
from policy_sched.model import ContainerExtendedResourceRequest, Node, PodInfo, Taint, Toleration
from policy_sched.plugins.dynamicresources.allocator import MAX_RESULTS, Allocator
from policy_sched.plugins.dynamicresources.claim_store import ClaimStore, ClaimStores
from policy_sched.plugins.dynamicresources.device_rules import Allocations, Ranking
from policy_sched.plugins.dynamicresources.devices import (
    DeviceView,
    NodeView,
    SelectorError,
    selects,
)
from policy_sched.plugins.dynamicresources.extended_resources import (
    ExtendedResourceError,
    ExtendedResources,
    variant_on,
)
from policy_sched.plugins.dynamicresources.pools import AllocatedState, Pool, PoolError
from policy_sched.plugins.dynamicresources.requests import (
    ALL,
    AllocationError,
    ClaimPlan,
    Request,
    claim_name,
)
from policy_sched.plugins.dynamicresources.resource_claims import ResourceClaims
from policy_sched.plugins.dynamicresources.selector_columns import SelectorResults

#: Nodes for which changes are tried.
_TRIED: Final = 500


@dataclass(frozen=True, slots=True, order=True)
class SelectorOf:
    """A selector: of a class by its name, or of a request of a claim."""

    kind: str
    name: str
    request: str
    index: int

    def __str__(self) -> str:
        return f"selector {self.index} of {self.kind} {self.name}"


class Refusal(msgspec.Struct, frozen=True):
    """Why a device is not had: `why` is one of the words below, with what it is about.

    updated, invalid (its pool is), allocated, selector, node (it is on another one), capacity,
    counters, tainted, rule (of a policy; `error` names it).
    """

    why: str
    selector: SelectorOf | None = None
    taint: Taint | None = None
    error: str = ""


class NodeDevices(msgspec.Struct, frozen=True):
    """The devices that a node reaches, for one request: how many are refused why, and the rest."""

    node: str
    devices: int
    refused: tuple[tuple[Refusal, int], ...]
    fit: int


class RequestDevices(msgspec.Struct, frozen=True):
    """A request of a claim that is to be allocated; ``count`` is 0 where it wants all devices.

    ``resource`` is the extended resource that the request serves in ``container``, "" for a claim
    that the pod names.
    """

    claim: str
    request: str
    device_class: str
    count: int
    nodes: tuple[NodeDevices, ...]
    resource: str = ""
    container: str = ""


class AllocatedClaim(msgspec.Struct, frozen=True):
    """A claim that has its devices, and the nodes that reach them."""

    claim: str
    devices: tuple[str, ...]
    nodes: tuple[str, ...]


class ClaimChange(msgspec.Struct, frozen=True):
    """A change with which the claims would be allocated on ``nodes``.

    ``kind``: toleration, count, constraint, selector, or free (allocated devices are given back).
    """

    kind: str
    claim: str
    request: str
    nodes: tuple[str, ...]
    name: str = ""
    selector: SelectorOf | None = None
    resource: str = ""
    container: str = ""


@dataclass(slots=True)
class ClaimsExplained:
    """Why the claims of a pod are not allocated, and what would help."""

    requests: list[RequestDevices] = field(default_factory=list)
    allocated: list[AllocatedClaim] = field(default_factory=list)
    changes: list[ClaimChange] = field(default_factory=list)


class _Cluster(msgspec.Struct, frozen=True):
    """What claims are explained on."""

    nodes: Sequence[NodeView]
    pools: Callable[[NodeView], list[Pool]]
    state: AllocatedState
    ranking: Callable[[NodeView], Ranking | None]
    budget: AttemptBudget
    results: SelectorResults

    def allocator(self, node: NodeView, state: AllocatedState) -> Allocator:
        """Return what allocates on a node where these devices are in use."""
        pools, ranking = self.pools(node), self.ranking(node)
        return Allocator(
            node, pools, state, ranking=ranking, spend=self.budget.spend, results=self.results
        )


@dataclass(slots=True)
class _Served:
    """The claim for extended resources as some nodes need it, and what each request serves."""

    plan: ClaimPlan
    nodes: list[NodeView]
    mappings: Sequence[ContainerExtendedResourceRequest]

    def titled(self, one: RequestDevices) -> RequestDevices:
        """Return a request with the resource and the container that it serves."""
        to = next(to for to in self.mappings if to.request_name == one.request)
        return structs.replace(one, resource=to.resource_name, container=to.container_name)


def explain_claims(
    handle: Handle, pod: PodInfo, rejected: Sequence[int], profile: str
) -> ClaimsExplained:
    """Explain the claims of a pod that a profile decides.

    ``rejected``: the rows that only they make infeasible. What takes more work than an attempt may
    take is left out.
    """
    explained = ClaimsExplained()
    handle.budget.begin()
    with suppress(DeadlineExceeded):
        _explain(explained, handle, pod, rejected, profile)
    handle.budget.end()
    return explained


def _explain(
    explained: ClaimsExplained, handle: Handle, pod: PodInfo, rejected: Sequence[int], profile: str
) -> None:
    claims = handle.shared(ResourceClaims)
    extended = handle.shared(ExtendedResources)
    found = ClaimStores(handle.objects, claims, extended).of(pod)
    if not found.status.ok or found.empty:
        return
    table = handle.nodes
    nodes = {row: node for row in table.row_of.values() if (node := table.nodes[row]) is not None}
    views = {row: NodeView(one.metadata.name, one.metadata.labels) for row, one in nodes.items()}
    allocating = handle.shared(Allocations).latest(profile)

    def ranking(node: NodeView) -> Ranking | None:
        return None if allocating is None else allocating.ranking(pod, table.row_of[node.name])

    pools = _pools_of(claims)
    paid = handle.budget, claims.selectors
    cluster = _Cluster(list(views.values()), pools, claims.state, ranking, *paid)
    explained.allocated = list(_allocated(found, cluster))
    served = _served(found, [(one, views[row]) for row, one in nodes.items()], extended)
    plans = [*found.plans, *(one.plan for one in served)]
    if _faulty(plans):
        return
    for plan, one in _requests(found.plans):
        explained.requests.append(_devices(plan, one, cluster.nodes, cluster))
    user = list(explained.requests)
    tried = [views[row] for row in rejected[:_TRIED]]
    if not served:
        for change in _changes(found.plans, user, tried, cluster):
            explained.changes.append(change)
    for variant in served:
        own = [
            variant.titled(_devices(plan, one, variant.nodes, cluster))
            for plan, one in _requests([variant.plan])
        ]
        explained.requests += own
        names = {node.name for node in variant.nodes}
        there = [node for node in tried if node.name in names]
        plans = [*found.plans, variant.plan]
        for change in _changes(plans, [*user, *own], there, cluster):
            explained.changes.append(change)


def _served(
    found: ClaimStore, nodes: Iterable[tuple[Node, NodeView]], extended: ExtendedResources
) -> list[_Served]:
    """Return the claims for the pod's extended resources, one for nodes that need the same."""
    if found.extended_claim is None:
        return []
    served: dict[object, _Served] = {}
    for node, view in nodes:
        try:
            variant = variant_on(node, found.extended_claim, found.pod, extended)
        except ExtendedResourceError:
            continue
        if variant is not None:
            key = tuple((one.request_name, one.resource_name) for one in variant.mappings)
            if key not in served:
                plan = ClaimPlan.of(variant.claim, extended.device_class)
                served[key] = _Served(plan, [], variant.mappings)
            served[key].nodes.append(view)
    return list(served.values())


def _pools_of(claims: ResourceClaims) -> Callable[[NodeView], list[Pool]]:
    slices = claims.slices

    def pools(node: NodeView) -> list[Pool]:
        try:
            return slices.gather(node)
        except PoolError:
            return []

    return pools


def _allocated(found: ClaimStore, cluster: _Cluster) -> Iterator[AllocatedClaim]:
    for claim in found.user:
        allocation = claim.status.allocation
        if allocation is None:
            continue
        results = allocation.devices.results
        devices = tuple(f"{one.driver}/{one.pool}/{one.device}" for one in results)
        selector = allocation.node_selector
        nodes = tuple(
            node.name for node in cluster.nodes if selector is None or selects(selector, node)
        )
        yield AllocatedClaim(claim_name(claim), devices, nodes)


def _requests(plans: Sequence[ClaimPlan]) -> Iterator[tuple[ClaimPlan, Request]]:
    for plan in plans:
        for alternatives in plan.requests:
            for request in alternatives:
                assert isinstance(request, Request), "errors were looked for"
                yield plan, request


def _faulty(plans: Sequence[ClaimPlan]) -> bool:
    return any(
        isinstance(request, AllocationError)
        for plan in plans
        for alternatives in plan.requests
        for request in alternatives
    )


def _devices(
    plan: ClaimPlan, request: Request, nodes: Sequence[NodeView], cluster: _Cluster
) -> RequestDevices:
    counts = tuple(_on_node(plan, request, node, cluster) for node in nodes)
    count = 0 if request.mode == ALL else request.count
    return RequestDevices(plan.name, request.full_name, request.class_name, count, counts)


def _on_node(plan: ClaimPlan, request: Request, node: NodeView, cluster: _Cluster) -> NodeDevices:
    allocator = cluster.allocator(node, cluster.state)
    refused: Counter[Refusal] = Counter()
    devices = 0
    for pool in allocator.pools:
        left = pool.counters_left(cluster.state)
        for device in pool.devices():
            devices += 1
            why = _refusal(plan, request, device, pool, allocator, left)
            if why is not None:
                refused[why] += 1
    return NodeDevices(node.name, devices, tuple(refused.items()), devices - refused.total())


def _refusal(
    plan: ClaimPlan,
    request: Request,
    device: DeviceView,
    pool: Pool,
    allocator: Allocator,
    left: dict[tuple[str, str], int],
) -> Refusal | None:
    """Return what keeps a device from a request that is alone, None if nothing does."""
    if pool.incomplete or pool.invalid:
        return Refusal("updated" if pool.incomplete else "invalid", error=pool.invalid)
    if not request.admin_access and device.id in allocator.state.devices:
        return Refusal("allocated")
    for place, expression in request.expressions:
        try:
            if allocator.results.selected(expression, device):
                continue
            error = ""
        except SelectorError as failure:
            error = str(failure)
        return Refusal("selector", _selector(plan, request, place), error=error)
    if device.slice.spec.per_device_node_selection and not device.on_node(allocator.node):
        return Refusal("node")
    if allocator.capacity_left(request, device) is None:
        return Refusal("capacity")
    if any(left[key] < 0 for key in left) and device.consumed_counters:
        return Refusal("counters")
    for counters, name, amount in device.consumed_counters:
        if left.get((counters, name), 0) < amount:
            return Refusal("counters")
    for taint in device.blocking:
        if not any(
            one.tolerates(taint.key, taint.value, taint.effect) for one in request.tolerations
        ):
            return Refusal("tainted", taint=taint)
    return None if allocator.ranking is None else _refused_by(allocator.ranking, request, device)


def _refused_by(ranking: Ranking, request: Request, device: DeviceView) -> Refusal | None:
    """Return the rule that keeps a device from a request, None if none does."""
    try:
        verdict = ranking.verdict(request, device)
    except AllocationError as error:
        return Refusal("rule", error=str(error))
    if verdict is None or not verdict.refused_by:
        return None
    words = f" ({verdict.message})" if verdict.message else ""
    return Refusal("rule", error=verdict.refused_by + words)


def _selector(plan: ClaimPlan, request: Request, place: str) -> SelectorOf:
    index = int(place.rpartition("#")[2])
    if place.startswith("class "):
        return SelectorOf("class", request.class_name, "", index)
    return SelectorOf("claim", plan.name, request.full_name, index)


# What would help.


def _changes(
    plans: Sequence[ClaimPlan],
    requests: Sequence[RequestDevices],
    nodes: Sequence[NodeView],
    cluster: _Cluster,
) -> Iterator[ClaimChange]:
    """Yield single changes with which all claims are allocated on some of the nodes."""

    def fitting(changed: Sequence[ClaimPlan], state: AllocatedState) -> tuple[str, ...]:
        return tuple(node.name for node in nodes if _allocates(changed, node, cluster, state))

    fewer: set[tuple[str, str]] = set()
    for change, changed in _variants(plans, requests):
        of = (change.claim, change.request)
        if change.kind == "count" and of in fewer:
            continue
        found = fitting(changed, cluster.state)
        if found:
            fewer |= {of} if change.kind == "count" else set()
            yield structs.replace(change, nodes=found)
    found = fitting(plans, AllocatedState())
    if found and any(one.why == "allocated" for one, _ in _all_refusals(requests)):
        yield ClaimChange("free", "", "", found)


def _allocates(
    plans: Sequence[ClaimPlan], node: NodeView, cluster: _Cluster, state: AllocatedState
) -> bool:
    try:
        return cluster.allocator(node, state).allocate(plans) is not None
    except AllocationError:
        return False


def _all_refusals(requests: Sequence[RequestDevices]) -> list[tuple[Refusal, RequestDevices]]:
    """Return every reason once for each request that it keeps devices from."""
    found = {
        (one, request.claim, request.request): (one, request)
        for request in requests
        for node in request.nodes
        for one, _ in node.refused
    }
    return list(found.values())


def _variants(
    plans: Sequence[ClaimPlan], requests: Sequence[RequestDevices]
) -> Iterator[tuple[ClaimChange, list[ClaimPlan]]]:
    """Yield what can be changed, the least first. Extended resources have no tolerations."""
    refusals = _all_refusals(requests)
    for why, wanted in refusals:
        if why.taint is not None and not wanted.resource:
            taint = why.taint
            toleration = Toleration(key=taint.key, operator="Exists", effect=taint.effect)

            def tolerant(request: Request, added: Toleration = toleration) -> Request:
                return replace(request, tolerations=(*request.tolerations, added))

            name = f"{taint.key}:{taint.effect}"
            yield _change("toleration", wanted, name), _changed(plans, wanted, tolerant)
    for wanted in requests:
        for count in range(min(wanted.count - 1, MAX_RESULTS), 0, -1):

            def fewer(request: Request, count: int = count) -> Request:
                return replace(request, count=count)

            yield _change("count", wanted, str(count)), _changed(plans, wanted, fewer)
    for place, plan in enumerate(plans):
        for index, constraint in enumerate(plan.claim.spec.devices.constraints):
            name = constraint.match_attribute or constraint.distinct_attribute or ""
            change = ClaimChange("constraint", plan.name, "", (), name)
            yield change, _unconstrained(plans, place, index)
    for why, wanted in refusals:
        if why.selector is not None:
            selector = why.selector

            def unselected(request: Request, one: SelectorOf = selector) -> Request:
                kept = tuple(e for e in request.expressions if not _is(one, e[0]))
                return replace(request, expressions=kept, _selected={})

            change = structs.replace(_change("selector", wanted), selector=selector)
            yield change, _changed(plans, wanted, unselected)


def _change(kind: str, wanted: RequestDevices, name: str = "") -> ClaimChange:
    """Return a change of a request, whose nodes are not known yet."""
    return ClaimChange(
        kind,
        wanted.claim,
        wanted.request,
        (),
        name,
        resource=wanted.resource,
        container=wanted.container,
    )


def _is(selector: SelectorOf, place: str) -> bool:
    return place.startswith(f"{selector.kind} ") and place.endswith(f"#{selector.index}")


def _changed(
    plans: Sequence[ClaimPlan], wanted: RequestDevices, change: Callable[[Request], Request]
) -> list[ClaimPlan]:
    """Return plans in which one request is another."""
    found = []
    for plan in plans:
        requests: list[list[Request | AllocationError]] = [
            [
                change(one)
                if isinstance(one, Request)
                and (plan.name, one.full_name) == (wanted.claim, wanted.request)
                else one
                for one in alternatives
            ]
            for alternatives in plan.requests
        ]
        found.append(replace(plan, requests=requests))
    return found


def _unconstrained(plans: Sequence[ClaimPlan], place: int, index: int) -> list[ClaimPlan]:
    """Return plans without one constraint of a claim."""
    found = list(plans)
    claim = found[place].claim
    constraints = claim.spec.devices.constraints
    kept = (*constraints[:index], *constraints[index + 1 :])
    devices = replaced(claim.spec.devices, constraints=kept)
    spec = replaced(claim.spec, devices=devices)
    found[place] = replace(found[place], claim=replaced(claim, spec=spec))
    return found
