"""Evictions: deletions of pods within disruption budgets.

As in the API server's eviction subresource (canIgnorePDB, checkAndDecrement).
"""

from __future__ import annotations

from typing import Any, Final

from policy_sched.client.apimachinery import BUDGET, POD, ApiError, Key, Stored, timestamp
from policy_sched.embedded.admission import forbidden, set_condition
from policy_sched.embedded.store.deletion import ENDED, DeleteOptions
from policy_sched.embedded.store.store import ObjectStore
from policy_sched.manifests import Plain
from policy_sched.model import Pod, PodDisruptionBudget, label_selector

MOST_DISRUPTED: Final = 2000
"""Evictions that a budget may not have seen the end of."""
_VIOLATES: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_TWO: Final = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not"
    " support."
)
_CONDITION: Final = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


def evict(store: ObjectStore, key: Key, deletion: DeleteOptions) -> Stored:
    """Delete a pod if its disruption budget allows it; return it. Raises ApiError."""
    stored = store.get(POD, key.namespace, key.name)
    typed = stored.typed
    assert isinstance(typed, Pod)
    waits = typed.status.phase in ("", "Pending") or typed.status.phase in ENDED
    other = bool(deletion.uid) and deletion.uid != stored.uid  # which the deletion refuses
    if not waits and not stored.deleting and not other:
        _ask_budget(store, stored, typed)
        data = stored.data
        set_condition(data.setdefault("status", {}), _CONDITION, store.now())
        store.revise(stored, data)
    return store.delete(key, deletion)


def _ask_budget(store: ObjectStore, pod: Stored, typed: Pod) -> None:
    """Count a pod's disruption if it matters to a budget. Raises ApiError if it is too many."""
    budgets = [b for b in store.select(BUDGET, pod.namespace) if _covers(b, pod)]
    if len(budgets) > 1:
        raise ApiError(500, "InternalError", _TWO)
    for budget in budgets:
        if _ready(typed) or not _may_go_unready(budget):
            _take(store, budget, pod)


def _take(store: ObjectStore, budget: Stored, pod: Stored) -> None:
    """Count a disruption. Raises ApiError if no more are allowed."""
    data = budget.data
    status: Plain = data["status"]
    name, disrupted = budget.name, status.setdefault("disruptedPods", {})
    if status.get("observedGeneration", 0) < data["metadata"].get("generation", 0):
        raise _refusal(f"The disruption budget {name} is still being processed by the server.")
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise forbidden(budget.resource, name, "pdb disruptions allowed is negative")
    if len(disrupted) > MOST_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden(budget.resource, name, why)
    if allowed == 0:
        needs, has = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        why = f"The disruption budget {name} needs {needs} healthy pods and has {has} currently"
        raise _refusal(why)
    status["disruptionsAllowed"] = allowed - 1
    disrupted[pod.name] = timestamp(store.now())
    store.revise(budget, data)


def _ready(pod: Pod) -> bool:
    return any(
        condition.type == "Ready" and condition.status == "True"
        for condition in pod.status.conditions
    )


def _may_go_unready(budget: Stored) -> bool:
    """Return whether a pod may be evicted while it is not ready (canIgnorePDB)."""
    data: Any = budget.data
    if (data.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    typed = budget.typed
    assert isinstance(typed, PodDisruptionBudget)
    return typed.status.current_healthy >= typed.status.desired_healthy > 0


def _covers(budget: Stored, pod: Stored) -> bool:
    typed = budget.typed
    assert isinstance(typed, PodDisruptionBudget)
    selector = label_selector(typed.spec.selector)
    return selector is not None and selector.matches(pod.labels)


def _refusal(why: str) -> ApiError:
    causes = [{"reason": "DisruptionBudget", "message": why}]
    return ApiError(429, "TooManyRequests", _VIOLATES, {"causes": causes})
