"""Authentication of the console: it serves only the browser that opened its URL.

Theory of operation. Any page that a browser shows may send requests to loopback, and any user of
the machine may connect and may list processes with their arguments. So the URL has a random token.
One request exchanges it for a cookie, HttpOnly and SameSite; the next browser needs another token.
The browser is started with the path of a private file that leads to the URL (`opening_file`), never
with the URL. Browsers send a cookie to every port of its host, so the console listens on an address
of 127.0.0.0/8 that nothing else uses. Every request needs the cookie, and its Host header must be
the console's own: a foreign name that resolves to loopback is refused. Requests that pages of other
origins make are refused by their Origin.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from policy_sched.source import write_file

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
HERE: Final = "127.0.0.1"
"""The address of loopback that every machine has, and other programs listen on."""
NAMES: Final = (HERE, "localhost", "[::1]")
"""Names of this machine in a Host header: a tunnel's end is one of them."""
FOREIGN: Final = ("cross-site", "same-site")
"""Values of Sec-Fetch-Site of requests that another site's page makes; ports are of one site."""
_BYTES: Final = 32


def _random() -> str:
    return secrets.token_urlsafe(_BYTES)


def own_address() -> str:
    """Return a random address of 127.0.0.0/8, outside of 127.0.0.0/16, where services listen."""
    return f"127.{1 + secrets.randbelow(254)}.{secrets.randbelow(256)}.{1 + secrets.randbelow(254)}"


@dataclass(slots=True)
class Security:
    """The secrets of one server at an address.

    ``token`` is in the URL and valid once; ``session`` is in the cookie.
    """

    host: str
    port: int
    token: str = field(default_factory=_random, repr=False)
    session: str = field(default_factory=_random, repr=False)
    opened: int = 0
    """How many tokens were spent."""

    @property
    def cookie(self) -> str:
        """Return the cookie's name: browsers send cookies of a host to all its ports."""
        return f"policy-sched-console-{self.port}"

    @property
    def hosts(self) -> frozenset[str]:
        """Return the valid Host headers."""
        return frozenset(f"{name}:{self.port}" for name in (self.host, *NAMES))

    def refusal(
        self,
        method: str,
        headers: Mapping[str, str],
        cookies: Mapping[str, str],
        given: str | None = None,
    ) -> str:
        """Return why a request is refused, "" if it is served; ``given``: the token of its URL."""
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
            if given is not None:
                return "a URL opens one browser, once: policy-sched has printed another URL"
            return "open the URL that policy-sched printed: it has the token"
        return ""

    def admits(self, method: str, headers: Mapping[str, str], given: str | None) -> bool:
        """Return whether a request with a token in its URL gets the cookie; the token is spent."""
        host = headers.get("Host", "").lower()
        if method != "GET" or host not in self.hosts or "Origin" in headers:
            return False
        if given is None or not _equal(given, self.token):
            return False
        self.token = _random()
        self.opened += 1
        return True


def _equal(given: str, expected: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode())


@contextmanager
def opening_file(url: str) -> Iterator[Path]:
    """Write a file that leads a browser to a URL; only this user may read it.

    The arguments of a process are public. The file lies in a directory of its own (mode 0700, the
    file 0600), and both are gone when the context is left. Raises OSError.
    """
    with TemporaryDirectory(prefix="policy-sched-console-") as folder:
        file = Path(folder, "open.html")
        address = escape(url)
        text = (
            '<!doctype html><html lang="en"><meta charset="utf-8"><title>policy-sched</title>'
            '<meta name="referrer" content="no-referrer">'
            f'<meta http-equiv="refresh" content="0; url={address}">'
            f'<p><a href="{address}">Open the console of policy-sched</a></p></html>\n'
        )
        write_file(file, text.encode(), private=True)
        yield file
