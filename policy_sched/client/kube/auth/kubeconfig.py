"""Where the API server is: kubeconfigs, which are merged, or the files of a pod.

Theory of operation. Files are read in order; of entries with the same name, and of
``current-context``, the first counts. Only the entries of the chosen context are checked. A
mistake in a file is a `PolicyError` with its place; what is missing later (a token file, a plugin
that fails) is an `AccessError` of the request that needs it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from policy_sched.client.kube.auth.credentials import (
    AccessError,
    Anonymous,
    ClusterAccess,
    Credentials,
    TokenFile,
    Trust,
    read_secret,
)
from policy_sched.client.kube.auth.kubeconfig_reader import (
    BAD_VALUE,
    MISSING,
    EntryPosition,
    KubeconfigReader,
    cluster_info,
    read,
    server_of,
)
from policy_sched.client.kube.auth.kubeconfig_user import Headers, KubeconfigUser, impersonation
from policy_sched.client.kube.auth.proxies import proxy_of_environment, proxy_problem
from policy_sched.client.kube.time import Clocks
from policy_sched.errors import Diagnostic, PolicyError, Severity, nearest

_TOP: Final = (
    "apiVersion",
    "kind",
    "preferences",
    "clusters",
    "users",
    "contexts",
    "current-context",
    "extensions",
)
_CONTEXT: Final = ("cluster", "user", "namespace", "extensions")


def paths_in(text: str) -> list[Path]:
    """Return the files that a text like KUBECONFIG names; of several those that are there."""
    named = [part for part in text.split(os.pathsep) if part]
    if len(named) < 2 or Path(text).exists():
        return [Path(text.strip(os.pathsep))]
    return [path for path in map(Path, named) if path.exists()] or [Path(named[0])]


def load(paths: Sequence[Path], clocks: Clocks, context: str = "") -> ClusterAccess:
    """Return the access that kubeconfigs describe. Raises PolicyError with all that is wrong.

    Raises OSError for a file that cannot be read. ``context``: instead of the current one.
    """
    problems: list[Diagnostic] = []
    readers: list[KubeconfigReader] = []
    for path in paths:
        reader, problems_of_file = read(path)
        problems += problems_of_file
        if reader is not None:
            readers.append(reader)
    access = None
    if readers and not problems:
        access = _Kubeconfig(readers, clocks).access(context)
    for reader in readers:
        problems += reader.problems
    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    if errors or access is None:
        raise PolicyError(problems)
    return access


class _Kubeconfig:
    """The entries of all files, and the chosen ones among them."""

    def __init__(self, readers: list[KubeconfigReader], clocks: Clocks) -> None:
        self._readers = readers
        self._clocks = clocks
        for reader in readers:
            reader.keys((), _TOP)
        self._clusters = self._entries("clusters", ("name", "cluster"))
        self._users = self._entries("users", ("name", "user"))
        self._contexts = self._entries("contexts", ("name", "context"))

    def _entries(self, section: str, keys: tuple[str, str]) -> dict[str, EntryPosition]:
        positions: dict[str, EntryPosition] = {}
        for reader in self._readers:
            for name, index in reader.named(section, keys):
                positions.setdefault(name, EntryPosition(reader, index))
        return positions

    def access(self, wanted: str) -> ClusterAccess | None:
        """Return the access of a context; None after its problems were reported."""
        entry = self._context(wanted)
        if entry is None:
            return None
        reader, where = entry.reader, ("contexts", entry.index, "context")
        reader.mapping(*where)
        reader.keys(where, _CONTEXT)
        cluster = self._reference(entry, "cluster", self._clusters)
        user = self._reference(entry, "user", self._users)
        if cluster is None:
            return None
        server = server_of(cluster)
        credentials: Credentials = Anonymous()
        headers: Headers = ()
        if user is not None:
            described = cluster_info(cluster, server)
            credentials = KubeconfigUser(user, self._clocks).credentials(described)
            headers = impersonation(user)
        namespace = reader.text(*where, "namespace")
        return ClusterAccess(
            server.url,
            server.trust,
            credentials,
            server.proxy,
            namespace,
            headers,
            server.compression,
        )

    def _context(self, wanted: str) -> EntryPosition | None:
        first = self._readers[0]
        if wanted:
            entry = self._contexts.get(wanted)
            if entry is None:
                hint = _closest(wanted, self._contexts)
                first.report(("contexts",), BAD_VALUE, f"there is no context {wanted!r}", hint=hint)
            return entry
        for reader in self._readers:
            name = reader.text("current-context")
            if not name:
                continue
            entry = self._contexts.get(name)
            if entry is None:
                hint = _closest(name, self._contexts)
                message = f"there is no context {name!r}"
                reader.report(("current-context",), BAD_VALUE, message, hint=hint)
            return entry
        hint = _closest("", self._contexts) or "add a context"
        first.report(("current-context",), MISSING, "no context is the current one", hint=hint)
        return None

    def _reference(
        self, entry: EntryPosition, what: str, among: dict[str, EntryPosition]
    ) -> EntryPosition | None:
        """Return the cluster or the user of a context; None if it has none or it is not there."""
        where = ("contexts", entry.index, "context", what)
        name = entry.reader.text(*where)
        if not name:
            if what == "cluster":
                entry.reader.report(where, MISSING, "the context names no cluster")
            return None
        if name not in among:
            hint = _closest(name, among)
            entry.reader.report(where, BAD_VALUE, f"there is no {what} {name!r}", hint=hint)
        return among.get(name)


def _closest(name: str, among: Iterable[str]) -> str:
    names = sorted(among)
    close = nearest(name, names)
    if close:
        return f"did you mean {close!r}?"
    return f"there are {', '.join(names[:8])}" if names else ""


MOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def in_cluster_config(
    environ: Mapping[str, str], now: Callable[[], int], mount: Path = MOUNT
) -> ClusterAccess:
    """Return how a pod reaches its API server. Raises AccessError outside a pod.

    ``now`` is monotonic, in nanoseconds.
    """
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    port = environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise AccessError(
            "not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set;"
            " give a kubeconfig"
        )
    authorities = read_secret(mount / "ca.crt")
    read_secret(mount / "token")
    namespace = mount / "namespace"
    name = namespace.read_text(encoding="utf-8").strip() if namespace.exists() else ""
    bracketed = f"[{host}]" if ":" in host else host
    server = f"https://{bracketed}:{port}"
    proxy = proxy_of_environment(server, environ)
    if proxy and (problem := proxy_problem(proxy)):
        raise AccessError(f"the environment names a proxy that cannot be used: {problem}")
    return ClusterAccess(
        server=server,
        trust=Trust(authorities, file=mount / "ca.crt"),
        credentials=TokenFile(mount / "token", now),
        proxy=proxy,
        namespace=name,
    )
