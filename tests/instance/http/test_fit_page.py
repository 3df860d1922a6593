"""The page /fit over a real socket: counting, rights, and mistakes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from policy_sched.errors import PolicySchedError
from policy_sched.instance.http.fit_page import FitQuery
from tests.instance.app.test_embedded_instance import pod
from tests.instance.http.test_endpoints import Served, run_scenario

BODY = pod("web", "1")


@pytest.fixture
def served(tmp_path: Path) -> Served:
    """Endpoints of an instance; an admin, and an autoscaler that may read no names."""
    served = Served(tmp_path)
    served.door.rights |= {
        "admin": {"post /fit", "get /fit", "get nodes", "list pods"},
        "autoscaler": {"post /fit"},
    }
    return served


def test_replicas_are_counted_on_the_running_cluster(served: Served) -> None:
    """The count is that of the cluster as it is, and changes nothing."""

    async def scenario() -> None:
        before = len(served.instance.scheduler.cache)
        async with served.session() as ask:
            found = await ask("/fit?per=kubernetes.io/hostname", "admin", "POST", BODY)
            text = found["text"]
            again = await ask("/fit", "admin", "POST", BODY, Accept="application/json")
        document = json.loads(again["text"])
        assert found["status"] == again["status"] == 200
        assert document["unit"] == "default/web"
        assert document["replicas"] > 0
        assert text.startswith(f"{document['replicas']} replicas of default/web fit now")
        assert sum(one["pods"] for one in document["byNode"]) == document["replicas"]
        assert len(served.instance.scheduler.cache) == before

    run_scenario(scenario)


def test_names_are_for_those_who_may_read_them(served: Served) -> None:
    """Without `get nodes` there are counts only; without the right to post, nothing."""

    async def scenario() -> None:
        async with served.session() as ask:
            mine = await ask(
                "/fit?per=zone",
                "autoscaler",
                "POST",
                BODY,
                Accept="application/json",
            )
            document = json.loads(mine["text"])
            assert document["replicas"] > 0
            assert document["byNode"] == []
            assert "byLabel" not in document
            refused = await ask("/fit", "tenant", "POST", BODY)
            assert refused["status"] == 403
            assert 'User \\"tenant\\" cannot post path \\"/fit\\"' in refused["text"]

    run_scenario(scenario)


def test_mistakes_of_a_request_are_named(served: Served) -> None:
    """A body that is no pod, an unknown parameter, a number out of range, another method."""

    async def scenario() -> None:
        async with served.session() as ask:

            async def refusal(path: str, body: str, method: str = "POST") -> tuple[int, str]:
                found = await ask(path, "admin", method, body)
                return found["status"], json.loads(found["text"])["message"]

            assert await refusal("/fit", '{"kind": "Pod"}') == (
                400,
                "body:1:1: the object has no apiVersion",
            )
            assert await refusal("/fit", "") == (
                400,
                "body:1:1: there is no pod here, and no workload with pods",
            )
            assert await refusal("/fit?limits=5", BODY) == (
                400,
                'unknown parameter "limits": known is limit',
            )
            assert await refusal("/fit?limit=0", BODY) == (
                400,
                "limit must be a number from 1 to 50000",
            )
            status, _ = await refusal("/fit", "", "GET")
            assert status == 405
            assert (await ask("/fit", "admin", "POST", "x" * 70_000))["status"] == 413

    run_scenario(scenario)


def test_one_request_at_a_time(served: Served) -> None:
    """A second one is told to come again, and the scheduler is not kept waiting."""

    async def scenario() -> None:
        async with served.session() as ask:
            found = await asyncio.gather(*(ask("/fit", "admin", "POST", BODY) for _ in range(3)))
            assert sorted(one["status"] for one in found) == [200, 429, 429]
            late = next(one for one in found if one["status"] == 429)
            assert late["headers"]["Retry-After"] == "1"
            assert (await ask("/fit", "admin", "POST", BODY))["status"] == 200

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"preempting": "-1"}, "preempting must be a number from 0 to 50000"),
        ({"limit": "1e3"}, "limit must be a number from 1 to 50000"),
        ({"limit": "٣"}, "limit must be a number from 1 to 50000"),
        ({"nodes": "1"}, 'unknown parameter "nodes": known is limit, preempting, per'),
    ],
)
def test_parameters_of_the_fit_page_have_bounds(query: dict[str, Any], message: str) -> None:
    """Numbers have bounds, and other parameters are refused."""
    with pytest.raises(PolicySchedError) as caught:
        FitQuery.of(query)
    assert str(caught.value) == message
