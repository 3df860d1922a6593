"""Random histories of a cluster, played by two schedulers at once.

One keeps results from the first pod on, the other evaluates every pod from scratch; both have the
same seed. After each step both must have said the same: node, scores, reasons, victims,
nominations. Nothing here knows what is kept, nor how it is brought up to date.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Final
from zlib import crc32

from msgspec.structs import replace

from policy_sched.client.memory import MemoryClient
from policy_sched.framework import extender
from policy_sched.model.cluster_objects import Node
from policy_sched.model.meta import ApiObject
from policy_sched.model.pod import Pod
from policy_sched.model.pod_info import PodInfo, running_form
from policy_sched.model.resource import ResourceClaim
from policy_sched.model.storage import PersistentVolume, PersistentVolumeClaim
from policy_sched.profiles.build.pipeline import CompiledPlan
from policy_sched.queue.backoff import SECOND
from policy_sched.scheduler import event_handlers
from policy_sched.scheduler.attempt import Attempt, Bind, Decision, Preempt, Reject
from policy_sched.scheduler.pod_group_cycle import GroupDecision
from policy_sched.scheduler.scheduler import Outcome, Scheduler
from policy_sched.scheduler.setup.factory import EPOCH, assemble, read
from policy_sched.testing import FakeClock, make_pod
from tests.plugins.dynamicresources import world
from tests.scheduler import random_objects
from tests.scheduler.pod_groups import GANG, member, pod_group

Name = tuple[type[ApiObject], str, str]
"""A kind, a namespace, a name."""

STEPS: Final = 250
SEEDS: Final = 60
"""So many histories judge all that is kept."""
PROFILES: Final[tuple[random_objects.Plain, ...]] = (
    {},
    {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {
        "type": "MostAllocated", "resources": [{"name": "cpu", "weight": 3}]}}}]},
    {"plugins": {"multiPoint": {"disabled": [{"name": "InterPodAffinity"}]}}},
    {"plugins": {"score": {"disabled": [{"name": "*"}]}}},
    {"percentageOfNodesToScore": 100},
)  # fmt: skip
WEIGHTS: Final = (1, 2, 100)
TAKES_TURNS: Final = "s3"
"""Without scores the search begins where the one before it ended, which a new scheduler forgets."""


@lru_cache(maxsize=256)
def compiled(
    texts: tuple[str, ...], profiles: tuple[int, ...], gang: bool
) -> tuple[CompiledPlan, ...]:
    """Return the plans of policies, of which each profile enables all."""
    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate(texts):
            Path(folder, f"{number}.yaml").write_text(text, encoding="utf-8")
        Path(folder, "inputs.json").write_text(random_objects.INPUT_SCHEMA, encoding="utf-8")
        enabled = [{"name": f"P{i}", "weight": WEIGHTS[i % 3]} for i in range(len(texts))]
        config: random_objects.Plain = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [_profile(number, enabled) for number in profiles],
        }
        files = [folder] if texts else []
        return read(config, files, feature_gates=GANG if gang else None)[0]


def _profile(number: int, enabled: list[random_objects.Plain]) -> random_objects.Plain:
    profile = PROFILES[number]
    plugins = profile.get("plugins", {})
    points = {**plugins, "multiPoint": {**plugins.get("multiPoint", {}), "enabled": enabled}}
    return {**profile, "schedulerName": f"s{number}", "plugins": points}


class Shelf:
    """An extender that leaves out nodes by the pod's name, and scores by the node's."""

    skips = extender.Skips()
    name = "http://extender.test"
    ignorable = False
    weight = 2
    filters = prioritizes = True
    preempts = binds = False

    def interested(self, pod: PodInfo) -> bool:
        return len(pod.labels) % 2 == 1

    def filter(self, pod: PodInfo, nodes: Sequence[Node]) -> extender.Passed:
        names = [node.metadata.name for node in nodes]
        failed = {name: "shelf is full" for name in names if (len(name) + len(pod.name)) % 5 == 0}
        return extender.Passed(frozenset(names) - failed.keys(), failed, {})

    def prioritize(self, pod: PodInfo, nodes: Sequence[Node]) -> Sequence[tuple[str, int]]:
        return [(node.metadata.name, sum(map(ord, node.metadata.name)) % 11) for node in nodes]

    def preempt(
        self, pod: PodInfo, victims: Mapping[str, extender.NodeVictims]
    ) -> Mapping[str, extender.NamedVictims]:
        raise NotImplementedError

    def bind(self, pod: PodInfo, node: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        return


def extend(scheduler: Scheduler) -> None:
    """Give all profiles of a scheduler an extender."""
    profiles = scheduler.profiles.items()
    scheduler.profiles = {
        name: replace(profile, extenders=(Shelf(),)) for name, profile in profiles
    }


@dataclass(frozen=True)
class Shape:
    """What a history is like: how large its cluster is, how alike its pods are, what happens."""

    nodes: tuple[int, ...]
    forms: tuple[int, ...]
    arrivals: tuple[int, ...]
    """How many pods come at once, one of these."""
    departures: tuple[int, ...]
    pending: int
    """If more pods wait, the oldest ones are deleted."""
    changes: float
    """The share of steps in which neither pods come nor go."""
    small: bool = False
    """Whether pods request little, so that nearly all of them are placed."""
    restarts: float = 0.02
    """The share of decisions that a scheduler makes again that has just started."""
    things: float = 0.0
    """How likely each of claims, groups, volumes and an extender is."""


SHAPES: Final = (
    Shape((6, 40, 120, 300), (1, 1, 2), (4, 9), (4, 9), 4, 0.06, small=True, restarts=0.003),
    Shape((4, 12, 40, 120), (1, 2, 4, 30), (1, 1, 5), (1, 1, 3, 12), 12, 0.3),
    Shape((6, 40, 120), (1, 2), (1, 4), (1, 4), 4, 0.15, small=True, restarts=0.005),
    Shape((4, 12, 24), (2, 4, 30), (1, 1, 5), (1, 1, 3), 10, 0.3, restarts=0.05, things=0.5),
)
"""Equal pods in a calm cluster; mixed ones in a full cluster; something of both; all kinds."""
CHANGES: Final[Mapping[str, int]] = {
    "_node_changes": 8,
    "_node_comes": 2,
    "_node_goes": 1,
    "_running_pod_changes": 2,
    "_pending_pod_changes": 2,
    "_pending_pod_goes": 2,
    "_namespace_changes": 1,
    "_budget_changes": 1,
    "_time_passes": 7,
    "_victim_goes": 6,
    "_storage_changes": 4,
    "_devices_change": 3,
}
"""How often what happens besides, in relation to each other."""


@dataclass
class Side:
    """One of the two schedulers, and what it has said."""

    scheduler: Scheduler
    said: list[object] = field(default_factory=list)

    @property
    def client(self) -> MemoryClient:
        client = self.scheduler.handle.client
        assert isinstance(client, MemoryClient)
        return client


class History:
    """A cluster that two schedulers see; `play` goes on until they differ, or to the end.

    ``record``: the ``checksums`` of the same history before, taken if they are a list when it
    begins. The scheduler that keeps results then plays it alone, and differs where it says
    something else than was said then.
    """

    def __init__(self, seed: int, record: Sequence[int] | None = None) -> None:
        self.record = record
        self.checksums: list[int] | None = None if record is None else []
        self.shape = shape = SHAPES[seed % len(SHAPES)]
        self.random = random = Random(seed)
        self.clock = FakeClock(EPOCH)
        chances = [random.random() < shape.things for _ in range(4)]
        self.groups, self.claims, self.volumes, self.extended = chances
        numbers = tuple(sorted(random.sample(range(len(PROFILES)), random.choice((1, 1, 2)))))
        policies = random.choice((0, 0, 1, 1, 2, 3))
        texts = tuple(random_objects.policy(random, number) for number in range(policies))
        self.of_inputs = Random(f"{seed} inputs")
        self.inputs = self.of_inputs.random() < 0.4
        if self.inputs:
            texts += (random_objects.policy_of_inputs(self.of_inputs, policies),)
        self.plans = compiled(texts, numbers, self.groups)
        self.restarts = Random(seed)
        self.sides = [
            Side(assemble(self.plans, seed=seed, now=self.clock, cached=cached))
            for cached in ((True, False) if record is None else (True,))
        ]
        for side in self.sides if self.extended else ():
            extend(side.scheduler)
        schedulers = [f"s{number}" for number in numbers]
        count = random.choice(shape.forms)
        self.forms = [
            random_objects.pod_form(random, schedulers, small=shape.small) for _ in range(count)
        ]
        self.plain = random.random() < 0.5
        self.nodes: dict[int, Node] = {}
        self.pending: dict[str, Pod] = {}
        self.running: dict[str, Pod] = {}
        self.leaving: list[str] = []
        self.owned: dict[str, list[Name]] = {}
        self.made = self.step = 0
        self.started = EPOCH
        for number in range(random.choice(shape.nodes)):
            self._node(number)
        for name in random_objects.NAMESPACES:
            self._objects(random_objects.namespace(random, name))
        if self.claims:
            self._objects(world.device_class(), *map(self._slice, list(self.nodes)[::2]))
        if self.volumes:
            self._objects(*random_objects.storage(self.names, random))

    @property
    def names(self) -> list[str]:
        """The names of all nodes."""
        return [f"n{number}" for number in self.nodes]

    def play(self, steps: int = STEPS) -> None:
        """Play a history. Raises AssertionError where the two schedulers differ."""
        random, shape = self.random, self.shape
        names, weights = list(CHANGES), list(CHANGES.values())
        for self.step in range(steps):
            if self.inputs and self.of_inputs.random() < 0.2:
                self._inputs_change()
            if random.random() < shape.changes:
                getattr(self, random.choices(names, weights)[0])()
            elif self.running and random.random() < 0.4:
                for _ in range(random.choice(shape.departures)):
                    self._running_pod_goes()
            else:
                for _ in range(random.choice(shape.arrivals)):
                    self._pod_comes()
            self._schedule(random.choice((3, 20)))
            for uid in list(self.pending)[: max(len(self.pending) - shape.pending, 0)]:
                self._gone(uid)
            self._same_notes()

    # What happens to the cluster; both schedulers see it.

    def _node(self, number: int) -> None:
        self.nodes[number] = made = random_objects.node(self.random, number, plain=self.plain)
        for side in self.sides:
            event_handlers.node_seen(side.scheduler, made)

    def _node_changes(self) -> None:
        self._node(self.random.choice(list(self.nodes)))

    def _node_comes(self) -> None:
        self._node(max(self.nodes) + 1)

    def _node_goes(self) -> None:
        if len(self.nodes) > 2:
            gone = self.nodes.pop(self.random.choice(list(self.nodes)))
            for side in self.sides:
                event_handlers.node_gone(side.scheduler, gone)

    def _objects(self, *objects: ApiObject) -> None:
        """Objects come, or change."""
        for made in objects:
            meta = made.metadata
            for side in self.sides:
                store = side.scheduler.handle.objects
                old = store.named(type(made), meta.namespace, meta.name)
                event_handlers.object_seen(side.scheduler, old, made)

    def _namespace_changes(self) -> None:
        self._objects(
            random_objects.namespace(self.random, self.random.choice(random_objects.NAMESPACES))
        )

    def _budget_changes(self) -> None:
        self._objects(random_objects.budget(self.random))

    def _time_passes(self) -> None:
        self.clock.ns += self.random.choice((1, 2, 11, 301)) * SECOND

    def _inputs_change(self) -> None:
        """An object of an input comes, changes or goes."""
        random = self.of_inputs
        made = random_objects.input_object(random, self.names)
        gone = random.random() < 0.25
        for side in self.sides:
            if gone:
                event_handlers.object_gone(side.scheduler, made)
            else:
                event_handlers.object_seen(side.scheduler, None, made)

    def _storage_changes(self) -> None:
        if self.volumes:
            random = self.random
            changed = random.choice(
                (
                    random_objects.capacity(random, random.choice(random_objects.ZONES)),
                    *self._volumes(1),
                )
            )
            self._objects(changed)

    def _volumes(self, count: int) -> list[ApiObject]:
        self.made += count
        return [random_objects.volume(self.random, self.made - i, self.names) for i in range(count)]

    def _slice(self, number: int) -> ApiObject:
        devices = [f"gpu-{i}" for i in range(self.random.choice((1, 4)))]
        return world.resource_slice(f"n{number}", devices)

    def _devices_change(self) -> None:
        if self.claims:
            self._objects(self._slice(self.random.choice(list(self.nodes))))

    def _pod_comes(self) -> None:
        """A pod comes; now and then it is nominated already, or has a claim, or a group."""
        self.made += 1
        name = f"p{self.made}"
        form = dict(self.random.choice(self.forms))
        if self.random.random() < 0.05:
            form["nominated_node_name"] = f"n{self.random.choice(list(self.nodes))}"
        owned: list[ApiObject] = []
        if self.claims and self.random.random() < 0.4:
            owned = [
                world.resource_claim(
                    f"claim-{name}", world.exactly("r", self.random.choice((1, 1, 2)))
                )
            ]
            claims = [{"name": "c", "resourceClaimName": f"claim-{name}"}]
            form |= {"resource_claims": claims, "namespace": "default"}
        elif self.volumes and self.random.random() < 0.5:
            owned = random_objects.volume_claim(
                self.random, self.made, self.names, form["namespace"]
            )
            source = {"persistentVolumeClaim": {"claimName": f"pvc-{self.made}"}}
            form["volumes"] = [{"name": "v", **source}]
        elif self.groups and self.random.random() < 0.3:
            self._gang(form)
            return
        self._objects(*owned)
        pod = make_pod(name, **form)
        self.owned[pod.metadata.uid] = [
            (type(one), one.metadata.namespace, one.metadata.name) for one in owned
        ]
        self._waits(pod)

    def _gang(self, form: random_objects.Plain) -> None:
        """A group and its pods come."""
        size, group = self.random.choice((2, 3, 5)), f"g{self.made}"
        self._objects(pod_group(group, size))
        form = {**form, "namespace": "default"}
        form.pop("nominated_node_name", None)
        for index in range(size):
            self._waits(member(f"{group}-{index}", group, **form).pod)

    def _waits(self, pod: Pod) -> None:
        self.pending[pod.metadata.uid] = pod
        self._seen(pod)

    def _seen(self, pod: Pod) -> None:
        self.clock.ns += 1
        for side in self.sides:
            event_handlers.pod_seen(side.scheduler, PodInfo.of(pod))

    def _running_pod_goes(self) -> None:
        if self.running:
            self._gone(self.random.choice(list(self.running)))

    def _pending_pod_goes(self) -> None:
        if self.pending:
            self._gone(self.random.choice(list(self.pending)))

    def _victim_goes(self) -> None:
        if self.leaving:
            self._gone(self.leaving.pop(0))

    def _gone(self, uid: str) -> None:
        """A pod is deleted, and mostly what belongs to it."""
        pod = self.running.pop(uid, None) or self.pending.pop(uid, None)
        if pod is None:
            return
        for side in self.sides:
            event_handlers.pod_gone(side.scheduler, PodInfo.of(pod))
        owned = self.owned.pop(uid, ())
        for name in owned if self.random.random() < 0.8 else ():
            for side in self.sides:
                old = side.scheduler.handle.objects.named(*name)
                if old is not None:
                    event_handlers.object_gone(side.scheduler, old)

    def _running_pod_changes(self) -> None:
        self._relabel(self.running)

    def _pending_pod_changes(self) -> None:
        self._relabel(self.pending)

    def _relabel(self, pods: dict[str, Pod]) -> None:
        """A pod's labels change."""
        if pods:
            uid = self.random.choice(list(pods))
            pod = pods[uid]
            labels = {**pod.metadata.labels, "app": self.random.choice(random_objects.APPS)}
            pods[uid] = replace(pod, metadata=replace(pod.metadata, labels=labels))
            self._seen(pods[uid])

    # What the schedulers do.

    def _schedule(self, most: int) -> None:
        """Both do what is due, and decide as many pods as they can, ``most`` at a time."""
        for _ in range(most):
            outcomes = []
            for side in self.sides:
                ended = side.scheduler.run_due()
                side.said = [observed(outcome) for outcome in ended]
                outcome = self._one(side)
                said = ended if outcome is None else [*ended, outcome, *outcome.others]
                side.said += [observed(outcome) for outcome in said[len(ended) :]]
                outcomes.append(said)
            self._compare()
            self._confirm(outcomes[0])
            if not outcomes[0]:
                break

    def _compare(self) -> None:
        first, *others = self.sides
        for other in others:
            assert first.said == other.said
        if self.checksums is not None:
            self.checksums.append(crc32(repr(first.said).encode()))
            if self.record is not None:
                assert self.checksums[-1] == self.record[len(self.checksums) - 1]

    def _one(self, side: Side) -> Outcome | None:
        """Schedule a pod; now and then a scheduler that has just started decides it, too."""
        scheduler = side.scheduler
        attempt = scheduler.pop()
        if attempt is None:
            return None
        expected = None
        if side is self.sides[0] and self.record is None and self._may_restart(attempt):
            started = self._fresh(scheduler)
            again = Attempt(attempt.queued, started.profiles[attempt.queued.info.scheduler_name])
            expected = decided(started.choose(again), started)
        decision = scheduler.choose(attempt)
        # Now: what is kept may have changed when a pod that waits is bound.
        side.said.append(decided(decision, scheduler))
        assert expected is None or side.said[-1] == expected
        return scheduler.execute(attempt, decision)

    def _may_restart(self, attempt: Attempt) -> bool:
        """Return whether a new scheduler would know all that this decision reads."""
        pod, scheduler = attempt.queued.info, self.sides[0].scheduler
        held = pod.pod_group or scheduler.handle.waiting_pods.pods
        turns = pod.scheduler_name == TAKES_TURNS
        return self.restarts.random() < self.shape.restarts and not held and not turns

    def _fresh(self, scheduler: Scheduler) -> Scheduler:
        """Return a scheduler that has read the cluster just now, in the same order."""
        cache, handle = scheduler.cache, scheduler.handle
        ties = Random()
        ties.setstate(scheduler._rng.getstate())
        started = assemble(self.plans, now=self.clock, cached=False, ties=ties)
        for made in (*cache.nodes.namespaces.values(), *handle.objects.every()):
            event_handlers.object_seen(started, None, made)
        for live in cache.nodes.nodes:
            if live is not None:
                event_handlers.node_seen(started, live)
        for info in cache.pods.infos:
            if info is not None and (name := cache.node_of(info.uid)):
                spec = replace(info.pod.spec, node_name=name)  # an assumed pod names none yet
                event_handlers.pod_seen(started, PodInfo.of(replace(info.pod, spec=spec)))
        for name, pods in handle.nominator.nominated():
            for pod in pods:
                started.handle.nominator.nominate(pod, name)
        started.handle.nodes.aggregates.join_queue(scheduler.queue.by_uid, lambda: None)
        if self.extended:
            extend(started)
        return started

    def _confirm(self, outcomes: Sequence[Outcome]) -> None:
        """The cluster binds pods, and evicted ones begin to leave."""
        for outcome in outcomes:
            if outcome.node and not outcome.waiting:
                self.started += SECOND
                bound = running_form(outcome.pod.pod, outcome.node, self.started)
                self.pending.pop(bound.metadata.uid, None)
                self.running[bound.metadata.uid] = bound
                self._seen(bound)
        deleted = self.sides[0].client.deleted
        for side in self.sides[1:]:
            assert deleted == side.client.deleted
        for uid in deleted:
            if uid in self.running and uid not in self.leaving:
                self.leaving.append(uid)
        for side in self.sides:
            side.client.deleted.clear()
            side.client.events.clear()

    def _same_notes(self) -> None:
        """Both clients have been told the same, and what pods hold is the same."""
        first, *others = self.sides
        for other in others:
            assert first.client.conditions == other.client.conditions
            assert first.client.nominations == other.client.nominations
            assert first.client.group_conditions == other.client.group_conditions
            for kind in (ResourceClaim, PersistentVolume, PersistentVolumeClaim):
                assert held(first, kind) == held(other, kind)


def held(side: Side, kind: type[ApiObject]) -> list[object]:
    """Return what claims and volumes hold, without the time at which devices were allocated."""
    values: list[object] = []
    for made in side.scheduler.handle.objects.of(kind):
        if isinstance(made, ResourceClaim):
            allocation = made.status.allocation
            devices = None if allocation is None else allocation.devices.results
            values.append((made.metadata.name, devices, made.status.reserved_for))
        else:
            values.append((made.metadata.name, made.spec))
    return values


def decided(decision: Decision | GroupDecision | None, scheduler: Scheduler) -> object:
    """Return a decision with the names of nodes in place of their rows."""
    names = scheduler.cache.nodes.names
    if isinstance(decision, Bind):
        scoring, rows = decision.evaluation.scoring, decision.evaluation.filtering.feasible_rows()
        total = None if scoring is None else scoring.total[rows].tolist()
        return decision.node, [names[row] for row in rows.tolist()], total
    if isinstance(decision, Preempt | Reject):
        diagnosis = decision.diagnosis
        statuses = {} if diagnosis is None else dict(diagnosis.statuses)
        reasons = {names[row]: status for row, status in statuses.items()}
        chosen: tuple[object, ...] = ()
        if isinstance(decision, Preempt):
            chosen = decision.node, [victim.uid for victim in decision.victims]
        return decision.message, reasons, chosen
    return None


def observed(outcome: Outcome) -> object:
    """Return what became of a pod."""
    return outcome.pod.key, outcome.node, outcome.message, outcome.status, outcome.waiting
