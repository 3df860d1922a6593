"""Clusters for tests of the console: a large one, an empty one, and one with hostile names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import convert

from policy_sched.console import FilesSource, InputFiles
from policy_sched.errors import Diagnostic
from policy_sched.manifests import ManifestPosition
from policy_sched.model import ApiObject, Node, Pod
from policy_sched.profiles.reload import PolicyFiles

ZONE = "topology.kubernetes.io/zone"


@dataclass
class Objects:
    """A cluster that is in memory."""

    objects: list[ApiObject]
    problems: list[Diagnostic] = field(default_factory=list)
    positions: dict[tuple[str, str, str], ManifestPosition] = field(default_factory=dict)


def of_objects(
    objects: Sequence[ApiObject], policies: PolicyFiles | None = None, name: str = "-"
) -> FilesSource:
    """Return the source of a cluster in memory."""
    held = Objects(list(objects))
    return FilesSource(InputFiles((name,), lambda: held, policies or PolicyFiles()))


def node(name: str, labels: dict[str, str] | None = None, taint: str = "", cpu: str = "16") -> Node:
    """Return a node with 16 CPUs."""
    amounts = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    data = {
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": [{"key": taint, "effect": "NoSchedule"}] if taint else []},
        "status": {"allocatable": amounts},
    }
    return convert(data, Node)


def pod(
    name: str, cpu: str = "500m", on: str = "", priority: int = 0, memory: str = "", **labels: str
) -> Pod:
    """Return a pod of the namespace default, on a node or on none."""
    requests = {"cpu": cpu, **({"memory": memory} if memory else {})}
    container = {"name": "c", "resources": {"requests": requests}}
    data = {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"containers": [container], "nodeName": on, "priority": priority},
    }
    return convert(data, Pod)


def large(nodes: int = 5_000, pods: int = 30_000, pending: int = 1_000) -> FilesSource:
    """Return a cluster with many nodes and pods, of which some wait in vain."""
    names = [f"node-{number:04d}" for number in range(nodes)]
    content: list[ApiObject] = [
        node(name, {ZONE: f"zone-{number % 7}", "rack": f"r{number % 50:02d}"})
        for number, name in enumerate(names)
    ]
    content += [
        pod(f"web-{number:05d}", on=names[(number * 7) % nodes], cpu=f"{1 + number % 3}")
        for number in range(pods - pending)
    ]
    amounts = ("1", "20", "300m", "64")
    content += [
        pod(f"new-{number:05d}", cpu=amounts[number % 4], priority=number % 3)
        for number in range(pending)
    ]
    return of_objects(content)


NASTY = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</title></textarea></style><script src=//evil.example/x.js></script>",
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "a\u202egnp.exe\u2066",
    "line\nbreak\r\ntab\t\x00\x1b[31m",
    "&lt;script&gt;",
    "x" * 10_000,
    "--><svg onload=alert(1)>",
    "a/../../b?token=1#c",
)


def hostile() -> FilesSource:
    """Return a cluster whose names, labels, taints and messages are attacks."""
    items: list[ApiObject] = []
    for number, text in enumerate(NASTY):
        labels = {text: text, ZONE: text}
        items.append(node(text, labels, taint=text))
        items.append(pod(text, labels=text))
        items.append(pod(f"on-{text}", on=text, labels=text))
        waits = pod(f"big-{number}{text}", cpu="64")
        waits.spec.node_selector[text] = text
        waits.metadata.namespace = text
        items.append(waits)
    return of_objects(items)
