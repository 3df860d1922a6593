"""``--policy-objects``: what a start reads of a cluster, and what is refused before it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from policy_sched.cli.options.kubeconfig import PolicyObjectsFlags, connected
from policy_sched.errors import ClusterError, PolicyError
from policy_sched.profiles.reload.inputs import PolicyFiles
from tests.instance.app.test_cluster_instance import World, acted
from tests.instance.app.test_policy_objects import policy, served
from tests.profiles.policy_texts import write
from tests.profiles.reload.test_objects import FILTER, WRONG

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: %s}]}}}]
"""


def kubeconfig(world: World, folder: Path) -> str:
    """Write a kubeconfig of the world's server."""
    text = f"""\
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "http://{world.address.text}"}}}}]
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
users: [{{name: u, user: {{}}}}]
current-context: c
"""
    write(folder / "kubeconfig", text)
    return str(folder / "kubeconfig")


def test_a_start_reads_the_selected_objects_and_leaves_broken_ones_out(tmp_path: Path) -> None:
    """What they say is in force before the first pod; one that the configuration names is needed.

    As a file that it names is: no pod is decided without the policy.
    """
    write(tmp_path / "config.yaml", CONFIG % "mine")
    files = PolicyFiles(str(tmp_path / "config.yaml"))

    async def play(world: World) -> None:
        things = [policy("mine", filter=FILTER), policy("bad", filter=WRONG)]
        for thing in things:
            thing["metadata"]["labels"] = {"team": "a"}
        served(world, things[1], policy("other", filter=FILTER))
        async with world.served():
            file = kubeconfig(world, tmp_path)

            def begun() -> list[str]:
                instance = connected(files, file, 0, lambda _: None, objects="team=a")
                (ready,) = instance.reloader.store.current.plans
                instance.close()
                return [name for name in ("bad", "mine", "other") if name in ready.policies]

            with pytest.raises(PolicyError, match='plugin "mine" does not exist'):
                await asyncio.to_thread(begun)
            world.apply(things[0])
            assert await asyncio.to_thread(begun) == ["mine"]

    acted(play)


@pytest.mark.parametrize("text", ["a=", "team in (a,b)", ""])
def test_selectors_are_those_of_kubectl(text: str) -> None:
    """Their text goes to the server as it is."""
    assert PolicyObjectsFlags((text,)).selector == text


def test_a_selector_that_is_none_is_refused() -> None:
    """Before anything is asked of a cluster."""
    assert PolicyObjectsFlags().selector is None
    assert PolicyObjectsFlags(()).selector == ""
    with pytest.raises(ClusterError, match="--policy-objects a==="):
        _ = PolicyObjectsFlags(("a===b",)).selector
