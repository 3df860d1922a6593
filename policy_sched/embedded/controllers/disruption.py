"""Disruption budgets: how many of their pods are healthy, and how many more may go.

(The disruption controller. What an eviction has taken and is not gone yet is not noted apart: a
pod that is being deleted is not healthy.)
"""

from __future__ import annotations

from typing import Final

from policy_sched.client.apimachinery import BUDGET, DEPLOYMENT, POD, REPLICA_SET, Stored
from policy_sched.embedded.controllers import pod_control
from policy_sched.embedded.controllers.deployments import share
from policy_sched.embedded.controllers.workqueue import Controller
from policy_sched.embedded.store import DELETED, Key, ObjectStore, StoreChange
from policy_sched.manifests import replicas_of
from policy_sched.model import NOTHING, LabelSelector, PodDisruptionBudget, Selector, label_selector

MOST: Final = 2**31 - 1
"""The largest count that a status can have."""


class _Budget:
    """A budget and its pods by uid, so far as they were seen, and what they count for."""

    def __init__(self, stored: Stored) -> None:
        typed = stored.typed
        assert isinstance(typed, PodDisruptionBudget)
        self._selector = _selector(typed.spec.selector)
        self.spec = typed.spec
        self.pods: dict[str, Stored] = {}
        self.healthy = 0
        self.by_owner: dict[str, dict[str, Stored]] = {}

    def covers(self, pod: Stored) -> bool:
        """Return whether a pod is the budget's: it has not ended, and it is selected."""
        over = pod_control.standing_of(pod) >= pod_control.Standing.SUCCEEDED
        return not over and self._selector.matches(pod.labels)

    def add(self, pod: Stored) -> None:
        """Count a pod."""
        self.pods[pod.uid] = pod
        self.healthy += pod_control.standing_of(pod) == pod_control.Standing.READY
        self.by_owner.setdefault(_owner_uid(pod), {})[pod.uid] = pod

    def remove(self, uid: str) -> bool:
        """Count a pod no more; return whether it was counted."""
        pod = self.pods.pop(uid, None)
        if pod is None:
            return False
        self.healthy -= pod_control.standing_of(pod) == pod_control.Standing.READY
        owner = _owner_uid(pod)
        del self.by_owner[owner][uid]
        if not self.by_owner[owner]:
            del self.by_owner[owner]
        return True


def _selector(given: LabelSelector | None) -> Selector:
    """Compile a budget's selector; one that is not valid selects nothing."""
    try:
        return label_selector(given)
    except ValueError:
        return NOTHING


def _stays(store: ObjectStore, budget: Stored, name: str) -> bool:
    """Return whether a pod that was evicted is there as if nothing had happened."""
    pod = store.find(POD, budget.namespace, name)
    return pod is not None and not pod.deleting


def _owner_uid(pod: Stored) -> str:
    owner = pod_control.controller_of(pod)
    return owner.uid if owner is not None else ""


class DisruptionController(Controller):
    """Keeps the status of disruption budgets."""

    kinds = frozenset({BUDGET, POD})
    name = "disruption"

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self._budgets: dict[str, dict[Key, _Budget]] = {}

    def observe(self, change: StoreChange) -> None:
        """Observe a budget or a pod that changed."""
        new = change.new
        if new.resource.key == BUDGET:
            self._budget(change)
        elif new.resource.key == POD:
            for key, budget in self._budgets.get(new.namespace, {}).items():
                removed = budget.remove(new.uid)
                covered = change.type != DELETED and budget.covers(new)
                if covered:
                    budget.add(new)
                if removed or covered:
                    self._queue.add(key)

    def _budget(self, change: StoreChange) -> None:
        new = change.new
        key = Key(BUDGET, *new.namespaced_name)
        budgets = self._budgets.setdefault(new.namespace, {})
        if change.type == DELETED:
            budgets.pop(key, None)
            if not budgets:
                del self._budgets[new.namespace]
            return
        self._queue.add(key)
        former, budget = budgets.get(key), _Budget(new)
        if former is not None and former.spec == budget.spec:
            return
        for pod in self._store.select(POD, new.namespace):
            if budget.covers(pod):
                budget.add(pod)
        budgets[key] = budget

    def next_wakeup(self) -> int | None:
        """Return None: budgets wait for nothing."""
        return None

    def sync(self, key: Key) -> bool:
        """Write the status of a budget."""
        stored = self._store.find(key.kind, key.namespace, key.name)
        budget = self._budgets.get(key.namespace, {}).get(key)
        return stored is not None and budget is not None and self._sync_status(stored, budget)

    def _sync_status(self, stored: Stored, budget: _Budget) -> bool:
        healthy = budget.healthy
        expected, desired = (min(count, MOST) for count in self._numbers(budget))
        allowed = min(MOST, max(0, healthy - desired))
        status = {
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
        }
        old = (stored.data.get("status") or {}).get("disruptedPods") or {}
        going = {name: since for name, since in old.items() if _stays(self._store, stored, name)}
        enough = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
        noted = {"conditions": (stored.data.get("status") or {}).get("conditions")}
        pod_control.condition(noted, "DisruptionAllowed", *enough, "", self._store.now())
        return pod_control.report(
            self._store,
            stored,
            {**status, **noted, "disruptedPods": going},
            zeros=frozenset(status),
        )

    def _numbers(self, budget: _Budget) -> tuple[int, int]:
        """Return how many pods there should be, and how many must be healthy."""
        spec = budget.spec
        if spec.max_unavailable is not None:
            expected = self._expected(budget)
            return expected, max(0, expected - share(spec.max_unavailable, expected, up=True))
        least = spec.min_available
        if least is None or isinstance(least, int):
            return len(budget.pods), least or 0
        expected = self._expected(budget)
        return expected, share(least, expected, up=True)

    def _expected(self, budget: _Budget) -> int:
        """Return how many pods the controllers of the budget's pods want, all together."""
        wanted: dict[str, int] = {}
        alone = 0
        for pods in budget.by_owner.values():
            owner = self._owner(next(iter(pods.values())))
            owner = (self._owner(owner, REPLICA_SET) or owner) if owner is not None else None
            if owner is None or "replicas" not in (owner.data.get("spec") or {}):
                alone += len(pods)
            else:
                wanted[owner.uid] = replicas_of(owner.data)
        return alone + sum(wanted.values())

    def _owner(self, owned: Stored, kind: tuple[str, str] = POD) -> Stored | None:
        reference = pod_control.controller_of(owned) if owned.resource.key == kind else None
        if reference is None:
            return None
        kind_of_owner = (reference.api_version, reference.kind)
        if kind == REPLICA_SET and kind_of_owner != DEPLOYMENT:
            return None
        stored = self._store.find(kind_of_owner, owned.namespace, reference.name)
        return stored if stored is not None and stored.uid == reference.uid else None
