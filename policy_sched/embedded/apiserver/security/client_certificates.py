"""Users by their certificates: the common name is the user, organizations are its groups.

TLS has verified a certificate before a request is read: one that the authority did not sign, or
that has expired, makes no connection. (kube-apiserver's x509 authenticator.)
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from functools import lru_cache
from typing import Any, Final

from policy_sched.embedded.apiserver.request import User, with_authenticated
from policy_sched.errors import ClusterError

_ID: Final = "authentication.kubernetes.io/credential-id"

Name = tuple[tuple[tuple[str, str], ...], ...]
"""A distinguished name, as the ssl module gives it."""


def believe(context: ssl.SSLContext, authorities: str) -> None:
    """Let a server ask for certificates that one of some authorities (PEM file) has signed.

    Who shows none is let in all the same. Raises ClusterError if the file cannot be used.
    """
    try:
        context.load_verify_locations(cafile=authorities)
    except OSError as error:
        raise ClusterError(f"{authorities}: cannot be used: {error}") from None
    context.verify_mode = ssl.CERT_OPTIONAL


def certified(transport: asyncio.BaseTransport | None) -> User | None:
    """Return whom the certificate of a connection names, None if there is none."""
    found = None if transport is None else transport.get_extra_info("peercert")
    if not found:
        return None
    assert transport is not None
    connection: Any = transport.get_extra_info("ssl_object")
    return user_of(found.get("subject", ()), connection.getpeercert(binary_form=True))


@lru_cache(maxsize=1024)
def user_of(subject: Name, certificate: bytes) -> User | None:
    """Return the user of a subject, None if it has no common name. ``certificate``: in DER."""
    fields = [pair for name in subject for pair in name]
    names = [value for key, value in fields if key == "commonName" and value]
    if not names:
        return None
    groups = tuple(value for key, value in fields if key == "organizationName")
    digest = hashlib.sha256(certificate).hexdigest()
    return User(
        names[-1], groups=with_authenticated(groups), extra=((_ID, (f"X509SHA256={digest}",)),)
    )
