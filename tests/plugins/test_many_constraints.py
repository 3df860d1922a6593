"""Pods with thousands of spread constraints and host ports."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from policy_sched.cli.main import run

Simulate = Callable[[dict[str, object], Sequence[dict[str, str]]], list[tuple[str | None, str]]]


@pytest.fixture
def simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Simulate:
    """Return a function that simulates three pods of a spec on nodes with labels.

    It returns the node, or None, and the message of each pod.
    """

    def simulate(
        spec: dict[str, object], nodes: Sequence[dict[str, str]]
    ) -> list[tuple[str | None, str]]:
        path = tmp_path / "all.json"
        path.write_text(json.dumps(cluster(spec, nodes)), encoding="utf-8")
        assert run(["simulate", str(path), "-o", "json"]) == 0
        placements = json.loads(capsys.readouterr().out)["placements"]
        return [(placement["node"], placement["message"]) for placement in placements]

    return simulate


def cluster(spec: dict[str, object], nodes: Sequence[dict[str, str]]) -> dict[str, object]:
    """Return three pods of a spec, and nodes with labels."""
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{i}", "namespace": "d", "labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
        }
        for i in range(3)
    ]
    with_labels = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{i}", "labels": labels},
            "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
        }
        for i, labels in enumerate(nodes)
    ]
    return {"apiVersion": "v1", "kind": "List", "items": [*with_labels, *pods]}


def test_thousands_of_constraints_are_counted_once(simulated: Simulate) -> None:
    """20,000 constraints took the square of their number: each was looked up by all keys.

    Each of them counts: by the last one alone two pods go to two nodes, and none goes to a third.
    """
    constraints = [
        {
            "maxSkew": 1,
            "topologyKey": f"k{i}",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"a": "b"}},
        }
        for i in range(1_000)
    ]
    first = {f"k{i}": "v" for i in range(999)}
    spec: dict[str, object] = {"topologySpreadConstraints": constraints}
    nodes = [first | {"k999": "a"}, first | {"k999": "b"}, first]
    (one, _), (two, _), (three, _) = simulated(spec, nodes)
    assert {one, two} == {one, two, three} == {"n0", "n1"}
    ((nowhere, why), *_) = simulated(spec, [first])
    assert nowhere is None
    assert "didn't match pod topology spread constraints (missing required label)" in why


def test_thousands_of_host_ports_are_looked_up(simulated: Simulate) -> None:
    """Three pods of 20,000 host ports took minutes under the shipped NodePorts rule."""
    ports = [{"containerPort": 80, "hostPort": 1 + i} for i in range(20_000)]
    containers = [{"name": "c", "image": "i", "ports": ports}]
    (first, _), (second, _), third = simulated({"containers": containers}, [{}, {}])
    assert {first, second} == {"n0", "n1"}
    taken = "2 node(s) didn't have free ports for the requested pod ports"
    assert third[0] is None
    assert taken in third[1]
