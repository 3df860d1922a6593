"""Evictions: as budgets allow, with preconditions, and without anything happening in a dry run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from policy_sched.client.apimachinery.resources import ApiError
from policy_sched.embedded.apiserver.endpoints.subresources import Evictions
from policy_sched.embedded.apiserver.endpoints.write import Writing
from policy_sched.embedded.apiserver.request.request_info import (
    UNSECURED,
    RequestOptions,
    Sent,
    target_of,
)
from policy_sched.embedded.apiserver.security.escalation import Granting
from policy_sched.embedded.store.store import ObjectStore
from policy_sched.testing import FakeClock
from tests.embedded.apiserver.world import PODS, World, pod, serving
from tests.embedded.world import START, node

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


def _budget(name: str, least: int, **spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    wanted = {"minAvailable": least, "selector": selector, **spec}
    return {"metadata": {"name": name}, "spec": wanted}


async def _unready(world: World, name: str) -> None:
    """Let a pod that runs be not ready."""
    conditions = [{"type": "Ready", "status": "False"}]
    merge = "application/strategic-merge-patch+json"
    patch = {"status": {"conditions": conditions}}
    status, _ = await world.ask("PATCH", f"{PODS}/{name}/status", patch, type=merge)
    assert status == 200
    world.cluster.step()


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
                item for item in gone["status"]["conditions"] if item["type"] == "DisruptionTarget"
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
    """And one that names another uid is refused."""

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


def test_pods_that_were_bound_and_have_not_started_go() -> None:
    """No controller depends on them."""

    async def run() -> None:
        async with serving() as world:
            await world.create("/api/v1/nodes", node("n"))
            await world.create(PODS, pod("a", app="web"))
            target = {"kind": "Node", "name": "n"}
            await world.create(f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": target})
            await world.create(BUDGETS, _budget("web", 5))
            assert (await _evict(world, "a"))[0] == 201

    asyncio.run(run())


def test_pods_that_are_not_ready_go_while_others_are_enough() -> None:
    """That costs the budget nothing; where they are not, its policy may allow it all the same."""

    async def run() -> None:
        async with serving() as world:
            await _running(world, "a", "b", "c")
            await world.create(BUDGETS, _budget("web", 2))
            await _unready(world, "c")
            assert (await _evict(world, "a"))[0] == 429
            assert (await _evict(world, "c"))[0] == 201
            await _unready(world, "b")
            assert (await _evict(world, "b"))[0] == 429
            always = {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}
            merge = "application/merge-patch+json"
            assert (await world.ask("PATCH", f"{BUDGETS}/web", always, type=merge))[0] == 200
            assert (await _evict(world, "b"))[0] == 201

    asyncio.run(run())


def test_disrupted_pods_of_a_budget_are_removed_with_the_pods() -> None:
    """It does not grow for ever."""

    async def run() -> None:
        async with serving() as world:
            await _running(world, "a", "b")
            await world.create(BUDGETS, _budget("web", 1))
            world.cluster.step()
            assert (await _evict(world, "a"))[0] == 201
            world.cluster.step()
            _, budget = await world.ask("GET", f"{BUDGETS}/web")
            assert "disruptedPods" not in budget["status"]
            assert budget["status"]["disruptionsAllowed"] == 0

    asyncio.run(run())


def test_an_unobserved_budget_allows_no_eviction() -> None:
    """The client may try again."""
    store = ObjectStore(FakeClock(START))
    meta = {"name": "default"}
    store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    store.create({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", **_budget("web", 1)})
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    store.create({**pod("a", app="web"), "status": status}, recorded=True)
    evictions = Evictions(store, Writing(store, Granting(None)))
    target = target_of(f"{PODS}/a/eviction")
    sent = Sent(target, RequestOptions({}, "CreateOptions"), b"{}", "application/json", UNSECURED)
    with pytest.raises(ApiError) as refused:
        evictions.evict(sent)
    (cause,) = refused.value.details["causes"]
    why = "The disruption budget web is still being processed by the server."
    assert (refused.value.code, cause["message"]) == (429, why)
