"""Rollouts under hostile histories: changes, requests, dying processes, two leaders, odd clocks.

One machine, over files and over objects of a cluster.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from policy_sched import rollout
from policy_sched.instance.app import EmbeddedInstance
from policy_sched.rollout import Phase
from policy_sched.scheduler import Attempt, Decision
from tests.examples import scaled
from tests.instance.app.rollout_worlds import ObjectProcess, ObjectWorld, World, rollout_text

RULES = ("true", "node.name == 'a'", "node.name != 'c'", "false")
ABORTS = "{expression: candidate.unschedulable > 0.9, message: no node, decisions: 4}"
STEPS = rollout_text(2, 3, 3, ABORTS)
WRONG = STEPS.replace("candidate.unschedulable", "candidate.unscheduled")


def watch(instance: EmbeddedInstance) -> None:
    """Look at the decisions of a process from now on."""
    plans: list[rollout.Plan] = []

    def decided(attempt: Attempt, _decision: Decision, _start: float) -> None:
        rollouts, store = instance.rollouts, instance.reloader.store
        assert rollouts is not None
        assert rollouts.settled, "no pod is decided before the sets are those of the record"
        if rollouts.plan is not None:
            plans[:] = [rollouts.plan]
        made_by = attempt.profile.pipeline.content_hash
        stable, staged = store.current.plans[0].content_hash, store.staged
        if instance.scheduler.canary is None:
            assert made_by == stable
            return
        assert staged is not None
        assert rollouts.state is not None
        (plan,) = plans
        info = attempt.queued.info
        share = rollout.share_of(rollout.key_of(info, "Pod"), plan.sides(staged.content_hash))
        own, step = staged.plans[0].content_hash, rollouts.state.step
        if rollouts._writing or rollouts._pending:  # the next step has not begun yet
            step = max(step - 1, 0) if rollouts.state.phase is Phase.PROGRESSING else step
        assert made_by == (own if share < plan.steps[step].percent else stable)

    instance.scheduler.observers.decided.append(decided)


class Rolling(RuleBasedStateMachine):
    """One scheduler, or for a while two, over the place of policies, and the state of a rollout."""

    make: Callable[..., World] = World

    @initialize()
    def begin(self) -> None:
        """Start a process."""
        self.folder = tempfile.TemporaryDirectory()
        self.world = type(self).make(Path(self.folder.name), text=STEPS)
        self.rule = "true"
        self.seen: list[tuple[str, int]] = []
        self.looked_at()

    @property
    def state(self) -> rollout.State | None:
        """The state of the rollout, if there is one."""
        rollouts = self.world.instance.rollouts
        return None if rollouts is None else rollouts.state

    @property
    def progressing(self) -> bool:
        """Whether a step is under way."""
        return self.state is not None and self.state.phase is Phase.PROGRESSING

    def looked_at(self) -> None:
        """Hold what follows against what is in force now."""
        watch(self.world.instance)
        self.before, self.kept = self.world.instance.reloader.store.current, self.profiles()

    def profiles(self) -> list[object]:
        """Return what evaluates pods by the set in force."""
        profiles = self.world.instance.scheduler.profiles.values()
        return [(profile.evaluator, profile.runner) for profile in profiles]

    @rule(number=st.integers(0, len(RULES) - 1))
    def change(self, number: int) -> None:
        """Change the policy, and have it read."""
        self.rule = RULES[number]
        self.world.change(self.rule)

    @rule(number=st.integers(0, len(RULES) - 1))
    def change_unseen(self, number: int) -> None:
        """Change the policy and die before it is read."""
        self.rule = RULES[number]
        self.world.write(self.rule)
        if self.world.has_rollout:
            self.die(0)
        else:
            self.world.start()
            self.looked_at()

    @rule(seconds=st.integers(1, 6), pods=st.integers(0, 2))
    def go_on(self, seconds: int, pods: int) -> None:
        """Decide pods as time passes."""
        self.world.run(seconds, pods)

    @rule(acts=st.integers(0, 2))
    def die(self, acts: int) -> None:
        """End the process without a word, wherever it is, and start another one."""
        for _ in range(acts):
            self.world.clock.advance(1)
            self.world.act(self.world.instance)
        force, state, rollouts = self.world.hash, self.state, self.world.instance.rollouts
        written = rollouts is not None and rollouts.settled and not rollouts._writing
        self.world.start()
        assert self.world.hash == force
        again = self.state
        if written and state and again and again.candidate == state.candidate:
            assert again.step == state.step
        self.looked_at()

    @precondition(lambda self: self.progressing)
    @rule(action=st.sampled_from(("promote", "abort")))
    def request(self, action: rollout.Action) -> None:
        """Promote or abort by hand."""
        rollouts = self.world.instance.rollouts
        assert rollouts is not None
        assert rollouts.request(action, "", "admin") == ""
        self.world.settle()
        wanted = {"promote": Phase.PROMOTED, "abort": Phase.ABORTED}[action]
        assert self.world.rolled.phase is wanted

    @rule(
        number=st.integers(0, len(RULES) - 1),
        acts=st.integers(0, 3),
        action=st.sampled_from((None, "promote", "abort")),
    )
    def change_between(self, number: int, acts: int, action: rollout.Action | None) -> None:
        """A change comes wherever the process is: what ends a candidate ends no other one."""
        instance, rollouts = self.world.instance, self.world.instance.rollouts
        if action and self.progressing and rollouts is not None:
            rollouts.request(action, "", "admin")
        for _ in range(acts):
            self.world.act(instance)
            self.what_is_in_force_is_left_alone()
        store, before = instance.reloader.store, self.state
        self.rule = RULES[number]
        self.world.write(self.rule)
        self.world.read(instance)
        newer = store.staged
        self.world.run(2, pods=0)
        if newer is not None and before is not None and newer.content_hash != before.candidate:
            assert self.world.hash != newer.content_hash, "it has not passed a step"
            assert store.staged is newer or self.state is None or not self.progressing

    @rule(seconds=st.sampled_from((-3600, -5, 3600, 10**6)))
    def jump(self, seconds: int) -> None:
        """Set the clock: no step is skipped, and none ends without its decisions."""
        before = self.state
        self.world.clock.advance(seconds)
        self.world.settle()
        if before is not None and before.phase is Phase.PROGRESSING and self.progressing:
            assert self.world.rolled.step - before.step in {0, 1}

    @rule()
    def two_leaders(self) -> None:
        """Another process believes to lead: only one of them goes on, the other reads again."""
        first = self.world.instance
        second = self.world.start()
        watch(second)
        for _ in range(6):
            self.world.clock.advance(1)
            for instance in (first, second):
                self.world.act(instance)
                self.world.act(instance)
        self.looked_at()

    @rule()
    def without_the_rollout(self) -> None:
        """The Rollout is deleted for a while."""
        self.world.write_rollout(None)
        self.world.change(self.rule)
        self.world.write_rollout(STEPS)
        self.world.change(self.rule)

    @invariant()
    def what_is_in_force_is_left_alone(self) -> None:
        """Until a promotion, or a reload without a rollout, it is the same byte by byte."""
        store = self.world.instance.reloader.store
        if store.current is self.before:
            assert self.profiles() == self.kept
        else:
            self.before, self.kept = store.current, self.profiles()
            assert store.staged is None

    @invariant()
    def no_step_is_skipped(self) -> None:
        """The steps of one candidate follow one another."""
        state = self.state
        if state is None or state.phase is not Phase.PROGRESSING:
            self.seen.clear()
            return
        place = f"{state.rollout}/{state.candidate}", state.step
        if self.seen and self.seen[-1] != place:
            candidate, step = self.seen[-1]
            # Two steps may end within one rule.
            assert candidate != place[0] or step < state.step
        self.seen.append(place)

    @invariant()
    def the_candidate_decides_only_in_a_canary(self) -> None:
        """In an audit, and after the end, there is no canary."""
        state = self.state
        canary = state is not None and state.phase is Phase.PROGRESSING and state.step > 0
        assert self.world.instance.scheduler.canary is None or canary

    def teardown(self) -> None:
        """Forget the files."""
        if hasattr(self, "folder"):
            self.folder.cleanup()


class RollingFiles(Rolling):
    """Over files."""

    @rule()
    def without_the_rollout(self) -> None:
        """The Rollout is deleted: the files are in force at once; then it is there again."""
        self.world.write_rollout(None)
        self.world.change(self.rule)
        store = self.world.instance.reloader.store
        assert store.staged is None
        assert store.current.content_hash == store.loaded.content_hash
        self.world.write_rollout(STEPS)
        self.world.change(self.rule)
        assert store.staged is None


class Unkept(ObjectWorld):
    """A world in which nothing outlives an object but the status of others."""

    def place(self) -> None:
        """Make the cluster, and no file for a state."""
        super().place()
        self.state = None


class RollingObjects(Rolling):
    """Over objects: requests are annotations, and the record is the status of the Rollout."""

    world: ObjectWorld
    make = Unkept

    @rule(seconds=st.integers(1, 6), pods=st.integers(0, 2))
    def go_on(self, seconds: int, pods: int) -> None:
        """Decide pods as time passes; the status of the policy says whether it is in force."""
        super().go_on(seconds, pods)
        (text,) = self.world.instance.reloader.store.current.sources.values()
        decides = json.loads(text)["spec"]["filter"][0]["expression"] == self.rule
        assert self.world.in_force()[0] == str(decides)

    @precondition(lambda self: self.progressing)
    @rule(action=st.sampled_from(("promote", "abort")), other=st.booleans())
    def annotate(self, action: rollout.Action, other: bool) -> None:
        """Ask by an annotation, for this candidate or another one; it is done once."""
        if not self.world.has_rollout:
            return
        candidate = "another" if other else f"{self.world.rolled.candidate}/{self.world.clock()}"
        self.world.annotate({rollout.ANNOTATIONS[action]: candidate})
        self.world.run(2)
        if not other:
            wanted = {"promote": Phase.PROMOTED, "abort": Phase.ABORTED}[action]
            assert self.world.rolled.phase is wanted

    @rule(text=st.sampled_from((None, WRONG, STEPS)))
    def change_the_rollout(self, text: str | None) -> None:
        """The Rollout is deleted, gets errors, or is there again."""
        before = self.world.hash, self.progressing
        self.world.write_rollout(text)
        self.world.settle()
        if before[1] and text is not STEPS:
            assert self.world.hash == before[0], "a candidate is never in force by this"
            assert text is WRONG or not self.progressing

    @rule(seconds=st.integers(1, 4))
    def falls_behind(self, seconds: int) -> None:
        """A leader hears of nothing, and another one leads, too; then the first one ends."""
        first = self.world.instance
        assert isinstance(first, ObjectProcess)
        first.falls_behind()
        second = self.world.start()
        watch(second)
        for _ in range(seconds):
            self.world.clock.advance(1)
            for instance in (second, first):
                self.world.act(instance)
                self.world.act(instance)
        self.world.settle()
        self.looked_at()

    @invariant()
    def what_is_written_goes_on_from_what_was(self) -> None:
        """No step is skipped or repeated, and what was aborted is not tried again."""
        written = self.world.written
        for before, after in itertools.pairwise(written):
            again = before.phase is Phase.REPLACED  # the change was taken back, and came again
            same = _attempt(before) == _attempt(after) and not again
            if after.phase is Phase.PROGRESSING and same:
                assert before.phase is Phase.PROGRESSING
                assert after.step - before.step in {0, 1}
                assert after.step == before.step or after.counts == rollout.Observed()
            elif after.phase is Phase.PROGRESSING:
                assert after.step == 0
            elif after.reason == "StepsPassed" and before.phase is Phase.PROGRESSING:
                assert same
                assert before.step == 2
        del written[:-1]


def _attempt(state: rollout.State) -> tuple[str, ...]:
    return state.rollout, state.plan, state.stable, state.candidate


TestRollingFiles = pytest.mark.hypothesis(RollingFiles.TestCase)
TestRollingFiles.settings = settings(max_examples=scaled(4), stateful_step_count=8, deadline=None)
TestRollingObjects = pytest.mark.hypothesis(RollingObjects.TestCase)
TestRollingObjects.settings = settings(max_examples=scaled(4), stateful_step_count=8, deadline=None)
