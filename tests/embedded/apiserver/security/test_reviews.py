"""Reviews of users and of their access; tokens of service accounts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from policy_sched.client.apimachinery.object import Key
from policy_sched.client.apimachinery.resources import ApiError
from policy_sched.embedded.apiserver.security.account_tokens import AUDIENCE, AccountTokens
from policy_sched.embedded.store.store import ObjectStore
from policy_sched.testing import FakeClock
from tests.embedded.apiserver.security.guarded import (
    ACCOUNTS,
    RBAC,
    account,
    binding,
    guarded,
    make,
    role,
    rule,
    token_of,
    user,
)
from tests.embedded.apiserver.world import PODS, World, pod
from tests.embedded.world import START

AUTHN = "/apis/authentication.k8s.io/v1"
AUTHZ = "/apis/authorization.k8s.io/v1"


def told(folder: Path, story: Any, mode: str = "RBAC") -> None:
    """Run a story against a guarded cluster."""

    async def run() -> None:
        async with guarded(folder, mode) as world:
            await story(world)

    asyncio.run(run())


async def review(world: World, path: str, token: str = "admin-token", **spec: Any) -> Any:
    """Return the status of a review."""
    return (await make(world, path, {"spec": spec}, token))["status"]


def test_a_token_review_tells_whose_a_token_is(tmp_path: Path) -> None:
    """User, uid, groups and audiences; of an unknown token only that."""

    async def story(world: World) -> None:
        path = f"{AUTHN}/tokenreviews"
        body = await make(world, path, {"spec": {"token": "jane-token"}})
        assert body["status"] == {
            "authenticated": True,
            "user": {"username": "jane", "uid": "2",
                     "groups": ["dev", "ops", "system:authenticated"]},
            "audiences": [AUDIENCE],
        }  # fmt: skip
        body = await make(world, path, {"spec": {"token": "nobody's"}})
        assert body["status"]["user"] == {}
        assert "authenticated" not in body["status"]
        asked = {"token": "jane-token", "audiences": ["vault"]}
        assert "error" in (await make(world, path, {"spec": asked}))["status"]
        status, body = await world.ask("POST", path, {"spec": {}}, token="admin-token")
        assert status == 400
        wrong = await world.ask("POST", path, {"spec": {"token": 1}}, token="admin-token")
        assert wrong[0] == 400

    told(tmp_path, story)


def test_every_user_may_create_self_reviews(tmp_path: Path) -> None:
    """``kubectl auth whoami`` and ``can-i``, for users without other rights."""

    async def story(world: World) -> None:
        body = await make(world, f"{AUTHN}/selfsubjectreviews", {}, "joe-token")
        assert body["status"]["userInfo"] == {
            "username": "joe", "uid": "3", "groups": ["system:authenticated"],
        }  # fmt: skip
        path = f"{AUTHZ}/selfsubjectaccessreviews"
        pods = {"verb": "list", "resource": "pods"}
        assert await review(world, path, "joe-token", resourceAttributes=pods) == {"allowed": False}
        url = {"verb": "get", "path": "/api"}
        status = await review(world, path, "joe-token", nonResourceAttributes=url)
        assert status["allowed"]
        assert status["reason"].startswith(
            'RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole'
            ' "system:discovery" to Group "system:authenticated"'
        )

    told(tmp_path, story)


def test_an_access_review_tells_of_others(tmp_path: Path) -> None:
    """Of users, groups and service accounts; for one namespace too; not for all users."""

    async def story(world: World) -> None:
        await make(world, f"{RBAC}/namespaces/default/roles", role("r", rule("get", "pods")))
        given = binding("r", "Role", "r", user("joe"), account("s"))
        await make(world, f"{RBAC}/namespaces/default/rolebindings", given)
        path = f"{AUTHZ}/subjectaccessreviews"
        here = {"verb": "get", "resource": "pods", "namespace": "default"}
        for name in ("joe", "system:serviceaccount:default:s"):
            status = await review(world, path, user=name, resourceAttributes=here)
            assert (status["allowed"], status["reason"][:38]) == (
                True, 'RBAC: allowed by RoleBinding "r/defaul',
            )  # fmt: skip
        everywhere = {**here, "namespace": ""}
        assert not (await review(world, path, user="joe", resourceAttributes=everywhere))["allowed"]
        masters = {"groups": ["system:masters"], "nonResourceAttributes": {"path": "/x"}}
        assert (await review(world, path, **masters))["allowed"]
        local = f"{AUTHZ}/namespaces/default/localsubjectaccessreviews"
        assert (await review(world, local, user="joe", resourceAttributes=here))["allowed"]
        refused = await world.ask("POST", path, {"spec": {}}, token="joe-token")
        assert refused[0] == 403

    told(tmp_path, story)


@pytest.mark.parametrize(
    ("path", "spec", "words"),
    [
        ("subjectaccessreviews", {"user": "x"}, "exactly one of nonResourceAttributes or"),
        ("subjectaccessreviews", {"nonResourceAttributes": {}}, "at least one of user or group"),
        (
            "namespaces/default/localsubjectaccessreviews",
            {"user": "x", "resourceAttributes": {"namespace": "y"}},
            "must match metadata.namespace: default",
        ),
        (
            "namespaces/default/localsubjectaccessreviews",
            {"user": "x", "nonResourceAttributes": {"path": "/"}},
            "disallowed on this kind of request",
        ),
    ],
)
def test_reviews_that_ask_nothing_are_invalid(
    tmp_path: Path, path: str, spec: Any, words: str
) -> None:
    """With the API server's words."""

    async def story(world: World) -> None:
        data = {"spec": spec}
        status, body = await world.ask("POST", f"{AUTHZ}/{path}", data, token="admin-token")
        assert (status, body["reason"]) == (422, "Invalid")
        assert words in body["message"]

    told(tmp_path, story)


def test_a_rules_review_lists_what_may_be_done(tmp_path: Path) -> None:
    """``kubectl auth can-i --list``; a master may everything."""

    async def story(world: World) -> None:
        path = f"{AUTHZ}/selfsubjectrulesreviews"
        await make(world, f"{RBAC}/namespaces/default/roles", role("r", rule("get", "pods")))
        given = binding("r", "Role", "r", user("joe"))
        await make(world, f"{RBAC}/namespaces/default/rolebindings", given)
        status = await review(world, path, "joe-token", namespace="default")
        assert rule("get", "pods") in status["resourceRules"]
        elsewhere = await review(world, path, "joe-token", namespace="x")
        assert rule("get", "pods") not in elsewhere["resourceRules"]
        everything = await review(world, path, namespace="x")
        assert everything["nonResourceRules"] == [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
        assert (await world.ask("POST", path, {}, token="joe-token"))[0] == 400

    told(tmp_path, story)


def test_a_token_is_for_an_account_and_for_an_hour(tmp_path: Path) -> None:
    """Until its time is over; what is asked beyond reason is refused."""

    async def story(world: World) -> None:
        await make(world, ACCOUNTS, {"metadata": {"name": "s"}})
        body = await make(world, f"{ACCOUNTS}/s/token", {})
        token = body["status"]["token"]
        assert body["spec"] == {"expirationSeconds": 3600}
        own = f"{AUTHN}/selfsubjectreviews"
        info = (await make(world, own, {}, token))["status"]["userInfo"]
        assert info["username"] == "system:serviceaccount:default:s"
        assert list(info["extra"]) == ["authentication.kubernetes.io/credential-id"]
        world.clock.advance(3600 * 10**9)
        assert (await world.ask("POST", own, {}, token=token))[0] == 401
        for seconds, words in ((599, "less than 10 minutes"), (2**33, "larger than 2^32")):
            spec = {"spec": {"expirationSeconds": seconds}}
            refused = await world.ask("POST", f"{ACCOUNTS}/s/token", spec, token="admin-token")
            assert (refused[0], words in refused[1]["message"]) == (422, True)
        path = f"{ACCOUNTS}/none/token"
        status, body = await world.ask("POST", path, {}, token="admin-token")
        assert (status, body["message"]) == (404, 'serviceaccounts "none" not found')

    told(tmp_path, story)


def test_a_token_can_be_bound_to_a_pod_and_meant_for_others(tmp_path: Path) -> None:
    """It ends with the pod; one for other audiences is not for this server."""

    async def story(world: World) -> None:
        await make(world, ACCOUNTS, {"metadata": {"name": "s"}})
        await make(world, PODS, pod("p"))
        own = f"{AUTHN}/selfsubjectreviews"
        bound = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
        token = await token_of(world, "s", boundObjectRef=bound)
        info = (await make(world, own, {}, token))["status"]["userInfo"]
        assert info["extra"]["authentication.kubernetes.io/pod-name"] == ["p"]
        await world.ask("DELETE", f"{PODS}/p", token="admin-token")
        assert (await world.ask("POST", own, {}, token=token))[0] == 401
        other = await token_of(world, "s", audiences=["vault"])
        assert (await world.ask("POST", own, {}, token=other))[0] == 401
        asked = {"token": other, "audiences": ["vault", "x"]}
        status = (await make(world, f"{AUTHN}/tokenreviews", {"spec": asked}))["status"]
        assert status["audiences"] == ["vault"]
        for ref, code in (({"kind": "Pod", "name": "p"}, 404), ({"kind": "X"}, 422)):
            spec = {"spec": {"boundObjectRef": ref}}
            path = f"{ACCOUNTS}/s/token"
            assert (await world.ask("POST", path, spec, token="admin-token"))[0] == code
        await make(world, PODS, pod("q"))
        wrong = {"spec": {"boundObjectRef": {"kind": "Pod", "name": "q", "uid": "other"}}}
        refused = await world.ask("POST", f"{ACCOUNTS}/s/token", wrong, token="admin-token")
        assert refused[0] == 409
        assert "does not match the UID in record" in refused[1]["message"]

    told(tmp_path, story)


def _store() -> ObjectStore:
    """Return a store with a service account."""
    store = ObjectStore(FakeClock(START))
    meta = {"name": "default"}
    store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    store.create(ACCOUNT)
    return store


ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"}}


def test_tokens_of_another_key_or_account_are_worth_nothing() -> None:
    """Neither changed ones, nor those of another cluster, or of an account that was made anew."""
    store = _store()
    tokens, account = AccountTokens(store), ("default", "s")
    token = tokens.issue(account, (), 600)
    assert tokens.verify(token) is not None
    head, claims, signature = token.split(".")
    for other in (
        AccountTokens(_store()).issue(account, (), 600),
        f"{head}.{claims}.{signature[:-2]}AA",
        f"{head}.{claims[:-2]}AA.{signature}",
        f"{head}.{claims}.\udc80",
        "\udc80.x.y",
        "..",
    ):
        assert tokens.verify(other) is None
    store.delete(Key(("v1", "ServiceAccount"), *account))
    assert tokens.verify(token) is None
    with pytest.raises(ApiError):
        tokens.issue(account, (), 600)
    store.create(ACCOUNT)
    assert tokens.verify(token) is None
