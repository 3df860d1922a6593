"""TLS settings as the files say now: authorities and client certificates may be replaced in them.

Theory of operation. A context is made for a client certificate and kept as long as that and the
authorities stay what they are. A file of authorities is read again from time to time, and when a
server was not trusted: then the authority may be another one since. What cannot be read or used
changes nothing.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from policy_sched.client.kube.auth import (
    REREAD_CERTIFICATES,
    AccessError,
    Certificate,
    Trust,
    read_secret,
    tls_context,
)


class TlsContexts:
    """The contexts for one server; ``now`` is monotonic, in nanoseconds."""

    def __init__(self, trust: Trust, now: Callable[[], int]) -> None:
        self._trust = trust
        self._now = now
        self._due = now() + REREAD_CERTIFICATES
        self._made: tuple[Certificate | None, ssl.SSLContext] | None = None

    def of(self, certificate: Certificate | None) -> ssl.SSLContext:
        """Return the context for a client certificate. Raises AccessError."""
        if self._trust.file is not None and self._now() >= self._due:
            self._read()
        if self._made is None or self._made[0] != certificate:
            self._made = certificate, tls_context(self._trust, certificate)
        return self._made[1]

    def doubted(self) -> None:
        """A server was not trusted: read the authorities before the next connection."""
        self._due = self._now()

    def _read(self) -> None:
        assert self._trust.file is not None
        self._due = self._now() + REREAD_CERTIFICATES
        with suppress(AccessError):
            found = replace(self._trust, authorities=read_secret(self._trust.file))
            if found != self._trust:
                tls_context(found, None)  # raises for what is no authority
                self._trust, self._made = found, None
