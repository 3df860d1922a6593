"""Recorded decisions, made again: those of the same policies agree, and others are told."""

from __future__ import annotations

from copy import deepcopy
from functools import lru_cache

import pytest
from msgspec.structs import replace

from policy_sched.instance.shadow import Agreement, why
from policy_sched.model.meta import SECOND
from policy_sched.profiles.build.pipeline import CompiledPlan
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.recording import Decided, Event, PolicyChanged
from policy_sched.replay.decisions import OthersDecisions, OwnDecisions, Tally
from policy_sched.scheduler.setup.factory import read_policies
from tests.replay.recorded import CONFIG, Load, Plain, recorded


def packing_first() -> Plain:
    """Return a configuration whose default profile packs pods, too."""
    config = deepcopy(CONFIG)
    config["profiles"][0]["pluginConfig"] = config["profiles"][1]["pluginConfig"]
    return config


@lru_cache(maxsize=4)
def plans_of(*, packs: bool = False) -> tuple[CompiledPlan, ...]:
    """Return the plans of the load's configuration, or of one that packs."""
    return read_policies(PolicyFiles(packing_first() if packs else CONFIG, ()))[0]


def held(events: list[Event], plans: tuple[CompiledPlan, ...]) -> Tally:
    """Hold the decisions against plans."""
    return OwnDecisions(plans, lambda _hash: plans, events[0].time).play(events)


def decisions(events: list[Event]) -> list[Decided]:
    """Return the decisions of a recording."""
    return [event for event in events if isinstance(event, Decided)]


@pytest.fixture(scope="module")
def tally(events: list[Event]) -> Tally:
    """Return what became of the decisions, held against the policies that made them."""
    return held(events, plans_of())


def test_the_policies_of_then_decide_the_same(events: list[Event], tally: Tally) -> None:
    """Of two profiles, with gangs, volumes, devices, preemption, and nodes that come back."""
    assert tally.results == {Agreement.AGREE: len(decisions(events))}
    assert (tally.left_out, tally.differences) == ({}, [])
    kinds = {bool(one.node) + 2 * bool(one.nominated_node) for one in decisions(events)}
    assert kinds >= {1, 2}, "pods are bound, and others are evicted for them"


def test_other_policies_differ_and_say_why(events: list[Event]) -> None:
    """A profile that packs does not agree with one that spreads, and plugins have the points."""
    tally = held(events, plans_of(packs=True))
    differences = tally.differences
    assert differences
    assert all(one.profile == "default-scheduler" for one in differences)
    assert any("NodeResourcesFit" in why(one) for one in differences)
    assert sum(tally.results.values()) == len(decisions(events))


def test_a_decision_that_differs_makes_no_other_differ(events: list[Event], tally: Tally) -> None:
    """The pod counts where it was recorded to go: here, on a node that was not chosen."""
    at, one = next(
        (i, event)
        for i, event in enumerate(events)
        if isinstance(event, Decided) and event.node and event.pod.startswith("default/p1")
    )
    other = next(d.node for d in decisions(events) if d.node and d.node != one.node)
    changed = [*events[:at], replace(one, node=other), *events[at + 1 :]]
    other_tally = held(changed, plans_of())
    differ = [difference.pod for difference in other_tally.differences]
    assert differ in ([one.pod], [])
    assert other_tally.ties - tally.ties == 1 - len(differ)


def test_decisions_that_cannot_be_made_again_are_counted(events: list[Event]) -> None:
    """Their policies are lost, another scheduler made them, or they failed then."""
    lost = OwnDecisions(plans_of(), lambda _hash: None, events[0].time).play(events)
    assert sum(lost.left_out.values()) == len(decisions(events))
    assert all("has no policies" in reason for reason in lost.left_out)
    others = [replace(e, policies="") if isinstance(e, Decided) else e for e in events]
    tally = OwnDecisions(plans_of(), lambda _hash: plans_of(), events[0].time).play(others)
    assert tally.left_out == {"another scheduler decided": len(decisions(events))}


def test_what_is_held_back_makes_no_difference(events: list[Event]) -> None:
    """Plugins of others see each change at once, and theirs are the decisions of kube-scheduler's;
    also of policies that come in the middle."""
    packing = plans_of(packs=True)
    of_others = tuple(replace(plan, in_tree=frozenset()) for plan in packing)
    at_once, held_back = held(events, of_others), held(events, packing)
    assert (at_once.results, at_once.ties) == (held_back.results, held_back.ties)
    assert at_once.differences == held_back.differences
    first = [replace(e, policies="abc") if isinstance(e, Decided) else e for e in events[:-99]]
    late = OwnDecisions(packing, lambda h: packing if h == "abc" else of_others, events[0].time)
    differences = late.play([*first, *events[-99:]]).differences
    expected = held_back.differences
    assert [(one.pod, one.ours) for one in differences] == [(one.pod, one.ours) for one in expected]


def test_a_group_may_be_tried_again_at_once() -> None:
    """Two attempts of one time are two: the second begins with none of its pods on a node."""
    events = recorded(12, 64, seed=2)
    of_group = [one for one in decisions(events) if one.pod.startswith("default/p63-")]
    assert len({one.time for one in of_group}) < len(of_group) // 3
    assert held(events, plans_of()).results == {Agreement.AGREE: len(decisions(events))}


def test_policies_may_change_in_the_middle() -> None:
    """Each decision is held against those that made it."""
    load = Load(8, 1.0, 5)
    load.play(40)
    load.change_policies(packing_first())
    events = load.play(40)
    hashes = [event.hash for event in events if isinstance(event, PolicyChanged)]
    assert len(set(hashes)) == 2
    sets = dict(zip(hashes, (plans_of(), plans_of(packs=True)), strict=True))
    tally = OwnDecisions(plans_of(), sets.get, events[0].time).play(events)
    assert tally.results == {Agreement.AGREE: len(decisions(events))}
    assert all(tally.by_policies[content_hash] for content_hash in hashes)


def test_decisions_of_another_scheduler_are_compared_as_a_shadow_does(
    events: list[Event],
) -> None:
    """The recording has its bindings alone; almost all of them agree, in spite of that."""
    seen = [e for e in events if not isinstance(e, Decided | PolicyChanged)]
    tally = OthersDecisions(plans_of(), events[0].time).play(seen)
    bound = sum(bool(one.node) for one in decisions(events))
    assert sum(tally.results.values()) >= 0.95 * bound
    assert tally.results[Agreement.AGREE] >= 0.95 * sum(tally.results.values())
    assert all(one.cause or why(one) for one in tally.differences)


def test_the_clock_never_goes_back(events: list[Event]) -> None:
    """Changes that were recorded with earlier times count where they stand."""
    back = [
        replace(event, time=event.time - 5 * SECOND) if i % 7 == 3 and i > 40 else event
        for i, event in enumerate(events)
    ]
    assert held(back, plans_of()).results[Agreement.AGREE] >= 0.98 * len(decisions(events))
