"""Proxies: which of them leads to a server, by kubeconfig or environment, and which cannot be used.

HTTPS_PROXY, HTTP_PROXY and NO_PROXY mean what they mean to every Go program (x/net/http/httpproxy):
in capitals or small letters, addresses and networks in NO_PROXY, never for this machine itself.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from typing import Final
from urllib.parse import SplitResult, urlsplit

SOCKS: Final = "socks5"
SCHEMES: Final = ("http", "https", SOCKS)
_PORTS: Final = {"http": 80, "https": 443}


def proxy_problem(url: str) -> str:
    """Return why a proxy cannot be used, or ""."""
    try:
        parts = urlsplit(url)
        bad_port = parts.port == 0
    except ValueError:
        return "it is no URL"
    if parts.scheme not in SCHEMES:
        named = parts.scheme if "://" in url else ""
        more = "; socks5 leaves names to the proxy, too" if named == "socks5h" else ""
        return f"its scheme {named!r} is none of http, https and socks5{more}"
    if not parts.hostname or bad_port:
        return f"it is not of the form {parts.scheme}://HOST:PORT"
    return ""


def proxy_of_environment(server: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the proxy that the environment names for a server, or ""."""
    try:
        parts = urlsplit(server)
    except ValueError:
        return ""  # no server, no way to it
    host = (parts.hostname or "").rstrip(".")
    proxy = _named(environ, f"{parts.scheme}_proxy")
    if not proxy or not host or _here(host) or _excepted(parts, _named(environ, "no_proxy")):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


def _named(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.upper()) or environ.get(name) or ""


def _here(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _excepted(server: SplitResult, no_proxy: str) -> bool:
    """Return whether NO_PROXY names a server: by name, domain, address or network, and by port."""
    host = (server.hostname or "").rstrip(".")
    port = server.port or _PORTS.get(server.scheme, 0)
    address = _address(host)
    for entry in filter(None, (entry.strip().lower() for entry in no_proxy.split(","))):
        if entry == "*":
            return True
        if address is not None and "/" in entry:
            if _within(address, entry):
                return True
            continue
        name, wanted = _split(entry)
        if wanted not in ("", str(port)):
            continue
        if address is not None:
            if _address(name) == address:
                return True
            continue
        name = name.removeprefix("*")
        if host.endswith(name if name.startswith(".") else f".{name}"):
            return True
        if host == name:
            return True
    return False


def _within(address: ipaddress.IPv4Address | ipaddress.IPv6Address, network: str) -> bool:
    try:
        return address in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _split(entry: str) -> tuple[str, str]:
    """Return name and port of an entry; "" for no port."""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") == 1:
        name, _, port = entry.partition(":")
        return name, port
    return entry, ""
