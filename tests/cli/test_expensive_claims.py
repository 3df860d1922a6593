"""Verbs end for a pod whose claim takes more work than an attempt has, though no clock goes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from policy_sched.cli.main import run

TIMED_OUT = "node n0: timed out trying to allocate devices"
POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Any}
spec: {filter: [{expression: "true", message: never}]}
"""


def _objects() -> list[dict[str, Any]]:
    """Return a node, its 32 devices, and a pod that claims 17 of them in a way that none suits."""
    version, driver = "resource.k8s.io/v1", "gpu.example.com"
    devices = [
        {"name": f"d{i}", "attributes": {"g": {"int": i % 2}, "u": {"int": i}}} for i in range(32)
    ]
    pool = {"name": "n0", "generation": 1, "resourceSliceCount": 1}
    published = {"driver": driver, "nodeName": "n0", "pool": pool, "devices": devices}
    requests = [
        {"name": name, "exactly": {"deviceClassName": "gpu", "count": count}}
        for name, count in (("r1", 9), ("r2", 8))
    ]
    constraints = [
        {"matchAttribute": f"{driver}/g"},
        {"distinctAttribute": f"{driver}/u", "requests": ["r1"]},
    ]
    claim = {"devices": {"requests": requests, "constraints": constraints}}
    claims = [{"name": "c", "resourceClaimName": "c"}]
    spec = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": claims}
    allocatable = {"cpu": "8", "memory": "8Gi", "pods": "110"}
    return [
        _object("v1", "Node", "n0", status={"allocatable": allocatable}),
        _object(version, "DeviceClass", "gpu", spec={}),
        _object(version, "ResourceSlice", "s0", spec=published),
        _object(version, "ResourceClaim", "c", "default", spec=claim),
        _object("v1", "Pod", "hostile", "default", spec=spec),
    ]


def _object(version: str, kind: str, name: str, namespace: str = "", **body: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **body}


@pytest.mark.parametrize(
    ("line", "exit_code"),
    [
        ("simulate cluster.json --fail-on unschedulable", 1),
        ("simulate cluster.json --timeline", 0),
        ("explain default/hostile --cluster cluster.json", 0),
        ("fit pod.json --cluster cluster.json", 0),
        ("diff policy.yaml policy.yaml --cluster cluster.json", 0),
    ],
)
def test_verbs_end_whatever_claims_ask_for(
    line: str,
    exit_code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`simulate` of three nodes and one pod did not end."""
    monkeypatch.chdir(tmp_path)
    objects = _objects()
    items = {"apiVersion": "v1", "kind": "List", "items": objects}
    Path("cluster.json").write_text(json.dumps(items))
    Path("pod.json").write_text(json.dumps(objects[-1]))
    Path("policy.yaml").write_text(POLICY)
    assert run(line.split()) == exit_code
    printed = capsys.readouterr().out
    assert TIMED_OUT in printed or line.startswith("diff")
