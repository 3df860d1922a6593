"""Filters of requests: authentication, impersonation and authorization."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import unquote

from aiohttp import web

from policy_sched.client.apimachinery import bad_request
from policy_sched.embedded.apiserver.registry import unauthorized
from policy_sched.embedded.apiserver.request import (
    ANONYMOUS,
    User,
    account_of,
    account_user,
    with_authenticated,
)
from policy_sched.embedded.apiserver.security.account_tokens import AUTHENTICATION
from policy_sched.embedded.apiserver.security.authentication import Authenticator
from policy_sched.embedded.apiserver.security.rbac import Attributes, Rbac, attributes_of, refusal
from policy_sched.http import from_here

HEALTH: Final = ("healthz", "livez", "readyz")


OPEN: Final = frozenset({f"/{name}" for name in (*HEALTH, "version")})
"""What may be read without authentication."""


_AS_USER: Final = "Impersonate-User"
_AS_GROUP: Final = "Impersonate-Group"
_AS_UID: Final = "Impersonate-Uid"
_AS_EXTRA: Final = "Impersonate-Extra-"
_AS: Final = "impersonate"


class Gate:
    """Admits requests. ``anonymous``: all from this machine; without ``rbac`` all may do all."""

    def __init__(self, authenticator: Authenticator, rbac: Rbac | None, *, anonymous: bool) -> None:
        self._open = anonymous
        self._authenticator = authenticator
        self._rbac = rbac

    def admit(self, request: web.BaseRequest) -> User:
        """Return whose request it is. Raises ApiError if it may not be sent."""
        headers = request.headers
        if self._open and not from_here(request.host, headers.get("Origin")):
            raise unauthorized()
        user = self._authenticator.sender(headers.get("Authorization", ""), request.transport)
        if user is None:
            if self._rbac is None and request.path not in OPEN:
                raise unauthorized()
            user = ANONYMOUS
        if _AS_USER in headers or any(name.startswith("Impersonate-") for name in headers):
            user = self._impersonated(user, request)
        if self._rbac is not None and not user.master:
            path = request.rel_url.raw_path
            self._check(user, attributes_of(request.method, path, request.query))
        return user

    def _check(self, user: User, asked: Attributes) -> None:
        if self._rbac is None:
            return
        decision = self._rbac.decide(user, asked)
        if not decision.allowed:
            raise refusal(user, asked, decision.reason)

    def _impersonated(self, user: User, request: web.BaseRequest) -> User:
        """Return the user of a request. Raises ApiError if it is not authorized."""
        headers = request.headers
        name = headers.get(_AS_USER, "")
        if not name:
            raise bad_request("requested impersonation without impersonating a user")
        groups, uid = tuple(headers.getall(_AS_GROUP, [])), headers.get(_AS_UID, "")
        extra = _extra(headers)
        account = account_of(name)
        for asked in _impersonations(name, groups, uid, extra):
            self._check(user, asked)
        kept = tuple(extra.items())
        if account is not None and not groups:
            return account_user(*account, uid, kept)
        if name == ANONYMOUS.name:
            return User(name, uid, groups or ANONYMOUS.groups, kept)
        return User(name, uid, with_authenticated(groups), kept)


def _extra(headers: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name, value in headers.items():
        if name.lower().startswith(_AS_EXTRA.lower()):
            key = unquote(name[len(_AS_EXTRA) :]).lower()
            found[key] = (*found.get(key, ()), value)
    return found


def _impersonations(
    name: str, groups: tuple[str, ...], uid: str, extra: Mapping[str, tuple[str, ...]]
) -> Iterator[Attributes]:
    """Yield what a user must be allowed to do to impersonate another."""
    account = account_of(name)
    if account is not None:
        yield Attributes(_AS, "", "", "serviceaccounts", "", *account)
    else:
        yield Attributes(_AS, "", "", "users", "", "", name)
    for group in groups:
        yield Attributes(_AS, "", "", "groups", "", "", group)
    if uid:
        yield Attributes(_AS, "", AUTHENTICATION, "uids", "", "", uid)
    for key, values in extra.items():
        for value in values:
            yield Attributes(_AS, "", AUTHENTICATION, "userextras", key, "", value)
