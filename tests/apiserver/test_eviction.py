"""Evictions: as budgets allow, with preconditions, and without anything happening in a dry run."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.apiserver.world import PODS, World, pod, serving
from tests.client.embedded.world import node

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


async def _running(world: World, *names: str) -> None:
    """Make pods that run and are ready."""
    await world.create("/api/v1/nodes", node("n"))
    for name in names:
        await world.create(PODS, pod(name, app="web"))
        target = {"kind": "Node", "name": "n"}
        await world.create(f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})
    for _ in range(5):
        world.clock.advance(10**9)
        world.cluster.step()


async def _evict(world: World, name: str, **options: Any) -> tuple[int, Any]:
    body = {"metadata": {"name": name}, **({"deleteOptions": options} if options else {})}
    return await world.ask("POST", f"{PODS}/{name}/eviction", body)


def _budget(name: str, least: int) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    return {"metadata": {"name": name}, "spec": {"minAvailable": least, "selector": selector}}


def test_a_budget_lets_so_many_go() -> None:
    """The next one is refused with the budget's name and numbers, and may be tried again."""

    async def run() -> None:
        async with serving() as world:
            await _running(world, "a", "b")
            await world.create(BUDGETS, _budget("web", 1))
            world.cluster.step()
            assert (await _evict(world, "a", dryRun=["All"]))[0] == 201
            assert (await world.ask("GET", f"{BUDGETS}/web"))[1]["status"]["disruptionsAllowed"]
            assert (await _evict(world, "a"))[0] == 201
            _, gone = await world.ask("GET", f"{PODS}/a")
            (condition,) = (
                one for one in gone["status"]["conditions"] if one["type"] == "DisruptionTarget"
            )
            assert condition["reason"] == "EvictionByEvictionAPI"
            assert gone["metadata"]["deletionTimestamp"]
            status, body = await _evict(world, "b")
            assert (status, body["reason"]) == (429, "TooManyRequests")
            (cause,) = body["details"]["causes"]
            assert cause == {
                "reason": "DisruptionBudget",
                "message": "The disruption budget web needs 1 healthy pods and has 1 currently",
            }

    asyncio.run(run())


def test_pods_that_do_not_run_yet_and_those_without_a_budget_go() -> None:
    """And who names another uid is refused."""

    async def run() -> None:
        async with serving() as world:
            await _running(world, "a")
            await world.create(PODS, pod("new", app="web"))
            await world.create(BUDGETS, _budget("web", 5))
            world.cluster.step()
            assert (await _evict(world, "a"))[0] == 429
            assert (await _evict(world, "new", preconditions={"uid": "other"}))[0] == 409
            assert (await _evict(world, "new"))[0] == 201
            assert (await world.ask("DELETE", f"{BUDGETS}/web"))[0] == 200
            assert (await _evict(world, "a", gracePeriodSeconds=0))[0] == 201
            assert (await _evict(world, "a"))[0] == 404

    asyncio.run(run())


def test_two_budgets_of_one_pod_are_too_many() -> None:
    """The API server says so, too."""

    async def run() -> None:
        async with serving() as world:
            await _running(world, "a")
            for name in ("x", "y"):
                await world.create(BUDGETS, _budget(name, 0))
            world.cluster.step()
            status, body = await _evict(world, "a")
            assert (status, "more than one PodDisruptionBudget" in body["message"]) == (500, True)

    asyncio.run(run())
