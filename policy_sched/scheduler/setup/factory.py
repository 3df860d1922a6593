"""Puts a scheduler together: configuration and policies, cache, queue, profiles, client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from random import Random
from typing import Final

from policy_sched.client import Client, MemoryClient
from policy_sched.cluster import ApiObjects, Cache
from policy_sched.errors import Diagnostic
from policy_sched.framework import Extender, Handle, WaitingPods
from policy_sched.framework.runtime import Pipeline, Runner
from policy_sched.language.diagnostics import MAX_ANNOTATED_COST
from policy_sched.model import ApiObject, Namespace, Node, Pod, PodInfo
from policy_sched.profiles.build import CompiledPlan, raise_errors
from policy_sched.profiles.models import DEFAULT_NOW, moment_of
from policy_sched.profiles.reload import Config, PolicyFiles
from policy_sched.queue import Nominator, Timing
from policy_sched.scheduler import Scheduler, build_queue
from policy_sched.scheduler.setup.profiles import Assembly

#: The time of a cluster without a clock, in nanoseconds since 1970.
EPOCH = moment_of(DEFAULT_NOW)


def read(
    config: Config,
    policies: Sequence[str],
    max_cost_limit: int = MAX_ANNOTATED_COST,
    feature_gates: Mapping[str, bool] | None = None,
) -> tuple[tuple[CompiledPlan, ...], list[Diagnostic]]:
    """Load, resolve and compile; return the plans and the warnings.

    The parameters are those of `PolicyFiles`. Raises PolicyError with every problem
    if one of them is an error.
    """
    gates = {} if feature_gates is None else feature_gates
    return read_policies(PolicyFiles(config, tuple(policies), max_cost_limit, gates))


def read_policies(files: PolicyFiles) -> tuple[tuple[CompiledPlan, ...], list[Diagnostic]]:
    """Load, resolve and compile files as `read` does."""
    compilation = files.compile()
    raise_errors(compilation.problems)
    return compilation.plans, list(compilation.problems)


def build(
    config: Config = None,
    policies: Sequence[str] = (),
    *,
    seed: int = 0,
    objects: Sequence[object] = (),
    client: Client | None = None,
    now: Callable[[], int] | None = None,
) -> Scheduler:
    """Return a scheduler with an empty cache.

    ``seed`` breaks ties. ``objects`` are the cluster's API objects, for plugins that read more than
    nodes and pods. ``now`` returns nanoseconds since the epoch; without it time is fixed at
    EPOCH. Raises PolicyError with every problem of the files.
    """
    plans, _ = read(config, policies)
    return assemble(plans, seed=seed, objects=objects, client=client, now=now)


def assemble(  # noqa: PLR0913 - all but the plans may be left out
    plans: Sequence[CompiledPlan],
    *,
    seed: int = 0,
    objects: Sequence[object] = (),
    client: Client | None = None,
    now: Callable[[], int] | None = None,
    cached: bool = True,
    all_nodes: bool = False,
    timing: Timing | None = None,
    ties: Random | None = None,
) -> Scheduler:
    """Return a scheduler with an empty cache that runs compiled plans; see `build`.

    ``cached=False`` evaluates every pod from scratch. ``all_nodes`` looks at every node, also where
    no plugin scores. ``timing``: the queue's durations. ``ties`` breaks ties in place of the seed.
    """
    return assemble_with_assembly(
        plans,
        seed=seed,
        objects=objects,
        client=client,
        now=now,
        cached=cached,
        all_nodes=all_nodes,
        timing=timing,
        ties=ties,
    )[0]


def assemble_with_assembly(  # noqa: PLR0913 - all but the plans may be left out
    plans: Sequence[CompiledPlan],
    *,
    seed: int = 0,
    objects: Sequence[object] = (),
    client: Client | None = None,
    now: Callable[[], int] | None = None,
    cached: bool = True,
    all_nodes: bool = False,
    timing: Timing | None = None,
    runner: Callable[[Pipeline], Runner] = Runner,
    ties: Random | None = None,
) -> tuple[Scheduler, Assembly]:
    """Return a scheduler as `assemble` does, and what makes its profiles at a reload.

    ``timing``: the queue's durations. ``runner`` makes what runs a pipeline.
    ``ties`` breaks ties in place of the seed.
    """
    cache = Cache()
    api_objects = ApiObjects(objects, cache.nodes.journal)
    extenders: list[Extender] = []
    handle = Handle(
        cache,
        WaitingPods(),
        Nominator(),
        MemoryClient(objects=api_objects) if client is None else client,
        repeat(EPOCH).__next__ if now is None else now,
        api_objects,
        Random(seed),  # noqa: S311 - a seed makes choices repeatable; nothing here is a secret
        extenders,
    )
    assembly = Assembly(
        handle,
        extenders,
        cached=cached,
        all_nodes=all_nodes,
        runner=runner,
    )
    built = assembly.build(plans)
    assembly.settle(built)
    queue = build_queue(built.profiles, handle.now, timing)
    if ties is None:
        ties = Random(seed)  # noqa: S311 - a seed makes ties repeatable; nothing here is a secret
    return Scheduler(handle, queue, built.profiles, ties), assembly


ENDED: Final = frozenset({"Succeeded", "Failed"})
"""Phases in which a pod holds no resources; kube-scheduler does not watch such pods."""


def load_cluster(cache: Cache, objects: Iterable[ApiObject]) -> list[Pod]:
    """Add nodes, namespaces and running pods; return the pods without a node, in order."""
    running: list[Pod] = []
    pending: list[Pod] = []
    for item in objects:
        if isinstance(item, Node):
            cache.add_node(item)
        elif isinstance(item, Namespace):
            cache.set_namespace(item)
        elif isinstance(item, Pod) and item.status.phase not in ENDED:
            (running if item.spec.node_name else pending).append(item)
    for pod in running:
        cache.add_pod(PodInfo.of(pod))
    return pending
