"""Access: addresses, tokens, certificates, other hosts' pages, and the kubeconfig."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
from pathlib import Path

import aiohttp
import pytest

from policy_sched.embedded.apiserver.endpoints.server import ApiServer
from policy_sched.embedded.apiserver.request.request_info import UserInfo
from policy_sched.embedded.apiserver.security import authentication
from policy_sched.errors import ClusterError
from policy_sched.http.access import Access, Address, address_of, from_here
from tests.embedded.apiserver.world import serving


@pytest.mark.parametrize(
    ("text", "host", "port", "loopback"),
    [
        ("8001", "127.0.0.1", 8001, True),
        (":0", "127.0.0.1", 0, True),
        ("localhost:1", "localhost", 1, True),
        ("[::1]:6443", "::1", 6443, True),
        ("0.0.0.0:6443", "0.0.0.0", 6443, False),
        ("example.org:6443", "example.org", 6443, False),
    ],
)
def test_addresses_are_of_loopback_unless_a_host_is_named(
    text: str, host: str, port: int, loopback: bool
) -> None:
    """A name that is resolved elsewhere is not loopback."""
    address = address_of(text)
    assert (address.host, address.port, address.loopback) == (host, port, loopback)


@pytest.mark.parametrize("text", ["", "x", "1:x", "127.0.0.1:99999", "127.0.0.1:-1"])
def test_malformed_addresses_are_rejected(text: str) -> None:
    """With its text."""
    with pytest.raises(ClusterError, match="is no address"):
        address_of(text)


def test_beyond_loopback_nothing_is_served_in_the_open() -> None:
    """Both a certificate and tokens are needed; a certificate needs its key."""
    outside = address_of("0.0.0.0:6443")
    for access in (Access(), Access(tokens="t"), Access("c", "k")):
        with pytest.raises(ClusterError, match="can be reached from other machines"):
            access.check(outside)
    Access("c", "k", "t").check(outside)
    with pytest.raises(ClusterError, match="go together"):
        Access("c").check(address_of("1"))


@pytest.mark.parametrize("text", ["", "only-a-token\n", "a,b\n"])
def test_a_file_without_tokens_is_refused(tmp_path: Path, text: str) -> None:
    """An empty file would admit no request, or every one."""
    path = tmp_path / "tokens"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ClusterError, match="token,user,uid"):
        authentication.Tokens.read(str(path))


def test_tokens_are_compared_whole() -> None:
    """No part of a token, and nothing that only looks like one."""
    tokens = authentication.Tokens([["secret", "jane", "1", "dev"]])
    assert tokens.user("secret") == UserInfo("jane", "1", ("dev", "system:authenticated"))
    for other in ("", "secre", "secrets", "Secret", "sécret", "\udc80"):
        assert tokens.user(other) is None


def test_an_open_server_is_meant_for_this_machine() -> None:
    """By its own name, and not from a page."""
    assert from_here("localhost:80", None)
    assert not from_here("evil.example:80", None)
    assert not from_here("127.0.0.1:80", "http://evil.example")


def test_a_page_of_another_host_reaches_nothing() -> None:
    """An open server answers only requests that were meant for it and come from no page."""

    async def run() -> None:
        async with serving() as world:
            for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
                async with world.session.get(world.url + "/api", headers=headers) as answer:
                    assert answer.status == 401
            assert (await world.ask("GET", "/api"))[0] == 200

    asyncio.run(run())


def test_a_port_in_use_is_a_readable_error() -> None:
    """And nothing is left open."""

    async def run() -> None:
        async with serving() as world:
            server = ApiServer(world.cluster.store, world.server.address)
            with pytest.raises(ClusterError, match="cannot listen on"):
                await server.__aenter__()

    asyncio.run(run())


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A certificate for loopback and its key."""
    folder = tmp_path_factory.mktemp("tls")
    key, cert = str(folder / "key.pem"), str(folder / "cert.pem")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-subj", "/CN=localhost", "-days", "1", "-keyout", key, "-out", cert]
    command += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no openssl to make a certificate with")
    return cert, key


def test_tls_and_the_kubeconfig_that_fits(certificate: tuple[str, str], tmp_path: Path) -> None:
    """The kubeconfig holds server, authority and token, and only its owner can read it."""
    cert, key = certificate
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("s3cret,admin,1,system:masters\nother,b,2\n", encoding="utf-8")
    access = Access(cert, key, str(tokens))
    path = tmp_path / "config"

    async def run() -> str:
        async with serving(access) as world:
            text = authentication.kubeconfig(world.server.address, access, world.server.tokens)
            authentication.write_kubeconfig(str(path), text)
            config = json.loads(path.read_text(encoding="utf-8"))
            url = config["clusters"][0]["cluster"]["server"] + "/api/v1/nodes"
            token = config["users"][0]["user"]["token"]
            trust = ssl.create_default_context(cafile=cert)
            headers = {"Authorization": f"Bearer {token}"}
            async with aiohttp.ClientSession() as session:
                async with session.get(url, headers=headers, ssl=trust) as answer:
                    assert answer.status == 200
                async with session.get(url, ssl=trust) as answer:
                    assert answer.status == 401
            return url

    assert asyncio.run(run()).startswith("https://127.0.0.1:")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_kubeconfig_names_loopback_for_all_interfaces() -> None:
    """0.0.0.0 is no address to connect to."""
    config = json.loads(authentication.kubeconfig(Address("0.0.0.0", 6443), Access(), None))
    assert config["clusters"][0]["cluster"]["server"] == "http://127.0.0.1:6443"
    assert config["users"][0]["user"] == {}
