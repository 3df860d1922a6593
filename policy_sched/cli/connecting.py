"""The option ``--kubeconfig`` of ``run``: a scheduler on a cluster behind an API server."""

from __future__ import annotations

import os
import socket
import time
import uuid
from pathlib import Path
from random import Random
from typing import Final

from policy_sched.client.kube.access import Access
from policy_sched.client.kube.api import Api, Chance, Settings
from policy_sched.client.kube.backoff import SECOND
from policy_sched.client.kube.election import Election, ElectionSettings
from policy_sched.client.kube.in_cluster import in_cluster
from policy_sched.client.kube.kubeconfig import load
from policy_sched.client.kube.kubeconfig_user import Clocks
from policy_sched.client.kube.retries import Patience
from policy_sched.errors import ClusterError
from policy_sched.profiles.models import LeaderElection
from policy_sched.profiles.policy_files import PolicyFiles
from policy_sched.profiles.store import PolicyStore
from policy_sched.serve.decision_log import Write
from policy_sched.serve.remote import Candidacy, RemoteInstance

IN_CLUSTER: Final = "in-cluster"
"""Says, instead of a file's name, that we run in a pod."""
LEASE: Final = "policy-sched"
"""The lease, unless the configuration names one; kube-scheduler's own is another."""


def check_alone(kubeconfig: str | None, others: dict[str, object]) -> None:
    """Raise ClusterError for options of the embedded cluster beside a kubeconfig."""
    given = [name for name, value in others.items() if value]
    if kubeconfig is not None and given:
        raise ClusterError(f"--kubeconfig does not go together with {', '.join(given)}")


def connected(files: PolicyFiles, kubeconfig: str, seed: int, write: Write) -> RemoteInstance:
    """Return an instance for the cluster that a kubeconfig names; it connects when it runs.

    Raises PolicyError with every problem of the files, ClusterError outside a pod.
    """
    clocks = Clocks(time.time_ns, time.monotonic_ns)
    random = Random()  # noqa: S311 - jitter; nothing here is a secret
    if kubeconfig == IN_CLUSTER:
        access = in_cluster(os.environ, clocks.monotonic)
    else:
        access = load([Path(kubeconfig)], clocks)
    store = PolicyStore(files, clocks.wall)
    settings, chance = store.current.settings, Chance(clocks, random)
    connection = settings.client_connection
    limits = Settings(qps=max(0.0, connection.qps), burst=max(1, connection.burst))
    host = socket.gethostname()
    candidacy = None
    if settings.leader_election.leader_elect:
        election = _election(settings.leader_election, f"{host}_{uuid.uuid4()}", chance)
        candidacy = _candidacy(settings.leader_election, election, access, chance)
    name = store.current.plans[0].plan.scheduler_name
    instance = f"{name}-{host}"
    api = Api(access, chance, limits)
    return RemoteInstance(store, api, candidacy, write, seed=seed, instance=instance)


def _election(settings: LeaderElection, identity: str, chance: Chance) -> Election:
    durations = (settings.lease_duration, settings.renew_deadline, settings.retry_period)
    seconds = ElectionSettings(*(duration / SECOND for duration in durations))
    return Election(identity, chance.clocks, chance.random, seconds)


def _candidacy(
    settings: LeaderElection, election: Election, access: Access, chance: Chance
) -> Candidacy:
    once = Api(access, chance, Settings(patience=Patience(tries=1)))
    named = "resource_name" in settings.model_fields_set
    name = settings.resource_name if named else LEASE
    return Candidacy(election, once, settings.resource_namespace, name)
