"""What our client expects of an API server when it writes: of the embedded one, and of any.

Set POLICY_SCHED_KUBECONFIG to the path of a kubeconfig to run it against a real kube-apiserver.
Everything happens in a namespace and on nodes of its own, which are deleted in the end.
"""

from __future__ import annotations

from random import Random
from typing import Any, TypeVar

import msgspec
import pytest

from policy_sched.client.embedded.api_error import ApiError
from policy_sched.client.embedded.resources import CLAIM, POD, VOLUME
from policy_sched.client.kube.election import Election, ElectionSettings
from policy_sched.client.kube.event_writer import EVENT
from policy_sched.client.kube.leases import LEASE, Elector, Lease
from policy_sched.client.kube.paths import Selection, collection_path, object_path
from policy_sched.model.kinds import decoder
from policy_sched.model.meta import ApiObject
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.storage import ClaimReference, PersistentVolume, PersistentVolumeClaim
from policy_sched.testing import make_pod
from tests.client.kube.conformance.servers import (
    CLOCKS,
    Acting,
    Ground,
    info,
    plain,
    played,
    until,
)

T = TypeVar("T", bound=ApiObject)


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
        found = _items(await ground.api.get(selection.path))
        (event,) = (e for e in found if e["reportingController"] == "policy-sched")
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
        again = {**made, "metadata": {"name": "one", "namespace": ground.namespace}}
        await ground.api.request("PUT", path, {**made, "spec": {"holderIdentity": "y"}})
        with pytest.raises(ApiError) as caught:
            await ground.api.request("PUT", path, {**made, "spec": {"holderIdentity": "z"}})
        assert (caught.value.code, caught.value.reason) == (409, "Conflict")
        with pytest.raises(ApiError) as caught:
            await ground.api.request("POST", collection_path(LEASE, ground.namespace), again)
        assert (caught.value.code, caught.value.reason) == (409, "AlreadyExists")

    played(server, play)


async def _storage(ground: Ground) -> str:
    """Make a volume, and a claim that no controller binds before a node is chosen."""
    waiting = {
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    name = f"{ground.namespace}-waits"
    await ground.make(("storage.k8s.io/v1", "StorageClass"), name, waiting, alone=True)
    storage = {"storageClassName": name, "accessModes": ["ReadWriteOnce"]}
    volume = f"{ground.namespace}-pv"
    disk = {"hostPath": {"path": "/none"}, "capacity": {"storage": "1Gi"}}
    await ground.make(VOLUME, volume, {"spec": {**storage, **disk}}, alone=True)
    sizes = {"requests": {"storage": "1Gi"}}
    await ground.make(CLAIM, "c", {"spec": {**storage, "resources": sizes}})
    return volume


def test_volumes_are_kept_for_claims(server: str) -> None:
    """claimRef and the selected node are written at the version that was seen, or refused.

    Controllers write to both as well, so what was seen may be old at any time.
    """

    async def play(ground: Ground) -> None:
        acting = Acting(ground)
        name = await _storage(ground)

        async def keep() -> PersistentVolume | None:
            """Write the claim into the volume as it is now; None if it has changed meanwhile."""
            claim = await ground.latest(CLAIM, "c")
            volume = _decoded(await ground.latest(VOLUME, name, alone=True), PersistentVolume)
            uid = claim["metadata"]["uid"]
            volume.spec.claim_ref = ClaimReference(namespace=ground.namespace, name="c", uid=uid)
            acting.client.update_volume(volume)
            return volume if await _written(acting) else None

        async def choose() -> bool:
            """Write the node into the claim as it is now."""
            claim = _decoded(await ground.latest(CLAIM, "c"), PersistentVolumeClaim)
            claim.metadata.annotations = node
            acting.client.update_claim(claim)
            return await _written(acting)

        node = {"volume.kubernetes.io/selected-node": ground.nodes[0]}
        kept = await until(keep)
        await until(choose)
        claim = await ground.latest(CLAIM, "c")
        volume = await ground.latest(VOLUME, name, alone=True)
        assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
        assert claim["metadata"]["annotations"].items() >= node.items()
        acting.client.update_volume(kept)
        assert not await _written(acting)

    played(server, play)


async def _written(acting: Acting) -> bool:
    """Tell whether the last write of a volume or a claim took; it is refused as a conflict."""
    failures = await acting.done()
    for call, error in failures:
        assert call.startswith("update_")
        assert isinstance(error, ApiError)
        assert (error.code, error.reason) == (409, "Conflict")
    taken = not failures
    failures.clear()
    return taken


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
