"""Which controllers run in an embedded cluster."""

from __future__ import annotations

from policy_sched.embedded.controllers.cluster_roles import ClusterRoles
from policy_sched.embedded.controllers.controller_refs import OwnedPods
from policy_sched.embedded.controllers.daemon_sets import DaemonSets
from policy_sched.embedded.controllers.deployments import Deployments
from policy_sched.embedded.controllers.disruption import Budgets
from policy_sched.embedded.controllers.garbage_collector import Garbage
from policy_sched.embedded.controllers.jobs import Jobs
from policy_sched.embedded.controllers.pod_gc import LostPods
from policy_sched.embedded.controllers.quotas import Quotas
from policy_sched.embedded.controllers.replica_sets import ReplicaSets
from policy_sched.embedded.controllers.service_ip_allocator import Addresses
from policy_sched.embedded.controllers.serviceaccount import Accounts
from policy_sched.embedded.controllers.stateful_sets import StatefulSets
from policy_sched.embedded.controllers.volumes import Volumes
from policy_sched.embedded.controllers.workqueue import Part
from policy_sched.embedded.store import ObjectStore


def controllers(store: ObjectStore) -> tuple[Part, ...]:
    """Return the controllers, in the order in which they take note of changes and act."""
    owned = OwnedPods()
    return (
        owned,
        Deployments(store, owned),
        ReplicaSets(store, owned),
        StatefulSets(store, owned),
        DaemonSets(store, owned),
        Jobs(store, owned),
        Volumes(store),
        LostPods(store),
        Budgets(store),
        ClusterRoles(store),
        Garbage(store),
        Accounts(store),
        Quotas(store),
        Addresses(store),
    )


def without_controllers(store: ObjectStore) -> tuple[Part, ...]:
    """Return the parts that run without controllers: those that belong to the API server."""
    return (Addresses(store),)
