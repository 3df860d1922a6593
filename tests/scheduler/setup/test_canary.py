"""A candidate beside the set in force: which pods it decides, what wakes them, and how it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from policy_sched.model import PodInfo, QueueState
from policy_sched.profiles.reload.store import ReloadResult
from policy_sched.scheduler.attempt import Attempt
from policy_sched.scheduler.event_handlers import node_seen
from policy_sched.testing import make_node, make_pod
from tests.profiles.policy_texts import write
from tests.scheduler.setup.test_reload import World, only


def in_shop(pod: PodInfo) -> bool:
    """Let the candidate decide the pods of one namespace."""
    return pod.namespace == "shop"


class Beside(World):
    """A world whose next files are staged."""

    def stage(self, **files: Any) -> ReloadResult:
        """Write files and make them the candidate."""
        self.put(**files)
        return self.reloader.stage(self.reloader.store.prepare()).result

    def decide(self, name: str, namespace: str = "default") -> str:
        """Return where a new pod goes."""
        pod = make_pod(name, namespace=namespace, scheduler_name="one")
        self.scheduler.add_pod(PodInfo.of(pod))
        outcome = self.scheduler.schedule_one()
        assert outcome is not None
        assert outcome.pod.key == f"{namespace}/{name}"
        return outcome.node

    def place(self, uid: str) -> QueueState:
        """Return where a pod waits."""
        queued = self.queue.get(uid)
        assert queued is not None
        return queued.place


@pytest.fixture
def world(tmp_path: Path) -> Beside:
    """Return a world in which pods may be on every node."""
    return Beside(tmp_path)


def everything(world: Beside) -> tuple[object, ...]:
    """Return all of what is in force that a candidate must leave alone."""
    store = world.reloader.store
    profiles = world.scheduler.profiles
    kept = tuple((p.pipeline, p.runner, p.evaluator) for p in profiles.values())
    return store.current, store.status.content_hash, profiles, kept, world.scheduler.canary


def test_a_candidate_that_is_staged_decides_nothing(world: Beside) -> None:
    """Neither the set in force nor its kept results change."""
    before = everything(world)
    assert world.stage(nodes={"a"}) is ReloadResult.STAGED
    assert everything(world) == before
    assert world.decide("p", "shop") in {"a", "b", "c"}
    staged = world.reloader.store.staged
    assert staged is not None
    assert staged.generation == 2
    assert world.reloader.store.status.healthy


def test_it_decides_the_pods_that_are_chosen(world: Beside) -> None:
    """And no other; each attempt says which set decided."""
    world.stage(nodes={"a"})
    world.reloader.choose(in_shop)
    assert [world.decide(f"s{i}", "shop") for i in range(3)] == ["a"] * 3
    assert len({world.decide(f"p{i}") for i in range(9)}) > 1


def test_an_attempt_in_flight_keeps_its_side(world: Beside) -> None:
    """It ends with the plugins that reserved for it, also when the candidate is given up."""
    world.stage(nodes={"a"})
    world.reloader.choose(in_shop)
    world.scheduler.add_pod(PodInfo.of(make_pod("p", namespace="shop", scheduler_name="one")))
    attempt = world.scheduler.pop()
    assert isinstance(attempt, Attempt)
    chosen = world.scheduler.choose(attempt)
    world.reloader.drop()
    assert world.scheduler.execute(attempt, chosen).generation == 2


def test_a_dropped_candidate_leaves_no_trace(world: Beside) -> None:
    """The same set, generation, hash and kept results; its plugins are gone."""
    world.decide("p")
    before = everything(world)
    made = dict(world.reloader.assembly._made._made)
    world.stage(nodes={"a"}, gated=frozenset({"shop"}))
    world.reloader.choose(in_shop)
    world.scheduler.add_pod(PodInfo.of(make_pod("s", namespace="shop", scheduler_name="one")))
    assert world.place("shop/s") is QueueState.GATED
    world.reloader.drop()
    assert everything(world) == before
    assert world.reloader.assembly._made._made == made
    assert world.reloader.store.staged is None
    assert world.place("shop/s") is QueueState.ACTIVE


def test_pods_that_change_sides_are_judged_anew(world: Beside) -> None:
    """Those that wait, and no others: what did not let them in may be gone, or be new."""
    world.put(nodes=frozenset())
    world.reloader.reload()
    assert (world.decide("s", "shop"), world.decide("p")) == ("", "")
    world.stage(nodes={"a"}, gated=frozenset({"late"}))
    late = PodInfo.of(make_pod("l", namespace="late", scheduler_name="one"))
    world.scheduler.add_pod(late)
    waiting = QueueState.UNSCHEDULABLE
    assert {world.place("shop/s"), world.place("default/p")} == {waiting}
    world.reloader.choose(lambda pod: pod.namespace in {"shop", "late"})
    assert world.place("default/p") is waiting
    assert world.place("shop/s") in {QueueState.ACTIVE, QueueState.BACKOFF}
    assert world.place("late/l") is QueueState.GATED
    world.clock.advance(60)
    world.scheduler.run_due()
    outcome = world.scheduler.schedule_one()
    assert outcome is not None
    assert (outcome.pod.key, outcome.node) == ("shop/s", "a")


def test_hints_are_those_of_a_pods_side(world: Beside) -> None:
    """The candidate's policy of the same name waits for another label; each wakes its own."""
    rule = 'node.labels[?"%s"].orValue("") == "yes"'
    write(world.folder / "keep.yaml", _labelled(rule % "old"))
    world.reloader.reload()
    write(world.folder / "keep.yaml", _labelled(rule % "new"))
    assert world.reloader.stage(world.reloader.store.prepare()).result is ReloadResult.STAGED
    world.reloader.choose(in_shop)
    assert (world.decide("s", "shop"), world.decide("p")) == ("", "")
    waiting = QueueState.UNSCHEDULABLE
    node = make_node("a", pods=1000, labels={"new": "yes"})
    node_seen(world.scheduler, node)
    assert world.place("default/p") is waiting
    assert world.place("shop/s") is not waiting
    other = make_node("b", pods=1000, labels={"old": "yes"})
    node_seen(world.scheduler, other)
    assert world.place("default/p") is not waiting


def _labelled(rule: str) -> str:
    return only({"a"}).replace('node.name in ["a"]', rule)


def test_a_promotion_is_the_reload_that_would_have_been(world: Beside) -> None:
    """The candidate's profiles, with what they kept, are in force; every pod is theirs."""
    world.stage(nodes={"a"})
    world.reloader.choose(in_shop)
    world.decide("s", "shop")
    evaluator = world.reloader.assembly.current.candidates["one"].evaluator
    staged = world.reloader.store.staged
    reload = world.reloader.promote()
    assert reload.result is ReloadResult.LOADED
    assert reload.policies == staged
    assert world.reloader.store.current == staged
    assert world.scheduler.canary is None
    assert world.scheduler.profiles["one"].evaluator is evaluator
    assert not world.reloader.assembly.current.candidates
    assert world.decide("p") == "a"


def test_a_newer_candidate_replaces_the_one_before(world: Beside) -> None:
    """It decides nothing until it is chosen for."""
    world.stage(nodes={"a"})
    world.reloader.choose(in_shop)
    world.stage(nodes={"b"})
    assert world.scheduler.canary is None
    world.reloader.choose(in_shop)
    assert world.decide("s", "shop") == "b"


def test_a_reload_without_a_rollout_ends_the_candidate(world: Beside) -> None:
    """The files are in force at once."""
    world.stage(nodes={"a"})
    world.reloader.choose(in_shop)
    world.put(nodes={"b"})
    assert world.reloader.reload().result is ReloadResult.LOADED
    assert world.scheduler.canary is None
    assert world.reloader.store.staged is None
    assert world.decide("s", "shop") == "b"


def test_other_extenders_are_refused(world: Beside) -> None:
    """Both sides would call those of one of them; the error says what to do."""
    world.put(nodes={"a"})
    path = world.folder / "config.yaml"
    path.write_text(
        path.read_text() + "extenders:\n- {urlPrefix: 'http://127.0.0.1:1', filterVerb: f}\n"
    )
    before = everything(world)
    reload = world.reloader.stage(world.reloader.store.prepare())
    assert reload.result is ReloadResult.REFUSED
    (problem,) = reload.problems
    assert "a rollout cannot change extenders" in problem.message
    assert everything(world) == before


def test_profiles_that_come_or_go_wait_for_the_promotion(world: Beside) -> None:
    """Until then a new one decides nothing, and the pods of one that goes are the stable set's."""
    world.stage(nodes={"a"}, profiles=("one", "three"))
    world.reloader.choose(lambda _: True)
    assert set(world.scheduler.profiles) == {"one", "two"}
    assert set(world.reloader.assembly.current.candidates) == {"one"}
    world.scheduler.add_pod(PodInfo.of(make_pod("t", scheduler_name="two")))
    outcome = world.scheduler.schedule_one()
    assert outcome is not None
    assert outcome.generation == 1
    world.reloader.promote()
    assert set(world.scheduler.profiles) == {"one", "three"}
