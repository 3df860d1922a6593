"""Which controllers run in an embedded cluster."""

from __future__ import annotations

from policy_sched.embedded.controllers import namespaces
from policy_sched.embedded.controllers.cluster_roles import ClusterRoleAggregationController
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
from policy_sched.embedded.controllers.workqueue import Component
from policy_sched.embedded.store import ObjectStore


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
