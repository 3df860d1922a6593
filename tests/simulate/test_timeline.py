"""Virtual time: how long each pod waits, to the nanosecond.

The known future events of a simulation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from policy_sched.model.cluster_objects import Node
from policy_sched.model.formats import DURATION_ANNOTATION
from policy_sched.model.meta import ApiObject, OwnerReference
from policy_sched.model.pod import Pod, PodResourceClaim
from policy_sched.model.resource import ResourceClaimTemplate
from policy_sched.report import json_text, jsonl_text
from policy_sched.scheduler.setup.factory import EPOCH, read
from policy_sched.simulate.one_shot import datetime_of
from policy_sched.simulate.timeline import FutureEventKind, FutureEvents, play
from policy_sched.simulate.timeline_result import PodTimeline, TimelineResult
from policy_sched.simulate.traces import generated_nodes, load_traces
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled
from tests.plugins.dynamicresources.world import device_class, resource_slice

POLICIES = Path(__file__).parents[2] / "policies"
SECOND = 1_000_000_000
DEFAULT = read(None, ())
BROKEN_FOR_A_WHILE = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Broken}
spec:
  filter:
  - expression: now - pod.creationTime > duration("6s") || 1 / size(node.taints) == 0
    message: broken
    onError: Abort
"""


def pod(name: str, at: float | None, runs: str = "", *, owner: str = "", **spec: object) -> Pod:
    """Return a pod of 1 cpu that is created ``at`` seconds after the start."""
    item = make_pod(
        name, cpu="1", annotations={DURATION_ANNOTATION: runs} if runs else None, **spec
    )
    if at is not None:
        item.metadata.creation_timestamp = datetime_of(EPOCH + round(at * SECOND))
    if owner:
        reference = OwnerReference(kind=owner, name="owner", controller=True)
        item.metadata.owner_references = (reference,)
    return item


def node(name: str = "n1", at: float | None = None) -> Node:
    """Return a node of 1 cpu that is created ``at`` seconds after the start."""
    item = make_node(name, cpu="1")
    if at is not None:
        item.metadata.creation_timestamp = datetime_of(EPOCH + round(at * SECOND))
    return item


def played(objects: Sequence[ApiObject], policies: Sequence[str] = ()) -> TimelineResult:
    """Simulate a cluster."""
    plans, _ = read(None, policies) if policies else DEFAULT
    return play(objects, plans)


def lives_of(scenario: TimelineResult) -> dict[str, PodTimeline]:
    """Return the lives by the name of the pod."""
    return {life.pod.partition("/")[2]: life for life in scenario.lives}


def bound_at(scenario: TimelineResult, name: str) -> float | None:
    """Return when a pod was bound, in seconds since the start."""
    bound = lives_of(scenario)[name].bound
    return None if bound is None else (bound - EPOCH) / SECOND


def test_a_pod_waits_for_the_end_of_another() -> None:
    """It is bound at the instant at which the other one ends."""
    scenario = played([node(), pod("first", 0, "100s"), pod("second", 10.25, "1h")])
    first, second = scenario.lives
    assert (bound_at(scenario, "first"), first.waited, first.attempts) == (0, 0, 1)
    assert bound_at(scenario, "second") == 100
    assert second.waited == 89_750_000_000
    assert second.ended == EPOCH + 3700 * SECOND
    assert scenario.end - scenario.start == 3700 * SECOND


def test_a_pod_waits_for_the_device_of_another() -> None:
    """A claim is made of a template for each pod, and frees its device when the pod has ended."""
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    plain = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    template = msgspec.convert(
        {"metadata": {"name": "one", "namespace": "default"}, "spec": {"spec": plain}},
        ResourceClaimTemplate,
    )
    entry = (PodResourceClaim(name="gpu", resource_claim_template_name="one"),)
    pods = [pod(name, at, "60s", resource_claims=entry) for name, at in (("a", 0), ("b", 1))]
    machine = make_node("n1", cpu="8")
    devices = [device_class(), resource_slice("n1", ["d0"]), template]
    lives = lives_of(played([machine, *devices, *pods]))
    assert [life.waited for life in lives.values()] == [0, 59 * SECOND]


def test_pods_that_wait_go_by_priority() -> None:
    """When resources are freed, the queue's order counts, not that of arrival."""
    scenario = played(
        [
            node(),
            pod("runs", 0, "100s", priority=5),
            pod("low", 1, "10s"),
            pod("high", 2, "10s", priority=5),
        ]
    )
    assert bound_at(scenario, "high") == 100
    assert bound_at(scenario, "low") == 110


def test_backoffs_are_those_of_the_queue(tmp_path: Path) -> None:
    """An error is tried again after 1, 2 and 4 s, at the end of the second in which that is."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(BROKEN_FOR_A_WHILE, encoding="utf-8")
    scenario = played([node(), pod("p", 0, "1s")], [str(policy)])
    (life,) = scenario.lives
    # In vain at 0, 2 and 5: a backoff ends with the second in which its time is up.
    assert (bound_at(scenario, "p"), life.attempts) == (10, 4)


def test_a_preempting_pod_waits_for_the_grace_period() -> None:
    """The victim leaves when its time is up, and the pod is bound at that instant."""
    scenario = played(
        [
            node(),
            pod("low", 0, termination_grace_period_seconds=7),
            pod("high", 60, "100s", priority=10),
        ]
    )
    lives = lives_of(scenario)
    assert bound_at(scenario, "high") == 67
    assert lives["low"].evicted
    assert lives["low"].ended == EPOCH + 67 * SECOND
    (eviction,) = scenario.evictions
    assert (eviction.at, eviction.pod) == (EPOCH + 60 * SECOND, "default/high")
    assert (eviction.node, eviction.victims) == ("n1", ("default/low",))
    assert list(lives) == ["low", "high"], "a pod without a controller is not recreated"


def test_a_preemptor_does_not_preempt_again() -> None:
    """While its victim leaves, a pod that is tried again evicts no other pod."""
    low = {"termination_grace_period_seconds": 100}
    tainted = make_node("tainted", cpu="1", labels={"for": "short"}, taints=["a=b:NoSchedule"])
    toleration = {"key": "a", "operator": "Exists"}
    short = pod("short", 0, "70s", tolerations=[toleration], node_selector={"for": "short"})
    pods = [pod("a", 0, **low), pod("b", 0, **low), pod("high", 60, "100s", priority=10)]
    scenario = played([node("n1"), node("n2"), tainted, *pods, short])
    assert [len(eviction.victims) for eviction in scenario.evictions] == [1]
    assert bound_at(scenario, "high") == 160
    assert lives_of(scenario)["high"].attempts == 3, "it was tried when the short pod ended"


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_what_a_controller_made_comes_again(kind: str) -> None:
    """Under another name, and it runs from the beginning."""
    scenario = played(
        [node(), pod("low", 0, "80s", owner=kind), pod("high", 60, "100s", priority=10)]
    )
    again = lives_of(scenario)["low-again-1"]
    assert bound_at(scenario, "high") == 80, "the victim ends before its grace period does"
    created = 60 if kind == "ReplicaSet" else 90
    assert (again.created - EPOCH) / SECOND == created
    assert bound_at(scenario, "low-again-1") == 180
    assert again.ended == EPOCH + 260 * SECOND


@pytest.mark.parametrize(("runs", "together"), [(100, 100), (200, 200)])
def test_a_gang_is_bound_together(runs: int, together: int, tmp_path: Path) -> None:
    """A single worker holds a node for two minutes at most; both run when both fit."""
    jobs = tmp_path / "jobs.csv"
    rows = ("submit_s,duration_s,num_gpus,vc", f"0,{runs},8,vc", "1,60,16,vc")
    jobs.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    objects = [*generated_nodes(["2*nvidia.com/gpu=8"]), *load_traces([str(jobs)]).objects]
    scenario = played(objects, [str(POLICIES / "gang")])
    assert bound_at(scenario, "job-000000-0") == 0
    assert [bound_at(scenario, f"job-000001-{i}") for i in range(2)] == [together, together]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 60), st.integers(1, 40), st.integers(0, 3), st.sampled_from(("", "Job"))
        ),
        min_size=1,
        max_size=12,
    ),
    st.integers(1, 3),
)
@settings(max_examples=scaled(40), deadline=None)
def test_every_pod_gets_its_time(
    arrivals: list[tuple[int, int, int, str]], node_count: int
) -> None:
    """No node is overfull at any time; a bound pod runs as long as it should, or is evicted."""
    nodes = [node(f"n{i}") for i in range(node_count)]
    pods = [
        pod(f"p{i}", at, f"{runs}s", priority=priority, owner=owner)
        for i, (at, runs, priority, owner) in enumerate(arrivals)
    ]
    scenario = played([*nodes, *pods])
    assert max(scenario.used["cpu"].values) <= node_count * 1000
    by_node: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for name, life in lives_of(scenario).items():
        assert life.bound is not None, "in the end there is room for each"
        assert life.ended is not None
        runs = arrivals[int(name.partition("-")[0][1:])][1]
        whole = life.bound + runs * SECOND
        assert life.ended < whole + 1 if life.evicted else life.ended == whole
        by_node[life.node].append((life.bound, life.ended))
    for spans in by_node.values():
        for (_, ended), (bound, _) in pairwise(sorted(spans)):
            assert ended <= bound
    evicted = sum(life.evicted for life in scenario.lives)
    assert evicted == sum(len(eviction.victims) for eviction in scenario.evictions)
    again = sum(life.evicted for life in scenario.lives if owner_of(life, arrivals))
    assert len(scenario.lives) == len(arrivals) + again


def owner_of(life: PodTimeline, arrivals: list[tuple[int, int, int, str]]) -> str:
    """Return the kind of a generated pod's owner, by its name."""
    return arrivals[int(life.pod.partition("/p")[2].partition("-")[0])][3]


def test_a_node_that_comes_later_is_used_then() -> None:
    """Its creation time is when it joins; nodes that are older are there from the start."""
    scenario = played([node("old"), node("new", 30), pod("a", 0), pod("b", 1)])
    assert (bound_at(scenario, "a"), bound_at(scenario, "b")) == (0, 30)
    assert lives_of(scenario)["b"].node == "new"


def test_pods_that_run_at_the_start_end_in_time() -> None:
    """They are not part of the waiting times, but use their node until their duration is over."""
    running = pod("running", 0, "50s", node_name="n1")
    scenario = played([node(), running, pod("p", 20)])
    assert [life.pod for life in scenario.lives] == ["default/p"]
    # The simulation starts with the first pending pod.
    assert scenario.start == EPOCH + 20 * SECOND
    assert bound_at(scenario, "p") == 70


def test_a_pod_that_fits_nowhere_is_tried_again_and_given_up() -> None:
    """The simulation ends after the flush that retries every pod; it does not count as time."""
    scenario = played([node(), pod("small", 0, "10s"), pod("large", 5, node_selector={"a": "b"})])
    large = lives_of(scenario)["large"]
    assert (large.bound, large.attempts) == (None, 2)
    assert large.message.startswith("0/1 nodes are available: ")
    assert scenario.end == EPOCH + 10 * SECOND


def test_pods_that_never_enter_a_cycle_have_a_reason() -> None:
    """Another scheduler's pods, and gated ones."""
    scenario = played(
        [node(), pod("other", 0, scheduler_name="x"), pod("gated", 0, gates=("wait",))]
    )
    lives = lives_of(scenario)
    assert lives["other"].message == 'no profile has schedulerName "x"'
    assert "scheduling gates" in lives["gated"].message
    assert [life.attempts for life in scenario.lives] == [0, 0]


def test_without_creation_times_all_pods_come_at_the_start() -> None:
    """Time begins with the epoch of simulated clusters."""
    scenario = played([node(), pod("a", None, "10s"), pod("b", None, "10s")])
    assert scenario.start == EPOCH
    assert [bound_at(scenario, name) for name in "ab"] == [0, 10]


def test_amounts_are_followed_over_time() -> None:
    """Queue, running pods, requested and allocatable amounts, at every change."""
    scenario = played([node(), node("n2", 20), pod("a", 0, "30s"), pod("b", 10, "30s")])
    at = [EPOCH + seconds * SECOND for seconds in (0, 10, 20, 30, 50)]
    assert (scenario.pending.times, scenario.pending.values) == ([at[0], at[1], at[2]], [0, 1, 0])
    assert (scenario.running.times, scenario.running.values) == (
        [at[0], at[2], at[3], at[4]],
        [1, 2, 1, 0],
    )
    assert scenario.used["cpu"].values == [1000, 2000, 1000, 0]
    assert scenario.allocatable["cpu"].values == [1000, 2000]


def test_the_same_input_gives_the_same_bytes() -> None:
    """Ties included: they are broken by the seed."""
    objects = [
        *(node(f"n{i}") for i in range(7)),
        *(
            pod(f"p{i}", i * 7 % 31, f"{10 + i * 13 % 40}s", owner="Job", priority=i % 3)
            for i in range(60)
        ),
    ]
    first, second = played(objects), played(objects)
    assert json_text(first.document()) == json_text(second.document())
    assert jsonl_text(first.records()) == jsonl_text(second.records())
    assert first.evictions, "the example should have some"
    assert all(life.ended is not None for life in first.lives)


EVENTS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from(FutureEventKind)), max_size=20)


@given(first=EVENTS, later=EVENTS, until=st.integers(0, 9))
def test_events_come_by_time_kind_and_age(
    first: list[tuple[int, FutureEventKind]], later: list[tuple[int, FutureEventKind]], until: int
) -> None:
    """Whether they were known at first or came later; none comes before its time."""
    events = FutureEvents()
    for number, (at, kind) in enumerate(first):
        events.add(at, kind, f"first {number}")
    events.put_in_order()
    for number, (at, kind) in enumerate(later):
        events.add(at, kind, f"later {number}")
    expected = [(*item, number) for number, item in enumerate([*first, *later], start=1)]
    expected.sort()
    items = [event[:3] for event in events.due(until)]
    assert items == [item for item in expected if item[0] <= until]
    assert events.due(until) == []
    left = [item for item in expected if item[0] > until]
    assert events.next_time() == (left[0][0] if left else None)


def test_pods_that_a_policy_evicts_leave_while_others_are_to_come(tmp_path: Path) -> None:
    """A look at the running pods every 10 s: one pod goes, and a simulation ends all the same."""
    file = tmp_path / "evict.yaml"
    file.write_text(
        "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: Turns}\n"
        "spec: {evict: {every: 10s, victim: 'pod.name.startsWith(\"old\")'}}\n",
        encoding="utf-8",
    )
    things = [node(), pod("old", 0), pod("young", 1), pod("last", 60)]
    found = played(things, [str(file)])
    assert lives_of(found)["old"].evicted
    assert not lives_of(found)["young"].evicted
    assert bound_at(found, "young") == 40.0  # 30 s of grace after the look
