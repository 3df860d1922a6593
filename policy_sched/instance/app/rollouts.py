"""Rollouts: drives a candidate set of policies from its first step to its end.

Theory of operation. `policy_sched.rollout` says what follows from what was counted; here it is
counted, written and done. `step` is called between two decisions, and advances the state about once
a second. A state with effects is written first, and the effects follow between two decisions once
the write succeeded; of two schedulers that both believe to lead one is refused, does nothing and
reads the state again. What was only counted is written once a minute.

The record also holds the texts of the set that is in force. A scheduler that starts while a change
is on its way finds the changed files: it compiles the texts, puts them in force, and makes the
files the candidate again. Until that is done it decides no pod.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from msgspec.structs import replace

from policy_sched import rollout
from policy_sched.errors import ClusterError, Diagnostic, PolicySchedError, Severity, bounded
from policy_sched.instance import observability
from policy_sched.instance.app.audit import (
    NEVER_COMPARED,
    Audits,
    Verdict,
    count_decision,
    count_verdict,
    is_made_again,
    result_of,
)
from policy_sched.instance.app.policy_objects import CustomRecord
from policy_sched.instance.app.rollout_storage import CHANGED, Record, RolloutStorage
from policy_sched.profiles.reload import Compilation, Reload, ReloadResult
from policy_sched.queue import SECOND
from policy_sched.rollout import Phase, StateError
from policy_sched.scheduler import Attempt, Bind, Decision, GroupDecision, Profile, Scheduler
from policy_sched.scheduler.setup import Reloader

EVERY: Final = SECOND
"""Nanoseconds between two looks at what was counted."""
WRITTEN_EVERY: Final = 60 * SECOND
"""Nanoseconds after which counts are written that have no effect."""
TRIGGER: Final = "rollout"
DELETED: Final = "deleted"
"""The identity of a rollout of which only the status of policies is left."""
MOST_UNTRIED: Final = 10
"""Sections that no step tries of which each is told."""


class RolledOut(Protocol):
    """What a rollout needs of the instance that it is about."""

    scheduler: Scheduler
    reloader: Reloader
    log: observability.DecisionLog
    metrics: observability.Metrics
    audits: Audits | None
    audit_share: float
    now: Callable[[], int]

    @property
    def leads(self) -> bool:
        """Whether this instance may write."""

    @property
    def ready(self) -> bool:
        """Whether the cluster is listed."""

    def reload(self, compilation: Compilation, trigger: str) -> Reload:
        """Activate or stage compiled policies."""

    def judge_objects(
        self, compiled: Compilation, reload: Reload, restored: Mapping[str, str]
    ) -> None:
        """Judge the objects beside texts that are in force again."""

    def stable_objects(self, candidate: Compilation) -> tuple[str, dict[str, str], bool] | None:
        """Return what the status of policies says of a candidate whose Rollout is gone."""

    def promote_candidate(self, trigger: str) -> Reload:
        """Put the candidate in force."""

    def drop_candidate(self) -> None:
        """Give the candidate up."""

    def audit(self) -> None:
        """Evaluate what is audited from now on."""

    def tell(self, kind: str, reason: str, action: str, note: str) -> None:
        """Record an event about the scheduler."""

    def woken(self) -> None:
        """Have a step follow soon."""

    async def replace_status(self, record: CustomRecord, status: dict[str, Any]) -> CustomRecord:
        """Replace the status of an object if it is unchanged. Raises ClusterError."""

    async def read_rollout(self, name: str) -> CustomRecord:
        """Return an object as it is now. Raises ClusterError."""


class Rollouts:
    """Drives the rollouts of one instance.

    ``storage`` returns where the record is kept of the object with a uid, and without one that of
    a file and of an object that was deleted; None while that is not known.
    """

    def __init__(
        self, instance: RolledOut, storage: Callable[[str], RolloutStorage | None]
    ) -> None:
        self._instance = instance
        self._open = storage
        self._outlived = False
        """Whether there is a record of an object that was deleted."""
        self._storage: RolloutStorage | None = None
        self.plan: rollout.Plan | None = None
        self._name = ""
        """What the last plan is called, also once it is deleted."""
        self.state: rollout.State | None = None
        self.audited: dict[str, Profile] = {}
        """By schedulerName, what is held against decisions, in an audit."""
        self.settled = False
        """Whether the sets are those of the record; no pod is decided before."""
        self._stable, self._candidate = rollout.Counts(), rollout.Counts()
        self.uid = ""
        """The uid of the object that drives, or drove before it was deleted."""
        self._restoring = self._writing = False
        self._pending: tuple[rollout.State | None, tuple[rollout.Effect, ...]] | None = None
        self._recorded: dict[str, str] | None = None
        self._due = self._written_at = 0
        self._asked: list[tuple[rollout.Action, str, str]] = []
        """What was asked, of which candidate, and the requester."""
        self._reconcile_due = False
        self._place: tuple[str, str, int] | None = None
        """Candidate, plan and step of the step that has begun."""
        self._warned = ("", "", 0)
        self._compared = ("", "")
        self._differs: list[Diagnostic] = []
        observers = instance.scheduler.observers
        observers.decided.insert(0, self._decided)
        observers.group_decided.insert(0, self._group_decided)

    # What the instance tells.

    @property
    def progressing(self) -> bool:
        """Whether a step is under way."""
        return self.state is not None and self.state.phase is Phase.PROGRESSING

    @property
    def next_wakeup(self) -> int | None:
        """When `step` has something to do, ns since 1970; None: only when something comes."""
        if not self._instance.leads or self._writing:
            return None
        due = min(self._due, self._instance.now() + EVERY)
        if not self.settled or self._reconcile_due or self._asked or self._pending:
            return due
        return due if self.progressing else None

    @property
    def audit_name(self) -> str:
        """What the candidate is called among the audited policies: no policy is called so."""
        return "" if self.plan is None else f"rollout/{self.plan.name}"

    def reloaded(self, reload: Reload) -> None:
        """Take note of a reload: there may be another candidate, another plan, or none."""
        if self._restoring or reload.result is ReloadResult.REFUSED:
            return
        self._take_plan()
        self._reconcile_due, self._due = True, 0

    def _take_plan(self) -> None:
        """Take the plan of what was loaded; an object with errors leaves the one that it had."""
        given = self._instance.reloader.store.loaded.rollout
        if given is None:
            self.plan = None
            if self.uid:  # the record went with the object
                self._storage = self._recorded = None
            return
        if given.uid != self.uid:
            self.uid, self.plan = given.uid, None
            self._storage = self._recorded = None
        checked = given.checked()
        if checked is not None:
            self.plan = rollout.plan_of(checked, given.uid)
            self._name = self.plan.name

    @property
    def _given_uid(self) -> str:
        """The uid of the object that drives; of a file, and after it was deleted, there is none."""
        given = self._instance.reloader.store.loaded.rollout
        return "" if given is None else given.uid

    def holds(self, compilation: Compilation) -> bool:
        """Whether a set stays out of force although its Rollout, an object, was deleted."""
        state, staged = self.state, self._instance.reloader.store.staged
        refused = state is not None and state.phase in {Phase.PROGRESSING, Phase.ABORTED}
        candidates = {state.candidate} if state is not None and refused else set()
        candidates |= set() if staged is None else {staged.content_hash}
        return self.uid != "" and compilation.content_hash in candidates

    def request(self, action: rollout.Action, candidate: str, requester: str) -> str:
        """Promote or abort a candidate; return why that cannot be, or nothing.

        It is done between two decisions, once it is written.
        """
        state = self.state
        if not self._instance.leads:
            return "another instance leads: ask that one"
        if state is None:
            return "no rollout is under way"
        if not self.progressing:
            return f"the rollout has ended: {state.phase}"
        if not state.candidate.startswith(candidate):
            return f"the candidate is {state.candidate}, not {candidate}"
        self._asked.append((action, state.candidate, requester))
        self._due = 0
        self._instance.woken()
        return ""

    def step(self) -> None:
        """Do what is due; nothing is under way, and this instance may write or not."""
        now = self._instance.now()
        waits = now < self._due <= now + EVERY  # later: the clock was set back
        if not self._instance.leads or self._writing or waits:
            return
        if self._pending is not None:
            self._enact()
        elif not self.settled:
            self._begin()
        elif self._reconcile_due:
            self._reconcile(now)
        elif self._asked:
            self._answer(now)
        elif self.progressing:
            self._look_for_requests()
            if self._asked:
                self._answer(now)
            elif self.plan is not None:
                self._advance(now)
            else:  # an object that has had errors since this process began
                self._due = now + EVERY

    def _look_for_requests(self) -> None:
        """Take what the annotations of the object ask for."""
        storage, state = self._storage, self.state
        action = storage.requested(state) if storage and state else None
        if action is not None and state is not None:
            requester = f"annotation {rollout.ANNOTATIONS[action]}"
            self._asked.append((action, state.candidate, requester))

    # The state.

    def _begin(self) -> None:
        """Read the record, and put in force what it says; from then on pods are decided."""
        self._take_plan()
        self._storage = self._storage or self._open(self._given_uid)
        if self._storage is None:
            self._due = self._instance.now() + EVERY // 10
            return
        try:
            record = self._read(self._storage)
        except ClusterError as error:
            self._warn("Failed to read the state of the rollout; no pod is decided", str(error))
            self._due = self._instance.now() + EVERY
            return
        except StateError as error:
            self._warn("The state of the rollout is refused; the files are in force", str(error))
            record = None
        if record is not None and record.fault:
            self._warn(
                "The state of the rollout is refused; its candidate begins anew", record.fault
            )
        store = self._instance.reloader.store
        loaded = store.loaded
        self.state = None if record is None else record.state
        self._recorded = None if record is None else record.sources
        texts = self._recorded or {}
        other = texts and texts not in (loaded.sources, store.current.sources)
        if record is not None and other and not self._restore(record):
            self._due = self._instance.now() + EVERY
            return
        self.settled = self._reconcile_due = True

    def _read(self, storage: RolloutStorage) -> Record | None:
        """Return the record that counts. Raises ClusterError or StateError.

        Where an object has none, or there is no Rollout, that is one of an object that was deleted:
        what it would have brought stays out of force as long as it is what there is.
        """
        loaded = self._instance.reloader.store.loaded
        record = storage.read()
        if loaded.rollout is not None and (record is not None or not self._given_uid):
            return record
        if self._given_uid:
            own = self._open("")
            record = None if own is None else own.read()
        state = None if record is None else record.state
        if state is None or state.plan or state.candidate != loaded.content_hash:
            return self._of_policies()
        self.uid, self._outlived = self._given_uid or state.rollout, True
        return record

    def _of_policies(self) -> Record | None:
        """Return what the status of policies says where nothing else is left of a rollout."""
        instance = self._instance
        loaded, now = instance.reloader.store.loaded, instance.now()
        stored = instance.stable_objects(loaded)
        if stored is None:
            return None
        stable, texts, aborted = stored
        compiled, _ = self._compiled(texts)
        if compiled is None or compiled.content_hash != stable:
            text = "The Rollout is gone, and what was in force before it is not known"
            self._warn(text, "what the objects say is in force")
            return None
        self.uid, self._outlived = self._given_uid or DELETED, True
        phase = Phase.ABORTED if aborted else Phase.PROGRESSING
        sets = stable, loaded.content_hash
        return Record(rollout.State(DELETED, "", *sets, began=now, seen=now, phase=phase), texts)

    def _restore(self, record: Record) -> bool:
        """Put the set in force that the record has, and make the files the candidate."""
        instance = self._instance
        store = instance.reloader.store
        loaded = store.loaded
        before, why = self._compiled(record.sources)
        self._restoring = True
        try:
            if before is not None:
                reload = instance.reload(before, TRIGGER)
                if reload.result is ReloadResult.REFUSED:
                    before, why = None, reload.problems[-1].message
            if before is not None:
                reload = instance.reload(loaded, TRIGGER)
            store.loaded = loaded
        finally:
            self._restoring = False
        if before is None:
            text = "Failed to restore the policies in force before the rollout; no pod is decided"
            self._warn(text, why)
            return False
        instance.judge_objects(loaded, reload, record.sources)
        return True

    def _compiled(self, texts: Mapping[str, str]) -> tuple[Compilation | None, str]:
        """Return what texts compile to, or why they do not."""
        try:
            compiled = self._instance.reloader.store.files.compile_texts(texts)
        except (OSError, PolicySchedError) as error:  # a full disk
            return None, str(error)
        errors = [p.message for p in compiled.problems if p.severity is Severity.ERROR]
        return (None, errors[0]) if errors else (compiled, "")

    def _reconcile(self, now: int) -> None:
        """Find out what holds for the sets that there are now."""
        store, plan = self._instance.reloader.store, self.plan
        if self._storage is None and not self._reopen(now):
            return
        self._reconcile_due = False
        stable = store.current.content_hash
        candidate = store.loaded.content_hash
        if plan is None and self.uid and candidate != stable:
            if store.loaded.rollout is None:
                self._outlive(now)
            else:  # it has had errors all along, and holds changes back
                self._carry_out(self.state, (), now=now)
            return
        if plan is None:  # the Rollout is gone or has errors, and there is no change
            plan, state = self._last_plan(), self.state
            if plan is None or state is None:
                if store.loaded.rollout is not None:
                    self._carry_out(None, (), now=now)
                return
        outcome = rollout.reconcile(plan, self.state, stable, candidate, now)
        if store.staged is not None and not any(
            isinstance(effect, (rollout.BeginStep, rollout.Promote)) for effect in outcome[1]
        ):
            self._instance.drop_candidate()  # it was aborted before
        self._carry_out(*outcome, now=now)

    def _outlive(self, now: int) -> None:
        """Leave the stable set in force, at once: the object was deleted.

        A record without a plan is kept for the next process.
        """
        store, state = self._instance.reloader.store, self.state
        sets = store.current.content_hash, store.loaded.content_hash
        if state is None or state.candidate != sets[1]:
            state = rollout.State(self.uid, "", *sets, began=now, seen=now)
        message = "the Rollout was deleted before its candidate was promoted"
        aborted, effects = rollout.abort(state, now, "RolloutDeleted", message)
        self.state, self._outlived = replace(aborted, plan=""), True
        if effects:
            self._end("RolloutAborted", "Aborted the rollout", message, "Warning")
        else:
            self._instance.drop_candidate()
        self._carry_out(self.state, (), now=now)

    def _reopen(self, now: int) -> bool:
        """Keep the record elsewhere from now on: another Rollout drives, or none."""
        self._storage, self._recorded = self._open(self._given_uid), None
        if self._storage is None:
            self._due = now + EVERY // 10
            return False
        try:
            self._storage.read()  # what is written next replaces it
        except (ClusterError, StateError) as error:
            self._warn("The state of the rollout is refused", str(error))
        return True

    def _forget_deleted(self) -> None:
        """Drop the record of an object that was deleted: another one has one of its own."""
        own, self._outlived = self._open(""), False
        with suppress(ClusterError, StateError):  # a record that cannot be read does not count
            if own is not None and own.read() is not None:
                own.write(Record(None, {}), lambda _: None)

    def _last_plan(self) -> rollout.Plan | None:
        return None if self.state is None else rollout.Plan(self._name, self.state.rollout, ())

    def _advance(self, now: int) -> None:
        state, plan = self.state, self.plan
        assert state is not None
        assert plan is not None, "it is under way"
        if self.audited and self._instance.audits is not None:
            self._instance.audits.fold()
        observed = rollout.Observed(self._stable, self._candidate)
        self._stable, self._candidate = rollout.Counts(), rollout.Counts()
        self._due = now + EVERY
        self._carry_out(*rollout.advance(plan, state, observed, now), now=now)

    def _answer(self, now: int) -> None:
        action, candidate, requester = self._asked.pop(0)
        state = self.state
        if state is None or not self.progressing or state.candidate != candidate:
            return
        message = f"aborted in step {state.step + 1}" + (f" by {requester}" if requester else "")
        outcome = (
            rollout.promote(state, now, requester)
            if action == "promote"
            else rollout.abort(state, now, message=message)
        )
        self._carry_out(*outcome, now=now)

    def _carry_out(
        self,
        state: rollout.State | None,
        effects: tuple[rollout.Effect, ...],
        *,
        now: int,
    ) -> None:
        """Write a state, and have its effects follow; what was only counted may wait."""
        before, self.state = self.state, state
        sources = self._sources(effects)
        goes_on = before is not None and state is not None and before.phase is state.phase
        late = self.progressing and abs(now - self._written_at) >= WRITTEN_EVERY
        if goes_on and not (effects or late) and sources == self._recorded:
            return
        if state is None and before is None and sources == self._recorded:
            return
        storage = self._storage
        assert storage is not None, "the record was read"
        record = Record(state, sources)
        if why := storage.excess(record):
            self._refuse_excess(why)
            self._recorded = sources
            return
        self._writing = True

        def done(why: str) -> None:
            self._writing = False
            self._instance.woken()
            if not why:
                self._written_at, self._due, self._recorded = now, 0, sources
                self._pending = state, effects
                if self._outlived and self._given_uid:
                    self._forget_deleted()
                return
            self._warn("Failed to write the state of the rollout", why)
            self.state, self._due = before, self._instance.now() + EVERY
            if why == CHANGED:
                self.settled = False
            else:
                self._reconcile_due = True

        storage.write(record, done)

    def _sources(self, effects: tuple[rollout.Effect, ...]) -> dict[str, str]:
        """Return the texts of the set that is in force once the effects are done."""
        store = self._instance.reloader.store
        promoted = any(isinstance(effect, rollout.Promote) for effect in effects)
        force = store.staged if promoted and store.staged is not None else store.current
        return dict(force.sources)

    def _refuse_excess(self, why: str) -> None:
        if self.plan is None:
            self._warn("A process that starts again puts in force what the objects say", why)
            return
        self._warn("The rollout is refused: its state would be lost with the leader", why)
        self.state = None
        self._instance.drop_candidate()

    # Effects.

    def _enact(self) -> None:
        assert self._pending is not None
        (state, effects), self._pending = self._pending, None
        # What was read while the state was written may have brought another candidate: then only
        # what has ended is told, and `reconcile` says what holds.
        stale = self._reconcile_due
        self._due = 0 if stale else self._instance.now() + EVERY
        for effect in effects:
            match effect:
                case rollout.BeginStep() | rollout.Promote() if stale:
                    continue
                case rollout.BeginStep():
                    self._begin_step(effect)
                case rollout.Promote():
                    self._promote(state)
                case rollout.Abort():
                    self._end("RolloutAborted", "Aborted the rollout", effect.message, "Warning")
                case rollout.Replace():
                    if self._instance.reloader.store.current.content_hash == effect.candidate:
                        continue
                    if effect.reason == "TakenBack":
                        self._end("RolloutReplaced", "The change was taken back", effect.reason)
                    else:
                        self._tell("RolloutReplaced", "Another candidate begins", effect.reason)
        self._count_steps()

    def _begin_step(self, effect: rollout.BeginStep) -> None:
        plan, instance = self.plan, self._instance
        store = instance.reloader.store
        if plan is None or store.staged is None:
            return
        place = store.staged.content_hash, plan.hash, effect.step
        begins, self._place = place != self._place, place
        self.audited = {}
        if effect.audit:
            instance.reloader.choose(None)
            self.audited = dict(instance.reloader.assembly.current.compared)
            what = "audit"
        else:
            sides = rollout.Sides(effect.percent, effect.by, plan.sides(store.staged.content_hash))
            instance.reloader.choose(sides)
            what = f"canary of {effect.percent} % by {effect.by}"
        instance.audit()
        if not begins:  # what was read again is no other candidate
            return
        self._stable, self._candidate = rollout.Counts(), rollout.Counts()
        if effect.step == 0 and instance.audits is not None:
            instance.audits.forget(self.audit_name)
        note = f"step {effect.step + 1} of {len(plan.steps)}: {what}"
        self._tell("RolloutStepped", "A step of the rollout begins", note)
        if effect.step == 0 and (untried := self._untried()):
            instance.log.problems(untried)
            note = "; ".join(problem.placed for problem in untried)
            instance.tell("Warning", "RolloutUntried", "Rollout", f"{plan.name}: {note}")

    def _promote(self, state: rollout.State | None) -> None:
        if self._instance.reloader.store.staged is None or state is None:
            return
        self.audited = {}
        reload = self._instance.promote_candidate(TRIGGER)
        if reload.result is not ReloadResult.REFUSED:
            self._tell("RolloutPromoted", "Promoted the candidate", state.message)
            return
        why = f"the candidate cannot be promoted: {reload.problems[-1].message}"
        now, was = self._instance.now(), replace(state, phase=Phase.PROGRESSING)
        self._carry_out(*rollout.abort(was, now, "PromotionRefused", why), now=now)

    def _end(self, reason: str, text: str, message: str, kind: str = "Normal") -> None:
        self.audited, self._place = {}, None
        if not self._reconcile_due:
            self._instance.drop_candidate()
        self._tell(reason, text, message, kind)

    # What is counted.

    def audit_told(self, audited: str, decision: Decision, verdict: Verdict) -> None:
        """Count what the candidate would have decided; times of both sides are none."""
        if audited == self.audit_name:
            count_verdict(self._stable, self._candidate, decision, verdict)

    def audit_skipped(self, audited: str, why: str, count: int) -> None:
        """Count what was not compared, but for what others of the same kind will be."""
        if audited != self.audit_name:
            return
        if why == "long":
            self._candidate.long += count
        elif why in NEVER_COMPARED or (why == "share" and self._instance.audit_share <= 0):
            self._candidate.skipped += count

    def _decided(self, attempt: Attempt, decision: Decision, start: float) -> None:
        if self.progressing and not is_made_again(attempt, self._instance.scheduler):
            seconds = self._instance.scheduler.observers.timer() - start
            self._count(attempt, decision, seconds)

    def _group_decided(self, group: GroupDecision, start: float) -> None:
        if self.progressing and group.members:
            seconds = self._instance.scheduler.observers.timer() - start
            for member in group.members:
                self._count(member.attempt, member.decision, seconds / len(group.members))

    def _count(self, attempt: Attempt, decision: Decision, seconds: float) -> None:
        """Count a decision for the set that made it; in an audit those that are compared count."""
        canary = self._instance.scheduler.canary
        name = attempt.queued.info.scheduler_name
        by_candidate = canary is not None and canary.profiles.get(name) is attempt.profile
        result = result_of(decision)
        families = self._instance.metrics.policies
        side = "candidate" if by_candidate else "stable"
        families.rollout_decisions_total.values[side, result] += 1
        if canary is None or name not in canary.profiles:
            return
        counts = self._candidate if by_candidate else self._stable
        count_decision(counts, decision)
        counts.decided(seconds)
        if isinstance(decision, Bind):
            waited = self._instance.now() - attempt.queued.first_enqueued_at
            counts.waited(waited / SECOND)

    # What is told.

    def percent(self) -> int:
        """Return how many pods in a hundred the candidate decides, once the state is enacted."""
        plan, state = self.plan, self.state
        if state is not None and state.phase is Phase.PROMOTED:
            return 100
        if plan is None or state is None or state.phase is not Phase.PROGRESSING:
            return 0
        steps = plan.steps[state.step : state.step + 1]  # none: the plan has become shorter
        return steps[0].percent if steps else 0

    def report(self) -> rollout.RolloutReport | None:
        """Return where the rollout is; None where nothing was ever rolled out."""
        plan, state = self.plan or self._last_plan(), self.state
        if plan is None or state is None:
            return None
        if self.progressing:
            observed = rollout.Observed(self._stable, self._candidate)
            state = replace(state, counts=state.counts.plus(observed))
        untried = [problem.placed for problem in self._untried()]
        return rollout.rollout_report(plan, state, self._differences(), untried)

    def _untried(self) -> list[Diagnostic]:
        """Return what of the candidate is tried by no step."""
        store = self._instance.reloader.store
        if self.plan is None or store.staged is None or not self.progressing:
            return []
        # imported here: most schedulers that read objects have no rollout
        from policy_sched.profiles.check import untried_changes  # noqa: PLC0415

        sets = store.current.content_hash, store.staged.content_hash
        if self._compared != sets:
            plans = store.current.plans, store.staged.plans
            untried = untried_changes(*plans, self.plan.name, store.files.loaded)
            self._compared, self._differs = sets, bounded(untried)[:MOST_UNTRIED]
        return self._differs

    def _differences(self) -> list[rollout.Example]:
        """Return the last differences that an audit found."""
        audits = self._instance.audits
        seen = () if audits is None else audits.examples(self.audit_name)
        return [
            rollout.Example(each.pod, each.result, each.node, each.better, int(each.time * 1e9))
            for each in seen
        ]

    def _count_steps(self) -> None:
        """Set the gauges."""
        families, state = self._instance.metrics.policies, self.state
        step, phases = families.rollout_step.values, families.rollout_phase.values
        step.clear()
        phases.clear()
        if state is not None and self._name:
            step[(self._name,)] = state.step + 1
            phases.update({(self._name, phase.value): state.phase is phase for phase in Phase})

    def _tell(self, reason: str, text: str, note: str, kind: str = "Normal") -> None:
        name = self._name
        level = observability.INFO if kind == "Normal" else observability.WARNING
        self._instance.log.write(level, text, rollout=name, detail=note)
        self._instance.tell(kind, reason, "Rollout", f"{name}: {note}" if name else note)

    def _warn(self, text: str, why: str) -> None:
        """Tell of a failure; of the same one, which is tried again and again, once a minute."""
        last, now = self._warned, self._instance.now()
        if last[:2] == (text, why) and abs(now - last[2]) < WRITTEN_EVERY:
            return
        self._warned = text, why, now
        self._instance.log.write(observability.ERROR, text, error=why)
        self._instance.tell("Warning", "FailedRollout", "Rollout", f"{text}: {why}")
