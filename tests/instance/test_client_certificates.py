"""Callers with a client certificate, and its CA."""

from __future__ import annotations

import ssl
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from policy_sched.errors import ClusterError
from policy_sched.instance.http.endpoints import Endpoints
from policy_sched.instance.http.listener import Listener, self_signed, server_context
from tests.instance.http.test_endpoints import EVERYTHING, Served, run_scenario


@pytest.fixture
def served(tmp_path: Path) -> Served:
    """Endpoints of an instance that has bound one pod of two."""
    return Served(tmp_path)


def client_certificate(name: str, group: str) -> bytes:
    """Return a certificate that signs itself, and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    named = [(NameOID.ORGANIZATION_NAME, group), (NameOID.COMMON_NAME, name)]
    subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in named])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM) + private


def test_a_client_certificate_authenticates_the_caller(served: Served, tmp_path: Path) -> None:
    """If the configured CA signed it."""
    certificate, key = self_signed(["127.0.0.1"], time.time_ns())
    pem = tmp_path / "client.pem"
    pem.write_bytes(client_certificate("ann", "ops"))
    served.door.rights["ann"] = EVERYTHING

    async def scenario() -> None:
        context = server_context(certificate, key, str(pem))
        handle = Endpoints(served.offered(), served.door).handle
        with_certificate = ssl.create_default_context(cadata=certificate.decode())
        with_certificate.load_cert_chain(pem)
        without = ssl.create_default_context(cadata=certificate.decode())
        async with (
            Listener(handle, ("127.0.0.1", 0), context) as listener,
            aiohttp.ClientSession() as client,
        ):
            async with client.get(f"{listener.url}/metrics", ssl=with_certificate) as answer:
                assert answer.status == 200
            async with client.get(f"{listener.url}/metrics", ssl=without) as answer:
                assert answer.status == 403

    run_scenario(scenario)


def test_an_authority_that_is_none_is_refused(tmp_path: Path) -> None:
    """Before anything listens."""
    (tmp_path / "ca").write_text("nonsense", encoding="utf-8")
    pair = self_signed(["x"], time.time_ns())
    for name in ("ca", "none"):
        with pytest.raises(ClusterError, match=f"{name}: cannot be used"):
            server_context(*pair, str(tmp_path / name))
