"""Users by their certificates: the common name is the user, organizations are its groups.

TLS has verified a certificate before a request is read: one that the authority did not sign, or
that has expired, makes no connection. (kube-apiserver's x509 authenticator.)

The authorities of client certificates are published to components in a ConfigMap.

A component that delegates authentication reads it when it starts, as kube-scheduler does, and
trusts the same authorities. (The cluster authentication trust controller of kube-apiserver.)
"""

from __future__ import annotations

import asyncio
import hashlib
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from policy_sched.client.apimachinery import NAMESPACE, SECOND
from policy_sched.embedded.apiserver.request import UserInfo, with_authenticated
from policy_sched.embedded.store import ObjectStore
from policy_sched.errors import ClusterError
from policy_sched.manifests import Plain

_ID: Final = "authentication.kubernetes.io/credential-id"

Name = tuple[tuple[tuple[str, str], ...], ...]
"""A distinguished name, as the ssl module gives it."""


def certified(transport: asyncio.BaseTransport | None) -> UserInfo | None:
    """Return the user that the certificate of a connection names, None without one."""
    certificate = None if transport is None else transport.get_extra_info("peercert")
    if not certificate:
        return None
    assert transport is not None
    connection: Any = transport.get_extra_info("ssl_object")
    return user_of(certificate.get("subject", ()), connection.getpeercert(binary_form=True))


@lru_cache(maxsize=1024)
def user_of(subject: Name, certificate: bytes) -> UserInfo | None:
    """Return the user of a subject, None if it has no common name. ``certificate``: in DER."""
    fields = [pair for name in subject for pair in name]
    names = [value for key, value in fields if key == "commonName" and value]
    if not names:
        return None
    groups = tuple(value for key, value in fields if key == "organizationName")
    digest = hashlib.sha256(certificate).hexdigest()
    return UserInfo(
        names[-1], groups=with_authenticated(groups), extra=((_ID, (f"X509SHA256={digest}",)),)
    )


NAME: Final = "extension-apiserver-authentication"
HOME: Final = "kube-system"
AUTHORITIES: Final = "client-ca-file"
_MAP: Final = ("v1", "ConfigMap")


def publish(store: ObjectStore, authorities: str | None) -> None:
    """Publish the authorities of a PEM file in a store; None: no certificates are trusted.

    Then it is an authority without a key, which has signed none: components that delegate
    authentication do not start without one. What others have put into the ConfigMap stays. Without
    its namespace there is none. Raises ClusterError if the file cannot be read.
    """
    if store.find(NAMESPACE, "", HOME) is None:
        return
    now = store.now()
    wanted = {AUTHORITIES: _unused_authority(now) if authorities is None else _read(authorities)}
    stored = store.find(_MAP, HOME, NAME)
    if stored is None:
        meta = {"name": NAME, "namespace": HOME}
        made: Plain = {"apiVersion": _MAP[0], "kind": _MAP[1], "metadata": meta}
        store.create({**made, "data": wanted})
        return
    before = stored.data.get("data") or {}
    others = {key: value for key, value in before.items() if key != AUTHORITIES}
    if before != {**others, **wanted}:
        store.revise(stored, {**stored.data, "data": {**others, **wanted}})


def _unused_authority(now: int) -> str:
    """Return the certificate (PEM) of an authority without a key; ``now``: ns since 1970."""
    key = ec.generate_private_key(ec.SECP256R1())
    at = datetime.fromtimestamp(now // SECOND, UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "no-client-certificates")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(at - timedelta(hours=1))
        .not_valid_after(at + timedelta(days=3650))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        raise ClusterError(f"{path}: cannot be read: {why}") from None
