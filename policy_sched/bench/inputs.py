"""Measures inputs: loading many objects, and what one that changes costs the next decision.

Objects come as an API server lists them, with managed fields, and go through the client's decoding
and store into the cache of a scheduler whose policy reads them by the node's name. Then equal pods
are decided, first while nothing changes, then with one object changed before each. CPU time is
measured, which does not depend on what else the machine does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from policy_sched.bench.in_process import quiet_collector
from policy_sched.bench.result import Latency, Result
from policy_sched.bench.size import LoadedObjects, resident
from policy_sched.bench.workloads import WORKLOADS, node_json, pod_json
from policy_sched.client.kube import rest
from policy_sched.client.kube.cache import Store
from policy_sched.errors import PolicySchedError
from policy_sched.model import CustomObject, Node, Pod, PodInfo
from policy_sched.scheduler import Scheduler, object_changed
from policy_sched.scheduler.setup import build

NAME: Final = "Inputs"
NODES: Final = 5_000
PODS: Final = 1_000
EXISTING: Final = 100_000
_PAGE: Final = 500
_KIND: Final = ("bench.example.com/v1", "NodeLoad")
_WORKLOAD: Final = WORKLOADS["SchedulingBasic"]
_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": {"busy": {"type": "integer"}}},
        "status": {
            "type": "object",
            "properties": {
                "free": {
                    "type": "object",
                    "additionalProperties": {"type": "string", "format": "quantity"},
                }
            },
        },
    },
}
_POLICY: Final = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: NodeLoad}
spec:
  inputs:
  - {name: load, apiVersion: bench.example.com/v1, kind: NodeLoad, schema: load.json, key: object.name}
  filter:
  - expression: |-
      inputs.load[?node.name].optMap(l, pod.requests.fitsIn(l.status.free)).orValue(true)
    message: node is busy
"""  # noqa: E501 - an input on a line


class InputCosts(Result, frozen=True):
    """What was loaded, and the CPU time of decisions without and with a changed object."""

    nodes: int
    pods: int
    loaded: tuple[LoadedObjects, ...]
    still: Latency
    changing: Latency

    def text_lines(self) -> Iterator[str]:
        """Yield the result for people."""
        yield f"{NAME}: {self.nodes} nodes; CPU time of {self.pods} decisions, with the changes"
        for objects in self.loaded:
            memory = f"{objects.mebibytes:,.1f} MiB, {objects.bytes_each:,} bytes each"
            took = f"loaded in {objects.cpu_seconds:,.2f} s of CPU"
            yield f"  {objects.count:,} {objects.kind}: {memory}   {took}"
        yield f"  nothing changes    {self.still.text()}"
        yield f"  an object changes  {self.changing.text()}"


def run_inputs(nodes: int, pods: int, existing: int) -> InputCosts:
    """Run the benchmark. Raises PolicySchedError if a pod finds no node."""
    with TemporaryDirectory() as folder, quiet_collector():
        (Path(folder) / "load.json").write_bytes(msgspec.json.encode(_SCHEMA))
        policy = Path(folder) / "policy.yaml"
        policy.write_text(_POLICY, encoding="utf-8")
        scheduler = build(policies=[str(policy)])
        decode = msgspec.json.Decoder(Node).decode
        for number in range(nodes):
            scheduler.cache.add_node(decode(node_json(_WORKLOAD, number)))
        names = [node.metadata.name for node in scheduler.cache.nodes.nodes if node is not None]
        loaded = _load(scheduler, names, existing)
        decoding = rest.CustomDecoding(_KIND)
        still = _decided(scheduler, 0, pods, None)
        changed = (decoding.object(_encoded(names, n % nodes, n)) for n in range(pods))
        changing = _decided(scheduler, pods, pods, changed)
    return InputCosts(NAME, nodes, pods, (loaded,), still, changing)


def _load(scheduler: Scheduler, names: list[str], count: int) -> LoadedObjects:
    """List objects as a reflector does, and apply the changes."""
    decoding = rest.CustomDecoding(_KIND)
    store: Store[CustomObject] = Store()
    memory, cpu = resident(), 0.0
    for first in range(0, count, _PAGE):
        items = b",".join(
            _encoded(names, number, 0) for number in range(first, min(count, first + _PAGE))
        )
        page = b'{"metadata":{},"items":[' + items + b"]}"
        start = time.process_time()
        for item in decoding.page(page).items:
            for change in store.upsert(item):
                object_changed(scheduler, change.old, change.new)
        cpu += time.process_time() - start
    return LoadedObjects.of("objects", count, cpu, resident() - memory)


def _encoded(names: list[str], number: int, version: int) -> bytes:
    """Return the JSON of an object, as the API server sends it."""
    name = names[number] if number < len(names) else f"other-{number}"
    fields: dict[str, Any] = {
        f"f:{field}": {} for field in ("busy", "zone", "free", "seen", "used")
    }
    plain: dict[str, Any] = {
        "apiVersion": _KIND[0],
        "kind": _KIND[1],
        "metadata": {
            "name": name,
            "uid": f"11111111-2222-3333-4444-{number:012d}",
            "resourceVersion": str(1_000_000 + version),
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [
                {"manager": "agent", "operation": "Update", "fieldsV1": {"f:spec": fields}}
            ],
        },
        "spec": {"busy": version % 100, "zone": f"zone-{number % 3}"},
        "status": {"free": {"cpu": f"{8 + version}", "memory": "80Gi"}},
    }
    return msgspec.json.encode(plain)


def _decided(
    scheduler: Scheduler, first: int, count: int, changes: Iterator[CustomObject] | None
) -> Latency:
    """Return the CPU time of decisions, each after a change if there are any."""
    decode = msgspec.json.Decoder(Pod).decode
    pods = [PodInfo.of(decode(pod_json(_WORKLOAD, first + i))) for i in range(count)]
    took = []
    for pod in pods:
        changed = None if changes is None else next(changes)
        start = time.process_time_ns()
        if changed is not None:
            object_changed(scheduler, changed, changed)
        scheduler.add_pod(pod)
        outcome = scheduler.schedule_one()
        took.append(time.process_time_ns() - start)
        if outcome is None or not outcome.node:
            raise PolicySchedError(f"{pod.key} found no node")
    return Latency.of(took)
