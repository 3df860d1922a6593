"""The option ``--kubeconfig``: how a live cluster is reached, and its objects, only read."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Collection, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from policy_sched.cli.output.diagnostics import write_hints
from policy_sched.cli.output.progress import progress
from policy_sched.client.apimachinery import DEFINITION, ApiError, plural
from policy_sched.client.kube import auth
from policy_sched.client.kube.cache import discover
from policy_sched.client.kube.rest import NOT_FOUND, Api, ClientEnvironment, Selection, Settings
from policy_sched.client.kube.time import Clocks
from policy_sched.errors import ClusterError, one_line
from policy_sched.manifests import NO_STRUCTS, Structs
from policy_sched.model import Kind

if TYPE_CHECKING:
    from policy_sched.snapshot import Collected

Definitions = Mapping[Kind, Mapping[str, Any]]
"""CustomResourceDefinitions by the kind, with its version, for which they were looked up."""
FORBIDDEN: Final = 403
IN_CLUSTER: Final = "in-cluster"
"""In place of a file name: the service account of the pod."""
READING: Final = Settings(qps=50, burst=100, timeout=120.0, read_only=True)


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


def read_definitions(kubeconfig: str, kinds: Collection[Kind]) -> Definitions:
    """Return the CustomResourceDefinitions of kinds in a live cluster, as far as it has them.

    Those that may not be read are left out, and told. Raises ClusterError where the cluster cannot
    be reached.
    """
    return asyncio.run(_definitions(kubeconfig, kinds))


async def _definitions(kubeconfig: str, kinds: Collection[Kind]) -> Definitions:
    environment, access = environment_of(kubeconfig)
    definitions: dict[Kind, dict[str, Any]] = {}
    async with Api(access, environment, READING) as api:
        served = await discover(api, kinds)
        for kind in kinds:
            # A version that is served no more is not discovered; its definition may still be there.
            name = served[kind].plural if kind in served else plural(kind[1])
            name = f"{name}.{kind[0].rpartition('/')[0]}"
            try:
                path = Selection(DEFINITION).object_path("", name)
                definitions[kind] = msgspec.json.decode(await api.get(path), type=dict[str, Any])
            except ApiError as error:
                if error.code == FORBIDDEN:
                    write_hints(
                        [f"{one_line(str(error))}: the schema of {kind[1]} is not compared"]
                    )
                elif error.code != NOT_FOUND:  # an aggregated API has none
                    raise
            except ValueError as error:
                raise ClusterError(f"{name} cannot be read: {error}") from None
    return definitions


async def _collected(kubeconfig: str, inputs: Structs) -> Collected:
    from policy_sched.snapshot import SELECTIONS, collect  # noqa: PLC0415 - `run` reads by itself

    environment, access = environment_of(kubeconfig)
    with progress("reading the cluster", len(SELECTIONS)) as advance:
        async with Api(access, environment, READING) as api:
            return await collect(api, advance, inputs)
