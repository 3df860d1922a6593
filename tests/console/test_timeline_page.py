"""The timeline page: the numbers of `simulate --timeline`, and the state at any moment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policy_sched.cli.main import run
from policy_sched.console.pages import timeline
from policy_sched.console.pages.page import Query
from policy_sched.console.trials import TimelineQuestion, packed
from policy_sched.errors import PolicySchedError
from policy_sched.simulate import TimelineResult, duration_text
from policy_sched.web import Table
from tests.console.browsing import of_files, pages
from tests.console.files import put

NODE = (
    "apiVersion: v1\nkind: Node\nmetadata: {name: NAME}\n"
    "status: {allocatable: {cpu: '2', memory: 8Gi, pods: '20'}}\n---\n"
)
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: NAME
  namespace: default
  creationTimestamp: "2026-01-01T00:MINUTE:00Z"
  annotations: {policysched.dev/duration: 10m}
spec: {priority: PRIORITY, containers: [{name: c, resources: {requests: {cpu: "1"}}}]}
---
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two nodes, and a pod each minute; every fourth preempts."""
    path = tmp_path_factory.mktemp("day") / "day.yaml"
    nodes = "".join(NODE.replace("NAME", f"n{i}") for i in range(2))
    pods = "".join(
        POD.replace("NAME", f"p{i}")
        .replace("MINUTE", f"{i:02}")
        .replace("PRIORITY", "0" if i % 4 else "9")
        for i in range(30)
    )
    put(path, nodes + pods)
    return path


@pytest.fixture(scope="module")
def result(cluster: Path) -> TimelineResult:
    """The simulation of the cluster."""
    source = of_files([cluster])
    return TimelineQuestion(source.store.current.plans, packed(source.objects())).result()


def test_the_summary_is_that_of_simulate(
    cluster: Path, result: TimelineResult, capsys: pytest.CaptureFixture[str]
) -> None:
    """Placed pods, longest queue, preemptions and attempts are those that are printed."""
    from tests.console.browsing import FILES  # noqa: PLC0415

    words = ["simulate", str(cluster), "--timeline", "--config", str(FILES.config)]
    run([*words, "--policies", FILES.policies[0], "-o", "json"])
    printed = json.loads(capsys.readouterr().out)
    shown = timeline.values(result)
    numbers = {fact.name: fact.value for fact in shown["summary"].facts.facts}
    summary = printed["summary"]
    assert numbers["Pods placed"] == str(summary["placed"])
    assert numbers["Longest queue"] == str(summary["longestQueue"])
    assert numbers["Preemptions"] == str(summary["preemptions"])
    assert numbers["Attempts"] == str(summary["attempts"])
    assert summary["preemptions"] > 0
    (intervals,) = next(fact for fact in shown["sections"] if fact.title == "Intervals").blocks
    assert isinstance(intervals, Table)
    assert [(row[1], row[2]) for row in intervals.rows] == [
        (str(fact["queue"]), f"{fact['running']:.1f}") for fact in printed["buckets"]
    ]


def test_the_slider_goes_through_the_times_of_the_curves(result: TimelineResult) -> None:
    """Every curve has a value for each position, and curves are not shown twice."""
    shown = timeline.values(result)
    lengths = {len(chart.x) for chart in shown["charts"]}
    lengths |= {len(series.values) for chart in shown["charts"] for series in chart.series}
    assert lengths == {shown["last"] + 1} == {len(shown["times"])}
    assert {chart.x_name for chart in shown["charts"]} == {shown["axis"]}
    assert "Over time" not in [chart.title for chart in shown["sections"]]


def test_a_moment_names_the_pods_that_wait(result: TimelineResult) -> None:
    """At every moment of the slider the list is as long as the queue is."""
    times = timeline.moments(result)
    queues = [result.pending.at(time) for time in times]
    assert [len(timeline.waiting_at(result, time)) for time in times] == queues
    assert max(queues) > 0
    number = queues.index(max(queues))
    section = timeline.moment(result, number)
    assert section.title == f"After {duration_text(times[number] - result.start)}"
    assert timeline.moment(result, 10**8).title == f"After {timeline.values(result)['times'][-1]}"


def test_the_page_and_its_parts_are_served(cluster: Path) -> None:
    """The choices are in the address, and the parts come as fragments."""
    paths = (
        "/timeline?seed=3&retry=at-once",
        "/timeline/result?seed=3&retry=at-once",
        "/timeline/at?seed=3&at=5",
        "/timeline/result?until=soon",
        "/timeline/result?retry=never",
        "/timeline/result?until=10m",
    )
    page, document, at, soon, never, short = pages(of_files([cluster]), *paths)
    assert 'hx-get="/timeline/result?seed=3&amp;retry=at-once"' in page
    assert 'type="range"' in document
    assert "Pods that wait" in at
    assert "no length of time" in soon
    assert "at-once" in never
    assert "10m00s" in short


def test_nothing_that_happens_is_said(tmp_path: Path) -> None:
    """A cluster without pods, and one whose pods arrive all at once, have a sentence."""
    put(tmp_path / "nodes.yaml", NODE.replace("NAME", "n0"))
    (text,) = pages(of_files([tmp_path / "nodes.yaml"]), "/timeline/result")
    assert "no pending pods" in text
    pod = POD.replace("MINUTE", "00").replace("PRIORITY", "0")
    pod = "".join(line for line in pod.splitlines(keepends=True) if "annotations" not in line)
    put(tmp_path / "nodes.yaml", NODE.replace("NAME", "n0") + pod.replace("NAME", "p0"))
    (text,) = pages(of_files([tmp_path / "nodes.yaml"]), "/timeline/result")
    assert "Everything happens at one moment" in text


def test_choices_that_make_no_sense_are_refused() -> None:
    """A length of time is positive, and a retry is known."""
    for until in ("x", "-5m", "0s"):
        with pytest.raises(PolicySchedError):
            timeline.Choices.of(Query("", {"until": until}))
    assert timeline.Choices.of(Query("", {"until": "1h"})).until == 3600 * 10**9
