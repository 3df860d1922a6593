"""The option ``--kubeconfig`` of ``run``: a scheduler on a cluster behind an API server."""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from msgspec.structs import replace

from policy_sched.cli.input.live_cluster import READING, environment_of
from policy_sched.cli.options.kube_scheduler_flags import Overrides
from policy_sched.client.apimachinery import ApiError, label_match
from policy_sched.client.kube.auth import ClusterAccess
from policy_sched.client.kube.leaderelection import Election, ElectionSettings
from policy_sched.client.kube.rest import Api, ClientEnvironment, RetryPolicy, Settings
from policy_sched.client.kube.time import SECOND
from policy_sched.errors import ClusterError
from policy_sched.instance import app
from policy_sched.instance.observability import Write
from policy_sched.model import DEFAULT_SCHEDULER
from policy_sched.profiles import reload
from policy_sched.profiles.load import load_config
from policy_sched.profiles.models import LeaderElection
from policy_sched.profiles.resolve import lease_of

if TYPE_CHECKING:
    from policy_sched.instance.shadow import ShadowOptions


def check_alone(kubeconfig: str | None, others: Mapping[str, object]) -> None:
    """Raise ClusterError for options of the embedded cluster beside a kubeconfig."""
    given = [name for name, value in others.items() if value]
    if kubeconfig is not None and given:
        raise ClusterError(f"--kubeconfig does not go together with {', '.join(given)}")


def chosen(kubeconfig: str | None, config: str | None, others: Mapping[str, object]) -> str | None:
    """Return the kubeconfig to use: the option's, or else that of the configuration.

    None for the embedded cluster: its options count before the configuration.
    Raises ClusterError for such options beside ``kubeconfig``.
    """
    check_alone(kubeconfig, others)
    if kubeconfig is not None or config is None or any(others.values()):
        return kubeconfig
    configuration, _ = load_config(config)  # its problems are reported when all files are read
    return (
        None if configuration is None else configuration.model.client_connection.kubeconfig or None
    )


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class ShadowFlags:
    """Flags of ``run`` as the shadow of another scheduler.

    Parameters
    ----------
    shadow
        With --kubeconfig: decide the pods of another scheduler (default-scheduler unless one is
        named) beside it, write nothing to the cluster, and report what we would have decided
        differently.
    shadow_log
        With --shadow: a file to append all comparisons to, for policy-sched diff --shadow.
    """

    shadow: Annotated[tuple[str, ...] | None, Parameter(consume_multiple=True, negative="")] = None
    shadow_log: str | None = None


def shadow_options(kubeconfig: str | None, flags: ShadowFlags) -> ShadowOptions | None:
    """Return the options --shadow [NAME] and --shadow-log FILE; None without the first."""
    shadow, log = flags.shadow, flags.shadow_log
    if shadow is None:
        if log is not None:
            raise ClusterError("--shadow-log is for --shadow")
        return None
    if kubeconfig is None:
        raise ClusterError("--shadow needs a cluster with another scheduler: name a --kubeconfig")
    from policy_sched.instance.shadow import ShadowOptions  # noqa: PLC0415 - for --shadow only

    return ShadowOptions(name_of_other(shadow) or DEFAULT_SCHEDULER, log or "")


def name_of_other(shadow: Sequence[str] | None) -> str | None:
    """Return the scheduler that --shadow [NAME] names, None without the option."""
    if shadow is None:
        return None
    if len(shadow) > 1:
        raise ClusterError(f"--shadow takes one scheduler's name, not {len(shadow)}")
    return shadow[0] if shadow else DEFAULT_SCHEDULER


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class PolicyObjectsFlags:
    """Flags of a scheduler about policies that are objects of the cluster.

    Parameters
    ----------
    policy_objects
        Read policies and rollouts that are objects of the cluster, too, after those in files, and
        tell in their status what becomes of them: all, or those that a label selector chooses
        (team=a).
    """

    policy_objects: Annotated[
        tuple[str, ...] | None, Parameter(consume_multiple=True, negative="")
    ] = None

    @property
    def selector(self) -> str | None:
        """The selector, "" for all; None without the option. Raises ClusterError if it is none."""
        given = self.policy_objects
        if given is None:
            return None
        text = ",".join(given)
        try:
            label_match(text)
        except ApiError as error:
            raise ClusterError(f"--policy-objects {text}: {error}") from None
        return text


def connected(  # noqa: PLR0913 - the last one is a keyword
    files: reload.PolicyFiles,
    kubeconfig: str,
    seed: int,
    write: Write,
    shadow: ShadowOptions | None = None,
    overrides: Overrides | None = None,
    *,
    objects: str | None = None,
) -> app.ClusterInstance:
    """Return an instance for the cluster that a kubeconfig names; it connects when it runs.

    With ``shadow`` it only watches another scheduler, and its client refuses to write.
    ``overrides``: flags that replace values of the configuration. ``objects``: a selector of
    policies that are objects; they are listed at once.
    Raises PolicyError with every problem of the files, ClusterError outside a pod.
    """
    environment, access = environment_of(kubeconfig)
    if objects is None:
        store = reload.PolicyStore(files, environment.clocks.wall)
    else:
        store = _store_with_objects(files, objects, access, environment)
    settings = (overrides or Overrides()).of(store.current.settings)
    connection = settings.client_connection
    limits = Settings(
        qps=max(0.0, connection.qps),
        burst=max(1, connection.burst),
        read_only=shadow is not None,
    )
    if shadow is not None:
        from policy_sched.instance.shadow import ShadowInstance  # noqa: PLC0415 - for --shadow only

        api = Api(access, environment, limits)
        return _following(ShadowInstance(store, api, shadow, write, seed=seed), objects)
    host = socket.gethostname()
    candidacy = None
    api = Api(access, environment, limits)
    if settings.leader_election.leader_elect:
        election = _election(settings.leader_election, f"{host}_{uuid.uuid4()}", environment)
        candidacy = _candidacy(settings.leader_election, election, api)
    name = store.current.plans[0].plan.scheduler_name
    instance = f"{name}-{host}"
    running = app.ClusterInstance(store, api, candidacy, write, seed=seed, instance=instance)
    return _following(running, objects)


def _following(instance: app.ClusterInstance, objects: str | None) -> app.ClusterInstance:
    if objects is not None:
        instance.follow_policies(objects)
    return instance


def _store_with_objects(
    files: reload.PolicyFiles, selector: str, access: ClusterAccess, environment: ClientEnvironment
) -> reload.PolicyStore:
    """Load files and objects for the first time, compiled within the limits of a reload.

    Raises PolicyError for what is wrong with the files, ClusterError if nothing can be listed.
    """
    objects, rollouts = (
        tuple(sorted(map(app.policy_object, records), key=lambda given: given.name))
        for records in asyncio.run(_listed(selector, access, environment))
    )
    with reload.CompilerProcess(files) as compiler:
        given = replace(files, objects=objects, rollouts=rollouts)
        kept, compilation = reload.first_compilation(given, compiler.compile)
    return reload.PolicyStore(kept, environment.clocks.wall, compilation)


async def _listed(
    selector: str, access: ClusterAccess, environment: ClientEnvironment
) -> tuple[list[app.CustomRecord], list[app.CustomRecord]]:
    async with Api(access, environment, READING) as api:
        return await app.listed(api, app.POLICY, selector), await app.listed(
            api, app.ROLLOUT, selector
        )


def _election(settings: LeaderElection, identity: str, environment: ClientEnvironment) -> Election:
    durations = (settings.lease_duration, settings.renew_deadline, settings.retry_period)
    seconds = ElectionSettings(*(duration / SECOND for duration in durations))
    return Election(identity, environment.clocks, environment.random, seconds)


def _candidacy(settings: LeaderElection, election: Election, api: Api) -> app.Candidacy:
    """Return an election on its own connection, with the shared state of the server."""
    once = Settings(retry_policy=RetryPolicy(tries=1))
    beside = Api(api.access, api.environment, once, api.recovery)
    namespace, name = lease_of(settings)
    return app.Candidacy(election, beside, namespace, name)
