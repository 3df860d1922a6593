"""Pod groups through the API: followed where a gate says so, bound whole, with a status."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from policy_sched.client.apimachinery.resources import GROUP

from .test_cluster_instance import World, acted, node, pod, until

GATES = {"GenericWorkload": True, "GangScheduling": True}


def pod_group(count: int) -> dict[str, Any]:
    """Return a PodGroup of a gang."""
    meta = {"name": "ring", "namespace": "default"}
    spec = {"schedulingPolicy": {"gang": {"minCount": count}}}
    return {"apiVersion": GROUP[0], "kind": "PodGroup", "metadata": meta, "spec": spec}


def condition(world: World) -> dict[str, Any] | None:
    """Return the condition PodGroupScheduled, as the API has it."""
    found = [stored.data for stored in world.cluster.store.select(GROUP)]
    conditions = [c for data in found for c in (data.get("status") or {}).get("conditions", ())]
    return next((one for one in conditions if one["type"] == "PodGroupScheduled"), None)


def test_a_gang_is_bound_whole_and_its_status_says_so() -> None:
    """First there is too little room, then a node comes."""

    async def play(world: World) -> None:
        world.policies = replace(world.policies, feature_gates=GATES)
        world.apply(node("a"), pod_group(3))
        for name in "xyz":
            world.apply(pod(name, "3", schedulingGroup={"podGroupName": "ring"}))
        async with world.served(), world.scheduler():
            first = await until(lambda: condition(world))
            assert (first["status"], first["reason"]) == ("False", "Unschedulable")
            assert first["observedGeneration"] == 1
            assert world.bound() == {}
            world.apply(node("b"), node("c"))
            await until(lambda: len(world.bound()) == 3)
            last = await until(
                lambda: (found := condition(world)) and found["reason"] == "Scheduled" and found
            )
        assert last["status"] == "True"

    acted(play)


@pytest.mark.parametrize("gated", [False, True])
def test_groups_are_followed_where_a_gate_says_so(gated: bool) -> None:
    """Without it the API server is not asked for them at all."""
    asked: list[str] = []

    async def note(_method: str, path: str) -> None:
        asked.append(path)

    async def play(world: World) -> None:
        world.policies = replace(world.policies, feature_gates=GATES if gated else {})
        world.before = note
        world.apply(node("a"), pod("p"))
        async with world.served(), world.scheduler():
            await until(lambda: len(world.bound()) == 1)
            await asyncio.sleep(0)
        assert any(path.endswith(f"{GROUP[0]}/podgroups") for path in asked) is gated

    acted(play)
