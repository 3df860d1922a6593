"""A snapshot of a live cluster: an API server on loopback, and the requests that it gets."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from policy_sched.cli.main import run
from tests.embedded.apiserver.security.guarded import RBAC, binding, guarded, make, role, rule, user
from tests.embedded.apiserver.world import PODS, World
from tests.instance.recording import Recording

Plain = dict[str, Any]
SECRET = "hunter2"
SIZES = {"cpu": "4", "memory": "8Gi", "pods": "20"}
NODE: Plain = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "worker-a", "labels": {"team": "payments"}},
    "status": {"allocatable": SIZES, "capacity": SIZES},
}
POD: Plain = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "annotations": {"acme.com/notes": SECRET}},
    "spec": {
        "nodeSelector": {"team": "payments"},
        "containers": [
            {
                "name": "c",
                "image": "nginx",
                "command": ["sh", "-c", SECRET],
                "env": [{"name": "PASSWORD", "value": SECRET}],
                "resources": {"requests": {"cpu": "1"}},
            }
        ],
    },
}
KINDS = ("secrets", "configmaps")


async def _fill(world: World) -> None:
    await make(world, "/api/v1/nodes", NODE)
    await make(world, PODS, POD)
    data = {"metadata": {"name": "s"}, "stringData": {"password": SECRET}}
    await make(world, "/api/v1/namespaces/default/secrets", data)
    data = {"metadata": {"name": "c"}, "data": {"password": SECRET}}
    await make(world, "/api/v1/namespaces/default/configmaps", data)


def kubeconfig_of(folder: Path, port: int, token: str) -> str:
    """Write a kubeconfig of a server on loopback; return its path."""
    (folder / "kubeconfig").write_text(
        f"""\
apiVersion: v1
kind: Config
current-context: c
contexts: [{{name: c, context: {{cluster: k, user: u}}}}]
clusters: [{{name: k, cluster: {{server: "http://127.0.0.1:{port}"}}}}]
users: [{{name: u, user: {{token: "{token}"}}}}]
"""
    )
    return str(folder / "kubeconfig")


def test_a_live_cluster_in_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lists of what decisions read, no secrets and no write; every verb takes the file."""
    file = str(tmp_path / "cluster.jsonl.gz")

    async def scenario() -> list[tuple[str, str]]:
        async with asyncio.timeout(60), guarded(tmp_path) as world:
            await _fill(world)
            proxy = Recording(int(world.url.rpartition(":")[2]))
            async with proxy.served():
                kubeconfig = kubeconfig_of(tmp_path, proxy.port, "admin-token")
                arguments = ["snapshot", file, "--kubeconfig", kubeconfig]
                assert await asyncio.to_thread(run, arguments) == 0
                return proxy.requests

    requests = asyncio.run(scenario())
    assert {method for method, _ in requests} == {"GET"}
    assert len(requests) > 20
    assert not any(kind in path for _, path in requests for kind in KINDS)
    assert "watch" not in str(requests)
    text = gzip.decompress(Path(file).read_bytes()).decode()
    assert SECRET not in text
    kinds = [json.loads(line)["kind"] for line in text.splitlines()]
    assert kinds[-1] == "Pod"
    assert "Node" in kinds
    assert Path(file).stat().st_mode & 0o777 == 0o600
    assert capsys.readouterr().out.startswith(f"{file}: 1 node, 1 pod (1 pending), ")
    assert run(["simulate", file, "--output", "jsonl"]) == 0
    assert json.loads(capsys.readouterr().out)["node"] == "worker-a"
    assert run(["explain", "web", "--cluster", file]) == 0
    assert "default/web goes to worker-a" in capsys.readouterr().out


def test_rights_that_are_missing_are_named_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written; kinds that only new pods need are left out with a word."""
    file = tmp_path / "cluster.jsonl.gz"

    async def taken(world: World) -> int:
        kubeconfig = kubeconfig_of(tmp_path, int(world.url.rpartition(":")[2]), "joe-token")
        arguments = ["snapshot", str(file), "--kubeconfig", kubeconfig]
        return await asyncio.to_thread(run, arguments)

    async def scenario() -> None:
        async with asyncio.timeout(60), guarded(tmp_path) as world:
            await _fill(world)
            assert await taken(world) == 2
            refusal = capsys.readouterr().err
            assert 'User "joe" cannot list resource "nodes"' in refusal
            assert 'User "joe" cannot list resource "pods"' in refusal
            assert "`policy-sched manifests` prints a ClusterRole with the rights" in refusal
            assert not file.exists()
            every = [
                rule("list", "*", group)
                for group in ("", "apps", "storage.k8s.io", "policy", "scheduling.x-k8s.io")
            ]
            every.append(
                rule("list", "resourceclaims resourceslices deviceclasses", "resource.k8s.io")
            )
            await make(world, f"{RBAC}/clusterroles", role("reader", *every))
            bound = binding("reader", "ClusterRole", "reader", user("joe"))
            await make(world, f"{RBAC}/clusterrolebindings", bound)
            assert await taken(world) == 0
            notes = capsys.readouterr().err
            assert "priorityclasses.scheduling.k8s.io may not be listed and are left out" in notes

    asyncio.run(scenario())


def test_a_server_that_is_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The connection's error is shown."""
    kubeconfig = kubeconfig_of(tmp_path, 1, "t")
    assert run(["snapshot", str(tmp_path / "c.jsonl.gz"), "--kubeconfig", kubeconfig]) == 2
    assert "127.0.0.1:1" in capsys.readouterr().err
