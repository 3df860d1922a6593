"""The default profile's rules and the reference make the same decisions on random clusters.

Point 5 of the language's test plan: rules against kube-scheduler, over random clusters.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import HealthCheck, given, settings, strategies as st

from policy_sched.policytest.runner import run_scenario
from policy_sched.policytest.scenario import Scenario, load_scenarios
from tests.examples import scaled

from .reference_objects import ClusterState, Json
from .reference_steps import decide, profile_of

TOLERATIONS = st.fixed_dictionaries(
    {"operator": st.just("Exists")},
    optional={
        "key": st.sampled_from(["spot", "gpu", "node.kubernetes.io/unschedulable"]),
        "effect": st.sampled_from(["NoSchedule", "PreferNoSchedule"]),
    },
) | st.builds(
    lambda value: {"key": "spot", "operator": "Equal", "value": value}, st.sampled_from(["", "a"])
)
TAINTS = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["spot", "gpu"]),
        "effect": st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"]),
    },
    optional={"value": st.sampled_from(["a", "b"])},
)
LABELS = st.dictionaries(
    st.sampled_from(["zone", "disk", "cores"]), st.sampled_from(["a", "b", "4", "16", ""])
)
REQUIREMENTS = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        st.sampled_from(["zone", "disk", "cores"]),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(["a", "b", "4"]), min_size=1, max_size=2),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator},
        st.sampled_from(["zone", "disk", "cores"]),
        st.sampled_from(["Exists", "DoesNotExist"]),
    ),
    st.builds(
        lambda operator, value: {"key": "cores", "operator": operator, "values": [value]},
        st.sampled_from(["Gt", "Lt"]),
        st.sampled_from(["4", "8"]),
    ),
)
NAMED = st.builds(
    lambda operator, names: {"key": "metadata.name", "operator": operator, "values": names},
    st.sampled_from(["In", "In", "NotIn"]),
    st.lists(st.sampled_from(["n0", "n1", "n2"]), min_size=1, max_size=1),
)
TERMS = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.lists(REQUIREMENTS, max_size=2),
        "matchFields": st.lists(NAMED, min_size=1, max_size=1),
    },
)
AFFINITIES = st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.builds(
            lambda terms: {"nodeSelectorTerms": terms}, st.lists(TERMS, min_size=1, max_size=2)
        ),
        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(
            st.builds(
                lambda weight, term: {"weight": weight, "preference": term},
                st.integers(1, 100),
                TERMS,
            ),
            max_size=2,
        ),
    },
)
REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["0", "1m", "100m", "333m", "1", "1500m", "3", "9"]),
        "memory": st.sampled_from(["0", "1", "100M", "512Mi", "1.5Gi", "7Gi", "1e9"]),
        "ephemeral-storage": st.sampled_from(["1Gi", "60Gi"]),
        "nvidia.com/gpu": st.sampled_from(["0", "1", "3"]),
        "example.com/fpga": st.just("1"),
        "hugepages-2Mi": st.just("4Mi"),
    },
)
IMAGES = st.sampled_from(["app", "app:1", "registry.example:5000/big", "registry.example/big:2"])
PORTS = st.fixed_dictionaries(
    {"containerPort": st.just(80), "hostPort": st.sampled_from([0, 80, 8080])},
    optional={
        "hostIP": st.sampled_from(["", "0.0.0.0", "10.0.0.1"]),
        "protocol": st.sampled_from(["TCP", "UDP"]),
    },
)
CONTAINERS = st.builds(
    lambda image, requests, ports: {
        "name": "c",
        "image": image,
        "resources": {"requests": requests},
        "ports": ports,
    },
    IMAGES,
    REQUESTS,
    st.lists(PORTS, max_size=1),
)
INIT_CONTAINERS = st.builds(
    lambda container, sidecar: container | ({"restartPolicy": "Always"} if sidecar else {}),
    CONTAINERS,
    st.booleans(),
)
SPECS = st.fixed_dictionaries(
    {"containers": st.lists(CONTAINERS, min_size=1, max_size=2)},
    optional={
        "initContainers": st.lists(INIT_CONTAINERS, max_size=2),
        "overhead": st.just({"cpu": "50m", "memory": "32Mi"}),
        "resources": st.builds(
            lambda requests: {
                "requests": {k: v for k, v in requests.items() if k in {"cpu", "memory"}}
            },
            REQUESTS,
        ),
        "tolerations": st.lists(TOLERATIONS, max_size=2),
        "nodeSelector": st.just({"zone": "a"}),
        "affinity": st.builds(lambda affinity: {"nodeAffinity": affinity}, AFFINITIES),
        "schedulingGates": st.just([{"name": "a"}, {"name": "b"}]),
    },
)
CAPACITIES = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from(["0", "1", "3500m", "8"]),
        "memory": st.sampled_from(["1Gi", "15000000Ki", "32Gi"]),
        "pods": st.sampled_from(["1", "2", "110"]),
    },
    optional={
        "ephemeral-storage": st.just("100Gi"),
        "nvidia.com/gpu": st.sampled_from(["0", "3", "8"]),
        "hugepages-2Mi": st.just("64Mi"),
    },
)
NODE_IMAGES = st.lists(
    st.builds(
        lambda name, size: {"names": [name], "sizeBytes": size},
        st.sampled_from(["app:latest", "app:1", "registry.example/big:2"]),
        st.sampled_from([1, 30_000_000, 700_000_000, 5_000_000_000]),
    ),
    max_size=2,
    unique_by=lambda image: image["names"][0],
)
RESOURCES = st.lists(
    st.sampled_from(["cpu", "memory", "ephemeral-storage", "nvidia.com/gpu"]),
    min_size=1,
    max_size=3,
    unique=True,
)
SHAPES = st.lists(
    st.tuples(st.integers(0, 100), st.integers(0, 10)),
    min_size=1,
    max_size=4,
    unique_by=lambda point: point[0],
).map(lambda points: [{"utilization": x, "score": y} for x, y in sorted(points)])


@st.composite
def strategies(draw: st.DrawFn) -> Json:
    """Draw a scoring strategy of NodeResourcesFit."""
    kinds = ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]
    kind = draw(st.sampled_from(kinds))
    resources = [{"name": r, "weight": draw(st.integers(1, 5))} for r in draw(RESOURCES)]
    strategy: Json = {"type": kind, "resources": resources}
    if kind == "RequestedToCapacityRatio":
        strategy["requestedToCapacityRatio"] = {"shape": draw(SHAPES)}
    return strategy


@st.composite
def configs(draw: st.DrawFn) -> Json | None:
    """Draw a configuration: arguments and weights of the default plugins."""
    if draw(st.booleans()):
        return None
    args: dict[str, Json] = {}
    if draw(st.booleans()):
        args["NodeResourcesFit"] = {"scoringStrategy": draw(strategies())}
        if draw(st.booleans()):
            args["NodeResourcesFit"]["ignoredResources"] = ["example.com/fpga", "cpu"]
        if draw(st.booleans()):
            args["NodeResourcesFit"]["ignoredResourceGroups"] = ["nvidia.com"]
    if draw(st.booleans()):
        resources = [{"name": r, "weight": 1} for r in draw(RESOURCES)]
        args["NodeResourcesBalancedAllocation"] = {"resources": resources}
    if draw(st.booleans()):
        added = draw(AFFINITIES.filter(bool))
        args["NodeAffinity"] = {"addedAffinity": added}
    profile: Json = {
        "schedulerName": "default-scheduler",
        "pluginConfig": [{"name": name, "args": value} for name, value in args.items()],
    }
    if draw(st.booleans()):
        weights = [{"name": "ImageLocality", "weight": draw(st.integers(1, 9))}]
        profile["plugins"] = {"multiPoint": {"enabled": weights}}
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return kind | {"profiles": [profile]}


@st.composite
def clusters(draw: st.DrawFn) -> Json:
    """Draw a scenario without expectations: a configuration, nodes, bound and pending pods."""
    objects: list[Json] = []
    count = draw(st.integers(1, 5))
    sizes: dict[str, int] = {}
    for index in range(count):
        capacity = draw(CAPACITIES)
        images = draw(NODE_IMAGES)
        for image in images:  # one size per name on every node
            image["sizeBytes"] = sizes.setdefault(image["names"][0], image["sizeBytes"])
        objects.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": f"n{index}", "labels": draw(LABELS)},
                "spec": {
                    "taints": draw(st.lists(TAINTS, max_size=2)),
                    "unschedulable": draw(st.sampled_from([False, False, False, True])),
                },
                "status": {"capacity": capacity, "allocatable": capacity, "images": images},
            }
        )
    pods = []
    for index in range(draw(st.integers(1, 6))):
        spec = draw(SPECS) | {"schedulerName": "default-scheduler"}
        metadata = {"name": f"p{index}", "namespace": "default", "uid": f"uid-{index}"}
        pods.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    bound = draw(st.integers(0, len(pods) - 1))
    for pod in pods[:bound]:
        pod["spec"].pop("schedulingGates", None)
        pod["spec"]["nodeName"] = f"n{draw(st.integers(0, count - 1))}"
    record: Json = {"name": "drawn", "objects": objects + pods[:bound], "pending": pods[bound:]}
    config = draw(configs())
    return record | ({"config": config} if config else {})


def with_expectations(record: Json) -> Json:
    """Return the scenario with the reference's decision for each pending pod."""
    profile = profile_of(record.get("config"))
    cluster = ClusterState(record["objects"])
    expect = []
    for pod in record["pending"]:
        step = decide(profile, cluster, pod)
        expect.append(step | {"pod": f"default/{pod['metadata']['name']}"})
        if "chosen" in step:
            cluster.nodes[step["chosen"]].add(pod)
    return record | {"expect": expect}


def scenario_of(record: Json) -> Scenario:
    """Return a record as the scenario that `policy-sched test` would run."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "drawn.jsonl")
        path.write_text(json.dumps(record))
        (scenario,) = load_scenarios(str(path))
    # The reference has no preemption and no messages: compare what it states.
    return dataclasses.replace(scenario, complete=False)


@settings(max_examples=scaled(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(clusters())
def test_rules_agree_with_the_reference(record: Json) -> None:
    """Statuses, reasons, scores and best nodes are those of the scalar port, on any cluster."""
    for result in run_scenario(scenario_of(with_expectations(record))):
        assert not result.differences, result
