"""A certificate that a process signs itself, as kube-scheduler does where it is given none."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID: Final = timedelta(days=365)
EARLIER: Final = timedelta(hours=1)
"""Clocks of clients may be behind ours."""


def self_signed(names: Iterable[str], now: int) -> tuple[bytes, bytes]:
    """Return certificate and key (PEM) for hosts and addresses; ``now``: ns since 1970."""
    key = ec.generate_private_key(ec.SECP256R1())
    at = datetime.fromtimestamp(now // 1_000_000_000, UTC)
    names = list(dict.fromkeys(names))
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(at - EARLIER)
        .not_valid_after(at + VALID)
        .add_extension(x509.SubjectAlternativeName([_named(name) for name in names]), False)
        .add_extension(usage, False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private


def _named(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
