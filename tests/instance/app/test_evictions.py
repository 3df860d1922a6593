"""Evictions that policies ask for, through the API of a cluster and on an embedded one."""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec.structs import replace

from policy_sched.client.apimachinery import POD
from policy_sched.instance.app.instance import Instance
from policy_sched.model import SECOND

from . import test_embedded_instance
from .test_cluster_instance import World, acted, node, pod, until

POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Crowd}
spec:
  aggregates: [{name: others, by: node.name, count: true}]
  evict:
    every: 10s
    victim: pod.name.startsWith("p") && aggregates.others[node.name] >= 2
    most: 3
    messageExpression: '"beside " + string(aggregates.others[node.name]) + " others"'
"""
CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Crowd}]}}}]
"""


def written(folder: Path) -> tuple[str, tuple[str, ...]]:
    """Write the configuration and the policy."""
    folder.mkdir(exist_ok=True)
    (folder / "policy.yaml").write_text(POLICY, encoding="utf-8")
    (folder / "config.yaml").write_text(CONFIG, encoding="utf-8")
    return str(folder / "config.yaml"), (str(folder / "policy.yaml"),)


def there(world: World) -> list[str]:
    """Return the names of the pods."""
    return sorted(stored.name for stored in world.cluster.store.select(POD))


def passes(instance: Instance, seconds: int) -> None:
    """Make the looks due as if so many seconds had passed."""
    due = instance.evictions._times._due
    due.update({key: at - seconds * SECOND for key, at in due.items()})


async def at_once(_seconds: float) -> None:
    """Wait for a moment."""
    await asyncio.sleep(0.005)


def test_pods_are_evicted_through_the_api(tmp_path: Path) -> None:
    """Three of five pods go at the first look that is due, and each has an event."""
    sent: list[str] = []

    async def note(method: str, path: str) -> None:
        if path.endswith("/eviction"):
            sent.append(f"{method} {path.rpartition('/pods/')[2]}")

    async def play(world: World) -> None:
        config, policies = written(tmp_path)
        world.policies = replace(world.policies, config=config, policies=policies)
        world.before = note
        world.apply(node("a"), *(pod(f"p{i}") for i in range(5)), pod("q"))
        async with world.served(), world.scheduler() as instance:
            instance.evictions.sleep = at_once
            await until(lambda: len(world.bound()) == 6 and not instance.behind)
            await until(lambda: instance.evictions._times.next)
            assert not sent
            passes(instance, 20)
            await until(lambda: len(sent) == 3)
            await until(lambda: len([e for e in world.events() if e[1] == "Evicted"]) == 3)
            counts = instance.metrics.policies.evictions_total.values
            assert counts["Crowd", "success"] == 3
        assert sent == ["POST p0/eviction", "POST p1/eviction", "POST p2/eviction"]

    acted(play)


def test_a_standby_evicts_nothing(tmp_path: Path) -> None:
    """It begins with a whole interval when it leads."""

    async def play(world: World) -> None:
        config, policies = written(tmp_path)
        world.policies = replace(world.policies, config=config, policies=policies)
        world.apply(node("a"), *(pod(f"p{i}") for i in range(4)))
        async with world.served(), world.scheduler("one"):
            await until(lambda: len(world.bound()) == 4)
            async with world.scheduler("two") as standby:
                await until(lambda: standby.ready)
                await standby.evictions.evict()
                await standby.evictions.evict()
                assert standby.evictions._times.next is None
        assert len(there(world)) == 4

    acted(play)


def test_an_embedded_cluster_evicts_within_budgets(tmp_path: Path) -> None:
    """The store asks disruption budgets as the API server does."""
    world = test_embedded_instance.World(tmp_path)
    written(tmp_path / "policies")
    (tmp_path / "policies" / "config.yaml").rename(tmp_path / "config.yaml")
    instance = world.start()
    evictions = instance.evictions
    evictions.sleep = at_once
    world.apply(pods="---\n".join(test_embedded_instance.pod(f"p{i}") for i in range(5)))
    while instance.step():
        pass
    store = instance.cluster.store

    async def look() -> list[str]:
        await evictions.evict()
        passes(instance, 20)
        await evictions.evict()
        return [stored.name for stored in store.select(POD) if stored.deleting]

    going = asyncio.run(look())
    assert len(going) in {1, 2, 3}
    assert instance.metrics.policies.evictions_total.values["Crowd", "success"] == len(going)
    instance.cluster.close()
