"""Which requests the console serves: those of the browser that opened its URL.

Theory of operation. Any page that a browser shows may send requests to loopback, and any user of
the machine may connect. So the printed URL has a random token, which the first request exchanges
for a cookie that scripts cannot read and that other sites do not send. Every request needs the
cookie, and its Host header must be the console's own: a foreign name that resolves to loopback is
refused. Requests that pages of other origins make are refused by their Origin.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "policy-sched",
}
"""Headers of every response."""
TOKEN: Final = "token"  # noqa: S105 - the name of the parameter
READING: Final = ("GET", "HEAD")
NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
"""Names of this machine in a Host header."""
FOREIGN: Final = ("cross-site", "same-site")
"""Values of Sec-Fetch-Site of requests that another site's page makes; ports are of one site."""
_BYTES: Final = 32


def _random() -> str:
    return secrets.token_urlsafe(_BYTES)


@dataclass(frozen=True, slots=True)
class Security:
    """The secrets of one server at a port; ``token`` is in the URL, ``session`` in the cookie."""

    port: int
    token: str = field(default_factory=_random, repr=False)
    session: str = field(default_factory=_random, repr=False)

    @property
    def cookie(self) -> str:
        """Return the cookie's name: browsers send cookies of a host to all its ports."""
        return f"policy-sched-console-{self.port}"

    @property
    def hosts(self) -> frozenset[str]:
        """Return the valid Host headers."""
        return frozenset(f"{name}:{self.port}" for name in NAMES)

    def refusal(self, method: str, headers: Mapping[str, str], cookies: Mapping[str, str]) -> str:
        """Return why a request is refused, "" if it is served."""
        host = headers.get("Host", "")
        if host.lower() not in self.hosts:
            return "the Host header is not the console's"
        origin = headers.get("Origin")
        if origin is not None and origin != f"http://{host}":
            return "the request comes from another origin"
        if origin is None and method not in READING:
            return "the request names no origin"
        if headers.get("Sec-Fetch-Site", "none") in FOREIGN:
            return "the request comes from another site"
        if not _equal(cookies.get(self.cookie, ""), self.session):
            return "open the URL that policy-sched printed: it has the token"
        return ""

    def admits(self, method: str, headers: Mapping[str, str], given: str | None) -> bool:
        """Return whether a request with a token in its URL gets the cookie."""
        host = headers.get("Host", "")
        known = method in READING and host.lower() in self.hosts and "Origin" not in headers
        return known and given is not None and _equal(given, self.token)


def _equal(given: str, known: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), known.encode())
