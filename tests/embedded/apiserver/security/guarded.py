"""A served cluster with RBAC for tests: its users, and shorthands for roles and bindings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from policy_sched.http.access import Access
from tests.embedded.apiserver.world import Plain, World, serving

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
TOKENS = """admin-token,admin,1,system:masters
jane-token,jane,2,"dev, ops"
joe-token,joe,3
"""


@asynccontextmanager
async def guarded(folder: Path, mode: str = "RBAC") -> AsyncIterator[World]:
    """Serve a cluster with users admin (a master), jane (of dev and ops) and joe."""
    path = folder / "tokens.csv"
    path.write_text(TOKENS, encoding="utf-8")
    async with serving(Access(tokens=str(path), mode=mode)) as world:
        yield world


async def make(world: World, path: str, data: Plain, token: str = "admin-token") -> Plain:
    """Create an object that is accepted."""
    status, made = await world.ask("POST", path, data, token=token)
    assert status == 201, made
    fields: Plain = made
    return fields


def rule(verbs: str, resources: str, group: str = "", names: str = "") -> Plain:
    """Return a rule of words."""
    data: Plain = {
        "verbs": verbs.split(),
        "apiGroups": [group],
        "resources": resources.split(),
    }
    return data | ({"resourceNames": names.split()} if names else {})


def role(name: str, *rules: Plain, **meta: Any) -> Plain:
    """Return a role, of the cluster or of the namespace of its path."""
    return {"metadata": {"name": name, **meta}, "rules": list(rules)}


def binding(name: str, kind: str, of: str, *subjects: Plain) -> Plain:
    """Return a binding of a role."""
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": of}
    return {"metadata": {"name": name}, "roleRef": ref, "subjects": list(subjects)}


def user(name: str) -> Plain:
    """Return a user as a subject."""
    return {"kind": "User", "name": name}


def group(name: str) -> Plain:
    """Return a group as a subject."""
    return {"kind": "Group", "name": name}


def account(name: str, namespace: str = "default") -> Plain:
    """Return a service account as a subject."""
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


async def token_of(world: World, name: str, **spec: Any) -> str:
    """Return a token of a service account of the namespace default."""
    made = await make(world, f"{ACCOUNTS}/{name}/token", {"spec": spec})
    token: str = made["status"]["token"]
    return token
