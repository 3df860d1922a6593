"""Pod groups of scheduling.k8s.io, where a server serves them (an alpha API, off by default)."""

from __future__ import annotations

import pytest

from policy_sched.client.apimachinery.resources import GROUP, ApiError
from policy_sched.client.kube.rest.errors import NOT_FOUND, Selection
from policy_sched.model.pod_group import PodGroup
from policy_sched.scheduler import api_calls
from tests.client.kube.conformance.ground import Acting, Ground, played, typed
from tests.client.kube.stage import WALL

GANG = {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}


def test_whether_a_group_has_its_nodes_is_a_condition(server: str) -> None:
    """Its time changes with its status; of a group that has gone nothing is said."""

    async def play(ground: Ground) -> None:
        try:
            await ground.listed(Selection(GROUP, ground.namespace))
        except ApiError as error:
            if error.code != NOT_FOUND:
                raise
            pytest.skip(f"the server does not serve {GROUP[0]} {GROUP[1]}")
        acting = Acting(ground)
        group = typed(await ground.make(GROUP, "gang", GANG), PodGroup)
        assert group.min_count == 2
        acting.client.send(
            api_calls.group_scheduled(group, "Unschedulable", "no room", WALL, scheduled=False)
        )
        assert await acting.done() == []
        seen = await ground.seen("gang", GROUP)
        (first,) = seen["status"]["conditions"]
        assert (first["status"], first["reason"]) == ("False", "Unschedulable")
        again = typed(seen, PodGroup)
        acting.client.send(
            api_calls.group_scheduled(again, "Unschedulable", "still none", WALL, scheduled=False)
        )
        assert await acting.done() == []
        (second,) = (await ground.seen("gang", GROUP))["status"]["conditions"]
        assert second["message"] == "still none"
        assert second["lastTransitionTime"] == first["lastTransitionTime"]
        gone = typed({**seen, "metadata": {**seen["metadata"], "name": "none"}}, PodGroup)
        acting.client.send(api_calls.group_scheduled(gone, "Scheduled", "", WALL, scheduled=True))
        assert await acting.done() == []

    played(server, play)
