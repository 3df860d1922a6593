"""Measures how a snapshot of a cluster is read: CPU and memory of one process for each form.

The snapshot is what `kubectl get nodes,pods` prints, generated: as JSON, as YAML, and as YAML in
which a few values have anchors and aliases.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from policy_sched.bench.result import Result
from policy_sched.errors import PolicySchedError

NAME: Final = "Snapshot"
NODES: Final = 1_600
PODS: Final = 32_000
_ALIASED: Final = 5
"""Nodes whose labels are an alias of the first node's."""
_READ: Final = (
    "import sys; from policy_sched.manifests import load; found = load(sys.argv[1:]);"
    "sys.exit(len(found.diagnostics) > 0)"
)


class Reading(msgspec.Struct, frozen=True, rename="camel"):
    """How one form was read by a process."""

    form: str
    megabytes: float
    cpu_seconds: float
    peak_megabytes: int


class Readings(Result, frozen=True):
    """How each form of one snapshot was read."""

    forms: tuple[Reading, ...]

    def text_lines(self) -> Iterator[str]:
        """Yield the result for people."""
        yield f"{NAME}: the same objects in each form, a fresh process each time"
        for reading in self.forms:
            size, cpu = f"{reading.megabytes:6.1f} MB", f"{reading.cpu_seconds:6.2f} s of CPU"
            yield f"  {reading.form:<18} {size}  {cpu}  {reading.peak_megabytes:5} MB"


def run_snapshot(nodes: int, pods: int) -> Readings:
    """Write a snapshot in each form, and read each in a fresh process.

    Raises PolicySchedError if a form cannot be read.
    """
    with TemporaryDirectory() as directory:
        written = _written(Path(directory), nodes, pods)
        return Readings(NAME, tuple(_read(form, path) for form, path in written))


def _read(form: str, path: Path) -> Reading:
    command = [sys.executable, "-c", _READ, str(path)]
    child = subprocess.Popen(command)  # noqa: S603  ours
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise PolicySchedError(f"the generated snapshot in {form} cannot be read")
    cpu = round(usage.ru_utime + usage.ru_stime, 2)
    size, memory = round(path.stat().st_size / 1e6, 1), round((usage.ru_maxrss << 10) / 1e6)
    return Reading(form, size, cpu, memory)


def _written(directory: Path, nodes: int, pods: int) -> Iterator[tuple[str, Path]]:
    items = [*(_node(n) for n in range(nodes)), *(_pod(n, nodes) for n in range(pods))]
    path = directory / "snapshot.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), "utf-8")
    yield "JSON", path
    for form, aliased in (("YAML", 0), ("YAML with aliases", min(_ALIASED, nodes))):
        path = directory / f"snapshot-{aliased}.yaml"
        with path.open("w", encoding="utf-8") as file:
            file.write("apiVersion: v1\nkind: List\nitems:")
            for number, item in enumerate(items):
                file.write(f"\n-{''.join(_lines(item, 1, number < aliased, number))[2:]}")
        yield form, path


def _lines(value: Any, depth: int, aliased: bool, number: int) -> Iterator[str]:
    """Yield a value as block YAML; the labels of an aliased object are written once."""
    indent = f"\n{'  ' * depth}"
    for key, child in value.items():
        if aliased and key == "labels":
            yield f"{indent}labels: {'*labels' if number else '&labels'}"
            if number:
                continue
            yield from _lines(child, depth + 1, False, 0)
        elif isinstance(child, dict):
            yield f"{indent}{key}:"
            yield from _lines(child, depth + 1, aliased, number)
        elif isinstance(child, list):
            yield f"{indent}{key}:"
            for item in child:
                yield f"{indent}-{''.join(_lines(item, depth + 1, False, 0))[len(indent) + 1 :]}"
        else:
            yield f"{indent}{key}: {json.dumps(child)}"


def _node(number: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": f"node-{number}",
            "labels": {"kubernetes.io/os": "linux", "topology.kubernetes.io/zone": "zone-a"},
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "status": {
            "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110"},
            "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}
            ],
        },
    }


def _pod(number: int, nodes: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"web-{number}",
            "namespace": "default",
            "generateName": "web-7d4b9c8f5-",
            "uid": f"10000000-0000-0000-0000-{number:012}",
            "resourceVersion": str(number),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web", "pod-template-hash": "7d4b9c8f5"},
            "annotations": {"kubernetes.io/config.source": "api"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "web-7d4b9c8f5",
                    "uid": "00000000-0000-0000-0000-000000000000",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "nodeName": f"node-{number % nodes}",
            "schedulerName": "default-scheduler",
            "restartPolicy": "Always",
            "dnsPolicy": "ClusterFirst",
            "containers": [
                {
                    "name": "web",
                    "image": "registry.k8s.io/pause:3.10",
                    "imagePullPolicy": "IfNotPresent",
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                }
            ],
            "tolerations": [
                {
                    "key": "node.kubernetes.io/not-ready",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
            ],
        },
        "status": {"phase": "Running", "qosClass": "Burstable", "podIP": "10.0.0.1"},
    }
