"""Rollouts under hostile timing: leaders that die or are two, clocks that jump, and changes.

The machine plays a cluster: one object with a resourceVersion that holds the state, and schedulers
that drive it. Each scheduler knows a state and its version, may be stale, and enacts effects only
after its write was accepted. What must hold is said over what was written and enacted.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from policy_sched.rollout import (
    Abort,
    BeginStep,
    Effect,
    Phase,
    Plan,
    Promote,
    Replace,
    State,
    StateError,
    abort,
    advance,
    promote,
    read_state,
    reconcile,
    share_of,
)
from tests.examples import scaled
from tests.rollout.plans import DIVIDED, MINUTE, PLAN, WORSE, counted

PODS = tuple(f"owner-{i}" for i in range(40))
SECOND = MINUTE // 60
PLANS = (
    PLAN,
    Plan("careful", "careful", PLAN.steps[1:], (WORSE, DIVIDED)),
    Plan("careful", "another-uid", PLAN.steps, (WORSE,)),
)


@dataclass
class Stored:
    """The object: the text of the state, and the version that each write raises."""

    text: str | None = None
    version: int = 0


@dataclass
class Leader:
    """A scheduler that believes to lead: what it read, and what it does to pods.

    ``percent``: of the candidate; 0 lets the stable set decide everything. ``clock``: how far its
    clock is off.
    """

    state: State | None = None
    version: int = -1
    stable: str = ""
    candidate: str = ""
    sides: str = ""
    percent: int = 0
    audit: bool = False
    clock: int = 0
    decided: int = 0


@dataclass
class Attempt:
    """One pass of a rollout's candidate through its steps."""

    plan: Plan
    candidate: str
    steps: list[int] = field(default_factory=list)


class RolloutMachine(RuleBasedStateMachine):
    """Schedulers, an object, files that change, and a clock."""

    def __init__(self) -> None:
        super().__init__()
        self.stored = Stored()
        self.leaders = [Leader(), Leader()]
        self.now = 100_000 * MINUTE
        self.plan = PLAN
        self.stable = self.wanted = "set-0"
        self.changes = 0
        self.lost = ""
        self.attempt: Attempt | None = None
        self.step_began: dict[str, int] = {}
        self.in_step = 0
        """Decisions that were counted in the step that is stored."""
        self.driven = 0
        """Nanoseconds that the step can have been driven."""

    # What a scheduler does.

    def read(self, leader: Leader) -> None:
        """Read the object; of a text that is no state there is none, and the stable set decides."""
        leader.version = self.stored.version
        leader.stable, leader.candidate = self.stable, self.wanted
        leader.percent, leader.audit = 0, False
        leader.state = None
        if self.stored.text is not None:
            with suppress(StateError):
                leader.state = read_state(self.stored.text)

    def write(self, leader: Leader, state: State | None, effects: tuple[Effect, ...]) -> None:
        """Write a state as the API server takes it, and enact what follows; else read again."""
        if leader.version != self.stored.version:
            self.read(leader)
            return
        before = leader.state
        if state != before:
            self.stored.text = None if state is None else state.text()
            self.stored.version += 1
            leader.version = self.stored.version
            self.note(before, state)
        leader.state = state
        for effect in effects:
            self.enact(leader, effect)

    def note(self, before: State | None, after: State | None) -> None:
        """Hold what was written against what may follow."""
        if after is None:
            return
        anew = before is None or (before.candidate, before.rollout, before.plan) != (
            after.candidate,
            after.rollout,
            after.plan,
        )
        if after.phase is Phase.PROGRESSING and (anew or after.began != before.began):
            if anew or after.step == 0:
                assert after.step == 0, "a candidate begins at the first step"
                self.attempt = Attempt(self.plan, after.candidate, [0])
            else:
                assert self.attempt is not None
                assert after.step == self.attempt.steps[-1] + 1, "no step is repeated or skipped"
                self.check_step_was_done(self.plan, self.attempt.steps[-1])
                self.attempt.steps.append(after.step)
            self.in_step, self.driven = 0, 0
        if after.phase is Phase.PROMOTED and after.reason == "StepsPassed":
            assert self.attempt is not None
            assert self.attempt.steps == list(range(len(self.plan.steps)))
            self.check_step_was_done(self.plan, self.attempt.steps[-1])

    def check_step_was_done(self, plan: Plan, number: int) -> None:
        """A step had its decisions and its time, however clocks jumped."""
        step = plan.steps[number]
        assert self.in_step >= step.decisions
        assert self.driven >= step.least

    def enact(self, leader: Leader, effect: Effect) -> None:
        """Do to the pods what a scheduler is told."""
        match effect:
            case BeginStep():
                assert leader.state is not None
                assert leader.state.step == effect.step
                leader.percent, leader.audit = effect.percent, effect.audit
                leader.sides = self.plan.sides(leader.state.candidate)
            case Promote():
                assert leader.state is not None
                assert leader.state.phase is Phase.PROMOTED
                leader.percent, leader.audit = 0, False
                self.stable = leader.stable = leader.state.candidate
            case Abort() | Replace():
                leader.percent, leader.audit = 0, False

    def reconciled(self, leader: Leader) -> None:
        """Reconcile with the files and the set in force that the scheduler sees."""
        now = self.now + leader.clock
        state, effects = reconcile(self.plan, leader.state, leader.stable, leader.candidate, now)
        if state is leader.state and not effects:
            leader.percent, leader.audit = 0, False
        self.write(leader, state, effects)

    # What happens.

    @initialize()
    def start(self) -> None:
        """There is a change, and the first scheduler leads."""
        self.changes_files(back=False)
        self.leads(0)

    @rule(which=st.integers(0, 1))
    def leads(self, which: int) -> None:
        """A scheduler (again) believes to lead: it reads, and reconciles."""
        leader = self.leaders[which]
        self.read(leader)
        self.reconciled(leader)

    @rule(which=st.integers(0, 1))
    def dies(self, which: int) -> None:
        """A scheduler loses all that it knew, and another one takes over."""
        self.leaders[which] = Leader(clock=self.leaders[which].clock)
        self.leads(1 - which)

    def changes_files(self, *, back: bool) -> None:
        """The files hold a newer set, or the one in force again."""
        self.changes += 1
        self.wanted = self.stable if back else f"set-{self.changes}"
        for leader in self.leaders:
            leader.candidate = self.wanted

    @rule(
        what=st.sampled_from(["change", "change", "back", "delete", "break", "newer"]),
        plan=st.sampled_from(PLANS),
    )
    def disturbs(self, what: str, plan: Plan) -> None:
        """Somebody changes files or the plan, deletes the object, or writes nonsense into it."""
        if what in ("change", "back"):
            self.changes_files(back=what == "back")
        elif what == "newer":
            self.plan = plan
        else:
            self.stored.text = None if what == "delete" else '{"version":9}'
            self.stored.version += 1
            self.attempt = None

    @rule(which=st.integers(0, 1), jump=st.sampled_from([-1440, -10, 10, 1440, 600_000]))
    def sets_clock(self, which: int, jump: int) -> None:
        """The clock of a machine is set."""
        leader = self.leaders[which]
        leader.clock = max(leader.clock + jump * MINUTE, -self.now)

    @rule(which=st.integers(0, 1), hours=st.integers(0, 100))
    def nobody_leads(self, which: int, hours: int) -> None:
        """Time passes in which nothing is driven, and some pods are decided late."""
        self.now += hours * 60 * MINUTE
        self.advance(self.leaders[which], 600, 0)

    @rule(which=st.integers(0, 1), decisions=st.integers(1, 300))
    def fails(self, which: int, decisions: int) -> None:
        """Every other pod of the candidate finds no node."""
        self.now += MINUTE
        self.advance(self.leaders[which], decisions, decisions // 2)

    @rule(
        which=st.sampled_from([0, 0, 1]),
        passed=st.sampled_from([1, 30, 60, 60, 60, 200]),
        calls=st.integers(1, 25),
        decisions=st.sampled_from([0, 1, 60, 60, 600]),
    )
    def drives(self, which: int, passed: int, calls: int, decisions: int) -> None:
        """A scheduler decides pods for a while."""
        for _ in range(calls):
            self.now += passed * SECOND
            self.advance(self.leaders[which], decisions, 0)

    def advance(self, leader: Leader, decisions: int, failed: int) -> None:
        """Let a scheduler advance with what it counted, if it drives anything."""
        state = leader.state
        if state is None or state.phase is not Phase.PROGRESSING:
            return
        current = (self.plan.identity, self.plan.hash, leader.stable, leader.candidate)
        if current != (state.rollout, state.plan, state.stable, state.candidate):
            self.reconciled(leader)
            return
        if leader.version == self.stored.version:
            self.in_step += decisions
            self.driven += max(0, min(self.now + leader.clock - state.seen, MINUTE))
        observed = counted(decisions, failed)
        new, effects = advance(self.plan, state, observed, self.now + leader.clock)
        assert len(effects) <= 1
        self.write(leader, new, effects)

    @rule(which=st.integers(0, 1), promotes=st.booleans())
    def is_asked(self, which: int, promotes: bool) -> None:
        """Somebody promotes or aborts."""
        leader = self.leaders[which]
        if leader.state is None:
            return
        now = self.now + leader.clock
        state, effects = (
            promote(leader.state, now, "anna") if promotes else abort(leader.state, now)
        )
        self.write(leader, state, effects)

    # What must hold.

    def side(self, leader: Leader, pod: str) -> str:
        """Return who decides a pod for a scheduler."""
        if leader.percent and share_of(pod, leader.sides) < leader.percent:
            return "candidate"
        return "stable"

    @invariant()
    def one_set_for_each_pod(self) -> None:
        """Schedulers that have read the same state send no pod to different sets."""
        sides = [
            [self.side(leader, pod) for pod in PODS]
            for leader in self.leaders
            if leader.version == self.stored.version and leader.state is not None and leader.percent
        ]
        assert all(one == sides[0] for one in sides)

    @invariant()
    def a_later_step_keeps_the_pods_of_an_earlier_one(self) -> None:
        """Who was decided by the candidate stays so as the percent rises."""
        for leader in self.leaders:
            chosen = {pod for pod in PODS if self.side(leader, pod) == "candidate"}
            fewer = {pod for pod in PODS if share_of(pod, leader.sides) < leader.percent / 2}
            assert fewer <= chosen

    @invariant()
    def only_steps_let_the_candidate_decide(self) -> None:
        """After an abort, a promotion or a replacement nothing is the candidate's."""
        for leader in self.leaders:
            if leader.percent:
                assert leader.state is not None
                assert leader.state.phase is Phase.PROGRESSING
                assert leader.percent == self.percent_of(leader.state)

    def percent_of(self, state: State) -> int:
        """Return the percent of the step of a state, by the plan that it was made with."""
        plan = next(
            plan for plan in PLANS if (plan.identity, plan.hash) == (state.rollout, state.plan)
        )
        return plan.steps[state.step].percent

    @invariant()
    def what_is_stored_can_be_read(self) -> None:
        """A scheduler writes no state that another one refuses."""
        for leader in self.leaders:
            if leader.state is not None and leader.version == self.stored.version:
                assert self.stored.text is not None
                assert read_state(self.stored.text) == leader.state


TestRolloutMachine = RolloutMachine.TestCase
TestRolloutMachine.settings = settings(
    max_examples=scaled(100), stateful_step_count=40, deadline=None
)
