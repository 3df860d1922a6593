"""The OIDC auth-provider of a kubeconfig: an id-token, renewed with a refresh token when it ends.

Theory of operation, as client-go has it. An id-token counts until ten seconds before its own end.
Then the issuer's token endpoint, which its discovery document names, is asked for another one;
requests that come meanwhile wait for the one answer. The refresh token may be replaced with it.
What came is written into the kubeconfig (`Keep`), where the next process finds it; a file that
cannot be written keeps its old tokens, and this process goes on with the new ones.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from urllib.parse import quote_plus, urlsplit

import aiohttp
import msgspec

from policy_sched.client.kube.access import (
    AccessError,
    Grant,
    Trust,
    tls_context,
)
from policy_sched.client.kube.backoff import SECOND
from policy_sched.client.kube.credentials import bearer, token_problem
from policy_sched.client.kube.proxies import proxy_of_environment
from policy_sched.client.kube.transport import (
    connector_of,
    proxy_argument,
    read_within,
    text_of,
)

EARLY: Final = 10 * SECOND
"""How long before its end an id-token counts as ended (client-go: expiryDelta)."""
TIMEOUT: Final = 30.0
"""Seconds for each request to the issuer."""
LONGEST: Final = 1 << 20
"""Bytes of an issuer's answer that are read."""

T = TypeVar("T")
Keep = Callable[[str, str], None]
"""Told the id-token and the refresh token that count from now on."""


@dataclass(frozen=True, slots=True)
class OidcClient:
    """Who asks which issuer; ``trust`` is for the issuer's own certificate."""

    issuer: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    trust: Trust = field(default_factory=Trust, repr=False)


class _Discovery(msgspec.Struct):
    token_endpoint: str = ""


class _Tokens(msgspec.Struct):
    id_token: str = ""
    refresh_token: str = ""


class _Refusal(msgspec.Struct):
    error: str = ""


class _Claims(msgspec.Struct):
    exp: float | None = None


def token_expiry(token: str) -> float | None:
    """Return when a JSON web token ends, in seconds since 1970; None if it does not say so.

    Raises ValueError if it is no JSON web token.
    """
    parts = token.split(".")
    if len(parts) != 3 or token_problem(token):
        raise ValueError("it is no JSON web token")
    try:
        payload = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(payload, type=_Claims).exp
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise ValueError("it is no JSON web token") from None


def issuer_problem(url: str) -> str:
    """Return why an issuer cannot be asked, or ""."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "it is no URL"
    host = parts.hostname or ""
    if not host or parts.scheme not in ("http", "https"):
        return "it is not of the form https://HOST/PATH"
    loopback = host in ("localhost", "::1") or host.startswith("127.")
    if parts.scheme == "http" and not loopback:
        return "a refresh token is sent by https only"
    return ""


class Oidc:
    """Tokens of one user of one issuer; ``now`` is wall time, in nanoseconds since 1970."""

    def __init__(
        self,
        client: OidcClient,
        id_token: str,
        refresh_token: str,
        now: Callable[[], int],
        keep: Keep,
    ) -> None:
        self._client = client
        self._id_token = id_token
        self._refresh_token = refresh_token
        self._now = now
        self._keep = keep
        self._lock = asyncio.Lock()

    async def grant(self) -> Grant:
        """Return the id-token, a new one if need be. Raises AccessError."""
        async with self._lock:
            if not self._counts():
                await self._refresh()
            return Grant(bearer(self._id_token))

    def refused(self, _grant: Grant, /) -> bool:
        """There is nothing else to try before the token ends."""
        return False

    # Inside.

    def _counts(self) -> bool:
        if not self._id_token:
            return False
        end = token_expiry(self._id_token)
        return end is not None and self._now() + EARLY < end * SECOND

    async def _refresh(self) -> None:
        if not self._refresh_token:
            raise AccessError(
                "the OIDC id-token has expired, and there is no refresh-token; log in again, or"
                " use an exec plugin (kubelogin)"
            )
        try:
            tokens = await self._ask()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise AccessError(f"{self._who}: no answer: {text_of(error)}") from None
        if not tokens.id_token:
            raise AccessError(
                f"{self._who} gave no id_token: the scope openid was not asked for at login, or"
                " the issuer gives none for a refresh token"
            )
        try:
            token_expiry(tokens.id_token)
        except ValueError as error:
            raise AccessError(f"{self._who} gave an id_token, but {error}") from None
        self._id_token = tokens.id_token
        self._refresh_token = tokens.refresh_token or self._refresh_token
        await asyncio.to_thread(self._keep, self._id_token, self._refresh_token)

    @property
    def _who(self) -> str:
        return f"OIDC issuer {self._client.issuer}"

    async def _ask(self) -> _Tokens:
        timeout = aiohttp.ClientTimeout(total=TIMEOUT)
        jar = aiohttp.DummyCookieJar()
        connector = connector_of(proxy_of_environment(self._client.issuer))
        options: dict[str, Any] = {"timeout": timeout, "cookie_jar": jar, "connector": connector}
        async with aiohttp.ClientSession(**options) as session:
            known = self._client.issuer.rstrip("/") + "/.well-known/openid-configuration"
            status, body = await self._send(session, "GET", known)
            found = _decoded(body, _Discovery) if status == 200 else None
            if found is None or not found.token_endpoint:
                raise AccessError(f"{self._who}: no token_endpoint at {known} ({status})")
            if problem := issuer_problem(found.token_endpoint):
                raise AccessError(f"{self._who} names a token_endpoint that is no use: {problem}")
            return await self._exchange(session, found.token_endpoint)

    async def _exchange(self, session: aiohttp.ClientSession, url: str) -> _Tokens:
        """Send the refresh token; as golang.org/x/oauth2, who we are goes first into a header."""
        client = self._client
        basic = f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret)}"
        header = {"Authorization": "Basic " + base64.b64encode(basic.encode()).decode()}
        form = {"grant_type": "refresh_token", "refresh_token": self._refresh_token}
        status, body = await self._send(session, "POST", url, form, header)
        if 400 <= status < 500 and _word(body) != "invalid_grant":
            named = {"client_id": client.client_id, "client_secret": client.client_secret}
            named = {name: value for name, value in named.items() if value}
            status, body = await self._send(session, "POST", url, {**form, **named})
        tokens = _decoded(body, _Tokens) if status == 200 else None
        if tokens is None:
            why = ": ".join(filter(None, (str(status), _word(body))))
            raise AccessError(f"{self._who} does not refresh the id-token ({why})")
        return tokens

    async def _send(
        self,
        session: aiohttp.ClientSession,
        method: str,
        url: str,
        form: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, bytes]:
        secure = url.startswith("https:")
        async with session.request(
            method,
            url,
            data=form,
            headers=headers,
            allow_redirects=form is None,
            proxy=proxy_argument(proxy_of_environment(url)),
            ssl=tls_context(self._client.trust, None) if secure else True,
        ) as response:
            return response.status, await read_within(response, LONGEST) or b""


def _word(body: bytes) -> str:
    """Return the one word that says why an issuer refuses."""
    refusal = _decoded(body, _Refusal)
    return "" if refusal is None else refusal.error[:80]


def _decoded(body: bytes, form: type[T]) -> T | None:
    try:
        return msgspec.json.decode(body, type=form)
    except msgspec.DecodeError:
        return None
