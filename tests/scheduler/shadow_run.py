"""A mixed load that one scheduler decides while a shadow watches, and the share of agreement.

The other scheduler publishes ``status.nominatedNodeName`` before PreBind, as kube-scheduler 1.36
does, and binds a while after it has decided. One pod in twenty has a volume that is provisioned
for its node (WaitForFirstConsumer), and one in twelve is deleted at some time, bound or not. One in
thirty needs a node of its own, from which it evicts the others. Bindings overtake each other. All
is virtual time: the same seed gives the same decisions.

python -m tests.scheduler.shadow_run [PODS] [SEED] [PODS A SECOND]
"""

from __future__ import annotations

import sys
from collections import Counter
from random import Random
from typing import Any, Final

from policy_sched.client.apimachinery.object import Key
from policy_sched.client.apimachinery.resources import POD
from policy_sched.embedded.client import EmbeddedClient
from policy_sched.embedded.controllers.volumes import PersistentVolumeController
from policy_sched.embedded.store.watch_history import DELETED
from policy_sched.instance.app.embedded_instance import ENDED, EmbeddedInstance, Sources
from policy_sched.instance.shadow.comparison import Shadow
from policy_sched.instance.shadow.log import Agreement, Comparison
from policy_sched.model.cluster_objects import Node
from policy_sched.model.meta import SECOND, ApiObject
from policy_sched.model.pod import Pod
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.storage import PersistentVolumeClaim
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.scheduler import event_handlers
from policy_sched.scheduler.setup.factory import EPOCH, build
from policy_sched.testing import FakeClock

Plain = dict[str, Any]

RATE: Final = 50
"""Pods that arrive per second; one for each step."""
BINDING: Final = (2_000_000, 22_000_000)
"""Nanoseconds that a binding takes, at least and at most."""
PROVISIONING: Final = 50
"""Steps from one provisioning of volumes to the next: PreBind takes up to a second and more."""
PREEMPTORS: Final = 1 / 30
PODS_PER_NODE: Final = 15
"""The cluster grows with the load, so that it does not fill up."""
VOLUMES: Final = 0.05
DELETIONS: Final = 0.08
CLASS: Final = "local"


class Watcher:
    """A shadow on the changes of a store, in the order in which they are committed."""

    def __init__(self, instance: EmbeddedInstance, clock: FakeClock, seed: int) -> None:
        self.recorded: list[Comparison] = []
        self.scheduler = build(now=clock)
        self.shadow = Shadow(
            self.scheduler, "default-scheduler", self.recorded.append, Random(seed)
        )
        self._watch = instance.cluster.store.watch()
        self._known: dict[Key, ApiObject] = {}
        self.take()
        self.shadow.begin()

    def take(self) -> None:
        """Apply the changes."""
        for change in self._watch.drain():
            self.shadow.overdue()
            new = change.new.typed
            key = change.new.key
            gone = change.type == DELETED
            old = self._known.pop(key, None)
            if not gone:
                self._known[key] = new
            if isinstance(new, Pod):
                self._pod(new, gone=gone or new.status.phase in ENDED)
            elif isinstance(new, Node):
                (event_handlers.node_gone if gone else event_handlers.node_seen)(
                    self.scheduler, new
                )
            elif type(new) is not ApiObject:
                if gone:
                    event_handlers.object_gone(self.scheduler, new)
                    continue
                if event_handlers.object_seen(self.scheduler, old, new):
                    self.shadow.changes.note(new.kind, new.metadata.name)
                if isinstance(new, PersistentVolumeClaim) and old is None:
                    self.shadow.claim_seen(new)

    def _pod(self, pod: Pod, *, gone: bool) -> None:
        info = PodInfo.of(pod)
        if gone:
            self.shadow.pod_gone(info.uid)
            event_handlers.pod_gone(self.scheduler, info)
            return
        self.shadow.pod_seen(info)
        if info.node_name:
            event_handlers.pod_seen(self.scheduler, info)


def node(index: int) -> Plain:
    """Return a node; they are of three sizes, in three zones."""
    sizes = {"cpu": str(8 << index % 3), "memory": f"{32 << index % 3}Gi", "pods": "110"}
    labels = {"topology.kubernetes.io/zone": f"z{index % 3}", "kubernetes.io/hostname": f"n{index}"}
    labels["size"] = ("small", "medium", "large")[index % 3]
    meta = {"name": f"n{index}", "labels": labels}
    status = {"allocatable": sizes, "capacity": sizes}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}


def pod(random: Random, name: str, *, volume: bool) -> Plain:
    """Return a pod of a mixed load."""
    app = random.choice("abcdef")
    sizes = {"cpu": f"{random.choice((100, 250, 500, 1000, 2000))}m"}
    sizes["memory"] = f"{random.choice((128, 512, 1024, 4096))}Mi"
    container = {"name": "c", "image": f"i{app}", "resources": {"requests": sizes}}
    spec: Plain = {"containers": [container]}
    selector = {"labelSelector": {"matchLabels": {"app": app}}}
    match random.randrange(10):
        case 0:
            spread = {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", **selector}
            spec["topologySpreadConstraints"] = [{**spread, "whenUnsatisfiable": "ScheduleAnyway"}]
        case 1:
            term = {"topologyKey": "kubernetes.io/hostname", **selector}
            weighted = {"weight": 50, "podAffinityTerm": term}
            preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}
            spec["affinity"] = {"podAntiAffinity": preferred}
        case 2:
            spec["nodeSelector"] = {"topology.kubernetes.io/zone": f"z{random.randrange(3)}"}
    if volume:
        claim = {"claimName": name}
        spec["volumes"] = [{"name": "v", "persistentVolumeClaim": claim}]
    meta = {"name": name, "namespace": "default", "labels": {"app": app}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def claim(name: str) -> Plain:
    """Return a claim that waits for its first consumer."""
    meta = {"name": name, "namespace": "default"}
    spec = {"storageClassName": CLASS, "accessModes": ["ReadWriteOnce"]}
    spec["resources"] = {"requests": {"storage": "1Gi"}}  # type: ignore[assignment]
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": spec}


def preemptor(name: str) -> Plain:
    """Return a pod that takes almost all of a small node, and may evict the others."""
    container = {"name": "c", "image": "big", "resources": {"requests": {"cpu": "7500m"}}}
    spec: Plain = {"containers": [container], "priority": 1000}
    spec["nodeSelector"] = {"size": "small"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "big"}},
        "spec": spec,
    }


def play(pods: int, seed: int = 0, rate: int = RATE) -> list[Comparison]:
    """Return the comparisons of a load of so many pods."""
    random, clock = Random(seed), FakeClock(EPOCH)
    instance = EmbeddedInstance(
        Sources(PolicyFiles(None, ()), seed=seed), clock, lambda _record: None
    )
    cluster = instance.cluster
    client = instance.scheduler.handle.client
    assert isinstance(client, EmbeddedClient)
    for index in range(40 + pods // PODS_PER_NODE):
        cluster.apply(node(index))
    storage = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass"}
    storage |= {"metadata": {"name": CLASS}, "provisioner": "example.com/disk"}
    cluster.apply({**storage, "volumeBindingMode": "WaitForFirstConsumer"})
    volumes = next(
        part for part in cluster.components if isinstance(part, PersistentVolumeController)
    )
    cluster.components = tuple(part for part in cluster.components if part is not volumes)
    watcher = Watcher(instance, clock, seed)

    def tick(number: int) -> None:
        if number % PROVISIONING == 0:
            volumes.run(lambda: False)
        client.latency = random.randint(*BINDING)
        instance.step()
        watcher.take()
        clock.ns += SECOND // rate

    alive: list[str] = []
    for number in range(pods):
        name, volume = f"p{number}", random.random() < VOLUMES
        if volume:
            cluster.apply(claim(name))
        evicts = not volume and random.random() < PREEMPTORS
        cluster.apply(preemptor(name) if evicts else pod(random, name, volume=volume))
        alive.append(name)
        if random.random() < DELETIONS:
            one = alive.pop(random.randrange(len(alive)))
            cluster.delete(Key(POD, "default", one))
        tick(number)
    for number in range(2 * PROVISIONING):
        tick(number)
    instance.close()
    return watcher.recorded


def agreement(recorded: list[Comparison]) -> tuple[Counter[str], float]:
    """Return the number of comparisons by result, and the share of those that agree."""
    results = Counter(one.result.value for one in recorded)
    return results, results[Agreement.AGREE.value] / max(1, results.total())


def main() -> None:
    """Run a load and print the share of agreement."""
    given = sys.argv[1:4]
    pods, seed, rate = (int(text) for text in (*given, *("5000", "0", str(RATE))[len(given) :]))
    recorded = play(pods, seed, rate)
    results, share = agreement(recorded)
    for one in recorded:
        if one.result is not Agreement.AGREE:
            line = [one.pod, one.result.value, one.theirs.node, one.ours.node, one.difference]
            line += [one.theirs.victims, one.ours.victims, one.cause or "no cause is known"]
            print(*line)  # noqa: T201 - a command
    print(f"{share:.2%} of {results.total()} comparisons agree: {dict(results)}")  # noqa: T201


if __name__ == "__main__":
    main()
