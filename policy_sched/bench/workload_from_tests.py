"""Makes a benchmark's nodes and pods look like those of a scenario, so that its policy has work.

A policy that reads labels, annotations or devices costs little where no object has them. Nodes
become like the scenario's nodes in turn, pods like its first pending pod: labels, annotations,
owners, priority and namespace, and every resource but cpu, memory and pods, so that as many pods
fit as before. Its other objects (namespaces, pod groups) are there, its running pods are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgspec

from policy_sched.bench.manifests import Maker, Manifest
from policy_sched.bench.workloads import Workload
from policy_sched.errors import PolicySchedError
from policy_sched.model import Node, Pod
from policy_sched.policytest import load_scenarios

_SAME: Final = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})
"""Resources of which nodes and pods keep the benchmark's own amounts."""


def workload_from_test(workload: Workload, path: str) -> Workload:
    """Return a workload whose nodes and measured pods look like those of a file's first scenario.

    Raises PolicyError with every problem of the file, and PolicySchedError if it has no node or no
    pending pod.
    """
    scenario = next(iter(load_scenarios(path)), None)
    objects = () if scenario is None else scenario.objects
    pending = () if scenario is None else scenario.pending
    nodes = [_plain(one) for one in objects if isinstance(one, Node)]
    if not nodes or not pending:
        raise PolicySchedError(f"{path}: no node or no pending pod in its first scenario")
    others = tuple(_plain(one) for one in objects if not isinstance(one, Node | Pod))
    return replace(
        workload,
        node=_node_maker(workload.node, nodes),
        pod=_pod_maker(workload.pod, _plain(pending[0])),
        objects=(*workload.objects, *others),
        threshold=None,
        note=f"nodes and pods look like those of {path}",
    )


def _plain(value: object) -> Manifest:
    return msgspec.json.decode(msgspec.json.encode(value), type=dict[str, object])


def _node_maker(make: Maker, models: list[Manifest]) -> Maker:
    def made(index: int) -> Manifest:
        model, node = models[index % len(models)], make(index)
        _dress(node, model, ())
        own, other = _part(node, "spec"), _part(model, "spec")
        own.update({key: other[key] for key in ("taints", "unschedulable") if key in other})
        for key in ("capacity", "allocatable"):
            amounts = _part(_part(model, "status"), key)
            _part(node, "status")[key] = {**_part(_part(node, "status"), key), **_devices(amounts)}
        return node

    return made


def _pod_maker(make: Maker, model: Manifest) -> Maker:
    wanted: Manifest = {}
    for container in _containers(model):
        wanted |= _devices(_part(_part(container, "resources"), "requests"))

    def made(index: int) -> Manifest:
        pod = make(index)
        _dress(pod, model, ("namespace", "ownerReferences"))
        spec, other = _part(pod, "spec"), _part(model, "spec")
        spec.update({k: v for k, v in other.items() if k not in ("containers", "nodeName")})
        resources = _part(_containers(pod)[0], "resources")
        for key in ("requests", "limits"):
            resources[key] = {**_part(resources, key), **wanted}
        return pod

    return made


def _dress(made: Manifest, model: Manifest, keys: tuple[str, ...]) -> None:
    """Give an object a model's labels (its own win), annotations and some other metadata."""
    own, other = _part(made, "metadata"), _part(model, "metadata")
    own["labels"] = {**_part(other, "labels"), **_part(own, "labels")}
    own["annotations"] = {**_part(own, "annotations"), **_part(other, "annotations")}
    own.update({key: other[key] for key in keys if key in other})


def _part(manifest: Mapping[str, object], key: str) -> Manifest:
    found = manifest.get(key, {})
    assert isinstance(found, dict)
    return found


def _containers(pod: Manifest) -> list[Manifest]:
    found = _part(pod, "spec")["containers"]
    assert isinstance(found, list)
    return found


def _devices(amounts: Manifest) -> Manifest:
    return {name: amount for name, amount in amounts.items() if name not in _SAME}
