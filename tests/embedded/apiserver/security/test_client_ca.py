"""The ConfigMap with the authorities that components trust."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.x509 import load_pem_x509_certificate

from policy_sched.client.apimachinery.object import Stored
from policy_sched.embedded.apiserver.security import client_certificates
from policy_sched.embedded.cluster import EmbeddedCluster
from policy_sched.embedded.store.store import ObjectStore
from policy_sched.errors import ClusterError
from policy_sched.testing import FakeClock
from tests.embedded.world import START


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
    found = _told(store).data["data"]
    assert "BEGIN CERTIFICATE" in found.pop(client_certificates.AUTHORITIES)
    assert found == others


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
