"""Authentication: client certificates, bearer tokens of a file and of service accounts.

A token file has lines of ``token,user,uid[,"group1,group2"]``.
"""

from __future__ import annotations

import asyncio
import base64
import csv
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Self
from urllib.parse import unquote

from aiohttp import web

from policy_sched.client.apimachinery import bad_request
from policy_sched.embedded.apiserver.registry import unauthorized
from policy_sched.embedded.apiserver.request import (
    ANONYMOUS,
    UNSECURED,
    UserInfo,
    account_of,
    account_user,
    with_authenticated,
)
from policy_sched.embedded.apiserver.security import account_tokens
from policy_sched.embedded.apiserver.security.client_certificates import certified
from policy_sched.embedded.apiserver.security.rbac import Attributes, Rbac, attributes_of, refusal
from policy_sched.errors import ClusterError
from policy_sched.http import Access, Address, from_here, reason_of
from policy_sched.source import write_file

_FORM: Final = "each line must be token,user,uid[,groups]"


class Tokens:
    """The users of a token file; ``first`` is its first token.

    They are looked up by hash, so that the time it takes does not tell how much is right.
    """

    def __init__(self, rows: list[list[str]]) -> None:
        self.first = rows[0][0].strip()
        self._users: dict[bytes, UserInfo] = {}
        for row in rows:
            token, name, uid = (cell.strip() for cell in row[:3])
            given = row[3].split(",") if len(row) > 3 else []
            groups = tuple(group.strip() for group in given if group.strip())
            user = UserInfo(name, uid, with_authenticated(groups))
            self._users.setdefault(_digest(token), user)

    @classmethod
    def read(cls, path: str) -> Self:
        """Return the tokens of a file. Raises ClusterError if there are none in it."""
        try:
            with open(path, encoding="utf-8", newline="") as file:
                rows = [row for row in csv.reader(file) if row and row[0].strip()]
        except OSError as error:
            raise ClusterError(f"{path}: cannot be read: {error.strerror}") from None
        except (UnicodeDecodeError, csv.Error) as error:
            raise ClusterError(f"{path}: cannot be read: {error}") from None
        if not rows or any(len(row) < 3 or not row[1].strip() for row in rows):
            raise ClusterError(f"{path}: {_FORM}")
        return cls(rows)

    def user(self, token: str) -> UserInfo | None:
        """Return the user of a token, None if it is unknown."""
        return self._users.get(_digest(token))


class Authenticator:
    """Authenticates requests; ``anonymous``: the server is open to all that reach it."""

    def __init__(
        self, tokens: Tokens | None, accounts: account_tokens.AccountTokens, *, anonymous: bool
    ) -> None:
        self._tokens = tokens
        self._accounts = accounts
        self._anonymous = anonymous

    def sender(
        self, header: str, transport: asyncio.BaseTransport | None = None
    ) -> UserInfo | None:
        """Return the user of an Authorization header and a connection, None if it is unknown.

        A certificate takes precedence over a header. Raises ApiError if the token is unknown.
        """
        user = certified(transport)
        if user is not None:
            return user
        scheme, _, token = header.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return UNSECURED if self._anonymous else None
        verified = self.user(token)
        if verified is None:
            raise unauthorized()
        return verified[0]

    def user(self, token: str) -> tuple[UserInfo, tuple[str, ...]] | None:
        """Return the user of a token, and its audiences; None if it is unknown."""
        verified = self._verified(token)
        return verified if verified is not None and account_tokens.AUDIENCE in verified[1] else None

    def _verified(self, token: str) -> tuple[UserInfo, tuple[str, ...]] | None:
        if self._tokens is not None and (user := self._tokens.user(token)) is not None:
            return user, (account_tokens.AUDIENCE,)
        return self._accounts.verify(token) if token.count(".") == 2 else None

    def reviewed(
        self, token: str, audiences: tuple[str, ...]
    ) -> tuple[UserInfo, tuple[str, ...]] | None:
        """Return whose a token is, and for which of some audiences; None if for none of them."""
        verified = self._verified(token)
        if verified is None:
            return None
        common = tuple(
            audience
            for audience in audiences or (account_tokens.AUDIENCE,)
            if audience in verified[1]
        )
        return (verified[0], common) if common else None


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


HEALTH: Final = ("healthz", "livez", "readyz")


OPEN: Final = frozenset({f"/{name}" for name in (*HEALTH, "version")})
"""Paths that may be read without authentication."""


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

    def admit(self, request: web.BaseRequest) -> UserInfo:
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

    def _check(self, user: UserInfo, attributes: Attributes) -> None:
        if self._rbac is None:
            return
        decision = self._rbac.decide(user, attributes)
        if not decision.allowed:
            raise refusal(user, attributes, decision.reason)

    def _impersonated(self, user: UserInfo, request: web.BaseRequest) -> UserInfo:
        """Return the user of a request. Raises ApiError if it is not authorized."""
        headers = request.headers
        name = headers.get(_AS_USER, "")
        if not name:
            raise bad_request("requested impersonation without impersonating a user")
        groups, uid = tuple(headers.getall(_AS_GROUP, [])), headers.get(_AS_UID, "")
        extra = _extra(headers)
        account = account_of(name)
        for attributes in _impersonations(name, groups, uid, extra):
            self._check(user, attributes)
        kept = tuple(extra.items())
        if account is not None and not groups:
            return account_user(*account, uid, kept)
        if name == ANONYMOUS.name:
            return UserInfo(name, uid, groups or ANONYMOUS.groups, kept)
        return UserInfo(name, uid, with_authenticated(groups), kept)


def _extra(headers: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    extra: dict[str, tuple[str, ...]] = {}
    for name, value in headers.items():
        if name.lower().startswith(_AS_EXTRA.lower()):
            key = unquote(name[len(_AS_EXTRA) :]).lower()
            extra[key] = (*extra.get(key, ()), value)
    return extra


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
        yield Attributes(_AS, "", account_tokens.AUTHENTICATION, "uids", "", "", uid)
    for key, values in extra.items():
        for value in values:
            yield Attributes(_AS, "", account_tokens.AUTHENTICATION, "userextras", key, "", value)


# Kubeconfigs, as kubectl reads them.

CONTEXT: Final = "policy-sched"


def kubeconfig(address: Address, access: Access, tokens: Tokens | None) -> str:
    """Return a kubeconfig, as JSON (which is YAML too), with the first token."""
    host = address.reached.text
    cluster: dict[str, object] = {"server": f"http://{host}"}
    if access.certificate is not None:
        cluster["server"] = f"https://{host}"
        authority = Path(access.certificate).read_bytes()
        cluster["certificate-authority-data"] = base64.b64encode(authority).decode()
    user = {"token": tokens.first} if tokens else {}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": CONTEXT, "cluster": cluster}],
            "users": [{"name": CONTEXT, "user": user}],
            "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT}}],
            "current-context": CONTEXT,
        },
        indent=2,
    )


def write_kubeconfig(path: str, text: str) -> None:
    """Write a kubeconfig that only its owner can read. Raises ClusterError if it cannot be."""
    try:
        write_file(path, f"{text}\n".encode(), private=True)
    except OSError as error:
        raise ClusterError(f"{path}: cannot be written: {reason_of(error)}") from None
