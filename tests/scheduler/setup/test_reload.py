"""Reloads between two cycles: requeued pods, changed order, removed profiles."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from policy_sched.client.memory import MemoryClient
from policy_sched.model.pod_info import PodInfo, QueueState
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.profiles.reload.store import PolicyStore, Reload, ReloadResult
from policy_sched.scheduler.attempt import Attempt, Bind, Decision
from policy_sched.scheduler.queueing_hints import NO_PROFILE
from policy_sched.scheduler.scheduler import Outcome
from policy_sched.scheduler.scheduling_cycle import decide
from policy_sched.scheduler.setup.factory import assemble_with_assembly
from policy_sched.scheduler.setup.reload import Reloader
from policy_sched.testing import FakeClock, make_node, make_pod
from tests.examples import scaled
from tests.profiles.policy_texts import config, gating, keeping, sorting, write

NODES = ("a", "b", "c")
MINUTE = 60.0


def only(nodes: frozenset[str] | set[str]) -> str:
    """Return a policy that allows these nodes only."""
    listed = ", ".join(f'"{node}"' for node in sorted(nodes))
    return keeping("Keep", f"node.name in [{listed}]" if listed else "false")


def closed(namespaces: frozenset[str]) -> str:
    """Return a policy that gates the pods of these namespaces."""
    listed = " && ".join(f'pod.namespace != "{name}"' for name in sorted(namespaces))
    return gating("Gate", listed or "true")


class World:
    """A scheduler over three nodes, and its files."""

    def __init__(self, folder: Path, profiles: tuple[str, ...] = ("one", "two")) -> None:
        self.folder = folder
        self.clock = FakeClock()
        self.client = MemoryClient()
        self.put(profiles=profiles)
        files = PolicyFiles(str(folder / "config.yaml"), (str(folder),))
        store = PolicyStore(files, self.clock)
        self.scheduler, assembly = assemble_with_assembly(
            store.current.plans, client=self.client, now=self.clock
        )
        self.queue = self.scheduler.queue
        self.reloader = Reloader(self.scheduler, assembly, store)
        for name in NODES:
            self.scheduler.cache.add_node(make_node(name, pods=1000))

    def put(
        self,
        *,
        nodes: frozenset[str] = frozenset(NODES),
        gated: frozenset[str] = frozenset(),
        profiles: tuple[str, ...] = ("one", "two"),
        ascending: bool = False,
    ) -> None:
        """Write all files."""
        write(self.folder / "keep.yaml", only(nodes))
        write(self.folder / "gate.yaml", closed(gated))
        sign = "" if ascending else "0 - "
        write(self.folder / "sort.yaml", sorting("Sort", f"{sign}pod.priority"))
        text = config({name: ["Keep", "Gate"] for name in profiles}, "Sort")
        write(self.folder / "config.yaml", text)

    def reload(self) -> Reload:
        """Load the files."""
        return self.reloader.reload()

    def pod(self, name: str, profile: str = "one", **fields: Any) -> PodInfo:
        """Add a pod."""
        pod = PodInfo.of(make_pod(name, scheduler_name=profile, **fields))
        self.scheduler.add_pod(pod)
        return pod

    def schedule(self) -> list[Outcome]:
        """Decide all ready pods."""
        return list(iter(self.scheduler.schedule_one, None))

    def place(self, pod: PodInfo) -> QueueState:
        """Return the pod's queue."""
        queued = self.queue.get(pod.uid)
        return QueueState.OUT if queued is None else queued.place


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two profiles without policies, the pod of higher priority first."""
    return World(tmp_path)


class TestFilters:
    """Changed filters requeue the pods that may be schedulable now."""

    def test_pods_rejected_by_a_changed_policy(self, world: World) -> None:
        """A pod that every node rejected is retried, and lands."""
        world.put(nodes=frozenset())
        world.reload()
        pod = world.pod("p")
        (outcome,) = world.schedule()
        assert not outcome.node
        assert "kept away" in outcome.message
        world.put(nodes=frozenset("b"))
        assert world.reload().result is ReloadResult.LOADED
        assert world.place(pod) is QueueState.BACKOFF
        assert [o.node for o in world.schedule()] == ["b"]

    def test_what_evictions_would_help_is_found_out_anew(self, world: World) -> None:
        """Cached victims belong to the previous filters, which are not named as rejectors."""
        for node in NODES:
            low = make_pod(f"low-{node}", cpu="4", priority=-1, node_name=node)
            world.scheduler.cache.add_pod(PodInfo.of(low))
        world.put(nodes=frozenset())
        world.reload()
        pod = world.pod("high", cpu="4")
        (outcome,) = world.schedule()
        assert "preemption: 0/3 nodes are available: 3 kept away." in outcome.message
        world.put(nodes=frozenset("b"))
        world.reload()
        world.schedule()
        assert world.scheduler.handle.nominator.node_of(pod.uid) == "b"

    def test_pods_rejected_by_another_policy(self, world: World) -> None:
        """A pod that is too large is not requeued."""
        pod = world.pod("large", cpu="100")
        world.schedule()
        world.put(nodes=frozenset("b"))
        assert world.reload().result is ReloadResult.LOADED
        assert world.place(pod) is QueueState.UNSCHEDULABLE

    def test_a_failed_reload_requeues_no_pod_and_decides_nothing(self, world: World) -> None:
        """Decisions are the same as if the broken file had never been there."""
        world.put(nodes=frozenset("c"))
        world.reload()
        pod = world.pod("large", cpu="100")
        world.schedule()
        world.put()
        write(world.folder / "gate.yaml", "kind: Policy\nmetadata: {name: Gate\n")
        reload = world.reload()
        assert reload.result is ReloadResult.REFUSED
        assert "gate.yaml" in {Path(problem.file).name for problem in reload.problems}
        assert world.place(pod) is QueueState.UNSCHEDULABLE
        world.pod("p")
        (outcome,) = world.schedule()
        assert (outcome.node, outcome.generation) == ("c", 2)


class TestInFlight:
    """An attempt ends under the policies that it began with."""

    def test_an_attempt_over_a_reload(self, world: World) -> None:
        """A pod that was decided is bound to its node, and records the policies that decided."""
        pod = world.pod("p")
        attempt, decision = begin(world)
        assert isinstance(decision, Bind)
        hash_before = attempt.profile.pipeline.content_hash
        world.put(nodes=frozenset({"a", "b", "c"} - {decision.node}))
        world.reload()
        outcome = world.scheduler.execute(attempt, decision)
        assert outcome.node == decision.node == world.client.bindings[pod.uid]
        assert (outcome.generation, outcome.content_hash) == (1, hash_before)

    def test_a_pod_that_was_rejected_by_what_is_changed_by_now(self, world: World) -> None:
        """It is retried at once: the reload happened while it was in flight."""
        world.put(nodes=frozenset())
        world.reload()
        world.pod("p")
        attempt, decision = begin(world)
        world.put(nodes=frozenset("a"))
        world.reload()
        assert world.scheduler.execute(attempt, decision).generation == 2
        assert [(o.node, o.generation) for o in world.schedule()] == [("a", 3)]


class TestOrder:
    """A changed queue sort re-orders queued pods."""

    def test_the_other_way_round(self, world: World) -> None:
        """The order is reversed."""
        for name, priority in (("low", 1), ("high", 9), ("middle", 5)):
            world.pod(name, priority=priority)
        assert [queued.info.name for queued in world.queue.active()] == ["high", "middle", "low"]
        world.put(ascending=True)
        assert world.reload().changes.queue_sort
        assert [o.pod.name for o in world.schedule()] == ["low", "middle", "high"]


class TestGates:
    """A changed PreEnqueue policy applies to queued pods."""

    def test_a_gate_closes_and_opens(self, world: World) -> None:
        """Ready pods are gated, and released again; others are not evaluated."""
        pod, other = world.pod("p", namespace="shut"), world.pod("q")
        world.put(gated=frozenset({"shut"}))
        world.reload()
        assert world.place(pod) is QueueState.GATED
        assert world.place(other) is QueueState.ACTIVE
        world.put()
        world.reload()
        assert world.place(pod) is QueueState.ACTIVE


class TestProfiles:
    """Profiles are added and removed; their pods stay."""

    @pytest.mark.parametrize("tried", [False, True])
    def test_a_profile_is_removed_and_comes_back(self, world: World, tried: bool) -> None:
        """Its pods wait, ready or rejected, with the reason; then they are scheduled."""
        world.put(nodes=frozenset())
        world.reload()
        pod, other = world.pod("p", "two"), world.pod("q", "one")
        if tried:
            world.schedule()
        world.put(profiles=("one",))
        assert world.reload().changes.removed == ("two",)
        assert world.place(pod) is QueueState.GATED
        assert world.place(other) is not QueueState.GATED
        event = world.client.events[-1]
        assert (event.pod, event.reason) == (pod.key, "FailedScheduling")
        text = 'no profile has schedulerName "two" any more; the pod waits until one has'
        assert event.note == text
        assert world.client.conditions[pod.uid] == ("Unschedulable", text)
        world.clock.advance(10 * MINUTE)
        world.queue.flush()
        world.schedule()
        assert world.place(pod) is QueueState.GATED, "nothing but its profile helps it"
        world.put()
        world.reload()
        world.schedule()
        assert pod.uid in world.client.bindings

    def test_an_attempt_whose_profile_is_removed(self, world: World) -> None:
        """It ends under its profile; a requeued pod waits, with the reason."""
        world.put(nodes=frozenset())
        world.reload()
        pod = world.pod("p", "two")
        attempt, decision = begin(world)
        world.put(profiles=("one",))
        world.reload()
        world.scheduler.execute(attempt, decision)
        assert world.place(pod) is QueueState.GATED
        assert "no profile has schedulerName" in world.client.events[-1].note

    def test_a_pod_changes_while_its_profile_is_gone(self, world: World) -> None:
        """It waits, and is scheduled with its new spec."""
        pod = world.pod("p", "two", cpu="100")
        world.put(profiles=("one",))
        world.reload()
        world.scheduler.update_pod(PodInfo.of(make_pod("p", scheduler_name="two", cpu="1")))
        assert world.place(pod) is QueueState.GATED
        world.put()
        world.reload()
        assert [bool(o.node) for o in world.schedule()] == [True]


def begin(world: World) -> tuple[Attempt, Decision]:
    """Pop the next pod and decide it, but do not execute the decision yet."""
    queued = world.queue.pop()
    assert queued is not None
    attempt = Attempt(queued, world.scheduler.profiles[queued.info.scheduler_name])
    return attempt, decide(attempt, world.scheduler.handle.nodes, world.scheduler.handle.random)


class Reloads(RuleBasedStateMachine):
    """Pods are added, deleted and scheduled, files change and break, in any order.

    ``wanted`` is the content of the files in force: nodes, gated namespaces and profiles.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.world = World(Path(self.folder.name))
        self.wanted = (frozenset(NODES), frozenset[str](), frozenset({"one", "two"}))
        self.generation = 1
        self.pods: dict[str, PodInfo] = {}
        self.begun: list[tuple[Attempt, Decision, frozenset[str], int]] = []
        self.count = 0

    def teardown(self) -> None:
        """No wake-up was lost: a pod that waits has a reason that holds."""
        self.folder.cleanup()
        while self.begun:
            self.end(0)
        for _ in range(3):
            self.world.clock.advance(MINUTE)
            self.world.queue.flush()
            self.check(self.world.schedule())
        nodes, gated, profiles = self.wanted
        for uid, pod in self.pods.items():
            lands = bool(nodes) and pod.namespace not in gated and pod.scheduler_name in profiles
            assert uid in self.world.client.bindings or not lands, pod.key

    def check(self, outcomes: list[Outcome]) -> None:
        """Decisions follow the policies in force, and have their generation."""
        nodes = self.wanted[0]
        for outcome in outcomes:
            assert outcome.generation == self.generation
            assert (outcome.node in nodes) if nodes else not outcome.node

    @rule(profile=st.sampled_from(["one", "two"]), namespace=st.sampled_from(["x", "y"]))
    def come(self, profile: str, namespace: str) -> None:
        """Add a pod for an existing profile."""
        if profile in self.world.scheduler.profiles:
            self.count += 1
            pod = self.world.pod(f"p{self.count}", profile, namespace=namespace)
            self.pods[pod.uid] = pod

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        """Delete a pod."""
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        begun = {attempt.queued.info.uid for attempt, *_ in self.begun}
        if uid not in begun and uid not in self.world.client.bindings:
            self.world.scheduler.delete_pod(uid)
            del self.pods[uid]

    @rule()
    def schedule(self) -> None:
        """Schedule all ready pods."""
        self.check(self.world.schedule())

    @rule()
    def begin(self) -> None:
        """Decide a pod; the decision is executed later."""
        if self.world.queue.active():
            attempt, decision = begin(self.world)
            self.begun.append((attempt, decision, self.wanted[0], self.generation))

    @precondition(lambda self: self.begun)
    @rule(which=st.integers(0, 3))
    def end(self, which: int) -> None:
        """Execute a decision, under the policies that made it."""
        attempt, decision, nodes, generation = self.begun.pop(which % len(self.begun))
        outcome = self.world.scheduler.execute(attempt, decision)
        assert outcome.generation == generation
        assert (outcome.node in nodes) if nodes else not outcome.node

    @rule(
        nodes=st.frozensets(st.sampled_from(NODES), max_size=2),
        gated=st.frozensets(st.sampled_from(["x", "y"]), max_size=1),
        profiles=st.sampled_from([("one",), ("two",), ("one", "two")]),
        ascending=st.booleans(),
        broken=st.booleans(),
    )
    def reload(
        self,
        nodes: frozenset[str],
        gated: frozenset[str],
        profiles: tuple[str, ...],
        ascending: bool,
        broken: bool,
    ) -> None:
        """Change the files, possibly to invalid ones."""
        self.world.put(nodes=nodes, gated=gated, profiles=profiles, ascending=ascending)
        if broken:
            write(self.world.folder / "keep.yaml", keeping("Keep", "node.nam"))
        reload = self.world.reload()
        assert (reload.result is ReloadResult.REFUSED) == broken
        if not broken:
            self.wanted = (nodes, gated, frozenset(profiles))
            self.generation = reload.policies.generation

    @invariant()
    def each_pod_is_in_exactly_one_place(self) -> None:
        """A pod is in the queue or bound; one without a profile is gated or in flight."""
        queue, profiles = self.world.queue, self.world.scheduler.profiles
        for uid, pod in self.pods.items():
            queued = queue.get(uid)
            assert (queued is None) == (uid in self.world.client.bindings), pod.key
            if queued is not None and pod.scheduler_name not in profiles:
                assert queued.place is QueueState.IN_FLIGHT or queued.gated_by == NO_PROFILE
        assert len(queue) == sum(queue.lengths().values()) + len(queue.in_flight())


Reloads.TestCase.settings = settings(max_examples=scaled(25), stateful_step_count=20, deadline=None)
TestReloads = Reloads.TestCase
