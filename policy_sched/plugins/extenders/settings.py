"""Settings of an extender, the TLS context of its connections, and what is wrong with them."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from policy_sched.model import EVERYTHING, Selector


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Transport security; data (PEM) comes before a file."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


@dataclass(frozen=True, slots=True)
class ExtenderSettings:
    """One extender.

    ``timeout``: seconds. ``managed_resources``: only pods that request one of these are its
    concern; empty: all pods. ``pod_selector``: the same by labels.
    """

    url_prefix: str
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    bind_verb: str = ""
    weight: int = 0
    enable_https: bool = False
    tls: TlsSettings | None = None
    timeout: float = 5.0
    node_cache_capable: bool = False
    managed_resources: frozenset[str] = frozenset()
    ignorable: bool = False
    pod_selector: Selector = EVERYTHING


def client_context(tls: TlsSettings | None, *, enable_https: bool) -> ssl.SSLContext:
    """Return the context for an extender's connections.

    As in kube-scheduler, enableHTTPS without trusted roots does not verify the server; an https
    address without enableHTTPS is verified against the system's roots. Raises OSError where
    `tls_faults` finds something.
    """
    tls = tls or TlsSettings()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if tls.ca_data:
        context.load_verify_locations(cadata=tls.ca_data.decode("ascii", "replace"))
    elif tls.ca_file:
        context.load_verify_locations(cafile=tls.ca_file)
    elif tls.insecure or enable_https:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_default_certs()
    if _has_pair(tls):
        _load_pair(context, tls)
    return context


def tls_faults(tls: TlsSettings) -> Iterator[tuple[str, str]]:
    """Yield what is wrong: a field of tlsConfig, and words. Reads the files."""
    roots = ("caData",) if tls.ca_data else ("caFile",) if tls.ca_file else ()
    if roots and tls.insecure:
        why = "specifying a root certificates file with the insecure flag is not allowed"
        yield "insecure", why
    for field in roots:
        faults = TlsSettings(ca_file=tls.ca_file, ca_data=tls.ca_data)
        why = _why(faults, tls.ca_file if field == "caFile" else "", "no certificate in PEM")
        if why:
            yield field, why
    certificate = "certData" if tls.cert_data else "certFile" if tls.cert_file else ""
    key = "keyData" if tls.key_data else "keyFile" if tls.key_file else ""
    if certificate and not key:
        yield certificate, "a client certificate needs its key: keyFile or keyData"
    if key and not certificate:
        yield key, "a client key needs its certificate: certFile or certData"
    if certificate and key:
        pair = TlsSettings(
            cert_file=tls.cert_file,
            key_file=tls.key_file,
            cert_data=tls.cert_data,
            key_data=tls.key_data,
        )
        for field, file in ((certificate, tls.cert_file), (key, tls.key_file)):
            why = _unreadable(file) if field.endswith("File") else ""
            if why:
                yield field, why
                return
        why = _why(pair, "", "no certificate in PEM with the key that belongs to it")
        if why:
            yield certificate, why


def _why(tls: TlsSettings, file: str, what: str) -> str:
    """Return why a context cannot be made; empty if it can."""
    why = _unreadable(file) if file else ""
    if why:
        return why
    try:
        client_context(tls, enable_https=False)
    except (OSError, ValueError):
        return f"holds {what}"
    return ""


def _unreadable(file: str) -> str:
    try:
        Path(file).read_bytes()
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return ""


def _has_pair(tls: TlsSettings) -> bool:
    return bool((tls.cert_data or tls.cert_file) and (tls.key_data or tls.key_file))


def _load_pair(context: ssl.SSLContext, tls: TlsSettings) -> None:
    """Load the client's certificate and key; the ssl module takes them from files only."""
    with TemporaryDirectory() as folder:  # readable by its owner only
        files: list[str] = []
        for data, file in ((tls.cert_data, tls.cert_file), (tls.key_data, tls.key_file)):
            path = file
            if data:
                written = Path(folder) / str(len(files))
                written.write_bytes(data)
                path = str(written)
            files.append(path)
        # An encrypted key is refused; without a password ssl would ask the terminal for one.
        context.load_cert_chain(files[0], files[1], password="")
