"""An ignorable extender that cannot be reached, as simulate and explain tell of it."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from policy_sched.cli.main import run

CLUSTER = """\
apiVersion: v1
kind: Node
metadata: {name: a}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 10}}
---
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: q}
spec: {containers: [{name: c, image: i}]}
"""
CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders:
- {urlPrefix: "http://127.0.0.1:%d/", filterVerb: filter, ignorable: true}
"""


@pytest.fixture
def away(tmp_path: Path) -> tuple[str, str, int]:
    """Return manifests, a configuration, and the port at which nothing listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "config.yaml").write_text(CONFIG % port)
    return str(tmp_path / "cluster.yaml"), str(tmp_path / "config.yaml"), port


def test_simulate_tells_how_often_it_failed(
    away: tuple[str, str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    """Pods were placed as if there were no extender, and nothing reported it."""
    cluster, config, port = away
    assert run(["simulate", cluster, "--config", config]) == 0
    refused = f'Post "http://127.0.0.1:{port}/filter": dial tcp 127.0.0.1:{port}: connect:'
    line = f"  http://127.0.0.1:{port}/: 2 failures, the last: {refused} connection refused"
    told = capsys.readouterr().out.splitlines()
    assert told[told.index("Extenders that failed and were ignored:") + 1] == line
    assert run(["simulate", cluster, "--config", config, "-o", "json"]) == 0
    summary = json.loads(capsys.readouterr().out)["summary"]
    assert summary["skippedExtenders"][f"http://127.0.0.1:{port}/"]["failures"] == 2


def test_explain_tells_why_it_was_ignored(
    away: tuple[str, str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    """The explanation spoke of plugins alone."""
    cluster, config, port = away
    assert run(["explain", "p", "--cluster", cluster, "--config", config]) == 0
    told = capsys.readouterr().out
    assert f"  extender http://127.0.0.1:{port}/ failed and is ignored: Post " in told
    assert run(["explain", "p", "--cluster", cluster, "--config", config, "-o", "json"]) == 0
    skipped_extenders = json.loads(capsys.readouterr().out)["skippedExtenders"]
    assert "connection refused" in skipped_extenders[f"http://127.0.0.1:{port}/"]
