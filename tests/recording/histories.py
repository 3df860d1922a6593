"""Random histories of a small cluster, and the state that follows from them without a recording."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any
from zlib import crc32

import msgspec

from policy_sched.model.kinds import KINDS
from policy_sched.model.meta import SECOND, ApiObject
from policy_sched.model.pod import Pod
from policy_sched.recording.events import Added, Decided, Deleted, Event, Modified
from policy_sched.recording.reduction import reduced
from policy_sched.testing import make_node, make_pod

BEGAN = 1_790_000_000 * SECOND
Place = tuple[str, str, str, str]
State = dict[Place, ApiObject]
IMAGES = {f"registry.example/app{number}:1": 1000 + number for number in range(9)}
CONDITIONS: tuple[dict[str, Any], ...] = (
    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2"},
    {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
    {"type": "Ready", "status": "True"},
    {"type": "Initialized", "status": "True", "message": "all of them"},
    {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
)


@dataclass(frozen=True)
class Step:
    """Something that happened: an object came or changed, or ``gone``: it was deleted."""

    time: int
    object: ApiObject
    gone: bool = False


def place(obj: ApiObject) -> Place:
    """Return what tells an object from others."""
    return obj.api_version, obj.kind, obj.metadata.namespace, obj.metadata.name


def random_pod(random: Random, name: str) -> Pod:
    """Return a state of a pod."""
    generation = random.randrange(2)
    pod = make_pod(
        name,
        namespace=random.choice(("default", "prod")),
        uid=f"{name}-{generation}",
        cpu=random.choice(("1", "500m", 2)),
        labels={"app": random.choice("ab"), **({"name": name} if random.random() < 0.3 else {})},
        annotations={
            key: random.choice(("yes", "no"))
            for key in ("example.com/kept", "acme.com/not", "pv.kubernetes.io/bind-completed")
            if random.random() < 0.4
        },
        created=(None, "2026-01-01T00:00:00Z")[generation],
        started=random.choice((None, "2026-01-02T00:00:00.5Z")),
        nominated_node_name=random.choice(("", "", "n1")),
        phase=random.choice(("Pending", "Running", "Running", "Succeeded")),
        node_name=random.choice(("", "n0", "n1")),
        scheduler_name=random.choice(("", "other")),
        priority=random.choice((None, 0, 100)),
        tolerations=[{"key": "k", "operator": "Exists"}] * random.randrange(3),
        volumes=[
            {"name": f"kube-api-access-{name}"},
            {"name": "data", "persistentVolumeClaim": {"claimName": random.choice("ab")}},
        ][: random.randrange(3)],
    )
    given = msgspec.to_builtins(pod)
    if random.random() < 0.7:  # as new API servers do
        spec = {k: v for k, v in given["spec"].items() if k != "nodeName"}
        given["metadata"]["generation"] = 1 + crc32(msgspec.json.encode(spec))
    given["status"]["conditions"] = random.sample(CONDITIONS, random.randrange(4))
    if random.random() < 0.2:
        given["metadata"]["deletionTimestamp"] = "2026-01-03T00:00:00Z"
    if random.random() < 0.3:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u"}
        given["metadata"]["ownerReferences"] = [owner]
    return msgspec.convert(given, Pod)


def random_node(random: Random, name: str) -> ApiObject:
    """Return a state of a node."""
    images = sorted(random.sample(sorted(IMAGES.items()), random.randrange(7)))
    return make_node(
        name,
        cpu=random.choice(("4", 8)),
        labels={"zone": random.choice("xy")},
        annotations={"heartbeat": str(random.random())},
        taints=["k=v:NoSchedule"] * random.randrange(2),
        unschedulable=random.random() < 0.2,
        ready=random.random() < 0.8,
        images=dict(images),
    )


def random_other(random: Random, name: str) -> ApiObject:
    """Return a state of an object of another kind."""
    choice = random.randrange(4)
    meta = {"name": name, "uid": f"{name}-{choice}", "labels": {"a": random.choice("12")}}
    if choice == 0:
        data = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
    elif choice == 1:
        claim = {"accessModes": ["ReadWriteOnce"] * random.randrange(2)}
        claim["volumeName"] = random.choice(("", "pv"))  # type: ignore[assignment]  # plain data
        data = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": claim}
        data["metadata"] = {**meta, "namespace": "default"}
    elif choice == 2:
        data = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta}
    else:
        device = {"claim": {}, "nodeName": name}
        device = {"devices": [{"name": f"d{n}"} for n in range(random.randrange(4))], **device}
        device.pop("claim")
        spec = {"driver": "d", "pool": {"name": "p", "generation": random.randrange(3)}, **device}
        data = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": meta}
        data["spec"] = spec
    return msgspec.convert(data, KINDS[str(data["apiVersion"]), str(data["kind"])])


def history(random: Random, count: int) -> Iterator[Step]:
    """Yield what happens, an object of few names at a time; most steps are close in time."""
    time, there = BEGAN, dict[Place, ApiObject]()
    for _ in range(count):
        time += random.choice(
            (0, 1, 7_000_001, SECOND, 90 * SECOND, 3000 * SECOND, 50_000 * SECOND)
        )
        if there and random.random() < 0.2:
            yield Step(time, there.pop(random.choice(sorted(there))), gone=True)
            continue
        make = random.choice((random_pod, random_pod, random_pod, random_node, random_other))
        obj = make(random, f"o{random.randrange(4)}")
        there[place(obj)] = obj
        yield Step(time, obj)


def follow(state: State, step: Step, kept: Sequence[str] = ("example.com/kept",)) -> None:
    """Bring a state up to date: reduced objects, without pods that ended."""
    state.pop(place(step.object), None)
    if not step.gone:
        state.update((place(obj), obj) for obj in reduced([step.object], kept))


def replayed(events: Iterable[Event], until: int | None = None) -> State:
    """Return the state after events; an event about what is not so is an error."""
    state: State = {}
    for event in events:
        if until is not None and event.time > until:
            break
        match event:
            case Added(object=obj):
                assert place(obj) not in state
                state[place(obj)] = obj
            case Modified(object=obj):
                assert state[place(obj)] != obj
                assert state[place(obj)].metadata.uid == obj.metadata.uid
                state[place(obj)] = obj
            case Deleted(object=obj):
                old = state.pop(place(obj))
                assert old.metadata.uid == obj.metadata.uid
            case Decided():
                namespace, name = event.pod.split("/")
                assert state["v1", "Pod", namespace, name].metadata.uid == event.uid
    return state
