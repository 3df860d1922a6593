"""What a scheduler writes, as it arrives at the server.

Bindings of unknown fate: what is asked, what is sent again, and what holds in the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextvars import ContextVar
from functools import partial
from threading import Event, current_thread, main_thread
from typing import Any

import pytest

from policy_sched.client.kube.client import KubeClient, NotLeading
from policy_sched.client.kube.rest.client import Api
from policy_sched.client.kube.rest.retry import RetryPolicy
from policy_sched.client.kube.rest.settings import Settings
from policy_sched.errors import ClusterError
from policy_sched.model import storage
from policy_sched.model.meta import Condition, ObjectMeta
from policy_sched.model.pod_group import PodGroup, PodGroupStatus
from policy_sched.model.pod_info import PodInfo
from policy_sched.plugins.volumes.binding import claim_patch, volume_patch
from policy_sched.scheduler import api_calls
from policy_sched.testing import make_pod
from tests.client.kube.stage import (
    WALL,
    Asked,
    Script,
    Stage,
    Wire,
    acted,
    pod as pod_json,
    stage,
    status,
)

POD = PodInfo.of(make_pod("web", uid="u1"))
PATH = "/api/v1/namespaces/default/pods/web"


class Told:
    """Collects what a client reports."""

    def __init__(self) -> None:
        self.bound: list[ClusterError | None] = []
        self.failures: list[tuple[str, str]] = []
        self.woken = 0

    def failed(self, call: str, key: str, _error: ClusterError) -> None:
        self.failures.append((call, key))

    def wake(self) -> None:
        self.woken += 1


CONNECTED: ContextVar[bool] = ContextVar("CONNECTED", default=False)
"""Whether a connection is open when the client acts, so that it needs no task."""
EARLIER = "/earlier"


@pytest.fixture(params=[False, True], ids=["first", "later"])
def connected(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run a test for a first request, and for one that finds an open connection."""
    token = CONNECTED.set(request.param)
    yield
    CONNECTED.reset(token)


pytestmark = pytest.mark.usefixtures("connected")


def after_earlier(script: Script) -> Script:
    """Accept the request that opens the connection."""

    async def both(asked: Asked, wire: Wire) -> None:
        if asked.path == EARLIER:
            await wire.respond(200, {})
        else:
            await script(asked, wire)

    return both


def written(
    script: Script, act: Callable[[KubeClient, Told], None], **options: Any
) -> tuple[Stage, Told]:
    """Let a client act, and wait until all is sent."""
    result: list[Any] = []

    async def play() -> None:
        settings = Settings(retry_policy=RetryPolicy(tries=2))
        async with stage(after_earlier(script)) as here, here.api(settings) as api:
            if CONNECTED.get():
                await api.request("POST", EARLIER, {})
                here.asked.clear()
            told = Told()
            client = KubeClient(api, failed=told.failed, wake=told.wake, **options)
            act(client, told)
            await client.lanes.drained()
            client.lanes.check()
            result.extend((here, told))

    acted(play())
    return result[0], result[1]


async def yes(asked: Asked, wire: Wire) -> None:
    """Accept everything."""
    await wire.respond(201, {"kind": "Status", "status": "Success"})


def refusing(
    code: int, found: dict[str, Any] | None = None, why: str = "no", **details: Any
) -> Script:
    """Refuse every write; a read finds this pod."""

    async def script(asked: Asked, wire: Wire) -> None:
        if asked.method == "GET" and found is not None:
            await wire.respond(200, found)
        else:
            await wire.respond(code, status(code, "Conflict", why, **details))

    return script


def bind(client: KubeClient, told: Told) -> None:
    """Bind the pod."""
    client.bind(POD, "node-a", told.bound.append)


def test_a_binding_names_the_pod_by_uid() -> None:
    """POST to the binding subresource; the callback is told, then the owner is woken."""
    here, told = written(yes, bind)
    asked = here.asked[0]
    assert (asked.method, asked.path) == ("POST", f"{PATH}/binding")
    assert asked.json["metadata"] == {"name": "web", "namespace": "default", "uid": "u1"}
    assert asked.json["target"] == {"kind": "Node", "name": "node-a"}
    assert told.bound == [None]
    assert told.woken == 1


def test_a_client_that_does_not_lead_writes_nothing() -> None:
    """Without the lease a binding fails before it is sent, and so does everything else."""

    def act(client: KubeClient, told: Told) -> None:
        bind(client, told)
        client.send(api_calls.pod_deletion(POD))

    here, told = written(yes, act, leads=lambda: False)
    assert here.asked == []
    assert isinstance(told.bound[0], NotLeading)
    assert told.failures == [("delete pods", "default/web")]


def test_conditions_and_nominations_are_strategic_patches() -> None:
    """One condition by its type, the nomination beside it, the UID as a precondition."""

    def act(client: KubeClient, told: Told) -> None:
        client.send(
            api_calls.pod_unschedulable(
                POD, "Unschedulable", "0/2 nodes are available", WALL, "node-b"
            )
        )
        client.send(api_calls.nomination(POD, "node-c"))
        client.send(api_calls.nomination(POD, ""))
        client.send(api_calls.disruption_target(POD, "default-scheduler: preempting", WALL))

    here, told = written(yes, act)
    assert {a.path for a in here.asked} == {f"{PATH}/status"}
    assert {a.headers["content-type"] for a in here.asked} == {
        "application/strategic-merge-patch+json"
    }
    first, second, third, fourth = (asked.json for asked in here.asked)
    assert first["metadata"] == {"uid": "u1"}
    assert first["status"] == {
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "0/2 nodes are available",
                "lastTransitionTime": "2027-01-15T08:00:00Z",
            }
        ],
        "nominatedNodeName": "node-b",
    }
    assert second["status"] == {"nominatedNodeName": "node-c"}
    assert third["status"] == {"nominatedNodeName": None}
    assert fourth["status"]["conditions"][0]["reason"] == "PreemptionByScheduler"
    assert told.failures == []


def test_the_time_of_a_condition_changes_only_with_its_status() -> None:
    """A condition that is False already keeps its lastTransitionTime."""
    before = make_pod("web", uid="u1")
    before.status.conditions = (_false("PodScheduled"),)
    info = PodInfo.of(before)
    here, _ = written(
        yes,
        lambda client, _: client.send(
            api_calls.pod_unschedulable(info, "Unschedulable", "x", WALL)
        ),
    )
    assert "lastTransitionTime" not in here.asked[0].json["status"]["conditions"][0]


def test_the_condition_of_a_pod_group() -> None:
    """Patched in the group's status, with its UID; a group that has gone is no error."""
    meta = ObjectMeta(name="g", namespace="d", uid="gu")
    group = PodGroup(
        metadata=meta, status=PodGroupStatus(conditions=(_false("PodGroupScheduled"),))
    )

    def act(client: KubeClient, told: Told) -> None:
        client.send(
            api_calls.group_scheduled(group, "Unschedulable", "no room", WALL, scheduled=False)
        )
        client.send(api_calls.group_scheduled(group, "Scheduled", "", WALL, scheduled=True))

    for script in (yes, refusing(404)):
        here, told = written(script, act)
        path = "/apis/scheduling.k8s.io/v1alpha2/namespaces/d/podgroups/g/status"
        assert {asked.path for asked in here.asked} == {path}
        assert told.failures == []
        first, second = (asked.json["status"]["conditions"] for asked in here.asked)
        assert here.asked[0].json["metadata"] == {"uid": "gu"}
        assert first == [
            {
                "type": "PodGroupScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "no room",
            }
        ]
        assert (second[0]["status"], "lastTransitionTime" in second[0]) == ("True", True)


def _false(kind: str) -> Any:
    return Condition(type=kind, status="False")


def test_victims_are_deleted_by_uid_and_may_have_gone() -> None:
    """The UID is a precondition; not found, or another UID, means gone, which was wanted."""
    uid = "Precondition failed: UID in precondition: u1, UID in object meta: u2"
    cause = {"reason": "FieldValueInvalid", "field": "metadata.uid"}

    def act(client: KubeClient, told: Told) -> None:
        client.send(api_calls.disruption_target(POD, "x", WALL))
        client.send(api_calls.pod_deletion(POD))

    gone = (refusing(404), refusing(409, why=uid), refusing(422, causes=[cause]))
    for script in (yes, *gone):
        here, told = written(script, act)
        assert [asked.method for asked in here.asked] == ["PATCH", "DELETE"]
        assert here.asked[1].json["preconditions"] == {"uid": "u1"}
        assert told.failures == []
    _, told = written(refusing(403), act)
    assert told.failures == [
        ("patch pods/status", "default/web"),
        ("delete pods", "default/web"),
    ]


def test_a_patch_that_others_overtook_is_sent_again() -> None:
    """The server could not apply it to what it read; it says nothing of what it leaves alone."""
    for conflicts, expected in ((2, []), (9, [("patch pods/status", "default/web")])):
        left = [""] * conflicts

        async def script(asked: Asked, wire: Wire, left: list[str] = left) -> None:
            if not left:
                return await wire.respond(200, {})
            left.pop()
            why = "the object has been modified; please apply your changes to the latest version"
            return await wire.respond(409, status(409, "Conflict", why))

        here, told = written(script, lambda client, _: client.send(api_calls.nomination(POD, "n")))
        assert len(here.asked) == min(conflicts + 1, 5)
        assert told.failures == expected


def test_calls_for_one_pod_arrive_in_order_and_others_do_not_wait() -> None:
    """A slow answer holds up only what concerns the same pod."""
    others = [PodInfo.of(make_pod(f"p{i}", uid=f"p{i}")) for i in range(3)]
    meanwhile = {f"{other.name} binding" for other in others}
    order: list[str] = []

    async def script(asked: Asked, wire: Wire) -> None:
        while "/web/" in asked.path and not meanwhile <= set(order):
            await _moment()
        order.append(asked.path.rpartition("/pods/")[2].replace("/", " "))
        await wire.respond(200, {})

    def act(client: KubeClient, told: Told) -> None:
        client.send(api_calls.nomination(POD, "n"))
        bind(client, told)
        for other in others:
            client.bind(other, "n", told.bound.append)

    written(script, act)
    assert set(order[:3]) == meanwhile
    assert order[3:] == ["web status", "web binding"]


async def _moment() -> None:
    await asyncio.sleep(0.001)


def test_volumes_and_claims_are_patched_at_the_version_that_was_seen() -> None:
    """claimRef with UID, the selected node as an annotation; the version guards both."""
    volume = storage.PersistentVolume(
        metadata=ObjectMeta(name="pv", uid="v", resource_version="8"),
        spec=storage.PersistentVolumeSpec(
            claim_ref=storage.ClaimReference(namespace="d", name="c", uid="cu")
        ),
    )
    chosen = {"volume.kubernetes.io/selected-node": "node-a"}
    claim = storage.PersistentVolumeClaim(
        metadata=ObjectMeta(
            name="c", namespace="d", uid="cu", resource_version="9", annotations=chosen
        ),
        spec=storage.PersistentVolumeClaimSpec(),
    )

    def act(client: KubeClient, told: Told) -> None:
        client.send(volume_patch(volume))
        client.send(claim_patch(claim))

    here, _ = written(yes, act)
    by_path = {asked.path: asked.json for asked in here.asked}
    first = by_path["/api/v1/persistentvolumes/pv"]
    assert first["spec"]["claimRef"]["uid"] == "cu"
    assert first["metadata"]["resourceVersion"] == "8"
    second = by_path["/api/v1/namespaces/d/persistentvolumeclaims/c"]
    assert second["metadata"] == {"resourceVersion": "9", "annotations": chosen}


def test_events_are_counted_in_series() -> None:
    """Said once: an event. Twice: a series is patched. After that only counted."""
    result: list[Stage] = []

    async def play() -> None:
        async with stage(yes) as here, here.api() as api:
            result.append(here)
            await _say(api, ["x", "y", "z"])

    acted(play())
    made, series = result[0].asked
    assert made.path == "/apis/events.k8s.io/v1/namespaces/default/events"
    event = made.json
    assert event["metadata"]["name"].startswith("web.")
    assert event["reportingController"] == "policy-sched"
    assert event["reportingInstance"] == "policy-sched-host"
    assert event["eventTime"] == "2027-01-15T08:00:00.000000Z"
    assert event["regarding"]["uid"] == "u1"
    assert series.method == "PATCH"
    assert series.json["series"]["count"] == 2


def test_a_status_patch_that_conflicts_is_sent_again() -> None:
    """Events name the version of their pods, as client-go's do: another one is another event."""
    result: list[Stage] = []
    changed, other = (make_pod("web", uid="u1") for _ in range(2))
    changed.metadata.resource_version = "8"
    other.metadata.resource_version = "5"

    async def play() -> None:
        async with stage(yes) as here, here.api() as api:
            result.append(here)
            client = KubeClient(api, reporter="policy-sched")
            for pod in (POD, PodInfo.of(changed), PodInfo.of(changed)):
                about = pod, "Normal", "Preempted", "Preempting", "gone", PodInfo.of(other)
                client.record_event(*about)
            await client.events.drained()

    acted(play())
    first, second, series = (asked.json for asked in result[0].asked)
    assert "resourceVersion" not in first["regarding"]
    assert second["regarding"]["resourceVersion"] == "8"
    assert second["related"]["resourceVersion"] == "5"
    assert series["series"]["count"] == 2


async def _say(api: Api, notes: list[str]) -> None:
    client = KubeClient(api, reporter="policy-sched", instance="policy-sched-host")
    for note in notes:
        client.record_event(POD, "Warning", "FailedScheduling", "Scheduling", note)
    await client.events.drained()


def test_events_that_cannot_be_written_are_lost_and_counted() -> None:
    """A refusal is final; a failing server is asked twelve times; a lost series is made anew."""

    async def play() -> None:
        async with stage(refusing(403)) as here, here.api() as api:
            await _said(api, 1)
            assert len(here.asked) == 1
        async with stage(refusing(409)) as here, here.api() as api:
            await _said(api, 1)
        async with stage(refusing(500)) as here, here.api() as api:
            await _said(api, 1)
            assert len(here.asked) == 12

        async def forgetful(asked: Asked, wire: Wire) -> None:
            code = 404 if asked.method == "PATCH" else 201
            await wire.respond(code, status(code, "NotFound"))

        async with stage(forgetful) as here, here.api() as api:
            await _say(api, ["x", "x"])
            assert [asked.method for asked in here.asked] == ["POST", "PATCH", "POST"]
            assert here.asked[2].json["series"]["count"] == 2

    acted(play())


def _said(api: Api, lost: int) -> Coroutine[Any, Any, None]:
    async def say() -> None:
        told = Told()
        client = KubeClient(api, failed=told.failed)
        client.record_event(POD, "Normal", "Scheduled", "Binding", "x")
        await client.events.drained()
        assert client.events.lost == lost
        assert told.failures == [("record_event", "default/web")]

    return say()


def test_bindings_in_threads_do_not_block_the_loop() -> None:
    """The work is done in a thread, after what is under way for the pod; others are not held."""
    order: list[str] = []
    over = Event()

    async def script(asked: Asked, wire: Wire) -> None:
        order.append(asked.path.removeprefix("/api/v1/namespaces/default/pods/"))
        if len(order) == 3:
            over.set()
        await yes(asked, wire)

    def work() -> None:
        order.append("asked" if current_thread() is not main_thread() else "held")
        assert over.wait(60)

    def act(client: KubeClient, told: Told) -> None:
        client.send(api_calls.nomination(POD, "node-a"))
        client.delegate(POD, work, told.bound.append)
        client.send(api_calls.nomination(POD, ""))
        client.lanes.add("other", partial(_when, lambda: "asked" in order, client, told))

    _, told = written(script, act)
    assert order == ["web/status", "asked", "other/binding", "web/status"]
    assert told.bound == [None, None]
    assert told.woken == 2


async def _when(ready: Callable[[], bool], client: KubeClient, told: Told) -> None:
    """Bind another pod when something is so."""
    while not ready():
        await _moment()
    client.bind(PodInfo.of(make_pod("other", uid="u2")), "node-a", told.bound.append)


def test_a_client_that_does_not_lead_calls_no_binder() -> None:
    """A call to another server is a write as well."""
    asked: list[str] = []
    refused: list[ClusterError | None] = []

    def act(client: KubeClient, _told: Told) -> None:
        client.delegate(POD, lambda: asked.append("asked"), refused.append)

    written(yes, act, leads=lambda: False)
    assert asked == []
    assert isinstance(refused[0], NotLeading)


__all__ = ["connected"]


def test_a_conflict_is_settled_by_reading_the_pod() -> None:
    """Bound to the node that we chose is bound; elsewhere, or another pod, is the conflict."""
    _, told = written(refusing(409, pod_json("web", 7, uid="u1", nodeName="node-a")), bind)
    assert told.bound == [None]
    for other in (
        pod_json("web", 7, uid="u1", nodeName="node-b"),
        pod_json("web", 7, uid="u2", nodeName="node-a"),
        {"not": "a pod"},
    ):
        _, told = written(refusing(409, other), bind)
        assert [str(error) for error in told.bound] == ["no"]


def test_a_conflict_is_no_binding_if_the_pod_cannot_be_read() -> None:
    """A gated pod is bound nowhere, one that is gone is not there: both stay refused."""
    _, told = written(refusing(409, pod_json("web", 7, uid="u1")), bind)
    assert [str(error) for error in told.bound] == ["no"]

    async def script(asked: Asked, wire: Wire) -> None:
        code = 409 if asked.method == "POST" else 404
        await wire.respond(code, status(code, "Why", f"code {code}"))

    _, told = written(script, bind)
    assert [str(error) for error in told.bound] == ["code 409"]


@pytest.mark.parametrize("how", ["cut", "500", "504", "html"])
def test_a_binding_of_unknown_fate_holds_until_the_pod_can_be_read(how: str) -> None:
    """Bound nowhere: sent again, though the server was away for long; then it is settled."""
    posted: list[str] = []
    reads = 0

    async def script(asked: Asked, wire: Wire) -> None:
        nonlocal reads
        if asked.method == "POST":
            posted.append(how)
            if len(posted) > 1:
                return await wire.respond(409, status(409, "Conflict", "is already assigned"))
            if how == "cut":
                return wire.cut()
            if how == "html":
                return await wire.respond(200, b"<html>log in</html>", Content_Type="text/html")
            return await wire.respond(int(how), status(int(how), "InternalError"))
        reads += 1
        if reads < 8:
            return wire.cut()
        bound = {"nodeName": "node-a"} if len(posted) > 1 else {}
        return await wire.respond(200, pod_json("web", 7, uid="u1", **bound))

    _, told = written(script, bind)
    assert told.bound == [None]
    assert len(posted) == 2


def test_a_binding_that_never_takes_is_refused_in_the_end() -> None:
    """A server that fails at each binding, and has bound nothing: five times, then the error."""
    here, told = written(refusing(500, pod_json("web", 7, uid="u1"), "out of order"), bind)
    assert [str(error) for error in told.bound] == ["out of order"]
    assert [asked.method for asked in here.asked] == ["POST", "GET"] * 5


def test_a_former_leader_does_not_retry_a_binding() -> None:
    """Its fate is read all the same: bound is bound."""
    leads = [True, False]

    async def script(asked: Asked, wire: Wire) -> None:
        if asked.method == "POST":
            wire.cut()
        else:
            await wire.respond(200, pod_json("web", 7, uid="u1"))

    here, told = written(script, bind, leads=lambda: leads.pop(0))
    assert [asked.method for asked in here.asked] == ["POST", "GET"]
    assert isinstance(told.bound[0], NotLeading)


def test_a_binding_whose_answer_was_lost_is_settled_by_reading_the_pod() -> None:
    """The connection broke after the binding was sent: it is not sent twice."""

    async def script(asked: Asked, wire: Wire) -> None:
        if asked.method == "POST":
            wire.cut()
        else:
            await wire.respond(200, pod_json("web", 7, uid="u1", nodeName="node-a"))

    here, told = written(script, bind)
    assert told.bound == [None]
    assert [asked.method for asked in here.asked] == ["POST", "GET"]
