"""The controllers of an embedded cluster.

The clusterrole-aggregation controller is here too: cluster roles that are made of others have the
rules of the roles that they select.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from policy_sched.embedded.controllers import namespaces
from policy_sched.embedded.controllers.daemon_sets import DaemonSetController
from policy_sched.embedded.controllers.deployments import DeploymentController
from policy_sched.embedded.controllers.disruption import DisruptionController
from policy_sched.embedded.controllers.garbage_collector import GarbageCollector
from policy_sched.embedded.controllers.jobs import JobController
from policy_sched.embedded.controllers.pod_control import OwnedPods
from policy_sched.embedded.controllers.pod_gc import PodGarbageCollector
from policy_sched.embedded.controllers.replica_sets import ReplicaSetController
from policy_sched.embedded.controllers.resource_claims import ResourceClaimController
from policy_sched.embedded.controllers.stateful_sets import StatefulSetController
from policy_sched.embedded.controllers.volumes import PersistentVolumeController
from policy_sched.embedded.controllers.workqueue import Component, Controller, Over
from policy_sched.embedded.store import Key, ObjectStore, StoreChange
from policy_sched.model import ApiValue, Kind, LabelSelector, Selector, label_selector


def controllers(store: ObjectStore) -> tuple[Component, ...]:
    """Return the controllers, in the order in which they take note of changes and act."""
    owned = OwnedPods()
    return (
        owned,
        DeploymentController(store, owned),
        ReplicaSetController(store, owned),
        StatefulSetController(store, owned),
        DaemonSetController(store, owned),
        JobController(store, owned),
        PersistentVolumeController(store),
        ResourceClaimController(store),
        PodGarbageCollector(store),
        DisruptionController(store),
        ClusterRoleAggregationController(store),
        GarbageCollector(store),
        namespaces.NamespaceController(store),
        namespaces.ServiceAccountController(store),
    )


CLUSTER_ROLE: Final[Kind] = ("rbac.authorization.k8s.io/v1", "ClusterRole")


class ClusterRoleAggregationController(Controller):
    """Keeps the rules of aggregated cluster roles."""

    kinds = frozenset({CLUSTER_ROLE})
    name = "clusterrole-aggregation"

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self._changed = False

    def observe(self, change: StoreChange) -> None:  # noqa: ARG002 - the signature of a part
        """Add the aggregated roles: a changed role may be part of them."""
        self._changed = True

    def run(self, over: Over) -> bool:
        """Write the rules that have changed."""
        if self._changed:
            self._changed = False
            for stored in sorted(self._store.select(CLUSTER_ROLE), key=lambda stored: stored.name):
                if b'"aggregationRule":' in stored.raw and "aggregationRule" in stored.data:
                    self._queue.add(Key(CLUSTER_ROLE, "", stored.name))
        return super().run(over)

    def sync(self, key: Key) -> bool:
        """Write a role's rules; return whether they have changed."""
        roles = sorted(self._store.select(CLUSTER_ROLE), key=lambda stored: stored.name)
        role = self._store.find(CLUSTER_ROLE, "", key.name)
        if role is None:
            return False
        data = role.data
        selectors = _selectors(data.get("aggregationRule"))
        rules: dict[bytes, Any] = {}
        for stored in roles:
            if stored is not role and any(
                selector.matches(stored.labels) for selector in selectors
            ):
                for rule in stored.data.get("rules") or ():
                    rules.setdefault(msgspec.json.encode(rule, order="deterministic"), rule)
        combined = list(rules.values())
        if not selectors or (data.get("rules") or []) == combined:
            return False
        self._store.revise(role, {**data, "rules": combined})
        return True


class _Rule(ApiValue, frozen=True):
    """The selected roles."""

    cluster_role_selectors: tuple[LabelSelector, ...] | None = ()


def _selectors(given: object) -> list[Selector]:
    """Return the label selectors of an aggregation; none if they cannot be read."""
    try:
        read = msgspec.convert(given or {}, _Rule)
        return [label_selector(selector) for selector in read.cluster_role_selectors or ()]
    except (msgspec.ValidationError, ValueError):
        return []
