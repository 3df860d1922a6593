"""Evictions: deletions of pods that disruption budgets have a say in.

(The eviction subresource of pods: canIgnorePDB, checkAndDecrement, and which pods that are not
ready may go, whatever the budget says.)
"""

from __future__ import annotations

from typing import Any, Final

from policy_sched.client.apimachinery import BUDGET, POD, ApiError, Stored, timestamp
from policy_sched.embedded.admission import forbidden, set_condition
from policy_sched.embedded.apiserver.endpoints.decode import object_of_kind
from policy_sched.embedded.apiserver.endpoints.write import Writing
from policy_sched.embedded.apiserver.request import Sent
from policy_sched.embedded.store import ENDED, DeleteOptions, ObjectStore
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


class Evictions:
    """Evicts the pods of a store."""

    def __init__(self, store: ObjectStore, writing: Writing) -> None:
        self._store = store
        self._writing = writing

    def evict(self, sent: Sent) -> None:
        """Delete a pod if its disruption budget allows it. Raises ApiError."""
        target, eviction = sent.target, object_of_kind(sent.body, sent.content_type, "Eviction")
        given = eviction.get("deleteOptions") or {}
        before = given.get("preconditions") or {}
        stored = self._store.get(POD, target.namespace, target.name)
        typed = stored.typed
        assert isinstance(typed, Pod)
        dry = sent.options.dry_run or given.get("dryRun") == ["All"]
        waits = typed.status.phase in ("", "Pending") or typed.status.phase in ENDED
        deletion = DeleteOptions(
            given.get("gracePeriodSeconds"), before.get("uid"), before.get("resourceVersion")
        )
        with self._writing.perhaps(dry=dry):
            if not waits and not stored.deleting:
                self._ask_budget(stored, typed)
                data = stored.data
                set_condition(data.setdefault("status", {}), _CONDITION, self._store.now())
                self._store.revise(stored, data)
            self._store.delete(target.key, deletion)

    def _ask_budget(self, pod: Stored, typed: Pod) -> None:
        """Count a pod's disruption if it matters to a budget. Raises ApiError if it is too many."""
        found = [one for one in self._store.select(BUDGET, pod.namespace) if _covers(one, pod)]
        if len(found) > 1:
            raise ApiError(500, "InternalError", _TWO)
        for budget in found:
            if _ready(typed) or not _may_go_unready(budget):
                self._take(budget, pod)

    def _take(self, budget: Stored, pod: Stored) -> None:
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
        disrupted[pod.name] = timestamp(self._store.now())
        self._store.revise(budget, data)


def _ready(pod: Pod) -> bool:
    return any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions)


def _may_go_unready(budget: Stored) -> bool:
    """Tell whether a pod that is not ready may go: always, or while enough others are healthy."""
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
