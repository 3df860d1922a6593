"""/metrics/resources: requests and limits of each pod, as kube-scheduler counts them.

The families can have a line for each of four resources of 30,000 pods, so they are written in
pieces; the event loop runs other tasks between two.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from prometheus_client.core import GaugeMetricFamily

from policy_sched.instance.observability.metric_families import Families, NumberFamily, pieces
from policy_sched.model import Pod, PodInfo

if TYPE_CHECKING:
    from policy_sched.embedded.store import ObjectStore

EACH: Final = 250
"""Pods that are written at a time."""
_HELP: Final = (
    "This shows the resource usage the scheduler and kubelet expect per pod for resources along"
    " with the unit for the resource if any."
)
_FAMILIES: Final[tuple[tuple[str, str, Callable[[PodInfo], Mapping[str, int]]], ...]] = (
    (
        "kube_pod_resource_limit",
        "[STABLE] Resources limit for workloads on the cluster, broken down by pod.",
        lambda pod: pod.limits,
    ),
    (
        "kube_pod_resource_request",
        "[STABLE] Resources requested by workloads on the cluster, broken down by pod.",
        lambda pod: pod.requests,
    ),
)
_LABELS: Final = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")
_BYTES: Final = ("memory", "storage", "ephemeral-storage")
_UNITS: Final = {"cpu": "cores", **dict.fromkeys(_BYTES, "bytes")}
_ENDED: Final = ("Succeeded", "Failed")


def unit(resource: str) -> str:
    """Return the unit of a resource, "" if it has none."""
    if resource.startswith("hugepages-"):
        return "bytes"
    if resource.startswith("attachable-volumes-"):
        return "integer"
    return _UNITS.get(resource, "")


async def resource_pieces(pods: Iterable[Pod], each: int = EACH) -> AsyncIterator[str]:
    """Yield the text of both families, in pieces; a family without series is left out."""
    counted: Sequence[Pod] = [pod for pod in pods if not _over(pod)]
    for name, help_, amounts in _FAMILIES:
        started = False
        for start in range(0, len(counted), each):
            family = GaugeMetricFamily(name, f"{help_} {_HELP}", labels=_LABELS)
            for pod in map(PodInfo.of, counted[start : start + each]):
                _add(family, pod, amounts(pod))
            if family.samples:
                text = "".join(pieces(family))
                yield text.split("\n", 2)[2] if started else text  # the head has two lines
                started = True
            await asyncio.sleep(0)


def _add(family: GaugeMetricFamily, pod: PodInfo, amounts: Mapping[str, int]) -> None:
    """Add the series of one pod."""
    priority = pod.pod.spec.priority
    pod_labels = (
        pod.namespace,
        pod.name,
        pod.node_name,
        pod.scheduler_name,
        "" if priority is None else str(priority),
    )
    for resource, amount in sorted(amounts.items()):
        if amount:
            value = amount / 1000 if resource == "cpu" else amount
            family.add_metric((*pod_labels, resource, unit(resource)), value)


def _over(pod: Pod) -> bool:
    """Return whether a pod ran and has ended: it requests nothing any more."""
    return bool(pod.spec.node_name) and pod.status.phase in _ENDED


class ClusterMetrics(Families, table="cluster"):
    """The metrics of an embedded cluster: failures of controllers, and unreadable objects."""

    controller_sync_errors_total: NumberFamily
    objects_set_aside: NumberFamily

    def __init__(self, store: ObjectStore) -> None:
        super().__init__()
        self._store = store

    def look(self) -> None:
        """Take what the store has counted."""
        for controller, count in sorted(self._store.sync_errors.items()):
            self.controller_sync_errors_total.values[(controller,)] = count
        self.objects_set_aside.values[()] = len(self._store.set_aside)
