"""A rollout on recorded traffic: which step yesterday's pods would have let pass, and which not.

Theory of operation. The traffic is decided in virtual time by the set that was in force at its
start, with the other set as the candidate beside it. The scheduler, its canary and the comparison
of an audit are those of a cluster, and `policy_sched.rollout` says what follows from the counts;
here it is driven by the clock of the simulation. It ends when the rollout does.

A decision takes no time here, so decidingP50 and decidingP99 are zero.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from policy_sched import rollout
from policy_sched.errors import PolicyError, PolicySchedError
from policy_sched.instance.app import DIFFERENT, SKIPPED, count_decision, count_verdict, judged
from policy_sched.model import SECOND, counted
from policy_sched.profiles.build import CompiledPlan
from policy_sched.profiles.check import untried_changes
from policy_sched.profiles.reload import Compilation, ReloadResult
from policy_sched.report import Document
from policy_sched.scheduler import Attempt, Bind, Decision, GroupDecision, Profile
from policy_sched.scheduler.setup import Reloader
from policy_sched.simulate import Timeline, Traffic, duration_text, replaying, time_text


@dataclass(frozen=True, slots=True)
class RolloutReplay:
    """What became of a rollout; ``events``: nanoseconds after the start, and what happened."""

    start: int
    end: int
    decided: int
    """Pods that were decided until the rollout ended, or the traffic."""
    events: tuple[tuple[int, str], ...]
    report: rollout.RolloutReport
    notes: tuple[str, ...]

    @property
    def aborted(self) -> bool:
        """Whether the traffic stops the candidate."""
        return self.report.phase == rollout.Phase.ABORTED

    def lead(self) -> str:
        """Return the end of the rollout in a sentence."""
        after, report = duration_text(self.events[-1][0]), self.report
        if self.aborted:
            step = report.steps[report.step - 1].step
            return f"Aborted after {after}, in step {report.step} ({step}): {report.message}"
        if report.phase == rollout.Phase.PROMOTED:
            return f"Promoted after {after}: every step has passed"
        whole = duration_text(self.end - self.start)
        return f"Still in step {report.step} of {len(report.steps)} at the end, after {whole}"

    def text_lines(self) -> Iterator[str]:
        """Yield the rollout as text."""
        yield f"{counted(self.decided, 'decision')} from {time_text(self.start)}"
        yield self.lead()
        yield ""
        for after, what in self.events:
            yield f"  {duration_text(after) or '0s'}: {what}"
        yield ""
        yield from self.report.text_lines()
        if self.notes:
            yield ""
        for note in self.notes:
            yield f"Note: {note}"

    def document(self) -> Document:
        """Return the rollout as plain data."""
        return {
            "replay": {
                "since": time_text(self.start),
                "until": time_text(self.end),
                "decisions": self.decided,
            },
            "events": [{"seconds": after / SECOND, "what": what} for after, what in self.events],
            "rollout": self.report.document(),
            "notes": list(self.notes),
        }


@dataclass(slots=True)
class _Driven:
    """A rollout on a simulation."""

    timeline: Timeline
    reloader: Reloader
    plan: rollout.Plan
    state: rollout.State
    start: int
    stable: rollout.Counts = field(default_factory=rollout.Counts)
    candidate: rollout.Counts = field(default_factory=rollout.Counts)
    compared: dict[str, Profile] = field(default_factory=dict)
    """By schedulerName, what is held against decisions, in an audit."""
    events: list[tuple[int, str]] = field(default_factory=list)
    differences: list[rollout.Example] = field(default_factory=list)
    decided: int = 0

    # What is counted.

    def note(self, attempt: Attempt, decision: Decision, _start: float) -> None:
        """Count a decision for the set that made it; in an audit, for both sides."""
        self.decided += 1
        scheduler, info = self.timeline.scheduler, attempt.queued.info
        audited = self.compared.get(info.scheduler_name)
        if audited is not None:
            if not (info.may_use_devices or attempt.profile.extenders):
                self._compare(attempt, decision, audited)
            return
        canary = scheduler.canary
        profile = None if canary is None else canary.profiles.get(info.scheduler_name)
        if profile is None:
            return
        side = self.candidate if attempt.profile is profile else self.stable
        count_decision(side, decision)
        if isinstance(decision, Bind):
            side.waited((scheduler.handle.now() - attempt.queued.first_enqueued_at) / SECOND)

    def note_group(self, group: GroupDecision, start: float) -> None:
        """Count the decisions of a group's pods; an audit compares none of them."""
        for member in group.members if not self.compared else ():
            self.note(member.attempt, member.decision, start)

    def _compare(self, attempt: Attempt, decision: Decision, profile: Profile) -> None:
        verdict = judged(self.timeline.scheduler, attempt, decision, profile)
        if verdict.result == SKIPPED:
            return
        count_verdict(self.stable, self.candidate, decision, verdict)
        if verdict.result in DIFFERENT:
            node, pod = getattr(decision, "node", ""), attempt.queued.info.key
            now = self.timeline.scheduler.handle.now()
            self.differences.append(rollout.Example(pod, verdict.result, node, verdict.node, now))
            del self.differences[: -rollout.EXAMPLES]

    # What follows.

    def advance(self, timeline: Timeline) -> bool:
        """Advance to the time of the simulation; return whether the rollout has ended.

        Between two events nothing is counted, but time passes.
        """
        while timeline.now - self.state.seen > rollout.LONGEST_GAP:
            between = self.state.seen + rollout.LONGEST_GAP
            self._take(rollout.advance(self.plan, self.state, rollout.Observed(), between))
        observed = rollout.Observed(self.stable, self.candidate)
        self.stable, self.candidate = rollout.Counts(), rollout.Counts()
        self._take(rollout.advance(self.plan, self.state, observed, timeline.now))
        return self.state.phase is not rollout.Phase.PROGRESSING

    def _take(self, outcome: tuple[rollout.State, Sequence[rollout.Effect]]) -> None:
        self.state, effects = outcome
        for effect in effects:
            self.enact(effect)

    def enact(self, effect: rollout.Effect) -> None:
        """Let the candidate decide what the step says, and note it."""
        after = self.state.seen - self.start
        if isinstance(effect, rollout.BeginStep):
            step = self.plan.steps[effect.step]
            self.events.append((after, f"step {effect.step + 1}: {rollout.step_text(step)}"))
            self.compared = {}
            if effect.audit:
                self.reloader.choose(None)
                self.compared = dict(self.reloader.assembly.current.compared)
            else:
                sides = self.plan.sides(self.state.candidate)
                self.reloader.choose(rollout.Sides(effect.percent, effect.by, sides))
        elif isinstance(effect, rollout.Promote):
            self.events.append((after, "promoted"))
        elif isinstance(effect, rollout.Abort):
            self.events.append((after, f"aborted: {effect.message}"))


def replay_rollout(
    traffic: Traffic,
    plans: Sequence[CompiledPlan],
    candidate: Compilation,
    plan: rollout.Plan,
    *,
    seed: int = 0,
    notes: Sequence[str] = (),
) -> RolloutReplay:
    """Roll a set of policies out on recorded traffic, beside ``plans``.

    Raises PolicyError if the candidate cannot be beside them, PolicySchedError if it decides
    alike or a decision cannot be executed.
    """
    timeline = replaying(traffic, plans, seed)
    reloader = timeline.reloader(candidate)
    staged = reloader.stage(candidate)
    if staged.result is ReloadResult.REFUSED:
        raise PolicyError(staged.problems)
    store = reloader.store
    if store.staged is None:
        raise PolicySchedError("both sets of policies decide alike: there is nothing to roll out")
    hashes = store.current.content_hash, store.staged.content_hash
    state, effects = rollout.reconcile(plan, None, *hashes, traffic.start)
    assert state is not None, "the candidate is another set"
    driven = _Driven(timeline, reloader, plan, state, traffic.start)
    observers = timeline.scheduler.observers
    observers.decided.insert(0, driven.note)
    observers.group_decided.insert(0, driven.note_group)
    for effect in effects:
        driven.enact(effect)
    untried = untried_changes(plans, candidate.plans, plan.name)
    timeline.run(stops=driven.advance)
    told = [problem.placed for problem in untried]
    report = rollout.rollout_report(plan, driven.state, driven.differences, told)
    return RolloutReplay(
        traffic.start, traffic.end, driven.decided, tuple(driven.events), report, tuple(notes)
    )
