"""Measures recordings: an hour of a cluster in virtual time, written and read back.

Pods come at a steady rate, each of one of some hundred owners, are decided and bound, run after two
seconds, and are deleted after ten minutes. Each state is decoded from JSON of its own, as informers
do it, so that nothing is equal by being the same object, and is held until the pod has gone, as
informers do, too. The time of writing is that of the calls of the recorder, compression included;
that of reading has everything.
"""

from __future__ import annotations

import heapq
import time
import uuid
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec

from policy_sched import model
from policy_sched.bench.in_process import quiet_collector
from policy_sched.bench.result import Result
from policy_sched.recording import Decided, RecordedPolicies, Recorder, Recording

NAME: Final = "Recording"
NODES: Final = 5_000
PODS: Final = 36_000
"""Those of an hour, ten a second."""
RATE: Final = 10
OWNERS: Final = 300
LIFE: Final = 600 * model.SECOND
BEGAN: Final = 1_790_000_000 * model.SECOND
_HELD: Final = 60 * model.SECOND
"""Nanoseconds for which objects are held after their pod has gone."""
_BATCH: Final = 250
"""Events that are made, and then recorded, at a time: those of five seconds (`EVERY`), as a
scheduler's thread takes them. Of many more the processor's cache has lost what was decoded first.
"""
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


class RecordingFigures(Result, frozen=True):
    """A recording: its size, and what it takes to write and to read it."""

    nodes: int
    pods: int
    seconds: float
    megabytes: float
    bytes_per_pod: float
    write_us_per_pod: float
    events: int
    read_seconds: float
    times_real_time: int

    def text_lines(self) -> Iterator[str]:
        """Yield the result for people."""
        yield (
            f"{NAME}: {self.nodes:,} nodes, {self.pods:,} pods come, run and go in"
            f" {self.seconds:,.0f} s of virtual time"
        )
        yield f"  size   {self.megabytes:6.2f} MB   {self.bytes_per_pod:,.0f} bytes a pod"
        yield f"  write  {self.write_us_per_pod:6.1f} us of CPU a pod"
        yield (
            f"  read   {self.read_seconds:6.2f} s of CPU   {self.events:,} events,"
            f" {self.times_real_time:,} times real time"
        )


def run_recording(nodes: int, pods: int) -> RecordingFigures:
    """Write so many pods on so many nodes, and read them back."""
    random = Random(1)  # noqa: S311 - a seed makes it repeatable
    with TemporaryDirectory() as folder, quiet_collector():
        recorder = Recorder(Path(folder) / "traffic")
        recorder.policies(BEGAN, RecordedPolicies("0" * 64))
        recorder.begin(BEGAN, map(node, range(nodes)))
        snapshot, spent, last = recorder.size, 0.0, BEGAN
        batch: list[tuple[int, object]] = []
        held: deque[tuple[int, object]] = deque()
        for event in history(random, nodes, pods):
            batch.append(event)
            if len(batch) == _BATCH:
                spent += _record(recorder, batch)
                last = batch[-1][0]
                held.extend(batch)
                batch.clear()
                while held and held[0][0] < last - LIFE - _HELD:
                    held.popleft()
        spent += _record(recorder, batch)
        last = batch[-1][0] if batch else last
        begin = time.process_time()
        recorder.close(last)
        spent += time.process_time() - begin
        begin = time.process_time()
        recording = Recording.open(Path(folder) / "traffic")
        events = sum(1 for _ in recording.events())
        took = max(time.process_time() - begin, 1e-6)
    return RecordingFigures(
        NAME,
        nodes,
        pods,
        (last - BEGAN) / model.SECOND,
        round(recorder.size / 1e6, 2),
        round((recorder.size - snapshot) / pods, 1),
        round(spent / pods * 1e6, 1),
        events,
        round(took, 2),
        round((last - BEGAN) / model.SECOND / took),
    )


def _record(recorder: Recorder, batch: list[tuple[int, object]]) -> float:
    """Record events; return the seconds of CPU that it took."""
    put, remove, decided = recorder.put, recorder.remove, recorder.decided
    begin = time.process_time()
    for at, what in batch:
        if isinstance(what, model.Pod):
            put(at, what)
        elif isinstance(what, Decided):
            decided(what)
        elif isinstance(what, Gone):
            remove(at, what.pod)
    return time.process_time() - begin


class Gone(msgspec.Struct, gc=False):
    """A pod is deleted."""

    pod: model.Pod


_POD: Final = model.decoder(model.Pod)
_encode = msgspec.json.Encoder().encode


def history(random: Random, nodes: int, pods: int) -> Iterator[tuple[int, object]]:
    """Yield the events of so many pods in the order of their times."""
    waiting: list[tuple[int, int, int, bytes]] = []
    end = BEGAN + pods * model.SECOND // RATE
    for number in range(pods):
        come = BEGAN + number * model.SECOND // RATE
        while waiting and waiting[0][0] <= come:
            yield _event(*heapq.heappop(waiting))
        for stage, (delay, pod) in enumerate(_stages(random, nodes, come)):
            heapq.heappush(waiting, (come + delay, number, stage, pod))
    while waiting and waiting[0][0] <= end:
        yield _event(*heapq.heappop(waiting))


def _event(at: int, _number: int, stage: int, text: bytes) -> tuple[int, object]:
    pod = _POD.decode(text)
    if stage == _DECIDED:
        name, node = f"{pod.metadata.namespace}/{pod.metadata.name}", pod.spec.node_name
        own, policies = model.DEFAULT_SCHEDULER, "0" * 64
        return at, Decided(time=at, pod=name, scheduler=own, policies=policies, node=node)
    return at, Gone(pod) if stage == _DELETED else pod


_DECIDED, _DELETED = 1, 4
"""Places of stages that are no states of a pod."""


def _stages(random: Random, nodes: int, come: int) -> Iterator[tuple[int, bytes]]:
    """Yield the states of a pod, and when each is seen."""
    owner = random.randrange(OWNERS)
    app, suffix = f"web-{owner}", "".join(random.choices(_LETTERS, k=5))
    replica_set = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}
    resources = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{app}-{suffix}",
            "namespace": f"team-{owner % 40}",
            "generation": 1,
            "uid": str(uuid.UUID(int=random.getrandbits(128))),
            "creationTimestamp": _second(come),
            "labels": {"app": app, "pod-template-hash": f"{owner:08x}"},
            "ownerReferences": [replica_set | {"name": app, "uid": str(uuid.UUID(int=owner))}],
        },
        "spec": {
            "containers": [
                {"name": "c", "image": "registry.example/app:1", "resources": resources}
            ],
            "schedulerName": model.DEFAULT_SCHEDULER,
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
            "priority": 0,
            "serviceAccountName": "default",
            "volumes": [{"name": f"kube-api-access-{suffix}"}],
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }
    yield 0, _version(random, pod)
    pod["spec"]["nodeName"] = f"node-{random.randrange(nodes):05d}"
    scheduled = _condition("PodScheduled", come)
    pod["status"]["conditions"] = [scheduled]
    yield 1_000_000 + random.randrange(1_000_000), _version(random, pod)
    yield 3_000_000 + random.randrange(2_000_000), _version(random, pod)
    delay = 2 * model.SECOND + random.randrange(model.SECOND)
    ready = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
    pod["status"] |= {
        "phase": "Running",
        "startTime": _second(come),
        "conditions": [*(_condition(kind, come + delay) for kind in ready), scheduled],
        "containerStatuses": [
            {"name": "c", "allocatedResources": resources["requests"], "resources": resources}
        ],
    }
    running = _version(random, pod)
    yield delay, running
    yield LIFE + random.randrange(model.SECOND), running


def _version(random: Random, pod: dict[str, Any]) -> bytes:
    """Return a pod as JSON, of a new version."""
    pod["metadata"]["resourceVersion"] = str(random.getrandbits(30))
    return _encode(pod)


def _second(at: int) -> str:
    moment = model.datetime_of(at // model.SECOND * model.SECOND)
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _condition(kind: str, at: int) -> dict[str, str]:
    return {"type": kind, "status": "True", "lastTransitionTime": _second(at)}


def node(number: int) -> model.Node:
    """Return a node."""
    name = f"node-{number:05d}"
    allocatable = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    return msgspec.convert(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "uid": str(uuid.UUID(int=number)),
                "labels": {model.HOSTNAME: name, model.ZONE: f"zone-{number % 3}"},
            },
            "status": {
                "allocatable": allocatable,
                "capacity": allocatable,
                "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            },
        },
        model.Node,
    )
