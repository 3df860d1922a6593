"""The option ``--kubeconfig``: how a live cluster is reached, and its objects, only read."""

from __future__ import annotations

import asyncio
import os
import time
from random import Random
from typing import TYPE_CHECKING, Final

from policy_sched.cli.output.progress import progress
from policy_sched.client.kube import auth
from policy_sched.client.kube.rest import Api, ClientEnvironment, Settings
from policy_sched.client.kube.time import Clocks
from policy_sched.manifests import NO_STRUCTS, Structs

if TYPE_CHECKING:
    from policy_sched.snapshot import Collected

IN_CLUSTER: Final = "in-cluster"
"""In place of a file name: the service account of the pod."""
_READING: Final = Settings(qps=50, burst=100, timeout=120.0, read_only=True)


def environment_of(kubeconfig: str) -> tuple[ClientEnvironment, auth.ClusterAccess]:
    """Return clocks and a source of randomness, and how to reach the cluster of a kubeconfig.

    POLICY_SCHED_CONTEXT names a context in place of the current one.
    Raises ClusterError if the kubeconfig is not usable, or outside a pod.
    """
    clocks = Clocks(time.time_ns, time.monotonic_ns)
    random = Random()  # noqa: S311 - jitter; nothing here is a secret
    if kubeconfig == IN_CLUSTER:
        access = auth.in_cluster_config(os.environ, clocks.monotonic)
    else:
        access = auth.load(
            auth.paths_in(kubeconfig), clocks, os.environ.get("POLICY_SCHED_CONTEXT", "")
        )
    return ClientEnvironment(clocks, random), access


def read_live(kubeconfig: str, inputs: Structs = NO_STRUCTS) -> Collected:
    """Return what decisions read of a live cluster: one list of each kind, and no write.

    ``inputs``: how kinds are decoded that policies read. Raises ClusterError where the
    cluster cannot be reached, or may not be read.
    """
    return asyncio.run(_collected(kubeconfig, inputs))


async def _collected(kubeconfig: str, inputs: Structs) -> Collected:
    from policy_sched.snapshot import SELECTIONS, collect  # noqa: PLC0415 - `run` reads by itself

    environment, access = environment_of(kubeconfig)
    with progress("reading the cluster", len(SELECTIONS)) as advance:
        async with Api(access, environment, _READING) as api:
            return await collect(api, advance, inputs)
