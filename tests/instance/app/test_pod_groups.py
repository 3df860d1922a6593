"""Kinds that only some policies read; pod groups, bound whole, with a status; reloads."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from policy_sched.client.apimachinery.resources import EVENT, GROUP
from tests.profiles.policy_texts import gating, write

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
    """A cluster without the coscheduling plugin answered 404 each minute, for ever."""
    asked: set[str] = set()

    async def note(_method: str, path: str) -> None:
        asked.add(path)

    async def play(world: World) -> None:
        world.policies = replace(world.policies, feature_gates=GATES if gated else {})
        world.before = note
        world.apply(node("a"), pod("p"))
        async with world.served(), world.scheduler():
            await until(lambda: len(world.bound()) == 1)
        groups = {path for path in asked if path.endswith("/podgroups")}
        assert groups == ({f"/apis/{GROUP[0]}/podgroups"} if gated else set())

    acted(play)


def test_a_kind_is_read_as_soon_as_a_policy_reads_it(tmp_path: Path) -> None:
    """The watch begins at the reload, and no pod is decided before the groups are known."""
    asked = asyncio.Event()
    listed = asyncio.Event()

    async def hold(_method: str, path: str) -> None:
        if path.endswith("/podgroups"):
            asked.set()
            await listed.wait()

    async def play(world: World) -> None:
        world.policies = replace(world.policies, policies=(str(tmp_path),))
        world.before = hold
        world.apply(node("a"), pod("before"))
        async with world.served(), world.scheduler() as instance:
            await until(world.bound)
            assert not asked.is_set()
            write(tmp_path / "policy.yaml", gating("Gate", "podGroup.minCount <= 1"))
            instance.reload(instance.reloader.store.prepare(), "test")
            await asked.wait()
            assert not instance.may_begin
            world.apply(pod("after"))
            await until(lambda: not instance.informers.behind or None)
            assert "after" not in world.bound()
            listed.set()
            await until(lambda: "after" in world.bound())

    acted(play)


def test_a_refused_reload_is_an_event(tmp_path: Path) -> None:
    """Who looked at the events of the cluster did not see that old policies went on."""

    async def play(world: World) -> None:
        world.policies = replace(world.policies, policies=(str(tmp_path),))
        async with world.served(), world.scheduler("us") as instance:
            await until(lambda: instance.may_begin or None)
            write(tmp_path / "policy.yaml", gating("Gate", "pod.colour == 1"))
            instance.reload(instance.reloader.store.prepare(), "test")
            found = await until(lambda: [e for e in events(world) if e["reason"] == "FailedReload"])
        (event,) = found
        assert (event["type"], event["regarding"]["kind"]) == ("Warning", "Lease")
        place = f"{tmp_path}/policy.yaml:6:22: "
        assert event["note"].startswith(
            f"Failed to reload policies; keeping the current ones: {place}"
        )

    acted(play)


def events(world: World) -> list[dict[str, Any]]:
    """Return all events."""
    return [stored.data for stored in world.cluster.store.select(EVENT)]
