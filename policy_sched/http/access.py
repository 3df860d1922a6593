"""Addresses of a server, and the files of its certificate and of its tokens.

Beyond loopback nothing is served without TLS and tokens, or certificates of clients. On loopback
without these every user of this machine may do everything; there a request that a web page could
have sent (by another host name, or with an origin) is refused.
"""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from policy_sched.errors import ClusterError

DEFAULT_HOST: Final = "127.0.0.1"
ALWAYS_ALLOW: Final = "AlwaysAllow"
RBAC: Final = "RBAC"
MODES: Final = (ALWAYS_ALLOW, RBAC)
"""What authorizes requests (kube-apiserver's --authorization-mode)."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; port 0 is any free one."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only this machine reaches it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def reached(self) -> Address:
        """Where this machine reaches it: an address of all interfaces stands for loopback."""
        here = {"0.0.0.0": DEFAULT_HOST, "::": "::1"}  # noqa: S104 - compared, not listened on
        return Address(here.get(self.host, self.host), self.port)

    @property
    def text(self) -> str:
        """Host and port as they stand in a URL."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address_of(text: str) -> Address:
    """Return the address that ``[HOST:]PORT`` names. Raises ClusterError if it names none."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ClusterError(f"{text!r} is no address: expected [HOST:]PORT")
    return Address(host or DEFAULT_HOST, int(port))


@dataclass(frozen=True, slots=True)
class Access:
    """Files of the certificate, its key and the tokens, as far as they are given."""

    certificate: str | None = None
    key: str | None = None
    tokens: str | None = None
    mode: str = ALWAYS_ALLOW
    """AlwaysAllow, or RBAC: what a user may do is what roles and bindings say."""
    clients: str | None = None
    """Authorities whose certificates of clients are believed."""

    @property
    def knows(self) -> bool:
        """Whether clients are authenticated."""
        return self.tokens is not None or self.clients is not None

    @property
    def limited(self) -> bool:
        """Whether an authenticated client may do less than everything."""
        return self.mode != ALWAYS_ALLOW

    def check(self, address: Address) -> None:
        """Raise ClusterError if the address may not be served with that."""
        if self.mode not in MODES:
            modes = ", ".join(MODES)
            raise ClusterError(f"--authorization-mode {self.mode}: not one of {modes}")
        if self.mode == RBAC and not self.knows:
            needed = "--token-auth-file or --client-ca-file to identify users"
            raise ClusterError(f"--authorization-mode RBAC needs {needed}")
        if bool(self.certificate) != bool(self.key):
            raise ClusterError("--tls-cert-file and --tls-private-key-file go together")
        if address.loopback or (self.certificate and self.knows):
            return
        raise ClusterError(
            f"{address.text} can be reached from other machines: that needs --tls-cert-file,"
            " --tls-private-key-file and --token-auth-file or --client-ca-file"
        )

    def context(self) -> ssl.SSLContext | None:
        """Return the TLS of the server. Raises ClusterError if its files cannot be used."""
        if self.certificate is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        try:
            context.load_cert_chain(self.certificate, self.key)
        except OSError as error:
            raise ClusterError(f"{self.certificate}: cannot be used: {reason_of(error)}") from None
        if self.clients is not None:
            request_certificates(context, self.clients)
        return context


def request_certificates(context: ssl.SSLContext, authorities: str) -> None:
    """Let a server request client certificates that authorities of a PEM file have signed.

    A client without one may connect, too. Raises ClusterError if the file cannot be used.
    """
    try:
        context.load_verify_locations(cafile=authorities)
    except OSError as error:
        raise ClusterError(f"{authorities}: cannot be used: {error}") from None
    context.verify_mode = ssl.CERT_OPTIONAL


def from_here(host: str, origin: str | None) -> bool:
    """Return whether a request to an open server was meant for it, and sent by no web page."""
    return origin is None and _names_loopback(host)


@lru_cache(maxsize=64)
def _names_loopback(host: str) -> bool:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    return Address(name.removeprefix("[").removesuffix("]"), 0).loopback


def reason_of(error: OSError) -> str:
    """Return why, without a number and the name of the file, which stands before it."""
    if isinstance(error, ssl.SSLError):
        return "it is no certificate in PEM, with the key that belongs to it"
    return error.strerror or str(error)
