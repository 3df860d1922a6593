"""``kubectl policy-sched``: kubectl's flags and kubeconfig, and the plugin below kubectl."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from policy_sched.cli.kubectl import ON_A_CLUSTER, command, parsed
from policy_sched.errors import PolicySchedError
from policy_sched.manifests.load import load
from policy_sched.profiles.models.schema import definitions
from tests.cli.test_rollout import DEFINITIONS, begin
from tests.embedded.apiserver.test_kubectl import Kubectl
from tests.embedded.apiserver.world import World, serving
from tests.embedded.world import node, pod
from tests.shown import page

HOME = {"HOME": "/home/a"}
CONFIG = "/home/a/.kube/config"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["snapshot"], ["snapshot", "--kubeconfig", CONFIG]),
        (["snapshot", "--kubeconfig=x"], ["snapshot", "--kubeconfig=x"]),
        (["explain", "p"], ["explain", "team/p", "--kubeconfig", CONFIG]),
        (["explain", "p", "-n", "b"], ["explain", "b/p", "--kubeconfig", CONFIG]),
        (["explain", "b/p", "--namespace=c"], ["explain", "b/p", "--kubeconfig", CONFIG]),
        (["fit", "pod.yaml", "--cluster", "d"], ["fit", "pod.yaml", "--cluster", "d"]),
        (["rollout", "status"], ["rollout", "status", "--kubeconfig", CONFIG]),
        (["record", "traffic"], ["record", "traffic", "--kubeconfig", CONFIG]),
        (["check", "policies"], ["check", "policies"]),
        (["--help"], ["--help"]),
        ([], []),
    ],
)
def test_the_cluster_is_that_of_kubectl(arguments: list[str], expected: list[str]) -> None:
    """Unless files or another kubeconfig are named; a pod is in the namespace of the context."""
    assert command(parsed(arguments), HOME, "team") == expected


def test_kubeconfig_is_the_variable_of_kubectl() -> None:
    """A list of files, too."""
    found = command(parsed(["snapshot", "--context", "b"]), {**HOME, "KUBECONFIG": "x:y"}, "")
    assert found == ["snapshot", "--kubeconfig", "x:y"]
    assert parsed(["snapshot", "--context", "b"]).context == "b"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explain", "p", "--context"], "--context needs a value"),
        (["explain", "p", "--namespace="], "--namespace needs a value"),
        (["snapshot", "-n", "a"], "--namespace is for explain"),
    ],
)
def test_flags_that_mean_nothing_are_refused(arguments: list[str], said: str) -> None:
    """Rather than passed over."""
    with pytest.raises(PolicySchedError, match=said):
        command(parsed(arguments), HOME, "")


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")
def test_kubectl_runs_it(tmp_path: Path) -> None:
    """On the current context, and on another one; one that is not there is told."""
    plugin = tmp_path / "kubectl-policy_sched"
    plugin.write_text(f'#!/bin/sh\nexec {sys.executable} -m policy_sched.cli.kubectl "$@"\n')
    plugin.chmod(0o755)

    async def run() -> None:
        async with serving() as world:
            kubectl = Kubectl(world, tmp_path)
            kubectl.path = f"{tmp_path}:/usr/bin:/bin"
            world.cluster.apply(node("n"))
            world.cluster.apply(pod("p"))
            config = yaml.safe_load(kubectl.config.read_text())
            (given,) = config["contexts"]
            config["contexts"].append({"name": "second", "context": given["context"]})
            config["current-context"] = "none"
            kubectl.config.write_text(yaml.safe_dump(config))
            said = await kubectl("policy-sched", "explain", "p", fails=True)
            assert "there is no context 'none'" in said
            found = await kubectl("policy-sched", "explain", "p", "--context", "second")
            assert "default/p" in found
            assert "n" in found.split()
            await _other_verbs(kubectl, world, tmp_path)

    asyncio.run(run())


async def _other_verbs(kubectl: Kubectl, world: World, folder: Path) -> None:
    """Call the verbs that read a cluster with each of kubectl's three flags."""
    second = ("--context", "second")
    world.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    there = pod("q")
    there["metadata"]["namespace"] = "team"
    world.cluster.apply(there)
    assert "team/q" in await kubectl("policy-sched", "explain", "q", "-n", "team", *second)
    moved = folder / "elsewhere"
    moved.write_text(kubectl.config.read_text())
    file = str(folder / "cluster.jsonl.gz")
    where = ("--kubeconfig", str(moved))
    await kubectl("policy-sched", "snapshot", file, *where, *second)
    found = load([file], None).objects
    assert {"p", "q"} <= {thing.metadata.name for thing in found}
    recording = await kubectl.start("policy-sched", "record", str(folder / "traffic"), *second)
    assert recording.stderr is not None
    assert "recording 1 node, 2 pods" in (await recording.stderr.readline()).decode()
    recording.terminate()
    said, errors = await recording.communicate()
    assert recording.returncode == 0, errors
    assert "lines in" in said.decode()
    for resource in definitions().values():
        await world.create(DEFINITIONS, json.loads(resource))
    await begin(world, "careful")
    assert "careful" in await kubectl("policy-sched", "rollout", "status", *where, *second)


def test_each_verb_of_a_cluster_can_be_told_which() -> None:
    """The plugin adds --kubeconfig to these verbs, so they have that option."""
    sections = page("docs/cli.md").split("\n### policy-sched ")[1:]
    named = {text.partition("\n")[0] for text in sections if "\n| `--kubeconfig` |" in text}
    assert named >= ON_A_CLUSTER
    assert named - ON_A_CLUSTER == {"check", "run", "simulate"}  # they may read files alone
