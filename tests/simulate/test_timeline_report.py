"""The report of a timeline, as text and as data."""

from __future__ import annotations

import json

from policy_sched.report import jsonl_text
from policy_sched.simulate.timeline_result import (
    PodTimeline,
    StepFunction,
    TimelineEviction,
    TimelineResult,
)

SECOND = 1_000_000_000
START = 1_767_225_600 * SECOND

LIVES = (
    PodTimeline("default/a", 0, START, START, START + 60 * SECOND, "n1", evicted=True, attempts=1),
    PodTimeline("default/b", 10, START + 30 * SECOND, START + 60 * SECOND, None, "n1", attempts=2),
    PodTimeline("default/c", 0, START, attempts=3, message="0/1 nodes are available"),
)
STORY = TimelineResult(
    start=START,
    end=START + 120 * SECOND,
    nodes=1,
    lives=LIVES,
    evictions=(TimelineEviction(START + 30 * SECOND, "default/b", "n1", ("default/a",)),),
    pending=StepFunction([START, START + 30 * SECOND, START + 60 * SECOND], [1, 2, 1]),
    running=StepFunction([START], [1]),
    used={"cpu": StepFunction([START], [1500]), "nvidia.com/gpu": StepFunction([START], [1])},
    allocatable={
        "cpu": StepFunction([START], [2000]),
        "nvidia.com/gpu": StepFunction([START], [8]),
    },
    seconds=0.5,
    bucket=60 * SECOND,
)

TABLE = """\
2 of 3 pods placed on 1 node
  makespan      2m00s
  attempts      6
  preemptions   1, of 1 pod
  longest queue 2

WAITING       PODS   P50   P90   P99   MAX
all              2    0s   30s   30s   30s
priority 10      1   30s   30s   30s   30s
priority 0       1    0s    0s    0s    0s

FROM    QUEUE   RUNNING      CPU      GPU
0s          2       1.0   75.0 %   12.5 %
1m00s       1       1.0   75.0 %   12.5 %

Preemptions:
  30s  default/b takes n1 from default/a

Never placed:
  default/c  0/1 nodes are available
"""


def test_the_table_is_for_people() -> None:
    """Summary, waiting times by priority, stretches of time, preemptions, pods without a node."""
    assert "".join(f"{line}\n" for line in STORY.text_lines()) == TABLE
    assert STORY.speed_line() == "2m00s played in 0.5 s, 6 attempts"


def test_the_document_is_for_programs() -> None:
    """Seconds since the start, quantities, and everything by name."""
    found = STORY.document()
    assert found["summary"] == {
        "start": "2026-01-01T00:00:00Z",
        "makespan": 120.0,
        "nodes": 1,
        "pods": 3,
        "placed": 2,
        "ended": 0,
        "attempts": 6,
        "preemptions": 1,
        "evicted": 1,
        "longestQueue": 2,
        "policies": [],
    }
    assert found["waiting"]["byPriority"]["10"] == {
        "pods": 1,
        "p50": 30.0,
        "p90": 30.0,
        "p99": 30.0,
        "max": 30.0,
    }
    first, second = found["buckets"]
    assert first == {
        "from": 0.0,
        "queue": 2,
        "running": 1.0,
        "resources": {
            "cpu": {"mean": "1500m", "peak": "1500m", "percent": 75.0},
            "nvidia.com/gpu": {"mean": "1", "peak": "1", "percent": 12.5},
        },
    }
    assert second["from"] == 60.0
    assert found["preemptions"] == [
        {"at": 30.0, "pod": "default/b", "node": "n1", "victims": ["default/a"]}
    ]
    assert found["neverPlaced"] == [{"pod": "default/c", "message": "0/1 nodes are available"}]


def test_one_line_per_pod_shows_its_life_cycle() -> None:
    """In order of arrival; events that did not happen are null."""
    a, b, c = map(json.loads, jsonl_text(STORY.records()).splitlines())
    assert a == {
        "pod": "default/a",
        "priority": 0,
        "created": 0.0,
        "bound": 0.0,
        "ended": 60.0,
        "waited": 0.0,
        "node": "n1",
        "attempts": 1,
        "evicted": True,
        "message": "",
    }
    assert (b["waited"], b["ended"]) == (30.0, None)
    assert (c["bound"], c["node"], c["message"]) == (None, None, "0/1 nodes are available")


def test_long_lists_are_cut_in_the_table() -> None:
    """The table lists ten of them and the number of the others."""
    lost = tuple(PodTimeline(f"default/p{i}", 0, START, message="no") for i in range(13))
    scenario = TimelineResult(
        START, START, 0, lost, (), StepFunction(), StepFunction(), {}, {}, 0.0
    )
    lines = list(scenario.text_lines())
    assert lines[-2:] == ["  default/p9  no", "  ... and 3 more"]
