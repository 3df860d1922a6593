"""Credentials of a client: certificates, tokens, files that are read again, and exec plugins.

Theory of operation. An exec plugin runs when there is no credential, when the present one has
expired by its ``expirationTimestamp`` (on the wall clock), and when the server has refused it.
Concurrent requests wait for one run. The output of a plugin is never shown.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import tempfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from policy_sched.client.kube.time import SECOND
from policy_sched.errors import ClusterError
from policy_sched.model import nanoseconds
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


NO_GRANT: Final = Grant()


class Credentials(Protocol):
    """Where grants come from."""

    async def grant(self) -> Grant:
        """Return what the next request is to be sent with. Raises AccessError."""

    def held(self) -> Grant | None:
        """Return that if it is at hand, otherwise None. Raises AccessError."""

    def refused(self, grant: Grant, /) -> bool:
        """Note that the server rejected a grant; return whether another one may follow."""


class Anonymous:
    """No credentials."""

    async def grant(self) -> Grant:
        """Return nothing."""
        return NO_GRANT

    def held(self) -> Grant:
        """Return nothing."""
        return NO_GRANT

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
class ClusterAccess:
    """One server and one identity. ``headers`` are sent with every request (impersonation).

    ``compression``: whether responses may come compressed.
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
    """Load a client certificate into a context; OpenSSL reads it from a file only.

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


VERSIONS: Final = (
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
)
TIMEOUT: Final = 60.0
"""Seconds that a plugin may run."""


@dataclass(frozen=True, slots=True)
class ExecCommand:
    """How a plugin is called. ``cluster`` is passed to plugins with provideClusterInfo."""

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    api_version: str = VERSIONS[0]
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = field(default=None, repr=False)


class _ExecStatus(msgspec.Struct, rename="camel"):
    expiration_timestamp: datetime | None = None
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _ExecStatus | None = None


class ExecPlugin:
    """Credentials of one plugin; ``now`` is wall time, in nanoseconds since 1970."""

    def __init__(
        self, command: ExecCommand, now: Callable[[], int], timeout: float = TIMEOUT
    ) -> None:
        self._command = command
        self._now = now
        self._timeout = timeout
        self._held: Grant | None = None
        self._end: int | None = None
        self._lock = asyncio.Lock()

    async def grant(self) -> Grant:
        """Return what the plugin gave; run it if that has ended. Raises AccessError."""
        async with self._lock:
            held = self.held()
            if held is None:
                held, self._end = parse_credential(await self._run(), self._command)
                self._held = held
            return held

    def held(self) -> Grant | None:
        """Return what the plugin gave, unless that has ended."""
        ended = self._end is not None and self._now() >= self._end
        return None if ended else self._held

    def refused(self, grant: Grant, /) -> bool:
        """Forget the grant, if it is still the one that counts, and tell to try again."""
        if self._held is grant:
            self._held = None
        return True

    async def _run(self) -> bytes:
        command = self._command
        try:
            process = await asyncio.create_subprocess_exec(
                command.command,
                *command.args,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, **command.env, "KUBERNETES_EXEC_INFO": exec_info(command)},
            )
        except OSError as error:
            hint = f"; {command.install_hint.strip()}" if command.install_hint else ""
            why = os.strerror(error.errno) if error.errno else "it cannot be run"
            raise AccessError(f"exec plugin {command.command!r}: {why}{hint}") from None
        try:
            output, _ = await asyncio.wait_for(process.communicate(), self._timeout)
        except TimeoutError:
            message = f"exec plugin {command.command!r} has not ended in {self._timeout:g} s"
            raise AccessError(message) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            message = f"exec plugin {command.command!r} failed with exit code {process.returncode}"
            raise AccessError(message)
        return output


def exec_info(command: ExecCommand) -> str:
    """Return what a plugin finds in KUBERNETES_EXEC_INFO."""
    spec: dict[str, Any] = {"interactive": False}
    if command.cluster is not None:
        spec["cluster"] = dict(command.cluster)
    info = {"kind": "ExecCredential", "apiVersion": command.api_version, "spec": spec}
    return msgspec.json.encode(info).decode()


def parse_credential(output: bytes, command: ExecCommand) -> tuple[Grant, int | None]:
    """Return what a plugin gave and when it ends (nanoseconds since 1970). Raises AccessError."""
    name = f"exec plugin {command.command!r}"
    try:
        credential = msgspec.json.decode(output, type=_ExecCredential)
    except (ValueError, RecursionError):
        raise AccessError(f"{name} printed no ExecCredential") from None
    if credential.kind != "ExecCredential" or credential.api_version != command.api_version:
        message = f"{name} printed {credential.kind[:40]!r} of {credential.api_version[:60]!r}"
        raise AccessError(f"{message}, not ExecCredential of {command.api_version!r}")
    status = credential.status
    if status is None or not (status.token or status.client_certificate_data):
        raise AccessError(f"{name} gave neither a token nor a certificate")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise AccessError(
            f"{name} gave a certificate without a key, or a key without a certificate"
        )
    certificate = None
    if status.client_certificate_data:
        pem = status.client_certificate_data.encode(), status.client_key_data.encode()
        certificate = Certificate(*pem)
    if problem := token_problem(status.token):
        raise AccessError(f"{name}: {problem}")
    end = status.expiration_timestamp
    authorization = bearer(status.token) if status.token else ""
    return Grant(authorization, certificate), None if end is None else nanoseconds(end)


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

    def held(self) -> Grant:
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
        return self.held()

    def held(self) -> Grant:
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
        return self.held()

    def held(self) -> Grant:
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
