"""Decision logs beside recordings and shadow logs: what they add, and what they cannot replace."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from policy_sched import replay as replays
from policy_sched.diff.shadow import summarize
from policy_sched.errors import PolicySchedError
from policy_sched.instance.observability.decision_records import DecisionRecord
from policy_sched.instance.shadow.log import Agreement, LoggedDecision
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.recording import Decided, Event
from policy_sched.replay.decisions import OwnDecisions
from tests.diff.test_shadow import START, compared
from tests.replay.recorded import CONFIG


def log_of(events: list[Event], content_hash: str, path: Path) -> Path:
    """Write the decisions of a recording as a decision log."""
    lines = []
    for event in events:
        if isinstance(event, Decided):
            kind = "scheduled" if event.node else "unschedulable"
            if event.nominated_node:
                kind = "preempting"
            record = DecisionRecord(
                event.time / 1e9,
                event.pod,
                event.uid,
                event.scheduler,
                kind,
                1,
                content_hash,
                1,
                0.001,
                node=event.node or event.nominated_node,
                message=event.message,
                victims=event.victims,
            )
            lines.append(msgspec.json.encode(record))
    path.write_bytes(b"\n".join(lines))
    return path


def test_a_log_has_the_decisions_of_a_recording_from_outside(
    events: list[Event], tmp_path: Path
) -> None:
    """In the order in which they were made; the hash of a profile finds the recorded set."""
    config = replays.compiled(PolicyFiles(CONFIG, ()))
    sets = {"set": config}
    log = log_of(events, config.plans[0].content_hash, tmp_path / "log")
    seen = [event for event in events if not isinstance(event, Decided)]
    logged = replays.logged_decisions([str(log)], sets)
    assert {one.policies for one in logged} == {"set"}
    merged = list(replays.with_decisions(seen, logged))
    assert {e.uid for e in merged if isinstance(e, Decided)} == {one.uid for one in logged}
    assert [e.time for e in merged] == sorted(e.time for e in merged)
    tally = OwnDecisions(config.plans, lambda _hash: config.plans, events[0].time).play(merged)
    assert sum(tally.results.values()) == len(logged)
    assert tally.results[Agreement.AGREE] >= 0.9 * len(logged)


def test_logged_decisions_stand_in_place_of_those_seen(events: list[Event]) -> None:
    """Of the same pods; those of other pods stay."""
    decided = [event for event in events if isinstance(event, Decided)]
    merged = list(replays.with_decisions(events, decided[:3]))
    uids = {one.uid for one in decided[:3]}
    after = [event for event in merged if isinstance(event, Decided)]
    assert [one.uid for one in after if one.uid in uids] == [one.uid for one in decided[:3]]
    assert [o for o in after if o.uid not in uids] == [d for d in decided if d.uid not in uids]


def test_a_shadow_learns_decisions_that_it_did_not_see(tmp_path: Path) -> None:
    """A pod without a response counts as the log says that it was decided."""
    ours = LoggedDecision("b", score=9)
    pods = [
        compared(name, LoggedDecision(), ours, Agreement.UNDECIDED) for name in ("same", "other")
    ]
    shadow = tmp_path / "shadow.jsonl"
    shadow.write_bytes(b"\n".join(map(msgspec.json.encode, (START, *pods))))
    log = tmp_path / "log.jsonl"
    records = [
        DecisionRecord(61.0, f"default/{name}", name, "p", "scheduled", 1, "h", 1, 0.1, node=node)
        for name, node in (("same", "b"), ("other", "a"))
    ]
    log.write_bytes(b"\n".join(map(msgspec.json.encode, records)))
    assert summarize([str(shadow)]).results == {Agreement.UNDECIDED: 2}
    summary = summarize([str(shadow), str(log)])
    assert summary.results == {Agreement.AGREE: 1, Agreement.DIFFER: 1}
    assert [(move.old, move.new) for move in summary.placements.moves] == [("a", "b")]


def test_a_decision_log_alone_has_nothing_to_be_compared_with(tmp_path: Path) -> None:
    """And another file is told by its line."""
    log = tmp_path / "log.jsonl"
    record = DecisionRecord(61.0, "default/p", "p", "p", "scheduled", 1, "h", 1, 0.1, node="a")
    log.write_bytes(msgspec.json.encode(record))
    with pytest.raises(PolicySchedError, match="a decision log has one side"):
        summarize([str(log)])
    log.write_bytes(msgspec.json.encode(record) + b"\n{}")
    with pytest.raises(PolicySchedError, match=":2: not a record of a decision log"):
        replays.logged_decisions([str(log)], {})
