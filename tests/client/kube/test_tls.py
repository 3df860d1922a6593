"""TLS: whom a client believes, what it shows of itself, and the way through a proxy."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from policy_sched.client.kube.access import (
    Access,
    AccessError,
    Certificate,
    Grant,
    Trust,
    proxy_of_environment,
    proxy_problem,
    tls_context,
)
from policy_sched.client.kube.answers import Unreachable
from policy_sched.client.kube.api import Api, Settings
from policy_sched.client.kube.credentials import Fixed
from policy_sched.client.kube.retries import Patience
from tests.client.kube.stage import Asked, Wire, acted, stage

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="needs the openssl program")


@dataclass
class Authority:
    """A certificate authority of this test."""

    folder: Path

    def run(self, *words: str) -> None:
        """Run openssl."""
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)

    def make(self, name: str, *, names: str = "", ca: str = "") -> None:
        """Make a key and a certificate: signed by ``ca``, or by itself."""
        new = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc"]
        new += ["-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}"]
        new += ["-addext", f"subjectAltName={names}"] if names else []
        new += ["-addext", "basicConstraints=critical,CA:FALSE"] if ca else []
        new += ["-CA", f"{ca}.pem", "-CAkey", f"{ca}.key"] if ca else []
        self.run(*new, "-days", "2")

    def read(self, file: str) -> bytes:
        """Return a file."""
        return (self.folder / file).read_bytes()

    def certificate(self, name: str) -> Certificate:
        """Return a certificate with its key."""
        return Certificate(self.read(f"{name}.pem"), self.read(f"{name}.key"))

    def server(self, *, asks: bool = False) -> ssl.SSLContext:
        """Return the server's side."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "server.pem", self.folder / "server.key")
        if asks:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.folder / "ca.pem")
        return context


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """One authority, a server called kubernetes, a client, and a stranger."""
    made = Authority(tmp_path_factory.mktemp("pki"))
    made.make("ca")
    made.make("server", names="DNS:kubernetes", ca="ca")
    made.make("client", ca="ca")
    made.make("stranger")
    return made


async def yes(asked: Asked, wire: Wire) -> None:
    """Answer."""
    await wire.answer(200, {"ok": True})


def reach(tls: ssl.SSLContext, trust: Trust, grant: Grant | None = None) -> None:
    """Send one request; an answer is success."""

    async def play() -> None:
        settings = Settings(patience=Patience(tries=1))
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
    """insecure-skip-tls-verify believes anybody."""
    reach(authority.server(), Trust(insecure=True))


def test_a_client_certificate_is_shown(authority: Authority) -> None:
    """A server that asks for a certificate gets the client's; a stranger's is refused."""
    trust = Trust(authority.read("ca.pem"), "kubernetes")
    reach(authority.server(asks=True), trust, Grant("", authority.certificate("client")))
    for grant in (None, Grant("", authority.certificate("stranger"))):
        with pytest.raises((Unreachable, AccessError)):
            reach(authority.server(asks=True), trust, grant)


def test_keys_that_cannot_be_used_are_errors(authority: Authority) -> None:
    """An encrypted key asks nobody for its password; what is no PEM is said to be none."""
    authority.run("ec", "-in", "client.key", "-aes128", "-passout", "pass:abcd", "-out", "locked")
    pem = authority.read("client.pem")
    with pytest.raises(AccessError, match="encrypted"):
        tls_context(Trust(), Certificate(pem, authority.read("locked")))
    for bad in (Certificate(b"x", b"y"), Certificate(pem, authority.read("ca.key"))):
        with pytest.raises(AccessError, match="cannot be used"):
            tls_context(Trust(), bad)
    with pytest.raises(AccessError, match="authorities cannot be read"):
        tls_context(Trust(b"x"), None)


def test_requests_go_through_the_proxy() -> None:
    """With a proxy the request goes there, with the whole URL."""
    targets: list[str] = []

    async def script(asked: Asked, wire: Wire) -> None:
        targets.append(asked.headers["host"])
        await wire.answer(200, {})

    async def play() -> None:
        async with stage(script) as here:
            access = Access("http://k8s.invalid", proxy=here.url)
            async with Api(access, here.chance) as api:
                await api.get("/x")

    acted(play())
    assert targets == ["k8s.invalid"]


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://user:pw@proxy:3128", ""),
        ("https://proxy", ""),
        ("socks5://proxy:1080", "SOCKS"),
        ("proxy:3128", "not of the form"),
        ("http://[", "no URL"),
    ],
)
def test_proxies_that_cannot_be_used_are_named(url: str, problem: str) -> None:
    """Why a proxy-url is refused."""
    assert (problem in proxy_problem(url)) if problem else proxy_problem(url) == ""


def test_the_environment_names_proxies_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTPS_PROXY and NO_PROXY count as for every client; loopback never goes through a proxy."""
    change: Callable[..., Any] = monkeypatch.setenv
    change("HTTPS_PROXY", "http://proxy:3128")
    change("NO_PROXY", ".internal,10.0.0.1")
    assert proxy_of_environment("https://k8s.example:6443") == "http://proxy:3128"
    for direct in ("https://k8s.internal", "https://10.0.0.1:6443", "https://127.0.0.1:6443"):
        assert proxy_of_environment(direct) == ""
