"""Reading values of a kubeconfig by path: each problem has a place, and no secret is shown.

Lines of a kubeconfig are shown with a diagnostic only if nothing in them can be a secret.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from policy_sched.client.kube.auth.credentials import Trust
from policy_sched.client.kube.auth.proxies import proxy_of_environment, proxy_problem
from policy_sched.errors import Diagnostic, Severity, nearest
from policy_sched.source import (
    MAX_POLICY_BYTES,
    YAML_SYNTAX,
    Marked,
    Path as Place,
    SourceFile,
    diagnostic,
    parse_documents,
    read_bytes,
)

UNKNOWN_KEY: Final = "PS702"
WRONG_TYPE: Final = "PS703"
MISSING: Final = "PS704"
BAD_VALUE: Final = "PS707"
DUPLICATE: Final = "PS708"
MAX_SUGGESTIONS: Final = 100
"""Unknown keys of a kubeconfig that are compared with the known ones."""

_OPEN_LINE: Final = re.compile(
    r"\s*(?:- )?(?:apiVersion|kind|name|server|cluster|user|namespace|current-context|contexts"
    r"|clusters|users|certificate-authority|client-certificate|command"
    r"|insecure-skip-tls-verify|tls-server-name|interactiveMode|provideClusterInfo)"
    r"\s*:\s*[^\s{@#&*!]*\s*|\s*(?:exec|auth-provider)\s*:\s*"
)
"""Lines that hold no secret: one key that is none, one word, no user of a URL, no flow style.

A key or a token may stand where the name of its file should.
"""


def shown(problem: Diagnostic) -> Diagnostic:
    """Return a diagnostic without its source line, unless that line can hold no secret.

    Errors of YAML do not contain the text in question: it may be a token.
    """
    if problem.code == YAML_SYNTAX:
        problem = replace(problem, message=_without_values(problem.message))
    if _OPEN_LINE.fullmatch(problem.source_line):
        return problem
    return replace(problem, source_line="")


def _without_values(message: str) -> str:
    """Return the message of a mistake in YAML without the values, tags and keys it repeats."""
    if message.startswith("the tag "):
        return "this tag is not allowed here"
    kind = message.rpartition(" is not a valid ")[2]
    if kind != message:
        return f"the value is not a valid {kind}"
    return re.split(r"[\"']", message, maxsplit=1)[0].strip()


class KubeconfigReader:
    """One kubeconfig; what is wrong gathers in ``problems``."""

    def __init__(self, path: Path, marked: Marked) -> None:
        self.path = path
        self.problems: list[Diagnostic] = []
        self._marked = marked
        self._suggestions = MAX_SUGGESTIONS

    @property
    def value(self) -> Any:
        """The whole document."""
        return self._marked.value

    def report(
        self,
        where: Place,
        code: str,
        message: str,
        *,
        hint: str = "",
        key: bool = False,
        severity: Severity = Severity.ERROR,
    ) -> None:
        """Report a problem of a value, or of its key."""
        span = self._marked.key_span(where) if key else self._marked.span(where)
        problem = diagnostic(self._marked.file, span, code, message, hint=hint, severity=severity)
        self.problems.append(shown(problem))

    def keys(self, where: Place, allowed: Collection[str]) -> None:
        """Warn of keys that resemble known ones; other unknown keys belong to other tools."""
        given = self._at(where)
        for name in given if isinstance(given, dict) else ():
            if name in allowed:
                continue
            self._suggestions -= 1
            if self._suggestions < 0:  # a comparison with every known key takes a millisecond
                return
            close = nearest(name, allowed)
            if close:
                hint = f"did you mean {close!r}?"
                self.report(
                    (*where, name),
                    UNKNOWN_KEY,
                    f"unknown key {name!r}",
                    hint=hint,
                    key=True,
                    severity=Severity.WARNING,
                )

    def text(self, *where: str | int) -> str:
        """Return a text; "" if there is none, or after reporting that it is something else."""
        value = self._at(where)
        if value is None or (isinstance(value, str) and "\0" not in value):
            return value or ""
        if isinstance(value, str):
            self.report(where, BAD_VALUE, f"{where[-1]} must not hold the character NUL")
            return ""
        self.report(where, WRONG_TYPE, f"{where[-1]} must be text", hint="put it in quotes")
        return ""

    def flag(self, *where: str | int) -> bool:
        """Return a truth value; False if there is none, or after reporting that it is none."""
        value = self._at(where)
        if value is None or isinstance(value, bool):
            return bool(value)
        self.report(where, WRONG_TYPE, f"{where[-1]} must be true or false")
        return False

    def mapping(self, *where: str | int) -> dict[str, Any]:
        """Return a mapping; an empty one if there is none, or after reporting what it is."""
        value = self._at(where)
        if value is None or isinstance(value, dict):
            return value or {}
        self.report(where, WRONG_TYPE, f"{where[-1]} must be a mapping")
        return {}

    def items(self, *where: str | int) -> list[Any]:
        """Return a list; an empty one if there is none, or after reporting what it is."""
        value = self._at(where)
        if value is None or isinstance(value, list):
            return value or []
        self.report(where, WRONG_TYPE, f"{where[-1]} must be a list")
        return []

    def texts(self, *where: str | int) -> tuple[str, ...]:
        """Return a list of texts."""
        return tuple(self.text(*where, i) for i in range(len(self.items(*where))))

    def named(self, section: str, allowed: Collection[str]) -> Iterator[tuple[str, int]]:
        """Yield name and index of the entries of clusters, users or contexts, each name once."""
        seen: set[str] = set()
        for index in range(len(self.items(section))):
            self.mapping(section, index)
            self.keys((section, index), allowed)
            name = self.text(section, index, "name")
            if not name:
                self.report((section, index), MISSING, f"an entry of {section} has no name")
            elif name in seen:
                message = f"{section} has two entries named {name!r}"
                self.report((section, index, "name"), DUPLICATE, message, hint="the first counts")
            else:
                seen.add(name)
                yield name, index

    def file(self, *where: str | int) -> Path | None:
        """Return a path, relative to the kubeconfig; None if there is none."""
        text = self.text(*where)
        return self.path.parent / text if text else None

    def data(self, *where: str | int) -> bytes | None:
        """Return what base64 text stands for; None if there is none."""
        text = self.text(*where)
        if not text:
            return None
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except (binascii.Error, ValueError):
            hint = "encode the PEM file with `base64 -w0`, or name the file instead"
            self.report(where, BAD_VALUE, f"{where[-1]} is not base64", hint=hint)
            return None

    def _at(self, where: Place) -> Any:
        value = self._marked.value
        for step in where:
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value


def read(path: Path) -> tuple[KubeconfigReader | None, list[Diagnostic]]:
    """Return a reader of a file, unless it is none, and what is wrong with its YAML.

    Raises OSError if it cannot be read.
    """
    name = str(path)
    try:
        text = read_bytes(path, MAX_POLICY_BYTES).decode("utf-8")
    except UnicodeDecodeError:
        return None, [Diagnostic(name, 1, 1, BAD_VALUE, "the kubeconfig is not UTF-8")]
    source = SourceFile(name, text)
    documents, problems = parse_documents(source)
    problems = [shown(problem) for problem in problems]
    if len(documents) == 1 and isinstance(documents[0].value, dict):
        return KubeconfigReader(path, documents[0]), problems
    if not problems:
        message = "a kubeconfig is one mapping with clusters, users and contexts"
        problems = [shown(diagnostic(source, 0, WRONG_TYPE, message))]
    return None, problems


class EntryPosition(msgspec.Struct, frozen=True):
    """Where an entry stands."""

    reader: KubeconfigReader
    index: int


def content_of(reader: KubeconfigReader, where: tuple[str | int, ...], file: Path) -> bytes | None:
    """Return what is in a file that a kubeconfig names; None after reporting that there is none."""
    try:
        return read_bytes(file, MAX_POLICY_BYTES)
    except OSError as error:
        reader.report(where, BAD_VALUE, f"{file} cannot be read: {error.strerror}")
        return None


_CLUSTER: Final = (
    "server",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "certificate-authority",
    "certificate-authority-data",
    "proxy-url",
    "disable-compression",
    "extensions",
)


class ClusterEntry(msgspec.Struct, frozen=True):
    """A server as a cluster entry describes it."""

    url: str
    trust: Trust
    proxy: str
    compression: bool


def server_of(entry: EntryPosition) -> ClusterEntry:
    """Return the server of a cluster."""
    reader, where = entry.reader, ("clusters", entry.index, "cluster")
    reader.mapping(*where)
    reader.keys(where, _CLUSTER)
    server = reader.text(*where, "server").rstrip("/")
    if not server:
        reader.report((*where, "server"), MISSING, "the cluster has no server")
    elif "://" not in server and server.isprintable() and " " not in server:
        server = f"http://{server}"  # as client-go reads it
    elif not server.startswith(("http://", "https://")) or not _host(server):
        hint = "write https://HOST:PORT"
        reader.report((*where, "server"), BAD_VALUE, "the server is not a URL", hint=hint)
    if "@" in server:
        hint = "write username and password into the user entry"
        message = "the server's URL must not hold a user or a password"
        reader.report((*where, "server"), BAD_VALUE, message, hint=hint)
    authorities = reader.data(*where, "certificate-authority-data")
    file = reader.file(*where, "certificate-authority")
    if authorities is None and file is not None:
        authorities = content_of(reader, (*where, "certificate-authority"), file)
    else:
        file = None
    insecure = reader.flag(*where, "insecure-skip-tls-verify")
    if insecure and authorities is not None:
        message = "certificate authorities mean nothing where insecure-skip-tls-verify is true"
        reader.report(
            (*where, "insecure-skip-tls-verify"), BAD_VALUE, message, hint="take one of them out"
        )
    trust = Trust(authorities, reader.text(*where, "tls-server-name"), insecure, file)
    compression = not reader.flag(*where, "disable-compression")
    return ClusterEntry(server, trust, _proxy(reader, where, server), compression)


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _proxy(reader: KubeconfigReader, where: tuple[str | int, ...], server: str) -> str:
    """Return the cluster's proxy, or the environment's."""
    proxy = reader.text(*where, "proxy-url")
    if not proxy:
        proxy = proxy_of_environment(server)
        if proxy and (problem := proxy_problem(proxy)):
            message = f"the environment names a proxy for it that cannot be used: {problem}"
            reader.report((*where, "server"), BAD_VALUE, message)
        return proxy
    problem = proxy_problem(proxy)
    if problem:
        reader.report((*where, "proxy-url"), BAD_VALUE, f"proxy-url cannot be used: {problem}")
    return proxy


def cluster_info(entry: EntryPosition, server: ClusterEntry) -> dict[str, Any]:
    """Return the cluster of ExecCredential, for plugins with provideClusterInfo."""
    where, trust = ("clusters", entry.index, "cluster"), server.trust
    info: dict[str, Any] = {"server": server.url}
    if trust.server_name:
        info["tls-server-name"] = trust.server_name
    if trust.insecure:
        info["insecure-skip-tls-verify"] = True
    if trust.authorities is not None:
        info["certificate-authority-data"] = trust.authorities  # bytes are base64 in JSON
    proxy = entry.reader.text(*where, "proxy-url")
    if proxy:
        info["proxy-url"] = proxy
    if not server.compression:
        info["disable-compression"] = True
    for index in range(len(entry.reader.items(*where, "extensions"))):
        extension = (*where, "extensions", index)
        if entry.reader.text(*extension, "name") == "client.authentication.k8s.io/exec":
            info["config"] = entry.reader.mapping(*extension, "extension")
    return info
