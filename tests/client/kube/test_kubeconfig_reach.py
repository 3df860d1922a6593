"""From a kubeconfig to a server behind a real socket: authorities and credentials."""

from __future__ import annotations

import os
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from policy_sched.client.kube.auth.credentials import AccessError
from policy_sched.client.kube.auth.kubeconfig import load, paths_in
from policy_sched.client.kube.rest.client import Api
from policy_sched.client.kube.rest.errors import Unreachable
from policy_sched.client.kube.rest.retry import RetryPolicy
from policy_sched.client.kube.rest.settings import Settings
from policy_sched.client.kube.time.work_queue import Clocks
from tests.client.kube.auth.test_kubeconfig import config, credential, exec_user, plugin, write
from tests.client.kube.authority import Authority
from tests.client.kube.stage import Asked, Stage, Wire, acted, stage

ONCE = Settings(retry_policy=RetryPolicy(tries=1))
ROTATED = 301.0
"""Seconds after which files of certificates are read again."""


async def yes(asked: Asked, wire: Wire) -> None:
    """Answer, and let the next request come on a connection of its own."""
    await wire.respond(200, {"ok": True}, Connection="close")
    wire.writer.close()


def client(here: Stage, *paths: Path) -> Api:
    """Return the client that kubeconfigs describe, with the clocks of a stage."""
    return Api(load(paths, Clocks(here.wall, here.monotonic)), here.environment, ONCE)


def reached(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], authority: Authority | None
) -> Asked:
    """Send a request to a stage by way of a kubeconfig; return what came."""
    tls = None if authority is None else authority.server(asks="client-key" in user)
    found: list[Asked] = []

    async def play() -> None:
        async with stage(yes, tls) as here:
            path = write(tmp_path / "config", config(user, server=here.url, **cluster))
            async with client(here, path) as api:
                await api.get("/x")
            found.extend(here.asked)

    acted(play())
    return found[0]


def test_impersonation_is_in_the_headers(tmp_path: Path) -> None:
    """User, UID, each group, each value of each extra; keys escaped as client-go escapes them."""
    extra = {"scopes": ["view", "edit"], "acme.com/project%": ["x"]}
    user = {"token": "t", "as": "ann", "as-uid": "7", "as-groups": ["a", "b"]}
    asked = reached(tmp_path, {**user, "as-user-extra": extra}, {}, None)
    assert [line for line in asked.lines if line.startswith("Impersonate-")] == [
        "Impersonate-User: ann",
        "Impersonate-Uid: 7",
        "Impersonate-Group: a",
        "Impersonate-Group: b",
        "Impersonate-Extra-acme.com%2Fproject%25: x",
        "Impersonate-Extra-scopes: view",
        "Impersonate-Extra-scopes: edit",
    ]
    assert asked.headers["authorization"] == "Bearer t"


def test_files_stand_beside_the_kubeconfig(tmp_path: Path, authority: Authority) -> None:
    """Authorities, certificate, key and token file are found from anywhere; names stay literal."""
    folder = tmp_path / "$HOME"
    folder.mkdir()
    for name in ("ca.pem", "client.pem", "client.key"):
        shutil.copy(authority.folder / name, folder / name)
    (folder / "token").write_text("from-a-file")
    cluster = {"certificate-authority": "$HOME/ca.pem", "tls-server-name": "kubernetes"}
    user = {"client-certificate": "$HOME/client.pem", "client-key": "$HOME/client.key"}
    reached(tmp_path, user, cluster, authority)
    asked = reached(tmp_path, {"tokenFile": "$HOME/token"}, cluster, authority)
    assert asked.headers["authorization"] == "Bearer from-a-file"


def test_plugins_have_the_environment_and_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a kubeconfig gives a plugin counts before what we were started with, as it stands."""
    monkeypatch.setenv("WHO", "nobody")
    plugin(tmp_path, credential("t"))
    reached(tmp_path, exec_user(env=[{"name": "OTHER", "value": "x"}]), {}, None)
    assert (tmp_path / "args").read_text() == "login nobody"
    reached(tmp_path, exec_user(env=[{"name": "WHO", "value": "$HOME"}]), {}, None)
    assert (tmp_path / "args").read_text() == "login $HOME"


def test_several_kubeconfigs_are_one(tmp_path: Path, authority: Authority) -> None:
    """A list as in KUBECONFIG: each file's own paths, the first entry of a name, gaps and all."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    shutil.copy(authority.folder / "ca.pem", tmp_path / "two" / "ca.pem")
    cluster = {"certificate-authority": "ca.pem", "tls-server-name": "kubernetes"}

    async def play() -> None:
        async with stage(yes, authority.server()) as here:
            value = config({"token": "two"}, server=here.url, **cluster)
            second = write(tmp_path / "two" / "config", value)
            first = write(tmp_path / "one" / "config", {"users": [user("one")]})
            named = os.pathsep.join(map(str, [first, tmp_path / "none", second]))
            async with client(here, *paths_in(named)) as api:
                await api.get("/x")
            assert here.asked[0].headers["authorization"] == "Bearer one"

    def user(token: str) -> dict[str, Any]:
        return {"name": "u", "user": {"token": token}}

    acted(play())


def test_one_file_may_have_a_name_like_a_list(tmp_path: Path) -> None:
    """If there is such a file; and of a list of none the first is told about."""
    odd = tmp_path / f"a{os.pathsep}b"
    odd.write_text("{}")
    assert paths_in(str(odd)) == [odd]
    assert paths_in(f"{tmp_path}/x{os.pathsep}{tmp_path}/y") == [tmp_path / "x"]


def played(play: Callable[[Stage], Awaitable[None]], authority: Authority) -> None:
    """Run a play with a server whose certificate our authority signed."""

    async def timed() -> None:
        async with stage(yes, authority.server()) as here:
            await play(here)

    acted(timed())


def test_authorities_are_read_again(tmp_path: Path, authority: Authority) -> None:
    """Every five minutes, so that authorities may change; rubbish changes nothing."""
    ca = tmp_path / "ca.pem"
    ca.write_bytes(authority.read("ca.pem"))
    cluster = {"certificate-authority": "ca.pem", "tls-server-name": "kubernetes"}

    async def play(here: Stage) -> None:
        path = write(tmp_path / "config", config({"token": "t"}, server=here.url, **cluster))
        async with client(here, path) as api:
            await api.get("/x")
            for text in (b"", b"rubbish"):
                ca.write_bytes(text)
                here.monotonic.advance(ROTATED)
                await api.get("/x")
            ca.write_bytes(authority.read("stranger.pem"))
            await api.get("/x")
            here.monotonic.advance(ROTATED)
            with pytest.raises(AccessError, match="no trust in the server"):
                await api.get("/x")

    played(play, authority)


def test_a_rotated_authority_is_trusted_soon(tmp_path: Path, authority: Authority) -> None:
    """A failed verification rereads the authorities before the next try."""
    ca = tmp_path / "ca.pem"
    ca.write_bytes(authority.read("stranger.pem"))
    cluster = {"certificate-authority": "ca.pem", "tls-server-name": "kubernetes"}

    async def play(here: Stage) -> None:
        path = write(tmp_path / "config", config({"token": "t"}, server=here.url, **cluster))
        async with client(here, path) as api:
            for _ in range(2):
                with pytest.raises(AccessError, match="no trust in the server"):
                    await api.get("/x")
            ca.write_bytes(authority.read("ca.pem"))
            assert await api.get("/x") == b'{"ok": true}'

    played(play, authority)


def test_a_client_certificate_that_was_replaced_is_shown(
    tmp_path: Path, authority: Authority
) -> None:
    """Its files are read every five minutes; a server that asks sees the new one."""

    def put(name: str) -> None:
        for kind in ("pem", "key"):
            shutil.copy(authority.folder / f"{name}.{kind}", tmp_path / f"me.{kind}")

    cluster = {"tls-server-name": "kubernetes", "certificate-authority": "ca.pem"}
    user = {"client-certificate": "me.pem", "client-key": "me.key"}
    (tmp_path / "ca.pem").write_bytes(authority.read("ca.pem"))
    put("stranger")

    async def play() -> None:
        async with stage(yes, authority.server(asks=True)) as here:
            path = write(tmp_path / "config", config(user, server=here.url, **cluster))
            async with client(here, path) as api:
                with pytest.raises((AccessError, Unreachable)):
                    await api.get("/x")
                put("client")
                with pytest.raises((AccessError, Unreachable)):
                    await api.get("/x")
                here.monotonic.advance(ROTATED)
                assert await api.get("/x") == b'{"ok": true}'

    acted(play())


def test_a_proxy_stands_in_between(tmp_path: Path) -> None:
    """proxy-url: the request goes there, with the whole URL of the server."""
    found: list[str] = []

    async def play() -> None:
        async with stage(yes) as proxy:
            value = config({"token": "t"}, server="http://k8s.invalid", **{"proxy-url": proxy.url})
            async with client(proxy, write(tmp_path / "config", value)) as api:
                await api.get("/x")
            found.append(proxy.asked[0].headers["host"])

    acted(play())
    assert found == ["k8s.invalid"]
