"""Access: the address of an API server and the client's credentials, which no text shows."""

from __future__ import annotations

import ssl
import tempfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from policy_sched.errors import ClusterError
from policy_sched.source import read_bytes

MAX_SECRET_BYTES: Final = 1 << 20
"""Bytes of a token, a key or a certificate: 1 MiB."""


class AccessError(ClusterError):
    """Credentials or certificates cannot be had, or do not fit together."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A client certificate with its key, both PEM."""

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Grant:
    """What a request is sent with: the Authorization header, a certificate, or neither."""

    authorization: str = field(default="", repr=False)
    certificate: Certificate | None = None


class Credentials(Protocol):
    """Where grants come from."""

    async def grant(self) -> Grant:
        """Return what the next request is to be sent with. Raises AccessError."""

    def refused(self, grant: Grant, /) -> bool:
        """Take note that the server did not accept a grant; tell whether another one may come."""


class Anonymous:
    """No credentials."""

    async def grant(self) -> Grant:
        """Return nothing."""
        return Grant()

    def refused(self, _grant: Grant, /) -> bool:
        """There is nothing else to try."""
        return False


@dataclass(frozen=True, slots=True)
class Trust:
    """Whose word the server's certificate needs: ``authorities`` is PEM, None the system's own.

    ``server_name`` is checked instead of the host of the URL. ``insecure`` checks nothing.
    ``file``: where the authorities were read, and are read again.
    """

    authorities: bytes | None = field(default=None, repr=False)
    server_name: str = ""
    insecure: bool = False
    file: Path | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """One server and one identity. ``headers`` are sent with every request (impersonation).

    ``compression``: whether answers may come compressed.
    """

    server: str
    trust: Trust = Trust()
    credentials: Credentials = field(default_factory=Anonymous, repr=False)
    proxy: str = field(default="", repr=False)
    namespace: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    compression: bool = True


def tls_context(trust: Trust, certificate: Certificate | None) -> ssl.SSLContext:
    """Return the TLS settings for a server and a client certificate. Raises AccessError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if trust.authorities is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(cadata=trust.authorities.decode("ascii", "replace"))
    except (ssl.SSLError, ValueError) as error:
        message = f"the certificate authorities cannot be read: {_reason(error)}"
        raise AccessError(message) from None
    if trust.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        _load(context, certificate)
    return context


def _load(context: ssl.SSLContext, certificate: Certificate) -> None:
    """Give a client certificate to a context; OpenSSL's door to it is a file.

    The file is the owner's alone and lives while it is read.
    """
    with tempfile.NamedTemporaryFile(prefix="policy-sched-", suffix=".pem") as file:
        file.write(certificate.certificate + b"\n" + certificate.key + b"\n")
        file.flush()
        try:
            context.load_cert_chain(file.name, password=_no_password)
        except ssl.SSLError as error:
            message = f"client certificate and key cannot be used: {_reason(error)}"
            raise AccessError(message) from None


def _no_password() -> str:
    raise AccessError("the key of the client certificate is encrypted; give it without a password")


def _reason(error: ssl.SSLError | ValueError) -> str:
    reason = error.reason if isinstance(error, ssl.SSLError) else ""
    return (reason or "they are not PEM").replace("_", " ").lower()


def read_secret(path: Path) -> bytes:
    """Return what is in a file. Raises AccessError that names the file and not its content."""
    try:
        return read_bytes(path, MAX_SECRET_BYTES)
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or "it cannot be read"
        raise AccessError(f"{path}: {why}") from None
