"""Subresources that change a part of an object, and a cluster without controllers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from policy_sched.client.apimachinery.resources import POD, REPLICA_SET
from policy_sched.embedded.cluster import EmbeddedCluster
from policy_sched.testing import FakeClock
from tests.embedded.apiserver.endpoints.test_write import deployment
from tests.embedded.apiserver.protobuf.wire import envelope, message
from tests.embedded.apiserver.world import JSON, PODS, pod, serving
from tests.embedded.world import START

STRATEGIC = "application/strategic-merge-patch+json"
EPHEMERAL = f"{PODS}/p/ephemeralcontainers"
PROTOBUF = "application/vnd.kubernetes.protobuf"
NAMESPACES = "/api/v1/namespaces"


def containers(*given: dict[str, Any]) -> dict[str, Any]:
    """Return a patch."""
    return {"spec": {"ephemeralContainers": list(given)}}


def test_ephemeral_containers_are_added_by_their_subresource() -> None:
    """With defaults; nothing else of the pod changes with them, and they stay."""

    async def run() -> None:
        async with serving() as world:
            await world.ask("POST", PODS, pod("p"))
            wanted = containers({"name": "d", "image": "x"}) | {
                "metadata": {"labels": {"no": "no"}}
            }
            status, body = await world.ask("PATCH", EPHEMERAL, wanted, type=STRATEGIC)
            assert status == 200
            (container,) = body["spec"]["ephemeralContainers"]
            assert (container["name"], container["terminationMessagePolicy"]) == ("d", "File")
            assert not body["metadata"].get("labels")
            more = containers({"name": "e", "image": "y", "targetContainerName": "c"})
            status, body = await world.ask("PATCH", EPHEMERAL, more, type=STRATEGIC)
            assert [c["name"] for c in body["spec"]["ephemeralContainers"]] == ["d", "e"]
            status, body = await world.ask("GET", EPHEMERAL)
            assert (status, body["kind"]) == (200, "Pod")
            body["metadata"]["labels"] = {"a": "b"}
            assert (await world.ask("PUT", f"{PODS}/p", body))[0] == 200

    asyncio.run(run())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], 'existing ephemeral containers "d" may not be removed'),
        ([{"name": "d", "image": "z"}], 'existing ephemeral containers "d" may not be changed'),
        ([{"name": "d", "image": "x"}, {"name": "e"}], "[1].image: Required value"),
        ([{"name": "d", "image": "x"}, {"image": "e"}], "[1].name: Required value"),
        ([{"name": "d", "image": "x"}] * 2, 'Duplicate value: "d"'),
        ([{"name": "d", "image": "x"}, {"name": "c", "image": "x"}], 'Duplicate value: "c"'),
        ([{"name": "d", "image": "x"}, {"name": "e", "image": "x", "targetContainerName": "q"}],
         'targetContainerName: Not found: "q"'),
        ([{"name": "d", "image": "x"}, {"name": "e", "image": "x", "ports": [{"name": "p"}]}],
         "cannot be set for an Ephemeral Container"),
    ],
)  # fmt: skip
def test_other_changes_of_ephemeral_containers_are_refused(
    given: list[dict[str, Any]], words: str
) -> None:
    """In the API server's words."""

    async def run() -> None:
        async with serving() as world:
            await world.ask("POST", PODS, pod("p"))
            first = containers({"name": "d", "image": "x"})
            _, body = await world.ask("PATCH", EPHEMERAL, first, type=STRATEGIC)
            body["spec"]["ephemeralContainers"] = given
            status, answer = await world.ask("PUT", EPHEMERAL, body)
            assert (status, words in answer["message"]) == (422, True), answer
            with_them = pod("q")
            with_them["spec"] = {**with_them["spec"], **first["spec"]}
            status, answer = await world.ask("POST", PODS, with_them)
            assert (status, "cannot be set on create" in answer["message"]) == (422, True)

    asyncio.run(run())


def without() -> EmbeddedCluster:
    """Return a cluster without controllers of its own."""
    return EmbeddedCluster.open(None, FakeClock(START), controllers=False)


def test_without_controllers_others_control() -> None:
    """Both made the replica set of a deployment, and undid each other's work."""

    async def run() -> None:
        async with serving(cluster=without()) as world:
            path = "/apis/apps/v1/namespaces/default/deployments"
            status, made = await world.ask("POST", path, deployment("web"))
            assert status == 201
            world.cluster.step()
            store = world.cluster.store
            assert not store.select(REPLICA_SET)
            owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web",
                     "uid": made["metadata"]["uid"], "controller": True}  # fmt: skip
            owned = pod("p")
            owned["metadata"]["ownerReferences"] = [owner]
            assert (await world.ask("POST", PODS, owned))[0] == 201
            assert (await world.ask("DELETE", f"{path}/web"))[0] == 200
            world.cluster.step()
            assert len(store.select(POD)) == 1, "the garbage collector is not ours"

    asyncio.run(run())


@pytest.mark.parametrize("protobuf", [False, True])
def test_a_namespace_waits_for_its_controller(*, protobuf: bool) -> None:
    """A kube-controller-manager, which writes protobuf, got 404 for namespaces/finalize."""

    async def run() -> None:
        async with serving(cluster=without()) as world:
            await world.create(NAMESPACES, {"metadata": {"name": "x"}})
            status, body = await world.ask("DELETE", f"{NAMESPACES}/x")
            assert (status, body["status"]["phase"]) == (200, "Terminating")
            assert body["spec"]["finalizers"] == ["kubernetes"]
            inside = pod("p") | {"metadata": {"name": "p", "namespace": "x"}}
            status, answer = await world.ask("POST", f"{NAMESPACES}/x/pods", inside)
            words = "unable to create new content in namespace x because it is being terminated"
            assert (status, words in answer["message"]) == (403, True)
            meta, version = body["metadata"], body["metadata"]["resourceVersion"]
            written = message((1, "x"), (5, meta["uid"]), (6, version))
            wire = envelope("v1", "Namespace", message((1, written), (2, b""), (3, b"")))
            sent, kind = (wire, PROTOBUF) if protobuf else ({**body, "spec": {}}, JSON)
            status, body = await world.ask("PUT", f"{NAMESPACES}/x/finalize", sent, type=kind)
            assert status == 200, body
            assert (await world.ask("GET", f"{NAMESPACES}/x"))[0] == 404

    asyncio.run(run())


def test_with_controllers_a_namespace_is_deleted() -> None:
    """It is Terminating until the namespace controller has removed its contents."""

    async def run() -> None:
        async with serving() as world:
            await world.create(NAMESPACES, {"metadata": {"name": "x"}})
            async with world.watch(f"{NAMESPACES}?fieldSelector=metadata.name%3Dx") as lines:
                assert (await anext(lines))["type"] == "ADDED"
                status, body = await world.ask("DELETE", f"{NAMESPACES}/x")
                assert (status, body["status"]["phase"]) == (200, "Terminating")
                assert [(await anext(lines))["type"] for _ in range(2)] == ["MODIFIED", "DELETED"]
            assert (await world.ask("GET", f"{NAMESPACES}/x"))[0] == 404

    asyncio.run(run())
