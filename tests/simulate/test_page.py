"""Pages of runs and timelines: groups of pods without a node, and waiting times by interval."""

from __future__ import annotations

import numpy as np

from policy_sched.simulate import NodeUsage, OneShotRun, run_page, timeline_result
from policy_sched.simulate.page import grouped
from policy_sched.simulate.report import PodPlacement
from policy_sched.web import report
from tests.web.reading import Page


def lost(pod: str, *reasons: str) -> PodPlacement:
    """Return a pod without a node."""
    return PodPlacement(pod, None, "0/9 nodes are available", 0, None, "1", "1Gi", reasons)


def run_of(*placements: PodPlacement) -> OneShotRun:
    """Return a run with these placements on one node."""
    return OneShotRun(1, placements, {}, (), (), 0.0)


def test_pods_are_grouped_by_their_first_reason() -> None:
    """The reason of most nodes comes first in a pod's reasons; the largest group comes first."""
    pods = [lost("a", "cpu", "taint"), lost("b", "taint"), lost("c", "taint", "cpu"), lost("d")]
    items = [(reason, [item.pod for item in group]) for reason, group in grouped(pods)]
    assert items == [("taint", ["b", "c"]), ("0/9 nodes are available", ["d"]), ("cpu", ["a"])]


def test_the_answer_names_the_reason_of_most_pods() -> None:
    """The sentence below the heading says why, before any number."""
    some = run_page(run_of(lost("a", "cpu"), lost("b", "taint"), lost("c", "taint")), [])
    assert some.lead == "Most often a pod has no node for this reason: taint"
    item = run_page(run_of(lost("a", "cpu")), [])
    assert item.lead == "The pod that has no node has one reason on most nodes: cpu"


def test_a_run_over_nothing_has_a_page() -> None:
    """Without pods and nodes there is a heading and no table."""
    page = Page(report(run_page(OneShotRun(0, (), {}, (), (), 0.0), [])))
    assert page.headings == [(1, "0 of 0 pods placed on 0 nodes")]
    assert page.tables == []


def test_many_nodes_are_cells_and_the_fullest_are_rows() -> None:
    """Each node has a cell; the table has the fullest hundred, and says that there are more."""
    usages = [NodeUsage(f"n{i}", i, {"cpu": (i, 200)}) for i in range(150)]
    page = Page(report(run_page(OneShotRun(150, (), {}, (), (), 0.0), usages)))
    rows = page.table("The fullest nodes first").rows[1:]
    assert len(rows) == 100
    assert rows[0] == ["n149", "149", "74.5 %"]
    assert "and 50 more, which --output json has" in page.text
    assert len([a for _, a in page.elements if (a.get("title") or "").startswith("n")]) == 150


def test_a_node_without_a_resource_has_no_share_of_it() -> None:
    """Nothing allocatable is no share, not an empty one."""
    usage = NodeUsage("n", 0, {"cpu": (500, 1000)})
    assert usage.share("cpu") == 0.5
    assert usage.share("memory") is None


def test_waiting_times_belong_to_the_interval_of_the_binding() -> None:
    """A pod counts where it was bound; the end of the last interval belongs to it."""
    lives = [
        timeline_result.PodTimeline("a", 0, 0, 5),
        timeline_result.PodTimeline("b", 0, 5, 10),
        timeline_result.PodTimeline("c", 0, 0),
    ]
    empty = timeline_result.StepFunction()
    result = timeline_result.TimelineResult(0, 10, 1, lives, [], empty, empty, {}, {}, 0.0)
    waiting = timeline_result.waiting_over(result, np.array([0, 5, 10], np.int64))
    assert [item.pods for item in waiting] == [0, 2]
    assert waiting[1].longest == 5
