"""A listening socket for few and short requests; slow or numerous clients do not block it.

Without a certificate it generates a self-signed one, as kube-scheduler does.

A connection without a complete request within `KEPT` seconds is closed, and so is one that does not
read its response. There are at most `MOST` connections; idle and anonymous ones are closed first.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from policy_sched.errors import ClusterError
from policy_sched.http import Bounds, Connections, Site

VALID: Final = timedelta(days=365)
EARLIER: Final = timedelta(hours=1)
"""Seconds by which clients' clocks may be slow."""


def self_signed(names: Iterable[str], now: int) -> tuple[bytes, bytes]:
    """Return a certificate and its key (PEM) for names and addresses; ``now``: ns since 1970."""
    key = ec.generate_private_key(ec.SECP256R1())
    at = datetime.fromtimestamp(now // 1_000_000_000, UTC)
    names = list(dict.fromkeys(names))
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(at - EARLIER)
        .not_valid_after(at + VALID)
        .add_extension(x509.SubjectAlternativeName([_named(name) for name in names]), False)
        .add_extension(usage, False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private


def _named(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


MOST: Final = 256
KEPT: Final = 32.0
"""Seconds for a request to arrive (upstream: 32 s for its headers)."""
TAKEN: Final = 30.0
"""Seconds for a client to read a response."""
LINE: Final = 8 * 1024
"""Most bytes of a header or the first line of a request."""
HEADERS: Final = 64
BODY: Final = 64 * 1024
"""Most bytes of a body; the longest valid one is a number."""

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Listener:
    """Serves requests at one address within the context. Port 0 is any free one."""

    def __init__(
        self,
        handler: Handler,
        address: tuple[str, int],
        context: ssl.SSLContext | None,
        *,
        most: int = MOST,
        kept: float = KEPT,
    ) -> None:
        self._handler = handler
        self.address = address
        self._context = context
        self._limits = most, kept

    @property
    def url(self) -> str:
        """The URL that it listens at."""
        host, port = self.address
        shown = f"[{host}]" if ":" in host else host
        return f"{'https' if self._context else 'http'}://{shown}:{port}"

    async def __aenter__(self) -> Self:
        """Start to listen. Raises ClusterError if that fails."""
        most, kept = self._limits
        bounds = Bounds(most, header=LINE, headers=HEADERS, body=BODY, silent=kept, idle=kept)
        host, port = self.address
        self._site = Site(Connections(self._handler, bounds), self.address, self._context)
        try:
            await self._site.__aenter__()
        except OSError as error:
            raise ClusterError(f"cannot listen on {host}:{port}: {error.strerror}") from None
        self.address = host, self._site.port
        return self

    async def __aexit__(self, *raised: object) -> None:
        """Stop listening, and close open connections."""
        await self._site.__aexit__(*raised)


async def sent(request: web.BaseRequest, response: web.Response) -> web.StreamResponse:
    """Send a response; disconnect a client that does not read it."""
    try:
        async with asyncio.timeout(TAKEN):
            await response.prepare(request)
            await response.write_eof()
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
    return response


def server_context(certificate: bytes, key: bytes, clients: str | None = None) -> ssl.SSLContext:
    """Return the TLS context of a server: certificate and key in PEM, and the CA of clients.

    ``clients``: a CA file; client certificates stay optional. Raises ClusterError if it is not
    usable.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    renew(context, certificate, key)
    try:
        if clients is not None:
            context.load_verify_locations(cafile=clients)
            context.verify_mode = ssl.CERT_OPTIONAL
    except OSError as error:
        raise ClusterError(f"{clients}: cannot be used: {error}") from None
    return context


def renew(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Replace the certificate for new connections. Raises ClusterError."""
    try:
        with _file_of(certificate + b"\n" + key) as path:
            context.load_cert_chain(path)
    except OSError as error:
        raise ClusterError(f"the certificate cannot be used: {error}") from None


@contextmanager
def _file_of(content: bytes) -> Iterator[str]:
    """Write content to a private temporary file; the ssl module takes only file names."""
    with tempfile.NamedTemporaryFile(dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None) as file:
        file.write(content)
        file.flush()
        yield file.name


_MEMORY: Final = "/dev/shm"  # noqa: S108 - a private file (0600), deleted at once
