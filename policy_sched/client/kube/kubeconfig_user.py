"""The user entry of a kubeconfig: tokens, certificates, plugins, and acting as somebody else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from policy_sched.client.kube.access import Anonymous, Certificate, Credentials, Grant, Trust
from policy_sched.client.kube.credentials import (
    CertificateFiles,
    Fixed,
    TokenFile,
    basic,
    bearer,
    token_problem,
)
from policy_sched.client.kube.exec_plugin import VERSIONS, ExecCommand, ExecPlugin
from policy_sched.client.kube.kubeconfig_text import BAD_VALUE, MISSING, Entry, content_of
from policy_sched.client.kube.kubeconfig_tokens import ID_TOKEN, REFRESH_TOKEN, keeper
from policy_sched.client.kube.oidc import Oidc, OidcClient, issuer_problem, token_expiry

_USER: Final = (
    "client-certificate",
    "client-certificate-data",
    "client-key",
    "client-key-data",
    "token",
    "tokenFile",
    "as",
    "as-uid",
    "as-groups",
    "as-user-extra",
    "username",
    "password",
    "auth-provider",
    "exec",
    "extensions",
)
_EXEC: Final = (
    "command",
    "args",
    "env",
    "apiVersion",
    "installHint",
    "provideClusterInfo",
    "interactiveMode",
    "stdinUnavailable",
    "stdinUnavailableMessage",
)
_OIDC: Final = (
    "idp-issuer-url",
    "client-id",
    "client-secret",
    "idp-certificate-authority",
    "idp-certificate-authority-data",
    "id-token",
    "refresh-token",
    "extra-scopes",
    "auth-request-extra-params",
)
Clock = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Clocks:
    """Wall time (since 1970) and monotonic time, both in nanoseconds."""

    wall: Clock
    monotonic: Clock


class User:
    """One user of a kubeconfig."""

    def __init__(self, entry: Entry, clocks: Clocks) -> None:
        self._reader = entry.reader
        self._where = ("users", entry.index, "user")
        self._clocks = clocks
        self._reader.mapping(*self._where)
        self._reader.keys(self._where, _USER)

    def credentials(self, cluster: dict[str, Any]) -> Credentials:
        """Return the user's credentials; problems are reported."""
        reader, where = self._reader, self._where
        exec_, provider = reader.mapping(*where, "exec"), reader.mapping(*where, "auth-provider")
        authorization = self._authorization()
        token_file = reader.file(*where, "tokenFile")
        held = self._certificate()
        if exec_:
            return self._exec(cluster, others=bool(authorization or token_file or held))
        if provider:
            return self._provider()
        if token_file is not None:
            if isinstance(held, tuple):
                message = "tokenFile cannot be used beside files of a certificate"
                reader.report((*where, "tokenFile"), BAD_VALUE, message, key=True)
                held = None
            return TokenFile(token_file, self._clocks.monotonic, held)
        if isinstance(held, tuple):
            return CertificateFiles(*held, self._clocks.monotonic, authorization)
        return Fixed(Grant(authorization, held)) if authorization or held else Anonymous()

    def _authorization(self) -> str:
        reader, where = self._reader, self._where
        token = reader.text(*where, "token")
        if problem := token_problem(token):
            hint = "write the token on one line, without spaces"
            reader.report((*where, "token"), BAD_VALUE, problem, hint=hint)
        elif token:
            return bearer(token)
        username, password = (reader.text(*where, key) for key in ("username", "password"))
        return basic(username, password) if username or password else ""

    def _certificate(self) -> Certificate | tuple[Path, Path] | None:
        """Return a certificate that stands inline, or the files of one."""
        reader, where = self._reader, self._where
        data = [reader.data(*where, f"client-{part}-data") for part in ("certificate", "key")]
        files = [reader.file(*where, f"client-{part}") for part in ("certificate", "key")]
        given = [a is not None or b is not None for a, b in zip(data, files, strict=True)]
        if not any(given):
            return None
        if not all(given):
            has, lacks = ("certificate", "key") if given[0] else ("key", "certificate")
            message = f"the user has a client-{has} and no client-{lacks}"
            reader.report(
                where, MISSING, message, hint=f"add client-{lacks} or client-{lacks}-data"
            )
            return None
        if data[0] is None and data[1] is None:
            assert files[0] is not None
            assert files[1] is not None
            return files[0], files[1]
        parts = []
        for name, inline, file in zip(("certificate", "key"), data, files, strict=True):
            part = inline
            if part is None:
                assert file is not None
                part = content_of(reader, (*where, f"client-{name}"), file)
            parts.append(part or b"")
        return Certificate(*parts)

    def _exec(self, cluster: dict[str, Any], *, others: bool) -> Credentials:
        reader, where = self._reader, (*self._where, "exec")
        reader.keys(where, _EXEC)
        if others:
            message = "exec stands beside other credentials"
            reader.report(where, BAD_VALUE, message, hint="take one of them out", key=True)
        command = reader.text(*where, "command")
        if not command:
            reader.report(where, MISSING, "the exec plugin has no command", key=True)
        elif "/" in command:
            command = str((reader.path.parent / command).absolute())
        version = reader.text(*where, "apiVersion")
        if version not in VERSIONS:
            hint = f"this program knows {' and '.join(VERSIONS)}"
            message = "the exec plugin has no apiVersion" if not version else "unknown apiVersion"
            reader.report((*where, "apiVersion"), BAD_VALUE, message, hint=hint)
        if reader.text(*where, "interactiveMode") == "Always":
            message = "a scheduler has no terminal for an interactive exec plugin"
            reader.report((*where, "interactiveMode"), BAD_VALUE, message, hint="write IfAvailable")
        env = {
            reader.text(*where, "env", i, "name"): reader.text(*where, "env", i, "value")
            for i in range(len(reader.items(*where, "env")))
        }
        return ExecPlugin(
            ExecCommand(
                command,
                reader.texts(*where, "args"),
                env,
                version,
                reader.text(*where, "installHint"),
                cluster if reader.flag(*where, "provideClusterInfo") else None,
            ),
            self._clocks.wall,
        )

    def _provider(self) -> Credentials:
        reader, where = self._reader, (*self._where, "auth-provider")
        name = reader.text(*where, "name")
        if name != "oidc":
            message = f"the auth-provider {name!r} does not exist any more"
            reader.report((*where, "name"), BAD_VALUE, message, hint="use an exec plugin")
            return Anonymous()
        config = (*where, "config")
        reader.mapping(*config)
        reader.keys(config, _OIDC)
        id_token, refresh = (reader.text(*config, key) for key in (ID_TOKEN, REFRESH_TOKEN))
        if not (id_token or refresh):
            hint = "log in, or use an exec plugin (kubelogin)"
            message = "the OIDC auth-provider has neither an id-token nor a refresh-token"
            reader.report(where, MISSING, message, hint=hint)
        if id_token:
            try:
                token_expiry(id_token)
            except ValueError as error:
                reader.report((*config, ID_TOKEN), BAD_VALUE, f"the id-token is no use: {error}")
        client = self._issuer(config, needed=bool(refresh))
        user = reader.text("users", self._where[1], "name")
        return Oidc(client, id_token, refresh, self._clocks.wall, keeper(reader.path, user))

    def _issuer(self, config: tuple[str | int, ...], *, needed: bool) -> OidcClient:
        """Return who renews tokens; it has to be known only where there is a refresh token."""
        reader = self._reader
        issuer, client_id, secret = (
            reader.text(*config, key) for key in ("idp-issuer-url", "client-id", "client-secret")
        )
        for key, value in (("idp-issuer-url", issuer), ("client-id", client_id)):
            if needed and not value:
                message = f"the OIDC auth-provider has a refresh-token and no {key}"
                reader.report(config, MISSING, message)
        if issuer and (problem := issuer_problem(issuer)):
            message = f"idp-issuer-url cannot be used: {problem}"
            reader.report((*config, "idp-issuer-url"), BAD_VALUE, message)
        authorities = reader.data(*config, "idp-certificate-authority-data")
        file = reader.file(*config, "idp-certificate-authority")
        if authorities is None and file is not None:
            authorities = content_of(reader, (*config, "idp-certificate-authority"), file)
        return OidcClient(issuer, client_id, secret, Trust(authorities))
