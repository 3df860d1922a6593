"""``policy-sched run --serve`` as a process: its address, its kubeconfig, its end."""

from __future__ import annotations

import json
import signal
import urllib.request
from pathlib import Path

import pytest

from policy_sched.cli.main import run
from policy_sched.cli.render import UNUSABLE
from tests.cli.test_run import NODES, Process
from tests.profiles.policy_texts import keeping, write

POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}


def test_a_pod_that_is_created_through_the_api_is_bound(tmp_path: Path) -> None:
    """At once, by the policies in force; SIGTERM ends server and scheduler."""
    for name in ("cluster", "policies"):
        (tmp_path / name).mkdir()
    write(tmp_path / "cluster" / "nodes.yaml", NODES)
    write(tmp_path / "policies" / "keep.yaml", keeping("Keep", 'node.name == "b"'))
    config = tmp_path / "config"
    process = Process(tmp_path, "--serve", "0", "--write-kubeconfig", str(config))
    try:
        url = process.until("Serving the API", kubeconfig=str(config))["url"]
        written = json.loads(config.read_text(encoding="utf-8"))
        assert written["clusters"][0]["cluster"]["server"] == url
        process.until("Running")
        pods = f"{url}/api/v1/namespaces/default/pods"
        request = urllib.request.Request(pods, json.dumps(POD).encode(), method="POST")
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 201
        assert process.bound("p") == ("b", 1)
        with urllib.request.urlopen(f"{pods}/p") as answer:
            assert json.load(answer)["spec"]["nodeName"] == "b"
        assert process.end(signal.SIGTERM) == (0, "")
    finally:
        process.process.kill()
        process.process.communicate()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--serve", "0.0.0.0:0"], "can be reached from other machines"),
        (["--serve", "nowhere"], "is no address"),
        (["--write-kubeconfig", "x"], "without --serve"),
        (["--serve", "0", "--tls-cert-file", "x"], "go together"),
        (["--serve", "0", "--token-auth-file", "/nonexistent"], "cannot be read"),
    ],
)
def test_what_may_not_be_served_is_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is opened, with exit code 2."""
    assert run(["run", *arguments]) == UNUSABLE
    assert words in capsys.readouterr().err
