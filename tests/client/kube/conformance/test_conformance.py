"""What our client expects of an API server: run against the embedded one, and any that is named.

Set POLICY_SCHED_KUBECONFIG to the path of a kubeconfig to run it against a real kube-apiserver.
Everything happens in a namespace and on nodes of its own, which are deleted in the end.
"""

from __future__ import annotations

import asyncio
import os
from random import Random
from typing import Any, TypeVar

import msgspec
import pytest

from policy_sched.client.embedded.api_error import ApiError
from policy_sched.client.embedded.resources import CLAIM, POD, VOLUME
from policy_sched.client.kube.client import KubeClient
from policy_sched.client.kube.decoding import Decoding
from policy_sched.client.kube.election import Election, ElectionSettings
from policy_sched.client.kube.event_writer import EVENT
from policy_sched.client.kube.leases import LEASE, Elector, Lease
from policy_sched.client.kube.listing import list_all
from policy_sched.client.kube.mirror import Change
from policy_sched.client.kube.paths import Selection, collection_path, object_path
from policy_sched.client.kube.reflector import Reflector, ReflectorSettings
from policy_sched.errors import ClusterError
from policy_sched.model.kinds import decoder
from policy_sched.model.meta import ApiObject
from policy_sched.model.pod import Pod
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.storage import ClaimReference, PersistentVolume, PersistentVolumeClaim
from policy_sched.testing import make_pod
from tests.client.kube.conformance.servers import (
    CLOCKS,
    VARIABLE,
    Ground,
    info,
    plain,
    played,
    until,
)

T = TypeVar("T", bound=ApiObject)


@pytest.fixture(
    params=[
        "embedded",
        pytest.param(
            "named",
            marks=pytest.mark.skipif(VARIABLE not in os.environ, reason=f"{VARIABLE} is not set"),
        ),
    ]
)
def server(request: pytest.FixtureRequest) -> str:
    """Which server."""
    return str(request.param)


class Acting:
    """A client and what it reports."""

    def __init__(self, ground: Ground) -> None:
        self.failures: list[tuple[str, ClusterError]] = []
        self.client = KubeClient(
            ground.api,
            reporter="policy-sched",
            failed=lambda call, _key, error: self.failures.append((call, error)),
        )

    async def bound(self, pod: PodInfo, node: str) -> ClusterError | None:
        """Bind, and return how it went."""
        answers: list[ClusterError | None] = []
        self.client.bind(pod, node, answers.append)
        await self.client.lanes.drained()
        return answers[0]

    async def done(self) -> list[tuple[str, ClusterError]]:
        """Wait until everything is sent; return what failed."""
        await self.client.lanes.drained()
        return self.failures


def test_pages_make_the_whole_list(server: str) -> None:
    """Seven pods in pages of two are seven pods at one version."""

    async def play(ground: Ground) -> None:
        names = [f"p{i}" for i in range(7)]
        for name in names:
            await ground.pod(name)
        selection = Selection(POD, ground.namespace)
        listing = await list_all(ground.api, selection, Decoding(POD, Pod), limit=2)
        assert [pod.metadata.name for pod in listing.items] == names
        assert listing.version
        assert listing.unread == []
        assert listing.items[0].kind == "Pod"

    played(server, play)


def test_selectors_select(server: str) -> None:
    """Field selectors of bound and unbound pods, label selectors in lists."""

    async def play(ground: Ground) -> None:
        await ground.pod("free")
        taken = await ground.pod("taken")
        await ground.merge(POD, "taken", {"metadata": {"labels": {"app": "x"}}})
        assert await Acting(ground).bound(taken, ground.nodes[0]) is None
        for more, expected in (
            ({"field_selector": "spec.nodeName="}, ["free"]),
            ({"field_selector": f"spec.nodeName={ground.nodes[0]}"}, ["taken"]),
            ({"field_selector": "status.phase!=Succeeded,status.phase!=Failed"}, ["free", "taken"]),
            ({"label_selector": "app in (x,y)"}, ["taken"]),
        ):
            selection = Selection(POD, ground.namespace, **more)
            listing = await list_all(ground.api, selection, Decoding(POD, Pod))
            assert [pod.metadata.name for pod in listing.items] == expected

    played(server, play)


@pytest.mark.parametrize("streaming", [True, False])
def test_a_reflector_follows(server: str, *, streaming: bool) -> None:
    """List, changes with old and new, deletion, in order, by streaming list and by pages."""

    async def play(ground: Ground) -> None:
        told: list[Change[Pod]] = []
        reflector = Reflector(
            ground.api,
            Selection(POD, ground.namespace),
            Pod,
            told.extend,
            settings=ReflectorSettings(streaming=streaming, page=1),
        )
        for name in ("a", "b"):
            await ground.pod(name)
        task = asyncio.create_task(reflector.run())
        await reflector.synced.wait()
        assert len(reflector.mirror) == 2
        await ground.pod("c")
        await ground.merge(POD, "c", {"metadata": {"labels": {"app": "x"}}})
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        path = object_path(POD, ground.namespace, "a")
        await ground.api.request("DELETE", path, options)
        await until(lambda: _deleted(told, "a"))
        task.cancel()
        of_c = [change for change in told if change.object.metadata.name == "c"]
        assert [change.type for change in of_c][:2] == ["ADDED", "MODIFIED"]
        assert of_c[1].old is of_c[0].new
        assert of_c[1].object.metadata.labels == {"app": "x"}
        assert len(reflector.mirror) == 2

    played(server, play)


async def _deleted(told: list[Change[Pod]], name: str) -> bool:
    return any(c.type == "DELETED" and c.object.metadata.name == name for c in told)


def test_a_reflector_goes_on_after_its_watch_has_ended(server: str) -> None:
    """Watches that last a second: every pod is told once, none is missed."""

    async def play(ground: Ground) -> None:
        told: list[Change[Pod]] = []
        settings = ReflectorSettings(shortest=0.5)
        selection = Selection(POD, ground.namespace)
        reflector = Reflector(ground.api, selection, Pod, told.extend, settings=settings)
        task = asyncio.create_task(reflector.run())
        await reflector.synced.wait()
        for number in range(6):
            await ground.pod(f"p{number}")
            await asyncio.sleep(0.3)
        await until(lambda: _count(told, 6))
        task.cancel()
        added = [c.object.metadata.name for c in told if c.type == "ADDED"]
        assert added == [f"p{number}" for number in range(6)]

    played(server, play)


async def _count(told: list[Change[Pod]], wanted: int) -> bool:
    return sum(change.type == "ADDED" for change in told) >= wanted


def test_bindings_and_their_refusals(server: str) -> None:
    """Once is bound; twice to the same node is settled; to another, gated or gone is refused."""

    async def play(ground: Ground) -> None:
        acting = Acting(ground)
        here, there = ground.nodes
        pod = await ground.pod("web")
        assert await acting.bound(pod, here) is None
        seen = await ground.seen("web")
        assert seen is not None
        assert seen["spec"]["nodeName"] == here
        assert await acting.bound(pod, here) is None
        gated = await ground.pod("gated", schedulingGates=[{"name": "example.com/wait"}])
        missing = PodInfo.of(make_pod("none", namespace=ground.namespace, uid="x"))
        other = PodInfo.of(make_pod("free", namespace=ground.namespace, uid=str(pod.uid)))
        await ground.pod("free")
        for wanted, node, code, words in (
            (pod, there, 409, f'is already assigned to node "{here}"'),
            (gated, here, 409, "has non-empty .spec.schedulingGates"),
            (missing, here, 404, "not found"),
            (other, here, 409, "Precondition failed: UID in precondition"),
        ):
            error = await acting.bound(wanted, node)
            assert isinstance(error, ApiError)
            assert (error.code, words in str(error)) == (code, True), str(error)

    played(server, play)


def _conditions(pod: dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    assert pod is not None
    return {c["type"]: c for c in pod["status"].get("conditions", [])}


def test_conditions_and_nominations(server: str) -> None:
    """A condition changes alone, beside others; its time changes with its status only."""

    async def play(ground: Ground) -> None:
        acting = Acting(ground)
        client = acting.client
        pod = await ground.pod("web")
        client.set_unschedulable(pod, "Unschedulable", "0/2 nodes are available", ground.nodes[0])
        assert await acting.done() == []
        seen = await ground.seen("web")
        assert seen is not None
        first = _conditions(seen)["PodScheduled"]
        assert (first["status"], first["reason"]) == ("False", "Unschedulable")
        assert seen["status"]["nominatedNodeName"] == ground.nodes[0]
        again = info(seen)
        client.set_unschedulable(again, "SchedulerError", "a plugin broke")
        client.set_disruption_target(again, "policy-sched: preempting")
        client.clear_nomination(again)
        assert await acting.done() == []
        seen = await ground.seen("web")
        assert seen is not None
        found = _conditions(seen)
        assert found["PodScheduled"]["message"] == "a plugin broke"
        assert found["PodScheduled"]["lastTransitionTime"] == first["lastTransitionTime"]
        assert found["DisruptionTarget"]["reason"] == "PreemptionByScheduler"
        assert "nominatedNodeName" not in seen["status"]

    played(server, play)


def test_changes_by_uid_leave_another_pod_of_the_name_alone(server: str) -> None:
    """Deletion and conditions meant for a pod that has gone do nothing to its successor."""

    async def play(ground: Ground) -> None:
        acting = Acting(ground)
        await ground.pod("web")
        stale = PodInfo.of(make_pod("web", namespace=ground.namespace, uid="0-0-0"))
        acting.client.delete_pod(stale)
        acting.client.set_disruption_target(stale, "x")
        assert await acting.done() == []
        seen = await ground.seen("web")
        assert "DisruptionTarget" not in _conditions(seen)
        acting.client.set_unschedulable(stale, "Unschedulable", "x")
        failures = await acting.done()
        assert [call for call, _ in failures] == ["set_unschedulable"]

    played(server, play)


def test_a_pod_is_deleted_once(server: str) -> None:
    """A pod that is bound nowhere goes at once; deleting it again is no error."""

    async def play(ground: Ground) -> None:
        acting = Acting(ground)
        pod = await ground.pod("web")
        acting.client.delete_pod(pod)
        acting.client.delete_pod(pod)
        assert await acting.done() == []
        assert await ground.seen("web") is None

    played(server, play)


def test_events_and_their_series(server: str) -> None:
    """An event is made, and counted when it is said again."""

    async def play(ground: Ground) -> None:
        client = Acting(ground).client
        pod = await ground.pod("web")
        for note in ("no room", "still no room", "still"):
            client.record_event(pod, "Warning", "FailedScheduling", "Scheduling", note)
        await client.events.drained()
        assert client.events.lost == 0
        selection = Selection(EVENT, ground.namespace)
        body = await ground.api.get(selection.path)
        (event,) = _items(body)
        assert event["series"]["count"] == 2
        assert event["note"] == "no room"
        assert event["regarding"]["uid"] == pod.uid

    played(server, play)


def _decoded(thing: dict[str, Any], struct: type[T]) -> T:
    found: T = decoder(struct).decode(msgspec.json.encode(thing))
    return found


def _items(body: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = plain(body)["items"]
    return found


def test_two_candidates_share_a_lease(server: str) -> None:
    """One leads; its renewals are written; the other takes over what is given back."""

    async def play(ground: Ground) -> None:
        def elector(name: str) -> Elector:
            election = Election(name, CLOCKS, Random(name), ElectionSettings())
            lease = Lease(ground.api, ground.namespace, "policy-sched")
            return Elector(lease, election, ground.api, lambda _leads: None)

        a, b = elector("a"), elector("b")
        assert await a.try_once()
        assert not await b.try_once()
        assert await a.try_once()
        assert b.election.holder == "a"
        await a.release()
        assert await b.try_once()
        assert not a.election.leading
        lease = await ground.seen("policy-sched", LEASE)
        assert lease is not None
        assert lease["spec"]["holderIdentity"] == "b"
        assert lease["spec"]["leaseTransitions"] == 1

    played(server, play)


def test_a_lease_is_written_by_one_of_two(server: str) -> None:
    """Two candidates that read the same lease: the second one's write is a conflict."""

    async def play(ground: Ground) -> None:
        path = object_path(LEASE, ground.namespace, "one")
        made = await ground.make(LEASE, "one", {"spec": {"holderIdentity": "x"}})
        await ground.api.request("PUT", path, {**made, "spec": {"holderIdentity": "y"}})
        with pytest.raises(ApiError) as caught:
            await ground.api.request("PUT", path, {**made, "spec": {"holderIdentity": "z"}})
        assert (caught.value.code, caught.value.reason) == (409, "Conflict")
        with pytest.raises(ApiError) as caught:
            await ground.api.request("POST", collection_path(LEASE, ground.namespace), made)
        assert caught.value.code in (400, 409)

    played(server, play)


def test_volumes_are_kept_for_claims(server: str) -> None:
    """claimRef and the selected node are written at the version that was seen, or refused."""

    async def play(ground: Ground) -> None:
        acting = Acting(ground)
        sizes = {"requests": {"storage": "1Gi"}}
        modes = ["ReadWriteOnce"]
        storage = {"storageClassName": "policy-sched-none", "accessModes": modes}
        name = f"{ground.namespace}-pv"
        disk = {"hostPath": {"path": "/none"}, "capacity": {"storage": "1Gi"}}
        volume = await ground.make(VOLUME, name, {"spec": {**storage, **disk}}, alone=True)
        claim = await ground.make(CLAIM, "c", {"spec": {**storage, "resources": sizes}})
        seen = _decoded(volume, PersistentVolume)
        uid = claim["metadata"]["uid"]
        seen.spec.claim_ref = ClaimReference(namespace=ground.namespace, name="c", uid=uid)
        asked = _decoded(claim, PersistentVolumeClaim)
        node = {"volume.kubernetes.io/selected-node": ground.nodes[0]}
        asked.metadata.annotations = node
        acting.client.update_claim(asked)
        assert await acting.done() == []
        acting.client.update_volume(seen)
        assert await acting.done() == []
        written = await ground.api.get(object_path(VOLUME, "", name))
        assert plain(written)["spec"]["claimRef"]["uid"] == uid
        found = await ground.seen("c", CLAIM)
        assert found is not None
        assert found["metadata"]["annotations"].items() >= node.items()
        acting.client.update_volume(seen)
        ((call, error),) = await acting.done()
        assert call == "update_volume"
        assert isinstance(error, ApiError)
        assert error.code == 409

    played(server, play)


def test_refusals_say_why(server: str) -> None:
    """Status, reason, message and details of what is not there and of what is not valid."""

    async def play(ground: Ground) -> None:
        with pytest.raises(ApiError) as caught:
            await ground.api.get(object_path(POD, ground.namespace, "none"))
        error = caught.value
        assert (error.code, error.reason) == (404, "NotFound")
        assert error.message == 'pods "none" not found'
        assert error.details["name"] == "none"
        with pytest.raises(ApiError) as caught:
            await ground.pod("Bad_Name")
        assert (caught.value.code, caught.value.reason) == (422, "Invalid")
        await ground.pod("twice")
        with pytest.raises(ApiError) as caught:
            await ground.pod("twice")
        assert (caught.value.code, caught.value.reason) == (409, "AlreadyExists")

    played(server, play)
