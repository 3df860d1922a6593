"""Delegated authentication and authorization of the endpoints, as in kube-scheduler.

Theory of operation. Bearer tokens are authenticated with TokenReview, client certificates by the
configured CA; other requests are system:anonymous. The request is authorized with
SubjectAccessReview. Results are cached for ten seconds, refusals too, and concurrent requests for
the same review share one call.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from policy_sched.errors import ClusterError
from policy_sched.lru import Lru

Plain = dict[str, Any]
Review = Callable[[str, Plain], Awaitable[Plain]]
"""Sends a review (``TokenReview``, ``SubjectAccessReview``) with this spec; returns its status.

Raises ClusterError if there is no response.
"""
T = TypeVar("T")

OPEN: Final = ("/healthz", "/readyz", "/livez")
"""Paths without authorization (upstream's --authorization-always-allow-paths).

A trailing ``*`` matches every path with that prefix.
"""
TTL: Final = 10.0
"""Seconds for which a result is cached (upstream's --authentication-token-webhook-cache-ttl)."""
CACHED: Final = 1024
"""Results in the cache; the oldest is evicted first."""
LONGEST_TOKEN: Final = 16 * 1024
HIDDEN: Final = "(hidden)"


class Caller(msgspec.Struct, frozen=True):
    """The authenticated user of a request."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


ANONYMOUS: Final = Caller("system:anonymous", groups=("system:unauthenticated",))


class RequestAttributes(msgspec.Struct, frozen=True):
    """The attributes of a request: a verb on a path, or on a resource if one is named."""

    verb: str
    path: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""

    def spec(self) -> Plain:
        """Return the spec of a SubjectAccessReview."""
        if not self.resource:
            return {"nonResourceAttributes": {"path": self.path, "verb": self.verb}}
        attributes = {"verb": self.verb, "version": "v1", "resource": self.resource}
        named = {"namespace": self.namespace, "name": self.name}
        return {"resourceAttributes": {**attributes, **{k: v for k, v in named.items() if v}}}


class Permission(msgspec.Struct, frozen=True):
    """Whether a request is allowed, and the reason of the API server."""

    allowed: bool
    reason: str = ""


class Authorizer(Protocol):
    """Authenticates and authorizes requests."""

    async def authenticate(self, authorization: str) -> Caller | None:
        """Authenticate an Authorization header ("": none); None if the token is invalid."""

    async def authorize(self, caller: Caller, attributes: RequestAttributes) -> Permission:
        """Authorize a request. Raises ClusterError if the API server does not respond."""


class AlwaysAllow:
    """Allows every request: for a socket that is reachable from this machine only."""

    async def authenticate(self, authorization: str) -> Caller | None:  # noqa: ARG002 - see Authorizer
        """Return the anonymous user."""
        return ANONYMOUS

    async def authorize(self, caller: Caller, attributes: RequestAttributes) -> Permission:  # noqa: ARG002 - see above
        """Allow it."""
        return Permission(allowed=True)


class DelegatingAuthorizer:
    """Uses reviews. ``now``: monotonic seconds; ``ttls``: of authentication and authorization."""

    def __init__(
        self, review: Review, now: Callable[[], float], ttls: tuple[float, float] = (TTL, TTL)
    ) -> None:
        self._review = review
        self._callers: _Cache[Caller | None] = _Cache(now, ttls[0])
        self._permissions: _Cache[Permission] = _Cache(now, ttls[1])
        self.failed: Callable[[str], None] = lambda _why: None
        """Called with the reason when a TokenReview fails."""
        self.reviews_anonymous = True
        """Whether anonymous callers are reviewed. They are rejected where the API server
        requires no credentials, since it would allow them everything."""

    async def authenticate(self, authorization: str) -> Caller | None:
        """Return the user of the token; None if the API server does not know the token."""
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if not authorization:
            return ANONYMOUS
        if scheme.lower() != "bearer" or not token or len(token) > LONGEST_TOKEN:
            return None
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        try:
            return await self._callers.get(digest, lambda: self._known(token))
        except ClusterError as error:
            self.failed(str(error).replace(token, HIDDEN))
            return None

    async def authorize(self, caller: Caller, attributes: RequestAttributes) -> Permission:
        """Authorize a request with a SubjectAccessReview."""
        if caller == ANONYMOUS and not self.reviews_anonymous:
            return Permission(allowed=False, reason="the API server requires no credentials")
        return await self._permissions.get(
            (caller, attributes), lambda: self._allowed(caller, attributes)
        )

    async def _known(self, token: str) -> Caller | None:
        status = await self._review("TokenReview", {"token": token})
        user = status.get("user") or {}
        if status.get("authenticated") is not True or not user.get("username"):
            return None
        extra = user.get("extra") or {}
        return Caller(
            str(user["username"]),
            str(user.get("uid") or ""),
            tuple(map(str, user.get("groups") or ())),
            tuple((str(key), tuple(map(str, values))) for key, values in sorted(extra.items())),
        )

    async def _allowed(self, caller: Caller, attributes: RequestAttributes) -> Permission:
        spec: Plain = {"user": caller.name, "groups": list(caller.groups), **attributes.spec()}
        if caller.uid:
            spec["uid"] = caller.uid
        if caller.extra:
            spec["extra"] = {key: list(values) for key, values in caller.extra}
        status = await self._review("SubjectAccessReview", spec)
        return Permission(status.get("allowed") is True, str(status.get("reason") or ""))


class _Cache(Generic[T]):
    """Results by key with a time to live; errors are not cached."""

    def __init__(self, now: Callable[[], float], ttl: float) -> None:
        self._now = now
        self._ttl = ttl
        self._entries: Lru[Hashable, tuple[float, asyncio.Task[T]]] = Lru(CACHED)

    async def get(self, key: Hashable, fetch: Callable[[], Coroutine[None, None, T]]) -> T:
        """Return the cached result, or call ``fetch`` for a new one."""
        entry = self._entries.get(key)
        if entry is None or self._now() >= entry[0]:
            task = asyncio.create_task(fetch())
            task.add_done_callback(_retrieve_exception)
            entry = (self._now() + self._ttl, task)
            self._entries.put(key, entry)
        try:
            return await asyncio.shield(entry[1])
        except ClusterError:
            if self._entries.get(key) is entry:
                self._entries.pop(key)
            raise


def _retrieve_exception(task: asyncio.Task[T]) -> None:
    """Retrieve the exception of a review without callers, so that asyncio does not log it."""
    if not task.cancelled():
        task.exception()


def certified(certificate: Mapping[str, Any] | None) -> Caller | None:
    """Return the user of a client certificate (the value of `ssl.SSLSocket.getpeercert`)."""
    if not certificate:
        return None
    fields = [pair for name in certificate.get("subject", ()) for pair in name]
    names = [value for key, value in fields if key == "commonName"]
    groups = tuple(value for key, value in fields if key == "organizationName")
    return Caller(names[0], groups=(*groups, "system:authenticated")) if names else None
