"""Expands the short forms of nodes, pods and namespaces that a person writes in a PolicyTest.

``{node: n1, cpu: 8}`` becomes a Node manifest, ``{pod: a, memory: 1Gi}`` a Pod manifest and
``{namespace: team-a}`` a Namespace manifest; an object with a ``kind`` is taken as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from policy_sched.policytest.yaml_reader import WRONG_VALUE, Path, Plain, Reader
from policy_sched.profiles.models import NamespaceEntry, NodeEntry, PodEntry, keys_of

NODE_KEYS: Final = keys_of(NodeEntry)
POD_KEYS: Final = keys_of(PodEntry)
NAMESPACE_KEYS: Final = keys_of(NamespaceEntry)

EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
NODE_DEFAULTS: Final = {"cpu": "4", "memory": "32Gi", "pods": "110"}
"""The node of kube-scheduler's own benchmarks (scheduler_perf, node-default.yaml)."""
POD_IMAGE: Final = "registry.example/app:1"


def expand(reader: Reader, value: object, path: Path) -> Plain:
    """Return the manifest of a short or full form at ``path``."""
    if isinstance(value, str):
        return _pod(reader, {"pod": value}, path)
    if not isinstance(value, dict) or "kind" in value:
        return reader.mapping(value, path)
    if "pod" in value:
        return _pod(reader, reader.mapping(value, path, POD_KEYS), path)
    if "node" in value:
        return _node(reader, reader.mapping(value, path, NODE_KEYS), path)
    if "namespace" in value:
        return _namespace(reader, reader.mapping(value, path, NAMESPACE_KEYS), path)
    reader.problem(
        path,
        WRONG_VALUE,
        "this is no object",
        hint="a manifest has apiVersion and kind; a short form begins with node, pod or namespace",
    )
    return {}


def full_name(name: str) -> str:
    """Return ``namespace/name``; a bare name is in the namespace ``default``."""
    return name if "/" in name else f"default/{name}"


def _namespace(reader: Reader, short: Plain, path: Path) -> Plain:
    name = reader.text(short.get("namespace"), (*path, "namespace"))
    metadata: Plain = {"name": name, **_only(short, "labels", "annotations")}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def _node(reader: Reader, short: Plain, path: Path) -> Plain:
    name = reader.text(short.get("node"), (*path, "node"))
    labels = {"kubernetes.io/hostname": name}
    labels.update(_texts_of(reader, short, "labels", path))
    capacity: dict[str, str] = dict(NODE_DEFAULTS)
    capacity.update({k: str(short[k]) for k in NODE_DEFAULTS if k in short})
    capacity.update(_texts_of(reader, short, "resources", path))
    spec: Plain = _only(short, "unschedulable")
    if "taints" in short:
        at = (*path, "taints")
        written = reader.items(short["taints"], at)
        spec["taints"] = [_taint(reader, one, (*at, i)) for i, one in enumerate(written)]
    spec.update(reader.mapping(short.get("spec", {}), (*path, "spec")))
    status: Plain = {
        "capacity": capacity,
        "allocatable": dict(capacity),
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    if "images" in short:
        sizes = reader.mapping(short["images"], (*path, "images"))
        status["images"] = [{"names": [i], "sizeBytes": size} for i, size in sizes.items()]
    metadata: Plain = {"name": name, "labels": labels, **_only(short, "annotations")}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec, "status": status,
    }  # fmt: skip


def _pod(reader: Reader, short: Plain, path: Path) -> Plain:
    namespace, _, name = full_name(
        reader.text(short.get("pod"), (*path, "pod") if len(short) > 1 else path)
    ).partition("/")
    metadata: Plain = {
        "name": name,
        "namespace": namespace,
        "uid": f"{namespace}/{name}",
        **_only(short, "labels", "annotations"),
    }
    if "created" in short:
        metadata["creationTimestamp"] = short["created"]
    if "owner" in short:
        metadata["ownerReferences"] = [_owner(reader.text(short["owner"], (*path, "owner")))]
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _spec(reader, short, path),
    }  # fmt: skip


def _owner(text: str) -> Plain:
    """``Kind/name``, or the bare name of a ReplicaSet."""
    kind, slash, name = text.rpartition("/")
    kind = kind if slash else "ReplicaSet"
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": text, "controller": True}


def _spec(reader: Reader, short: Plain, path: Path) -> Plain:
    spec: Plain = _only(short, "nodeSelector", "affinity", "priority", "schedulerName")
    spec["containers"] = [_container(reader, short, path)]
    if "node" in short:
        spec["nodeName"] = short["node"]
    if "tolerations" in short:
        at = (*path, "tolerations")
        written = reader.items(short["tolerations"], at)
        spec["tolerations"] = [_toleration(reader, one, (*at, i)) for i, one in enumerate(written)]
    if "gates" in short:
        gates = reader.texts(short["gates"], (*path, "gates"))
        spec["schedulingGates"] = [{"name": gate} for gate in gates]
    spec.update(reader.mapping(short.get("spec", {}), (*path, "spec")))
    return spec


def _container(reader: Reader, short: Plain, path: Path) -> Plain:
    requests: dict[str, str] = {k: str(short[k]) for k in ("cpu", "memory") if k in short}
    requests.update(_texts_of(reader, short, "requests", path))
    container: Plain = {"name": "main", "image": short.get("image", POD_IMAGE)}
    if requests:
        container["resources"] = {"requests": requests}
    if "hostPorts" in short:
        at = (*path, "hostPorts")
        ports = reader.items(short["hostPorts"], at)
        container["ports"] = [_port(reader, port, (*at, i)) for i, port in enumerate(ports)]
    return container


def _port(reader: Reader, value: object, path: Path) -> object:
    """A port number is a TCP host port; a mapping is taken as it is."""
    if isinstance(value, dict):
        return value
    number = reader.whole(value, path)
    return {"containerPort": number, "hostPort": number}


def _taint(reader: Reader, value: object, path: Path) -> object:
    """``key=value:Effect`` or ``key:Effect``, as kubectl writes it; a mapping is taken as it is."""
    if not isinstance(value, str):
        return reader.mapping(value, path)
    pair, _, effect = value.rpartition(":")
    _check_effect(reader, effect, path, "a taint is written key=value:Effect")
    key, _, text = pair.partition("=")
    return {"key": key, "value": text, "effect": effect}


def _toleration(reader: Reader, value: object, path: Path) -> object:
    """``key=value:Effect``; without ``=value`` any value, without ``:Effect`` any effect."""
    if not isinstance(value, str):
        return reader.mapping(value, path)
    pair, colon, effect = value.rpartition(":") if ":" in value else (value, "", "")
    toleration: Plain = {}
    if colon:
        _check_effect(reader, effect, path, "a toleration is written key=value:Effect")
        toleration["effect"] = effect
    key, equals, text = pair.partition("=")
    if equals:
        return {"key": key, "operator": "Equal", "value": text, **toleration}
    return {"key": key, "operator": "Exists", **toleration}


def _check_effect(reader: Reader, effect: str, path: Path, hint: str) -> None:
    if effect not in EFFECTS:
        wanted = _either(EFFECTS)
        reader.problem(path, WRONG_VALUE, f'effect "{effect}" must be {wanted}', hint=hint)


def _either(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _texts_of(reader: Reader, short: Plain, key: str, path: Path) -> dict[str, str]:
    """Return a mapping of texts; numbers are taken as their text, as in ``{cpu: 2}``."""
    if key not in short:
        return {}
    found = reader.mapping(short[key], (*path, key))
    return {name: str(value) for name, value in found.items()}


def _only(short: Plain, *keys: str) -> Plain:
    return {key: short[key] for key in keys if key in short}
