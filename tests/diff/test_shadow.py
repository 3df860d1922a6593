"""The summary of a shadow's files: counts, moves, and the hypothetical usage of the nodes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import msgspec
import pytest

from policy_sched.cli.main import run
from policy_sched.diff.placement_diff import Move
from policy_sched.diff.shadow import ShadowSummary, summarize
from policy_sched.instance.shadow.log import (
    Agreement,
    Comparison,
    LoggedDecision,
    NodeFill,
    NodeSeen,
    PodGone,
    PodPlaced,
    ShadowRecord,
    Start,
)
from tests.web.reading import Page

BOTH = {"cpu": 4000, "pods": 10}
START = Start(
    0.0,
    "default-scheduler",
    "ours",
    (NodeFill("a", BOTH, {"cpu": 1000, "pods": 1}), NodeFill("b", BOTH)),
)


def compared(
    name: str, theirs: LoggedDecision, ours: LoggedDecision, result: Agreement, **difference: int
) -> Comparison:
    """Return a comparison of a pod of one core."""
    return Comparison(
        60.0,
        f"default/{name}",
        name,
        result,
        "default-scheduler",
        "ours",
        theirs,
        ours,
        difference=difference,
        requests={"cpu": 1000},
    )


MOVES = compared(
    "moves", LoggedDecision("a", score=3), LoggedDecision("b", score=9), Agreement.DIFFER, X=7, Y=-1
)
SAME = compared("same", LoggedDecision("b", score=5), LoggedDecision("b", score=5), Agreement.AGREE)
LOST = compared(
    "lost",
    LoggedDecision("a", rejected_by="Kept", reasons=("kept",)),
    LoggedDecision(None, "0/2"),
    Agreement.UNSCHEDULABLE,
)
WON = compared(
    "won", LoggedDecision(None, "0/2"), LoggedDecision("b", score=1), Agreement.SCHEDULABLE
)
SLOW = compared("slow", LoggedDecision(), LoggedDecision("b"), Agreement.UNDECIDED)
BROKEN = compared("broken", LoggedDecision("a"), LoggedDecision(None, "broke"), Agreement.ERROR)
MAKES_ROOM = compared(
    "room",
    LoggedDecision("b"),
    LoggedDecision("a", "0/2", preempts=True, victims=("default/v",)),
    Agreement.UNSCHEDULABLE,
)


def write(path: Path, *records: ShadowRecord) -> str:
    """Write a file, and return its name."""
    path.write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))
    return str(path)


def summary(tmp_path: Path, *records: ShadowRecord) -> ShadowSummary:
    """Return the summary of one file that begins with START."""
    return summarize([write(tmp_path / "log", START, *records)])


def used(summary: ShadowSummary) -> list[tuple[float, float]]:
    """Return mean and deviation of cpu as it is and as it would be."""
    placements = summary.placements
    return [
        (side.spread[0].mean, side.spread[0].deviation) for side in (placements.old, placements.new)
    ]


def test_a_shadow_report_counts_pods_with_another_node_or_none(tmp_path: Path) -> None:
    """Pods with another node, or with none; pods without a comparison are left out."""
    report = summary(tmp_path, MOVES, SAME, LOST, WON, SLOW, BROKEN, MAKES_ROOM)
    assert report.placements.pods == 5
    assert report.placements.moves == (
        Move("default/moves", "a", "b", ""),
        Move("default/lost", "a", None, "0/2"),
        Move("default/won", None, "b", ""),
        Move("default/room", "b", None, "0/2"),
    )
    assert dict(report.placements.counts) == {"moved": 1, "unschedulable": 2, "schedulable": 1}
    assert (report.placements.old.placed, report.placements.new.placed) == (4, 3)
    assert report.placements.new.preemptions == 1
    assert (report.placements.old.score, report.placements.new.score) == (4.0, 7.0)
    assert dict(report.rejections) == {"Kept": 1}
    assert dict(report.preferences) == {"X": 1}
    assert (report.since, report.until) == (0.0, 60.0)


def test_how_full_nodes_are_and_would_be(tmp_path: Path) -> None:
    """1000m on a from before; one pod moves from a to b."""
    report = summary(tmp_path, MOVES)
    assert used(report) == [(25.0, 25.0), (25.0, 0.0)]
    assert (report.placements.old.nodes_in_use, report.placements.new.nodes_in_use) == (1, 2)


def test_pods_that_are_gone_count_nowhere(tmp_path: Path) -> None:
    """Neither where they were nor where they would have been."""
    gone = PodGone("moves", "a", {"cpu": 1000})
    report = summary(tmp_path, MOVES, gone, PodGone("old", "a", {"cpu": 1000}))
    assert used(report) == [(0.0, 0.0), (0.0, 0.0)]
    assert report.placements.moves[0].pod == "default/moves"


def test_other_pods_and_nodes_count_as_they_come_and_go(tmp_path: Path) -> None:
    """A pod that is not compared, a node that is added, one that is deleted."""
    report = summary(
        tmp_path,
        PodPlaced("x", "b", {"cpu": 3000}),
        NodeSeen("c", BOTH),
        NodeSeen("a"),
        NodeSeen("nowhere"),
    )
    assert used(report)[0] == (37.5, 37.5)
    assert report.placements.nodes == 2


def test_of_each_pod_the_last_comparison_counts(tmp_path: Path) -> None:
    """It could not be placed, and then it was: its node is counted once."""
    first = compared("p", LoggedDecision(None, "0/2"), LoggedDecision("b"), Agreement.SCHEDULABLE)
    then = compared(
        "p", LoggedDecision("a", score=1), LoggedDecision("a", score=1), Agreement.AGREE
    )
    report = summary(tmp_path, first, then, then)
    assert report.results == {Agreement.AGREE: 1}
    assert used(report) == [(25.0, 25.0), (25.0, 25.0)]
    undecided = summary(tmp_path, first)
    assert used(undecided)[1] == (25.0, 0.0)


def test_files_that_were_rotated_are_one(tmp_path: Path) -> None:
    """A file that continues keeps the hypothetical state; after a gap it starts anew."""
    first = write(tmp_path / "log.1", START, MOVES)
    with gzip.open(tmp_path / "log.2.gz", "wb") as file:
        file.write(Path(first).read_bytes())
    fill = (NodeFill("a", BOTH, {"cpu": 2000, "pods": 2}), NodeFill("b", BOTH))
    later = msgspec.structs.replace(START, nodes=fill, time=90.0, continues=True)
    second = write(tmp_path / "log", later)
    report = summarize([str(tmp_path / "log.2.gz"), second])
    assert used(report) == [(25.0, 25.0), (25.0, 0.0)]
    assert report.until == 90.0
    gap = write(tmp_path / "gap", msgspec.structs.replace(later, continues=False))
    assert used(summarize([first, gap])) == [(25.0, 25.0), (25.0, 25.0)]


def test_the_text_names_the_causes_and_what_is_left_out(tmp_path: Path) -> None:
    """The table is diff's own."""
    lines = list(summary(tmp_path, MOVES, LOST, SLOW, BROKEN).text_lines())
    assert lines[:2] == [
        "pods of default-scheduler, 1970-01-01T00:00:00Z to 1970-01-01T00:01:00Z",
        "OLD is what default-scheduler did, NEW what profile ours would have done",
    ]
    assert "2 pods on 2 nodes: 1 move, 1 become unschedulable, 0 schedulable" in lines
    assert lines[lines.index("Why pods would be elsewhere:") :] == [
        "Why pods would be elsewhere:",
        "    1  Kept rejects the node",
        "    1  X prefers another node",
        "",
        "Left out: 1 pod that default-scheduler did not respond to",
        "",
        "Left out: 1 pod that could not be decided",
    ]
    assert "Why pods would be elsewhere:" not in list(summary(tmp_path).text_lines())


def test_fail_on_regression_exits_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pod without a node, or a decision that breaks, is a regression; a move is none."""
    good = write(tmp_path / "good", START, MOVES)
    lost = write(tmp_path / "lost", START, LOST)
    broken = write(tmp_path / "broken", START, BROKEN)
    requested = ["--fail-on", "regression", "-o", "json"]
    assert run(["diff", "--shadow", good, *requested]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["shadow"]["results"]["differ"] == 1
    assert document["placements"]["moved"] == 1
    assert run(["diff", "--shadow", lost, *requested]) == 1
    assert run(["diff", "--shadow", broken, *requested]) == 1
    capsys.readouterr()
    assert run(["diff", "--shadow", lost]) == 0
    assert "become unschedulable" in capsys.readouterr().out


def test_lines_that_were_broken_off_are_named_and_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a process that was killed leaves one."""
    path = tmp_path / "log"
    write(path, START, MOVES)
    path.write_bytes(path.read_bytes() + b'\n{"record":"pod","ti')
    assert run(["diff", "--shadow", str(path)]) == 0
    assert capsys.readouterr().err == f"{path}:4: left out, it is no whole record\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["old", "new", "--shadow", "LOG"], "--shadow does not go together with OLD, NEW"),
        (["old"], "diff needs two policy sets, OLD and NEW, or --shadow LOG"),
        (["--shadow", "nowhere"], "nowhere"),
        (["--shadow", "WRONG"], ":1: not a shadow log: it begins with no start"),
        (["--shadow", "EMPTY"], "there are no records"),
    ],
)
def test_wrong_usage_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    """Exit code 2, and a message."""
    write(tmp_path / "LOG", START)
    write(tmp_path / "WRONG", MOVES)
    (tmp_path / "EMPTY").touch()
    named = [str(tmp_path / argument) if argument.isupper() else argument for argument in arguments]
    assert run(["diff", *named]) == 2
    assert words in capsys.readouterr().err


def test_a_report_shows_what_the_text_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was compared, why pods would be elsewhere, and each pod that moves."""
    log, file = write(tmp_path / "log", START, MOVES, SAME, LOST, WON, SLOW), tmp_path / "a.html"
    assert run(["diff", "--shadow", log, "--report", str(file)]) == 0
    page = Page(file.read_text(encoding="utf-8"))
    text = " ".join(capsys.readouterr().out.split())
    for line in (
        "OLD is what default-scheduler did, NEW what profile ours would have done",
        "4 pods on 2 nodes: 1 move, 1 become unschedulable, 1 schedulable",
        "Left out: 1 pod that default-scheduler did not respond to",
    ):
        assert line in text
        assert line in page.text
    assert page.table("The plugin that decides").rows[1:] == [
        ["Kept rejects the node", "1"],
        ["X prefers another node", "1"],
    ]
    assert page.table("Pods that lose their node").rows[1:] == [["default/lost", "a", "0/2"]]
    assert page.table("Pods that change their node").rows[1:] == [["default/moves", "a", "b"]]
