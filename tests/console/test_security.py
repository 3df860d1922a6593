"""What is served: the browser that opened the URL with the token, and no other program or page."""

from __future__ import annotations

import aiohttp
import pytest
from yarl import URL

from policy_sched.console.security import CONTENT_SECURITY_POLICY, HEADERS, Security
from policy_sched.console.server import SHARED
from tests.console.browsing import Browser, browsing, of_files

PATHS = ("/", "/pods", "/nodes", "/events", "/assets/style.css", "/no-such-page", "/policies")


def test_nothing_is_served_without_the_token() -> None:
    """Pages, assets, the stream and unknown paths alike are 403, and say nothing of the cluster."""

    async def act(browser: Browser) -> None:
        for path in (*PATHS, "/?token=", "/?token=wrong"):
            status, text, _ = await browser.get(path)
            assert status == 403
            assert "gpu-node" not in text
            assert text.startswith("403: a URL" if "token" in path else "403: open the URL")

    browsing(of_files(), act)


def test_the_token_becomes_a_cookie() -> None:
    """The URL leads to the page without the token; scripts and other sites do not get it."""

    async def act(browser: Browser) -> None:
        token = browser.server.security.token
        async with browser._session.get(browser.server.url, allow_redirects=False) as first:
            assert first.status == 303
            assert first.headers["Location"] == "/"
            cookie = first.headers["Set-Cookie"]
        assert token not in cookie
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        status, text, _ = await browser.get("/")
        assert status == 200
        assert token not in text

    browsing(of_files(), act)


def test_a_token_opens_one_browser() -> None:
    """A token from a log, a history or a screen opened the console for anybody, at any time."""

    async def act(browser: Browser) -> None:
        url = browser.server.url
        assert (await browser.get(url, "HEAD"))[0] == 403  # what looks at links spends nothing
        assert (await browser.get(url))[0] == 200
        assert (await browser.get(url))[0] == 200  # the browser that was opened by it
        async with aiohttp.ClientSession() as other:
            async with other.get(url) as again:
                assert again.status == 403
                assert "policy-sched has printed another URL" in await again.text()
            async with other.get(browser.server.url, allow_redirects=False) as another:
                assert another.status == 303

    browsing(of_files(), act)


def test_the_cookie_reaches_no_other_program() -> None:
    """It was one of 127.0.0.1, which browsers send to each port of that address."""

    async def act(browser: Browser) -> str:
        await browser.opened()
        elsewhere = URL(f"http://127.0.0.1:{browser.server.security.port}/")
        assert not browser._session.cookie_jar.filter_cookies(elsewhere)
        return browser.server.address

    addresses = {browsing(of_files(), act).split(":")[1] for _ in range(3)}
    assert len(addresses) == 3
    assert all(
        address.startswith("//127.") and not address.startswith("//127.0.") for address in addresses
    )


def test_a_machine_with_one_address_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where 127.0.0.0/8 is not there as a whole, the console is at 127.0.0.1, and says so."""
    monkeypatch.setattr("policy_sched.console.server.own_address", lambda: "192.0.2.1")

    async def act(browser: Browser) -> None:
        assert browser.server.security.host == "127.0.0.1"
        assert browser.server.warning == SHARED
        await browser.opened()

    browsing(of_files(), act)


def test_a_link_on_another_site_opens_the_console() -> None:
    """The URL works as a link of a web terminal, too: the welcome goes on by itself."""

    async def act(browser: Browser) -> None:
        status, text, headers = await browser.get(browser.server.url, Sec_Fetch_Site="cross-site")
        assert status == 200
        assert 'http-equiv="refresh" content="0; url=/"' in text
        assert browser.server.security.cookie in str(headers)
        assert (await browser.get("/"))[0] == 200

    browsing(of_files(), act)


def test_other_hosts_and_origins_are_refused() -> None:
    """With the cookie, too: a name that resolves to loopback, another origin, another site."""

    async def act(browser: Browser) -> None:
        await browser.opened()
        own = browser.server.address.rstrip("/")
        assert (await browser.get("/", Origin=own))[0] == 200
        refused = (
            {"Host": "console.example:80"},
            {"Host": "127.0.0.1"},
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Origin": own.replace(browser.server.security.host, "localhost")},
            {"Sec-Fetch-Site": "cross-site"},
            {"Sec-Fetch-Site": "same-site"},
        )
        for headers in refused:
            status, text, _ = await browser.get("/pods", **headers)
            assert status == 403, headers
            assert "html" not in text

    browsing(of_files(), act)


def test_what_is_no_get_needs_its_own_origin() -> None:
    """A request that may change something is refused without an Origin header."""

    async def act(browser: Browser) -> None:
        await browser.opened()
        for method in ("POST", "PUT", "DELETE", "OPTIONS"):
            assert (await browser.get("/", method))[0] == 403
        own = browser.server.address.rstrip("/")
        assert (await browser.get("/", "POST", Origin=own))[0] == 405

    browsing(of_files(), act)


def test_every_response_has_the_headers() -> None:
    """Pages, assets, redirects, refusals and errors have the same strict policy."""

    async def act(browser: Browser) -> None:
        for path in ("/", browser.server.url, "/", "/pods", "/no-such-page", "/pods/a/b"):
            _, _, headers = await browser.get(path)
            for name, value in HEADERS.items():
                assert headers[name] == value, (path, name)

    browsing(of_files(), act)
    assert "unsafe" not in CONTENT_SECURITY_POLICY


@pytest.mark.parametrize("path", ["//evil.example/", "/%2f%2fevil.example/"])
def test_the_welcome_stays_at_home(path: str) -> None:
    """The redirect after the token leads nowhere else, whatever path the URL has."""

    async def act(browser: Browser) -> str:
        address = browser.server.address.rstrip("/") + path
        token = browser.server.security.token
        async with browser._session.get(
            f"{address}?token={token}", allow_redirects=False
        ) as response:
            return response.headers["Location"]

    location = browsing(of_files(), act)
    assert location.startswith("/")
    assert not location.startswith("//")


def test_secrets_are_random_and_not_shown() -> None:
    """Two consoles have different secrets, and printing one shows none."""
    first, other = Security("127.1.1.1", 1), Security("127.1.1.1", 1)
    assert len({first.token, other.token, first.session, other.session}) == 4
    assert first.token not in repr(first)
    assert first.session not in repr(first)
