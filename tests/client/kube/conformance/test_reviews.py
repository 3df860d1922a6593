"""DelegatingAuthorizer: reviews of tokens and of access."""

from __future__ import annotations

import time

from policy_sched.client.kube.rest.transport import QUESTIONS
from policy_sched.instance.http import delegated_auth
from tests.client.kube.conformance.ground import Ground, plain, played

MASTER = delegated_auth.Caller("policy-sched-conformance", groups=("system:masters",))
"""May do everything on every server: no authorizer is asked about the group."""


def _reviews(ground: Ground) -> delegated_auth.DelegatingAuthorizer:
    paths = {path.rsplit("/", 1)[1]: path for path in QUESTIONS}

    async def review(kind: str, spec: delegated_auth.Plain) -> delegated_auth.Plain:
        path = paths[f"{kind.lower()}s"]
        version = "/".join(path.split("/")[2:4])
        body = {"apiVersion": version, "kind": kind, "metadata": {}, "spec": spec}
        answer = plain(await ground.api.request("POST", path, body, repeatable=True))
        status: delegated_auth.Plain = answer["status"]
        return status

    return delegated_auth.DelegatingAuthorizer(review, time.monotonic)


def test_an_invalid_token_is_not_authenticated(server: str) -> None:
    """It is no error to show one."""

    async def play(ground: Ground) -> None:
        failed: list[str] = []
        reviews = _reviews(ground)
        reviews.failed = failed.append
        assert await reviews.authenticate("Bearer nobody.ever.had.this") is None
        assert failed == []

    played(server, play)


def test_access_reviews_are_answered(server: str) -> None:
    """On paths and on resources; masters may everything."""

    async def play(ground: Ground) -> None:
        reviews = _reviews(ground)
        metrics = delegated_auth.RequestAttributes("get", path="/metrics")
        nodes = delegated_auth.RequestAttributes("get", resource="nodes", name=ground.nodes[0])
        assert (await reviews.authorize(MASTER, metrics)).allowed
        assert (await reviews.authorize(MASTER, nodes)).allowed
        stranger = delegated_auth.Caller(
            "stranger", "7", ("system:authenticated",), (("scopes", ("a", "b")),)
        )
        found = [(await reviews.authorize(stranger, asked)).allowed for asked in (metrics, nodes)]
        assert set(found) <= {True, False}

    played(server, play)
