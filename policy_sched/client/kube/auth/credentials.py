"""Credentials that stand in a kubeconfig or in files which are read again and again."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Final

from policy_sched.client.kube.auth.access import (
    AccessError,
    Certificate,
    Grant,
    read_secret,
)
from policy_sched.client.kube.time import SECOND

REREAD: Final = 60 * SECOND
"""How long the content of a token file counts (client-go: a minute)."""
REREAD_CERTIFICATES: Final = 300 * SECOND
"""How long the content of certificate files counts (client-go's cert rotation: five minutes)."""


class Fixed:
    """A token, a name and a password, a certificate: whatever never changes."""

    def __init__(self, grant: Grant) -> None:
        self._grant = grant

    async def grant(self) -> Grant:
        """Return it."""
        return self._grant

    def refused(self, _grant: Grant, /) -> bool:
        """There is nothing else to try."""
        return False


def bearer(token: str) -> str:
    """Return the Authorization header of a token."""
    return f"Bearer {token}"


def token_problem(token: str) -> str:
    """Return why a token cannot be sent, or ""; the token is not repeated."""
    if all("!" <= character <= "~" for character in token):
        return ""
    return "the token has characters that no header can have"


def basic(username: str, password: str) -> str:
    """Return the Authorization header of a name and a password."""
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class TokenFile:
    """A token in a file, such as a service account's; the issuer replaces it in time.

    If the file cannot be read the last token counts on. ``now`` is monotonic, in nanoseconds.
    """

    def __init__(
        self, path: Path, now: Callable[[], int], certificate: Certificate | None = None
    ) -> None:
        self._path = path
        self._now = now
        self._certificate = certificate
        self._token = ""
        self._read_at: int | None = None

    async def grant(self) -> Grant:
        """Return the token of the file. Raises AccessError if there never was one."""
        now = self._now()
        if self._read_at is None or now - self._read_at >= REREAD:
            try:
                self._token = _token_in(self._path)
            except AccessError:
                if not self._token:
                    raise
            self._read_at = now
        return Grant(bearer(self._token), self._certificate)

    def refused(self, grant: Grant, /) -> bool:
        """Read the file again: the token may have been replaced."""
        again = self._read_at is not None and grant.authorization == bearer(self._token)
        self._read_at = None
        return again


def _token_in(path: Path) -> str:
    token = read_secret(path).decode("ascii", "replace").strip()
    if not token:
        raise AccessError(f"{path}: the file holds no token")
    if problem := token_problem(token):
        raise AccessError(f"{path}: {problem}")
    return token


class CertificateFiles:
    """A client certificate and its key in files that may be replaced.

    ``authorization`` goes with it. If the files cannot be read what was read last counts on.
    """

    def __init__(
        self, certificate: Path, key: Path, now: Callable[[], int], authorization: str = ""
    ) -> None:
        self._paths = certificate, key
        self._now = now
        self._authorization = authorization
        self._held: Certificate | None = None
        self._read_at = 0

    async def grant(self) -> Grant:
        """Return the certificate of the files. Raises AccessError if there never was one."""
        now = self._now()
        if self._held is None or now - self._read_at >= REREAD_CERTIFICATES:
            try:
                certificate, key = (read_secret(path) for path in self._paths)
                self._held = Certificate(certificate, key)
            except AccessError:
                if self._held is None:
                    raise
            self._read_at = now
        return Grant(self._authorization, self._held)

    def refused(self, _grant: Grant, /) -> bool:
        """Nothing else is tried before the files are read again."""
        return False
