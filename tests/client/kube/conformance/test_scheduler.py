"""The scheduler itself, as a process with this server's kubeconfig: it leads, decides and tells.

Its pods ask for a label that no node has, so none is bound, whatever nodes a cluster has.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from policy_sched.client.apimachinery.resources import ApiError
from policy_sched.client.kube.events.broadcaster import EVENT
from policy_sched.client.kube.leaderelection.lease_lock import LEASE
from policy_sched.client.kube.rest.errors import Selection
from policy_sched.scheduler import api_calls
from tests.client.kube.conformance.ground import Acting, Ground, Plain, played, until
from tests.client.kube.stage import WALL

NOWHERE = {"policy-sched.example.com/none": "x"}


def _configuration(ground: Ground) -> Plain:
    """Return what a scheduler of the ground's name is told."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": ground.namespace}],
        "leaderElection": {"resourceNamespace": ground.namespace, "resourceName": "leads"},
    }


@asynccontextmanager
async def _scheduling(ground: Ground, folder: Path, *more: str) -> AsyncIterator[Process]:
    """Run a scheduler; it must end well when it is told to."""
    file = folder / "config.json"
    file.write_text(json.dumps(_configuration(ground)), encoding="utf-8")
    words = ["run", "--kubeconfig", str(ground.kubeconfig), "--config", str(file), *more]
    process = await create_subprocess_exec(
        sys.executable, "-m", "policy_sched", *words, "--secure-port", "0", stderr=PIPE
    )
    talk = asyncio.create_task(process.communicate())
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        _, said = await talk
    assert process.returncode == 0, said.decode()


async def _why(ground: Ground, name: str) -> Plain | None:
    """Return the condition that says why a pod waits, None if there is none yet."""
    found = (await ground.seen(name))["status"].get("conditions", [])
    return next((c for c in found if c["type"] == "PodScheduled"), None)


async def _told(ground: Ground) -> list[Plain]:
    found = await ground.listed(Selection(EVENT, ground.namespace))
    return [event for event in found if event["reason"] == "FailedScheduling"]


async def _holder(ground: Ground) -> str:
    try:
        lease = await ground.seen("leads", LEASE)
    except ApiError:
        return ""
    return str(lease["spec"].get("holderIdentity") or "")


def test_the_scheduler_leads_decides_and_tells(one_server: str, tmp_path: Path) -> None:
    """The lease, a condition, an event in its name; other schedulers' pods are not its own."""

    async def play(ground: Ground) -> None:
        name = ground.namespace
        async with _scheduling(ground, tmp_path):
            await ground.pod("others", nodeSelector=NOWHERE)
            pod = await ground.pod("early", schedulerName=name, nodeSelector=NOWHERE)
            await until(lambda: _holder(ground))
            await ground.pod("late", schedulerName=name, nodeSelector=NOWHERE)
            for waiting in ("early", "late"):
                why = await until(lambda of=waiting: _why(ground, of))
                assert why is not None
                assert (why["status"], why["reason"]) == ("False", "Unschedulable")
                assert "nodes" in why["message"]
            await until(lambda: _enough(ground, 2))
            events = await _told(ground)
            assert {event["regarding"]["name"] for event in events} == {"early", "late"}
            assert pod.uid in {event["regarding"]["uid"] for event in events}
            assert {event["reportingController"] for event in events} == {name}
            assert await _why(ground, "others") is None
        assert await _holder(ground) == "", "the lease was given back"

    played(one_server, play)


async def _enough(ground: Ground, wanted: int) -> bool:
    return len(await _told(ground)) >= wanted


def test_a_shadow_writes_nothing(one_server: str, tmp_path: Path) -> None:
    """It decides the pods of another scheduler, and needs no lease for that."""

    async def play(ground: Ground) -> None:
        name = f"{ground.namespace}-other"
        log = tmp_path / "shadow.log"
        more = ("--shadow", name, "--shadow-log", str(log))
        async with _scheduling(ground, tmp_path, *more):
            pod = await ground.pod("web", schedulerName=name, nodeSelector=NOWHERE)
            other = Acting(ground)
            other.client.send(
                api_calls.pod_unschedulable(pod, "Unschedulable", "of the other scheduler", WALL)
            )
            assert await other.done() == []
            await until(lambda: _written(log, "web"))
            why = await _why(ground, "web")
            assert why is not None
            assert why["message"] == "of the other scheduler"
            assert await _told(ground) == []
            assert await _holder(ground) == ""

    played(one_server, play)


async def _written(log: Path, name: str) -> bool:
    return log.exists() and name in log.read_text(encoding="utf-8")
