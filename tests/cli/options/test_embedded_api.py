"""``policy-sched run --serve`` as a process: its address, its kubeconfig, its end."""

from __future__ import annotations

import base64
import json
import signal
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from policy_sched.cli.main import run
from policy_sched.cli.output.diagnostics import UNUSABLE
from tests.cli.test_run import NODES, Process
from tests.profiles.policy_texts import keeping, write

POD: dict[str, Any] = {
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


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
        sent(pods, POD)
        assert process.bound("p") == ("b", 1)
        with urllib.request.urlopen(f"{pods}/p") as answer:
            assert json.load(answer)["spec"]["nodeName"] == "b"
        assert process.end(signal.SIGTERM) == (0, "")
    finally:
        process.process.kill()
        process.process.communicate()


def sent(url: str, data: Any) -> None:
    """Create an object."""
    request = urllib.request.Request(url, json.dumps(data).encode(), method="POST")
    request.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 201


def test_without_controllers_the_scheduler_binds_and_nothing_creates_pods(tmp_path: Path) -> None:
    """A kube-controller-manager beside our controllers undid their work, and they its own."""
    (tmp_path / "cluster").mkdir()
    (tmp_path / "policies").mkdir()
    write(tmp_path / "cluster" / "nodes.yaml", NODES)
    process = Process(tmp_path, "--serve", "0", "--controllers=false")
    try:
        url = process.until("Serving the API")["url"]
        process.until("Running")
        sets = f"{url}/apis/apps/v1/namespaces/default/replicasets"
        template = {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        sent(sets, {"metadata": {"name": "r"}, "spec": spec})
        pods = f"{url}/api/v1/namespaces/default/pods"
        sent(pods, POD)
        assert process.bound("p")[1] == 1
        with urllib.request.urlopen(pods) as answer:
            assert [item["metadata"]["name"] for item in json.load(answer)["items"]] == ["p"]
    finally:
        process.process.kill()
        process.process.communicate()


def test_an_api_with_tokens_signs_its_own_certificate(tmp_path: Path) -> None:
    """The kubeconfig trusts it; requests need a token."""
    (tmp_path / "cluster").mkdir()
    (tmp_path / "policies").mkdir()
    write(tmp_path / "policies" / "keep.yaml", keeping("Keep", 'node.name == "b"'))
    tokens, config = tmp_path / "tokens.csv", tmp_path / "config"
    tokens.write_text("s3cret,admin,1,system:masters\n", encoding="utf-8")
    options = ["--serve", "0", "--write-kubeconfig", str(config), "--token-auth-file", str(tokens)]
    process = Process(tmp_path, *options, "--authorization-mode", "RBAC")
    try:
        url = process.until("Serving the API")["url"]
        assert url.startswith("https://127.0.0.1:")
        cluster = json.loads(config.read_text(encoding="utf-8"))["clusters"][0]["cluster"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        trust = ssl.create_default_context(cadata=authority)
        request = urllib.request.Request(f"{url}/api/v1/nodes")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, context=trust)
        assert refused.value.code == 403
        refused.value.close()
        request.add_header("Authorization", "Bearer s3cret")
        with urllib.request.urlopen(request, context=trust) as answer:
            assert answer.status == 200
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
        (["--serve", "0", "--token-auth-file", "/none"], "/none: cannot be read: No such file"),
        (["--serve", "0", "--write-kubeconfig", "/n/n"], "/n/n: cannot be written: No such file"),
        (
            ["--serve", "0", "--tls-cert-file", __file__, "--tls-private-key-file", __file__],
            "cannot be used: it is no certificate in PEM, with the key that belongs to it\n",
        ),
    ],
)
def test_what_may_not_be_served_is_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 2, and why, without Python's numbers."""
    assert run(["run", *arguments]) == UNUSABLE
    told = capsys.readouterr().err
    assert words in told
    assert "Errno" not in told


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--leader-elect"], "--leader-elect: only with the cluster of a --kubeconfig"),
        (["--leader-elect-retry-period", "1s"], "--leader-elect-retry-period: only with"),
        (["--leader-elect-resource-name", "x"], "--leader-elect-resource-name: only with"),
        (["--leader-elect-lease-duration", "long"], "is not a duration"),
        (["--kube-api-qps", "5", "--kube-api-burst", "6"], "--kube-api-qps, --kube-api-burst: "),
        (["--authorization-kubeconfig", "x"], "--authorization-kubeconfig: only with the"),
        (["--kubeconfig", "x", "--shadow", "--leader-elect"], "does not use --leader-elect\n"),
    ],
)
def test_what_nothing_would_read_is_refused(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A flag that changes nothing would look as if it did."""
    assert run(["run", *arguments]) == UNUSABLE
    assert words in capsys.readouterr().err
