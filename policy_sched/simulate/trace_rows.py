"""What a row of a published trace means as nodes and pods.

OpenB (Alibaba, 2023): a node has cpu, memory and GPUs, and room for 1001 pods. GPUs are counted in
thousandths, as pods may ask for a part of one; that the parts of a pod lie on one device is not
played. A pod of OpenB ran from its scheduled time to its deletion; one that never was scheduled
would have run from its creation on.
Philly (Microsoft, 2017): a job has workers of up to eight GPUs each; several belong to one pod
group that needs all of them, which is for policies to respect. A virtual cluster is a namespace.
What a job needs of cpu and memory is not in the trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from policy_sched.model import DURATION_ANNOTATION, ApiObject, Node, Pod, PodGroup

EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""The time at which a trace begins; traces count seconds."""

GPU_MILLI: Final = "alibabacloud.com/gpu-milli"
GPU_MODEL: Final = "alibabacloud.com/gpu-card-model"
GPU: Final = "nvidia.com/gpu"
WORKER_GPUS: Final = 8
"""The GPUs of Philly's larger machines: a job that wants more runs on several."""
POD_SLOTS: Final = 1001
"""The slots that the simulator of OpenB's authors gives every node."""

_FOREVER: Final = 10**10
"""Seconds that no trace lasts; datetime ends at 2.5e11."""


class BadCellError(Exception):
    """Cells of a row cannot be what they should: column indexes with messages."""

    def __init__(self, problems: Sequence[tuple[int, str]]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(message for _, message in problems))


class _Cells:
    """Reads the cells of one row and keeps the problems."""

    def __init__(self, cells: Sequence[str]) -> None:
        self._cells = cells
        self.problems: list[tuple[int, str]] = []

    def number(self, column: int, *, least: int = 0, most: int = _FOREVER) -> int:
        """Return a whole number; ``least`` if it is none."""
        text = self._cells[column]
        if not text.isascii() or not text.isdecimal() or not least <= int(text[:20]) <= most:
            limits = f"from {least} to {most}" if most < _FOREVER else f"of at least {least}"
            self.problems.append((column, f"{text!r} is not a whole number {limits}"))
            return least
        return int(text)

    def name(self, column: int) -> str:
        """Return text that is not empty."""
        text = self._cells[column]
        if not text:
            self.problems.append((column, "a name is missing"))
        return text

    def check(self) -> None:
        """Raise BadCellError if there was a problem."""
        if self.problems:
            raise BadCellError(self.problems)


def openb_node(_number: int, row: Sequence[str]) -> Iterator[ApiObject]:
    """Yield the node of a row: sn,cpu_milli,memory_mib,gpu,model."""
    cells = _Cells(row)
    name, cpu, memory, gpus = cells.name(0), cells.number(1), cells.number(2), cells.number(3)
    cells.check()
    amounts = {"cpu": f"{cpu}m", "memory": f"{memory}Mi", "pods": str(POD_SLOTS)}
    labels = {"kubernetes.io/hostname": name}
    if gpus:
        amounts[GPU_MILLI] = str(gpus * 1000)
    if row[4]:
        labels[GPU_MODEL] = row[4]
    yield node_of(name, amounts, labels)


def openb_pod(_number: int, row: Sequence[str]) -> Iterator[ApiObject]:
    """Yield the pod of a row of the pod list with times.

    Columns: name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,
    deletion_time,scheduled_time.
    """
    cells = _Cells(row)
    name, cpu, memory, gpus = cells.name(0), cells.number(1), cells.number(2), cells.number(3)
    share = cells.number(4, most=1000) if gpus else 0
    created = cells.number(8)
    deleted = cells.number(9, least=created)
    began = cells.number(10, least=created, most=max(created, deleted)) if row[10] else created
    cells.check()
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    if gpus:
        requests[GPU_MILLI] = str(gpus * share)
    pod = pod_of(name, "default", requests, created, deleted - began)
    if row[6]:
        pod["metadata"]["labels"] = {"qos": row[6]}
    if row[5]:
        wanted = {"key": GPU_MODEL, "operator": "In", "values": row[5].split("|")}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        pod["spec"]["affinity"] = {"nodeAffinity": required}
    yield msgspec.convert(pod, Pod)


def philly_job(number: int, row: Sequence[str]) -> Iterator[ApiObject]:
    """Yield the workers of a job: submit_s,duration_s,num_gpus,vc."""
    cells = _Cells(row)
    submitted, duration = cells.number(0), cells.number(1)
    gpus, cluster = cells.number(2, least=1), cells.name(3)
    cells.check()
    job = f"job-{number:06d}"
    workers = -(-gpus // WORKER_GPUS)
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "controller": True}
    if workers > 1:
        yield _gang(job, cluster, workers)
    for worker in range(workers):
        share = gpus // workers + (worker < gpus % workers)
        pod = pod_of(f"{job}-{worker}", cluster, {GPU: str(share)}, submitted, duration)
        pod["metadata"]["labels"] = {"job-name": job}
        pod["metadata"]["ownerReferences"] = [reference]
        if workers > 1:
            pod["spec"]["schedulingGroup"] = {"podGroupName": job}
        yield msgspec.convert(pod, Pod)


def _gang(name: str, namespace: str, workers: int) -> PodGroup:
    """Return the pod group of workers that cannot do without each other."""
    metadata = {"name": name, "namespace": namespace}
    policy = {"gang": {"minCount": workers}}
    group = {"metadata": metadata, "spec": {"schedulingPolicy": policy}}
    return msgspec.convert(
        {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", **group}, PodGroup
    )


def pod_of(
    name: str, namespace: str, requests: dict[str, str], created: int, duration: int
) -> dict[str, Any]:
    """Return a pod with one container; times are seconds, the first one since EPOCH."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "creationTimestamp": EPOCH + timedelta(seconds=created),
            "annotations": {DURATION_ANNOTATION: f"{duration}s"},
        },
        "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]},
    }


def node_of(name: str, amounts: dict[str, str], labels: dict[str, str]) -> Node:
    """Return a node that can give these amounts."""
    return msgspec.convert(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "status": {
                "allocatable": amounts,
                "capacity": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
        Node,
    )
