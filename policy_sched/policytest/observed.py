"""What a scenario can state of a decision and of resource claims, as it is observed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec
import numpy as np

from policy_sched.client import MemoryClient
from policy_sched.cluster import ApiObjects
from policy_sched.cluster.tables import NodeTable
from policy_sched.framework import Code, Handle, Status
from policy_sched.framework.evaluate import NOT_ASKED
from policy_sched.model import Pod, PodInfo, ResourceClaim
from policy_sched.policytest.expectations import (
    ExpectedEviction,
    ExpectedOutcome,
    ExpectedScore,
    PluginOutcome,
)
from policy_sched.scheduler import Bind, Decision, Preempt, Reject


def plugin_outcome(status: Status) -> PluginOutcome:
    """Return a status as a plugin's outcome."""
    return PluginOutcome(status.code.value, "" if status.ok else status.plugin, status.reasons)


_NOT_ASKED: Final = PluginOutcome(Code.UNSCHEDULABLE_AND_UNRESOLVABLE.value, "", ())
"""The outcome of a node that was not looked at, as kube-scheduler reports it."""


def outcome_of(
    info: PodInfo, decision: Decision, table: NodeTable, *, scored: bool = True
) -> ExpectedOutcome:
    """Return the outcome of a pod that was decided, on the nodes of a table.

    ``scored``: False where no plugin scores: the total is 1 then.
    """
    if isinstance(decision, Bind):
        return _placed(info, decision, table, 0 if scored else 1)
    diagnosis = decision.diagnosis
    if diagnosis is None:
        return ExpectedOutcome(info.key, feasible=(), message=decision.message)
    names = table.names
    pre_filter, post_filter = diagnosis.pre_filter, diagnosis.post_filter
    rejected = {} if pre_filter else diagnosis.statuses
    return ExpectedOutcome(
        info.key,
        pre_filter=plugin_outcome(pre_filter) if pre_filter else None,
        rejected={names[row]: plugin_outcome(status) for row, status in rejected.items()},
        feasible=(),
        message=decision.message,
        post_filter=plugin_outcome(post_filter) if post_filter else None,
        preemption=_eviction(decision),
        nominated=_nominated(decision),
    )


def _placed(info: PodInfo, decision: Bind, table: NodeTable, unscored: int) -> ExpectedOutcome:
    """Return the outcome of a pod that has feasible nodes; ``unscored`` is in every total."""
    evaluation, names = decision.evaluation, table.names
    rows = evaluation.filtering.feasible_rows()
    feasible = [names[row] for row in rows.tolist()]
    scoring = evaluation.scoring
    assert scoring is not None, "a feasible node was scored"
    totals = scoring.total[rows].tolist()
    weighted = scoring.weighted(rows)
    scores = {
        name: ExpectedScore(
            total + unscored, {plugin: part[i] for plugin, part in weighted.items()}
        )
        for i, (name, total) in enumerate(zip(feasible, totals, strict=True))
    }
    statuses = evaluation.filtering.statuses()
    rejected = {names[row]: plugin_outcome(status) for row, status in statuses.items()}
    if scoring.only is None:  # not the nominated node alone
        passed_over = np.flatnonzero(evaluation.filtering.first == NOT_ASKED)
        rejected |= {names[row]: _NOT_ASKED for row in passed_over.tolist()}
    return ExpectedOutcome(
        info.key,
        rejected=rejected,
        feasible=tuple(sorted(feasible)),
        scores=scores,
        best=tuple(sorted(names[row] for row in evaluation.best().tolist())),
    )


def _eviction(decision: Preempt | Reject) -> tuple[ExpectedEviction, ...] | None:
    if isinstance(decision, Reject):
        return None
    return (ExpectedEviction(decision.node, tuple(victim.key for victim in decision.victims)),)


def _nominated(decision: Preempt | Reject) -> str | None:
    if isinstance(decision, Preempt):
        return decision.node
    return None if decision.nominated else ""


SPECIAL: Final = "(extended resources)"
"""What the claim is called that is made for a pod's extended resources."""
MANY: Final = 8
"""Consumers of a claim that are named; of more there is only the number."""
_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"


def claims_of_cluster(objects: ApiObjects) -> dict[str, ResourceClaim]:
    """Return the claims by namespace/name."""
    return {
        f"{claim.metadata.namespace or 'default'}/{claim.metadata.name}": claim
        for claim in objects.of(ResourceClaim)
    }


def with_claims(
    outcome: ExpectedOutcome, pod: PodInfo, before: Mapping[str, ResourceClaim], handle: Handle
) -> ExpectedOutcome:
    """Return an outcome with the claims that are reserved for the pod, and those given back."""
    after = claims_of_cluster(handle.objects)
    written = {}
    for claim in after.values():
        if any(consumer.uid == pod.uid for consumer in claim.status.reserved_for):
            special = is_special(claim)
            name = SPECIAL if special else claim.metadata.name
            written[name] = _written(claim, pod, handle if special else None)
    gone = tuple(
        name
        for name, claim in before.items()
        if (name not in after or _given_back(claim, after[name])) and not outcome.feasible
    )
    return replace(outcome, claims=written or None, deallocated=gone or None)


def is_special(claim: ResourceClaim) -> bool:
    """Return whether a claim was made for a pod's extended resources."""
    return claim.metadata.annotations.get(_ANNOTATION) == "true"


def _given_back(before: ResourceClaim, after: ResourceClaim) -> bool:
    return before.status.allocation is not None and after.status.allocation is None


def _written(claim: ResourceClaim, pod: PodInfo, handle: Handle | None) -> dict[str, object]:
    allocation = _plain(claim.status.allocation)
    allocation.pop("allocationTimestamp", None)
    for result in allocation["devices"].get("results", ()):
        if "shareID" in result:
            result["shareID"] = "(random)"
    facts: dict[str, object] = {
        "allocation": allocation,
        "finalizers": list(claim.metadata.finalizers),
    }
    names = [consumer.name for consumer in claim.status.reserved_for]
    if len(names) > MANY:
        facts["reservedForCount"] = len(names)
    else:
        facts["reservedFor"] = names
    if handle is not None:
        facts["requests"] = _plain(claim.spec.devices.requests)
        facts["requestMappings"] = _mappings(pod, handle)
    return facts


def _mappings(pod: PodInfo, handle: Handle) -> object:
    client = handle.client
    assert isinstance(client, MemoryClient), "scenarios have no other cluster"
    for request in reversed(client.requests):
        if request.kind is Pod and (request.namespace, request.name) == (pod.namespace, pod.name):
            return request.body["status"]["extendedResourceClaimStatus"]["requestMappings"]
    return None


def _plain(value: object) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))
