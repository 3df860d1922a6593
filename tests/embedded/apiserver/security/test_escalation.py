"""Roles and bindings that users write: completed, checked, and no more than they may do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.apiserver.security.guarded import (
    RBAC,
    account,
    binding,
    group,
    guarded,
    make,
    role,
    rule,
    user,
)
from tests.embedded.apiserver.world import Plain, World

ROLES = f"{RBAC}/namespaces/default/roles"
BINDINGS = f"{RBAC}/namespaces/default/rolebindings"
GROUP = "rbac.authorization.k8s.io"


def told(folder: Path, story: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    """Run a story against a guarded cluster, in which joe may write roles and get pods."""

    async def run() -> None:
        async with guarded(folder) as world:
            mine = role(
                "mine",
                rule("create update patch get", "roles rolebindings", GROUP),
                rule("get list", "pods pods/log"),
                rule("get", "secrets", names="a b"),
                rule("*", "deployments", "apps"),
                rule("get", "*/scale", "apps"),
            )
            await make(world, f"{RBAC}/clusterroles", mine)
            await make(
                world,
                f"{RBAC}/clusterrolebindings",
                binding("mine", "ClusterRole", "mine", user("joe")),
            )
            await story(world)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        (rule("get", "pods"), ""),
        (rule("get list", "pods/log pods"), ""),
        (rule("get", "secrets", names="b"), ""),
        (rule("patch", "deployments", "apps", names="web"), ""),
        (rule("get", "things/scale", "apps"), ""),
        (rule("get watch", "pods"),
         '{APIGroups:[""], Resources:["pods"], Verbs:["watch"]}'),
        (rule("get", "secrets", names="a c"),
         '{APIGroups:[""], Resources:["secrets"], ResourceNames:["c"], Verbs:["get"]}'),
        (rule("get", "secrets"), '{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}'),
        (rule("*", "*", "*"), '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}'),
    ],
)  # fmt: skip
def test_a_role_beyond_the_users_rules_is_forbidden(
    tmp_path: Path, given: Plain, missing: str
) -> None:
    """What is missing is listed, part by part."""

    async def story(world: World) -> None:
        status, body = await world.ask("POST", ROLES, role("r", given), token="joe-token")
        if not missing:
            assert status == 201
            return
        joe = 'user "joe" (groups=["system:authenticated"])'
        what = "is attempting to grant RBAC permissions not currently held:"
        assert body["message"] == (
            f'roles.rbac.authorization.k8s.io "r" is forbidden: {joe} {what}\n{missing}'
        )
        assert status == 403

    told(tmp_path, story)


def test_a_binding_beyond_the_users_rules_is_forbidden(tmp_path: Path) -> None:
    """Unless it may bind just that role; a role that is not there cannot be given."""

    async def story(world: World) -> None:
        given = binding("b", "ClusterRole", "cluster-admin", user("joe"))
        status, body = await world.ask("POST", BINDINGS, given, token="joe-token")
        assert (status, 'Verbs:["*"]}' in body["message"]) == (403, True)
        none = binding("b", "Role", "none", user("joe"))
        assert (await world.ask("POST", BINDINGS, none, token="joe-token"))[0] == 404
        own = binding("own", "ClusterRole", "mine", user("jane"))
        assert (await world.ask("POST", BINDINGS, own, token="joe-token"))[0] == 201
        bind = role("bind", rule("bind", "clusterroles", GROUP, "cluster-admin"),
                    rule("escalate", "roles", GROUP))  # fmt: skip
        await make(world, f"{RBAC}/clusterroles", bind)
        path = f"{RBAC}/clusterrolebindings"
        await make(world, path, binding("bind", "ClusterRole", "bind", user("joe")))
        assert (await world.ask("POST", BINDINGS, given, token="joe-token"))[0] == 201
        everything = role("r", rule("*", "*", "*"))
        assert (await world.ask("POST", ROLES, everything, token="joe-token"))[0] == 201

    told(tmp_path, story)


def test_a_patch_of_a_role_is_held_to_the_same(tmp_path: Path) -> None:
    """And so is a role that is made of others, or of paths."""

    async def story(world: World) -> None:
        await make(world, ROLES, role("r", rule("get", "pods")), "joe-token")
        patch = {"rules": [rule("delete", "pods")]}
        named = {"type": "application/merge-patch+json", "token": "joe-token"}
        assert (await world.ask("PATCH", f"{ROLES}/r", patch, **named))[0] == 403
        more = role("c", rule("create", "clusterroles", GROUP))
        await make(world, f"{RBAC}/clusterroles", more)
        path = f"{RBAC}/clusterrolebindings"
        await make(world, path, binding("c", "ClusterRole", "c", user("joe")))
        for extra in (
            {"aggregationRule": {"clusterRoleSelectors": [{}]}},
            {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/logs/*"]}]},
        ):
            data = {"metadata": {"name": "x"}, **extra}
            status, body = await world.ask("POST", f"{RBAC}/clusterroles", data, token="joe-token")
            assert (status, "NonResourceURLs" in body["message"]) == (403, True)
        open_path = {"verbs": ["get"], "nonResourceURLs": ["/api/v1"]}
        data = {"metadata": {"name": "x"}, "rules": [open_path]}
        assert (await world.ask("POST", f"{RBAC}/clusterroles", data, token="joe-token"))[0] == 201

    told(tmp_path, story)


def _ref(**changes: str) -> Plain:
    data = binding("b", "Role", "r", user("x"))
    return data | {"roleRef": data["roleRef"] | changes}


@pytest.mark.parametrize(
    ("path", "data", "words"),
    [
        (ROLES, role("r", {"apiGroups": [""], "resources": ["pods"]}),
         "rules[0].verbs: Required value: verbs must contain at least one value"),
        (ROLES, role("r", {"verbs": ["get"], "resources": ["pods"]}),
         "rules[0].apiGroups: Required value: resource rules must supply at least one api group"),
        (ROLES, role("r", {"verbs": ["get"], "apiGroups": [""]}),
         "rules[0].resources: Required value: resource rules must supply at least one resource"),
        (ROLES, role("r", {"verbs": ["get"], "nonResourceURLs": ["/x"]}),
         'rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply'),
        (f"{RBAC}/clusterroles",
         role("r", {**rule("get", "pods"), "nonResourceURLs": ["/x"]}),
         "rules cannot apply to both regular resources and non-resource URLs"),
        (BINDINGS, _ref(kind="X"), 'supported values: "ClusterRole", "Role"'),
        (BINDINGS, _ref(apiGroup="x"), 'roleRef.apiGroup: Unsupported value: "x": supported'),
        (BINDINGS, _ref(name=""), "roleRef.name: Required value"),
        (f"{RBAC}/clusterrolebindings", _ref(), 'supported values: "ClusterRole"'),
        (BINDINGS, binding("b", "Role", "r", user("")), "subjects[0].name: Required value"),
        (BINDINGS, binding("b", "Role", "r", {"kind": "X", "name": "x"}),
         'subjects[0].kind: Unsupported value: "X"'),
        (BINDINGS, binding("b", "Role", "r", group("g") | {"apiGroup": "x"}),
         'subjects[0].apiGroup: Unsupported value: "x"'),
        (f"{RBAC}/clusterrolebindings", binding("b", "ClusterRole", "r", account("a", "")),
         "subjects[0].namespace: Required value"),
    ],
)  # fmt: skip
def test_malformed_roles_and_bindings_are_rejected(
    tmp_path: Path, path: str, data: Plain, words: str
) -> None:
    """With field, reason and the API server's words."""

    async def story(world: World) -> None:
        status, body = await world.ask("POST", path, data, token="admin-token")
        assert (status, body["reason"]) == (422, "Invalid")
        assert words in body["message"]

    told(tmp_path, story)


def test_bindings_are_completed_and_keep_their_role(tmp_path: Path) -> None:
    """Groups of the API are filled in; another role needs another binding."""

    async def story(world: World) -> None:
        given = binding("b", "Role", "r", user("x"), account("s"))
        del given["roleRef"]["apiGroup"]
        made = await make(world, BINDINGS, given)
        assert made["roleRef"]["apiGroup"] == GROUP
        assert [subject.get("apiGroup") for subject in made["subjects"]] == [GROUP, None]
        other = made | {"roleRef": {**made["roleRef"], "name": "other"}}
        status, body = await world.ask("PUT", f"{BINDINGS}/b", other, token="admin-token")
        assert (status, "cannot change roleRef" in body["message"]) == (422, True)
        wrong = role("r") | {"rules": "all"}
        status, body = await world.ask("POST", ROLES, wrong, token="admin-token")
        assert status == 400
        assert body["message"] == (
            'Role in version "v1" cannot be handled as a Role: json: cannot unmarshal string into'
            " Go struct field Role.rules of type []v1.PolicyRule"
        )

    told(tmp_path, story)
