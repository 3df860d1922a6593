"""The cache debugger: on SIGUSR2, dumps cache and queue to the log and compares them with the API.

Theory of operation. Messages and fields are those of kube-scheduler's cache dumper and comparer. A
dump can be long, so it is written in pieces, and the event loop runs other tasks in between. The
cluster is listed anew, because the watch is what the comparison checks. A change during the
comparison looks like a mismatch, so only mismatches that two comparisons find are reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

import msgspec

from policy_sched.cluster.tables import NodeTable
from policy_sched.errors import ClusterError
from policy_sched.instance.observability import INFO, WARNING, DecisionLog
from policy_sched.model import DEFAULT_SCHEDULER, Pod, PodInfo, QueuedPod, units
from policy_sched.scheduler import Scheduler

DumpEntry = dict[str, Any]
T = TypeVar("T")

NODES: Final = 25
"""Nodes that are written at a time, with their pods."""
PODS: Final = 250
COMPARED: Final = 2000
"""Pods that are compared at a time."""
PAUSE: Final = 2.0
"""Seconds between the two comparisons."""
_HOW: Final = ("missed", "redundant")
_SCALARS: Final = ("cpu", "memory", "ephemeral-storage", "pods")


class Seen(msgspec.Struct, frozen=True):
    """The objects of the cluster: names of nodes, and pods that have not ended."""

    nodes: Sequence[str]
    pods: Sequence[Pod]


Mismatch = dict[str, set[str]]
"""Objects that the cache lacks, and those that only the cache has; nodes by name, pods by UID."""


async def dump(scheduler: Scheduler, log: DecisionLog) -> None:
    """Log the contents of the cache and the queue."""
    for nodes in _pieces(_nodes(scheduler), NODES):
        log.write(INFO, "Dump of cached NodeInfo", nodes=nodes)
        await asyncio.sleep(0)
    queue = scheduler.queue
    lengths = queue.lengths()
    waiting = lengths["unschedulable"] + lengths["gated"]
    summary = (
        f"activeQ:{lengths['active']}; backoffQ:{lengths['backoff']}; unschedulablePods:{waiting}"
    )
    pods = [queued.info for queued in _waiting(scheduler)]
    for piece in _pieces(pods, PODS) if pods else [[]]:
        shown = [_pod(pod) for pod in piece]
        log.write(INFO, "Dump of scheduling queue", summary=summary, pods=shown)
        await asyncio.sleep(0)


class Comparer:
    """Compares a scheduler's cache and queue with the cluster."""

    def __init__(self, scheduler: Scheduler, log: DecisionLog, pause: float = PAUSE) -> None:
        self._scheduler = scheduler
        self._log = log
        self._pause = pause

    async def run(self, look: Callable[[], Awaitable[Seen]]) -> Mismatch | None:
        """Compare twice and log what differs both times; None if the cluster cannot be read."""
        log = self._log
        log.write(INFO, "Cache comparer started")
        try:
            mismatch = await self._compare(await look())
            if mismatch:
                await asyncio.sleep(self._pause)
                again = await self._compare(await look())
                mismatch = {k: mismatch[k] & again[k] for k in mismatch.keys() & again.keys()}
        except ClusterError as error:
            log.write(WARNING, "Cannot compare the cache", error=str(error))
            return None
        for kind in ("Nodes", "Pods"):
            facts = {f"{how}{kind}": sorted(mismatch.get(f"{how}{kind}", ())) for how in _HOW}
            if any(facts.values()):
                log.write(WARNING, "Cache mismatch", **facts)
        log.write(INFO, "Cache comparer finished")
        return {what: objects for what, objects in mismatch.items() if objects}

    async def _compare(self, seen: Seen) -> Mismatch:
        """Compare in pieces; a change in between is not found twice."""
        scheduler = self._scheduler
        ours = scheduler.profiles
        pods: set[str] = set()
        for piece in _pieces(seen.pods, COMPARED):
            pods.update(
                pod.metadata.uid or f"{pod.metadata.namespace}/{pod.metadata.name}"
                for pod in piece
                if pod.spec.node_name or (pod.spec.scheduler_name or DEFAULT_SCHEDULER) in ours
            )
            await asyncio.sleep(0)
        held = {*scheduler.cache.held(), *(queued.info.uid for queued in _waiting(scheduler))}
        await asyncio.sleep(0)
        mismatch = {"missedPods": pods.difference(held), "redundantPods": held.difference(pods)}
        await asyncio.sleep(0)
        nodes, cached = set(seen.nodes), set(scheduler.cache.nodes.row_of)
        mismatch |= {"missedNodes": nodes - cached, "redundantNodes": cached - nodes}
        return {what: objects for what, objects in mismatch.items() if objects}


def _waiting(scheduler: Scheduler) -> list[QueuedPod]:
    queue = scheduler.queue
    return [
        *queue.active(),
        *queue.backoff(),
        *queue.unschedulable(),
        *queue.gated(),
        *queue.in_flight(),
        *queue.binding(),
    ]


def _nodes(scheduler: Scheduler) -> Iterator[DumpEntry]:
    """Yield the entry of each node; deleted nodes that still have pods are included."""
    table, nominator = scheduler.cache.nodes, scheduler.handle.nominator
    for name in [*table.row_of, *table.pods_without_node]:
        row = table.row_of.get(name)
        node = None if row is None else table.nodes[row]
        on = table.pods_without_node.get(name, {}) if row is None else table.pods_on(row)
        pods = list(on.values())
        given = {} if node is None else node.status.allocatable
        dump: DumpEntry = {
            "name": name,
            "deleted": node is None,
            "requested": _resources(_requested(table, row, pods), len(pods)),
            "allocatable": _resources(
                {resource: units(resource, amount) for resource, amount in given.items()}
            ),
            "pods": [_pod(pod) for pod in pods],
        }
        nominated = nominator.pods_on(name)
        if nominated:
            dump["nominatedPods"] = [_pod(pod) for pod in nominated]
        yield dump


def _requested(table: NodeTable, row: int | None, pods: Iterable[PodInfo]) -> dict[str, int]:
    """Return the requested amounts; for a live node they are the sums that the cache keeps."""
    sums: dict[str, int] = {}
    for pod in pods:
        for resource, amount in pod.requests.items():
            sums[resource] = sums.get(resource, 0) + amount
    if row is not None:
        for resource in sums:
            column = table.materialised.get(("requested", resource))
            if column is not None:
                sums[resource] = int(column.values[row])
    return sums


def _resources(amounts: Mapping[str, int], pods: int = 0) -> DumpEntry:
    """Return amounts in the form of kube-scheduler's dump of a framework.Resource."""
    return {
        "milliCPU": amounts.get("cpu", 0),
        "memory": amounts.get("memory", 0),
        "ephemeralStorage": amounts.get("ephemeral-storage", 0),
        "allowedPodNumber": amounts.get("pods", pods),
        "scalarResources": {k: v for k, v in sorted(amounts.items()) if k not in _SCALARS},
    }


def _pod(pod: PodInfo) -> DumpEntry:
    shown = {
        "name": pod.name,
        "namespace": pod.namespace,
        "uid": pod.uid,
        "phase": pod.pod.status.phase,
    }
    return {**shown, "nominatedNode": pod.nominated_node_name} if pod.nominated_node_name else shown


def _pieces(things: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(things)
    while piece := list(islice(iterator, size)):
        yield piece
