"""Kubeconfigs: what they mean, what is wrong with them and where, and that no secret shows."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from policy_sched.client.kube.auth.credentials import AccessError, ClusterAccess, Grant
from policy_sched.client.kube.auth.kubeconfig import in_cluster_config, load, paths_in
from policy_sched.client.kube.time.work_queue import Clocks
from policy_sched.errors import PolicyError
from policy_sched.testing import FakeClock
from tests.client.kube.stage import WALL

SECRET = "s3cr3t-do-not-show"  # what must not be seen


class Clock:
    """Two clocks that stand still."""

    def __init__(self) -> None:
        self.wall, self.monotonic = FakeClock(WALL), FakeClock()

    @property
    def both(self) -> Clocks:
        return Clocks(self.wall, self.monotonic)

    def advance(self, seconds: float) -> None:
        """Let time go on."""
        self.wall.advance(seconds)
        self.monotonic.advance(seconds)


def config(user: dict[str, Any], **cluster: Any) -> dict[str, Any]:
    """Return a kubeconfig with one context."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://k8s:6443/", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }


def write(path: Path, value: Any) -> Path:
    """Write a kubeconfig."""
    path.write_text(value if isinstance(value, str) else yaml.safe_dump(value), encoding="utf-8")
    return path


def loaded(
    tmp_path: Path, value: Any, clock: Clock | None = None, context: str = ""
) -> ClusterAccess:
    """Load a kubeconfig."""
    path = write(tmp_path / "config", value)
    return load([path], (clock or Clock()).both, context)


def granted(access: ClusterAccess) -> Grant:
    """Return what the next request would be sent with."""
    return asyncio.run(_grant(access))


async def _grant(access: ClusterAccess) -> Grant:
    return await access.credentials.grant()


def problems(tmp_path: Path, value: Any) -> list[str]:
    """Return position, code and message of what is wrong."""
    with pytest.raises(PolicyError) as caught:
        loaded(tmp_path, value)
    assert SECRET not in str(caught.value)
    return [f"{d.line}:{d.column} {d.code} {d.message}" for d in caught.value.diagnostics]


def test_server_trust_proxy_and_namespace(tmp_path: Path) -> None:
    """The chosen context's cluster has the server's address and its authorities."""
    pem = b"-----BEGIN CERTIFICATE-----\n"
    access = loaded(
        tmp_path,
        config(
            {"token": SECRET, "as": "robot"},
            **{
                "certificate-authority-data": base64.b64encode(pem).decode(),
                "tls-server-name": "kubernetes",
                "proxy-url": "http://proxy:3128",
            },
        ),
    )
    assert access.server == "https://k8s:6443"
    assert access.trust.authorities == pem
    assert access.trust.server_name == "kubernetes"
    assert access.proxy == "http://proxy:3128"
    assert access.namespace == "team"
    assert access.headers == (("Impersonate-User", "robot"),)
    assert granted(access).authorization == f"Bearer {SECRET}"
    assert SECRET not in f"{access!r} {access} {granted(access)!r} {access.credentials!r}"


def test_another_context_can_be_chosen(tmp_path: Path) -> None:
    """A context by name; one that is not there is a problem of the file."""
    value = config({"token": "t"})
    other = {"name": "dev", "context": {"cluster": "k2", "user": "u"}}
    value["contexts"].append(other)
    value["clusters"].append({"name": "k2", "cluster": {"server": "http://127.0.0.1:8001"}})
    assert loaded(tmp_path, value, context="dev").server == "http://127.0.0.1:8001"
    with pytest.raises(PolicyError, match="did you mean 'dev'"):
        loaded(tmp_path, value, context="dew")


def test_several_files_are_one_and_the_first_counts(tmp_path: Path) -> None:
    """As KUBECONFIG may name several: the first with a name, or a current context, wins."""
    one = config({"token": "one"})
    one.pop("current-context")
    two = config({"token": "two"})
    first, second = write(tmp_path / "1", one), write(tmp_path / "2", two)
    found = paths_in(f"{first}:{tmp_path / 'none'}:{second}")
    assert found == [first, second]
    assert granted(load(found, Clock().both)).authorization == "Bearer one"


def test_passwords_and_certificates(tmp_path: Path) -> None:
    """Basic authentication, certificates inline, by file and mixed; files are read again."""
    access = loaded(tmp_path, config({"username": "u", "password": SECRET}))
    expected = base64.b64encode(f"u:{SECRET}".encode()).decode()
    assert granted(access).authorization == f"Basic {expected}"
    (tmp_path / "c.pem").write_bytes(b"cert")
    (tmp_path / "k.pem").write_bytes(b"key")
    clock = Clock()
    files = {"client-certificate": "c.pem", "client-key": "k.pem", "token": "t"}
    access = loaded(tmp_path, config(files), clock)
    grant = granted(access)
    assert grant.certificate is not None
    assert (grant.certificate.certificate, grant.certificate.key) == (b"cert", b"key")
    assert grant.authorization == "Bearer t"
    (tmp_path / "c.pem").write_bytes(b"newer")
    assert granted(access).certificate == grant.certificate
    clock.advance(301)
    newer = granted(access).certificate
    assert newer is not None
    assert newer.certificate == b"newer"
    mixed = {"client-certificate": "c.pem", "client-key-data": base64.b64encode(b"k2").decode()}
    held = granted(loaded(tmp_path, config(mixed))).certificate
    assert held is not None
    assert (held.certificate, held.key) == (b"newer", b"k2")


def test_token_files_are_read_again(tmp_path: Path) -> None:
    """Each minute, and at once after the server refused; a file that has gone changes nothing."""
    token = tmp_path / "token"
    token.write_text("one\n")
    clock = Clock()
    access = loaded(tmp_path, config({"tokenFile": "token"}), clock)
    assert granted(access).authorization == "Bearer one"
    token.write_text("two\n")
    assert granted(access).authorization == "Bearer one"
    clock.advance(60)
    grant = granted(access)
    assert grant.authorization == "Bearer two"
    token.write_text("three")
    assert access.credentials.refused(grant)
    assert granted(access).authorization == "Bearer three"
    token.unlink()
    clock.advance(60)
    assert granted(access).authorization == "Bearer three"
    missing = loaded(tmp_path, config({"tokenFile": "none"}))
    with pytest.raises(AccessError, match="none: No such file"):
        granted(missing)


def plugin(tmp_path: Path, said: Any, code: int = 0) -> Path:
    """Write an exec plugin that prints this, and counts how often it ran."""
    (tmp_path / "said.json").write_text(said if isinstance(said, str) else json.dumps(said))
    path = tmp_path / "plugin"
    path.write_text(
        "#!/bin/sh\n"
        f'echo run >> "{tmp_path}/runs"\n'
        f'printf "%s" "$KUBERNETES_EXEC_INFO" > "{tmp_path}/info"\n'
        f'printf "%s %s" "$1" "$WHO" > "{tmp_path}/args"\n'
        f'cat "{tmp_path}/said.json"\nexit {code}\n'
    )
    path.chmod(0o755)
    return path


def exec_user(**more: Any) -> dict[str, Any]:
    """Return a user with the plugin."""
    version = "client.authentication.k8s.io/v1"
    return {
        "exec": {
            "apiVersion": version,
            "command": "./plugin",
            "args": ["login"],
            "env": [{"name": "WHO", "value": "me"}],
            "provideClusterInfo": True,
            "interactiveMode": "IfAvailable",
            **more,
        }
    }


def credential(token: str, end: str | None = None) -> dict[str, Any]:
    """Return an ExecCredential."""
    status = {"token": token, "expirationTimestamp": end}
    version = "client.authentication.k8s.io/v1"
    return {"apiVersion": version, "kind": "ExecCredential", "status": status}


def test_exec_plugins_run_when_their_credential_has_ended(tmp_path: Path) -> None:
    """Once for many requests, again after the expiry, and again after a refusal."""
    plugin(tmp_path, credential(SECRET, "2027-01-15T08:10:00Z"))
    clock = Clock()
    access = loaded(tmp_path, config(exec_user()), clock)

    async def play() -> None:
        grants = await asyncio.gather(*(access.credentials.grant() for _ in range(5)))
        assert {grant.authorization for grant in grants} == {f"Bearer {SECRET}"}
        assert runs() == 1
        clock.advance(601)
        (tmp_path / "said.json").write_text(json.dumps(credential("next")))
        grant = await access.credentials.grant()
        assert grant.authorization == "Bearer next"
        clock.advance(36_000)
        await access.credentials.grant()
        assert runs() == 2
        assert access.credentials.refused(grant)
        await access.credentials.grant()
        assert runs() == 3

    def runs() -> int:
        return (tmp_path / "runs").read_text().count("run")

    asyncio.run(play())
    assert (tmp_path / "args").read_text() == "login me"
    info = json.loads((tmp_path / "info").read_text())
    assert info["spec"]["cluster"]["server"] == "https://k8s:6443"
    assert info["spec"]["interactive"] is False
    assert SECRET not in repr(access.credentials)


@pytest.mark.parametrize(
    ("said", "code", "why"),
    [
        (SECRET, 0, "printed no ExecCredential"),
        (credential(SECRET), 3, "exit code 3"),
        ({**credential(SECRET), "apiVersion": "v9"}, 0, "not ExecCredential of"),
        (credential(""), 0, "neither a token nor a certificate"),
    ],
)
def test_exec_plugins_that_fail_are_errors_without_secrets(
    tmp_path: Path, said: Any, code: int, why: str
) -> None:
    """What a plugin printed is never repeated."""
    plugin(tmp_path, said, code)
    access = loaded(tmp_path, config(exec_user()))
    with pytest.raises(AccessError, match=why) as caught:
        granted(access)
    assert SECRET not in str(caught.value)


def test_a_plugin_that_is_missing_gives_its_hint(tmp_path: Path) -> None:
    """installHint says where the program comes from."""
    access = loaded(tmp_path, config(exec_user(command="./none", installHint="get it from x")))
    with pytest.raises(AccessError, match="No such file or directory; get it from x"):
        granted(access)


TEXT = f"""\
apiVersion: v1
kind: Config
current-context: prod
contexts:
- name: prod
  context: {{cluster: k, user: me}}
- name: prod
  context: {{}}
clusters:
- name: k
  cluster:
    server: ftp://k8s
    certificate-authority-data: "%%%"
    proxy-url: socks5h://p:1
    insecure-skip-tls-verfy: true
users:
- name: me
  user:
    token: 12345
    password: [{SECRET}]
    client-key-data: {base64.b64encode(SECRET.encode()).decode()}
    exec: {{command: x, apiVersion: client.authentication.k8s.io/v1alpha1}}
"""


SOCKS = (
    "its scheme 'socks5h' is none of http, https and socks5; socks5 leaves names to the proxy, too"
)


@pytest.mark.parametrize("server", ["api server", "api\\nserver"])
def test_a_server_is_no_text_with_spaces(tmp_path: Path, server: str) -> None:
    """It was taken as the name of a host, and a line break in it was dropped."""
    text = f"""\
current-context: c
contexts: [{{name: c, context: {{cluster: k, user: u}}}}]
clusters: [{{name: k, cluster: {{server: "{server}"}}}}]
users: [{{name: u, user: {{}}}}]
"""
    assert problems(tmp_path, text) == ["3:40 PS707 the server is not a URL"]


def test_all_problems_have_places_and_no_secrets(tmp_path: Path) -> None:
    """Every mistake of the chosen context at once, each with line and column."""
    assert problems(tmp_path, TEXT) == [
        "7:9 PS708 contexts has two entries named 'prod'",
        "12:13 PS707 the server is not a URL",
        "13:33 PS707 certificate-authority-data is not base64",
        f"14:16 PS707 proxy-url cannot be used: {SOCKS}",
        "15:5 PS702 unknown key 'insecure-skip-tls-verfy'",
        "19:5 PS704 the user has a client-key and no client-certificate",
        "19:12 PS703 token must be text",
        "20:15 PS703 password must be text",
        "22:36 PS707 unknown apiVersion",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("current-context: x\n", "1:18 PS707 there is no context 'x'"),
        ("clusters: []\n", "1:1 PS704 no context is the current one"),
        (f"token: {SECRET}: x\n", "1:26 PS701"),
        ("- a\n", "1:1 PS703 a kubeconfig is one mapping"),
        ("", "1:1 PS703 a kubeconfig is one mapping"),
    ],
)
def test_files_that_are_no_kubeconfig(tmp_path: Path, text: str, expected: str) -> None:
    """What stands there instead is said, and a broken line is not shown."""
    found = problems(tmp_path, text)
    assert len(found) == 1
    assert found[0].startswith(expected)


@pytest.mark.parametrize(
    ("name", "plugin"),
    [
        ("oidc", ", for example `kubectl oidc-login`"),
        ("gcp", ", for example `gke-gcloud-auth-plugin`"),
        ("openstack", ""),
    ],
)
def test_auth_providers_are_refused(tmp_path: Path, name: str, plugin: str) -> None:
    """Auth-providers are deprecated; the message has a place and names the exec plugin."""
    user = config({"auth-provider": {"name": name, "config": {"id-token": SECRET}}})
    with pytest.raises(PolicyError) as caught:
        loaded(tmp_path, user)
    (found,) = caught.value.diagnostics
    assert found.code == "PS707"
    assert found.message == f"the auth-provider '{name}' is not supported"
    assert found.hint == f"use an exec credential plugin (`exec`){plugin}"
    assert SECRET not in repr(found)


def test_interactive_exec_plugins_are_refused(tmp_path: Path) -> None:
    """A scheduler has no terminal in which a plugin can ask."""
    asks = config(exec_user(interactiveMode="Always"))
    assert "has no terminal" in problems(tmp_path, asks)[0]


def test_a_pod_uses_its_mounted_token_authorities_and_namespace(tmp_path: Path) -> None:
    """Inside a pod: the mounted token, authorities and namespace; outside, what to do."""
    for name, text in (("token", "t1"), ("ca.crt", "PEM"), ("namespace", "kube-system\n")):
        (tmp_path / name).write_text(text)
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    access = in_cluster_config(environ, FakeClock(), tmp_path)
    assert access.server == "https://[fd00::1]:443"
    assert access.trust.authorities == b"PEM"
    assert access.trust.file == tmp_path / "ca.crt"
    assert access.namespace == "kube-system"
    assert granted(access).authorization == "Bearer t1"
    with pytest.raises(AccessError, match="give a kubeconfig"):
        in_cluster_config({}, FakeClock(), tmp_path)


def test_loading_and_granting_log_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Loading and granting write no log at all."""
    with caplog.at_level(logging.DEBUG):
        granted(loaded(tmp_path, config({"token": SECRET})))
    assert SECRET not in caplog.text
