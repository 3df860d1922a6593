"""Valid documents that the fuzzer begins with, and hostile ones that were found once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import yaml

from tests.experiments.examples import TINY

ROOT: Final = Path(__file__).parents[2]
POLICIES: Final = ROOT / "policies"
Plain = Any


def documents(pattern: str) -> list[Plain]:
    """Return the documents of shipped files, in a fixed order."""
    found: list[Plain] = []
    for path in sorted(POLICIES.glob(pattern)):
        found += [one for one in yaml.load_all(path.read_text("utf-8"), yaml.CSafeLoader) if one]
    return found


def policies() -> list[Plain]:
    """Return the shipped policies."""
    return [one for one in documents("*/*.yaml") if one.get("kind") == "Policy"]


def scenarios() -> list[Plain]:
    """Return the tests of shipped policies; each becomes the test of `policy.yaml` beside it."""
    tests = [one for one in documents("*/tests.yaml") if isinstance(one.get("policies"), list)]
    return [{**one, "policies": ["policy.yaml"]} for one in tests]


def manifests() -> list[Plain]:
    """Return the objects of the example cluster, and one object of each kind that is expanded."""
    return [*documents("example-cluster/manifests/*.yaml"), *OBJECTS.values()]


def experiments() -> list[Plain]:
    """Return small experiments that use every key."""
    tiny = yaml.load(TINY, yaml.CSafeLoader)
    doubling = {"p0": "xx", **{f"p{i}": f"${{p{i - 1}}}${{p{i - 1}}}" for i in range(1, 14)}}
    spec = tiny["spec"]
    timed = {
        **spec,
        "parameters": doubling,
        "workload": {**spec["workload"], "arrivals": {"every": "10s"}, "retry": "AtOnce"},
        "stop": {"after": "1h", "arrived": 10, "unplaced": 9},
        "curve": {"time": True, "step": 1},
        "record": ["Pods"],
        "matrix": [{"weight": "NodeResourcesFit", "values": [1, 2]}],
        "measures": [*spec["measures"], {"name": "wait", "time": "Waiting", "summary": "P90"}],
        "figures": [{"kind": "Bars", "measures": ["cpu"]}],
        "seeds": {"first": 3, "count": 2},
    }
    tabled = {
        **spec,
        "cluster": {"generate": ["2*cpu=8,memory=32Gi,gpu=8"],
                    "devices": {"resource": "gpu", "size": 2}},
        "workload": {**spec["workload"], "arrivals": {"file": "orders.csv", "column": "${seed}"}},
        "computed": [{"policy": "P", "param": "kinds", "file": "pods.csv", "by": ["cpu"]}],
        "search": [{"weight": "NodeResourcesFit", "least": 1, "most": 10}],
        "tieBreak": {"order": "Given"},
    }  # fmt: skip
    inflated = {
        **spec,
        "workload": {**spec["workload"],
                     "arrivals": {"order": "Shuffled",
                                  "inflate": {"resource": "cpu", "percent": 130}}},
    }  # fmt: skip
    return [{**tiny, "spec": one} for one in (spec, timed, tabled, inflated)]


POD_SPEC: Final = {
    "containers": [
        {
            "name": "c",
            "image": "registry.k8s.io/pause:3.10",
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
            "ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}],
        }
    ],
    "nodeSelector": {"zone": "a"},
    "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
                ]
            }
        },
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 10,
                    "podAffinityTerm": {
                        "topologyKey": "zone",
                        "labelSelector": {"matchLabels": {"app": "web"}},
                    },
                }
            ]
        },
    },
    "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
}


def _meta(name: str) -> Plain:
    return {
        "name": name,
        "namespace": "default",
        "labels": {"app": "web"},
        "annotations": {"policysched.dev/duration": "1h"},
    }


_TEMPLATE: Final = {"metadata": {"labels": {"app": "web"}}, "spec": POD_SPEC}
_SELECTOR: Final = {"matchLabels": {"app": "web"}}


def _workload(kind: str, group: str, **spec: Plain) -> Plain:
    body = {"selector": _SELECTOR, "template": _TEMPLATE, **spec}
    return {"apiVersion": group, "kind": kind, "metadata": _meta("w"), "spec": body}


OBJECTS: Final[dict[str, Plain]] = {
    "/api/v1/nodes": {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n", "labels": {"zone": "a"}},
        "spec": {"taints": [{"key": "spot", "effect": "NoSchedule"}], "unschedulable": False},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "images": [{"names": ["pause"], "sizeBytes": 1000}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    },
    "/api/v1/namespaces/default/pods": {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _meta("p"),
        "spec": POD_SPEC,
    },
    "/apis/apps/v1/namespaces/default/deployments": _workload(
        "Deployment", "apps/v1", replicas=2, strategy={"type": "RollingUpdate"}
    ),
    "/apis/apps/v1/namespaces/default/replicasets": _workload("ReplicaSet", "apps/v1", replicas=2),
    "/apis/apps/v1/namespaces/default/statefulsets": _workload(
        "StatefulSet", "apps/v1", replicas=2, serviceName="s", updateStrategy={"type": "OnDelete"}
    ),
    "/apis/apps/v1/namespaces/default/daemonsets": _workload(
        "DaemonSet", "apps/v1", updateStrategy={"type": "OnDelete"}
    ),
    "/apis/batch/v1/namespaces/default/jobs": {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _meta("j"),
        "spec": {
            "parallelism": 2,
            "completions": 3,
            "backoffLimit": 1,
            "template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}},
        },
    },
    "/api/v1/namespaces/default/persistentvolumeclaims": {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _meta("data"),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "local",
        },
    },
    "/api/v1/persistentvolumes": {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "pv"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "storageClassName": "local",
            "hostPath": {"path": "/data"},
        },
    },
    "/apis/storage.k8s.io/v1/storageclasses": {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    },
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets": {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": _meta("b"),
        "spec": {"minAvailable": 1, "selector": _SELECTOR},
    },
    "/apis/scheduling.k8s.io/v1/priorityclasses": {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1000,
    },
    "/api/v1/namespaces/default/resourcequotas": {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": _meta("q"),
        "spec": {"hard": {"pods": "10"}},
        "status": {"hard": {"pods": "10"}},
    },
}
"""One valid object of each kind, by the path of its collection."""

KUBECONFIG: Final[Plain] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "c",
    "clusters": [
        {"name": "k", "cluster": {"server": "https://127.0.0.1:1", "tls-server-name": "a"}}
    ],
    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "n"}}],
    "users": [
        {"name": "u", "user": {"token": "SECRET", "as": "b", "as-groups": ["g"]}},
        {
            "name": "e",
            "user": {
                "exec": {
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "command": "true",
                    "interactiveMode": "Never",
                    "env": [{"name": "A", "value": "B"}],
                }
            },
        },
    ],
}

PATCHES: Final[tuple[tuple[str, Plain], ...]] = (
    ("application/json-patch+json", [{"op": "copy", "from": "/metadata", "path": "/spec/x"}]),
    ("application/json-patch+json", [{"op": "add", "path": "/metadata/labels/a", "value": "b"}]),
    ("application/merge-patch+json", {"metadata": {"labels": {"a": None, "b": "c"}}}),
    (
        "application/strategic-merge-patch+json",
        {"spec": {"containers": [{"name": "c", "image": "x"}], "$setElementOrder/containers": []}},
    ),
    ("application/apply-patch+yaml", {"metadata": {"labels": {"c": "d"}}}),
)


def _policy_text(spec: Plain) -> str:
    kind = {"apiVersion": "policysched.dev/v1alpha1", "kind": "Policy", "metadata": {"name": "B"}}
    return json.dumps({**kind, "spec": {"score": {"expression": "50"}, **spec}})


def _doubling(step: str, rule: str) -> str:
    """Return a policy whose variables hold, each, what the one before holds, more than once."""
    texts = ["[pod.name]", *(step.replace("V", f"variables.v{i}") for i in range(60))]
    variables = [{"name": f"v{i}", "expression": text} for i, text in enumerate(texts)]
    return _policy_text({"variables": variables, "filter": [{"message": "m", "expression": rule}]})


_MANY: Final = 1_200

RAW: Final[dict[str, tuple[str, ...]]] = {
    "policy": (
        'a: !!int "+"',
        "a: " + "9" * 5000,
        "a: &a [1]\nb: {<<: [" + "*a," * 200 + "]}",
        "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(f"b{i}: &b{i} [*a,*a,*a,*a,*a]\n" for i in range(9)),
        "[" * 3000,
        "{a: " * 3000,
        "a: \x00",
        "? [a, b]\n: c",
        "a: !!python/object/apply:os.system [ls]",
        "a: 2026-13-45",
        "a: !!binary x",
        "\ufeffa: b",
        "%YAML 9.9\n---\na: b",
        "a: *nothing",
        "&a a: *a",
        "? &a {*a : 1}\n: x",
        "a: {" + "b: 1, " * _MANY + "}",
        "a:\n" + "  b: 1\n" * _MANY,
        _policy_text({"params": {f"p{i}": i for i in range(_MANY)}}),
        _policy_text({"params": {f"p{i}": [{"a": i, "b": "c"}] for i in range(999)}}),
        _policy_text(
            {
                "functions": [
                    {
                        "name": "f",
                        "params": {f"p{i}": "int" for i in range(_MANY)},
                        "expression": "1",
                    }
                ]
            }
        ),
        _policy_text({f"x{i}": i for i in range(_MANY)}),
        _policy_text({"filter": [{"expresion": "true"}] * 1_000}),
        _doubling("[V, V]", "variables.v59 == variables.v58.map(x, x)"),
        _doubling("V + V", "variables.v59 == variables.v59"),
        _doubling('{"a": V, "b": V}', "size(variables.v59) > 1"),
        _doubling("cel.bind(a, V, [a, a])", "variables.v59 == variables.v59"),
        _doubling("[optional.of(V), optional.of(V)]", "variables.v59 == variables.v59"),
    ),
}
"""Texts that ended a process, froze it or printed a traceback once, or are of that kind."""

BOMBS: Final[tuple[str, ...]] = (
    "params.xs.distinct()",
    '"%.999999999f".format([1.0])',
    "lists.range(1000).map(x, lists.range(1000).map(y, lists.range(1000)))",
    "(" * 2000 + "1" + ")" * 2000,
    "!" * 3000 + "true",
    "-" * 3000 + "1",
    "9" * 5000,
    "1e" + "9" * 400,
    "0x" + "f" * 5000,
    '"' + "\\ud800" + '"',
    'duration("' + "1h" * 5000 + '")',
    'tryDuration("' + "9" * 5000 + '")',
    'quantity("' + "9" * 5000 + 'Ei")',
    'semver("' + "1." * 3000 + '0")',
    'pod.name.matches("' + "(a*)*" * 400 + '")',
    " || ".join(["true"] * 3000),
    "[" * 1500 + "]" * 1500,
    '{"a": ' * 800 + "1" + "}" * 800,
    "cel.bind(a, 'xxxxxxxx', " + "cel.bind(a, a + a, " * 40 + "a" + ")" * 41,
    '"a\x00b" == pod.name',
    "node.labels." + "a." * 2000 + "b",
    "true ? " * 1500 + "true" + " : false" * 1500,
)
"""Expressions of which each was, or is like, a way to spend all time or memory."""


def as_json(document: Plain) -> str:
    """Return a document as JSON, which is YAML too."""
    return json.dumps(document)
