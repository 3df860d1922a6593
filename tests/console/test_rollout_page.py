"""The page of a rollout: what it shows, and that it promotes and aborts as any write is guarded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp

from policy_sched.console import RunningSource, serving
from policy_sched.rollout import Example, RolloutReport, advance, reconcile, rollout_report
from tests.console.browsing import Browser, pages
from tests.console.clusters import node, of_objects
from tests.instance.app.test_embedded_instance import World
from tests.instance.http.test_rollout_page import Control
from tests.rollout.plans import MINUTE, PLAN, counted

ADDRESS = "/rollout"


class Shown(Control):
    """A rollout in its second step, with differences."""

    def __init__(self) -> None:
        began, old, new = 1_764_000_000 * 10**9, "4f5b0a77c2d1e0aa", "new"
        begun, _ = reconcile(PLAN, None, old, new, began)
        assert begun is not None
        self.state = begun
        for _ in range(21):
            observed = counted(60, of_stable=540)
            observed.candidate.waited(0.4)
            observed.stable.waited(0.3)
            self.state, _ = advance(PLAN, self.state, observed, self.state.seen + MINUTE)

    def report(self) -> RolloutReport:
        """Return where it is, with the last differences."""
        moved = [Example(f"shop/web-{i}", "moved", "node-1", "node-2") for i in range(3)]
        lost = Example("batch/train", "unschedulable", "node-3")
        return rollout_report(PLAN, self.state, [*moved, lost])


def browsing(folder: Path, act: Callable[[Browser, Control], Awaitable[None]]) -> None:
    """Serve the console of a scheduler that has a rollout, and act as a browser that opened it."""

    async def run() -> None:
        instance = World(folder).start()
        instance.rollout = control = Shown()
        source = RunningSource(instance, "here")
        jar = aiohttp.CookieJar(unsafe=True)
        async with serving(source) as server, aiohttp.ClientSession(cookie_jar=jar) as session:
            await act(await Browser(server, session).opened(), control)

    asyncio.run(run())


async def post(browser: Browser, path: str, data: dict[str, str], **headers: str) -> Any:
    """Send a form as a browser does, unless other headers are given; return status and text."""
    address = browser.server.address.rstrip("/")
    sent = {"Origin": address, **headers}
    sent = {name: value for name, value in sent.items() if value}
    async with browser._session.post(
        address + path, data=data, headers=sent, allow_redirects=False
    ) as response:
        return response.status, await response.text()


def test_the_page_shows_the_rollout(tmp_path: Path) -> None:
    """Steps, rules with figures, measures of both sides, and differences with links to pods."""

    async def act(browser: Browser, _control: Control) -> None:
        status, text, _ = await browser.get(ADDRESS)
        assert status == 200
        for words in (
            "canary of 10 % by Owner",
            "Progressing",
            "2 of 3",
            "candidate.unschedulable &gt; stable.unschedulable + 0.02",
            "more pods find no node",
            "does not hold",
            "waitingP99",
            "404ms",
            'href="/pods/shop/web-1"',
            'href="/nodes/node-2"',
            "Promote the candidate",
            "Abort the rollout",
        ):
            assert words in text, words

    browsing(tmp_path, act)


def test_a_button_promotes_the_candidate_that_was_shown(tmp_path: Path) -> None:
    """The form leads back to the page; one about another candidate is refused."""

    async def act(browser: Browser, control: Control) -> None:
        found = await post(browser, f"{ADDRESS}/promote", {"candidate": "other"})
        assert found == (409, "the candidate is new, not other")
        assert (await post(browser, f"{ADDRESS}/promote", {}))[0] == 400
        assert control.state.phase == "Progressing"
        assert (await post(browser, f"{ADDRESS}/promote", {"candidate": "new"}))[0] == 303
        assert control.state.phase == "Promoted"
        _, text, _ = await browser.get(ADDRESS)
        assert "promoted in step 2 by the console" in text
        assert "Promote the candidate" not in text

    browsing(tmp_path, act)


def test_a_button_aborts_the_rollout(tmp_path: Path) -> None:
    """The stable set stays."""

    async def act(browser: Browser, control: Control) -> None:
        assert (await post(browser, f"{ADDRESS}/abort", {"candidate": "new"}))[0] == 303
        assert control.state.phase == "Aborted"

    browsing(tmp_path, act)


def test_writes_are_guarded(tmp_path: Path) -> None:
    """A form of another site, and a request without an origin, changes nothing; nor does GET."""

    async def act(browser: Browser, control: Control) -> None:
        sent = {"candidate": "new"}
        for headers in ({"Origin": "http://example.com"}, {"Origin": ""}):
            assert (await post(browser, f"{ADDRESS}/abort", sent, **headers))[0] == 403
        status, _, _ = await browser.get(f"{ADDRESS}/abort")
        assert status == 405
        assert control.state.phase == "Progressing"

    browsing(tmp_path, act)


def test_a_scheduler_without_a_rollout_says_how_to_begin(tmp_path: Path) -> None:
    """The page names the option; a cluster of files has no such page."""
    instance = World(tmp_path).start()
    (text,) = pages(RunningSource(instance, "here"), ADDRESS)
    assert "Nothing is rolled out" in text
    (text,) = pages(of_objects([node("a")]), "/policies")
    assert f'href="{ADDRESS}"' not in text
