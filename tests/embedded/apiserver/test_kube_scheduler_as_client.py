"""kube-scheduler 1.36 as a client of the server, request by request, as its source has them.

Its content type is protobuf, its informers begin with streaming lists, and its user may do what
kube-apiserver's own role for it says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from policy_sched.http.access import Access
from tests.embedded.apiserver import go_client
from tests.embedded.apiserver.protobuf.wire import envelope, message, meta
from tests.embedded.apiserver.world import PODS, World, pod, serving
from tests.embedded.world import node

ADMIN = "admin-token"
TOKENS = f"{ADMIN},admin,1,system:masters\nscheduler-token,system:kube-scheduler,2\n"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
EVENTS = "/apis/events.k8s.io/v1/namespaces/default/events"
CONFIG = "/api/v1/namespaces/kube-system/configmaps"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
NOW = message((1, 1_800_000_000), (2, 123_456_000))
LIVING = "fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed&"

INFORMERS = [
    ("/api/v1/pods", "Pod", LIVING),
    ("/api/v1/nodes", "Node", ""),
    ("/api/v1/namespaces", "Namespace", ""),
    ("/api/v1/services", "Service", ""),
    ("/api/v1/replicationcontrollers", "ReplicationController", ""),
    ("/api/v1/persistentvolumes", "PersistentVolume", ""),
    ("/api/v1/persistentvolumeclaims", "PersistentVolumeClaim", ""),
    ("/apis/apps/v1/replicasets", "ReplicaSet", ""),
    ("/apis/apps/v1/statefulsets", "StatefulSet", ""),
    ("/apis/policy/v1/poddisruptionbudgets", "PodDisruptionBudget", ""),
    ("/apis/storage.k8s.io/v1/storageclasses", "StorageClass", ""),
    ("/apis/storage.k8s.io/v1/csinodes", "CSINode", ""),
    ("/apis/storage.k8s.io/v1/csidrivers", "CSIDriver", ""),
    ("/apis/storage.k8s.io/v1/csistoragecapacities", "CSIStorageCapacity", ""),
    ("/apis/storage.k8s.io/v1/volumeattachments", "VolumeAttachment", ""),
    ("/apis/resource.k8s.io/v1/deviceclasses", "DeviceClass", ""),
    ("/apis/resource.k8s.io/v1/resourceclaims", "ResourceClaim", ""),
    ("/apis/resource.k8s.io/v1/resourceslices", "ResourceSlice", ""),
]
"""Those that it starts with its default gates; pod groups and taint rules are behind others."""

Story = Callable[[World, go_client.GoClient], Coroutine[Any, Any, None]]


def tell(folder: Path, story: Story) -> None:
    """Run a story of kube-scheduler against a cluster with RBAC, two nodes and two pods."""
    path = folder / "tokens.csv"
    path.write_text(TOKENS, encoding="utf-8")

    async def run() -> None:
        async with serving(Access(tokens=str(path), mode="RBAC")) as world:
            for name in ("n0", "n1"):
                await make(world, "/api/v1/nodes", node(name))
            for name in ("p", "q"):
                await make(world, PODS, pod(name))
            agent = "kube-scheduler/v1.36.2 (linux/amd64) kubernetes/abc/scheduler"
            await story(
                world, go_client.GoClient(world.session, world.url, "scheduler-token", agent)
            )

    asyncio.run(run())


async def make(world: World, path: str, data: go_client.Plain) -> go_client.Plain:
    """Create an object, as another user."""
    status, made = await world.ask("POST", path, data, token=ADMIN)
    assert status == 201, made
    result: go_client.Plain = made
    return result


def test_it_reads_the_authorities_of_the_cluster(tmp_path: Path) -> None:
    """It reads the ConfigMap of the cluster's authorities, and follows it by name."""

    async def story(world: World, client: go_client.GoClient) -> None:
        client.accept = go_client.PREFERRED  # the connection of --authentication-kubeconfig
        body = await client.done("GET", f"{CONFIG}/extension-apiserver-authentication")
        assert body["kind"] == "ConfigMap"
        named = "fieldSelector=metadata.name%3Dextension-apiserver-authentication&"
        async with client.watch(CONFIG, named + go_client.WATCH_LIST) as events:
            (item,) = await go_client.initial(events)
        assert item["metadata"]["name"] == "extension-apiserver-authentication"
        status, _ = await client.ask("GET", f"{CONFIG}/another")
        assert status == 403

    tell(tmp_path, story)


def test_it_creates_token_and_access_reviews(tmp_path: Path) -> None:
    """TokenReview and SubjectAccessReview, for callers of its own endpoints."""

    async def story(world: World, client: go_client.GoClient) -> None:
        body = envelope(
            "authentication.k8s.io/v1",
            "TokenReview",
            message((1, meta("", "")), (2, message((1, ADMIN))), (3, message((1, False)))),
        )
        data = await client.done("POST", "/apis/authentication.k8s.io/v1/tokenreviews", body)
        assert data["status"]["user"]["username"] == "admin"
        asked = message((2, message((1, "/metrics"), (2, "get"))), (3, "admin"), (4, "nobodies"))
        body = envelope(
            "authorization.k8s.io/v1",
            "SubjectAccessReview",
            message((1, meta("", "")), (2, asked), (3, message((1, False), (2, ""), (3, "")))),
        )
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        data = await client.done("POST", path, body)
        assert data["status"]["allowed"] is False

    tell(tmp_path, story)


def test_it_finds_the_newer_events(tmp_path: Path) -> None:
    """Without them in the discovery of their group it would write events of the core group."""

    async def story(world: World, client: go_client.GoClient) -> None:
        body = await client.done("GET", "/apis/events.k8s.io/v1?timeout=32s")
        assert body["kind"] == "APIResourceList"
        assert body["groupVersion"] == "events.k8s.io/v1"
        (events,) = body["resources"]
        assert (events["name"], events["kind"]) == ("events", "Event")
        assert set(events["verbs"]) >= {"create", "patch"}

    tell(tmp_path, story)


@pytest.mark.parametrize("streaming", [True, False])
def test_all_its_informers_sync(tmp_path: Path, *, streaming: bool) -> None:
    """By streaming lists, or by pages as before; the stream, or a watch from the list, goes on."""

    async def story(world: World, client: go_client.GoClient) -> None:
        for path, kind, selector in INFORMERS:
            if streaming:
                async with client.watch(path, selector + go_client.WATCH_LIST) as events:
                    items = await go_client.initial(events)
            else:
                listed = await client.done("GET", f"{path}?{selector}limit=500&resourceVersion=0")
                assert listed["kind"] == f"{kind}List"
                items = listed["items"]
                since = f"resourceVersion={listed['metadata']['resourceVersion']}&"
                async with client.watch(path, selector + since + go_client.WATCH):
                    pass
            named = {"Pod": ["p", "q"], "Node": ["n0", "n1"]}.get(kind)
            assert named is None or [item["metadata"]["name"] for item in items] == named
            assert all(item.get("kind", kind) == kind for item in items)
        query = "fieldSelector=status.phase%21%3DFailed&" + go_client.WATCH_LIST
        async with client.watch("/api/v1/pods", query) as events:
            await go_client.initial(events)
            await make(world, PODS, pod("late"))
            event = await anext(events)
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "late")

    tell(tmp_path, story)


def _lease(holder: str, renewed: bytes, version: str = "") -> bytes:
    about = message((1, "kube-scheduler"), (3, "kube-system"), (6, version))
    spec = message((1, holder), (2, 15), (3, NOW), (4, renewed), (5, 0))
    return envelope("coordination.k8s.io/v1", "Lease", message((1, about), (2, spec)))


def test_kube_scheduler_is_elected_through_its_lease(tmp_path: Path) -> None:
    """The lease is not there, is made, is renewed; a late update is a conflict."""

    async def story(world: World, client: go_client.GoClient) -> None:
        client.agent = "kube-scheduler/v1.36.2 (linux/amd64) kubernetes/abc/leader-election"
        path = f"{LEASES}/kube-scheduler?timeout=5s"
        status, answer = await client.ask("GET", path)
        assert (status, answer["kind"], answer["reason"]) == (404, "Status", "NotFound")
        made = await client.done("POST", f"{LEASES}?timeout=5s", _lease("me", NOW))
        assert made["spec"]["renewTime"] == "2027-01-15T08:00:00.123456Z"
        version = made["metadata"]["resourceVersion"]
        later = message((1, 1_800_000_002), (2, 0))
        renewed = await client.done("PUT", path, _lease("me", later, version))
        assert renewed["spec"]["renewTime"] == "2027-01-15T08:00:02.000000Z"
        status, answer = await client.ask("PUT", path, _lease("other", later, version))
        assert (status, answer["reason"]) == (409, "Conflict")
        about = message((1, "Lease"), (2, "kube-system"), (3, "kube-scheduler"))
        said = ((3, "LeaderElection"), (4, "me became leader"), (5, message((1, "scheduler"))))
        times = ((6, message((1, 1_800_000_000))), (7, message((1, 1_800_000_000))), (8, 1))
        event = message((1, meta("e", "kube-system")), (2, about), *said, *times, (9, "Normal"))
        path = "/api/v1/namespaces/kube-system/events"
        told = await client.done("POST", path, envelope("v1", "Event", event))
        assert told["involvedObject"]["kind"] == "Lease"

    tell(tmp_path, story)


def _event(name: str, reason: str, action: str, kind: str = "Normal") -> bytes:
    """Return an event about a pod, with the empty fields that Go writes."""
    who = "default-scheduler"
    about = message((1, "Pod"), (2, "default"), (3, name), (4, "u"), (5, "v1"), (6, "7"))
    words = ((4, who), (5, f"{who}-host"), (6, action), (7, reason), (8, about), (10, "note"))
    old = ((11, kind), (12, message((1, ""), (2, ""))), (13, b""), (14, b""), (15, 0))
    event = message((1, meta(f"{name}.1")), (2, NOW), *words, *old)
    return envelope("events.k8s.io/v1", "Event", event)


async def bind(client: go_client.GoClient, name: str, where: str) -> tuple[int, go_client.Plain]:
    uid = (await client.done("GET", f"{PODS}/{name}"))["metadata"]["uid"]
    empty = ((4, ""), (6, ""), (7, 0), (8, b""))
    about = message((1, name), (2, ""), (3, "default"), (5, uid), *empty)
    target = message((1, "Node"), (2, ""), (3, where), (4, ""), (5, ""), (6, ""), (7, ""))
    body = envelope("v1", "Binding", message((1, about), (2, target)))
    return await client.ask("POST", f"{PODS}/{name}/binding", body)


def test_it_binds_and_writes_an_event(tmp_path: Path) -> None:
    """A binding, its event; a second binding is refused; its informer sees the pod's node."""

    async def story(world: World, client: go_client.GoClient) -> None:
        async with client.watch("/api/v1/pods", LIVING + go_client.WATCH_LIST) as events:
            await go_client.initial(events)
            status, answer = await bind(client, "p", "n0")
            assert (status, answer["kind"], answer["status"]) == (201, "Status", "Success")
            event = await anext(events)
            assert event["type"] == "MODIFIED"
            assert event["object"]["spec"]["nodeName"] == "n0"
        status, answer = await bind(client, "p", "n1")
        assert (status, answer["reason"]) == (409, "Conflict")
        told = await client.done("POST", EVENTS, _event("p", "Scheduled", "Binding"))
        assert (told["reason"], told["regarding"]["name"]) == ("Scheduled", "p")

    tell(tmp_path, story)


def test_it_writes_the_condition_of_an_unschedulable_pod(tmp_path: Path) -> None:
    """A patch of the status as Go's two-way merge writes it; an event, and its series."""

    async def story(world: World, client: go_client.GoClient) -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/2 nodes are available",
            "observedGeneration": 1,
            "lastProbeTime": None,
            "lastTransitionTime": "2027-01-15T08:00:00Z",
        }
        order = [{"type": "PodScheduled"}]
        status = {"$setElementOrder/conditions": order, "conditions": [condition]}
        change = {"status": {**status, "nominatedNodeName": "n1"}}
        patch = await client.patch(f"{PODS}/q/status", change)
        assert patch["status"]["nominatedNodeName"] == "n1"
        (said,) = (c for c in patch["status"]["conditions"] if c["type"] == "PodScheduled")
        assert said["reason"] == "Unschedulable"
        body = _event("q", "FailedScheduling", "Scheduling", "Warning")
        told = await client.done("POST", EVENTS, body)
        series = {"count": 2, "lastObservedTime": "2027-01-15T08:00:09.123456Z"}
        path = f"{EVENTS}/{told['metadata']['name']}"
        assert (await client.patch(path, {"series": series}))["series"] == series
        patch = await client.patch(f"{PODS}/q/status", {"status": {"nominatedNodeName": None}})
        assert "nominatedNodeName" not in patch["status"]

    tell(tmp_path, story)


def test_kube_scheduler_preempts_and_the_victim_has_a_condition(tmp_path: Path) -> None:
    """The victim has a condition, and goes; of one that has gone it is told so."""

    async def story(world: World, client: go_client.GoClient) -> None:
        assert (await bind(client, "p", "n0"))[0] == 201
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": "default-scheduler: preempting to accommodate a higher priority pod",
            "lastProbeTime": None,
            "lastTransitionTime": "2027-01-15T08:00:00Z",
        }
        patch = await client.patch(f"{PODS}/p/status", {"status": {"conditions": [condition]}})
        assert {c["type"] for c in patch["status"]["conditions"]} >= {"DisruptionTarget"}
        options = envelope("v1", "DeleteOptions", b"")
        going = await client.done("DELETE", f"{PODS}/p", options)
        assert going["metadata"]["deletionGracePeriodSeconds"] == 30
        uid = message((2, message((1, "another"))))
        body = envelope("v1", "DeleteOptions", uid)
        status, answer = await client.ask("DELETE", f"{PODS}/q", body)
        assert (status, answer["reason"]) == (409, "Conflict")
        assert (await client.ask("DELETE", f"{PODS}/none", options))[0] == 404

    tell(tmp_path, story)


def again(thing: go_client.Plain, *more: tuple[int, object]) -> bytes:
    """Return the metadata of an object that was read, to be written again."""
    read = thing["metadata"]
    metadata = ((1, read["name"]), (3, read.get("namespace", "")), (5, read["uid"]))
    return message(*metadata, (6, read["resourceVersion"]), (8, NOW), *more)


def _entry(key: str, value: str) -> bytes:
    return message((1, key), (2, value))


def test_kube_scheduler_binds_volumes_and_claims(tmp_path: Path) -> None:
    """Volume and claim are written whole, at the version that it knows, or not at all."""
    storage = {"storageClassName": "waits", "accessModes": ["ReadWriteOnce"]}
    csi = {"driver": "d", "volumeHandle": "h"}
    size = message((1, "storage"), (2, message((1, "1Gi"))))
    volumes = "/api/v1/persistentvolumes"
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"

    def volume_of(thing: go_client.Plain) -> bytes:
        kept = message((1, "PersistentVolumeClaim"), (2, "default"), (3, "c"), (5, "v1"))
        source = message((22, message((1, "d"), (2, "h"), (3, False), (4, ""))))
        parts = ((1, size), (2, source), (3, "ReadWriteOnce"), (4, kept), (5, "Retain"))
        spec = message(*parts, (6, "waits"), (8, "Filesystem"))
        about = again(thing, (12, _entry("pv.kubernetes.io/bound-by-controller", "yes")))
        status = message((1, "Pending"), (2, ""), (3, ""))
        return envelope("v1", "PersistentVolume", message((1, about), (2, spec), (3, status)))

    def claim_of(thing: go_client.Plain) -> bytes:
        bound_to = thing["spec"].get("volumeName", "")
        access = ((1, "ReadWriteOnce"), (2, message((2, size))), (3, bound_to))
        spec = message(*access, (5, "waits"), (6, "Filesystem"))
        about = again(thing, (12, _entry("volume.kubernetes.io/selected-node", "n0")))
        return envelope("v1", "PersistentVolumeClaim", message((1, about), (2, spec)))

    async def story(world: World, client: go_client.GoClient) -> None:
        sizes = {"storage": "1Gi"}
        await make(world, volumes, _named("pv", {**storage, "capacity": sizes, "csi": csi}))
        wanted = {**storage, "resources": {"requests": sizes}}
        await make(world, claims, _named("c", wanted))
        text = await _replaced(client, f"{volumes}/pv", volume_of)
        assert (text["spec"]["claimRef"]["name"], text["spec"]["csi"]) == ("c", csi)
        text = await _replaced(client, f"{claims}/c", claim_of)
        assert text["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == "n0"
        stale = {**text, "metadata": {**text["metadata"], "resourceVersion": "1"}}
        status, answer = await client.ask("PUT", f"{claims}/c", claim_of(stale))
        assert (status, answer["reason"]) == (409, "Conflict")

    tell(tmp_path, story)


async def _replaced(
    client: go_client.GoClient, path: str, body: Callable[[go_client.Plain], bytes]
) -> go_client.Plain:
    """Write an object as it is now; controllers write, too."""
    while True:
        status, data = await client.ask("PUT", path, body(await _seen(client, path)))
        if status != 409:
            assert status == 200, data
            return data


async def _seen(client: go_client.GoClient, path: str) -> go_client.Plain:
    """Return an object as an informer has it."""
    collection, _, name = path.rpartition("/")
    body = await client.done("GET", collection)
    return next(item for item in body["items"] if item["metadata"]["name"] == name)


def _named(name: str, spec: go_client.Plain) -> go_client.Plain:
    return {"metadata": {"name": name}, "spec": spec}
