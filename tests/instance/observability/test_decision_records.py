"""The decision log: what a line says of a decision, and what is left out."""

from __future__ import annotations

import json
import resource
from pathlib import Path
from typing import Any

import pytest

from policy_sched.instance.app import EmbeddedInstance, Sources
from policy_sched.instance.observability import DecisionRecord, DecisionRecorder, RotatedLog
from policy_sched.model import PodInfo
from policy_sched.profiles.reload import PolicyFiles
from policy_sched.scheduler import Scheduler
from policy_sched.scheduler.setup.factory import assemble, read
from policy_sched.testing import make_node, make_pod
from tests.scheduler.pod_groups import group
from tests.scheduler.test_pod_group_cycle import Run, member

PLANS = read(None, ())[0]


def recorded(scheduler: Scheduler, path: Path, *masked: str) -> DecisionRecorder:
    """Record the decisions of a scheduler, whose clock does not go."""
    scheduler.observers.timer = lambda: 0.0
    log = RotatedLog(str(path), None, lambda _reason: None)
    return DecisionRecorder(scheduler, log, masked, lambda: 10**18)


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a log."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def scheduler_of(*nodes: str, cpu: str = "2") -> Scheduler:
    """Return a scheduler with these nodes."""
    scheduler = assemble(PLANS)
    for name in nodes:
        scheduler.cache.add_node(make_node(name, cpu=cpu))
    return scheduler


def decide(scheduler: Scheduler, name: str, **spec: Any) -> None:
    """Decide a pod."""
    assert scheduler.add_pod(PodInfo.of(make_pod(name, **spec))) is None
    assert scheduler.schedule_one() is not None


def test_a_line_says_what_was_decided_and_why(tmp_path: Path) -> None:
    """A node with its scores, one that has to be emptied, and reasons with their nodes."""
    scheduler = scheduler_of("n1")
    recorder = recorded(scheduler, tmp_path / "log")
    decide(scheduler, "a", cpu="1", labels={"app": "web"})
    decide(scheduler, "b", cpu="2", priority=5)
    decide(scheduler, "c", cpu="9", labels={"owner": "x"})
    recorder.close()
    bound, preempting, nowhere = lines_of(tmp_path / "log")
    facts = {"time": 1e9, "pod": "default/a", "result": "scheduled", "attempt": 1, "node": "n1"}
    assert facts.items() <= bound.items()
    assert (bound["labels"], bound["evaluatedNodes"], bound["feasibleNodes"]) == (
        {"app": "web"},
        1,
        1,
    )
    pipeline = scheduler.profiles["default-scheduler"].pipeline
    assert (bound["profile"], bound["contentHash"]) == ("default-scheduler", pipeline.content_hash)
    assert len(bound["scores"]) <= 3
    assert sorted(bound["scores"].values(), reverse=True) == list(bound["scores"].values())
    assert sum(bound["scores"].values()) <= bound["score"]
    assert (preempting["result"], preempting["node"]) == ("preempting", "n1")
    assert preempting["victims"] == ["default/a"]
    assert nowhere["result"] == "unschedulable"
    assert nowhere["reasons"] == {"Insufficient cpu": 1}
    assert nowhere["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_each_pod_of_a_group_has_a_line(tmp_path: Path) -> None:
    """Those that are decided together, too."""
    run = Run(group("ring", 2), a=[4])
    recorder = recorded(run.scheduler, tmp_path / "log")
    run.add(member("p"), member("q"))
    while run.scheduler.schedule_one() is not None:
        pass
    recorder.close()
    lines = lines_of(tmp_path / "log")
    assert [(one["pod"].partition("/")[2], one["result"]) for one in lines] == [
        ("p", "scheduled"),
        ("q", "scheduled"),
    ]


def test_what_is_masked_is_left_out_and_named(tmp_path: Path) -> None:
    """As OPA's decision logs do; what a pod has not is not named."""
    scheduler = scheduler_of("n1")
    masked = ("labels.owner", "labels.other", "message", "uid", "reasons", "victims")
    recorder = recorded(scheduler, tmp_path / "log", *masked)
    decide(scheduler, "c", cpu="9", labels={"owner": "x", "app": "web"})
    recorder.close()
    text = (tmp_path / "log").read_text()
    (line,) = lines_of(tmp_path / "log")
    assert line["labels"] == {"app": "web"}
    assert line["masked"] == ["labels.owner", "message", "reasons", "uid"]
    assert "Insufficient" not in text
    assert not {"message", "reasons", "victims"} & line.keys()


def test_a_full_disk_stops_no_decision(tmp_path: Path) -> None:
    """Lines are dropped and counted, and the metric tells."""
    world = tmp_path / "policies"
    world.mkdir()
    instance = EmbeddedInstance(
        Sources(PolicyFiles(None, ()), [], None), lambda: 10**18, lambda _record: None
    )
    instance.record_decisions(str(tmp_path / "log"), ())
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    recorder = instance._decisions
    assert recorder is not None
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
        recorder._log.write(DecisionRecord(0.0, "a/b", "", "p", "scheduled", 1, "", 1, 0.0))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert "policy_sched_decision_log_lost_lines 1.0" in instance.metrics.text()
    instance.close()


@pytest.mark.parametrize("record", [DecisionRecord(1.0, "a/b", "u", "p", "error", 1, "", 0, 0.5)])
def test_what_is_empty_is_absent(record: DecisionRecord, tmp_path: Path) -> None:
    """A line is short where there is nothing to say."""
    log = RotatedLog(str(tmp_path / "log"), None, lambda _reason: None)
    log.write(record)
    log.close()
    (line,) = lines_of(tmp_path / "log")
    assert set(line) == {
        *("time", "pod", "uid", "profile", "result", "attempt", "contentHash", "generation"),
        "seconds",
    }
