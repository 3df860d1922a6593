"""Recorded traffic, decided again: with the same policies a replay is the recording."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from policy_sched import replay as replays
from policy_sched.instance.shadow import Agreement
from policy_sched.model.meta import SECOND
from policy_sched.model.pod import Pod
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.recording import Added, Decided, Deleted, Event
from policy_sched.report import json_text
from policy_sched.simulate import Traffic, traffic_of
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled
from tests.replay.recorded import CONFIG, SECONDS, recorded
from tests.replay.test_decisions import held, plans_of


def traffic(events: list[Event], seconds: int = SECONDS) -> Traffic:
    """Return the traffic of a recording, or of its beginning."""
    start = events[0].time
    end = start + seconds * SECOND
    return traffic_of([event for event in events if event.time < end], start, end)


def test_a_replay_with_the_same_policies_is_the_recording(events: list[Event]) -> None:
    """Every pod is bound to its node at its time, and ends when it did."""
    given = traffic(events)
    run = replays.replay(given, plans_of())
    assert run.lives.keys() == {uid for uid, life in given.lives.items() if life.waited}
    for uid, life in run.lives.items():
        then = given.lives[uid]
        assert (life.node, life.bound, life.ended) == (then.node, then.bound, then.ended), life.pod
    assert run.counts["evicted"] == sum(life.evicted for life in given.lives.values()) > 0


@settings(max_examples=scaled(6), deadline=None)
@given(seed=st.integers(0, 1000))
def test_any_history_agrees_with_its_own_policies(seed: int) -> None:
    """Whatever comes and goes, and in which order; played anew, every pod gets its node again."""
    events = recorded(5, 30, seed=seed)
    decided = sum(isinstance(event, Decided) for event in events)
    assert held(events, plans_of()).results == {Agreement.AGREE: decided}
    given = traffic(events, 30)
    run = replays.replay(given, plans_of())
    assert {uid: life.node for uid, life in run.lives.items()} == {
        uid: life.node for uid, life in given.lives.items() if life.waited
    }


@pytest.mark.parametrize(("nodes", "seed"), [(2, 11), (12, 1)])
def test_pods_in_backoff_are_decided_in_the_recorded_order(nodes: int, seed: int) -> None:
    """Also those whose time is over at that instant, and those that go as no other is ready."""
    given = traffic(recorded(nodes, 60, seed=seed), 60)
    run = replays.replay(given, plans_of())
    assert {uid: (life.node, life.bound) for uid, life in run.lives.items()} == {
        uid: (life.node, life.bound) for uid, life in given.lives.items() if life.waited
    }


@settings(max_examples=scaled(6), deadline=None)
@given(cut=st.floats(0, 1))
def test_a_recording_may_end_anywhere(cut: float, events: list[Event]) -> None:
    """What is there is played; pods that have not ended run to the end."""
    some = events[: 30 + int(cut * (len(events) - 30))]
    given = traffic(some)
    run = replays.replay(given, plans_of())
    assert run.result.end == given.end
    assert all(life.ended is None or life.ended <= given.end for life in run.lives.values())


def test_the_same_input_gives_the_same_bytes(events: list[Event]) -> None:
    """A comparison has no trace of when, or how fast, it was made."""
    both = [
        replays.compare_replays(
            traffic(events, 40),
            replays.Contender(plans_of(), {}),
            replays.Contender(plans_of(packs=True), {}),
            seeds=(0, 1),
        )
        for _ in range(2)
    ]
    assert json_text(both[0].document()) == json_text(both[1].document())
    assert list(both[0].text_lines()) == list(both[1].text_lines())


def test_two_sets_of_policies_are_compared_over_time(events: list[Event]) -> None:
    """OLD does what was recorded; windows add up to what there was in all."""
    given = traffic(events)
    diff = replays.compare_replays(
        given,
        replays.Contender(plans_of(), {}),
        replays.Contender(plans_of(packs=True), {}),
    )
    (pair,) = diff.runs
    assert pair.old.as_recorded == diff.pods == sum(life.waited for life in given.lives.values())
    assert pair.counts["moved"] > 0
    for side in (pair.old, pair.new):
        assert sum(window.bound for window in side.windows) == side.values["pods placed", ""]
        assert side.windows[0].start == given.start
        assert side.windows[-1].end == given.end
    recorded_evictions = diff.recorded["pods evicted", ""]
    assert pair.old.values["pods evicted", ""] == recorded_evictions
    assert any("moved" in line or "move" in line for line in diff.text_lines())


def test_what_runs_at_the_beginning_counts_from_then_on() -> None:
    """It counted from the first event on: a quiet cluster was an empty one."""
    node, running = make_node("n", cpu="4"), make_pod("old", uid="o", cpu="1", node_name="n")
    come, start, end = make_pod("new", uid="n", cpu="1"), 1_000 * SECOND, 1_100 * SECOND
    there = [Added(start, node), Added(start, running)]
    given = traffic_of([*there, Added(start + 50 * SECOND, come)], start, end)
    run = replays.replay(given, plans_of(), width=25 * SECOND)
    assert [window.used["cpu"] for window in run.windows] == [25, 25, 50, 50]
    assert run.result.running.at(start) == 1


def test_an_eviction_that_does_not_take_place_is_not_played(events: list[Event]) -> None:
    """Without preemption the pods go on that were evicted, and nothing comes in their place."""
    given = traffic(events)
    config = replays.compiled(no_preemption())
    run = replays.replay(given, config.plans)
    assert run.counts["evicted"] == 0
    evicted = {uid: life for uid, life in given.lives.items() if life.evicted}
    successors = {life.successor for life in evicted.values() if life.successor}
    assert successors
    assert not successors & run.lives.keys()
    assert all(run.lives[uid].ended != life.ended for uid, life in evicted.items())


def no_preemption() -> PolicyFiles:
    """Return the load's policies without preemption."""
    profiles = [
        {**profile, "plugins": {"postFilter": {"disabled": [{"name": "*"}]}}}
        for profile in CONFIG["profiles"]
    ]
    return PolicyFiles({**CONFIG, "profiles": profiles}, ())


def test_times_that_go_back_are_bounded_and_told(events: list[Event]) -> None:
    """What was recorded with an earlier time counts at the time before."""
    at = len(events) // 2
    back = [*events[:at], replace(events[at], time=events[at].time - 3 * SECOND), *events[at + 1 :]]
    given = traffic(back)
    assert (given.jumps.count, given.jumps.longest) == (
        1,
        events[at - 1].time - events[at].time + 3 * SECOND,
    )
    assert [step.time for step in given.steps] == sorted(step.time for step in given.steps)
    (note,) = replays.traffic_notes(given)
    assert note.startswith("the clock went back 1 time, by ")


def test_pods_that_end_by_themselves_run_as_long_as_they_did(events: list[Event]) -> None:
    """Wherever they run; one that began later ends later."""
    given = traffic(events)
    ended = {
        event.object.metadata.uid
        for event in events
        if isinstance(event, Deleted)
        and isinstance(event.object, Pod)
        and event.object.status.phase == "Succeeded"
    }
    run = replays.replay(given, plans_of(packs=True))
    checked = 0
    for uid in ended:
        life, then = run.lives[uid], given.lives[uid]
        if life.ended is not None and life.bound is not None and not life.evicted:
            assert then.ran == life.ended - life.bound
            checked += 1
    assert checked > 10
