"""The way through proxies: which one, by HTTP or SOCKS, and what is said when there is none."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from policy_sched.client.kube.auth.credentials import AccessError, ClusterAccess, Trust
from policy_sched.client.kube.auth.kubeconfig import in_cluster_config
from policy_sched.client.kube.auth.proxies import proxy_of_environment, proxy_problem
from policy_sched.client.kube.rest.client import Api
from policy_sched.client.kube.rest.errors import Unreachable
from policy_sched.client.kube.rest.retry import RetryPolicy
from policy_sched.client.kube.rest.settings import Settings
from tests.client.kube.authority import Authority
from tests.client.kube.stage import Asked, Wire, acted, listening, stage

ONCE = Settings(retry_policy=RetryPolicy(tries=1))
SOON = Settings(retry_policy=RetryPolicy(tries=1), connect=0.3)
"""For a proxy that never answers."""


@dataclass
class Relay:
    """A SOCKS proxy (or one for CONNECT) that leads every name to one port of this machine."""

    port: int
    user: str = ""
    answer: int = 0
    garbage: bytes | None = None
    silent: bool = False
    wanted: list[tuple[bytes, int]] = field(default_factory=list)
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        if await self._agree(reader, writer):
            answers, asks = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                await asyncio.gather(_copy(reader, asks), _copy(answers, writer))
            finally:
                asks.close()

    async def _agree(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if self.silent:
            await reader.read()
            return False
        first = await reader.readexactly(2)
        if first == b"CO":
            head = await reader.readuntil(b"\r\n\r\n")
            host, _, port = head.split()[1].partition(b":")
            self.wanted.append((host, int(port)))
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            return True
        methods = await reader.readexactly(first[1])
        if self.garbage is not None:
            writer.write(self.garbage)
            return False
        if self.user:
            if 2 not in methods:
                writer.write(b"\5\xff")
                return False
            writer.write(b"\5\2")
            await reader.readexactly(1)
            said = [await reader.readexactly((await reader.readexactly(1))[0]) for _ in "up"]
            good = b":".join(said).decode() == self.user
            writer.write(b"\1\0" if good else b"\1\1")
            if not good:
                return False
        else:
            writer.write(b"\5\0")
        _, _, _, kind = await reader.readexactly(4)
        length = (await reader.readexactly(1))[0] if kind == 3 else {1: 4, 4: 16}[kind]
        host = await reader.readexactly(length)
        self.wanted.append((host, int.from_bytes(await reader.readexactly(2), "big")))
        bound = b"\3\4here\0\0" if self.wanted[-1][0] == b"name.invalid" else b"\1\0\0\0\0\0\0"
        writer.write(bytes((5, self.answer, 0)) + bound)
        return not self.answer


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


@asynccontextmanager
async def relayed(relay: Relay) -> AsyncIterator[Relay]:
    """Run a proxy."""
    async with listening(relay.serve) as port:
        relay.url = f"127.0.0.1:{port}"
        yield relay


async def ok(asked: Asked, wire: Wire) -> None:
    """Answer."""
    await wire.respond(200, {"host": asked.headers["host"]})


def fetched(
    server: str,
    relay: Relay,
    scheme: str,
    tls: ssl.SSLContext | None = None,
    trust: Trust | None = None,
) -> None:
    """Send two requests through a proxy. Raises what they raise."""

    async def play() -> None:
        async with stage(ok, tls) as here:
            relay.port = int(here.url.rpartition(":")[2])
            async with relayed(relay):
                proxy = f"{scheme}://{relay.url}"
                access = ClusterAccess(server, trust or Trust(), proxy=proxy)
                async with Api(access, here.environment, SOON if relay.silent else ONCE) as api:
                    for _ in range(2):
                        assert server.partition("://")[2].encode() in await api.get("/x")

    acted(play())


def test_requests_go_through_a_proxy_with_the_whole_url() -> None:
    """A plain server behind a proxy of HTTP."""
    targets: list[str] = []

    async def script(asked: Asked, wire: Wire) -> None:
        targets.append(asked.headers["host"])
        await wire.respond(200, {})

    async def play() -> None:
        async with stage(script) as here:
            access = ClusterAccess("http://k8s.invalid", proxy=here.url)
            async with Api(access, here.environment) as api:
                await api.get("/x")

    acted(play())
    assert targets == ["k8s.invalid"]


@pytest.mark.parametrize("host", ["name.invalid", "10.1.2.3", "[2001:db8::1]"])
def test_socks_proxies_resolve_names(host: str) -> None:
    """A name is not looked up here; one connection serves many requests."""
    relay = Relay(0)
    fetched(f"http://{host}:6443", relay, "socks5")
    raw = {"10.1.2.3": bytes((10, 1, 2, 3)), "[2001:db8::1]": b"\x20\1\r\xb8" + bytes(11) + b"\1"}
    assert relay.wanted == [(raw.get(host, host.encode()), 6443)]


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_tls_goes_through_proxies(authority: Authority, scheme: str) -> None:
    """The server's certificate is checked for the server's name, and tls-server-name counts."""
    relay, tls = Relay(0), authority.server()
    good = Trust(authority.read("ca.pem"), "kubernetes")
    fetched("https://k8s.invalid:6443", relay, scheme, tls, good)
    assert relay.wanted == [(b"k8s.invalid", 6443)]
    with pytest.raises(AccessError, match="no trust in the server"):
        fetched("https://k8s.invalid:6443", Relay(0), scheme, tls, Trust(authority.read("ca.pem")))


def test_socks_proxies_with_credentials() -> None:
    """The URL has user and password, percent-encoded; errors name the proxy without them."""
    relay = Relay(0, user="me:p@ss")

    async def play(credentials: str) -> None:
        async with stage(ok) as here:
            relay.port = int(here.url.rpartition(":")[2])
            async with relayed(relay):
                access = ClusterAccess(
                    "http://x.invalid", proxy=f"socks5://{credentials}{relay.url}"
                )
                async with Api(access, here.environment, ONCE) as api:
                    await api.get("/x")

    acted(play("me:p%40ss@"))
    failed = "SOCKS proxy 127.0.0.1:.*: Username and password authentication failure"
    with pytest.raises(Unreachable, match=failed) as caught:
        acted(play("me:wr%4Fng@"))
    assert not caught.value.sent
    assert "wrOng" not in str(caught.value)
    with pytest.raises(Unreachable, match="No acceptable authentication methods were offered"):
        acted(play(""))
    with pytest.raises(Unreachable, match="SOCKS proxy 127") as caught:
        acted(play(f"me:{'p' * 256}@"))
    assert "ppp" not in str(caught.value)


@pytest.mark.parametrize(
    ("relay", "words"),
    [
        (Relay(0, answer=5), "SOCKS proxy 127.0.0.1:.*: Connection refused"),
        (Relay(0, answer=99), "Invalid reply code: 0X63"),
        (Relay(0, garbage=b"HTTP/1.1 400 Bad Request\r\n\r\n"), "Unexpected SOCKS version"),
        (Relay(0, garbage=b""), "SOCKS proxy 127.0.0.1:.*: closed the connection"),
        (Relay(0, silent=True), "Connection timeout to host"),
    ],
)
def test_errors_of_socks_proxies(relay: Relay, words: str) -> None:
    """Nothing has been sent to the server then."""
    with pytest.raises(Unreachable, match=words) as caught:
        fetched("http://x.invalid", relay, "socks5")
    assert not caught.value.sent


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://user:pw@proxy:3128", ""),
        ("https://proxy", ""),
        ("socks5://proxy:1080", ""),
        ("socks5h://proxy:1080", "socks5 leaves names to the proxy, too"),
        ("proxy:3128", "its scheme '' is none of http, https and socks5"),
        ("ftp://proxy", "its scheme 'ftp' is none of"),
        ("http://", "not of the form http://HOST:PORT"),
        ("http://proxy:99999", "no URL"),
        ("http://[", "no URL"),
    ],
)
def test_proxies_that_cannot_be_used_are_named(url: str, problem: str) -> None:
    """Why a proxy-url is refused."""
    assert (problem in proxy_problem(url)) if problem else proxy_problem(url) == ""


@pytest.mark.parametrize(
    ("no_proxy", "direct", "through"),
    [
        ("", ("127.0.0.1", "localhost", "[::1]"), ("k8s", "10.0.0.1")),
        ("*", ("k8s", "10.0.0.1"), ()),
        ("10.0.0.0/8, fd00::/8", ("10.0.0.1", "[fd00::1]"), ("11.0.0.1", "[fe00::1]", "k8s")),
        ("10.0.0.1,nonsense/8", ("10.0.0.1",), ("10.0.0.2",)),
        ("internal", ("internal", "k8s.internal"), ("k8s.external", "xinternal")),
        (".Internal,*.local", ("k8s.internal", "a.local"), ("internal", "local")),
        ("k8s:6443,[fd00::1]:6443", ("k8s", "[fd00::1]"), ("other",)),
        ("k8s:443", (), ("k8s",)),
        ("fd00::1", ("[fd00::1]",), ("[fd00::2]",)),
    ],
)
def test_the_environment_names_proxies_and_exceptions(
    no_proxy: str, direct: tuple[str, ...], through: tuple[str, ...]
) -> None:
    """HTTPS_PROXY and NO_PROXY as every Go program reads them; never for this machine."""
    environ = {"HTTPS_PROXY": "proxy:3128", "http_proxy": "socks5://p", "NO_PROXY": no_proxy}
    for host in direct:
        assert proxy_of_environment(f"https://{host}:6443", environ) == ""
    for host in through:
        assert proxy_of_environment(f"https://{host}:6443", environ) == "http://proxy:3128"
        assert proxy_of_environment(f"http://{host}:6444", environ) == "socks5://p"


def test_a_pod_may_need_a_proxy_as_well(tmp_path: Path) -> None:
    """The environment counts inside a cluster, too; what cannot be used is said."""
    for name in ("ca.crt", "token"):
        (tmp_path / name).write_text("x", encoding="utf-8")
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    proxied = {**environ, "HTTPS_PROXY": "http://proxy:3128"}
    assert in_cluster_config(proxied, int, tmp_path).proxy == "http://proxy:3128"
    assert in_cluster_config({**proxied, "NO_PROXY": "10.0.0.0/8"}, int, tmp_path).proxy == ""
    with pytest.raises(AccessError, match="the environment names a proxy that cannot be used"):
        in_cluster_config({**environ, "HTTPS_PROXY": "gopher://proxy"}, int, tmp_path)
