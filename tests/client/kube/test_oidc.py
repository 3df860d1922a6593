"""OIDC tokens: used until they end, renewed at the issuer, and kept in the kubeconfig."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml

from policy_sched.client.kube.access import Access, AccessError
from policy_sched.client.kube.kubeconfig import load
from policy_sched.errors import PolicyError
from tests.client.kube.stage import WALL, Asked, Script, Stage, Wire, acted, stage

SECRET = "hush-hush"
KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: c   # a comment that stays
clusters:
- {{name: k, cluster: {{server: "http://127.0.0.1:1"}}}}
contexts:
- {{name: c, context: {{cluster: k, user: me}}}}
users:
- name: you
  user: {{token: x}}
- name: me
  user:
    auth-provider:
      name: oidc
      config:
{config}
"""


def jwt(seconds: float, mark: str = SECRET) -> str:
    """Return an id-token that ends so many seconds after the tests begin."""
    claims = json.dumps({"exp": WALL / 1e9 + seconds, "sub": mark}).encode()
    return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.{SECRET}"


def kubeconfig(folder: Path, **config: str) -> Path:
    """Write a kubeconfig whose user has this provider; ``_`` stands for ``-``."""
    lines = "\n".join(f"        {k.replace('_', '-')}: {v}" for k, v in config.items())
    path = folder / "config"
    path.write_text(KUBECONFIG.format(config=lines), encoding="utf-8")
    path.chmod(0o600)
    return path


def held(path: Path) -> dict[str, str]:
    """Return the provider's settings as the file has them now."""
    users = yaml.safe_load(path.read_text(encoding="utf-8"))["users"]
    found: dict[str, str] = users[1]["user"]["auth-provider"]["config"]
    return found


class Issuer:
    """An issuer that gives new tokens, and wants to know by whom it is asked in its own way."""

    def __init__(self, answer: dict[str, Any], *, header: bool = True, status: int = 200) -> None:
        self.forms: list[dict[str, str]] = []
        self.url = ""
        self._answer = answer
        self._header = header
        self._status = status

    async def __call__(self, asked: Asked, wire: Wire) -> None:
        """Answer."""
        if asked.path == "/realm/.well-known/openid-configuration":
            return await wire.answer(200, {"token_endpoint": f"{self.url}/token"})
        form = {name: value[0] for name, value in parse_qs(asked.body.decode()).items()}
        self.forms.append(form)
        if self._header != ("authorization" in asked.headers):
            return await wire.answer(401, {"error": "invalid_client"})
        return await wire.answer(self._status, self._answer)


def asked_of(script: Script, play: Any) -> None:
    """Play with an issuer."""

    async def whole() -> None:
        async with stage(script) as here:
            if isinstance(script, Issuer):
                script.url = here.url
            await play(here)

    acted(whole())


def access(here: Stage, path: Path) -> Access:
    """Load the kubeconfig."""
    return load([path], here.chance.clocks)


async def token(found: Access) -> str:
    """Return what the next request carries."""
    return (await found.credentials.grant()).authorization.removeprefix("Bearer ")


@pytest.mark.parametrize("header", [True, False])
def test_a_token_that_ends_is_renewed_once_and_kept(tmp_path: Path, *, header: bool) -> None:
    """Ten seconds early; for many requests at once; the file has both tokens, and all the rest."""
    old, new = jwt(60), jwt(3600, "new")
    issuer = Issuer({"id_token": new, "refresh_token": "r2", "access_token": "a"}, header=header)

    async def play(here: Stage) -> None:
        path = kubeconfig(
            tmp_path,
            client_id="me:and you",
            client_secret=SECRET,
            id_token=old,
            idp_issuer_url=f"{here.url}/realm/",
            refresh_token="'r1'  # of today",
        )
        before = path.read_text(encoding="utf-8")
        found = access(here, path)
        assert await token(found) == old
        here.wall.advance(51)
        assert await asyncio.gather(*(token(found) for _ in range(5))) == [new] * 5
        assert len(issuer.forms) == (1 if header else 2)
        form = issuer.forms[-1]
        assert (form["grant_type"], form["refresh_token"]) == ("refresh_token", "r1")
        if header:
            assert "client_secret" not in form
            sent = base64.b64decode(here.asked[-1].headers["authorization"].split()[1])
            assert sent == f"me%3Aand+you:{SECRET}".encode()
        else:
            assert (form["client_id"], form["client_secret"]) == ("me:and you", SECRET)
        after = path.read_text(encoding="utf-8")
        expected = before.replace(f"token: {old}", f'token: "{new}"').replace("'r1'", '"r2"')
        assert after == expected
        assert path.stat().st_mode & 0o777 == 0o600
        assert list(tmp_path.iterdir()) == [path]
        assert await token(access(here, path)) == new

    asked_of(issuer, play)


def test_a_first_token_is_got_with_the_refresh_token_alone(tmp_path: Path) -> None:
    """It is written beside it; an issuer may leave the refresh token as it is."""
    issuer = Issuer({"id_token": jwt(3600)})

    async def play(here: Stage) -> None:
        url = f"{here.url}/realm"
        path = kubeconfig(tmp_path, idp_issuer_url=url, client_id="me", refresh_token="r1")
        assert await token(access(here, path)) == jwt(3600)
        assert held(path)["id-token"] == jwt(3600)
        assert held(path)["refresh-token"] == "r1"
        flow = path.read_text(encoding="utf-8").replace("      config:", "      config: {")
        flow = (
            flow[: flow.index("{\n")]
            + f"{{idp-issuer-url: {url}, client-id: me, refresh-token: r1}}\n"
        )
        path.write_text(flow, encoding="utf-8")
        await token(access(here, path))
        assert held(path)["id-token"] == jwt(3600)

    asked_of(issuer, play)


def test_a_file_that_cannot_be_written_keeps_its_tokens(tmp_path: Path) -> None:
    """The process goes on with what it got; so it does when the user has gone from the file."""
    issuer = Issuer({"id_token": jwt(3600), "refresh_token": "r2"})

    async def play(here: Stage) -> None:
        url = f"{here.url}/realm"
        path = kubeconfig(tmp_path, idp_issuer_url=url, client_id="me", refresh_token="r1")
        for text in ("users: []\n", "no: [yaml", path.read_text().replace(": r1", ": |\n  r1\n")):
            path = kubeconfig(tmp_path, idp_issuer_url=url, client_id="me", refresh_token="r1")
            found = access(here, path)
            path.write_text(text, encoding="utf-8")
            assert await token(found) == jwt(3600)
            assert path.read_text(encoding="utf-8") == text
        found = access(
            here, kubeconfig(tmp_path, idp_issuer_url=url, client_id="me", refresh_token="r1")
        )
        path.unlink()
        assert await token(found) == jwt(3600)
        assert not path.exists()

    asked_of(issuer, play)


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        ({"error": "invalid_grant"}, 400, r"does not refresh the id-token \(400: invalid_grant\)"),
        ({}, 500, r"does not refresh the id-token \(500\)"),
        ({"access_token": "a"}, 200, "gave no id_token: the scope openid"),
        ({"id_token": "no"}, 200, "gave an id_token, but it is no JSON web token"),
    ],
)
def test_an_issuer_that_refuses_is_an_error_without_secrets(
    tmp_path: Path, answer: dict[str, Any], status: int, words: str
) -> None:
    """What it said in one word, and nothing that was sent."""

    async def play(here: Stage) -> None:
        url = f"{here.url}/realm"
        path = kubeconfig(tmp_path, idp_issuer_url=url, client_id="me", refresh_token=SECRET)
        with pytest.raises(AccessError, match=words) as caught:
            await token(access(here, path))
        assert SECRET not in str(caught.value)

    asked_of(Issuer(answer, status=status), play)


def test_issuers_that_cannot_be_found_or_trusted(tmp_path: Path) -> None:
    """No discovery document, one that leads astray, nobody there: said, with the issuer's name."""
    answers: list[Any] = [
        (404, {}, "no token_endpoint at .* .404"),
        (200, b"<html>", "no token_endpoint at"),
        (200, {"token_endpoint": "http://example.com/token"}, "by https only"),
        (0, {}, "no answer"),
    ]

    async def script(asked: Asked, wire: Wire) -> None:
        status, body, _ = answers[0]
        if not status:
            return wire.cut()
        return await wire.answer(status, body)

    async def play(here: Stage) -> None:
        path = kubeconfig(tmp_path, idp_issuer_url=here.url, client_id="me", refresh_token="r")
        found = access(here, path)
        while answers:
            with pytest.raises(AccessError, match=answers[0][2]) as caught:
                await token(found)
            assert here.url in str(caught.value)
            answers.pop(0)

    asked_of(script, play)


def test_without_a_refresh_token_a_token_counts_until_it_ends(tmp_path: Path) -> None:
    """Then it is said what to do; a token without an end has ended."""

    async def play(here: Stage) -> None:
        found = access(here, kubeconfig(tmp_path, id_token=jwt(60)))
        grant = await found.credentials.grant()
        assert not found.credentials.refused(grant)
        here.wall.advance(61)
        with pytest.raises(AccessError, match=r"has expired.*kubelogin") as caught:
            await token(found)
        assert SECRET not in str(caught.value)

    async def nobody(asked: Asked, wire: Wire) -> None:
        raise AssertionError

    asked_of(nobody, play)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"client_id": "me"}, "neither an id-token nor a refresh-token"),
        ({"refresh_token": "r", "client_id": "me"}, "a refresh-token and no idp-issuer-url"),
        ({"refresh_token": "r", "idp_issuer_url": "https://x"}, "a refresh-token and no client-id"),
        ({"id_token": "a.b"}, "it is no JSON web token"),
        ({"id_token": "a.b.c"}, "it is no JSON web token"),
        ({"id_token": jwt(1), "idp_issuer_url": "http://example.com"}, "by https only"),
        ({"id_token": jwt(1), "idp_issuer_url": "example.com"}, "not of the form https://HOST"),
        ({"id_token": jwt(1), "idp_issuer_url": "'http://['"}, "it is no URL"),
        ({"id_token": jwt(1), "idp_certificate_authority": "none"}, "cannot be read"),
    ],
)
def test_settings_that_cannot_work_are_told_with_their_place(
    tmp_path: Path, config: dict[str, str], words: str
) -> None:
    """When the kubeconfig is loaded, not when the first token ends."""
    path = kubeconfig(tmp_path, **config)
    with pytest.raises(PolicyError) as caught:
        load([path], Stage().chance.clocks)
    (problem,) = caught.value.diagnostics
    assert words in problem.message
    assert problem.line >= 14
    assert problem.source_line.strip() in ("", "auth-provider:", "config:", "name: oidc")
