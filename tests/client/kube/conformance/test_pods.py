"""Conditions, nominations and deletions of pods."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from policy_sched.client.apimachinery.resources import POD
from policy_sched.client.kube.rest.client import STRATEGIC_PATCH
from policy_sched.client.kube.rest.errors import Selection, object_path
from policy_sched.model.pod_info import PodInfo
from policy_sched.scheduler import api_calls
from policy_sched.testing import make_pod
from tests.client.kube.conformance.ground import Acting, Ground, Plain, info, played
from tests.client.kube.stage import WALL

OTHERS = "example.com/Other"


def _conditions(pod: Plain) -> dict[str, Plain]:
    return {c["type"]: c for c in pod["status"].get("conditions", [])}


def test_conditions_and_nominations(server: str) -> None:
    """A condition changes alone, beside others; its time changes with its status only."""

    async def play(ground: Ground) -> None:
        acting = Acting(ground)
        client = acting.client
        pod = await ground.pod("web")
        client.send(
            api_calls.pod_unschedulable(
                pod, "Unschedulable", "0/2 nodes are available", WALL, ground.nodes[0]
            )
        )
        assert await acting.done() == []
        seen = await ground.seen("web")
        first = _conditions(seen)["PodScheduled"]
        assert (first["status"], first["reason"]) == ("False", "Unschedulable")
        assert seen["status"]["nominatedNodeName"] == ground.nodes[0]
        again = info(seen)
        client.send(api_calls.pod_unschedulable(again, "SchedulerError", "a plugin broke", WALL))
        client.send(api_calls.disruption_target(again, "policy-sched: preempting", WALL))
        client.send(api_calls.nomination(again, ""))
        assert await acting.done() == []
        seen = await ground.seen("web")
        found = _conditions(seen)
        assert found["PodScheduled"]["message"] == "a plugin broke"
        assert found["PodScheduled"]["lastTransitionTime"] == first["lastTransitionTime"]
        assert found["DisruptionTarget"]["reason"] == "PreemptionByScheduler"
        assert "nominatedNodeName" not in seen["status"]

    played(server, play)


def test_conditions_of_others_are_kept(server: str) -> None:
    """Conditions of others, and what else is in the status, are not touched by ours."""

    async def play(ground: Ground) -> None:
        acting = Acting(ground)
        pod = await ground.pod("web")
        status = {"conditions": [{"type": OTHERS, "status": "True"}], "message": "of others"}
        path = object_path(POD, ground.namespace, "web", "status")
        patch = {"status": status}
        await ground.api.request("PATCH", path, patch, content_type=STRATEGIC_PATCH)
        acting.client.send(api_calls.nomination(pod, ground.nodes[0]))
        acting.client.send(api_calls.pod_unschedulable(pod, "Unschedulable", "no room", WALL))
        acting.client.send(api_calls.disruption_target(pod, "preempted", WALL))
        assert await acting.done() == []
        seen = await ground.seen("web")
        assert _conditions(seen).keys() >= {OTHERS, "PodScheduled", "DisruptionTarget"}
        assert _conditions(seen)[OTHERS]["status"] == "True"
        assert seen["status"]["message"] == "of others"
        assert seen["status"]["nominatedNodeName"] == ground.nodes[0]

    played(server, play)


def test_a_binding_settles_the_condition(server: str) -> None:
    """PodScheduled is true of a pod that was refused before, and says nothing else."""

    async def play(ground: Ground) -> None:
        acting = Acting(ground)
        pod = await ground.pod("web")
        acting.client.send(
            api_calls.pod_unschedulable(pod, "Unschedulable", "no room", WALL, ground.nodes[1])
        )
        assert await acting.bound(pod, ground.nodes[0]) is None
        seen = await ground.seen("web")
        condition = _conditions(seen)["PodScheduled"]
        assert condition["status"] == "True"
        assert "reason" not in condition

    played(server, play)


def test_changes_by_uid_leave_another_pod_of_the_name_alone(server: str) -> None:
    """Deletion and conditions meant for a pod that has gone do nothing to its successor."""

    async def play(ground: Ground) -> None:
        acting = Acting(ground)
        await ground.pod("web")
        stale = PodInfo.of(make_pod("web", namespace=ground.namespace, uid="0-0-0"))
        acting.client.send(api_calls.pod_deletion(stale))
        acting.client.send(api_calls.disruption_target(stale, "x", WALL))
        assert await acting.done() == []
        seen = await ground.seen("web")
        assert "DisruptionTarget" not in _conditions(seen)
        assert "deletionTimestamp" not in seen["metadata"]
        acting.client.send(api_calls.pod_unschedulable(stale, "Unschedulable", "x", WALL))
        failures = await acting.done()
        assert [call for call, _ in failures] == ["patch pods/status"]

    played(server, play)


def test_a_status_of_a_deleted_pod_is_no_failure(server: str) -> None:
    """A victim may go by itself; of a pod that waits it is told."""

    async def play(ground: Ground) -> None:
        acting = Acting(ground)
        pod = await ground.pod("web")
        await ground.delete("web")
        acting.client.send(api_calls.disruption_target(pod, "x", WALL))
        acting.client.send(api_calls.pod_deletion(pod))
        assert await acting.done() == []
        acting.client.send(api_calls.nomination(pod, ground.nodes[0]))
        ((call, error),) = await acting.done()
        assert (call, "not found" in str(error)) == ("patch pods/status", True)

    played(server, play)


def test_a_pod_is_deleted_once(server: str) -> None:
    """A pod that is bound nowhere goes at once; deleting it again is no error."""

    async def play(ground: Ground) -> None:
        acting = Acting(ground)
        pod = await ground.pod("web")
        acting.client.send(api_calls.pod_deletion(pod))
        acting.client.send(api_calls.pod_deletion(pod))
        assert await acting.done() == []
        assert not await ground.there("web")

    played(server, play)


def test_a_pod_with_a_node_has_its_time_to_go(server: str) -> None:
    """Its own grace period; deleting it again, or when it has gone, is no error."""

    async def play(ground: Ground) -> None:
        acting = Acting(ground)
        pod = await ground.pod("web", terminationGracePeriodSeconds=77)
        assert await acting.bound(pod, ground.nodes[0]) is None
        since = (await ground.seen("web"))["metadata"]["resourceVersion"]
        selection = Selection(POD, ground.namespace)
        query = selection.query(watch="true", resourceVersion=since)
        async with ground.api.stream(selection.path, query, silence=60.0) as chunks:
            acting.client.send(api_calls.disruption_target(pod, "preempted", WALL))
            acting.client.send(api_calls.pod_deletion(pod))
            acting.client.send(api_calls.pod_deletion(pod))
            assert await acting.done() == []
            going = await _going(chunks)  # pods without a node may end at once
        assert going["metadata"]["deletionGracePeriodSeconds"] == 77
        assert _conditions(going)["DisruptionTarget"]["status"] == "True"

    played(server, play)


async def _going(chunks: AsyncIterator[list[bytes]]) -> Plain:
    """Return a pod as it was when its deletion began."""
    async for lines in chunks:
        for line in lines:
            pod: Plain = json.loads(line)["object"]
            if "deletionTimestamp" in pod["metadata"]:
                return pod
    raise AssertionError("the watch ended")
