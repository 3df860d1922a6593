"""What the suite has made is gone afterwards, whatever became of it."""

from __future__ import annotations

import asyncio

import pytest

from policy_sched.client.apimachinery.resources import CLAIM, NAMESPACE, VOLUME, ApiError
from policy_sched.client.kube.rest.errors import object_path
from policy_sched.client.kube.time.work_queue import SECOND
from tests.client.kube.conformance import leaving
from tests.client.kube.conformance.ground import ACCOUNT, Acting, Ground, Plain, played
from tests.client.kube.stage import Asked, Stage, Wire, stage

HELD = {"finalizers": ["policy-sched.example.com/hold"]}
STATUS = {"kind": "Status", "status": "Failure", "reason": "NotFound", "message": "x", "code": 404}


def test_everything_that_was_made_goes(server: str) -> None:
    """Bound pods, what finalizers hold, claims, volumes; what has gone before is no trouble."""

    async def play(ground: Ground) -> None:
        pod = await ground.pod("bound", HELD)
        assert await Acting(ground).bound(pod, ground.nodes[0]) is None
        await ground.pod("gone")
        await ground.delete("gone")
        storage = {"storageClassName": ground.namespace, "accessModes": ["ReadWriteOnce"]}
        size = {"storage": "1Gi"}
        disk = {"hostPath": {"path": "/none"}, "capacity": size}
        volume = f"{ground.namespace}-pv"
        await ground.make(VOLUME, volume, {"spec": {**storage, **disk}}, alone=True)
        await ground.make(CLAIM, "c", {"spec": {**storage, "resources": {"requests": size}}})
        await leaving.clear(ground.api, ground.made, ground.namespace)
        for kind, namespace, name in ground.made:
            if kind not in (NAMESPACE, ACCOUNT):  # which controllers see to
                with pytest.raises(ApiError) as caught:
                    await ground.api.get(object_path(kind, namespace, name))
                assert caught.value.code == 404
        with pytest.raises(ApiError) as caught:
            await ground.pod("late")
        assert caught.value.code in (403, 404), "the namespace is going, or gone"

    played(server, play)


def test_a_play_that_fails_is_cleared_too() -> None:
    """And fails with its own words."""

    async def play(ground: Ground) -> None:
        grounds.append(ground)
        await ground.pod("web", HELD)
        raise AssertionError("this is the failure")

    grounds: list[Ground] = []
    with pytest.raises(AssertionError, match="this is the failure"):
        played("embedded", play)
    assert grounds[0].made == []


def test_a_namespace_without_a_controller_is_finalized() -> None:
    """After a while in which no controller has said anything; one that is at work has time."""
    ended: list[Plain] = []

    async def script(asked: Asked, wire: Wire) -> None:
        if asked.method == "DELETE":
            await wire.respond(404, STATUS)
            return
        if asked.method == "PUT":
            assert asked.path == "/api/v1/namespaces/bare/finalize"
            ended.append(asked.json)
            await wire.respond(200, asked.json)
            return
        name = asked.path.split("/")[4]
        slow = name == "slow"
        if play.monotonic() > 60 * SECOND if slow else ended:
            await wire.respond(404, STATUS)
            return
        status: Plain = {"phase": "Terminating", "conditions": [{"type": "x"}] if slow else None}
        spec = {"finalizers": ["kubernetes"]}
        await wire.respond(200, {"metadata": {"name": name}, "spec": spec, "status": status})

    async def run() -> None:
        nonlocal play
        async with stage(script) as play, play.api() as api:
            assert await leaving.end(api, "bare") == ""
            assert leaving.SILENCE < play.monotonic() / SECOND < 2 * leaving.SILENCE
            assert ended == [
                {
                    "metadata": {"name": "bare"},
                    "spec": {"finalizers": []},
                    "status": {"phase": "Terminating", "conditions": None},
                }
            ]
            assert await leaving.end(api, "slow") == ""

    play = Stage()
    asyncio.run(run())
