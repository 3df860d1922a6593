"""The cluster entry of a kubeconfig: where the server is, and whose word it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from policy_sched.client.kube.auth.access import Trust
from policy_sched.client.kube.auth.kubeconfig_reader import (
    BAD_VALUE,
    MISSING,
    Entry,
    Reader,
    content_of,
)
from policy_sched.client.kube.auth.proxies import proxy_of_environment, proxy_problem

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


@dataclass(frozen=True, slots=True)
class Server:
    """A server as a cluster entry describes it."""

    url: str
    trust: Trust
    proxy: str
    compression: bool


def server_of(entry: Entry) -> Server:
    """Return the server of a cluster."""
    reader, where = entry.reader, ("clusters", entry.index, "cluster")
    reader.mapping(*where)
    reader.keys(where, _CLUSTER)
    server = reader.text(*where, "server").rstrip("/")
    if not server:
        reader.report((*where, "server"), MISSING, "the cluster has no server")
    elif "://" not in server:
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
    return Server(server, trust, _proxy(reader, where, server), compression)


def _host(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _proxy(reader: Reader, where: tuple[str | int, ...], server: str) -> str:
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


def cluster_info(entry: Entry, server: Server) -> dict[str, Any]:
    """Return what an exec plugin with provideClusterInfo is told."""
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
