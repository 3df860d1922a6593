"""Wrong types in requests: each way into the store refuses them, and the server lives on."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from policy_sched.embedded.apiserver.registry.resources import BUILT_IN, ServedResource
from policy_sched.embedded.cluster import EmbeddedCluster
from policy_sched.embedded.schema.types import DEPTH
from policy_sched.testing import FakeClock
from tests.embedded.apiserver.world import PODS, SPEC, World, pod, serving
from tests.embedded.schema.test_types import wrong
from tests.embedded.world import START, workload

PER_KIND = 5
"""Fields that are tried of each kind here; tests/embedded/schema/test_types.py tries all."""
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLIED = "application/apply-patch+yaml"
APPS = "/apis/apps/v1/namespaces/default"
STORED = [served for served in BUILT_IN.served if not (served.review or served.computed)]


def path_of(served: ServedResource) -> str:
    """Return where the objects of a resource of namespace default are."""
    group = f"/apis/{served.group}" if served.group else "/api"
    scope = "/namespaces/default" if served.resource.namespaced else ""
    return f"{group}/{served.version}{scope}/{served.name}"


@pytest.mark.parametrize(
    "served", STORED, ids=lambda served: f"{served.group_version}/{served.kind}"
)
def test_wrong_types_of_every_kind_are_refused(served: ServedResource, tmp_path: Path) -> None:
    """With 400, whatever the field; the process lives, and starts again with what it had."""
    path = str(tmp_path / "cluster.db")
    cases = [data for _, data in wrong(f"{served.group_version}/{served.kind}")]
    cases = random.Random(1).sample(cases, min(PER_KIND, len(cases)))

    async def story(world: World) -> None:
        for data in cases:
            meta = data.get("metadata", {"name": "x"})
            if isinstance(meta, dict):
                meta = {"name": "x", **meta}
            status, body = await world.ask("POST", path_of(served), {**data, "metadata": meta})
            assert (status, body["reason"]) == (400, "BadRequest"), (data, body)
            assert "cannot be handled as a" in body["message"]
        assert (await world.ask("POST", PODS, pod("p")))[0] == 201

    async def run() -> None:
        cluster = EmbeddedCluster.open(path, FakeClock(START))
        async with serving(cluster=cluster) as world:
            await story(world)
        cluster.close()
        again = EmbeddedCluster.open(path, FakeClock(START))
        again.step()
        assert not again.store.set_aside
        assert not again.store.sync_errors
        again.close()

    asyncio.run(run())


WRONG: list[tuple[str, str, Any, dict[str, str]]] = [
    ("PUT", "", {"spec": {"updateStrategy": 1}}, {}),
    ("PATCH", "", {"spec": {"updateStrategy": 1}}, {"type": MERGE}),
    ("PATCH", "", {"spec": {"updateStrategy": True}}, {"type": STRATEGIC}),
    ("PATCH", "", [{"op": "add", "path": "/spec/template", "value": []}], {"type": JSON_PATCH}),
    ("PATCH", "?fieldManager=m", {"spec": {"updateStrategy": "x"}}, {"type": APPLIED}),
    ("PATCH", "?fieldManager=m&force=true", {"spec": {"updateStrategy": 1}}, {"type": APPLIED}),
    ("PUT", "/status", {"status": 1}, {}),
    ("PATCH", "/status", {"status": {"conditions": {}}}, {"type": MERGE}),
    ("PATCH", "/status", {"status": {"conditions": [5]}}, {"type": MERGE}),
    ("PATCH", "/status", [{"op": "add", "path": "/status", "value": [1]}], {"type": JSON_PATCH}),
    ("PATCH", "/status?fieldManager=m", {"status": {"numberReady": "x"}}, {"type": APPLIED}),
]  # fmt: skip


@pytest.mark.parametrize(("method", "where", "body", "headers"), WRONG)
def test_every_way_to_change_an_object_is_checked(
    method: str, where: str, body: Any, headers: dict[str, str]
) -> None:
    """Update, patch, apply and the status, which only programs write."""

    async def run() -> None:
        async with serving() as world:
            made = workload("DaemonSet", "d")
            status, stored = await world.ask("POST", f"{APPS}/daemonsets", made)
            assert status == 201
            given = body
            if method == "PUT":
                given = {**stored, **body, "metadata": {"name": "d"}}
            elif headers["type"] == APPLIED:
                head = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"}}
                given = {**head, **body}
            status, answer = await world.ask(
                method, f"{APPS}/daemonsets/d{where}", given, **headers
            )
            assert (status, answer["reason"]) == (400, "BadRequest"), answer
            assert (await world.ask("GET", f"{APPS}/daemonsets/d"))[0] == 200
            assert not world.cluster.store.sync_errors

    asyncio.run(run())


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("StatefulSet", {"volumeClaimTemplates": [{"metadata": {}}]}),
        ("StatefulSet", {"volumeClaimTemplates": [{}, {}], "podManagementPolicy": "Parallel"}),
        ("StatefulSet", {"updateStrategy": {"rollingUpdate": {"partition": 2**31 - 1}}}),
        ("DaemonSet", {"updateStrategy": {"rollingUpdate": {"maxUnavailable": "9" * 5000 + "%"}}}),
        ("Deployment", {"strategy": {"rollingUpdate": {"maxSurge": "9" * 5000 + "%"}}}),
    ],
)  # fmt: skip
def test_odd_values_of_right_types_end_no_process(kind: str, spec: dict[str, Any]) -> None:
    """``volumeClaimTemplates: [{metadata: {}}]`` ended the process; here no controller fails."""

    async def run() -> None:
        async with serving() as world:
            made = workload(kind, "w", **spec)
            status, _ = await world.ask("POST", f"{APPS}/{kind.lower()}s", made)
            assert status in (201, 422)
            world.cluster.step()
            assert not world.cluster.store.sync_errors

    asyncio.run(run())


def nested(depth: int) -> Any:
    """Return objects in each other."""
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


@pytest.mark.parametrize("depth", [300, 900])
def test_objects_nested_too_deep_are_refused(depth: int) -> None:
    """A pod template hundreds deep was accepted; what read it later came near Python's limit."""

    async def run() -> None:
        async with serving() as world:
            made = workload("Deployment", "w")
            made["spec"]["template"]["x"] = nested(depth)
            status, answer = await world.ask("POST", f"{APPS}/deployments", made)
            assert (status, answer["reason"]) == (400, "BadRequest"), answer
            assert "exceeded max depth" in answer["message"] or depth > DEPTH * 2
            made["spec"]["template"]["x"] = nested(100)
            assert (await world.ask("POST", f"{APPS}/deployments", made))[0] == 201
            for _ in range(3):  # each operation may nest what the one before has made
                patch = [{"op": "copy", "from": "/spec/template/x", "path": _lowest(100)}]
                where = f"{APPS}/deployments/w"
                status, answer = await world.ask("PATCH", where, patch, type=JSON_PATCH)
                assert status in (200, 400, 422), answer
            world.cluster.step()
            assert not world.cluster.store.sync_errors

    asyncio.run(run())


def _lowest(depth: int) -> str:
    return "/spec/template/x" + "/a" * (depth - 1) + "/b"


@pytest.mark.parametrize("time", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_times_at_the_ends_of_the_calendar_are_shown(time: str) -> None:
    """A start beyond year 1 or 9999 in UTC was answered by 500 in every table of jobs."""

    async def run() -> None:
        async with serving() as world:
            path = "/apis/batch/v1/namespaces/default/jobs"
            made = workload("Job", "j", template={**SPEC, "restartPolicy": "Never"})
            assert (await world.ask("POST", path, made))[0] == 201
            status = {"status": {"startTime": time, "completionTime": time}}
            code, answer = await world.ask("PATCH", f"{path}/j/status", status, type=MERGE)
            assert code in (200, 400, 422), answer
            accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
            assert (await world.ask("GET", path, accept=accept))[0] == 200
            world.cluster.step()
            assert not world.cluster.store.sync_errors

    asyncio.run(run())
