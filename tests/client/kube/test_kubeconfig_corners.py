"""Corners of kubeconfigs: what plugins are told, files that go, values of other forms."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from policy_sched.client.kube.auth import credentials
from policy_sched.client.kube.auth.kubeconfig import load
from policy_sched.errors import PolicyError
from tests.client.kube.auth.test_kubeconfig import (
    Clock,
    config,
    credential,
    exec_user,
    granted,
    loaded,
    plugin,
    problems,
)

PEM = "-----BEGIN CERTIFICATE-----"


def test_exec_plugins_receive_the_cluster(tmp_path: Path) -> None:
    """Server name, proxy, compression, checks, and what the file says for plugins alone."""
    plugin(tmp_path, credential("t"))
    extensions = [
        {"name": "other", "extension": {"x": 1}},
        {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "me"}},
    ]
    cluster = {
        "tls-server-name": "kubernetes",
        "insecure-skip-tls-verify": True,
        "proxy-url": "http://proxy:3128",
        "disable-compression": True,
        "extensions": extensions,
    }
    access = loaded(tmp_path, config(exec_user(), **cluster))
    granted(access)
    assert not access.compression
    told = json.loads((tmp_path / "info").read_text())["spec"]["cluster"]
    assert told == {
        "server": "https://k8s:6443",
        "tls-server-name": "kubernetes",
        "insecure-skip-tls-verify": True,
        "proxy-url": "http://proxy:3128",
        "disable-compression": True,
        "config": {"audience": "me"},
    }


def test_exec_plugins_receive_only_what_they_request(tmp_path: Path) -> None:
    """Without provideClusterInfo; and the program is the one beside the file, not one in PATH."""
    plugin(tmp_path, credential("t"))
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        access = loaded(Path(), config(exec_user(provideClusterInfo=False)))
        assert granted(access).authorization == "Bearer t"
    finally:
        os.chdir(here)
    assert "cluster" not in json.loads((tmp_path / "info").read_text())["spec"]


def test_authorities_may_stand_in_a_file(tmp_path: Path) -> None:
    """Beside the kubeconfig; the data counts before the file, and a file must be there."""
    (tmp_path / "ca.pem").write_text(PEM)
    access = loaded(tmp_path, config({"token": "t"}, **{"certificate-authority": "ca.pem"}))
    assert access.trust.authorities == PEM.encode()
    (found,) = problems(tmp_path, config({"token": "t"}, **{"certificate-authority": "none"}))
    assert "none cannot be read: No such file" in found
    insecure = {"certificate-authority": "ca.pem", "insecure-skip-tls-verify": True}
    (found,) = problems(tmp_path, config({"token": "t"}, **insecure))
    assert "mean nothing where insecure-skip-tls-verify is true" in found


@pytest.mark.parametrize(
    ("server", "url"), [("k8s:6443", "http://k8s:6443"), ("http://k8s/x/", "http://k8s/x")]
)
def test_servers_are_read_as_client_go_reads_them(tmp_path: Path, server: str, url: str) -> None:
    """Without a scheme it is plain HTTP; a slash in the end means nothing."""
    assert loaded(tmp_path, config({"token": "t"}, server=server)).server == url


@pytest.mark.parametrize(
    ("user", "cluster", "words"),
    [
        ({}, {"server": ""}, "the cluster has no server"),
        ({}, {"server": "https://["}, "the server is not a URL"),
        ({"exec": {"args": "one"}}, {}, "args must be a list"),
        ({"exec": ["x"]}, {}, "exec must be a mapping"),
        ({}, {"disable-compression": "no"}, "disable-compression must be true or false"),
        ({"as-groups": ["a"]}, {}, "as-groups needs `as`"),
        ({"as-uid": "1"}, {}, "as-uid needs `as`"),
        ({"as-user-extra": {"scopes": ["a"]}}, {}, "as-user-extra needs `as`"),
        ({"as": "x", "as-groups": "a"}, {}, "as-groups must be a list"),
        ({"as": "x", "as-user-extra": {"scopes": "a"}}, {}, "scopes must be a list"),
        ({"as": "x\r\nY: z"}, {}, "as has characters that no header can have"),
        ({"as": "x", "as-groups": ["a\n"]}, {}, "as-groups has characters"),
        ({"exec": {"command": "x", "apiVersion": "v1"}, "token": "t"}, {}, "beside other"),
        ({"exec": {"apiVersion": "client.authentication.k8s.io/v1"}}, {}, "has no command"),
        ({"exec": {"command": "x"}}, {}, "the exec plugin has no apiVersion"),
        ({"tokenFile": "t", "client-certificate": "a", "client-key": "b"}, {}, "beside files"),
    ],
)
def test_unusable_values_are_reported(
    tmp_path: Path, user: dict[str, Any], cluster: dict[str, Any], words: str
) -> None:
    """One problem of each."""
    assert any(words in one for one in problems(tmp_path, config(user, **cluster)))


def test_an_unusable_proxy_of_the_environment_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the server for which it would be used."""
    monkeypatch.setenv("HTTPS_PROXY", "gopher://p")
    (found,) = problems(tmp_path, config({"token": "t"}))
    assert "the environment names a proxy for it that cannot be used" in found


def test_contexts_must_name_what_there_is(tmp_path: Path) -> None:
    """Contexts without a cluster or a name, a user that is not there, no context at all."""
    value = config({"token": "t"})
    value["contexts"][0]["context"] = {"cluster": "", "user": "you"}
    found = problems(tmp_path, value)
    assert any("the context names no cluster" in one for one in found)
    assert any("there is no user 'you'" in one for one in found)
    value = config({"token": "t"})
    value["contexts"].append({"context": {}})
    assert any("an entry of contexts has no name" in one for one in problems(tmp_path, value))
    value = config({"token": "t"})
    del value["current-context"]
    (one,) = problems(tmp_path, value)
    assert "no context is the current one" in one
    value["current-context"] = "d"
    (one,) = problems(tmp_path, value)
    assert "there is no context 'd'" in one


def test_a_context_without_a_user_is_anonymous(tmp_path: Path) -> None:
    """No credentials are sent, and a refusal leaves nothing to try."""
    value = config({})
    del value["contexts"][0]["context"]["user"]
    access = loaded(tmp_path, value)
    assert granted(access).authorization == ""
    assert not access.credentials.refused(granted(access))


def test_files_that_go_or_are_empty(tmp_path: Path) -> None:
    """A token file must hold a token; a certificate counts on when its files are gone."""
    (tmp_path / "token").write_text(" \n")
    with pytest.raises(credentials.AccessError, match="the file holds no token"):
        granted(loaded(tmp_path, config({"tokenFile": "token"})))
    for name in ("c", "k"):
        (tmp_path / name).write_text(name)
    clock = Clock()
    access = loaded(tmp_path, config({"client-certificate": "c", "client-key": "k"}), clock)
    first = granted(access)
    (tmp_path / "k").unlink()
    clock.advance(301)
    assert granted(access) == first
    assert not access.credentials.refused(first)
    gone = loaded(tmp_path, config({"client-certificate": "c", "client-key": "k"}))
    with pytest.raises(credentials.AccessError, match="No such file"):
        granted(gone)


def test_plugins_may_give_certificates_and_must_give_both_halves() -> None:
    """A certificate with its key, with or without a token."""
    command = credentials.ExecCommand("x")
    whole = credential("")
    whole["status"] |= {"clientCertificateData": "C", "clientKeyData": "K"}
    grant, end = credentials.parse_credential(json.dumps(whole).encode(), command)
    assert (grant.authorization, end) == ("", None)
    assert grant.certificate is not None
    assert (grant.certificate.certificate, grant.certificate.key) == (b"C", b"K")
    del whole["status"]["clientKeyData"]
    with pytest.raises(credentials.AccessError, match="a certificate without a key"):
        credentials.parse_credential(json.dumps(whole).encode(), command)


def test_plugins_that_do_not_end_are_ended(tmp_path: Path) -> None:
    """After a while, with an error that names the program."""
    path = tmp_path / "slow"
    path.write_text("#!/bin/sh\nexec sleep 60\n")
    path.chmod(0o755)
    slow = credentials.ExecPlugin(credentials.ExecCommand(str(path)), Clock().wall, timeout=0.1)
    with pytest.raises(credentials.AccessError, match=r"slow' has not ended in 0\.1 s"):
        asyncio.run(slow.grant())


@pytest.mark.parametrize(
    "line",
    [
        "client-key: SECRET",
        "token: !x SECRET",
        "token: !SECRET",
        "token: !!int SECRET",
        "token: *SECRET",
        "token: @SECRET",
        "token: SECRET: SECRET",
        "token: 'SECRET",
        "token: [SECRET",
        "token: {a: SECRET, SECRET: b, SECRET: c}",
        '"SECRET": 1\n    "SECRET": 2',
        'token: "SECRET\\x01"',
        "token: SECRET SECRET",
        "password: [SECRET]",
        "client-key-data: SECRET!",
        "exec: SECRET",
        "tokenFile: {SECRET: SECRET}",
    ],
)
def test_errors_of_a_kubeconfig_contain_no_secret(tmp_path: Path, line: str) -> None:
    """`token: !x SECRET` was refused with a message, and a source line, that held the secret."""
    path = tmp_path / "config"
    path.write_text(f"{HEAD}users:\n- name: me\n  user:\n    {line}\n")
    with pytest.raises(PolicyError) as refused:
        load([path], Clock().both)
    said = json.dumps([asdict(one) for one in refused.value.diagnostics]) + str(refused.value)
    assert "SECRET" not in said
    assert f"{path}:" in said


HEAD = """\
current-context: c
clusters: [{name: k, cluster: {server: "https://k8s:6443"}}]
contexts: [{name: c, context: {cluster: k, user: me}}]
"""


def test_a_server_with_a_password_is_refused_without_it(tmp_path: Path) -> None:
    """It would be shown with every request that fails."""
    path = tmp_path / "config"
    path.write_text(f"{HEAD}users: [{{name: me, user: {{}}}}]\n".replace("k8s:", "me:SECRET@k8s:"))
    with pytest.raises(PolicyError, match="must not hold a user or a password") as refused:
        load([path], Clock().both)
    assert "SECRET" not in str(refused.value)


@pytest.mark.parametrize("token", ["SECRET\x01", "SECRET\nx", "SECRET\u20ac"])
def test_a_token_that_is_no_header_value_is_rejected_with_its_source(
    tmp_path: Path, token: str
) -> None:
    """From a file or a plugin; the HTTP library's error would repeat it."""
    (tmp_path / "token").write_text(token)
    file = loaded(tmp_path, config({"tokenFile": "token"}))
    with pytest.raises(
        credentials.AccessError, match="characters that no header can have"
    ) as refused:
        granted(file)
    assert "SECRET" not in str(refused.value)
    printed = json.dumps(credential(token)).encode()
    with pytest.raises(
        credentials.AccessError, match="characters that no header can have"
    ) as refused:
        credentials.parse_credential(printed, credentials.ExecCommand("x"))
    assert "SECRET" not in str(refused.value)


@pytest.mark.parametrize("line", ['tokenFile: "a\\0b"', 'exec: {command: "a\\0b"}'])
def test_a_nul_is_refused_where_it_stands(tmp_path: Path, line: str) -> None:
    """A NUL in the name of a file or a program ended the first request with a traceback."""
    path = tmp_path / "config"
    path.write_text(f"{HEAD}users:\n- name: me\n  user:\n    {line}\n")
    with pytest.raises(PolicyError) as refused:
        load([path], Clock().both)
    assert "must not hold the character NUL" in str(refused.value)


def test_a_secret_that_is_a_device_is_not_read(tmp_path: Path) -> None:
    """A token file that is /dev/zero was read until memory was full."""
    path = tmp_path / "config"
    path.write_text(f"{HEAD}users: [{{name: me, user: {{tokenFile: /dev/zero}}}}]\n")
    with pytest.raises(credentials.AccessError, match="it is a device"):
        asyncio.run(load([path], Clock().both).credentials.grant())
