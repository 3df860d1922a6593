"""The workload of the chaos run: pods that come and go, preemptors, and gangs."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from policy_sched.client.apimachinery.resources import NODE, POD, ApiError
from policy_sched.client.kube.leaderelection.lease_lock import LEASE
from policy_sched.client.kube.rest.client import MERGE_PATCH, Api
from policy_sched.client.kube.rest.errors import collection_path, object_path

NODES, CORES = 6, 4
PODS_A_SECOND = 25.0
FULL = 0.7
"""The share of the nodes' cpu in use above which pods are deleted."""
PROBE = "probe"
"""Name prefix of pods that always fit: a binding of one shows that a scheduler runs."""
URGENT = "urgent"
"""Pods of this priority class preempt others."""
VICTIM = "pod"
"""Pods that may be preempted."""
GANG, MEMBERS = "gang", 3
"""Pods that are scheduled together or not at all."""
STOLEN = 1.0
"""Seconds for which a stolen lease is held."""
LEASE_PATH = object_path(LEASE, "kube-system", "policy-sched")
GROUP = ("scheduling.x-k8s.io/v1alpha1", "PodGroup")
CLASS = ("scheduling.k8s.io/v1", "PriorityClass")

Plain = dict[str, Any]


@dataclass
class World:
    """The run's own changes of the cluster, through a client without faults."""

    api: Api
    environment: Random
    made: int = 0
    names: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)
    enough: bool = False

    async def prepare(self) -> None:
        """Create nodes, one for probes alone that never fills, and a class."""
        await self.grow("n", CORES)
        head = {"apiVersion": CLASS[0], "kind": CLASS[1], "metadata": {"name": URGENT}}
        await self.send("POST", collection_path(CLASS), {**head, "value": 1000})

    async def grow(self, prefix: str, cores: int) -> None:
        """Create nodes."""
        sizes = {"cpu": str(cores), "memory": "64Gi", "pods": "100000"}
        status = {"allocatable": sizes, "capacity": sizes}
        for number in range(NODES):
            await self._node({"name": f"{prefix}{number}"}, status, {})
        taint = {"key": PROBE, "effect": "NoSchedule"}
        await self._node({"name": PROBE, "labels": {PROBE: "yes"}}, status, {"taints": [taint]})

    async def _node(self, meta: Plain, status: Plain, spec: Plain) -> None:
        head = {"apiVersion": "v1", "kind": "Node", "metadata": meta}
        await self.send("POST", collection_path(NODE), {**head, "spec": spec, "status": status})

    async def come_and_go(self) -> None:
        """Create and delete pods until the nodes are full enough."""
        while not self.enough:
            await self._make()
            if self.made % 5 == 0:
                await self._take()
            await asyncio.sleep(1 / PODS_A_SECOND)

    async def _make(self) -> None:
        number = self.made
        self.made += 1
        if number % 3 == 0:
            toleration = {"key": PROBE, "operator": "Exists"}
            where = {"nodeSelector": {PROBE: "yes"}, "tolerations": [toleration]}
            await self._pod(f"{PROBE}-{number}", 1, **where)
        elif number % 40 == 1:
            await self._gang(f"{GANG}-{number}")
        elif number % 10 == 2:
            cpu = self.environment.randrange(10, 25) * 100
            await self._pod(f"{URGENT}-{number}", cpu, priorityClassName=URGENT)
        else:
            await self._pod(f"{VICTIM}-{number}", self.environment.randrange(1, 10) * 100)

    async def _gang(self, name: str) -> None:
        meta = {"name": name, "namespace": "default"}
        group = {"apiVersion": GROUP[0], "kind": GROUP[1], "metadata": meta}
        spec = {"minMember": MEMBERS}
        await self.send("POST", collection_path(GROUP, "default"), {**group, "spec": spec})
        for member in range(MEMBERS):
            label = {"scheduling.x-k8s.io/pod-group": name}
            await self._pod(f"{name}-{member}", 100, label, priorityClassName=URGENT)

    async def _pod(self, name: str, cpu: int, labels: Plain | None = None, **spec: Any) -> None:
        requests = {"cpu": f"{cpu}m"}
        container = {"name": "c", "image": "x", "resources": {"requests": requests}}
        meta = {"name": name, "namespace": "default", "labels": labels or {}}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": meta}
        body["spec"] = {"containers": [container], **spec}
        await self.send("POST", collection_path(POD, "default"), body)
        self.names.add(name)

    async def _take(self) -> None:
        """Delete pods until there is free capacity; only a running gang is deleted, as a whole."""
        bound = [pod for pod in await self.pods() if pod["spec"].get("nodeName")]
        used = sum(_milli(pod) for pod in bound)
        together: dict[str, list[Plain]] = {}
        for pod in bound:
            name: str = pod["metadata"]["name"]
            whole = name.rpartition("-")[0] if name.startswith(GANG) else name
            together.setdefault(whole, []).append(pod)
        names = sorted(together)
        self.environment.shuffle(names)
        for name in names:
            if used <= FULL * NODES * CORES * 1000:
                break
            if name.startswith(GANG) and len(together[name]) < MEMBERS:
                continue
            for pod in together[name]:
                used -= _milli(pod)
                await self._delete(pod["metadata"]["name"])

    async def _delete(self, name: str) -> None:
        self.taken.add(name)
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        await self.send("DELETE", object_path(POD, "default", name), options)

    async def steal(self) -> None:
        """Steal the lease."""
        spec = {"holderIdentity": "thief", "leaseDurationSeconds": round(STOLEN)}
        with suppress(ApiError):  # there is no lease yet
            await self.send("PATCH", LEASE_PATH, {"spec": spec}, content_type=MERGE_PATCH)

    async def pods(self) -> list[Plain]:
        """Return all pods."""
        body = await self.api.get(collection_path(POD, "default"))
        found: list[Plain] = msgspec.json.decode(body)["items"]
        return found

    async def send(self, method: str, path: str, body: Any, **options: Any) -> None:
        """Send a request until it succeeded once."""
        try:
            await self.api.request(method, path, body, repeatable=True, **options)
        except ApiError as error:
            if error.reason not in ("AlreadyExists", "NotFound"):
                raise

    async def calm(self) -> None:
        """End all faults, and make every pod fit."""
        await self.api.get("/chaos", {"rate": "0"})
        await self.grow("large", 1000)


def _milli(pod: Plain) -> int:
    (container,) = pod["spec"]["containers"]
    return int(container["resources"]["requests"]["cpu"].removesuffix("m"))
