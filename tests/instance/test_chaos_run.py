"""A few seconds of chaos; chaos_run.py runs longer."""

from __future__ import annotations

from tests.instance.chaos_history import Line, read
from tests.instance.chaos_run import disasters, run


def test_some_seconds_of_chaos_lose_nothing() -> None:
    """A killed server, a stolen lease: each pod is bound once, none is lost, no node overfilled."""
    report = run(3.0, seed=59)
    assert report.findings.wrong == [], str(report)
    assert report.lost == [], str(report)
    assert report.findings.bindings >= report.made > 20, str(report)


def test_disasters_follow_from_the_seed() -> None:
    """The same seed gives the same disasters, another one others."""
    assert disasters(7, 60.0) == disasters(7, 60.0) != disasters(8, 60.0)
    assert {one.kind for one in disasters(7, 180.0)} == {"kill", "steal", "crash", "jump"}


def line(name: str, node: str, cpu: int = 600, **more: object) -> Line:
    """Return the server's record of a pod."""
    head = {"at": 1, "uid": name, "name": name, "node": node, "cpu": cpu}
    return {**head, "phase": "Pending", "gone": False, **more}


def test_each_kind_of_violation_is_reported() -> None:
    """Bound elsewhere, an overcommitted node, a rejection by a kubelet: each is reported."""
    nodes: list[Line] = [{"server": name, "cpu": 1000} for name in ("a", "b")]
    fine = [line("p", ""), line("p", "a"), line("p", "a", gone=True), line("q", "a")]
    for lines, wrong in (
        (fine, []),
        ([line("p", "a"), line("p", "b")], ["p was bound to a, then to 'b'"]),
        ([line("p", "a"), line("q", "a")], ["a is overcommitted by q: 1200 of 1000"]),
        ([line("p", "a"), line("p", "a", phase="Failed")], ["p was turned away by a"]),
        ([line("p", "a"), line("p", "a", phase="Succeeded"), line("q", "a")], []),
    ):
        assert read([*nodes, *lines]).wrong == wrong


def test_the_state_at_the_start_of_a_server_counts() -> None:
    """An absent object was deleted without a record; a bound one was bound."""
    lines: list[Line] = [{"server": "a", "cpu": 1000}, line("p", "a"), line("q", "")]
    again: list[Line] = [{"begins": 9}, line("q", "a"), {"begun": 9}]
    found = read([*lines, *again])
    assert found.wrong == []
    assert found.bindings == 2
    assert set(found.pods) == {"q"}
