"""Which controllers run in an embedded cluster."""

from __future__ import annotations

from policy_sched.client.embedded.controllers.accounts import Accounts
from policy_sched.client.embedded.controllers.addresses import Addresses
from policy_sched.client.embedded.controllers.agenda import Part
from policy_sched.client.embedded.controllers.budgets import Budgets
from policy_sched.client.embedded.controllers.cluster_roles import ClusterRoles
from policy_sched.client.embedded.controllers.daemon_sets import DaemonSets
from policy_sched.client.embedded.controllers.deployments import Deployments
from policy_sched.client.embedded.controllers.garbage import Garbage
from policy_sched.client.embedded.controllers.jobs import Jobs
from policy_sched.client.embedded.controllers.lost_pods import LostPods
from policy_sched.client.embedded.controllers.owned_pods import OwnedPods
from policy_sched.client.embedded.controllers.quotas import Quotas
from policy_sched.client.embedded.controllers.replica_sets import ReplicaSets
from policy_sched.client.embedded.controllers.stateful_sets import StatefulSets
from policy_sched.client.embedded.controllers.volumes import Volumes
from policy_sched.client.embedded.store import ObjectStore


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
