"""Amounts over time, and lives.

The report of a timeline, as text and as data.
"""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from policy_sched.errors import PolicySchedError
from policy_sched.report import jsonl_text
from policy_sched.simulate.timeline_result import (
    SECOND,
    Buckets,
    PodTimeline,
    StepFunction,
    TimelineEviction,
    TimelineResult,
    WaitingTimes,
    bucket_width,
    duration_text,
    never_placed,
    victims_of,
    waiting_by_priority,
)


def test_a_pod_waits_from_creation_to_binding() -> None:
    """A pod that was not bound has no waiting time."""
    assert PodTimeline("p", 0, created=5).waited is None
    assert PodTimeline("p", 0, created=5, bound=12).waited == 7


def test_only_changes_are_kept() -> None:
    """The last of several amounts at one instant counts."""
    steps = StepFunction()
    for time, value in ((0, 1), (5, 1), (7, 2), (7, 3), (9, 4)):
        steps.note(time, value)
    assert (steps.times, steps.values) == ([0, 7, 9], [1, 3, 4])


def test_an_amount_that_never_was_is_zero() -> None:
    """Nothing was noted."""
    mean, peak = StepFunction().summed(np.array([0, 10, 20], np.int64))
    assert mean.tolist() == [0, 0]
    assert peak.tolist() == [0, 0]


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=12),
    st.sets(st.integers(0, 70), min_size=2, max_size=6),
)
def test_means_and_peaks_are_those_of_every_instant(
    changes: list[tuple[int, int]], cuts: set[int]
) -> None:
    """A sum over every nanosecond."""
    steps = StepFunction()
    by_time = [0] * 71
    for time, value in sorted(changes, key=lambda change: change[0]):
        steps.note(time, value)
        by_time[time:] = [value] * (71 - time)
    edges = sorted(cuts)
    mean, peak = steps.summed(np.array(edges, np.int64))
    for i, (a, b) in enumerate(pairwise(edges)):
        here = by_time[a:b]
        assert abs(mean[i] - sum(here) / len(here)) < 1e-6
        assert peak[i] == max(here)


def result_of(*lives: PodTimeline, seconds: int = 100) -> TimelineResult:
    """Return a result in which half of a node of 4 cpu is used from second 10 on."""
    used, allocatable = StepFunction(), StepFunction()
    allocatable.note(0, 4000)
    used.note(10 * SECOND, 2000)
    return TimelineResult(
        start=0,
        end=seconds * SECOND,
        nodes=1,
        lives=lives,
        evictions=(
            TimelineEviction(0, "a", "n", ("b", "c")),
            TimelineEviction(1, "a", "n", ("d",)),
        ),
        pending=StepFunction([20 * SECOND, 21 * SECOND], [5, 0]),
        running=StepFunction([10 * SECOND], [1]),
        used={"cpu": used},
        allocatable={"cpu": allocatable},
        seconds=0.0,
    )


def bound(waited: int, priority: int = 0) -> PodTimeline:
    """Return a pod that waited so many nanoseconds."""
    return PodTimeline(f"p{waited}", priority, created=0, bound=waited)


def test_percentiles_are_of_the_nearest_rank() -> None:
    """A time that a pod really waited, within which so many of a hundred were bound."""
    waiting = WaitingTimes.of(bound(waited) for waited in range(200, 0, -1))
    assert waiting == WaitingTimes(200, 100, 180, 198, 200)
    assert WaitingTimes.of([bound(7)]) == WaitingTimes(1, 7, 7, 7, 7)
    assert WaitingTimes.of([PodTimeline("p", 0, 0)]) == WaitingTimes(0, 0, 0, 0, 0)


def test_waiting_times_go_by_priority_the_highest_first() -> None:
    """A priority of which no pod was bound is there with none."""
    waiting_times = waiting_by_priority(result_of(bound(3), bound(9, 10), PodTimeline("p", 5, 0)))
    assert list(waiting_times) == [10, 5, 0]
    assert [waiting.pods for waiting in waiting_times.values()] == [1, 0, 1]


def test_pods_without_a_node_and_victims_are_counted() -> None:
    """Pods that were never bound; pods that were evicted."""
    scenario = result_of(bound(3), PodTimeline("lost", 0, 0))
    assert [life.pod for life in never_placed(scenario)] == ["lost"]
    assert victims_of(scenario) == 3


def test_stretches_have_mean_shares_and_the_longest_queue() -> None:
    """The last one is the rest."""
    buckets = Buckets.of(replace(result_of(), bucket=40 * SECOND))
    assert buckets.edges.tolist() == [0, 40 * SECOND, 80 * SECOND, 100 * SECOND]
    assert buckets.pending.tolist() == [5, 0, 0]
    assert buckets.running.tolist() == [0.75, 1, 1]
    assert buckets.percent["cpu"].tolist() == [37.5, 50, 50]
    assert buckets.used["cpu"][1].tolist() == [2000, 2000, 2000]


def test_a_simulation_without_time_is_one_bucket() -> None:
    """Everything happened at once."""
    assert Buckets.of(replace(result_of(seconds=0), bucket=SECOND)).pending.tolist() == [0]


def test_too_many_stretches_are_refused() -> None:
    """A report of a million lines is refused."""
    with pytest.raises(PolicySchedError, match="1,000,000 buckets of 0s are too many"):
        Buckets.of(replace(result_of(seconds=1), bucket=1000))


def test_a_stretch_is_a_length_that_people_think_in() -> None:
    """There are some two dozen of them at most."""
    assert bucket_width(result_of(seconds=100)) == 5 * SECOND
    assert bucket_width(result_of(seconds=86400)) == 3600 * SECOND
    assert bucket_width(result_of(seconds=100 * 365 * 86400)) == 365 * 86400 * SECOND


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.25, "0.25s"),
        (59, "59s"),
        (90, "1m30s"),
        (3600, "1h00m"),
        (7384, "2h03m"),
        (90000, "1d01h"),
    ],
)
def test_lengths_of_time_are_short(seconds: float, text: str) -> None:
    """The two largest units."""
    assert duration_text(round(seconds * SECOND)) == text


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
    document = STORY.document()
    assert document["summary"] == {
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
    assert document["waiting"]["byPriority"]["10"] == {
        "pods": 1,
        "p50": 30.0,
        "p90": 30.0,
        "p99": 30.0,
        "max": 30.0,
    }
    first, second = document["buckets"]
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
    assert document["preemptions"] == [
        {"at": 30.0, "pod": "default/b", "node": "n1", "victims": ["default/a"]}
    ]
    assert document["neverPlaced"] == [{"pod": "default/c", "message": "0/1 nodes are available"}]


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
