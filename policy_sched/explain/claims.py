"""Explains claims: what keeps each device of a node from each request, and what would help.

Theory of operation. A device is checked for one request alone, in the allocator's order: the
first reason counts. What would help is found by allocating again with one thing changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace as replaced
from numpy.typing import NDArray

from policy_sched.explain.devices import (
    WORDS,
    AllocatedClaim,
    ClaimChangeStep,
    ClaimSteps,
    DevicesStep,
    RefusedStep,
    RequestStep,
    SelectorStep,
)
from policy_sched.framework import AttemptBudget, DeadlineExceeded, Handle
from policy_sched.model import (
    ContainerExtendedResourceRequest,
    Node,
    PodInfo,
    Toleration,
    tolerated,
)
from policy_sched.plugins import dynamicresources as dra

#: Nodes for which changes are tried.
_TRIED: Final = 500
_ORDER: Final = ("updated", "invalid", "allocated", "selector", *WORDS)

Change = Callable[[dra.Request], dra.Request]


class _Cluster(msgspec.Struct, frozen=True):
    """The cluster on which claims are explained."""

    nodes: Sequence[dra.NodeView]
    rejecting: Collection[str]
    """The names of the nodes that reject the pod for its claims."""
    claims: dra.ResourceClaims
    ranking: Callable[[dra.NodeView], dra.Ranking | None]
    budget: AttemptBudget

    def allocator(self, node: dra.NodeView, state: dra.AllocatedState) -> dra.Allocator:
        """Return what allocates on a node where these devices are in use."""
        try:
            pools: list[dra.Pool] = self.claims.slices.gather(node)
        except dra.PoolError:
            pools = []
        ranking, spend, results = self.ranking(node), self.budget.spend, self.claims.selectors
        return dra.Allocator(node, pools, state, ranking=ranking, spend=spend, results=results)


@dataclass(slots=True)
class _Served:
    """The claim for extended resources as some nodes need it, and what each request serves."""

    plan: dra.ClaimPlan
    nodes: list[dra.NodeView]
    mappings: Sequence[ContainerExtendedResourceRequest]

    def titled(self, step: RequestStep) -> RequestStep:
        """Return a request with the resource and the container that it serves."""
        to = next(to for to in self.mappings if to.request_name == step.request)
        return replaced(step, resource=to.resource_name, container=to.container_name)


def explain_claims(
    handle: Handle,
    pod: PodInfo,
    profile: str,
    rejecting: NDArray[np.intp],
    alone: NDArray[np.intp],
) -> ClaimSteps:
    """Explain the claims of a pod that a profile decides.

    ``rejecting``: the rows that its claims make infeasible; ``alone``: those that only they do.
    What takes more work than an attempt may take is left out.
    """
    steps = ClaimSteps([], [], [])
    handle.budget.begin()
    with suppress(DeadlineExceeded):
        _explain(steps, handle, pod, profile, (rejecting, alone))
    handle.budget.under_way = False
    return steps


def _explain(
    steps: ClaimSteps,
    handle: Handle,
    pod: PodInfo,
    profile: str,
    rows: tuple[NDArray[np.intp], NDArray[np.intp]],
) -> None:
    claims, extended = handle.shared(dra.ResourceClaims), handle.shared(dra.ExtendedResources)
    store = dra.ClaimStores(handle.objects, claims, extended).of(pod)
    if not store.status.ok or store.empty:
        return
    table = handle.nodes
    nodes = {row: node for row in table.row_of.values() if (node := table.nodes[row]) is not None}
    views = {row: dra.NodeView(n.metadata.name, n.metadata.labels) for row, n in nodes.items()}
    allocating = handle.shared(dra.Allocations).latest(profile)

    def ranking(node: dra.NodeView) -> dra.Ranking | None:
        return None if allocating is None else allocating.ranking(pod, table.row_of[node.name])

    rejecting = {table.names[row] for row in rows[0].tolist()}
    cluster = _Cluster(list(views.values()), rejecting, claims, ranking, handle.budget)
    steps.allocated.extend(_allocated(store, cluster))
    served = _served(store, [(node, views[row]) for row, node in nodes.items()], extended)
    if _faulty([*store.plans, *(variant.plan for variant in served)]):
        return
    for plan, request in _requests(store.plans):
        steps.requests.append(_devices(plan, request, cluster.nodes, cluster))
    user = list(steps.requests)
    tried = [views[row] for row in rows[1][:_TRIED].tolist()]
    if not served:
        for change in _changes(store.plans, user, tried, cluster):
            steps.changes.append(change)
    for variant in served:
        own = [
            variant.titled(_devices(plan, request, variant.nodes, cluster))
            for plan, request in _requests([variant.plan])
        ]
        steps.requests.extend(own)
        names = {node.name for node in variant.nodes}
        there = [node for node in tried if node.name in names]
        plans = [*store.plans, variant.plan]
        for change in _changes(plans, [*user, *own], there, cluster):
            steps.changes.append(change)  # one by one: the budget may end it


def _served(
    store: dra.ClaimStore,
    nodes: Iterable[tuple[Node, dra.NodeView]],
    extended: dra.ExtendedResources,
) -> list[_Served]:
    """Return the claims for the pod's extended resources, one for nodes that need the same."""
    if store.extended_claim is None:
        return []
    served: dict[object, _Served] = {}
    for node, view in nodes:
        try:
            variant = dra.variant_on(node, store.extended_claim, store.pod, extended)
        except dra.ExtendedResourceError:
            continue
        if variant is not None:
            key = tuple((to.request_name, to.resource_name) for to in variant.mappings)
            if key not in served:
                plan = dra.ClaimPlan.of(variant.claim, extended.device_class)
                served[key] = _Served(plan, [], variant.mappings)
            served[key].nodes.append(view)
    return list(served.values())


def _allocated(store: dra.ClaimStore, cluster: _Cluster) -> Iterator[AllocatedClaim]:
    """Yield the allocated claims that a rejecting node cannot use."""
    for claim in store.user:
        allocation = claim.status.allocation
        if allocation is None:
            continue
        results = allocation.devices.results
        devices = tuple(f"{result.driver}/{result.pool}/{result.device}" for result in results)
        selector = allocation.node_selector
        nodes = tuple(
            node.name for node in cluster.nodes if selector is None or dra.selects(selector, node)
        )
        if set(cluster.rejecting) - set(nodes):
            yield AllocatedClaim(dra.claim_name(claim), devices, nodes)


def _requests(plans: Sequence[dra.ClaimPlan]) -> Iterator[tuple[dra.ClaimPlan, dra.Request]]:
    for plan in plans:
        for alternatives in plan.requests:
            for request in alternatives:
                assert isinstance(request, dra.Request), "errors were looked for"
                yield plan, request


def _faulty(plans: Sequence[dra.ClaimPlan]) -> bool:
    return any(
        isinstance(request, dra.AllocationError)
        for plan in plans
        for alternatives in plan.requests
        for request in alternatives
    )


def _devices(
    plan: dra.ClaimPlan, request: dra.Request, nodes: Sequence[dra.NodeView], cluster: _Cluster
) -> RequestStep:
    """Return what the rejecting ones of the nodes have for a request; nodes alike are one step."""
    alike: dict[object, DevicesStep] = {}
    for node in nodes:
        if node.name in cluster.rejecting:
            devices, refused = _on_node(plan, request, node, cluster)
            key = devices, frozenset(refused.items())
            if key not in alike:
                steps = [replace(step, count=count) for step, count in refused.items()]
                steps.sort(key=lambda step: (_ORDER.index(step.why), str(step)))
                alike[key] = DevicesStep([], devices, steps, devices - refused.total())
            alike[key].nodes.append(node.name)
    return RequestStep(
        plan.name,
        request.full_name,
        request.class_name,
        0 if request.mode == dra.ALL else request.count,
        sorted(alike.values(), key=lambda step: (-step.fit, -step.devices, step.nodes[0])),
    )


def _on_node(
    plan: dra.ClaimPlan, request: dra.Request, node: dra.NodeView, cluster: _Cluster
) -> tuple[int, Counter[RefusedStep]]:
    """Return how many devices a node reaches, and how many of them are refused why."""
    allocator = cluster.allocator(node, cluster.claims.state)
    refused: Counter[RefusedStep] = Counter()
    devices = 0
    for pool in allocator.pools:
        left = pool.counters_left(cluster.claims.state)
        for device in pool.devices():
            devices += 1
            why = _refusal(plan, request, device, pool, allocator, left)
            if why is not None:
                refused[why] += 1
    return devices, refused


def _refusal(
    plan: dra.ClaimPlan,
    request: dra.Request,
    device: dra.DeviceView,
    pool: dra.Pool,
    allocator: dra.Allocator,
    left: dict[tuple[str, str], int],
) -> RefusedStep | None:
    """Return what keeps a device from a request that is alone, None if nothing does."""
    if pool.incomplete or pool.invalid:
        return RefusedStep("updated" if pool.incomplete else "invalid", error=pool.invalid)
    if not request.admin_access and device.id in allocator.state.devices:
        return RefusedStep("allocated")
    for selector_key, expression in request.expressions:
        try:
            if allocator.results.selected(expression, device):
                continue
            error = ""
        except dra.SelectorError as failure:
            error = str(failure)
        return RefusedStep("selector", selector=_selector(plan, request, selector_key), error=error)
    if device.slice.spec.per_device_node_selection and not device.on_node(allocator.node):
        return RefusedStep("node")
    if allocator.capacity_left(request, device) is None:
        return RefusedStep("capacity")
    if any(left[key] < 0 for key in left) and device.consumed_counters:
        return RefusedStep("counters")
    for counters, name, amount in device.consumed_counters:
        if left.get((counters, name), 0) < amount:
            return RefusedStep("counters")
    for taint in device.blocking:
        if not tolerated(taint, request.tolerations):
            return RefusedStep("tainted", taint=f"{taint.key}:{taint.effect}")
    return None if allocator.ranking is None else _refused_by(allocator.ranking, request, device)


def _refused_by(
    ranking: dra.Ranking, request: dra.Request, device: dra.DeviceView
) -> RefusedStep | None:
    """Return the rule that keeps a device from a request, None if none does."""
    try:
        verdict = ranking.verdict(request, device)
    except dra.AllocationError as error:
        return RefusedStep("rule", error=str(error))
    if verdict is None or not verdict.refused_by:
        return None
    return RefusedStep("rule", error=verdict.named)


def _selector(plan: dra.ClaimPlan, request: dra.Request, selector_key: str) -> SelectorStep:
    index = int(selector_key.rpartition("#")[2])
    if selector_key.startswith("class "):
        return SelectorStep("class", request.class_name, "", index)
    return SelectorStep("claim", plan.name, request.full_name, index)


# What would help.


def _changes(
    plans: Sequence[dra.ClaimPlan],
    requests: Sequence[RequestStep],
    nodes: Sequence[dra.NodeView],
    cluster: _Cluster,
) -> Iterator[ClaimChangeStep]:
    """Yield single changes with which all claims are allocated on some of the nodes."""

    def fitting(changed: Sequence[dra.ClaimPlan], state: dra.AllocatedState) -> list[str]:
        return [node.name for node in nodes if _allocates(changed, node, cluster, state)]

    fewer: set[tuple[str, str]] = set()
    for change, changed in _variants(plans, requests):
        of = (change.claim, change.request)
        if change.kind == "count" and of in fewer:
            continue
        names = fitting(changed, cluster.claims.state)
        if names:
            fewer |= {of} if change.kind == "count" else set()
            yield change.on(names)
    names = fitting(plans, dra.AllocatedState())
    if names and any(step.why == "allocated" for step, _ in _all_refusals(requests)):
        yield ClaimChangeStep("free").on(names)


def _allocates(
    plans: Sequence[dra.ClaimPlan],
    node: dra.NodeView,
    cluster: _Cluster,
    state: dra.AllocatedState,
) -> bool:
    try:
        return cluster.allocator(node, state).allocate(plans) is not None
    except dra.AllocationError:
        return False


def _all_refusals(requests: Sequence[RequestStep]) -> list[tuple[RefusedStep, RequestStep]]:
    """Return every reason once for each request that it keeps devices from."""
    refusals = {
        (replace(step, count=1), request.claim, request.request): (step, request)
        for request in requests
        for node in request.nodes
        for step in node.refused
    }
    return list(refusals.values())


def _variants(
    plans: Sequence[dra.ClaimPlan], requests: Sequence[RequestStep]
) -> Iterator[tuple[ClaimChangeStep, list[dra.ClaimPlan]]]:
    """Yield what can be changed, the least first. Extended resources have no tolerations."""
    refusals = _all_refusals(requests)
    for why, wanted in refusals:
        if why.taint and not wanted.resource:
            change = ClaimChangeStep.of("toleration", wanted, why.taint)
            yield change, _changed(plans, wanted, partial(_tolerant, why.taint))
    for wanted in requests:
        for count in range(min(wanted.count - 1, dra.MAX_RESULTS), 0, -1):
            change = ClaimChangeStep.of("count", wanted, str(count))
            yield change, _changed(plans, wanted, partial(replace, count=count))
    for number, plan in enumerate(plans):
        for index, constraint in enumerate(plan.claim.spec.devices.constraints):
            name = constraint.match_attribute or constraint.distinct_attribute or ""
            change = ClaimChangeStep("constraint", plan.name, name=name)
            yield change, _unconstrained(plans, number, index)
    for why, wanted in refusals:
        if why.selector is not None:
            change = replace(ClaimChangeStep.of("selector", wanted), selector=why.selector)
            yield change, _changed(plans, wanted, partial(_unselected, why.selector))


def _tolerant(taint: str, request: dra.Request) -> dra.Request:
    key, _, effect = taint.rpartition(":")
    toleration = Toleration(key=key, operator="Exists", effect=effect)
    return replace(request, tolerations=(*request.tolerations, toleration))


def _unselected(selector: SelectorStep, request: dra.Request) -> dra.Request:
    kept = tuple(
        (selector_key, text)
        for selector_key, text in request.expressions
        if not (
            selector_key.startswith(f"{selector.kind} ")
            and selector_key.endswith(f"#{selector.index}")
        )
    )
    return replace(request, expressions=kept)


def _changed(
    plans: Sequence[dra.ClaimPlan], wanted: RequestStep, change: Change
) -> list[dra.ClaimPlan]:
    """Return plans in which one request is another."""
    return [
        replace(
            plan,
            requests=[
                [
                    change(alternative)
                    if isinstance(alternative, dra.Request)
                    and (plan.name, alternative.full_name) == (wanted.claim, wanted.request)
                    else alternative
                    for alternative in alternatives
                ]
                for alternatives in plan.requests
            ],
        )
        for plan in plans
    ]


def _unconstrained(plans: Sequence[dra.ClaimPlan], number: int, index: int) -> list[dra.ClaimPlan]:
    """Return plans without one constraint of a claim."""
    claim = plans[number].claim
    constraints = claim.spec.devices.constraints
    kept = (*constraints[:index], *constraints[index + 1 :])
    spec = replaced(claim.spec, devices=replaced(claim.spec.devices, constraints=kept))
    changed = list(plans)
    changed[number] = replace(plans[number], claim=replaced(claim, spec=spec))
    return changed
