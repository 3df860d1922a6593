"""Pods with thousands of spread constraints and host ports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policy_sched.cli.main import run


def simulated(folder: Path, spec: dict[str, object], labels: dict[str, str]) -> int:
    """Simulate three pods of a spec on two nodes; return the exit code."""
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{i}", "namespace": "d", "labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
        }
        for i in range(3)
    ]
    nodes = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{i}", "labels": labels},
            "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
        }
        for i in range(2)
    ]
    path = folder / "all.json"
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*nodes, *pods]})
    path.write_text(text, encoding="utf-8")
    return run(["simulate", str(path)])


def test_thousands_of_constraints_are_counted_once(tmp_path: Path) -> None:
    """20,000 constraints took the square of their number: each was looked up by all keys."""
    constraints = [
        {
            "maxSkew": 1,
            "topologyKey": f"k{i}",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"a": "b"}},
        }
        for i in range(1_000)
    ]
    labels = {f"k{i}": "v" for i in range(1_000)}
    assert simulated(tmp_path, {"topologySpreadConstraints": constraints}, labels) == 0


def test_thousands_of_host_ports_are_looked_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three pods of 20,000 host ports took minutes under the shipped NodePorts rule."""
    ports = [{"containerPort": 80, "hostPort": 1 + i} for i in range(20_000)]
    containers = [{"name": "c", "image": "i", "ports": ports}]
    assert simulated(tmp_path, {"containers": containers}, {}) == 0
    assert "2 of 3 pods placed on 2 nodes" in capsys.readouterr().out
