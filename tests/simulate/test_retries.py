"""Pods that fitted nowhere are retried at once: the walk over the queue of a batch scheduler."""

from __future__ import annotations

import heapq
import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from policy_sched.cli.main import run
from policy_sched.model.formats import DURATION_ANNOTATION
from policy_sched.model.pod import Pod
from policy_sched.profiles.build import CompiledPlan
from policy_sched.scheduler.setup.factory import EPOCH, read
from policy_sched.simulate.one_shot import datetime_of
from policy_sched.simulate.timeline import play
from policy_sched.simulate.timeline_result import TimelineResult
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled

SECOND = 1_000_000_000
SHORTEST_FIRST = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: PrioritySort}
spec:
  queueSort:
  - {expression: 'duration(pod.annotations["policysched.dev/duration"])'}
  - {expression: int(pod.name)}
"""
Job = tuple[int, int, int]
"""Second of arrival, seconds of running, cpus."""
JOBS = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9), st.integers(1, 4)), max_size=30)


def job(number: int, arrives: int, runs: int, cpus: int, **spec: object) -> Pod:
    """Return the pod of a job."""
    item = make_pod(
        str(number), cpu=str(cpus), annotations={DURATION_ANNOTATION: f"{runs}s"}, **spec
    )
    item.metadata.creation_timestamp = datetime_of(EPOCH + arrives * SECOND)
    return item


def walked(jobs: list[Job], cpus: int) -> dict[int, int]:
    """Return when each job starts, by the walk: release, queue, then start what fits, in order."""
    free, waiting = cpus, list[int]()
    ends: list[tuple[int, int]] = []
    started: dict[int, int] = {}
    moments = sorted({arrives for arrives, _, _ in jobs})
    while moments or ends:
        now = min([*moments[:1], *(end for end, _ in ends[:1])])
        while ends and ends[0][0] == now:
            free += jobs[heapq.heappop(ends)[1]][2]
        if moments and moments[0] == now:
            moments.pop(0)
            waiting += [n for n, other_job in enumerate(jobs) if other_job[0] == now]
        for n in sorted(waiting, key=lambda n: (jobs[n][1], n)):
            if jobs[n][2] <= free:
                free -= jobs[n][2]
                started[n] = now
                waiting.remove(n)
                heapq.heappush(ends, (now + jobs[n][1], n))
    return started


def starts(result: TimelineResult) -> dict[int, int]:
    """Return the second at which each job was bound, counted from the first arrival's epoch."""
    by_key = {live.pod.split("/")[1]: live.bound for live in result.lives}
    return {int(name): (at - EPOCH) // SECOND for name, at in by_key.items() if at is not None}


@pytest.fixture(scope="module")
def shortest_first(tmp_path_factory: pytest.TempPathFactory) -> Sequence[CompiledPlan]:
    """Return the plans of the policy that orders jobs by duration."""
    path = tmp_path_factory.mktemp("policies") / "policy.yaml"
    path.write_text(SHORTEST_FIRST)
    return read(None, (str(path),))[0]


@settings(max_examples=scaled(60), deadline=None)
@given(JOBS)
def test_jobs_start_as_in_a_walk_over_the_whole_queue(
    shortest_first: Sequence[CompiledPlan], jobs: list[Job]
) -> None:
    """Whatever jobs come, each starts at the second at which a walk over all of them starts it."""
    pods = [job(n, *other_job) for n, other_job in enumerate(jobs)]
    result = play([make_node("n", cpu="4", pods="1000"), *pods], shortest_first, retry="AtOnce")
    assert starts(result) == walked(jobs, 4)


def test_pods_that_are_alike_are_tried_once_for_each_moment() -> None:
    """100 equal pods wait for one cpu: at each end the first is bound and only one more tried."""
    plans, _ = read(None, ())
    pods = [job(n, 0, 1, 1) for n in range(100)]
    result = play([make_node("n", cpu="1", pods="1000"), *pods], plans, retry="AtOnce")
    assert starts(result) == {n: n for n in range(100)}
    assert sum(live.attempts for live in result.lives) == 100 + 2 * 99 - 1


def test_a_pod_that_waits_for_another_one_follows_it_at_the_same_moment() -> None:
    """A pod with affinity to a later one is bound as soon as that one is bound."""
    plans, _ = read(None, ())
    near = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "b"}}, "topologyKey": "zone"}
            ]
        }
    }
    pods = [job(0, 0, 5, 1, affinity=near), job(1, 3, 5, 1, labels={"app": "b"})]
    result = play([make_node("n", cpu="4", labels={"zone": "a"}), *pods], plans, retry="AtOnce")
    assert starts(result) == {0: 3, 1: 3}


def test_what_fits_nowhere_ends_the_simulation() -> None:
    """A pod that never fits is reported, and virtual time does not run on for it."""
    plans, _ = read(None, ())
    pods = [job(0, 0, 5, 9), job(1, 2, 5, 1)]
    result = play([make_node("n", cpu="4"), *pods], plans, retry="AtOnce")
    assert starts(result) == {1: 2}
    assert result.end - result.start == 7 * SECOND
    assert "Insufficient cpu" in result.lives[0].message


def test_preemption_makes_room_without_a_backoff() -> None:
    """A preemptor starts when its victim's grace period is over, and the victim does not return."""
    plans, _ = read(None, ())
    low, high = job(0, 0, 99, 4), job(1, 1, 5, 4, priority=10)
    result = play([make_node("n", cpu="4"), low, high], plans, retry="AtOnce")
    assert starts(result) == {0: 0, 1: 31}


def test_the_option_goes_with_timeline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`simulate --timeline --retry at-once` starts the second job when the first one ends."""
    path = tmp_path / "jobs.jsonl"
    objects = [make_node("n", cpu="4"), job(0, 0, 7, 4), job(1, 1, 5, 4)]
    path.write_bytes(b"\n".join(msgspec.json.encode(obj) for obj in objects))
    command = ["simulate", str(path), "--retry", "at-once"]
    assert run(command) != 0
    assert "--retry goes with --timeline" in capsys.readouterr().err
    assert run([*command, "--timeline", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"]["attempts"] == 3
