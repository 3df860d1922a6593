"""What users may do: RBAC on every request, in the API server's words; acting as another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from policy_sched.embedded.apiserver.security.escalation import install
from policy_sched.embedded.apiserver.security.rbac import CLUSTER_ROLE
from policy_sched.embedded.store.store import ObjectStore
from policy_sched.errors import ClusterError
from policy_sched.http.access import Access, address_of
from policy_sched.testing import FakeClock
from tests.embedded.apiserver.security.guarded import (
    RBAC,
    account,
    binding,
    group,
    guarded,
    make,
    role,
    rule,
    token_of,
    user,
)
from tests.embedded.apiserver.world import PODS, World, pod
from tests.embedded.world import START, node

Story = Callable[[World], Coroutine[Any, Any, None]]


def tell(folder: Path, story: Story, mode: str = "RBAC") -> None:
    """Run a story against a guarded cluster."""

    async def run() -> None:
        async with guarded(folder, mode) as world:
            await story(world)

    asyncio.run(run())


def test_a_user_without_rules_gets_the_recorded_403(tmp_path: Path) -> None:
    """Status, reason, message and details of lists, objects, subresources and paths."""

    async def story(world: World) -> None:
        pods = 'User "joe" cannot list resource "pods" in API group ""'
        status, body = await world.ask("GET", "/api/v1/pods", token="joe-token")
        assert (status, body["reason"], body["details"]) == (403, "Forbidden", {"kind": "pods"})
        assert body["message"] == f"pods is forbidden: {pods} at the cluster scope"
        _, body = await world.ask("GET", PODS, token="joe-token")
        assert body["message"] == f'pods is forbidden: {pods} in the namespace "default"'
        path = "/apis/apps/v1/namespaces/x/deployments/web/scale"
        _, body = await world.ask("PATCH", path, {}, token="joe-token")
        cannot = 'User "joe" cannot patch resource "deployments/scale" in API group "apps"'
        where = 'in the namespace "x"'
        assert body["message"] == f'deployments.apps "web" is forbidden: {cannot} {where}'
        assert body["details"] == {"name": "web", "group": "apps", "kind": "deployments"}
        status, body = await world.ask("GET", "/metrics", token="joe-token")
        assert (status, body["message"]) == (
            403, 'forbidden: User "joe" cannot get path "/metrics"',
        )  # fmt: skip

    tell(tmp_path, story)


def test_a_404_needs_the_permission_to_read(tmp_path: Path) -> None:
    """Rights come first, whether there is such an object, resource or method or not."""

    async def story(world: World) -> None:
        paths = {"/api/v1/nonsense": 404, f"{PODS}/none": 404, "/apis/no.such/v1/things": 404}
        for path, status in paths.items():
            assert (await world.ask("GET", path, token="joe-token"))[0] == 403
            assert (await world.ask("GET", path, token="admin-token"))[0] == status

    tell(tmp_path, story)


def test_anonymous_requests_may_read_health_and_version(tmp_path: Path) -> None:
    """A wrong token is another matter: that is refused as such, everywhere."""

    async def story(world: World) -> None:
        assert await world.ask("GET", "/readyz") == (200, "ok")
        assert (await world.ask("GET", "/version"))[0] == 200
        status, body = await world.ask("GET", "/api")
        assert status == 403
        assert 'User "system:anonymous" cannot get path "/api"' in body["message"]
        assert (await world.ask("GET", "/version", token="wrong"))[0] == 401

    tell(tmp_path, story)


def test_roles_allow_verbs_on_resources_names_and_paths_to_users_groups_and_accounts(
    tmp_path: Path,
) -> None:
    """Each binding gives its role, in its namespace or everywhere; a change counts at once."""

    async def story(world: World) -> None:
        await make(world, f"{RBAC}/clusterroles", role("reader", rule("list watch", "pods")))
        some = role("some", rule("get", "pods pods/status", names="a"))
        await make(world, f"{RBAC}/namespaces/default/roles", some)
        dev = binding("dev", "ClusterRole", "reader", group("dev"))
        await make(world, f"{RBAC}/clusterrolebindings", dev)
        joes = binding("joe", "Role", "some", user("joe"))
        await make(world, f"{RBAC}/namespaces/default/rolebindings", joes)
        for name in ("a", "b"):
            await make(world, PODS, pod(name))

        async def may(token: str, path: str) -> bool:
            return (await world.ask("GET", path, token=token))[0] == 200

        assert await may("jane-token", "/api/v1/pods")
        assert not await may("jane-token", f"{PODS}/a")
        assert await may("joe-token", f"{PODS}/a")
        assert await may("joe-token", f"{PODS}/a/status")
        assert not await may("joe-token", f"{PODS}/b")
        assert not await may("joe-token", PODS)
        gone = await world.ask("DELETE", f"{RBAC}/clusterrolebindings/dev", token="admin-token")
        assert gone[0] == 200
        assert not await may("jane-token", "/api/v1/pods")

    tell(tmp_path, story)


def test_a_list_of_one_name_is_authorized_by_resource_name(tmp_path: Path) -> None:
    """The field selector counts as the name, and lets nothing else through."""

    async def story(world: World) -> None:
        read_role = role("one", rule("list watch", "pods", names="a"))
        await make(world, f"{RBAC}/namespaces/default/roles", read_role)
        joes = binding("joe", "Role", "one", user("joe"))
        await make(world, f"{RBAC}/namespaces/default/rolebindings", joes)
        for name in ("a", "b"):
            await make(world, PODS, pod(name))
        path = f"{PODS}?fieldSelector=metadata.name%3Da"
        status, body = await world.ask("GET", path, token="joe-token")
        assert (status, [read_role["metadata"]["name"] for read_role in body["items"]]) == (
            200,
            ["a"],
        )
        for other in ("metadata.name%3Db", "metadata.name%21%3Da"):
            path = f"{PODS}?fieldSelector={other}"
            assert (await world.ask("GET", path, token="joe-token"))[0] == 403

    tell(tmp_path, story)


def test_a_role_that_is_missing_is_named(tmp_path: Path) -> None:
    """A binding to nothing gives nothing, and says so."""

    async def story(world: World) -> None:
        lost = binding("lost", "ClusterRole", "none", user("joe"))
        await make(world, f"{RBAC}/clusterrolebindings", lost)
        body = (await world.ask("GET", PODS, token="joe-token"))[1]
        words = 'RBAC: clusterrole.rbac.authorization.k8s.io "none" not found'
        assert body["message"].endswith(f'in the namespace "default": {words}')

    tell(tmp_path, story)


def test_aggregated_roles_have_the_rules_of_those_they_select(tmp_path: Path) -> None:
    """The controller writes them; kube-apiserver's view, edit and admin are made so."""

    async def story(world: World) -> None:
        view = binding("v", "ClusterRole", "view", user("jane"))
        await make(world, f"{RBAC}/namespaces/default/rolebindings", view)
        edit = binding("e", "ClusterRole", "edit", user("joe"))
        await make(world, f"{RBAC}/namespaces/default/rolebindings", edit)
        assert (await world.ask("GET", PODS, token="jane-token"))[0] == 200
        assert (await world.ask("GET", "/api/v1/pods", token="jane-token"))[0] == 403
        assert (await world.ask("POST", PODS, pod("a"), token="jane-token"))[0] == 403
        assert (await world.ask("POST", PODS, pod("a"), token="joe-token"))[0] == 201
        labels = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
        more = role("more", rule("get", "nodes"), labels=labels)
        await make(world, f"{RBAC}/clusterroles", more)
        path = f"{RBAC}/clusterroles/admin"
        rules = (await world.ask("GET", path, token="admin-token"))[1]["rules"]
        assert rule("get", "nodes") in rules

    tell(tmp_path, story)


def test_service_accounts_are_users_of_their_own(tmp_path: Path) -> None:
    """Their tokens are let in, with the rights that are bound to them."""

    async def story(world: World) -> None:
        await make(world, "/api/v1/nodes", node("n"))
        await make(world, "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "s"}})
        token = await token_of(world, "s")
        status, body = await world.ask("GET", "/api/v1/nodes", token=token)
        assert status == 403
        assert 'User "system:serviceaccount:default:s" cannot list' in body["message"]
        await make(world, f"{RBAC}/clusterroles", role("nodes", rule("list", "nodes")))
        given = binding("s", "ClusterRole", "nodes", account("s"))
        await make(world, f"{RBAC}/clusterrolebindings", given)
        assert (await world.ask("GET", "/api/v1/nodes", token=token))[0] == 200

    tell(tmp_path, story)


def test_acting_as_another_needs_the_right_to(tmp_path: Path) -> None:
    """Then the other's rights count, and no more."""

    async def story(world: World) -> None:
        status, body = await world.ask("GET", PODS, token="joe-token", as_user="jane")
        assert status == 403
        assert body["message"].startswith(
            'users "jane" is forbidden: User "joe" cannot impersonate resource "users"'
        )
        status, body = await world.ask("GET", PODS, token="admin-token", as_user="jane")
        assert (status, 'User "jane" cannot list' in body["message"]) == (403, True)
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        sa = "system:serviceaccount:default:x"
        _, body = await world.ask("POST", path, {}, token="admin-token", as_user=sa)
        assert body["status"]["userInfo"]["groups"][0] == "system:serviceaccounts"

    tell(tmp_path, story)


async def _as(world: World, token: str, headers: list[tuple[str, str]]) -> tuple[int, Any]:
    """Request a self review, impersonating another user."""
    url = f"{world.url}/apis/authentication.k8s.io/v1/selfsubjectreviews"
    both = [("Authorization", f"Bearer {token}"), *headers]
    async with world.session.post(url, json={}, headers=both) as answer:
        return answer.status, await answer.json()


ASKED = [
    ("Impersonate-User", "ann"),
    ("Impersonate-Group", "a"),
    ("Impersonate-Group", "b"),
    ("Impersonate-Uid", "7"),
    ("Impersonate-Extra-Example.org%2fScope", "x"),
]


def test_impersonation_takes_users_and_groups(tmp_path: Path) -> None:
    """Each part needs the right to it; a group alone is refused."""

    async def story(world: World) -> None:
        status, body = await _as(world, "admin-token", ASKED)
        assert (status, body["status"]["userInfo"]) == (
            201,
            {
                "username": "ann", "uid": "7", "groups": ["a", "b", "system:authenticated"],
                "extra": {"example.org/scope": ["x"]},
            },
        )  # fmt: skip
        rules = (
            rule("impersonate", "users groups serviceaccounts"),
            rule("impersonate", "uids", "authentication.k8s.io"),
        )
        await make(world, f"{RBAC}/clusterroles", role("as", *rules))
        given = binding("as", "ClusterRole", "as", user("joe"))
        await make(world, f"{RBAC}/clusterrolebindings", given)
        assert (await _as(world, "joe-token", ASKED[:4]))[0] == 201
        status, body = await _as(world, "joe-token", ASKED)
        assert (status, 'resource "userextras/example.org/scope"' in body["message"]) == (403, True)
        assert (await _as(world, "admin-token", ASKED[1:]))[0] == 400
        status, body = await _as(world, "admin-token", [("Impersonate-User", "system:anonymous")])
        assert (status, 'User "system:anonymous" cannot' in body["message"]) == (403, True)

    tell(tmp_path, story)


def test_the_first_roles_are_mended_unless_they_say_that_they_are_not() -> None:
    """When the server begins again, on objects that were kept."""
    store = ObjectStore(FakeClock(START))
    for name in ("default", "kube-system"):
        store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    install(store)
    version = store.version
    install(store)
    assert store.version == version
    for name, update in (("system:discovery", "true"), ("system:basic-user", "false")):
        stored = store.get(CLUSTER_ROLE, "", name)
        data = stored.data
        data["metadata"]["annotations"]["rbac.authorization.kubernetes.io/autoupdate"] = update
        store.revise(stored, {**data, "rules": []})
    install(store)
    assert store.get(CLUSTER_ROLE, "", "system:discovery").data["rules"]
    assert not store.get(CLUSTER_ROLE, "", "system:basic-user").data["rules"]


def put(world: World, data: dict[str, Any], **wrong: Any) -> None:
    """Store an object with fields of the wrong type, which no check of the store has seen."""
    stored = world.cluster.store.create(data)
    world.cluster.store.revise(stored, {**stored.data, **wrong})


def test_roles_that_came_past_the_api_and_cannot_be_read_give_nothing(tmp_path: Path) -> None:
    """Requests of others are decided as before."""

    async def story(world: World) -> None:
        meta = {"name": "odd"}
        version = "rbac.authorization.k8s.io/v1"
        odd = {"apiVersion": version, "kind": "ClusterRole", "metadata": meta}
        put(world, odd, rules=5, aggregationRule=5)
        ref = {"kind": "ClusterRole", "name": "odd"}
        subjects = [{"kind": "User", "name": "joe"}]
        for name, given in (("a", subjects), ("b", "all")):
            data = {"apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": name}}
            put(world, {**data, "roleRef": ref}, subjects=given)
        assert (await world.ask("GET", PODS, token="joe-token"))[0] == 403
        assert (await world.ask("GET", PODS, token="admin-token"))[0] == 200

    tell(tmp_path, story)


def test_with_always_allow_everybody_known_may_everything(tmp_path: Path) -> None:
    """Anonymous requests read health and version only; no roles are made."""

    async def story(world: World) -> None:
        assert (await world.ask("GET", PODS, token="joe-token"))[0] == 200
        assert (await world.ask("GET", PODS))[0] == 401
        assert await world.ask("GET", "/healthz") == (200, "ok")
        path = f"{RBAC}/clusterroles"
        assert (await world.ask("GET", path, token="joe-token"))[1]["items"] == []

    tell(tmp_path, story, "AlwaysAllow")


@pytest.mark.parametrize(
    ("access", "words"),
    [
        (Access(mode="ABAC", tokens="t"), "not one of AlwaysAllow, RBAC"),
        (Access(mode="RBAC"), "needs --token-auth-file or --client-ca-file"),
    ],
)
def test_rbac_needs_users(access: Access, words: str) -> None:
    """Without them every user might do everything."""
    with pytest.raises(ClusterError, match=words):
        access.check(address_of("1"))
