"""Who may reach the server: addresses, certificates, tokens, and the kubeconfig that fits.

Beyond loopback nothing is served without TLS and tokens, or certificates of clients. On loopback
without these everybody on this machine may do everything; there a request that a web page of
elsewhere could have sent (by another host name, or with an origin) is turned away.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import os
import ssl
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from policy_sched.embedded.apiserver.security.authentication import Tokens
from policy_sched.embedded.apiserver.security.client_certificates import believe
from policy_sched.errors import ClusterError

DEFAULT_HOST: Final = "127.0.0.1"
CONTEXT: Final = "policy-sched"
ALWAYS_ALLOW: Final = "AlwaysAllow"
RBAC: Final = "RBAC"
MODES: Final = (ALWAYS_ALLOW, RBAC)
"""What decides who may do what (kube-apiserver's --authorization-mode)."""


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
    """Files of the certificate, its key and the tokens, as far as they are given.

    ``clients``: authorities whose certificates of clients are believed. ``mode``: AlwaysAllow, or
    RBAC: what a user may do is what roles and bindings say.
    """

    certificate: str | None = None
    key: str | None = None
    tokens: str | None = None
    mode: str = ALWAYS_ALLOW
    clients: str | None = None

    @property
    def knows(self) -> bool:
        """Whether it is asked who somebody is."""
        return self.tokens is not None or self.clients is not None

    @property
    def limited(self) -> bool:
        """Whether not everybody who is let in may do everything."""
        return self.mode != ALWAYS_ALLOW

    def check(self, address: Address) -> None:
        """Raise ClusterError if the address may not be served with that."""
        if self.mode not in MODES:
            known = ", ".join(MODES)
            raise ClusterError(f"--authorization-mode {self.mode}: not one of {known}")
        if self.mode == RBAC and not self.knows:
            needed = "--token-auth-file or --client-ca-file: who is who"
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
            raise ClusterError(f"{self.certificate}: cannot be used: {_reason(error)}") from None
        if self.clients is not None:
            believe(context, self.clients)
        return context

    def known(self) -> Tokens | None:
        """Return the tokens. Raises ClusterError if there are none in the file."""
        if self.tokens is None:
            return None
        return Tokens.read(self.tokens)


def from_here(host: str, origin: str | None) -> bool:
    """Tell whether a request to an open server was meant for it, and sent by no web page."""
    return origin is None and _names_loopback(host)


@lru_cache(maxsize=64)
def _names_loopback(host: str) -> bool:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    return Address(name.removeprefix("[").removesuffix("]"), 0).loopback


def kubeconfig(address: Address, access: Access, tokens: Tokens | None) -> str:
    """Return a kubeconfig, as JSON (which is YAML too), with the first token."""
    place = address.reached.text
    cluster: dict[str, object] = {"server": f"http://{place}"}
    if access.certificate is not None:
        cluster["server"] = f"https://{place}"
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


def _reason(error: OSError) -> str:
    """Return why, without a number and the name of the file, which stands before it."""
    if isinstance(error, ssl.SSLError):
        return "it is no certificate in PEM, with the key that belongs to it"
    return error.strerror or str(error)


def write_kubeconfig(path: str, text: str) -> None:
    """Write a kubeconfig that only its owner can read. Raises ClusterError if it cannot be."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(handle, 0o600)
            file.write(text + "\n")
    except OSError as error:
        raise ClusterError(f"{path}: cannot be written: {_reason(error)}") from None
