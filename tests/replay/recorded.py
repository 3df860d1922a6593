"""A mixed load on an embedded cluster in virtual time, recorded as it is scheduled.

Two profiles decide: one spreads, the other packs. Pods run for a while and end by themselves, as
pods of Jobs do; others belong to ReplicaSets and are deleted. There are pods that evict others,
gangs, volumes that are provisioned for the chosen node, and devices. Nodes come, go and come back.

python -m tests.replay.recorded DIRECTORY [NODES] [MINUTES] [PODS A SECOND] [SEED]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random
from typing import Any, Final

from policy_sched.client.apimachinery.object import Key
from policy_sched.client.apimachinery.resources import NODE, POD
from policy_sched.embedded.store.watch_history import DELETED
from policy_sched.instance.app.embedded_instance import EmbeddedInstance, Sources
from policy_sched.model.meta import SECOND, ApiObject
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.recording import (
    Added,
    Decided,
    Deleted,
    Event,
    Modified,
    PolicyChanged,
    RecordedPolicies,
    Recorder,
)
from policy_sched.scheduler.attempt import Attempt, Bind, Decision, Preempt
from policy_sched.scheduler.pod_group_cycle import GroupDecision
from policy_sched.scheduler.setup.factory import EPOCH
from policy_sched.simulate.traffic import at_start
from policy_sched.testing import FakeClock

Plain = dict[str, Any]

CONFIG: Final[Plain] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "featureGates": {"GenericWorkload": True, "GangScheduling": True},
    "profiles": [
        {"schedulerName": "default-scheduler"},
        {
            "schedulerName": "packing",
            "pluginConfig": [
                {
                    "name": "NodeResourcesFit",
                    "args": {
                        "scoringStrategy": {
                            "type": "MostAllocated",
                            "resources": [{"name": "cpu", "weight": 1}],
                        }
                    },
                }
            ],
        },
    ],
}
SECONDS: Final = 160
"""How long the recording is that the tests share."""
CLASS: Final = "local"
ZONE: Final = "topology.kubernetes.io/zone"


class Tap:
    """What a recorder sees of an instance: changes as the scheduler gets them, and decisions."""

    def __init__(self, instance: EmbeddedInstance, clock: FakeClock) -> None:
        self.events: list[Event] = []
        self._clock, self._instance = clock, instance
        self._known: set[Key] = set()
        feed, apply = instance.feed, instance.feed._dispatch
        hash_of = instance.reloader.store.current.content_hash
        self.policies(hash_of)

        def dispatch(change: Any) -> Any:
            self._change(change)
            return apply(change)

        feed._dispatch = dispatch  # type: ignore[method-assign]
        observers = instance.scheduler.observers
        observers.decided.append(self._decided)
        observers.group_decided.append(self._group_decided)

    def policies(self, content_hash: str) -> None:
        """Policies are in force."""
        self._hash = content_hash
        self.events.append(PolicyChanged(self._clock.ns, content_hash))

    def _change(self, change: Any) -> None:
        key, thing = change.new.key, change.new.typed
        if type(thing) is ApiObject:
            return
        if change.type == DELETED:
            if key in self._known:
                self._known.discard(key)
                self.events.append(Deleted(self._clock.ns, thing))
            return
        ended = key.kind == POD and thing.status.phase in ("Succeeded", "Failed")
        if ended:
            if key in self._known:
                self._known.discard(key)
                self.events.append(Deleted(self._clock.ns, thing))
            return
        kind = Modified if key in self._known else Added
        self._known.add(key)
        self.events.append(kind(self._clock.ns, thing))

    def _decided(self, attempt: Attempt, decision: Decision, _start: float) -> None:
        pod = attempt.queued.info
        fields: Plain = {}
        if isinstance(decision, Bind):
            fields["node"] = decision.node
        else:
            fields |= {"reason": "Unschedulable", "message": decision.message}
            if not decision.status.rejected:
                fields["reason"] = "SchedulerError"
            if isinstance(decision, Preempt):
                fields["nominated_node"] = decision.node
                fields["victims"] = tuple(sorted(victim.key for victim in decision.victims))
        self.events.append(
            Decided(
                time=self._clock.ns,
                pod=pod.key,
                uid=pod.uid,
                scheduler=pod.scheduler_name,
                policies=self._hash,
                **fields,
            )
        )

    def _group_decided(self, decision: GroupDecision, start: float) -> None:
        for member in decision.members:
            self._decided(member.attempt, member.decision, start)


def node(index: int) -> Plain:
    """Return a node; they are of three sizes, in three zones."""
    sizes = {"cpu": str(8 << index % 3), "memory": f"{32 << index % 3}Gi", "pods": "110"}
    labels = {ZONE: f"z{index % 3}", "kubernetes.io/hostname": f"n{index}"}
    labels["size"] = ("small", "medium", "large")[index % 3]
    meta = {"name": f"n{index}", "labels": labels}
    status = {"allocatable": sizes, "capacity": sizes}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}


def pod(random: Random, name: str, **spec: Any) -> Plain:
    """Return a pod of the load."""
    app = random.choice("abcdef")
    sizes = {"cpu": f"{random.choice((250, 500, 1000, 2000))}m"}
    sizes["memory"] = f"{random.choice((128, 512, 1024, 4096))}Mi"
    container = {"name": "c", "image": f"i{app}", "resources": {"requests": sizes}}
    body: Plain = {"containers": [container], "terminationGracePeriodSeconds": 5, **spec}
    selector = {"labelSelector": {"matchLabels": {"app": app}}}
    match random.randrange(10):
        case 0:
            spread = {"maxSkew": 1, "topologyKey": ZONE, **selector}
            body["topologySpreadConstraints"] = [{**spread, "whenUnsatisfiable": "ScheduleAnyway"}]
        case 1:
            term = {"topologyKey": "kubernetes.io/hostname", **selector}
            weighted = {"weight": 50, "podAffinityTerm": term}
            preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}
            body["affinity"] = {"podAntiAffinity": preferred}
        case 2:
            body["nodeSelector"] = {ZONE: f"z{random.randrange(3)}"}
    if random.random() < 0.3:
        body.setdefault("schedulerName", "packing")
    notes = {"policysched.dev/duration": f"{random.randrange(60, 300)}s"}
    meta: Plain = {"name": name, "namespace": "default", "labels": {"app": app}}
    meta["annotations"] = notes
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body}


def claim(name: str) -> Plain:
    """Return a claim that waits for its first consumer."""
    meta = {"name": name, "namespace": "default"}
    spec: Plain = {"storageClassName": CLASS, "accessModes": ["ReadWriteOnce"]}
    spec["resources"] = {"requests": {"storage": "1Gi"}}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}


def group(name: str, count: int) -> Plain:
    """Return a gang."""
    meta = {"name": name, "namespace": "default"}
    spec = {"schedulingPolicy": {"gang": {"minCount": count}}}
    version = "scheduling.k8s.io/v1alpha2"
    return {"apiVersion": version, "kind": "PodGroup", "metadata": meta, "spec": spec}


def replicas(name: str, count: int, priority: int) -> Plain:
    """Return a ReplicaSet."""
    meta = {"name": name, "namespace": "default"}
    labels = {"app": name}
    requests = {"cpu": "1500m", "memory": "1Gi"}
    spec: Plain = {"containers": [{"name": "c", "resources": {"requests": requests}}]}
    spec |= {"priority": priority, "terminationGracePeriodSeconds": 5}
    template = {"metadata": {"labels": labels}, "spec": spec}
    body = {"replicas": count, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": body}


def devices(index: int) -> Plain:
    """Return the slice of a node that has devices."""
    listed = [{"name": f"gpu-{i}"} for i in range(4)]
    spec = {"driver": "gpu.test", "nodeName": f"n{index}", "devices": listed}
    spec["pool"] = {"name": f"n{index}", "generation": 1, "resourceSliceCount": 1}
    meta = {"name": f"slice-{index}"}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": meta,
        "spec": spec,
    }


FIXTURES: Final[tuple[Plain, ...]] = (
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS},
        "provisioner": "example.com/disk",
        "volumeBindingMode": "WaitForFirstConsumer",
    },
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.test"'}}]},
    },
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-gpu", "namespace": "default"},
        "spec": {
            "spec": {
                "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}
            }
        },
    },
)


class Load:
    """A load on an embedded cluster; `tick` lets a step of it happen."""

    def __init__(self, nodes: int, rate: float, seed: int) -> None:
        self.random, self.clock = Random(seed), FakeClock(EPOCH)
        files = PolicyFiles(CONFIG, ())
        sources = Sources(files, seed=seed)
        self.instance = EmbeddedInstance(sources, self.clock, lambda _record: None)
        self.tap = Tap(self.instance, self.clock)
        self.nodes, self.rate, self.made = nodes, rate, 0
        self.away: list[int] = []
        cluster = self.instance.cluster
        for index in range(nodes):
            cluster.apply(node(index))
        for thing in FIXTURES:
            cluster.apply(thing)
        for index in range(0, nodes, 5):
            cluster.apply(devices(index))
        for index in range(max(1, nodes // 20)):
            cluster.apply(replicas(f"web-{index}", 8, 0))
        self.step()

    def change_policies(self, config: Plain) -> None:
        """Put another configuration in force."""
        reloaded = self.instance.reload(PolicyFiles(config, ()).compile(), "test")
        self.tap.policies(reloaded.policies.content_hash)

    def step(self) -> None:
        """Let everything happen that is due now."""
        for _ in range(10_000):
            self.instance.step()
            wakeup = self.instance.next_wakeup()
            if wakeup is None or wakeup > self.clock.ns:
                return

    def play(self, seconds: int) -> list[Event]:
        """Let time pass, and return all events."""
        end = self.clock.ns + seconds * SECOND
        gap = round(SECOND / self.rate)
        next_pod = self.clock.ns + gap
        while True:
            wakeup = self.instance.next_wakeup()
            at = next_pod if wakeup is None else min(next_pod, max(wakeup, self.clock.ns + 1))
            if at > end:
                break
            self.clock.ns = at
            if at >= next_pod:
                self.comes()
                next_pod = at + gap
            self.step()
        self.clock.ns = end
        return self.tap.events

    def comes(self) -> None:
        """Let something come."""
        cluster, random, self.made = self.instance.cluster, self.random, self.made + 1
        name = f"p{self.made}"
        chance = random.random()
        if chance < 0.04:
            cluster.apply(claim(name))
            volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
            cluster.apply(pod(random, name, volumes=volumes))
        elif chance < 0.08:
            claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
            cluster.apply(pod(random, name, resourceClaims=claims))
        elif chance < 0.10:
            cluster.apply(group(name, 3))
            for index in range(3):
                of = {"podGroupName": name}
                member = pod(random, f"{name}-{index}", schedulingGroup=of)
                member["spec"]["schedulerName"] = "default-scheduler"
                cluster.apply(member)
        elif chance < 0.115:
            big = pod(random, name, priority=1000, nodeSelector={"size": "small"})
            big["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "7500m"
            cluster.apply(big)
        elif chance < 0.12:
            self.turn_node()
        else:
            cluster.apply(pod(random, name))
        if random.random() < 0.05:
            cluster.delete(Key(POD, "default", f"p{random.randrange(1, self.made + 1)}"))

    def turn_node(self) -> None:
        """Let a node go, or one that went come back."""
        cluster, random = self.instance.cluster, self.random
        if self.away:
            cluster.apply(node(self.away.pop()))
        else:
            index = random.randrange(self.nodes)
            self.away.append(index)
            cluster.delete(Key(NODE, "", f"n{index}"))


def recorded(nodes: int, seconds: int, rate: float = 1.0, seed: int = 0) -> list[Event]:
    """Return what is recorded of a load."""
    return Load(nodes, rate, seed).play(seconds)


def write(events: list[Event], folder: Path, end: int) -> None:
    """Write events as a recording, with the configuration that decided."""
    recorder = Recorder(folder)
    objects, later = at_start(iter(events))
    first, *_ = events
    assert isinstance(first, PolicyChanged)
    files = {"config.json": json.dumps(CONFIG)}
    policies = RecordedPolicies(hash=first.hash, config="config.json", files=files)
    recorder.policies(first.time, policies)
    recorder.begin(first.time, objects)
    for event in (*later, *events[1 + len(objects) + len(later) :]):
        match event:
            case Added() | Modified():
                recorder.put(event.time, event.object)
            case Deleted():
                recorder.remove(event.time, event.object)
            case Decided():
                recorder.decided(event)
    recorder.close(end)


if __name__ == "__main__":
    numbers = [float(text) for text in sys.argv[2:]]
    nodes, minutes, rate, seed = (*numbers, *(20, 10, 1, 0)[len(numbers) :])
    load = Load(int(nodes), rate, int(seed))
    write(load.play(round(60 * minutes)), Path(sys.argv[1]), load.clock.ns)
