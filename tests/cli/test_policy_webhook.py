"""A scheduler as the webhook of its own cluster: kubectl and the official client are refused.

Both are clients of a process that runs as an operator starts it, with TLS.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from policy_sched.cli.main import run
from policy_sched.instance.http.listener import self_signed
from tests.instance.app.test_policy_objects import policy
from tests.profiles.reload.test_objects import FILTER, WRONG
from tests.shown import ROOT

Plain = dict[str, Any]
KUBECTL = shutil.which("kubectl")
PATIENCE = 120.0
DENIED = 'admission webhook "validate.policies.policysched.dev" denied the request: Policy bad'
FIRST = re.compile(r"spec\.filter\[0\]\.expression, line \d+: PS102: Node has no field 'nmae'")


@dataclass(frozen=True)
class Cluster:
    """A cluster with the webhook; ``kubeconfig`` is a file in the folder."""

    folder: Path

    @property
    def kubeconfig(self) -> str:
        """How clients reach it."""
        return str(self.folder / "kubeconfig")

    def kubectl(self, *words: str, given: Any = None) -> tuple[int, str]:
        """Run kubectl; return its exit code and all that it prints."""
        done = subprocess.run(
            [str(KUBECTL), "--kubeconfig", self.kubeconfig, *words],
            input=None if given is None else json.dumps(given),
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "HOME": str(self.folder)},
        )
        return done.returncode, done.stdout + done.stderr


def printed(*words: str) -> list[Plain]:
    """Return the objects that `manifests` prints."""
    with redirect_stdout(io.StringIO()) as out:
        assert run(["manifests", *words, "-o", "json"]) == 0
    items: list[Plain] = json.loads(out.getvalue())["items"]
    return items


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start a cluster, its scheduler, and what `manifests --crds --webhook` prints."""
    if KUBECTL is None:
        pytest.skip("no kubectl")
    folder = tmp_path_factory.mktemp("webhook")
    certificate, key = self_signed(["localhost", "127.0.0.1"], time.time_ns())
    (folder / "tls.crt").write_bytes(certificate)
    (folder / "tls.key").write_bytes(key)
    (folder / "tokens").write_text("t,admin,1,system:masters\n")
    with socket.socket() as place:
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        place.bind(("127.0.0.1", 0))
        port = place.getsockname()[1]
        words = (
            *("run", "--serve", "127.0.0.1:0", "--write-kubeconfig", str(folder / "kubeconfig")),
            *("--policy-objects", "--secure-port", str(port)),
            *("--tls-cert-file", str(folder / "tls.crt")),
            *("--tls-private-key-file", str(folder / "tls.key")),
            *("--token-auth-file", str(folder / "tokens")),
        )
        log = folder / "log"
        with log.open("wb") as out:
            begun = subprocess.Popen(
                [sys.executable, "-m", "policy_sched", *words], stdout=out, stderr=out, cwd=ROOT
            )
        until = time.monotonic() + PATIENCE
        while '"Running"' not in log.read_text():
            assert begun.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.05)
        try:
            made = Cluster(folder)
            objects = printed("--crds", "--webhook", "--tls-secret", "t")
            for one in objects:
                for webhook in one.get("webhooks", ()):
                    webhook["clientConfig"] = {
                        "url": f"https://127.0.0.1:{port}/validate",
                        "caBundle": base64.b64encode(certificate).decode(),
                    }
                    webhook["timeoutSeconds"] = 30
                    webhook["failurePolicy"] = "Fail"
            items = {"apiVersion": "v1", "kind": "List", "items": objects}
            code, text = made.kubectl("apply", "-f", "-", given=items)
            assert code == 0, text
            yield made
        finally:
            begun.send_signal(signal.SIGTERM)
            begun.wait(PATIENCE)


def test_kubectl_is_refused_with_every_problem_and_its_field(cluster: Cluster) -> None:
    """apply in both ways, a dry run, and patches; nothing of it is stored."""
    bad = policy("bad", filter=WRONG, score={"expression": "node.cpus"})
    for how in (("--dry-run=server",), (), ("--server-side",)):
        code, text = cluster.kubectl("apply", *how, "-f", "-", given=bad)
        assert (code, DENIED in text) == (1, True), text
        assert FIRST.search(text), text
        assert "spec.score.expression, line" in text
    code, text = cluster.kubectl("get", "policy", "bad")
    assert (code, "not found" in text) == (1, True)


def test_kubectl_does_with_policies_what_it_does_with_others(cluster: Cluster) -> None:
    """Created, applied in both ways, patched, watched by the scheduler, explained, deleted."""
    good = policy("good", filter=FILTER)
    code, text = cluster.kubectl("apply", "-f", "-", given=good)
    assert (code, text) == (0, "policy.policysched.dev/good created\n")
    assert "unchanged" in cluster.kubectl("apply", "-f", "-", given=good)[1]
    wait = ("wait", "--for=condition=InForce", "policy/good", "--timeout=60s")
    assert cluster.kubectl(*wait)[0] == 0
    forced = ("apply", "--server-side", "--force-conflicts", "-f", "-")
    assert "serverside-applied" in cluster.kubectl(*forced, given=good)[1]
    for form, patch in (
        ("merge", '{"spec": {"score": {"expression": "node.cpus"}}}'),
        ("json", '[{"op": "add", "path": "/spec/score", "value": {"expression": "node.cpus"}}]'),
    ):
        code, text = cluster.kubectl("patch", "policy", "good", f"--type={form}", "-p", patch)
        assert (code, "spec.score.expression, line" in text) == (1, True), text
    patch = '{"spec": {"score": {"expression": 5}}}'
    assert "patched" in cluster.kubectl("patch", "pol", "good", "--type=merge", "-p", patch)[1]
    code, text = cluster.kubectl("get", "scheduling")
    assert code == 0
    assert " ".join(text.split()[:6]) == "NAME ACCEPTED MODE GENERATION MATCHED AGE"
    assert "How nodes are ranked." in cluster.kubectl("explain", "policy.spec.score")[1]
    assert "deleted" in cluster.kubectl("delete", "policy", "good")[1]


PROGRAM = """
import json, sys
from kubernetes import client, config, watch
config.load_kube_config(sys.argv[1])
good, bad = json.loads(sys.argv[2]), json.loads(sys.argv[3])
policies = client.CustomObjectsApi()
kind = ("policysched.dev", "v1alpha1", "policies")
policies.create_cluster_custom_object(*kind, good)
name = good["metadata"]["name"]
seen = set()
for event in watch.Watch().stream(policies.list_cluster_custom_object, *kind, timeout_seconds=60):
    conditions = event["object"].get("status", {}).get("conditions", [])
    if [c["status"] for c in conditions] == ["True", "True"]:
        print("in force")
        break
for forced in ({"spec": {"filter": bad["spec"]["filter"]}}, {"status": {"hash": "mine"}}):
    try:
        changed = policies.patch_cluster_custom_object(*kind, name, forced)
        print(changed["status"]["hash"] == "mine")
    except client.ApiException as error:
        print(error.status, json.loads(error.body)["message"].splitlines()[0])
try:
    policies.create_cluster_custom_object(*kind, bad)
except client.ApiException as error:
    print(error.status, json.loads(error.body)["reason"])
try:
    policies.create_cluster_custom_object(*kind, {**bad, "spec": {"filter": "x"}})
except client.ApiException as error:
    print(error.status, json.loads(error.body)["details"]["causes"][0]["field"])
policies.delete_cluster_custom_object(*kind, name)
"""


def test_the_official_client_writes_and_watches_policies(cluster: Cluster) -> None:
    """What the schema refuses and what the webhook refuses; the status is not an author's."""
    good, bad = policy("python", filter=FILTER), policy("bad", filter=WRONG)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, cluster.kubeconfig, json.dumps(good), json.dumps(bad)],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    said = 'admission webhook "validate.policies.policysched.dev" denied the request: Policy python'
    assert done.stdout.splitlines() == [
        "in force",
        f"422 {said} is not valid:",
        "False",
        "422 Invalid",
        "422 spec.filter",
    ]
