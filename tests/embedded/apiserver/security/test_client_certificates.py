"""Users by their certificates: names, permissions, and certificates that are not trusted.

The ConfigMap with the authorities that components trust.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import load_pem_x509_certificate
from cryptography.x509.oid import NameOID

from policy_sched.cli.options.embedded_api import certified
from policy_sched.client.apimachinery.object import Stored
from policy_sched.embedded.apiserver.security import client_certificates
from policy_sched.embedded.apiserver.security.client_certificates import user_of
from policy_sched.embedded.cluster import EmbeddedCluster
from policy_sched.embedded.store.store import ObjectStore
from policy_sched.errors import ClusterError
from policy_sched.http.access import Access, address_of
from policy_sched.testing import FakeClock
from tests.embedded.apiserver.world import World, serving
from tests.embedded.world import START

WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Authority:
    """Signs certificates of clients."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.file = str(folder / "ca.pem")
        own = self._sign(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")]), self._key)
        Path(self.file).write_bytes(own)

    def _sign(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> bytes:
        ours = key is self._key
        issuer = subject if ours else x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")])
        now = datetime.now(UTC)
        made = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=ours, path_length=None), True)
            .sign(self._key, hashes.SHA256())
        )
        return made.public_bytes(serialization.Encoding.PEM)

    def client(self, name: str, *groups: str) -> ssl.SSLContext:
        """Return the TLS of a client with a certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        fields = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        fields += [x509.NameAttribute(NameOID.COMMON_NAME, name)] if name else []
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        path = self._folder / f"client-{name}.pem"
        path.write_bytes(self._sign(x509.Name(fields), key) + private)
        context = no_certificate()
        context.load_cert_chain(path)
        return context


def no_certificate() -> ssl.SSLContext:
    """Return the TLS of a client without a certificate; of servers this test believes all."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def _ask(world: World, trust: ssl.SSLContext, path: str, **options: Any) -> tuple[int, Any]:
    """Send a request over a connection of its own."""
    headers = {"Authorization": f"Bearer {options['token']}"} if "token" in options else {}
    body: Any = {"json": {}} if path == WHO else {}
    connector = aiohttp.TCPConnector(ssl=trust, force_close=True)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.request("POST" if body else "GET", world.url + path, headers=headers, **body) as a,
    ):
        return a.status, await a.json()


def test_a_certificate_names_its_user(tmp_path: Path) -> None:
    """With the groups of its organizations; it is worth more than a token, and RBAC knows it."""
    authority = Authority(tmp_path)
    jane, admin = authority.client("jane", "dev", "ops"), authority.client("a", "system:masters")
    wanted = Access(mode="RBAC", clients=authority.file)

    async def run() -> None:
        with certified(wanted, address_of("0"), time.time_ns()) as access:
            async with serving(access) as world:
                for options in ({}, {"token": "nobody's"}):
                    status, body = await _ask(world, jane, WHO, **options)
                    who = body["status"]["userInfo"]
                    assert (status, who["username"]) == (201, "jane")
                    assert who["groups"] == ["dev", "ops", "system:authenticated"]
                    (seen,) = who["extra"]["authentication.kubernetes.io/credential-id"]
                    assert seen.startswith("X509SHA256=")
                status, body = await _ask(world, jane, "/api/v1/nodes")
                assert status == 403
                assert body["message"].startswith('nodes is forbidden: User "jane" cannot list')
                assert (await _ask(world, admin, "/api/v1/nodes"))[0] == 200
                status, body = await _ask(world, no_certificate(), "/api/v1/nodes")
                assert (status, 'User "system:anonymous"' in body["message"]) == (403, True)

    asyncio.run(run())


def test_a_certificate_of_another_authority_makes_no_connection(tmp_path: Path) -> None:
    """And a certificate without a name says nothing, nor does one that is not asked for."""
    (tmp_path / "other").mkdir()
    authority, other = Authority(tmp_path), Authority(tmp_path / "other")
    stranger, nameless = other.client("jane"), authority.client("", "dev")

    async def run() -> None:
        wanted = Access(clients=authority.file)
        with certified(wanted, address_of("0"), time.time_ns()) as access:
            async with serving(access) as world:
                with pytest.raises((aiohttp.ClientError, ConnectionError)):
                    await _ask(world, stranger, "/api/v1/nodes")
                assert (await _ask(world, nameless, "/api/v1/nodes"))[0] == 401
                assert (await _ask(world, no_certificate(), "/api/v1/nodes"))[0] == 401
            async with serving(replace(access, clients=None)) as world:
                assert (await _ask(world, stranger, "/api/v1/nodes"))[0] == 200

    asyncio.run(run())


def test_a_file_of_authorities_that_is_none_is_refused(tmp_path: Path) -> None:
    """Before anything listens."""
    (tmp_path / "ca").write_text("nothing", encoding="utf-8")
    for name in ("ca", "missing"):
        wanted = Access(clients=str(tmp_path / name))
        with (
            certified(wanted, address_of("0"), time.time_ns()) as access,
            pytest.raises(ClusterError, match="cannot be used"),
        ):
            access.context()


def test_the_last_common_name_counts() -> None:
    """As in Go's reading of a distinguished name."""
    name = (("commonName", "a"),), (("organizationName", "g"),), (("commonName", "b"),)
    user = user_of(name, b"der")
    assert user is not None
    assert (user.name, user.groups) == ("b", ("g", "system:authenticated"))


def _told(store: ObjectStore) -> Stored:
    return store.get(("v1", "ConfigMap"), client_certificates.HOME, client_certificates.NAME)


def test_authorities_are_published_and_updated(tmp_path: Path) -> None:
    """What others have put beside them stays; nothing is written that is there already."""
    store = EmbeddedCluster.open(None, FakeClock(START)).store
    client_certificates.publish(store, None)
    (authority,) = _told(store).data["data"].values()
    assert load_pem_x509_certificate(authority.encode()).subject.rfc4514_string() == (
        "CN=no-client-certificates"
    )
    file = tmp_path / "ca.pem"
    file.write_text("first", encoding="ascii")
    client_certificates.publish(store, str(file))
    assert _told(store).data["data"] == {client_certificates.AUTHORITIES: "first"}
    others = {"requestheader-client-ca-file": "proxies"}
    data = _told(store).data
    store.revise(_told(store), {**data, "data": {**data["data"], **others}})
    file.write_text("second", encoding="ascii")
    client_certificates.publish(store, str(file))
    assert _told(store).data["data"] == {client_certificates.AUTHORITIES: "second", **others}
    version = store.version
    client_certificates.publish(store, str(file))
    assert store.version == version
    client_certificates.publish(store, None)
    fields = _told(store).data["data"]
    assert "BEGIN CERTIFICATE" in fields.pop(client_certificates.AUTHORITIES)
    assert fields == others


def test_without_its_namespace_there_is_none() -> None:
    """A store of objects is no cluster yet."""
    store = ObjectStore(FakeClock(START))
    client_certificates.publish(store, None)
    assert store.version == 0


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """One that is not there, and one that is no text."""
    store = EmbeddedCluster.open(None, FakeClock(START)).store
    with pytest.raises(ClusterError, match=r"none\.pem: cannot be read: No such file"):
        client_certificates.publish(store, str(tmp_path / "none.pem"))
    file = tmp_path / "der.pem"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ClusterError, match=r"der\.pem: cannot be read: it is no text"):
        client_certificates.publish(store, str(file))
