"""TLS: the authorities that a client trusts, and its own certificate."""

from __future__ import annotations

import ssl

import pytest

from policy_sched.client.kube.auth.credentials import (
    AccessError,
    Certificate,
    Fixed,
    Grant,
    Trust,
    tls_context,
)
from policy_sched.client.kube.rest.errors import Unreachable
from policy_sched.client.kube.rest.retry import RetryPolicy
from policy_sched.client.kube.rest.settings import Settings
from tests.client.kube.authority import Authority
from tests.client.kube.stage import Asked, Wire, acted, stage


async def yes(asked: Asked, wire: Wire) -> None:
    """Answer."""
    await wire.respond(200, {"ok": True})


def reach(tls: ssl.SSLContext, trust: Trust, grant: Grant | None = None) -> None:
    """Send one request; an answer is success."""

    async def play() -> None:
        settings = Settings(retry_policy=RetryPolicy(tries=1))
        credentials = Fixed(grant) if grant else None
        async with stage(yes, tls) as here, here.api(settings, credentials, trust) as api:
            assert await api.get("/x") == b'{"ok": true}'

    acted(play())


def test_the_server_name_may_be_another_than_the_host(authority: Authority) -> None:
    """tls-server-name is what the certificate must say, wherever the server is."""
    reach(authority.server(), Trust(authority.read("ca.pem"), "kubernetes"))


def test_a_server_that_is_not_trusted_gets_nothing(authority: Authority) -> None:
    """A wrong name, an unknown authority, the system's own: refused, and not tried again."""
    for trust in (
        Trust(authority.read("ca.pem")),
        Trust(authority.read("stranger.pem"), "kubernetes"),
        Trust(None, "kubernetes"),
    ):
        with pytest.raises(AccessError, match="no trust in the server"):
            reach(authority.server(), trust)


def test_checks_can_be_switched_off(authority: Authority) -> None:
    """insecure-skip-tls-verify trusts every server."""
    reach(authority.server(), Trust(insecure=True))


def test_a_client_certificate_is_shown(authority: Authority) -> None:
    """A server that asks for a certificate gets the client's; a stranger's is refused."""
    trust = Trust(authority.read("ca.pem"), "kubernetes")
    reach(authority.server(asks=True), trust, Grant("", authority.certificate("client")))
    for grant in (None, Grant("", authority.certificate("stranger"))):
        with pytest.raises((Unreachable, AccessError)):
            reach(authority.server(asks=True), trust, grant)


def test_keys_that_cannot_be_used_are_errors(authority: Authority) -> None:
    """An encrypted key prompts for no password; what is no PEM is said to be none."""
    authority.run("ec", "-in", "client.key", "-aes128", "-passout", "pass:abcd", "-out", "locked")
    pem = authority.read("client.pem")
    with pytest.raises(AccessError, match="encrypted"):
        tls_context(Trust(), Certificate(pem, authority.read("locked")))
    for bad in (Certificate(b"x", b"y"), Certificate(pem, authority.read("ca.key"))):
        with pytest.raises(AccessError, match="cannot be used"):
            tls_context(Trust(), bad)
    for none in (b"x", b""):
        with pytest.raises(AccessError, match="authorities cannot be read"):
            tls_context(Trust(none), None)
