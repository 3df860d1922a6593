"""Verbs on a live cluster: an API server on loopback, and the requests that it gets."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from policy_sched.cli.main import run
from tests.embedded.apiserver.security.guarded import guarded, make
from tests.embedded.apiserver.world import PODS
from tests.instance.recording import Recording
from tests.snapshot.test_collect import NODE, POD, kubeconfig_of

POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Teams}
spec: {filter: [{expression: 'node.labels[?"teem"].hasValue()', message: no team}]}
"""


def test_verbs_read_a_live_cluster_and_write_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A live cluster had to be written to a file first; every verb takes --kubeconfig now.

    Each lists what the file would hold, with GETs alone and without a watch.
    """
    policy, replica = tmp_path / "policy.yaml", tmp_path / "replica.json"
    policy.write_text(POLICY)
    replica.write_text(json.dumps(POD))
    verbs = {
        "simulate": ["simulate", "-o", "jsonl"],
        "explain": ["explain", "web"],
        "fit": ["fit", str(replica)],
        "diff": ["diff", "default", str(policy)],
        "check": ["check", str(policy)],
        "eval": ["eval", 'node.labels["team"]'],
    }
    shown = {}

    async def scenario() -> list[tuple[str, str]]:
        async with asyncio.timeout(120), guarded(tmp_path) as world:
            await make(world, "/api/v1/nodes", NODE)
            await make(world, PODS, POD)
            proxy = Recording(int(world.url.rpartition(":")[2]))
            async with proxy.served():
                kubeconfig = kubeconfig_of(tmp_path, proxy.port, "admin-token")
                for name, words in verbs.items():
                    before = len(proxy.requests)
                    given = [*words, "--kubeconfig", kubeconfig]
                    assert await asyncio.to_thread(run, given) == 0, capsys.readouterr().err
                    assert len(proxy.requests) > before + 20
                    shown[name] = capsys.readouterr().out
                return proxy.requests

    requests = asyncio.run(scenario())
    assert {method for method, _ in requests} == {"GET"}
    assert "watch" not in str(requests)
    assert not any("secrets" in path or "configmaps" in path for _, path in requests)
    assert json.loads(shown["simulate"]) == {
        "pod": "default/web",
        "node": "worker-a",
        "message": "",
    }
    assert "default/web goes to worker-a" in shown["explain"]
    assert "worker-a" in shown["fit"]
    assert "1 become unschedulable" in shown["diff"]
    assert "no node of the snapshot has the label 'teem'; did you mean 'team'?" in shown["check"]
    assert "payments" in shown["eval"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["explain", "web"], "explain needs either --cluster or --kubeconfig"),
        (["fit", "FILE"], "fit needs either --cluster or --kubeconfig"),
        (["simulate"], "simulate needs either manifests or --kubeconfig"),
        (["simulate", "FILE", "--kubeconfig", "FILE"], "simulate needs either manifests or"),
        (["explain", "web", "--cluster", "FILE", "--kubeconfig", "FILE"], "explain needs either"),
        (["diff", "default", "gang", "--cluster", "FILE", "--kubeconfig", "FILE"], "diff needs"),
        (["diff", "default", "gang", "--seed", "3"], "--seed goes with --cluster or --kubeconfig"),
        (["check", "FILE", "--cluster", "FILE", "--kubeconfig", "FILE"], "(--cluster, --snapshot)"),
        (["eval", "1", "--cluster", "FILE", "--kubeconfig", "FILE"], "does not go together with"),
    ],
)
def test_one_cluster_is_given(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In files or live, and not in both."""
    file = tmp_path / "pod.json"
    file.write_text(json.dumps(POD))
    assert run([str(file) if word == "FILE" else word for word in words]) == 2
    assert message in capsys.readouterr().err
