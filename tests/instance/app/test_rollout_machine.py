"""Rollouts under hostile histories: changes, requests, dying processes, two leaders, odd clocks."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from policy_sched import rollout
from policy_sched.instance.app import EmbeddedInstance
from policy_sched.rollout import Phase
from policy_sched.scheduler import Attempt, Decision
from tests.examples import scaled
from tests.instance.app.test_rollouts import World

RULES = ("true", "node.name == 'a'", "node.name != 'c'", "false")
STEPS = """\
apiVersion: policysched.dev/v1alpha1
kind: Rollout
metadata: {name: quick}
spec:
  steps:
  - audit: {decisions: 2, for: 3s}
  - canary: {percent: 30, by: Pod, for: 3s}
  - canary: {percent: 60, by: Pod, for: 3s}
  abortWhen: [{expression: candidate.unschedulable > 0.9, message: no node, decisions: 4}]
"""


class Watched(World):
    """A world that looks at each decision, and at each step that begins."""

    def start(self) -> EmbeddedInstance:
        """Start a process; its decisions are looked at."""
        instance = super().start()
        self.watch(instance)
        self.begun: list[tuple[str, int]] = []
        return instance

    def watch(self, instance: EmbeddedInstance) -> None:
        """Look at the decisions of a process from now on."""

        def decided(attempt: Attempt, _decision: Decision, _start: float) -> None:
            rollouts, store = instance.rollouts, instance.reloader.store
            assert rollouts is not None
            assert rollouts.settled, "no pod is decided before the sets are those of the record"
            made_by = attempt.profile.pipeline.content_hash
            stable = store.current.plans[0].content_hash
            canary = instance.scheduler.canary
            if canary is None:
                assert made_by == stable
                return
            staged, state, plan = store.staged, rollouts.state, rollouts.plan
            assert staged is not None
            assert state is not None
            assert plan is not None
            info = attempt.queued.info
            share = rollout.share_of(rollout.key_of(info, "Pod"), plan.sides(staged.content_hash))
            percent = plan.steps[state.step].percent
            own = staged.plans[0].content_hash
            assert made_by == (own if share < percent else stable)

        instance.scheduler.observers.decided.append(decided)


class Rolling(RuleBasedStateMachine):
    """One scheduler, or for a while two, over the files and the state of one rollout."""

    @initialize()
    def begin(self) -> None:
        """Start a process."""
        self.folder = tempfile.TemporaryDirectory()
        self.world = Watched(Path(self.folder.name), text=STEPS)
        self.rule = "true"
        self.before = self.world.instance.reloader.store.current
        self.kept = self.profiles()
        self.seen: list[tuple[str, int]] = []

    def profiles(self) -> list[object]:
        """Return what evaluates pods by the set in force."""
        profiles = self.world.instance.scheduler.profiles.values()
        return [(profile.evaluator, profile.runner) for profile in profiles]

    @rule(number=st.integers(0, len(RULES) - 1))
    def change(self, number: int) -> None:
        """Change the files, and have them read."""
        self.rule = RULES[number]
        self.world.change(self.rule)

    @rule(number=st.integers(0, len(RULES) - 1))
    def change_unseen(self, number: int) -> None:
        """Change the files and die before they are read."""
        self.rule = RULES[number]
        self.world.write(self.rule)
        self.die()

    @rule(seconds=st.integers(1, 6), pods=st.integers(0, 2))
    def go_on(self, seconds: int, pods: int) -> None:
        """Decide pods as time passes."""
        self.world.run(seconds, pods)

    @rule()
    def die(self) -> None:
        """End the process without a word, and start another one."""
        force = self.world.instance.reloader.store.current.content_hash
        state = self.world.instance.rollouts and self.world.instance.rollouts.state
        self.world.start()
        store = self.world.instance.reloader.store
        assert store.current.content_hash == force
        again = self.world.instance.rollouts and self.world.instance.rollouts.state
        if state is not None and again is not None and again.candidate == state.candidate:
            assert again.step == state.step
        self.before, self.kept = store.current, self.profiles()

    @precondition(lambda self: self.world.instance.rollouts.progressing)
    @rule(action=st.sampled_from(("promote", "abort")))
    def request(self, action: rollout.Action) -> None:
        """Promote or abort by hand."""
        rollouts = self.world.instance.rollouts
        assert rollouts is not None
        assert rollouts.request(action, "", "admin") == ""
        self.world.settle()
        wanted = {"promote": Phase.PROMOTED, "abort": Phase.ABORTED}[action]
        assert self.world.rolled.phase is wanted

    @rule(seconds=st.sampled_from((-3600, -5, 3600, 10**6)))
    def jump(self, seconds: int) -> None:
        """Set the clock: no step is skipped, and none ends without its decisions."""
        before = self.world.instance.rollouts.state if self.world.instance.rollouts else None
        self.world.clock.advance(seconds)
        self.world.settle()
        if before is not None and before.phase is Phase.PROGRESSING:
            after = self.world.rolled
            if after.phase is Phase.PROGRESSING:
                assert after.step - before.step in {0, 1}

    @rule()
    def two_leaders(self) -> None:
        """Another process believes to lead: only one of them goes on, the other reads again."""
        first = self.world.instance
        second = self.world.start()
        for _ in range(6):
            self.world.clock.advance(1)
            for instance in (first, second):
                instance.step()
                instance.step()
        self.before, self.kept = second.reloader.store.current, self.profiles()

    @rule()
    def without_the_document(self) -> None:
        """The Rollout is deleted: the files are in force at once; then it is there again."""
        path = self.world.folder / "policies" / "rollout.yaml"
        path.unlink()
        self.world.change(self.rule)
        store = self.world.instance.reloader.store
        assert store.staged is None
        assert store.current.content_hash == store.loaded.content_hash
        path.write_text(STEPS)
        self.world.change(self.rule)
        assert store.staged is None

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
        state = self.world.instance.rollouts and self.world.instance.rollouts.state
        if state is None or state.phase is not Phase.PROGRESSING:
            self.seen.clear()
            return
        place = state.candidate, state.step
        if self.seen and self.seen[-1] != place:
            candidate, step = self.seen[-1]
            # Two steps may end within one rule.
            assert candidate != state.candidate or step < state.step
        self.seen.append(place)

    @invariant()
    def the_candidate_decides_only_in_a_canary(self) -> None:
        """In an audit, and after the end, there is no canary."""
        instance = self.world.instance
        state = instance.rollouts and instance.rollouts.state
        canary = state is not None and state.phase is Phase.PROGRESSING and state.step > 0
        assert instance.scheduler.canary is None or canary

    def teardown(self) -> None:
        """Forget the files."""
        if hasattr(self, "folder"):
            self.folder.cleanup()


TestRolling = pytest.mark.hypothesis(Rolling.TestCase)
TestRolling.settings = settings(max_examples=scaled(6), stateful_step_count=8, deadline=None)
