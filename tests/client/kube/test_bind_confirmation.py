"""Bindings of unknown fate: what is asked, what is sent again, and what holds in the end."""

from __future__ import annotations

import pytest

from policy_sched.client.kube.client import NotLeading
from tests.client.kube import stage
from tests.client.kube.test_client import bind, connected, refusing, written

__all__ = ["connected"]
pytestmark = pytest.mark.usefixtures("connected")


def test_a_conflict_is_settled_by_reading_the_pod() -> None:
    """Bound to the node that we chose is bound; elsewhere, or another pod, is the conflict."""
    _, told = written(refusing(409, stage.pod("web", 7, uid="u1", nodeName="node-a")), bind)
    assert told.bound == [None]
    for other in (
        stage.pod("web", 7, uid="u1", nodeName="node-b"),
        stage.pod("web", 7, uid="u2", nodeName="node-a"),
        {"not": "a pod"},
    ):
        _, told = written(refusing(409, other), bind)
        assert [str(error) for error in told.bound] == ["no"]


def test_a_conflict_is_no_binding_if_the_pod_cannot_be_read() -> None:
    """A gated pod is bound nowhere, one that is gone is not there: both stay refused."""
    _, told = written(refusing(409, stage.pod("web", 7, uid="u1")), bind)
    assert [str(error) for error in told.bound] == ["no"]

    async def script(asked: stage.Asked, wire: stage.Wire) -> None:
        code = 409 if asked.method == "POST" else 404
        await wire.respond(code, stage.status(code, "Why", f"code {code}"))

    _, told = written(script, bind)
    assert [str(error) for error in told.bound] == ["code 409"]


@pytest.mark.parametrize("how", ["cut", "500", "504", "html"])
def test_a_binding_of_unknown_fate_holds_until_the_pod_can_be_read(how: str) -> None:
    """Bound nowhere: sent again, though the server was away for long; then it is settled."""
    posted: list[str] = []
    reads = 0

    async def script(asked: stage.Asked, wire: stage.Wire) -> None:
        nonlocal reads
        if asked.method == "POST":
            posted.append(how)
            if len(posted) > 1:
                return await wire.respond(409, stage.status(409, "Conflict", "is already assigned"))
            if how == "cut":
                return wire.cut()
            if how == "html":
                return await wire.respond(200, b"<html>log in</html>", Content_Type="text/html")
            return await wire.respond(int(how), stage.status(int(how), "InternalError"))
        reads += 1
        if reads < 8:
            return wire.cut()
        bound = {"nodeName": "node-a"} if len(posted) > 1 else {}
        return await wire.respond(200, stage.pod("web", 7, uid="u1", **bound))

    _, told = written(script, bind)
    assert told.bound == [None]
    assert len(posted) == 2


def test_a_binding_that_never_takes_is_refused_in_the_end() -> None:
    """A server that fails at each binding, and has bound nothing: five times, then the error."""
    here, told = written(refusing(500, stage.pod("web", 7, uid="u1"), "out of order"), bind)
    assert [str(error) for error in told.bound] == ["out of order"]
    assert [asked.method for asked in here.asked] == ["POST", "GET"] * 5


def test_a_former_leader_does_not_retry_a_binding() -> None:
    """Its fate is read all the same: bound is bound."""
    leads = [True, False]

    async def script(asked: stage.Asked, wire: stage.Wire) -> None:
        if asked.method == "POST":
            wire.cut()
        else:
            await wire.respond(200, stage.pod("web", 7, uid="u1"))

    here, told = written(script, bind, leads=lambda: leads.pop(0))
    assert [asked.method for asked in here.asked] == ["POST", "GET"]
    assert isinstance(told.bound[0], NotLeading)


def test_a_binding_whose_answer_was_lost_is_settled_by_reading_the_pod() -> None:
    """The connection broke after the binding was sent: it is not sent twice."""

    async def script(asked: stage.Asked, wire: stage.Wire) -> None:
        if asked.method == "POST":
            wire.cut()
        else:
            await wire.respond(200, stage.pod("web", 7, uid="u1", nodeName="node-a"))

    here, told = written(script, bind)
    assert told.bound == [None]
    assert [asked.method for asked in here.asked] == ["POST", "GET"]
