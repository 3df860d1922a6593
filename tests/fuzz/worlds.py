"""Small clusters around a claim, a slice or a group that somebody careless or hostile wrote.

Mostly of right types: what is wrong is how many, how large, and how they go together.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from tests.fuzz.mutations import mutated

Plain = Any
GATES: Final = (
    "GenericWorkload=true,GangScheduling=true",
    "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true",
    "GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true",
)
DRIVER: Final = "gpu.example.com"
NUMBERS: Final = (0, 1, 1, 1, 2, 3, 8, -1, 2**31 - 1, 2**63 - 1)
AMOUNTS: Final = (
    "1", "0", "2Gi", "40Gi", "1Gi", "0.1", 2, "-1", "1e-2000", "9E", "1n", "9" * 30, "1Ei", "1e18",
)  # fmt: skip
"""All valid: a cluster that is refused as a whole tells nothing of deciding."""
_ANY: Final = "device.attributes.exists(d, device.attributes[d].exists(a, a == 'x'))"
SELECTORS: Final = (
    "true", "false", f"device.driver == '{DRIVER}'", _ANY, "1 / 0 == 1", "device.driver",
    f"device.attributes['{DRIVER}'].model == 'a'", f"device.attributes['{DRIVER}'].index > 1",
    f"device.capacity['{DRIVER}'].memory.compareTo(quantity('2Gi')) >= 0",
    "device.driver" + ".split('').join('x')" * 30 + " == ''", "(" * 200 + "true" + ")" * 200,
    "lists.range(100000).all(x, lists.range(100000).all(y, x >= y))",
    "lists.range(300).all(x, lists.range(300).all(y, x >= 0))",
    "'%s'.format([device.driver]).matches('(a*)*b')", "", "device.attributes['none'].a == 1",
    "device.driver.replace('', 'xxxxxxxxx')" + ".replace('', 'xxxxxxxxx')" * 8 + " == ''",
    "cel.bind(a, [device.driver], a.map(x, a)) == []", "device.attributes.size() == 2",
)  # fmt: skip
SOME: Final = ("a", "b", "c")


def world(kind: str, random: Random) -> list[Plain]:
    """Return the objects of a cluster with one hostile object of a kind, and a few odd ones."""
    pick = random.choice
    nodes = [_node(f"n{i}", pick) for i in range(random.randint(1, 3))]
    objects = [*nodes, _class(random)]
    objects += [_slice(i, random) for i in range(random.randint(1, 3))]
    if kind == "group":
        objects += _groups(random)
    else:
        objects += [_claim(name, random) for name in SOME[: random.randint(1, 3)]]
        objects += [_pod(f"p{i}", random) for i in range(random.randint(1, 3))]
    kinds = {
        "claim": ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass"),
        "slice": ("ResourceSlice",),
        "group": ("PodGroup", "Pod"),
    }[kind]
    if random.random() < 0.3:
        some = [i for i, one in enumerate(objects) if one["kind"] in kinds]
        for at in random.sample(some, min(len(some), 1)):
            objects[at] = mutated(objects[at], random, 2)
    return objects


def _object(version: str, kind: str, name: str, spec: Plain, **meta: Plain) -> Plain:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "default", **meta},
        "spec": spec,
    }


def _node(name: str, pick: Any) -> Plain:
    labels = {"rack": pick(("a", "b")), "kubernetes.io/hostname": name}
    size = {"cpu": "4", "memory": "8Gi", "pods": pick(("2", "110"))}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": size},
    }


def _maybe(random: Random, share: float, **fields: Plain) -> dict[str, Plain]:
    """Return fields, or none; values that are functions are called."""
    if random.random() >= share:
        return {}
    return {key: one() if callable(one) else one for key, one in fields.items()}


def _class(random: Random) -> Plain:
    selectors = [{"cel": {"expression": _expression(random)}}] if random.random() < 0.3 else []
    found = _object("resource.k8s.io/v1", "DeviceClass", "gpu", {"selectors": selectors})
    found["spec"] |= _maybe(random, 0.2, extendedResourceName="example.com/gpu")
    return found


def _expression(random: Random) -> str:
    chosen = random.choice(SELECTORS if random.random() < 0.3 else SELECTORS[:8])
    return f"({chosen}) && true" if random.random() < 0.2 else chosen


def _claim(name: str, random: Random) -> Plain:
    pick = random.choice
    names = [f"r{i}" for i in range(pick((1, 1, 2, 3, 33)))]
    requests = [_request(one, random) for one in names]
    devices: Plain = {"requests": requests}
    count = pick((0, 0, 1, 2, 33))
    devices["constraints"] = [
        {
            pick(("matchAttribute", "matchAttribute", "distinctAttribute")): f"{DRIVER}/{one}",
            **_maybe(random, 0.5, requests=lambda: random.sample(names, min(2, len(names)))),
        }
        for one in random.choices(("model", "index", "healthy", "ver", "none"), k=count)
    ]
    kind = pick(("ResourceClaim", "ResourceClaim", "ResourceClaimTemplate"))
    spec = {"devices": devices}
    return _object(
        "resource.k8s.io/v1", kind, name, {"spec": spec} if kind.endswith("Template") else spec
    )


def _request(name: str, random: Random) -> Plain:
    body = {
        "deviceClassName": random.choice(("gpu", "gpu", "gpu", "none")),
        **_maybe(
            random,
            0.4,
            selectors=lambda: [
                {"cel": {"expression": _expression(random)}}
                for _ in range(random.choice((1, 1, 2, 32)))
            ],
        ),
        **_maybe(random, 0.5, count=lambda: random.choice(NUMBERS)),
        **_maybe(random, 0.2, allocationMode=lambda: random.choice(("All", "ExactCount", "x"))),
        **_maybe(random, 0.1, adminAccess=True),
        **_maybe(random, 0.1, tolerations=[{"operator": "Exists"}]),
        **_maybe(random, 0.2, capacity=lambda: {"requests": {"memory": random.choice(AMOUNTS)}}),
    }
    if random.random() < 0.8:
        return {"name": name, "exactly": body}
    body.pop("adminAccess", None)
    return {
        "name": name,
        "firstAvailable": [{"name": f"s{i}", **body} for i in range(random.choice((1, 2, 8)))],
    }


def _slice(number: int, random: Random) -> Plain:
    pick = random.choice
    count = pick((0, 1, 2, 8, 16, 128))
    spec: Plain = {
        "driver": DRIVER,
        "pool": {
            "name": pick(("p", f"p{number}", f"p{number}")),
            "generation": pick((1, 1, 1, 2, -1, 2**63 - 1)),
            "resourceSliceCount": pick((1, 1, 1, 2, 0, 2**63 - 1)),
        },
        **pick(({"nodeName": "n0"}, {"nodeName": "n1"}, {"allNodes": True}, {"allNodes": True}, {
            "nodeSelector": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["a"]}]}
            ]}
        })),
    }  # fmt: skip
    sets = {}
    if random.random() < 0.3:
        sets = {f"c{i}": {"m": {"value": pick(AMOUNTS)}} for i in range(pick((1, 2, 8)))}
        spec["sharedCounters"] = [{"name": one, "counters": sets[one]} for one in sets]
    spec["devices"] = [_device(f"d{i}", list(sets), random) for i in range(count)]
    return _object("resource.k8s.io/v1", "ResourceSlice", f"slice{number}", spec)


def _device(name: str, sets: list[str], random: Random) -> Plain:
    pick = random.choice
    values = {
        "model": {"string": pick(("a", "b"))},
        "index": {"int": pick(NUMBERS)},
        "healthy": {"bool": pick((True, False))},
        "ver": {"version": pick(("1.2.3", "1", "9" * 70, "a"))},
    }
    kept = random.sample(sorted(values), random.randint(0, 4))
    size = {
        "value": pick(("1Gi", "2Gi", *AMOUNTS)),
        **_maybe(random, 0.1, requestPolicy=lambda: {
            "default": pick(AMOUNTS), "validRange": {"min": pick(AMOUNTS), "step": pick(AMOUNTS)}
        }),
    }  # fmt: skip
    return {
        "name": name,
        "attributes": {one: values[one] for one in kept},
        **_maybe(random, 0.5, capacity={"memory": size}),
        **_maybe(random, 0.1, taints=[{"key": "a", "effect": pick(("NoSchedule", "NoExecute"))}]),
        **_maybe(random, 0.1, allowMultipleAllocations=True),
        **_maybe(random, 0.7 * bool(sets), consumesCounters=lambda: [
            {"counterSet": pick(sets), "counters": {"m": {"value": pick(AMOUNTS)}}}
        ]),
    }  # fmt: skip


def _pod(name: str, random: Random, **spec: Plain) -> Plain:
    pick = random.choice
    claims = [
        {"name": f"v{i}", pick(("resourceClaimName", "resourceClaimTemplateName")): pick(SOME)}
        for i in range(pick((0, 1, 1, 2)))
    ]
    container: Plain = {"name": "c", "resources": {"requests": {"cpu": pick(("100m", "1", "3"))}}}
    container["resources"]["claims"] = [{"name": one["name"]} for one in claims]
    container["resources"]["requests"] |= _maybe(random, 0.1, **{"example.com/gpu": pick(("1", 2))})
    return _object("v1", "Pod", name, {"containers": [container], "resourceClaims": claims, **spec})


def _groups(random: Random) -> list[Plain]:
    pick = random.choice
    objects = []
    for name in SOME[: random.randint(1, 3)]:
        gang = {"gang": {"minCount": pick((1, 2, 3, 0, -1, 2**31 - 1))}}
        spec = {
            "schedulingPolicy": pick((gang, gang, gang, {"basic": {}}, {})),
            **_maybe(random, 0.4, schedulingConstraints=lambda: {
                "topology": [{"key": pick(("rack", "kubernetes.io/hostname", "none"))}]
            }),
            **_maybe(random, 0.3, priority=lambda: pick((0, 5, 2**31 - 1))),
            **_maybe(random, 0.3, disruptionMode=lambda: pick(("PodGroup", "Pod", "x"))),
        }  # fmt: skip
        objects.append(_object("scheduling.k8s.io/v1alpha2", "PodGroup", name, spec))
        for i in range(pick((0, 1, 2, 4, 40))):
            group = {"schedulingGroup": {"podGroupName": pick((name, name, name, "none"))}}
            more = {**group, **_maybe(random, 0.3, nodeName=lambda: pick(("n0", "n1")))}
            more |= _maybe(random, 0.3, priority=lambda: pick((0, 5, 10)))
            objects.append(_pod(f"{name}{i}", random, **more))
    return objects
