"""The endpoints of a rollout: where it is, and what may be asked of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from policy_sched.rollout import (
    Action,
    RolloutReport,
    State,
    abort,
    advance,
    promote,
    reconcile,
    rollout_report,
)
from tests.instance.http.test_endpoints import Served
from tests.rollout.plans import MINUTE, PLAN, counted
from tests.shown import page


class Control:
    """A rollout that is driven by hand."""

    def __init__(self) -> None:
        begun, _ = reconcile(PLAN, None, "old", "new", MINUTE)
        assert begun is not None
        self.state: State = advance(PLAN, begun, counted(30), 2 * MINUTE)[0]

    def report(self) -> RolloutReport:
        """Return where it is."""
        return rollout_report(PLAN, self.state)

    def request(self, action: Action, candidate: str, requester: str) -> str:
        """Promote or abort, unless another candidate is meant."""
        if candidate and not self.state.candidate.startswith(candidate):
            return f"the candidate is {self.state.candidate}, not {candidate}"
        if action == "promote":
            self.state, _ = promote(self.state, 3 * MINUTE, requester)
        else:
            self.state, _ = abort(self.state, 3 * MINUTE, message=f"aborted by {requester}")
        return ""


def test_a_rollout_is_shown_and_asked(tmp_path: Path) -> None:
    """As text and as JSON; a request names its user, and is refused for another candidate."""
    served = Served(tmp_path)

    async def scenario() -> None:
        async with served.session() as ask:
            found = await ask("/rollout", "admin")
            assert (found["status"], "nothing is rolled out" in found["text"]) == (404, True)
            served.door.rights["admin"] |= {"post /-/rollout/promote", "post /-/rollout/abort"}
            assert (await ask("/-/rollout/abort", "admin", "POST"))["status"] == 404
            served.instance.rollout = control = Control()
            found = await ask("/rollout", "admin")
            assert found["text"].startswith("Rollout:    careful\nPhase:      Progressing\n")
            found = await ask("/rollout", "admin", Accept="application/json")
            assert '"phase": "Progressing"' in found["text"]
            found = await ask("/-/rollout/promote?candidate=older", "admin", "POST")
            assert (found["status"], "is new, not older" in found["text"]) == (409, True)
            assert (await ask("/-/rollout/promote", "admin"))["status"] == 405
            assert control.state.phase == "Progressing"
            found = await ask("/-/rollout/promote?candidate=new", "admin", "POST")
            assert "promoted in step 1 by admin" in found["text"]
            assert control.state.phase == "Promoted"

    asyncio.run(scenario())


class Later(Control):
    """It does what is asked when it has been looked at a few times."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[Action, str, str]] = []
        self.looks = 3

    def report(self) -> RolloutReport:
        """Return where it is."""
        self.looks -= len(self.asked)
        if self.asked and not self.looks:
            super().request(*self.asked.pop())
        return super().report()

    def request(self, action: Action, candidate: str, requester: str) -> str:
        """Promote or abort later."""
        self.asked.append((action, candidate, requester))
        return ""


def test_an_answer_shows_what_was_done(tmp_path: Path) -> None:
    """A promotion was answered with a rollout that goes on."""
    served = Served(tmp_path)
    served.instance.rollout = Later()

    async def scenario() -> None:
        async with served.session() as ask:
            served.door.rights["admin"] |= {"post /-/rollout/promote"}
            found = await ask("/-/rollout/promote?candidate=new", "admin", "POST")
            assert "Phase:      Promoted" in found["text"]

    asyncio.run(scenario())


def test_a_standby_names_the_leader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It said that nothing is rolled out, while the leader rolled out what both have read."""
    served = Served(tmp_path)
    monkeypatch.setattr(type(served.instance), "leads", False)

    async def scenario() -> None:
        async with served.session() as ask:
            served.door.rights["admin"] |= {"post /-/rollout/promote"}
            for path, method in (("/rollout", "GET"), ("/-/rollout/promote", "POST")):
                found = await ask(path, "admin", method)
                assert (found["status"], "another instance leads" in found["text"]) == (404, True)

    asyncio.run(scenario())


def test_a_rollout_needs_rights(tmp_path: Path) -> None:
    """Who may not post on the path may neither promote nor abort."""
    served = Served(tmp_path)
    served.instance.rollout = control = Control()

    async def scenario() -> None:
        async with served.session() as ask:
            for path in ("/-/rollout/promote", "/-/rollout/abort"):
                assert (await ask(path, "tenant", "POST"))["status"] == 403
                assert (await ask(path, "", "POST"))["status"] == 403
            assert (await ask("/rollout", "tenant"))["status"] == 403

    asyncio.run(scenario())
    assert control.state.phase == "Progressing"


def test_the_page_of_endpoints_names_them() -> None:
    """docs/operating.md has each path."""
    text = page("docs/operating.md")
    for path in ("/rollout", "/-/rollout/promote", "/-/rollout/abort"):
        assert path in text
