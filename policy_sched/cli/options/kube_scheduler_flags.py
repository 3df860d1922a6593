"""Flags of ``run`` that kube-scheduler has too, and its flags that ``run`` does not support."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter

from policy_sched.cli.input.values import nanoseconds
from policy_sched.errors import ClusterError
from policy_sched.profiles.models import KubeSchedulerConfiguration


def unsupported() -> dict[str, str]:
    """Return kube-scheduler's flags that ``run`` rejects, with the reason."""
    text = files(__package__).joinpath("unsupported_flags.toml").read_text("utf-8")
    return tomllib.loads(text)


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class LeaderFlags:
    """Leader election flags of ``run --kubeconfig``; flags win over the configuration.

    Parameters
    ----------
    leader_elect
        Schedule only while holding a lease; the configuration's leaderElect unless given, else
        true.
    leader_elect_lease_duration
        Duration of the lease; 15s.
    leader_elect_renew_deadline
        The leader gives up if it cannot renew the lease for this long; 10s.
    leader_elect_retry_period
        Wait between attempts to take or renew the lease; 2s.
    leader_elect_resource_lock
        Kind of the lock object; only leases.
    leader_elect_resource_name
        Name of the lease; policy-sched.
    leader_elect_resource_namespace
        Namespace of the lease; kube-system.
    """

    leader_elect: bool | None = None
    leader_elect_lease_duration: str | None = None
    leader_elect_renew_deadline: str | None = None
    leader_elect_retry_period: str | None = None
    leader_elect_resource_lock: Literal["leases"] | None = None
    leader_elect_resource_name: str | None = None
    leader_elect_resource_namespace: str | None = None

    def given(self) -> dict[str, Any]:
        """Return what was given, as fields of the configuration's leaderElection."""
        given: dict[str, Any] = {
            "leader_elect": self.leader_elect,
            "resource_lock": self.leader_elect_resource_lock,
            "resource_name": self.leader_elect_resource_name,
            "resource_namespace": self.leader_elect_resource_namespace,
        }
        for name in ("lease_duration", "renew_deadline", "retry_period"):
            text = getattr(self, f"leader_elect_{name}")
            flag = f"--leader-elect-{name.replace('_', '-')}"
            given[name] = None if text is None else nanoseconds(text, flag)
        return {name: value for name, value in given.items() if value is not None}


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class ClientFlags:
    """Flags of ``run`` for its requests, its queue and its log.

    Parameters
    ----------
    kube_api_qps
        Requests per second to the API server; 50. Ignored where --config is given, as upstream.
    kube_api_burst
        Burst of requests to the API server; 100. Ignored where --config is given.
    pod_max_in_unschedulable_pods_duration
        How long a pod stays unschedulable without an event before it is tried again; 5m0s.
    logging_format
        json: a line of JSON for each record. text: lines as klog writes them.
    v
        How much is logged, by kube-scheduler's numbers: 0 loads and problems, 1 bindings that
        failed, 2 (the default) decisions, 3 attempts and changes of nodes and pods, 4 updates,
        5 results of searches for victims, 10 scores. PUT /debug/flags/v changes it.
    """

    kube_api_qps: float | None = None
    kube_api_burst: int | None = None
    pod_max_in_unschedulable_pods_duration: str = "5m0s"
    logging_format: Literal["json", "text"] = "json"
    v: Annotated[int, Parameter(name=["-v", "--v"])] = 2

    @property
    def longest_wait(self) -> int:
        """The longest wait without an event, in nanoseconds."""
        flag = "--pod-max-in-unschedulable-pods-duration"
        return nanoseconds(self.pod_max_in_unschedulable_pods_duration, flag)


class Overrides(msgspec.Struct, frozen=True):
    """Flags that replace values of the configuration."""

    leader: LeaderFlags = LeaderFlags()
    client: ClientFlags = ClientFlags()
    configured: bool = False
    """Whether there is a configuration: then some flags are ignored."""
    kubeconfig: str | None = None
    """The cluster's, where there is one."""

    def check_read(self, *, shadow: bool) -> None:
        """Raise ClusterError for flags that nothing reads without an API server, or an election.

        ``shadow``: there is no election, as nothing is written.
        """
        elected = [name for name, value in self.leader.given().items() if value is not False]
        given = [f"leader_elect_{name.removeprefix('leader_elect')}" for name in elected]
        if given and shadow:
            raise ClusterError(f"a shadow holds no lease and does not use {_flags(given)}")
        limits = {
            "kube_api_qps": self.client.kube_api_qps,
            "kube_api_burst": self.client.kube_api_burst,
        }
        given += [name for name, value in limits.items() if value is not None]
        if given and self.kubeconfig is None:
            raise ClusterError(f"{_flags(given)}: only with the cluster of a --kubeconfig")

    def of(self, settings: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
        """Return the settings with the flags applied. Raises ClusterError for invalid ones."""
        election = settings.leader_election.model_copy(update=self.leader.given())
        if election.lease_duration <= election.renew_deadline:
            raise ClusterError("--leader-elect-lease-duration must be greater than renew-deadline")
        if election.renew_deadline <= 1.2 * election.retry_period:
            raise ClusterError("--leader-elect-renew-deadline must be above 1.2 retry periods")
        connection = settings.client_connection
        if not self.configured:
            given = {"qps": self.client.kube_api_qps, "burst": self.client.kube_api_burst}
            stated = {name: value for name, value in given.items() if value is not None}
            connection = connection.model_copy(update=stated)
        changed = {"leader_election": election, "client_connection": connection}
        return settings.model_copy(update=changed)


def _flags(names: Iterable[str]) -> str:
    """Return fields as flags are typed."""
    return ", ".join(f"--{name.strip('_').replace('_', '-')}" for name in names)
