"""Events and conditions of the scheduler, to the letter, read from behind the cluster's API."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from policy_sched.client.apimachinery.resources import EVENT, POD
from policy_sched.profiles.reload.inputs import PolicyFiles
from tests.instance.app.test_cluster_instance import World, acted, node, pod
from tests.profiles.policy_texts import write

Plain = dict[str, Any]


def events(world: World, reason: str) -> list[Plain]:
    """Return the events with a reason, in the order of their names."""
    found = [stored.data for stored in world.cluster.store.select(EVENT)]
    ours = [event for event in found if event["reason"] == reason]
    return sorted(ours, key=lambda event: str(event["metadata"]["name"]))


def condition(world: World, name: str, kind: str) -> Plain | None:
    """Return a condition of a pod, as the API has it."""
    found = [s.data for s in world.cluster.store.select(POD) if s.name == name]
    conditions = [c for data in found for c in data["status"].get("conditions", ())]
    return next((one for one in conditions if one["type"] == kind), None)


async def until(messages: Any) -> Any:
    """Wait until a result is true, and return it."""
    while not (found := messages()):
        await asyncio.sleep(0.01)
    return found


def test_a_binding_is_an_event() -> None:
    """Reason, action, type and note; reporter; the pod it is about."""

    async def play(world: World) -> None:
        world.apply(node("n"), pod("p"))
        async with world.served(), world.scheduler():
            (event,) = await until(lambda: events(world, "Scheduled"))
        assert (event["type"], event["action"]) == ("Normal", "Binding")
        assert event["note"] == "Successfully assigned default/p to n"
        assert event["reportingController"] == "default-scheduler"
        assert event["reportingInstance"].startswith("default-scheduler")
        assert event["regarding"]["kind"] == "Pod"
        assert (event["regarding"]["namespace"], event["regarding"]["name"]) == ("default", "p")
        assert "related" not in event
        assert re.fullmatch(r"p\.[0-9a-f]+", event["metadata"]["name"])

    acted(play)


def test_a_rejection_is_an_event_and_a_condition() -> None:
    """With the message of kube-scheduler's FitError; the condition has the pod's generation."""
    words = (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
        "preemption: 0/1 nodes are available:"
        " 1 Preemption is not helpful for scheduling."
    )

    async def play(world: World) -> None:
        world.apply(node("n"), pod("p", "64"))
        async with world.served(), world.scheduler():
            (event,) = await until(lambda: events(world, "FailedScheduling"))
            found = await until(lambda: condition(world, "p", "PodScheduled"))
        assert (event["type"], event["action"], event["note"]) == ("Warning", "Scheduling", words)
        assert (found["status"], found["reason"]) == ("False", "Unschedulable")
        assert found["message"] == words
        assert found["observedGeneration"] == 1

    acted(play)


def test_an_empty_cluster_has_its_own_message() -> None:
    """As in kube-scheduler."""

    async def play(world: World) -> None:
        world.apply(pod("p"))
        async with world.served(), world.scheduler():
            found = await until(lambda: condition(world, "p", "PodScheduled"))
        assert found["message"] == "no nodes available to schedule pods"

    acted(play)


def test_a_long_message_is_cut_in_the_event_only() -> None:
    """1,024 characters with an ellipsis in the event; the condition has all of it."""

    requested = {f"example.com/device-{number}-with-a-long-name": "1" for number in range(40)}
    container = {
        "name": "c",
        "image": "x",
        "resources": {"requests": requested, "limits": requested},
    }

    async def play(world: World) -> None:
        world.apply(node("n"), pod("p", containers=[container]))
        async with world.served(), world.scheduler():
            found = await until(lambda: condition(world, "p", "PodScheduled"))
            (event,) = await until(lambda: events(world, "FailedScheduling"))
        assert len(event["note"]) == 1024
        assert event["note"].endswith(" ...")
        assert len(found["message"]) > 1024
        assert found["message"].startswith(event["note"].removesuffix(" ..."))

    acted(play)


def test_a_victims_event_names_the_preemptor() -> None:
    """A condition before it is deleted, and an event that names the preemptor."""

    async def play(world: World) -> None:
        world.apply(node("n"), pod("low", "4"))
        async with world.served(), world.scheduler():
            await until(lambda: "low" in world.bound())
            world.apply(pod("high", "4", priority=1000))
            (event,) = await until(lambda: events(world, "Preempted"))
            found = await until(lambda: condition(world, "low", "DisruptionTarget"))
            (stored,) = [s for s in world.cluster.store.select(POD) if s.name == "high"]
            failed = await until(lambda: condition(world, "high", "PodScheduled"))
        assert (event["type"], event["action"]) == ("Normal", "Preempting")
        assert event["note"] == f"Preempted by pod {stored.uid} on node n"
        assert (event["regarding"]["name"], event["related"]["name"]) == ("low", "high")
        assert event["related"]["uid"] == stored.uid
        assert (found["status"], found["reason"]) == ("True", "PreemptionByScheduler")
        assert found["message"] == (
            "default-scheduler: preempting to accommodate a higher priority pod"
        )
        assert failed["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")

    acted(play)


TWO = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: second
"""


def test_each_profile_reports_its_own_events(tmp_path: Path) -> None:
    """The reporter of an event is the pod's schedulerName."""
    write(tmp_path / "config.yaml", TWO)

    async def play(world: World) -> None:
        world.policies = PolicyFiles(str(tmp_path / "config.yaml"), ())
        world.apply(node("n"), pod("p", schedulerName="second"), pod("q"))
        async with world.served(), world.scheduler():
            found = await until(lambda: len(events(world, "Scheduled")) == 2)
        assert found
        messages = {e["regarding"]["name"]: e for e in events(world, "Scheduled")}
        assert messages["p"]["reportingController"] == "second"
        assert messages["p"]["reportingInstance"].startswith("second")
        assert messages["q"]["reportingController"] == "default-scheduler"

    acted(play)


def test_a_gated_pod_has_the_api_servers_condition() -> None:
    """The scheduler does not touch it."""

    async def play(world: World) -> None:
        world.apply(node("n"), pod("p", schedulingGates=[{"name": "wait"}]), pod("q"))
        async with world.served(), world.scheduler():
            await until(lambda: "q" in world.bound())
            found = condition(world, "p", "PodScheduled")
        assert found is not None
        assert (found["reason"], found["status"]) == ("SchedulingGated", "False")
        assert found["message"] == "Scheduling is blocked due to non-empty scheduling gates"
        assert events(world, "FailedScheduling") == []

    acted(play)


def test_a_bound_pod_has_the_api_servers_condition() -> None:
    """PodScheduled is True, with no reason of an earlier attempt."""

    async def play(world: World) -> None:
        world.apply(pod("p"))
        async with world.served(), world.scheduler():
            await until(lambda: condition(world, "p", "PodScheduled"))
            world.apply(node("n"))
            await until(lambda: "p" in world.bound())
            found = condition(world, "p", "PodScheduled")
        assert found is not None
        assert found["status"] == "True"
        assert not found.get("reason")

    acted(play)
