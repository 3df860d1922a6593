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
from typing import Any, Final

from msgspec.structs import replace

from policy_sched.client.memory import MemoryClient
from policy_sched.framework.extender import NamedVictims, NodeVictims, Passed, Skips
from policy_sched.model.cluster_objects import Namespace, Node, PodDisruptionBudget
from policy_sched.model.meta import ApiObject, LabelSelector, ObjectMeta
from policy_sched.model.pod import Pod
from policy_sched.model.pod_info import PodInfo, running_form
from policy_sched.model.resource import ResourceClaim
from policy_sched.profiles.build.pipeline import CompiledPlan
from policy_sched.queue.backoff import SECOND
from policy_sched.scheduler import event_handlers
from policy_sched.scheduler.attempt import Attempt, Bind, Decision, Preempt, Reject
from policy_sched.scheduler.pod_group_cycle import GroupDecision
from policy_sched.scheduler.scheduler import Outcome, Scheduler
from policy_sched.scheduler.setup.factory import EPOCH, assemble, read
from policy_sched.testing import FakeClock, make_node, make_pod
from tests.plugins.dynamicresources.world import (
    device_class,
    exactly,
    resource_claim,
    resource_slice,
)
from tests.scheduler.pod_groups import GANG, member, pod_group

Plain = dict[str, Any]
STEPS: Final = 250
ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
GPU: Final = "example.com/gpu"
APPS: Final = ("a", "b", "c")
NAMESPACES: Final = ("default", "prod", "dev")

FILTERS: Final = (
    "node.podCount < 6",
    "pod.labels[?'app'].orValue('') != 'c' || node.labels[?'disk'].orValue('') == 'ssd'",
    "node.pods.filter(p, p.labels[?'app'] == pod.labels[?'app']).size() < 3",
    "node.free['cpu'] >= pod.requests['cpu'] || node.podCount == 0",
    "namespaceObject.labels[?'env'].orValue('dev') == 'dev' || node.ready",
    "cluster.pods.filter(p, p.namespace == pod.namespace).size() < 40",
    f"domain('{ZONE}').podCount < 30",
    "pod.images.all(i, i in node.images) || node.podCount < 3",
    "pod.priority > 5 || node.annotations[?'tier'].orValue('low') == 'low'",
    "!pod.hostNetwork || node.usedPorts.size() == 0",
    "cycle.attempt > 1 || node.podCount % 5 != 4",
    f"domain('{ZONE}').pods.exists(p, p.priority > 100) == false",
)
SCORES: Final = (
    ("node.podCount * 7 % 13", "MaxReverse"),
    ("clamp(100 - 5 * node.podCount, 0, 100)", ""),
    ("percent(node.requested['cpu'] + pod.requests['cpu'], node.allocatable['cpu'])", ""),
    ("node.pods.filter(p, p.namespace == pod.namespace).size()", "Max"),
    ("double(node.podCount) / 3.0", "MinMax"),
    (f"domain('{ZONE}').podCount", "MaxReverse"),
    ("cluster.podCount % 7 + node.podCount", "Max"),
    ("node.labels[?'disk'].orValue('') == 'ssd' ? 80 : 20", ""),
    ("node.taints.filter(t, !pod.tolerates(t)).size()", "MaxReverse"),
    ("now.getSeconds() + node.podCount", "MinMaxReverse"),
    ("node.pods.filter(p, p.priority > 3).size()", "MinMax"),
)
OTHERS: Final = (
    "permit: {allow: 'node.podCount < 9', timeout: 'duration(\"5s\")'}",
    "preemption: {victim: 'victim.priority < pod.priority && victim.name != \"p7\"'}",
    "preemption: {nodeOrder: [{expression: victims.size()}, {expression: node.podCount}]}",
    "reserve: {expression: node.podCount < 11}",
)
PROFILES: Final[tuple[Plain, ...]] = (
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
        enabled = [{"name": f"P{i}", "weight": WEIGHTS[i % 3]} for i in range(len(texts))]
        config: Plain = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [_profile(number, enabled) for number in profiles],
        }
        files = [folder] if texts else []
        return read(config, files, feature_gates=GANG if gang else None)[0]


def _profile(number: int, enabled: list[Plain]) -> Plain:
    profile = PROFILES[number]
    plugins = profile.get("plugins", {})
    points = {**plugins, "multiPoint": {**plugins.get("multiPoint", {}), "enabled": enabled}}
    return {**profile, "schedulerName": f"s{number}", "plugins": points}


def policy(random: Random, number: int) -> str:
    """Return a policy with some of the sections above."""
    lines = []
    if random.random() < 0.6:
        rules = random.sample(FILTERS, random.choice((1, 1, 2)))
        lines.append("filter:")
        lines += [f'- {{expression: "{one}", message: rule {i}}}' for i, one in enumerate(rules)]
    if random.random() < 0.7:
        expression, normalize = random.choice(SCORES)
        last = f", normalize: {normalize}" if normalize else ""
        lines.append(f'score: {{expression: "{expression}"{last}}}')
    if random.random() < 0.2:
        lines.append(random.choice(OTHERS))
    lines = lines or ["filter:", '- {expression: "node.ready", message: not ready}']
    body = "\n  ".join(lines)
    limit = 'annotations: {policysched.dev/cost-limit: "20000"}'
    head = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\n"
    return f"{head}metadata: {{name: P{number}, {limit}}}\nspec:\n  {body}\n"


class Shelf:
    """An extender that leaves out nodes by the pod's name, and scores by the node's."""

    skips = Skips()
    name = "http://extender.test"
    ignorable = False
    weight = 2
    filters = prioritizes = True
    preempts = binds = False

    def interested(self, pod: PodInfo) -> bool:
        return len(pod.labels) % 2 == 1

    def filter(self, pod: PodInfo, nodes: Sequence[Node]) -> Passed:
        names = [node.metadata.name for node in nodes]
        failed = {name: "shelf is full" for name in names if (len(name) + len(pod.name)) % 5 == 0}
        return Passed(frozenset(names) - failed.keys(), failed, {})

    def prioritize(self, pod: PodInfo, nodes: Sequence[Node]) -> Sequence[tuple[str, int]]:
        return [(node.metadata.name, sum(map(ord, node.metadata.name)) % 11) for node in nodes]

    def preempt(
        self, pod: PodInfo, victims: Mapping[str, NodeVictims]
    ) -> Mapping[str, NamedVictims]:
        raise NotImplementedError

    def bind(self, pod: PodInfo, node: str) -> None:
        raise NotImplementedError

    def close(self) -> None:
        return


def extend(scheduler: Scheduler) -> None:
    """Give all profiles of a scheduler an extender."""
    profiles = scheduler.profiles.items()
    scheduler.profiles = {name: replace(one, extenders=(Shelf(),)) for name, one in profiles}


def constraint(random: Random, app: str) -> Plain:
    """Return what a pod asks of its neighbours: affinity and spreading, required or preferred."""
    selector = {"matchLabels": {"app": app}}
    key = random.choice((HOST, ZONE))
    term: Plain = {"labelSelector": selector, "topologyKey": key}
    if random.random() < 0.3:
        term["namespaceSelector"] = {} if random.random() < 0.5 else {"matchLabels": {"env": "dev"}}
    weighted = [{"weight": random.randrange(1, 101), "podAffinityTerm": term}]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    spread = {"maxSkew": random.choice((1, 2)), "topologyKey": key, "labelSelector": selector}
    hard = {**spread, "whenUnsatisfiable": "DoNotSchedule"}
    soft = {**spread, "whenUnsatisfiable": "ScheduleAnyway"}
    return random.choice(
        (
            {"affinity": {"podAntiAffinity": {required: [term]}}},
            {"affinity": {"podAffinity": {required: [term]}}},
            {"affinity": {"podAffinity": {preferred: weighted}}},
            {"affinity": {"podAntiAffinity": {preferred: weighted}}},
            {"topology_spread_constraints": [hard]},
            {"topology_spread_constraints": [soft]},
            {"topology_spread_constraints": [hard, {**soft, "topologyKey": ZONE}]},
            {
                "affinity": {"podAntiAffinity": {preferred: weighted}},
                "topology_spread_constraints": [hard],
            },
        )
    )


def pod_form(random: Random, schedulers: Sequence[str]) -> Plain:
    """Return the arguments of `make_pod` for pods of one form."""
    app = random.choice(APPS)
    form: Plain = {
        "labels": {"app": app},
        "namespace": random.choice(NAMESPACES),
        "cpu": random.choice(("100m", "500m", "1", "2")),
        "memory": random.choice(("64Mi", "512Mi", "2Gi")),
        "priority": random.choice((0, 0, 0, 10, 1000)),
        "scheduler_name": random.choice(schedulers),
    }
    chance = random.random
    if chance() < 0.5:
        form |= constraint(random, app if chance() < 0.8 else random.choice(APPS))
    if chance() < 0.2:
        form["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    if chance() < 0.15:
        form["node_selector"] = {"disk": random.choice(("ssd", "hdd"))}
    if chance() < 0.15:
        form["host_ports"] = [random.choice((80, 8080))]
    if chance() < 0.2:
        form["images"] = [random.choice(("app:1", "app:2"))]
    if chance() < 0.15:
        form["requests"] = {GPU: "1"}
    if chance() < 0.1:
        form["labels"]["extra"] = "yes"
    if chance() < 0.05:
        form["preemption_policy"] = "Never"
    return form


def node(random: Random, number: int) -> Node:
    """Return the node with this number in a random state."""
    labels = {HOST: f"n{number}", ZONE: f"z{number % 3}"}
    if random.random() < 0.7:
        labels["disk"] = random.choice(("ssd", "hdd"))
    taints = []
    if random.random() < 0.15:
        effect = random.choice(("NoSchedule", "PreferNoSchedule", "NoExecute"))
        taints.append(f"dedicated=x:{effect}")
    return make_node(
        f"n{number}",
        cpu=str(random.choice((2, 4, 8))),
        memory=random.choice(("4Gi", "16Gi")),
        pods=random.choice((4, 8, 110)),
        resources={GPU: random.choice(("0", "1", "4"))} if random.random() < 0.4 else {},
        labels=labels,
        annotations={"tier": random.choice(("low", "high"))} if random.random() < 0.3 else {},
        taints=taints,
        unschedulable=random.random() < 0.05,
        ready=random.random() < 0.9,
        images={"app:1": 400 * 2**20} if random.random() < 0.5 else {},
    )


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
    """A cluster that two schedulers see; `play` goes on until they differ, or to the end."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.clock = FakeClock(EPOCH)
        self.groups = random.random() < 0.15
        self.claims = random.random() < 0.15
        numbers = tuple(sorted(random.sample(range(len(PROFILES)), random.choice((1, 1, 2)))))
        texts = tuple(policy(random, number) for number in range(random.choice((0, 1, 1, 2, 3))))
        self.plans = compiled(texts, numbers, self.groups)
        self.extended = random.random() < 0.1
        self.restarts = Random(seed)
        warm = random.choice((0, 0, 50))
        self.sides = [
            Side(assemble(self.plans, seed=seed, now=self.clock, cached=cached, fuse_after=warm))
            for cached in (True, False)
        ]
        for side in self.sides if self.extended else ():
            extend(side.scheduler)
        schedulers = [f"s{number}" for number in numbers]
        count = random.choice((1, 2, 2, 4, 30))
        self.forms = [pod_form(random, schedulers) for _ in range(count)]
        self.nodes: dict[int, Node] = {}
        self.running: dict[str, Pod] = {}
        self.leaving: list[str] = []
        self.made = self.step = 0
        self.started = EPOCH
        for number in range(random.choice((4, 12, 40, 120))):
            self._node(number)
        for name in NAMESPACES:
            self._namespace(name)
        if self.claims:
            self._objects(device_class())
            for number in self.nodes:
                if number % 2 == 0:
                    devices = [f"gpu-{i}" for i in range(random.choice((1, 4)))]
                    self._objects(resource_slice(f"n{number}", devices))

    # What happens to the cluster; both schedulers see it.

    def _node(self, number: int) -> None:
        self.nodes[number] = made = node(self.random, number)
        for side in self.sides:
            event_handlers.node_seen(side.scheduler, made)

    def _node_gone(self, number: int) -> None:
        gone = self.nodes.pop(number)
        for side in self.sides:
            event_handlers.node_gone(side.scheduler, gone)

    def _objects(self, *objects: ApiObject) -> None:
        for one in objects:
            for side in self.sides:
                event_handlers.object_seen(side.scheduler, None, one)

    def _namespace(self, name: str) -> None:
        labels = {"env": self.random.choice(("dev", "prod"))}
        self._objects(Namespace(metadata=ObjectMeta(name=name, labels=labels)))

    def _budget(self) -> None:
        app = self.random.choice(APPS)
        budget = PodDisruptionBudget(
            metadata=ObjectMeta(name=f"b-{app}", namespace=self.random.choice(NAMESPACES))
        )
        budget.spec.selector = LabelSelector(match_labels={"app": app})
        budget.status.disruptions_allowed = self.random.choice((0, 1, 5))
        self._objects(budget)

    def _arrives(self) -> None:
        """A pod comes; now and then it is nominated already, or has a claim, or a group."""
        self.made += 1
        name = f"p{self.made}"
        form = dict(self.random.choice(self.forms))
        if self.nodes and self.random.random() < 0.05:
            form["nominated_node_name"] = f"n{self.random.choice(list(self.nodes))}"
        if self.claims and self.random.random() < 0.4:
            count = self.random.choice((1, 1, 2))
            self._objects(resource_claim(f"claim-{name}", exactly("r", count)))
            claims = [{"name": "c", "resourceClaimName": f"claim-{name}"}]
            form |= {"resource_claims": claims, "namespace": "default"}
        if self.groups and self.random.random() < 0.3:
            self._gang(form)
            return
        self._seen(make_pod(name, **form))

    def _gang(self, form: Plain) -> None:
        """A group and its pods come."""
        size, group = self.random.choice((2, 3, 5)), f"g{self.made}"
        self._objects(pod_group(group, size))
        form = {**form, "namespace": "default"}
        form.pop("nominated_node_name", None)
        for index in range(size):
            self._seen(member(f"{group}-{index}", group, **form).pod)

    def _seen(self, pod: Pod) -> None:
        self.clock.ns += 1
        for side in self.sides:
            event_handlers.pod_seen(side.scheduler, PodInfo.of(pod))

    def _gone(self, uid: str) -> None:
        pod = self.running.pop(uid, None)
        if pod is None:
            return
        for side in self.sides:
            event_handlers.pod_gone(side.scheduler, PodInfo.of(pod))

    def _relabelled(self) -> None:
        """A running pod's labels change."""
        uid = self.random.choice(list(self.running))
        pod = self.running[uid]
        labels = {**pod.metadata.labels, "app": self.random.choice(APPS)}
        changed = replace(pod, metadata=replace(pod.metadata, labels=labels))
        self.running[uid] = changed
        self._seen(changed)

    # What the schedulers do.

    def _schedule(self, most: int) -> None:
        """Both do what is due, and decide as many pods as they can, ``most`` at a time."""
        for _ in range(most):
            outcomes = []
            for side in self.sides:
                ended = side.scheduler.run_due()
                side.said = [observed(one) for one in ended]
                outcome = self._one(side)
                said = ended if outcome is None else [*ended, outcome, *outcome.others]
                side.said += [observed(one) for one in said[len(ended) :]]
                outcomes.append(said)
            assert self.sides[0].said == self.sides[1].said
            self._confirm(outcomes[0])
            if not outcomes[0]:
                break

    def _one(self, side: Side) -> Outcome | None:
        """Schedule a pod; now and then a scheduler that has just started decides it, too."""
        scheduler = side.scheduler
        attempt = scheduler.pop()
        if attempt is None:
            return None
        expected = None
        if side is self.sides[0] and self._may_restart(attempt):
            started = self._fresh(scheduler)
            again = Attempt(attempt.queued, started.profiles[attempt.queued.info.scheduler_name])
            expected = by_name(started.choose(again), started)
        decision = scheduler.choose(attempt)
        # Now: what is kept may have changed when a pod that waits is bound.
        side.said.append(by_name(decision, scheduler))
        assert expected is None or side.said[-1] == expected
        return scheduler.execute(attempt, decision)

    def _may_restart(self, attempt: Attempt) -> bool:
        """Return whether a new scheduler would know all that this decision reads."""
        pod, scheduler = attempt.queued.info, self.sides[0].scheduler
        held = pod.pod_group or scheduler.handle.waiting_pods.pods
        turns = pod.scheduler_name == TAKES_TURNS
        return self.restarts.random() < 0.1 and not held and not turns

    def _fresh(self, scheduler: Scheduler) -> Scheduler:
        """Return a scheduler that has read the cluster just now, in the same order."""
        cache, handle = scheduler.cache, scheduler.handle
        ties = Random()
        ties.setstate(scheduler._rng.getstate())
        started = assemble(self.plans, now=self.clock, cached=False, ties=ties)
        for one in (*cache.nodes.namespaces.values(), *handle.objects.every()):
            event_handlers.object_seen(started, None, one)
        for made in cache.nodes.nodes:
            if made is not None:
                event_handlers.node_seen(started, made)
        for info in cache.pods.infos:
            if info is not None and (name := cache.node_of(info.uid)):
                spec = replace(info.pod.spec, node_name=name)  # an assumed pod names none yet
                event_handlers.pod_seen(started, PodInfo.of(replace(info.pod, spec=spec)))
        for name, pods in handle.nominator.nominated():
            for pod in pods:
                started.handle.nominator.nominate(pod, name)
        if self.extended:
            extend(started)
        return started

    def _confirm(self, outcomes: Sequence[Outcome]) -> None:
        """The cluster binds pods, and evicted ones begin to leave."""
        for outcome in outcomes:
            if outcome.node and not outcome.waiting:
                self.started += SECOND
                bound = running_form(outcome.pod.pod, outcome.node, self.started)
                self.running[bound.metadata.uid] = bound
                self._seen(bound)
        deleted = self.sides[0].client.deleted
        assert deleted == self.sides[1].client.deleted
        for uid in deleted:
            if uid in self.running and uid not in self.leaving:
                self.leaving.append(uid)
        for side in self.sides:
            side.client.deleted.clear()
            side.client.events.clear()

    def play(self, steps: int = STEPS) -> None:
        """Play a history. Raises AssertionError where the two schedulers differ."""
        for self.step in range(steps):
            self._step()
            self._same_notes()

    def _step(self) -> None:
        random = self.random
        chance = random.random()
        if chance < 0.14 and self.running:
            for _ in range(random.choice((1, 1, 3, 12))):
                if self.running:
                    self._gone(random.choice(list(self.running)))
        elif chance < 0.22:
            self._node(random.choice(list(self.nodes)) if self.nodes else 0)
        elif chance < 0.24:
            self._node(max(self.nodes, default=-1) + 1)
        elif chance < 0.25 and len(self.nodes) > 2:
            self._node_gone(random.choice(list(self.nodes)))
        elif chance < 0.27 and self.running:
            self._relabelled()
        elif chance < 0.28:
            self._namespace(random.choice(NAMESPACES))
        elif chance < 0.29:
            self._budget()
        elif chance < 0.36:
            self.clock.ns += random.choice((1, 2, 11, 301)) * SECOND
        elif chance < 0.42 and self.leaving:
            self._gone(self.leaving.pop(0))
        else:
            for _ in range(random.choice((1, 1, 1, 5))):
                self._arrives()
        self._schedule(random.choice((1, 3, 20)))

    def _same_notes(self) -> None:
        """Both clients have been told the same, and the claims are the same."""
        one, other = (side.client for side in self.sides)
        assert one.conditions == other.conditions
        assert one.nominations == other.nominations
        assert one.group_conditions == other.group_conditions
        if self.claims:
            first, second = (
                [allocated(claim) for claim in side.scheduler.handle.objects.of(ResourceClaim)]
                for side in self.sides
            )
            assert first == second


def allocated(claim: ResourceClaim) -> object:
    """Return what a claim holds, without the time at which it was allocated."""
    allocation, name = claim.status.allocation, claim.metadata.name
    devices = None if allocation is None else allocation.devices
    return name, devices, claim.status.reserved_for


def by_name(decision: Decision | GroupDecision | None, scheduler: Scheduler) -> object:
    """Return a decision with the names of nodes in place of their rows."""
    names = scheduler.cache.nodes.names
    if isinstance(decision, Bind):
        scoring, rows = decision.evaluation.scoring, decision.evaluation.filtering.feasible_rows()
        total = [] if scoring is None else scoring.total[rows].tolist()
        feasible = [names[row] for row in rows.tolist()]
        return decision.node, dict(zip(feasible, total, strict=scoring is not None))
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
