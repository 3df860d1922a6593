"""Authentication and authorization: reviews are sent once and cached for a while."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from policy_sched.errors import ClusterError
from policy_sched.instance.http import delegated_auth

Plain = dict[str, Any]
USER: Plain = {
    "username": "ann",
    "uid": "7",
    "groups": ["dev", "system:authenticated"],
    "extra": {"scope": ["a", "b"]},
}
ANN = delegated_auth.Caller("ann", "7", ("dev", "system:authenticated"), (("scope", ("a", "b")),))
METRICS = delegated_auth.RequestAttributes("get", "/metrics")


class Server:
    """An API server with prepared answers to reviews."""

    def __init__(self) -> None:
        self.requested: list[tuple[str, Plain]] = []
        self.now = 0.0
        self.down = False
        self.door = delegated_auth.DelegatingAuthorizer(self.review, lambda: self.now)

    async def review(self, kind: str, spec: Plain) -> Plain:
        """Answer a review."""
        self.requested.append((kind, spec))
        await asyncio.sleep(0)
        if self.down:
            raise ClusterError("nobody there")
        if kind == "TokenReview":
            known = spec["token"] == "good"
            return {"authenticated": True, "user": USER} if known else {"error": "no"}
        allowed = spec["user"] == "ann"
        return {"allowed": allowed, "reason": "" if allowed else "no role"}


def test_a_token_is_reviewed_once_in_ten_seconds() -> None:
    """For any number of requests, concurrent ones included."""

    async def scenario() -> None:
        server = Server()
        found = await asyncio.gather(*(server.door.authenticate("Bearer good") for _ in range(5)))
        assert found == [ANN] * 5
        server.now = 9.9
        assert await server.door.authenticate("bearer good") == ANN
        assert len(server.requested) == 1
        server.now = 10.0
        assert await server.door.authenticate("Bearer good") == ANN
        assert [kind for kind, _ in server.requested] == ["TokenReview"] * 2

    asyncio.run(scenario())


def test_an_unknown_token_is_unauthenticated_and_cached() -> None:
    """Guessing costs the API server one review in ten seconds for each guess."""

    async def scenario() -> None:
        server = Server()
        assert await server.door.authenticate("Bearer bad") is None
        assert await server.door.authenticate("Bearer bad") is None
        assert len(server.requested) == 1

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "header", ["Basic YTpi", "Bearer", "Bearer  ", "good", "Bearer " + 20000 * "x"]
)
def test_malformed_tokens_are_not_reviewed(header: str) -> None:
    """Other schemes, an empty token, and one that is far too long."""

    async def scenario() -> None:
        server = Server()
        assert await server.door.authenticate(header) is None
        assert server.requested == []

    asyncio.run(scenario())


def test_a_request_without_credentials_is_anonymous() -> None:
    """Its access is reviewed as everyone's."""

    async def scenario() -> None:
        server = Server()
        caller = await server.door.authenticate("")
        assert caller == delegated_auth.ANONYMOUS
        assert await server.door.authorize(
            delegated_auth.ANONYMOUS, METRICS
        ) == delegated_auth.Permission(False, "no role")
        spec = server.requested[0][1]
        assert (spec["user"], spec["groups"]) == ("system:anonymous", ["system:unauthenticated"])

    asyncio.run(scenario())


def test_access_reviews_carry_user_groups_and_extra() -> None:
    """Name, UID, groups and extras; a path, or a resource."""

    async def scenario() -> None:
        server = Server()
        assert await server.door.authorize(ANN, METRICS) == delegated_auth.Permission(True)
        assert await server.door.authorize(ANN, METRICS) == delegated_auth.Permission(True)
        assert server.requested == [
            (
                "SubjectAccessReview",
                {
                    "user": "ann",
                    "uid": "7",
                    "groups": ["dev", "system:authenticated"],
                    "extra": {"scope": ["a", "b"]},
                    "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
                },
            )
        ]
        await server.door.authorize(
            ANN, delegated_auth.RequestAttributes("get", "", "pods", "ns", "p")
        )
        assert server.requested[1][1]["resourceAttributes"] == {
            "verb": "get",
            "version": "v1",
            "resource": "pods",
            "namespace": "ns",
            "name": "p",
        }

    asyncio.run(scenario())


def test_a_failed_review_is_retried() -> None:
    """While the API server is away, callers are unauthenticated and not authorized; neither answer
    is cached.
    """

    async def scenario() -> None:
        server = Server()
        reported: list[str] = []
        server.door.failed = reported.append
        server.down = True
        assert await server.door.authenticate("Bearer good") is None
        with pytest.raises(ClusterError, match="nobody there"):
            await server.door.authorize(ANN, METRICS)
        assert reported == ["nobody there"]
        server.down = False
        assert await server.door.authenticate("Bearer good") == ANN
        assert (await server.door.authorize(ANN, METRICS)).allowed

    asyncio.run(scenario())


def test_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest answer is evicted first."""
    monkeypatch.setattr("policy_sched.instance.http.delegated_auth.CACHED", 2)

    async def scenario() -> None:
        server = Server()
        for path in ("/a", "/b", "/c", "/c", "/a"):
            await server.door.authorize(ANN, delegated_auth.RequestAttributes("get", path))
        assert len(server.requested) == 4

    asyncio.run(scenario())


def test_a_client_certificate_names_user_and_groups() -> None:
    """By common name and organizations; one without a name is rejected."""
    subject = ((("organizationName", "ops"),), (("commonName", "ann"),))
    assert delegated_auth.certified({"subject": subject}) == delegated_auth.Caller(
        "ann", groups=("ops", "system:authenticated")
    )
    assert delegated_auth.certified({"subject": subject[:1]}) is None
    assert delegated_auth.certified(None) is None


def test_always_allow_allows_every_request() -> None:
    """It is for a socket that only this machine reaches."""

    async def scenario() -> None:
        caller = await delegated_auth.AlwaysAllow().authenticate("whatever")
        assert caller == delegated_auth.ANONYMOUS
        assert (await delegated_auth.AlwaysAllow().authorize(caller, METRICS)).allowed

    asyncio.run(scenario())
