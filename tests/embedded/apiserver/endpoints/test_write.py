"""Writes over a socket: what is done, what is refused, and in which words."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from policy_sched.embedded.apiserver.registry.errors import LIMIT
from policy_sched.embedded.store.patch import JSON as JSON_PATCH, MERGE, STRATEGIC
from tests.embedded.apiserver.world import PODS, SPEC, Plain, World, pod, serving
from tests.embedded.world import node
from tests.examples import scaled

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
APPLY = "application/apply-patch+yaml"


def deployment(name: str, replicas: int = 2) -> Plain:
    """Return a deployment."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": SPEC}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": spec,
    }


def test_a_dry_run_answers_and_changes_nothing() -> None:
    """Create, update, patch and delete are worked out to the end."""

    async def run() -> None:
        async with serving() as world:
            status, made = await world.ask("POST", f"{PODS}?dryRun=All", pod("a"))
            assert (status, made["status"]["phase"]) == (201, "Pending")
            assert (await world.ask("GET", f"{PODS}/a"))[0] == 404
            before = await world.create(PODS, pod("a"))
            patch = {"metadata": {"labels": {"x": "y"}}}
            path = f"{PODS}/a?dryRun=All"
            _, patched = await world.ask("PATCH", path, patch, type=MERGE)
            assert patched["metadata"]["labels"] == {"x": "y"}
            # `kubectl diff` showed a version that no object ever had.
            assert patched["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
            assert (await world.ask("DELETE", path))[0] == 200
            assert (await world.ask("GET", f"{PODS}/a"))[1] == before
            status, body = await world.ask("POST", f"{PODS}?dryRun=Some", pod("b"))
            assert (status, body["details"]["kind"]) == (422, "CreateOptions")

    asyncio.run(run())


def test_names_are_generated() -> None:
    """Different ones, that begin as asked."""

    async def run() -> None:
        async with serving() as world:
            named = pod("") | {"metadata": {"generateName": "web-"}}
            made = {(await world.create(PODS, named))["metadata"]["name"] for _ in range(3)}
            assert len(made) == 3
            assert all(name.startswith("web-") and len(name) == 9 for name in made)

    asyncio.run(run())


def test_an_update_must_be_of_the_present_version() -> None:
    """Otherwise 409; a lease that is not there is created."""

    async def run() -> None:
        async with serving() as world:
            made = await world.create(PODS, pod("a"))
            made["metadata"]["labels"] = {"x": "1"}
            status, changed = await world.ask("PUT", f"{PODS}/a", made)
            assert (status, changed["metadata"]["labels"]) == (200, {"x": "1"})
            status, body = await world.ask("PUT", f"{PODS}/a", made)
            assert (status, body["reason"]) == (409, "Conflict")
            assert (await world.ask("PUT", f"{PODS}/b", pod("b")))[0] == 404
            leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
            assert (await world.ask("PUT", f"{leases}/l", {"metadata": {"name": "l"}}))[0] == 201

    asyncio.run(run())


def test_patches_of_all_types() -> None:
    """Merge, strategic merge (lists by key), JSON; server-side apply is refused."""

    async def run() -> None:
        async with serving() as world:
            await world.create(PODS, pod("a", x="1"))
            path = f"{PODS}/a"
            merge = {"metadata": {"labels": {"x": None, "y": "2"}}}
            assert (await world.ask("PATCH", path, merge, type=MERGE))[1]["metadata"]["labels"] == {
                "y": "2"
            }
            image = {"spec": {"containers": [{"name": "c", "image": "other"}]}}
            _, body = await world.ask("PATCH", path, image, type=STRATEGIC)
            (container,) = body["spec"]["containers"]
            assert (container["image"], container["imagePullPolicy"]) == ("other", "IfNotPresent")
            operations = [{"op": "replace", "path": "/metadata/labels/y", "value": "3"}]
            _, body = await world.ask("PATCH", path, operations, type=JSON_PATCH)
            assert body["metadata"]["labels"] == {"y": "3"}
            wrong = [{"op": "test", "path": "/metadata/labels/y", "value": "0"}]
            assert (await world.ask("PATCH", path, wrong, type=JSON_PATCH))[0] == 422
            status, body = await world.ask("PATCH", path, merge, type="text/plain")
            assert (status, body["reason"]) == (415, "UnsupportedMediaType")
            status, body = await world.ask("PATCH", path, {"spec": []}, type=MERGE)
            assert status == 400

    asyncio.run(run())


def test_a_patch_cannot_blow_an_object_up() -> None:
    """Copies into itself are refused, and very many operations; many on a large object are not."""

    async def run() -> None:
        async with serving() as world:
            large = pod("a") | {"metadata": {"name": "a", "annotations": {"x": "y" * 100_000}}}
            await world.create(PODS, large)
            copy = {"op": "copy", "from": "/metadata", "path": "/metadata/annotations"}
            again = [copy | {"path": f"/spec/x{index}", "from": "/spec"} for index in range(40)]
            start = {"op": "copy", "from": "/metadata", "path": "/spec/x"}
            status, body = await world.ask("PATCH", f"{PODS}/a", [start, *again], type=JSON_PATCH)
            assert (status, body["reason"]) == (413, "RequestEntityTooLarge")
            many = [{"op": "test", "path": "/kind", "value": "Pod"}] * 9_000
            assert (await world.ask("PATCH", f"{PODS}/a", many, type=JSON_PATCH))[0] == 200
            more = [{"op": "test", "path": "/kind", "value": "Pod"}] * 10_001
            status, body = await world.ask("PATCH", f"{PODS}/a", more, type=JSON_PATCH)
            assert (status, body["reason"]) == (413, "RequestEntityTooLarge")

    asyncio.run(run())


def test_a_status_is_changed_apart() -> None:
    """A node's capacity by its status subresource, its labels by the node itself."""

    async def run() -> None:
        async with serving() as world:
            await world.create("/api/v1/nodes", node("n"))
            patch = {"status": {"capacity": {"cpu": "8"}}, "metadata": {"labels": {"x": "y"}}}
            path = "/api/v1/nodes/n"
            _, body = await world.ask("PATCH", f"{path}/status", patch, type=STRATEGIC)
            assert (body["status"]["capacity"]["cpu"], body["metadata"]["labels"]) == ("8", {})
            _, body = await world.ask("PATCH", path, patch, type=STRATEGIC)
            assert body["metadata"]["labels"] == {"x": "y"}
            assert (await world.ask("GET", f"{path}/status"))[1]["kind"] == "Node"

    asyncio.run(run())


def test_deletions_keep_to_their_options() -> None:
    """Preconditions, grace, orphans; what is deleted at once is answered by a Status."""

    async def run() -> None:
        async with serving() as world:
            made = await world.create(PODS, pod("a"))
            options = {"preconditions": {"uid": "other"}}
            status, body = await world.ask("DELETE", f"{PODS}/a", options)
            assert (status, body["reason"]) == (409, "Conflict")
            options = {"preconditions": {"uid": made["metadata"]["uid"]}, "gracePeriodSeconds": 0}
            assert (await world.ask("DELETE", f"{PODS}/a", options))[1]["kind"] == "Pod"
            assert (await world.ask("DELETE", f"{PODS}/a"))[0] == 404
            made = await world.create(DEPLOYMENTS, deployment("web"))
            await settled(world, 2)
            path = f"{DEPLOYMENTS}/web"
            status, body = await world.ask("DELETE", path, {"propagationPolicy": "Never"})
            assert (status, body["reason"]) == (422, "Invalid")
            status, body = await world.ask("DELETE", path, {"propagationPolicy": "Orphan"})
            assert (status, body["metadata"]["finalizers"]) == (200, ["orphan"])
            world.cluster.step()
            assert (await world.ask("GET", path))[0] == 404
            sets = DEPLOYMENTS.replace("deployments", "replicasets")
            (left,) = (await world.ask("GET", sets))[1]["items"]
            status, body = await world.ask("DELETE", f"{sets}/{left['metadata']['name']}")
            assert body["details"] == {
                "name": left["metadata"]["name"],
                "group": "apps",
                "kind": "replicasets",
                "uid": left["metadata"]["uid"],
            }
            assert made["metadata"]["uid"] not in str(left)

    asyncio.run(run())


async def settled(world: World, count: int) -> None:
    """Wait until there are so many pods."""
    path = f"{PODS}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    async with world.watch(path) as lines:
        for _ in range(count):
            await anext(lines)


def test_many_are_deleted_at_once() -> None:
    """Those that are selected, of one namespace."""

    async def run() -> None:
        async with serving() as world:
            for name in ("a", "b", "c"):
                await world.create(PODS, pod(name, x="1" if name != "c" else "2"))
            _, body = await world.ask("DELETE", f"{PODS}?labelSelector=x%3D1")
            assert [item["metadata"]["name"] for item in body["items"]] == ["a", "b"]
            assert (await world.ask("DELETE", "/api/v1/pods"))[0] == 405
            assert len((await world.ask("GET", PODS))[1]["items"]) == 1

    asyncio.run(run())


def test_a_workload_is_scaled() -> None:
    """Read, replaced and patched by its scale subresource."""

    async def run() -> None:
        async with serving() as world:
            await world.create(DEPLOYMENTS, deployment("web"))
            path = f"{DEPLOYMENTS}/web/scale"
            _, scale = await world.ask("GET", path)
            assert (scale["spec"], scale["status"]["selector"]) == ({"replicas": 2}, "app=web")
            scale["metadata"].pop("resourceVersion")
            scale["spec"]["replicas"] = 3
            assert (await world.ask("PUT", path, scale))[1]["spec"] == {"replicas": 3}
            patch = {"spec": {"replicas": 1}}
            assert (await world.ask("PATCH", path, patch, type=MERGE))[1]["spec"] == patch["spec"]
            patch["spec"]["replicas"] = -1
            assert (await world.ask("PATCH", path, patch, type=MERGE))[0] == 422
            _, body = await world.ask("GET", f"{DEPLOYMENTS}/web")
            assert body["spec"]["replicas"] == 1

    asyncio.run(run())


def test_evictions_keep_to_the_budget() -> None:
    """A pod that runs stays if its budget allows no disruption; one that does not run goes."""

    async def run() -> None:
        async with serving() as world:
            await world.create("/api/v1/nodes", node("n"))
            for name in ("a", "b"):
                await world.create(PODS, pod(name, app="web"))
            binding = {"metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}
            assert (await world.ask("POST", f"{PODS}/a/binding", binding))[0] == 201
            budget = {
                "metadata": {"name": "keep"},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
            }
            await world.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
            world.cluster.step()
            world.clock.advance(10**9)
            world.cluster.step()
            eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
            status, body = await world.ask("POST", f"{PODS}/a/eviction", eviction)
            assert (status, body["reason"]) == (429, "TooManyRequests")
            assert body["details"]["causes"][0]["reason"] == "DisruptionBudget"
            assert (await world.ask("POST", f"{PODS}/b/eviction", eviction))[0] == 201
            assert (await world.ask("GET", f"{PODS}/b"))[0] == 404

    asyncio.run(run())


SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
OF_POD = "the object provided is unrecognized (must be of type Pod): "


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        (PODS, b"{bad", 400, OF_POD + "couldn't get version/kind; json parse error: "),
        (PODS, b"", 400, OF_POD),
        (PODS, b"[]", 400, OF_POD),
        (PODS, b"[" * 100_000, 400, OF_POD),
        (PODS, b'{"metadata": {"name": "\xff"}}', 400, OF_POD),
        (PODS, {"metadata": {"name": "a", "labels": {"n": 2**70}}}, 400, 'Pod in version "v1"'),
        (PODS, SERVICE, 400, 'Service in version "v1" cannot be handled as a Pod: '),
        (PODS, deployment("a"), 400, "the API version in the data (apps/v1) does not match"),
        (PODS, pod("a") | {"spec": 5}, 400, 'Pod in version "v1" cannot be handled as a Pod: '),
        (PODS, pod("a") | {"metadata": None}, 422, 'Pod "" is invalid: metadata.name: Required'),
        (PODS, pod("a") | {"metadata": 5}, 400, 'Pod in version "v1" cannot be handled'),
        (
            PODS,
            pod("a") | {"metadata": {"name": "a", "namespace": "other"}},
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (PODS.replace("default", "none"), pod("a"), 404, 'namespaces "none" not found'),
        ("/api/v1/pods", pod("a"), 405, "the server does not allow this method"),
        (PODS, b"x" * (LIMIT + 1), 413, f"Request entity too large: limit is {LIMIT}"),
        (f"{PODS}/a/binding", {"target": 5}, 400, 'Binding in version "v1" cannot be handled as a'),
        (f"{PODS}/a/binding", {"target": {}}, 422, "target.name: Required value"),
        (
            f"{PODS}/a/binding",
            {"target": {"kind": "Pod"}},
            422,
            '[target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>", target',
        ),
        (f"{PODS}/a/nope", {}, 404, "the server could not find the requested resource"),
        ("/api/v1/namespaces/default/foos", {}, 404, "the server could not find the requested"),
    ],
)
def test_malformed_requests_are_refused_in_words(
    path: str, body: Any, status: int, message: str
) -> None:
    """As a Status, whose code is the response's."""

    async def run() -> tuple[int, Any]:
        async with serving() as world:
            return await world.ask("POST", path, body)

    code, answer = asyncio.run(run())
    assert (code, answer["code"], answer["status"]) == (status, status, "Failure"), answer
    assert answer["message"].startswith(message)


def test_system_namespaces_cannot_be_deleted() -> None:
    """In the API server's words."""

    async def run() -> None:
        async with serving() as world:
            status, body = await world.ask("DELETE", "/api/v1/namespaces/default")
            why = 'namespaces "default" is forbidden: this namespace may not be deleted'
            assert (status, body["message"]) == (403, why)

    asyncio.run(run())


def test_a_patch_that_was_meant_for_another_object_is_invalid() -> None:
    """Of the same name but another uid; patches have no preconditions."""

    async def run() -> None:
        async with serving() as world:
            await world.create(PODS, pod("p"))
            patch = {"metadata": {"uid": "other"}, "status": {"phase": "Running"}}
            for path in (f"{PODS}/p", f"{PODS}/p/status"):
                status, body = await world.ask("PATCH", path, patch, type=MERGE)
                assert (status, body["message"]) == (
                    422,
                    'Pod "p" is invalid: metadata.uid: Invalid value: "other": field is immutable',
                )

    asyncio.run(run())


def test_unknown_paths_get_a_text() -> None:
    """As the API server does outside of the groups that it serves."""

    async def run() -> None:
        async with serving() as world:
            for path in ("/foo", "/apis/foo/v1/bars", "/apis/apps/v9/deployments", "/api/v2"):
                status, body = await world.ask("GET", path)
                assert (status, body["kind"], body["reason"]) == (404, "Status", "NotFound")
            assert (await world.ask("POST", "/version"))[0] == 405
            status, body = await world.ask("POST", PODS, b"<p/>", type="application/xml")
            assert (status, body["reason"]) == (415, "UnsupportedMediaType")

    asyncio.run(run())


WORDS = (
    "metadata spec status name labels containers resources requests cpu template selector replicas"
    " nodeName tolerations affinity regarding series eventTime taints conditions target rules verbs"
    " subjects roleRef kind managedFields user token resourceAttributes boundObjectRef annotations"
)
FIELDS = st.sampled_from(WORDS.split())
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELDS, inner, max_size=4),
    max_leaves=12,
)
PATHS = st.sampled_from([
    PODS, "/api/v1/nodes", DEPLOYMENTS, "/apis/batch/v1/namespaces/default/jobs",
    "/api/v1/namespaces/default/events", "/api/v1/namespaces/default/configmaps",
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets", "/api/v1/persistentvolumes",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "/apis/authentication.k8s.io/v1/tokenreviews",
    "/apis/authorization.k8s.io/v1/subjectaccessreviews",
])  # fmt: skip


@settings(max_examples=scaled(15), deadline=None, derandomize=True)
@given(st.lists(st.tuples(PATHS, st.dictionaries(FIELDS, PLAIN, max_size=5)), max_size=8))
def test_no_body_breaks_the_server_or_the_cluster(bodies: list[tuple[str, Plain]]) -> None:
    """Whatever is created and patched is taken or refused; everything can be listed after it."""

    async def run() -> None:
        async with serving() as world:
            for index, (path, body) in enumerate(bodies):
                await world.ask("POST", path, body)
                name = f"n{index}"
                meta = body.get("metadata")
                meta = meta if isinstance(meta, dict) else {}
                status, _ = await world.ask(
                    "POST", path, {**body, "metadata": {**meta, "name": name}}
                )
                assert status in (201, 400, 403, 404, 409, 422)
                status, _ = await world.ask("PATCH", f"{path}/{name}", body, type=STRATEGIC)
                assert status in (200, 400, 403, 404, 405, 409, 422)
                await _apply(world, f"{path}/{name}", body)
                table = "application/json;as=Table;v=v1;g=meta.k8s.io"
                assert (await world.ask("GET", path, accept=table))[0] in (200, 405)
                world.cluster.step()

    asyncio.run(run())


async def _apply(world: World, path: str, body: Plain) -> None:
    """Apply a body to an object of the kind that is there, by two managers."""
    data = (await world.ask("GET", path))[1]
    head = {key: data[key] for key in ("apiVersion", "kind") if key in data}
    for manager in ("a", "b"):
        query = f"fieldManager={manager}&force={'true' if manager == 'b' else 'false'}"
        query += "&fieldValidation=Warn"
        status, _ = await world.ask("PATCH", f"{path}?{query}", {**body, **head}, type=APPLY)
        assert status in (200, 201, 400, 403, 404, 405, 409, 422)
