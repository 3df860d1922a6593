"""Policies and objects of a cluster, drawn at random, for the histories of `histories`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any, Final

from policy_sched.model.cluster_objects import Namespace, Node, PodDisruptionBudget
from policy_sched.model.meta import ApiObject, CustomObject, LabelSelector, ObjectMeta, datetime_of
from policy_sched.testing import make_node
from tests.plugins.volumes import world

Plain = dict[str, Any]
ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
GPU: Final = "example.com/gpu"
APPS: Final = ("a", "b", "c")
NAMESPACES: Final = ("default", "prod", "dev")
ZONES: Final = ("z0", "z1", "z2")
DRIVER: Final = "csi.example"

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
    "node.podCount % 4 != 3",
    "node.pods.size() < cluster.podCount / cluster.nodeCount + 3",
    "node.taints.all(t, pod.tolerates(t)) || node.free['memory'] > pod.requests['memory'] * 4",
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
    ("pod.priority > 5 ? 7 : node.podCount * 11 % 17", ""),
    ("pod.labels[?'app'].orValue('') == 'a' ? 40 : node.podCount * 11 % 17", ""),
    ("pod.namespace == 'default' ? min(node.podCount, 50) : 30", ""),
    ("node.podCount * 5 % 11", "MinMax"),
    ("min(node.podCount, 3)", "MinMax"),
    ("node.free['cpu'] >= pod.requests['cpu'] * 2 ? 60 : 30", "MaxReverse"),
    ("node.podCount % 3 == 0 ? 50 : 49", ""),
)
AGGREGATES: Final = f"""aggregates:
  - {{name: used, by: pod.namespace, sum: pod.requests}}
  - {{name: promised, of: [nominated], by: node.name, count: true}}
  - {{name: labelled, of: [bound, nominated], by: 'pod.labels[?"app"].orValue("")', count: true}}
  - {{name: cores, by: node.name, where: pod.priority < 500, sum: 'pod.requests["cpu"]'}}
  - {{name: zones, by: [pod.namespace, 'node.labels[?"{ZONE}"].orValue("")'], count: true}}
  - {{name: first, by: node.name, max: pod.priority}}
  - {{name: images, by: node.name, union: pod.images}}
  - {{name: waiting, of: [queued], by: pod.namespace, sum: pod.requests}}
  - {{name: tried, of: [queued, gated], by: pod.namespace, max: queue.attempts}}"""
COUNTED_FILTERS: Final = (
    "aggregates.used[pod.namespace]['cpu'] + pod.requests['cpu'] <= quantity('30')",
    "aggregates.promised[node.name] < 2",
    "aggregates.labelled[pod.labels[?'app'].orValue('')] < 25 || node.podCount < 2",
    "aggregates.cores[node.name] < quantity('3')",
    f"aggregates.zones[[pod.namespace, node.labels[?'{ZONE}'].orValue('')]] < 9",
    "aggregates.used.total['memory'] < quantity('100Gi')",
    "aggregates.waiting[pod.namespace]['cpu'] < quantity('9') || node.podCount < 3",
)
COUNTED_SCORES: Final = (
    ("aggregates.cores[node.name].units()", "MinMaxReverse"),
    ("aggregates.promised[node.name] + aggregates.labelled.total % 7", "Max"),
    ("aggregates.first[node.name]", "MinMax"),
    ("aggregates.tried[pod.namespace] * node.podCount % 5", "MinMax"),
    ("aggregates.images[node.name].size()", "Max"),
    (f"aggregates.zones[[pod.namespace, node.labels[?'{ZONE}'].orValue('')]]", "MaxReverse"),
)
OTHERS: Final = (
    "permit: {allow: 'node.podCount < 9', timeout: 'duration(\"5s\")'}",
    "preemption: {victim: 'victim.priority < pod.priority && victim.name != \"p7\"'}",
    "preemption: {nodeOrder: [{expression: victims.size()}, {expression: node.podCount}]}",
    "reserve: {expression: node.podCount < 11}",
)


def policy(random: Random, number: int) -> str:
    """Return a policy with some of the sections above."""
    lines, counts = [], random.random() < 0.35
    filters = COUNTED_FILTERS if counts else FILTERS
    scores = COUNTED_SCORES if counts else SCORES
    if counts:
        lines.append(AGGREGATES)
    if counts or random.random() < 0.6:
        rules = random.sample(filters, random.choice((1, 1, 2)))
        lines.append("filter:")
        lines += [f'- {{expression: "{rule}", message: rule {i}}}' for i, rule in enumerate(rules)]
    if random.random() < 0.7:
        expression, normalize = random.choice(scores)
        last = f", normalize: {normalize}" if normalize else ""
        lines.append(f'score: {{expression: "{expression}"{last}}}')
    if random.random() < 0.2:
        lines.append(random.choice(OTHERS))
    lines = lines or ["filter:", '- {expression: "node.ready", message: not ready}']
    body = "\n  ".join(lines)
    limit = 'annotations: {policysched.dev/cost-limit: "20000"}'
    head = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\n"
    return f"{head}metadata: {{name: P{number}, {limit}}}\nspec:\n  {body}\n"


INPUT_SCHEMA: Final = """{"type": "object", "properties": {"spec": {"type": "object",
"properties": {"level": {"type": "integer"}, "open": {"type": "boolean"},
"max": {"type": "object", "additionalProperties": {"type": "string", "format": "quantity"}}}}}}"""
"""The schema of the objects of both kinds of inputs."""
OF_INPUTS: Final = (
    ("filter", "level(node) < 60"),
    ("filter", 'quota(pod).optMap(q, pod.requests["cpu"] <= q.spec.max["cpu"]).orValue(true)'),
    ("filter", "inputs.loads.all().exists(l, l.spec.level < 30) || node.podCount < 3"),
    ("filter", "level(node) + node.podCount * 20 < 90"),
    ("score", "clamp(100 - level(node), 0, 100)"),
    ("score", "quota(pod).optMap(q, q.spec.open).orValue(false) == node.ready ? 7 : 9"),
    ("score", f'node.labels[?"{ZONE}"].optFlatMap(z, inputs.quotas[?z]).hasValue() ? 50 : 70'),
    ("preEnqueue", "quota(pod).optMap(q, q.spec.open).orValue(true)"),
    ("victim", "victim.priority < 9 && quota(victim).optMap(q, q.spec.open).orValue(true)"),
)
"""Sections that read inputs: by the node's name, by the pod, by a label of the node, and all."""


def policy_of_inputs(random: Random, number: int) -> str:
    """Return a policy that reads objects by the name of the node, by namespace, and all of them."""
    rules = dict(random.sample(OF_INPUTS, 4))
    kinds = {"schema": "inputs.json", "apiVersion": "example.com/v1", "most": 1000}
    spec: Plain = {
        "inputs": [
            {"name": "loads", "kind": "Load", "key": "object.name", **kinds},
            {"name": "quotas", "kind": "Quota", "key": "object.namespace", **kinds},
        ],
        "functions": [
            {
                "name": "level",
                "params": {"n": "Node"},
                "expression": "inputs.loads[?node.name].optMap(l, l.spec.level).orValue(0)",
            },
            {
                "name": "quota",
                "params": {"p": "Pod"},
                "expression": "inputs.quotas[?p.namespace]",
            },
        ],
    }
    for section, rule in rules.items():
        if section == "score":
            spec[section] = {"expression": rule}
        elif section == "victim":
            spec["preemption"] = {"victim": rule}
        else:
            spec[section] = [{"expression": rule, "message": "inputs say no", "onError": "Reject"}]
    annotations = {"policysched.dev/cost-limit": "20000"}
    document = {
        "apiVersion": "policysched.dev/v1alpha1",
        "kind": "Policy",
        "metadata": {"name": f"P{number}", "annotations": annotations},
        "spec": spec,
    }
    return json.dumps(document)


def input_object(random: Random, nodes: Sequence[str]) -> CustomObject:
    """Return an object of an input: a node's load, or a quota of a namespace."""
    kind = random.choice(("Load", "Load", "Quota"))
    place = random.choice(list(nodes) if kind == "Load" else [*NAMESPACES, *ZONES[:2]])
    meta = ObjectMeta(name=place)
    if kind == "Quota":  # of two quotas of a namespace the older counts
        born = datetime_of(random.randrange(5) * 10**9)
        names = random.choice(("a", "b", "b"))
        meta = ObjectMeta(name=names, namespace=place, creation_timestamp=born)
    spec = {
        "level": random.choice((0, 20, 50, 70, 100)),
        "open": random.random() < 0.7,
        "max": {"cpu": random.choice(("50m", "1", "8"))},
    }
    content = {"spec": spec}
    return CustomObject(api_version="example.com/v1", kind=kind, metadata=meta, content=content)


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
            {"topology_spread_constraints": [hard]},
            {"topology_spread_constraints": [soft]},
            {"topology_spread_constraints": [hard, {**soft, "topologyKey": ZONE}]},
            {
                "affinity": {"podAntiAffinity": {preferred: weighted}},
                "topology_spread_constraints": [hard],
            },
        )
    )


def pod_form(random: Random, schedulers: Sequence[str], *, small: bool) -> Plain:
    """Return the arguments of `make_pod` for pods of one form; small ones fit nearly everywhere."""
    app = random.choice(APPS)
    form: Plain = {
        "labels": {"app": app},
        "namespace": random.choice(NAMESPACES),
        "cpu": random.choice(("10m", "100m") if small else ("100m", "500m", "1", "2")),
        "memory": random.choice(("16Mi", "64Mi") if small else ("64Mi", "512Mi", "2Gi")),
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
    if chance() < (0.0 if small else 0.15):
        form["host_ports"] = [random.choice((80, 8080))]
    if chance() < 0.2:
        form["images"] = [random.choice(("app:1", "app:2"))]
    if chance() < (0.0 if small else 0.15):
        form["requests"] = {GPU: "1"}
    if chance() < 0.1:
        form["labels"]["extra"] = "yes"
    if chance() < 0.05:
        form["preemption_policy"] = "Never"
    return form


def node(random: Random, number: int, *, plain: bool) -> Node:
    """Return the node with this number in a random state; plain ones differ only in their size."""
    labels = {HOST: f"n{number}", ZONE: ZONES[number % 3]}
    if plain:
        cpu, pods = str(random.choice((2, 4, 8))), random.choice((4, 8, 110))
        return make_node(f"n{number}", cpu=cpu, memory="16Gi", pods=pods, labels=labels)
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


def namespace(random: Random, name: str) -> Namespace:
    """Return a namespace."""
    labels = {"env": random.choice(("dev", "prod"))}
    return Namespace(metadata=ObjectMeta(name=name, labels=labels))


def budget(random: Random) -> PodDisruptionBudget:
    """Return a disruption budget for the pods of one of the apps."""
    app = random.choice(APPS)
    meta = ObjectMeta(name=f"b-{app}", namespace=random.choice(NAMESPACES))
    made = PodDisruptionBudget(metadata=meta)
    made.spec.selector = LabelSelector(match_labels={"app": app})
    made.status.disruptions_allowed = random.choice((0, 1, 5))
    return made


def storage(nodes: Sequence[str], random: Random) -> list[ApiObject]:
    """Return the classes and drivers of a cluster, and how much its nodes and zones can take."""
    return [
        world.make_class("wait", provisioner=DRIVER),
        world.make_class("zonal", provisioner=DRIVER, zones=random.sample(ZONES, 2)),
        world.make_class("local", provisioner="kubernetes.io/no-provisioner"),
        world.make_driver(DRIVER),
        *(world.make_csi_node(name, {DRIVER: random.choice((1, 3, None))}) for name in nodes),
        *(capacity(random, zone) for zone in ZONES),
    ]


def capacity(random: Random, zone: str) -> ApiObject:
    """Return what is left of the storage of a zone."""
    size = random.choice(("0", "5Gi", "1Ti"))
    return world.make_capacity(f"left-{zone}", size, zone)


def volume(random: Random, number: int, nodes: Sequence[str]) -> ApiObject:
    """Return a volume that some of the nodes reach."""
    reached: Plain = {"zones": random.sample(ZONES, random.choice((1, 2)))}
    if nodes and random.random() < 0.5:
        reached = {"hosts": random.sample(nodes, min(len(nodes), 3))}
    return world.make_volume(f"pv-{number}", storage_class="local", **reached)


def volume_claim(
    random: Random, number: int, nodes: Sequence[str], namespace: str
) -> list[ApiObject]:
    """Return a claim of a pod, and its volume if it is bound already."""
    name, kind = f"pvc-{number}", random.choice(("wait", "wait", "zonal", "local", "bound"))
    if kind != "bound":
        modes = [random.choice(("ReadWriteOnce", "ReadWriteOncePod"))]
        return [world.make_claim(name, storage_class=kind, namespace=namespace, modes=modes)]
    bound = volume(random, number, nodes)
    return [
        bound,
        world.make_claim(name, storage_class="local", namespace=namespace, volume=f"pv-{number}"),
    ]
