"""The user entry of a kubeconfig: tokens, certificates, exec plugins and impersonation."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any, Final

from policy_sched.client.kube.auth.credentials import (
    VERSIONS,
    Anonymous,
    Certificate,
    CertificateFiles,
    Credentials,
    ExecCommand,
    ExecPlugin,
    Fixed,
    Grant,
    TokenFile,
    basic,
    bearer,
    token_problem,
)
from policy_sched.client.kube.auth.kubeconfig_reader import (
    BAD_VALUE,
    MISSING,
    EntryPosition,
    KubeconfigReader,
    content_of,
)
from policy_sched.client.kube.time import Clocks

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
_PLUGINS: Final = {
    "oidc": "`kubectl oidc-login`",
    "gcp": "`gke-gcloud-auth-plugin`",
    "azure": "`kubelogin`",
}
"""The exec plugin that takes the place of each auth-provider."""
_COMPANIONS: Final = ("as-uid", "as-groups", "as-user-extra")
_LEGAL: Final = frozenset(string.ascii_letters + string.digits + "!#$&'*+-.^_`|~")
"""Characters of a header's name (RFC 7230), without the percent sign, which escapes the others."""
Headers = tuple[tuple[str, str], ...]
"""Names and values; a name may occur more than once."""


class KubeconfigUser:
    """One user of a kubeconfig."""

    def __init__(self, entry: EntryPosition, clocks: Clocks) -> None:
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
        """Refuse the user's auth-provider: client-go is dropping them for exec plugins."""
        where = (*self._where, "auth-provider", "name")
        name = self._reader.text(*where)
        plugin = f", for example {_PLUGINS[name]}" if name in _PLUGINS else ""
        hint = f"use an exec credential plugin (`exec`){plugin}"
        message = f"the auth-provider {name!r} is not supported"
        self._reader.report(where, BAD_VALUE, message, hint=hint)
        return Anonymous()


def impersonation(entry: EntryPosition) -> Headers:
    """Return the impersonation headers of a user entry; problems are reported."""
    reader, where = entry.reader, ("users", entry.index, "user")
    user = _value(reader, *where, "as")
    headers = [("Impersonate-User", user), ("Impersonate-Uid", _value(reader, *where, "as-uid"))]
    headers += _values(reader, "Impersonate-Group", *where, "as-groups")
    for key in reader.mapping(*where, "as-user-extra"):
        name = f"Impersonate-Extra-{_escaped(str(key))}"
        headers += _values(reader, name, *where, "as-user-extra", key)
    given = tuple((name, value) for name, value in headers if value)
    if given and not user:
        key = next(key for key in _COMPANIONS if reader.mapping(*where).get(key))
        reader.report((*where, key), MISSING, f"{key} needs `as`: a user to act as", key=True)
    return given


def _values(reader: KubeconfigReader, name: str, *where: str | int) -> Headers:
    """Return a header for each text of a list."""
    indices = range(len(reader.items(*where)))
    return tuple((name, _value(reader, *where, index)) for index in indices)


def _value(reader: KubeconfigReader, *where: str | int) -> str:
    """Return a text that can be a header's value."""
    text = reader.text(*where)
    if text.isprintable():
        return text
    key = next(part for part in reversed(where) if isinstance(part, str))
    reader.report(where, BAD_VALUE, f"{key} has characters that no header can have")
    return ""


def _escaped(key: str) -> str:
    """Return a key as a part of a header's name, as client-go writes it."""
    bytes_ = key.encode("utf-8", "surrogateescape")
    return "".join(chr(b) if chr(b) in _LEGAL else f"%{b:02X}" for b in bytes_)
