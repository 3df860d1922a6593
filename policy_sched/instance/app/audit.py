"""Audits: what a policy that decides nothing would have changed.

Theory of operation. When a pod was decided, and before anything is done about it, the profile in
which the audited policy decides is evaluated on the same tables. Its runner and evaluator are its
own; plugins that are the same are shared, with what they assume of volumes. The budget of the
attempt, the steps of rules and the state of the random source are put back afterwards. So the
decisions are those of a scheduler without audits.

To read the CPU clock takes a system call, which costs as much as a part of a decision. So after
each pod that is compared it is worked out how many decisions have to pass until there is time
again; these cost a comparison and a subtraction.

Where neither finds a node, victims are compared. A search for them begins at a random node; where
the one that decided would find the same from there, only that differs, and it is a tie. What
PostFilter plugins want to be done afterwards is not done.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
import numpy as np
from msgspec.structs import replace

from policy_sched import framework
from policy_sched.errors import PluginError, TakesLong
from policy_sched.framework import PostFilterResult
from policy_sched.framework.evaluate import Evaluation, FilteredNodes
from policy_sched.framework.runtime import Hook, Runner
from policy_sched.instance import observability
from policy_sched.language.values import remaining
from policy_sched.model import PodInfo
from policy_sched.scheduler import (
    Attempt,
    Bind,
    Decision,
    GroupDecision,
    Preempt,
    Profile,
    Reject,
    Scheduler,
    diagnosed,
    no_node_fits,
)

if TYPE_CHECKING:
    from policy_sched.rollout import Counts

WINDOW: Final = 1.0
"""Seconds whose share may be spent at once: a quiet hour is not saved up for a busy second."""
WITH_CACHES: Final = 1.5
"""What a comparison costs, by the time that it takes: the next decision finds the caches of the
processor filled otherwise."""
MOST_PASSED: Final = 256
"""Decisions that pass before the clock is read again; they may take less time than before."""
EXAMPLES: Final = 10
"""Differences that are kept of each policy."""
SKIPPED: Final = "skipped"
NEVER_COMPARED: Final = frozenset({"devices", "extenders", "group"})
"""Reasons that hold for each attempt of a pod, whatever the candidate is."""
DIFFERENT: Final = frozenset({"moved", "unschedulable", "schedulable", "victims", "error"})
"""Results that are logged, and kept as examples."""

Audited = Callable[[str], Mapping[str, Profile]]
"""From a schedulerName to what is audited there, by name, and the profile in which it decides."""


class Verdict(msgspec.Struct, frozen=True):
    """What another profile makes of a pod that was decided.

    ``node``: where it would go, or which one victims would leave. ``why``: in words; with SKIPPED
    the reason, in one word.
    """

    result: str
    node: str = ""
    why: str = ""


class AuditObserver(Protocol):
    """Is told what audits find, by the name of what is audited."""

    def audit_told(self, audited: str, decision: Decision, verdict: Verdict) -> None:
        """A decision was compared."""

    def audit_skipped(self, audited: str, why: str, count: int) -> None:
        """Decisions were not compared, for a reason in one word."""


class Example(msgspec.Struct, frozen=True, omit_defaults=True):
    """A decision that would have been another one; ``time``: seconds since 1970."""

    time: float
    pod: str
    result: str
    node: str = ""
    """The node that was chosen, or that victims left; empty for none."""
    better: str = ""
    why: str = ""


class Share:
    """A part of the CPU time that the process takes, over a window that moves.

    What is not spent within the window is lost, what is spent too much is waited for. What is spent
    is measured by ``timer``, which costs less to read than ``clock``, that of the CPU time.
    """

    def __init__(
        self,
        share: Callable[[], float],
        clock: Callable[[], float] = time.process_time,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.share = share
        self.clock = clock
        self.timer = timer
        self._at = clock()
        self._credit = 0.0

    def is_left(self, now: float) -> bool:
        """Return whether something may be spent at that time of the clock."""
        share = self.share()
        if share >= 1:  # all are compared
            return True
        earned = self._credit + share * (now - self._at)
        self._credit, self._at = min(earned, share * WINDOW), now
        return share > 0 and self._credit >= 0

    def spend(self, seconds: float) -> None:
        """Take time."""
        self._credit -= seconds

    def decisions_until_left(self, seconds: float) -> int:
        """Return how many decisions of so many seconds have to pass until something is left."""
        share = self.share()
        if share <= 0:
            return MOST_PASSED
        earned = share * seconds
        waits = share < 1 and self._credit < 0 < earned
        return min(MOST_PASSED, int(-self._credit / earned)) if waits else 0


class Audits:
    """Evaluates what is audited beside what decides, from now on.

    ``share`` is the time that may be taken, ``observer`` returns what is told of all, if anything.
    ``families`` count by profile, policy and result. ``log`` gets what would have been different.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        audited: Audited,
        families: observability.PolicyMetrics,
        log: observability.DecisionLog,
        share: Share,
        observer: Callable[[], AuditObserver | None] = lambda: None,
    ) -> None:
        self._scheduler = scheduler
        self._audited = audited
        self._counts = families.audit_decisions_total.values
        self._reasons = families.audit_skipped_total.values
        self._log = log
        self._observer = observer
        self._spent = share
        self._examples: dict[tuple[str, str], deque[Example]] = {}
        self._left = self._planned = 0
        """Decisions that pass before the next one is compared, and of how many."""
        self._since = share.clock()
        self._passed: defaultdict[str, int] = defaultdict(int)
        """By schedulerName, decisions that have passed and are not counted yet."""
        scheduler.observers.decided.append(self._decided)
        scheduler.observers.group_decided.append(self._group_decided)

    def document(self) -> dict[str, Any]:
        """Return what was counted of what is audited now, and the last differences."""
        self.fold()
        listed = []
        for profile in self._scheduler.profiles:
            for policy in self._audited(profile):
                key = profile, policy
                listed.append(
                    {
                        "profile": profile,
                        "policy": policy,
                        "decisions": _of(self._counts, key),
                        "skipped": _of(self._reasons, key),
                        "examples": msgspec.to_builtins([*self._examples.get(key, ())]),
                    }
                )
        return {"share": self._spent.share(), "audits": listed}

    def examples(self, policy: str) -> list[Example]:
        """Return the last differences of what is called so, in all profiles."""
        kept = [
            each for (_, name), some in self._examples.items() if name == policy for each in some
        ]
        return sorted(kept, key=lambda each: each.time)[-EXAMPLES:]

    def forget(self, policy: str) -> None:
        """Drop the differences of what is called so: it is another one from now on."""
        for key in [key for key in self._examples if key[1] == policy]:
            del self._examples[key]

    def _group_decided(self, decision: GroupDecision, _start: float) -> None:
        for member in decision.members:
            profile = member.attempt.queued.info.scheduler_name
            self._skip(profile, self._audited(profile), "group")

    def _decided(self, attempt: Attempt, decision: Decision, _start: float) -> None:
        name = attempt.queued.info.scheduler_name
        if self._left:  # most pods of a busy scheduler
            self._left -= 1
            self._passed[name] += 1
            return
        audited = self._audited(name)
        if not audited or is_made_again(attempt, self._scheduler):
            return
        why = _why_skipped(attempt, self._scheduler)
        if why:
            self._skip(name, audited, why)
            return
        share = self._spent
        start, now = share.timer(), share.clock()
        each, spent = (now - self._since) / (self._planned + 1), 0.0
        if share.is_left(now):
            self._compare(attempt, decision, audited)
            spent = WITH_CACHES * (share.timer() - start)
            share.spend(spent)
        else:
            self._skip(name, audited, "share")
        self._since = now + spent
        self._left = self._planned = share.decisions_until_left(each)

    def _compare(
        self, attempt: Attempt, decision: Decision, audited: Mapping[str, Profile]
    ) -> None:
        name, node = attempt.queued.info.scheduler_name, getattr(decision, "node", "")
        for policy, profile in audited.items():
            verdict = judged(self._scheduler, attempt, decision, profile)
            if verdict.result == SKIPPED:
                self._skip(name, (policy,), verdict.why)
                continue
            self._count(attempt, policy, verdict, node)
            if (observer := self._observer()) is not None:
                observer.audit_told(policy, decision, verdict)

    def fold(self) -> None:
        """Count what has passed."""
        for profile, count in self._passed.items():
            self._skip(profile, self._audited(profile), "share", count)
        self._passed.clear()

    def _skip(self, profile: str, audited: Iterable[str], why: str, count: int = 1) -> None:
        for policy in audited:
            self._counts[profile, policy, SKIPPED] += count
            self._reasons[profile, policy, why] += count
            if (observer := self._observer()) is not None:
                observer.audit_skipped(policy, why, count)

    def _count(self, attempt: Attempt, policy: str, verdict: Verdict, node: str) -> None:
        pod = attempt.queued.info
        profile, result = pod.scheduler_name, verdict.result
        self._counts[profile, policy, result] += 1
        if result not in DIFFERENT:
            return
        example = Example(
            self._scheduler.handle.now() / 1e9, pod.key, result, node, verdict.node, verdict.why
        )
        self._examples.setdefault((profile, policy), deque(maxlen=EXAMPLES)).append(example)
        facts = msgspec.to_builtins(example)
        del facts["time"]
        text = "An audited policy would have decided differently"
        self._log.write(observability.INFO, text, profile=profile, policy=policy, **facts)


def _of(values: Mapping[tuple[str, ...], float], key: tuple[str, str]) -> dict[str, int]:
    """Return the counts of a policy by their last label."""
    return {last: int(n) for (*first, last), n in sorted(values.items()) if (*first,) == key}


def is_made_again(attempt: Attempt, scheduler: Scheduler) -> bool:
    """Return whether the decision is dropped, as it took too long where it blocks others."""
    return attempt.brief and (scheduler.handle.budget.exceeded or remaining().exceeded)


def _why_skipped(attempt: Attempt, scheduler: Scheduler) -> str:
    """Return why a pod is not compared, in one word; empty if it is."""
    if attempt.queued.info.may_use_devices:
        return "devices"  # what their search learns of a claim is kept for the next attempt
    if attempt.profile.extenders:
        return "extenders"
    return "" if scheduler.cache.nodes.row_of else "nodes"


def result_of(decision: Decision) -> str:
    """Return whether a decision chose a node, found none, or was ended by an error."""
    if isinstance(decision, Bind):
        return "scheduled"
    if isinstance(decision, Preempt) or decision.status.rejected:
        return "unschedulable"
    return "error"


def count_decision(counts: Counts, decision: Decision) -> None:
    """Count a decision for the side of a rollout that made it."""
    counts.decisions += 1
    match result_of(decision):
        case "scheduled":
            counts.scheduled += 1
        case "error":
            counts.errors += 1
        case _:
            counts.unschedulable += 1
            counts.victims += len(getattr(decision, "victims", ()))


def count_verdict(stable: Counts, candidate: Counts, decision: Decision, verdict: Verdict) -> None:
    """Count a decision of the stable side, and what the candidate would have made of the pod."""
    count_decision(stable, decision)
    candidate.decisions += 1
    result = verdict.result
    alike = result in {"same", "moved", "tie"}
    if result == "error":
        candidate.errors += 1
    elif result == "schedulable" or (alike and isinstance(decision, Bind)):
        candidate.scheduled += 1
    else:
        candidate.unschedulable += 1
    if alike or result == "schedulable":
        setattr(candidate, result, getattr(candidate, result) + 1)


def judged(scheduler: Scheduler, attempt: Attempt, decision: Decision, profile: Profile) -> Verdict:
    """Return what another profile makes of a pod; nothing that decisions read is changed."""
    budget, steps = scheduler.handle.budget, remaining()
    with _put_back(scheduler.handle):
        budget.exceeded = steps.exceeded = False
        if attempt.brief:
            steps.begin_brief()  # the decision has ended, what it left is not the candidate's
        try:
            verdict = _Comparison(scheduler, attempt, profile).with_decision(decision)
        except TakesLong:
            return Verdict(SKIPPED, why="long")
        except PluginError as error:
            verdict = Verdict("error", why=str(error))
        if attempt.brief and (budget.exceeded or steps.exceeded):
            return Verdict(SKIPPED, why="long")
        return verdict


@contextmanager
def _put_back(handle: framework.Handle) -> Iterator[None]:
    """Put the budget and the steps of the attempt back at the end."""
    steps, budget = remaining(), handle.budget
    exceeded, total, paid = steps.exceeded, steps.total, dict(vars(budget))
    try:
        yield
    finally:
        steps.exceeded, steps.total = exceeded, total
        vars(budget).update(paid)


class _Comparison:
    """One pod that was decided, and the profile that is asked what it would have done."""

    def __init__(self, scheduler: Scheduler, attempt: Attempt, profile: Profile) -> None:
        self._scheduler = scheduler
        self._attempt = attempt
        self._profile = profile
        self._names = scheduler.cache.nodes.names

    def with_decision(self, decision: Decision) -> Verdict:
        """Return the verdict. Raises PluginError, and TakesLong for a brief attempt."""
        evaluation = self._profile.evaluator.evaluate(self._attempt.queued.info)
        if evaluation.broken is not None:
            return Verdict("error", why=str(evaluation.broken))
        if isinstance(decision, Bind):
            return self._with_binding(decision, evaluation)
        if evaluation.scoring is not None:
            total = evaluation.scoring.total
            best = np.flatnonzero(total == total.max())
            return Verdict("schedulable", self._names[best.item(0)])
        if not decision.status.rejected:
            return Verdict("unschedulable", why=self._reasons(evaluation))
        return self._with_victims(decision, evaluation)

    def _with_binding(self, decision: Bind, evaluation: Evaluation) -> Verdict:
        if evaluation.scoring is None:
            return Verdict("unschedulable", why=self._reasons(evaluation))
        total = evaluation.scoring.total
        # Where nodes are sampled, other ones were not looked at.
        rows = decision.evaluation.filtering.feasible_rows()
        best = rows[total[rows] == total[rows].max()]
        own, most, first = total[decision.row], total[best[0]], best.item(0)
        if own < 0:
            why = evaluation.filtering.statuses()[decision.row].message()
            return Verdict("moved", self._names[first] if most >= 0 else "", why)
        if decision.row not in best:
            better, by = (
                self._names[first],
                observability.difference(evaluation, first, decision.row),
            )
            why = observability.points_text(better, most, decision.node, own, by)
            return Verdict("moved", better, why)
        return Verdict("same" if best.size == 1 else "tie")

    def _reasons(self, evaluation: Evaluation) -> str:
        return diagnosed(evaluation, self._scheduler.cache.nodes.live_count).message()

    def _with_victims(self, decision: Preempt | Reject, evaluation: Evaluation) -> Verdict:
        """Compare the victims with those that the other profile finds."""
        other = self._searched(self._profile, evaluation)
        decided = decision if isinstance(decision, Preempt) else None
        if other is None and decided is None:
            return Verdict("same")
        names = " ".join(sorted(pod.key for pod in other.victims)) if other else "no pod"
        verdict = Verdict("victims", other.node if other else "", f"evicts {names}")
        if other is None or decided is None:
            return verdict
        if _eviction(other) == _eviction(decided):
            return Verdict("same")
        there = None if other.elsewhere is None else other.elsewhere(decided.node)
        as_good = there is not None and there.as_good and there.victims == decided.victims
        return (
            replace(verdict, result="tie") if as_good or self._began_elsewhere(other) else verdict
        )

    def _began_elsewhere(self, other: Preempt) -> bool:
        """Return whether what decides finds the same where its search begins with that node."""
        state = self._attempt.state
        filtering = state.read(FilteredNodes)
        if filtering is None:
            return False
        again = self._searched(self._attempt.profile, Evaluation(state, filtering))
        return again is not None and _eviction(again) == _eviction(other)

    def _searched(self, profile: Profile, evaluation: Evaluation) -> Preempt | None:
        """Search for victims; the state of the random source is as before."""
        random, pipeline = self._scheduler.handle.random, profile.pipeline
        if not pipeline.at("post_filter"):
            return None
        hooks = {**pipeline.hooks, "post_filter": tuple(map(_idle, pipeline.at("post_filter")))}
        searching = replace(profile, runner=Runner(replace(pipeline, hooks=hooks)))
        trial = Attempt(self._attempt.queued, searching, evaluation.state.clone(), brief=True)
        state = random.getstate()
        try:
            outcome = no_node_fits(trial, evaluation, self._scheduler.cache.nodes.live_count)
        finally:
            random.setstate(state)
        return outcome if isinstance(outcome, Preempt) else None


def _eviction(preempt: Preempt) -> tuple[str, tuple[PodInfo, ...]]:
    return preempt.node, preempt.victims


def _idle(hook: Hook) -> Hook:
    """Return a PostFilter plugin of whose result nothing is to be done."""

    def search(*args: object) -> object:
        result = hook.function(*args)
        return replace(result, then=None) if isinstance(result, PostFilterResult) else result

    return replace(hook, function=search)
