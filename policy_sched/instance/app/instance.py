"""Instance: a scheduler with its policies, driven one step at a time.

Theory of operation. Nothing here waits or reads a clock of its own: `step` does the work that is
due, `next_wakeup` returns when the next step is due, and the run loop sleeps until then, or
until an event arrives. A step applies the inbox, then decides pods; it begins no decision when its
``slice`` of time is over. Policies are read beside the steps and take effect between
two of them. `stop` begins an orderly shutdown: no further pod is decided, waiting pods are
unreserved, and bindings in flight are awaited. Subclasses connect the cluster.

A decision that may take long (it calls HTTP extenders, tries a whole group in many places, or
searches victims node by node) is made in a `Worker`, and the next step executes it. Meanwhile
steps and all other code leave the scheduler alone: code that reads or changes it first awaits
`settled`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import aiohttp
import msgspec
import numpy.ma  # noqa: F401 - else the first pod for which np.unique runs imports it, in 40 ms
from msgspec.structs import replace

from policy_sched.client import Client
from policy_sched.cluster import InputProblem
from policy_sched.cluster.tables import Quotas
from policy_sched.errors import Diagnostic, Severity, TakesLong
from policy_sched.instance import observability
from policy_sched.instance.app import manifest_sync, polled_inputs
from policy_sched.instance.app.cache_debugger import Comparer, Seen, dump
from policy_sched.instance.app.evictions import PolicyEvictions
from policy_sched.instance.app.gc_tuning import GcPauses
from policy_sched.instance.app.input_schemas import InputSchemas
from policy_sched.instance.app.policy_objects import (
    CustomRecord,
    PolicyCounts,
    PolicyObjects,
    Records,
)
from policy_sched.instance.app.polled_inputs import PolledInputs
from policy_sched.instance.app.published_quotas import PublishedQuotas, StatusPatch
from policy_sched.instance.app.worker import Worker, in_event_loop
from policy_sched.instance.observability import healthz
from policy_sched.language import Input
from policy_sched.model import DEFAULT_SCHEDULER, ApiObject, Kind, Pod, PodInfo, QueueState
from policy_sched.plugins.rules import Answer, inputs_of, kind_of_input
from policy_sched.profiles import models
from policy_sched.profiles.build import CompiledPlan, declared_inputs, policy_names
from policy_sched.profiles.reload import Compilation, PolicyFiles, PolicyStore, Reload, ReloadResult
from policy_sched.queue import SECOND, Timing
from policy_sched.scheduler import (
    Attempt,
    Decision,
    GroupDecision,
    Outcome,
    Profile,
    Reject,
    Scheduler,
    object_changed,
    pod_seen,
)
from policy_sched.scheduler.setup import ENDED, Reloader, assemble_with_assembly

if TYPE_CHECKING:
    from policy_sched.instance.app.audit import Audits
    from policy_sched.instance.app.rollout_objects import RolloutObjects
    from policy_sched.instance.app.rollout_storage import RolloutStorage
    from policy_sched.instance.app.rollouts import Rollouts
    from policy_sched.instance.app.traffic import RecordingThread
    from policy_sched.rollout import RolloutControl

T = TypeVar("T")
Choice: TypeAlias = Decision | GroupDecision | None

POLICY: Final[Kind] = (models.POLICY_API_VERSION, models.POLICY_KIND)
ROLLOUT: Final[Kind] = (models.POLICY_API_VERSION, models.ROLLOUT_KIND)
PODS_PER_STEP: Final = 64
"""Pods that one step decides, after which the event loop runs other tasks."""
LONG: Final = SECOND // 4
"""Nanoseconds of a decision in vain after which others that take long are put off as long."""
FURTHEST: Final = 60 * SECOND
"""Nanoseconds that a pod is put off at most."""
SHARE: Final = 0.1
"""The part of the CPU time that audits take at most, unless --audit-share says otherwise."""
CLOSING = "the scheduler is shutting down"


class Sources(msgspec.Struct, frozen=True):
    """Inputs of an instance: files of policies and of objects, and its own configuration file.

    ``controllers``: whether the embedded cluster runs controllers.
    """

    policies: PolicyFiles
    manifests: Sequence[str] = ()
    data: str | None = None
    seed: int = 0
    controllers: bool = True
    policy_objects: str | None = None
    """The label selector of policies that are read as objects; None: only files are read."""


class LongTurns:
    """When decisions that take long may begin, in nanoseconds.

    While one is made, no other pod is decided. So that hopeless pods, however many, do not keep all
    others waiting, one that was in vain is followed by as much time without another: the pods that
    are put off get turns one after the other. ``waits`` returns whether a pod is still put off.
    """

    def __init__(self, waits: Callable[[str], bool]) -> None:
        self._waits = waits
        self._began = self._free = self._took = 0
        self._turns: dict[str, int] = {}

    def begin(self, now: int) -> None:
        """A decision that takes long begins."""
        self._began = now

    def end(self, now: int, *, in_vain: bool) -> None:
        """It ends."""
        self._took = now - self._began
        if in_vain and self._took >= LONG:
            self._free = now + self._took

    def next(self, now: int, uid: str, *, apart: bool) -> int:
        """Return until when a pod is to be put off, 0 if it may be decided now.

        ``apart``: it takes work to find out that it takes long, so it gets a turn of its own.
        """
        turns = self._turns
        turns.pop(uid, None)
        while turns and next(iter(turns.values())) <= now:
            del turns[next(iter(turns))]
        if now >= self._free:
            return 0
        if not apart:
            return self._free
        while turns and not self._waits(next(reversed(turns))):
            turns.popitem()
        until = self._free
        if turns:
            after = next(reversed(turns.values())) + 2 * self._took
            until = max(until, min(after, now + FURTHEST))
        turns[uid] = until
        return until


def in_vain(chosen: Choice) -> bool:
    """Return whether a decision found nothing, neither nodes nor victims."""
    if isinstance(chosen, GroupDecision):
        return not (chosen.status.ok or chosen.waiting or chosen.victims)
    return isinstance(chosen, Reject)


def adopt(scheduler: Scheduler, pods: Iterable[Pod], profiles: Collection[str]) -> None:
    """Queue those of the pods that wait for one of the profiles."""
    for pod in pods:
        waits = not pod.spec.node_name and pod.status.phase not in ENDED
        if waits and (pod.spec.scheduler_name or DEFAULT_SCHEDULER) in profiles:
            pod_seen(scheduler, PodInfo.of(pod))


class Instance(ABC):
    """A scheduler behind a client; ``now`` returns nanoseconds since 1970."""

    patience = 60.0
    """Seconds in which the inputs of new policies must be listed, else the reload is refused."""
    audit_share = SHARE
    """The part of the CPU time that audits take at most."""
    audits: Audits | None = None
    """What is audited beside what decides; None until something is."""
    policy_objects: PolicyObjects | None = None
    """Policies that are objects of the cluster; None: only files are read."""
    rollout_objects: RolloutObjects | None = None
    """Rollouts that are objects of the cluster, beside the policies."""
    rolls_out = True
    """Whether a Rollout among the files says how changes come in force."""
    rollout: RolloutControl | None = None
    """Where a candidate set of policies is on its way, and what may be asked of it."""
    rollouts: Rollouts | None = None
    """The same, as it is driven; None until there is one."""
    rollout_state: str | None = None
    """The file in which the state of rollouts is kept, if it is to be kept in one."""
    turns_apart = 0.0
    """Seconds between two turns of the event loop in which there is nothing to do but to wait."""

    def __init__(
        self,
        store: PolicyStore,
        client: Client,
        now: Callable[[], int],
        log: observability.DecisionLog,
        manifests: manifest_sync.ManifestFiles,
        seed: int = 0,
    ) -> None:
        self.now = now
        self.log = log
        self.metrics = observability.Metrics()
        self.turns = observability.EventLoopLatency()
        self.metrics.add(self.turns, self.turns.look)
        self.gc_pauses = GcPauses()
        self.metrics.add(self.gc_pauses)
        self.manifests = manifests
        self.manifest_problems: tuple[Diagnostic, ...] = ()
        self.scheduler, assembly = assemble_with_assembly(
            store.current.plans,
            seed=seed,
            client=client,
            now=now,
            timing=_timing(store.current.settings),
            runner=self.metrics.attempts.runner,
        )
        self.metrics.watch(self.scheduler)
        self.verbose_logging = observability.VerboseLogging(self.scheduler, log)
        self.reloader = Reloader(self.scheduler, assembly, store)
        self._drive()
        self.stopping = False
        self.work = 0
        """Pods decided and changes applied so far."""
        self._abandoned = False
        self.live_checks: tuple[healthz.Check, ...] = ()
        """Checks of a subclass for healthz and livez; ``ready_checks``: for readyz alone."""
        self.ready_checks: tuple[healthz.Check, ...] = ()
        self._debugging = asyncio.Lock()
        self._wake: Callable[[], None] = lambda: None
        self._worker = Worker(self.woken)
        self._deciding: tuple[Attempt, Future[Choice]] | None = None
        self._executing: Iterator[Outcome] | None = None
        self._turns = LongTurns(self._is_put_off)
        self.metrics.refresh += [self._look_at_extenders, self._look_at_inputs]
        self._read_inputs(store.current.plans)
        self.published = PublishedQuotas(
            self.inputs, self._published_quotas, self._write_status, self._wrote_status
        )
        self.evictions = PolicyEvictions(self.scheduler, self._may_evict, self._evicted)
        self._decisions: observability.DecisionRecorder | None = None
        self.traffic: RecordingThread | None = None
        """What records what comes, goes and is decided, if that is wanted."""
        self._unpublished: set[str] = set()
        """The inputs of whose objects the last one could not be written."""
        self.slice = inf
        """Seconds after which a step begins no further work; set by the run loop."""
        self.metrics.loaded(store.current, store.status)
        self._log_in_force("Loaded policies")
        self.log.problems(store.current.warnings)

    def _read_inputs(self, plans: Sequence[CompiledPlan]) -> None:
        """Read what the inputs of the first policies declare."""
        self.inputs = self.scheduler.handle.shared(inputs_of)
        self.inputs.problems.tell = self._input_problem
        self.schemas = InputSchemas(self._definition, self._schema_told, declared_inputs(plans))
        self.polls = PolledInputs(self._ask, self._polled)
        self.polls.follow(self._polled_of(plans))

    @abstractmethod
    def pods(self) -> Iterable[Pod]:
        """Return all known pods of the cluster."""

    def waiting(self, uid: str) -> tuple[PodInfo, str] | None:
        """Return a pod in this instance's queue, and the profile that decides it."""
        queued = self.scheduler.queue.get(uid)
        return None if queued is None else (queued.info, queued.info.scheduler_name)

    @property
    def leads(self) -> bool:
        """Whether this instance may write."""
        return True

    def checks(self) -> dict[str, tuple[healthz.Check, ...]]:
        """Return the checks of healthz, livez and readyz."""
        alive = (healthz.Check(healthz.PING, healthz.nothing_wrong), *self.live_checks)
        shutdown = healthz.Check(healthz.SHUTDOWN, self._going_on)
        # An instance starts only with valid policies.
        policies = healthz.Check(healthz.POLICIES, healthz.nothing_wrong)
        ready = (*alive, shutdown, *self.ready_checks, policies)
        return {"healthz": alive, "livez": alive, "readyz": ready}

    def _going_on(self) -> str:
        return "process is shutting down" if self.stopping else ""

    @property
    def ready(self) -> bool:
        """Whether the cluster is listed."""
        return True

    def step(self) -> int:
        """Do the work that is due; return how many pods were decided."""
        self._beforehand()
        if self._deciding is not None and not self._finish_decision(*self._deciding):
            return 0
        return 0 if self._worker.busy else self._step()

    def _step(self) -> int:
        """Do the part of a step that uses the scheduler; return how many pods were decided."""
        self._take_in()
        if self.rollouts is not None:
            self.rollouts.step()
        decided = self._decide()
        self.work += decided
        return decided

    @abstractmethod
    def _beforehand(self) -> None:
        """Do the part of a step that does not use the scheduler."""

    @abstractmethod
    def _take_in(self) -> None:
        """Apply changes of the cluster to the scheduler."""

    @property
    @abstractmethod
    def behind(self) -> bool:
        """Whether there are changes that the scheduler does not know yet."""

    @property
    def may_begin(self) -> bool:
        """Whether a pod may be decided now."""
        return not self.stopping and self.polls.complete and self.rolled_out

    @property
    def rolled_out(self) -> bool:
        """Whether the sets in force are those that the state of a rollout says."""
        return self.rollouts is None or self.rollouts.settled

    def next_wakeup(self) -> int | None:
        """Return the time of the next step, the present included; None: none is scheduled."""
        if self.deciding:
            return self.now() if self.executing else self._cluster_wakeup()  # the worker wakes us
        if self.behind or (not self.scheduler.queue.idle() and self.may_begin):
            return self.now()
        times = [self._cluster_wakeup(), self.scheduler.next_wakeup()]
        if self.rollouts is not None:
            times.append(self.rollouts.next_wakeup)
        return min((time for time in times if time is not None), default=None)

    def _cluster_wakeup(self) -> int | None:
        """Return when the cluster itself has something to do."""
        return None

    def apply(self, contents: manifest_sync.ManifestContents) -> manifest_sync.AppliedManifests:
        """Apply the files of objects to the cluster; on errors the cluster stays as it is.

        A cluster behind an API server has its objects from there.
        """
        return manifest_sync.AppliedManifests(problems=contents.problems)

    def record_decisions(self, path: str, masked: Sequence[str]) -> None:
        """Write a record of each decision to a file, from now on. Raises OSError."""

        def trouble(reason: str) -> None:
            text = "Failed to write the decision log"
            self.log.write(observability.WARNING, text, error=reason)

        log = observability.RotatedLog(path, None, trouble)
        self._decisions = observability.DecisionRecorder(self.scheduler, log, masked, self.now)

    def follow_policies(self, selector: str) -> PolicyObjects:
        """Read policies that are objects, too, and write their status while this leads."""

        async def write(name: str, status: dict[str, Any]) -> None:
            await self.patch_status(POLICY, "", name, status)

        def told(name: str, error: str) -> None:
            text = "Failed to write the status of a policy"
            self.log.write(observability.WARNING, text, policy=name, error=error)

        counts = PolicyCounts(self.scheduler, self.metrics)
        store = self.reloader.store

        def may_write() -> bool:  # what objects say is read before
            return self.ready and self.leads and self.rolled_out

        objects = PolicyObjects(counts, may_write, write, told, self.now, store)
        objects.loaded(store.files.objects)
        objects.records = self.observe(POLICY, selector, objects.changed.set)
        self.policy_objects = objects
        if self.rolls_out:
            from policy_sched.instance.app.rollout_objects import RolloutObjects  # noqa: PLC0415 - as audits

            rollouts = self.rollout_objects = RolloutObjects(self)
            rollouts.records = self.observe(ROLLOUT, selector, objects.changed.set)
            self._drive()
        return objects

    def files(self) -> PolicyFiles:
        """Return what is to be compiled, with the policies and rollouts that are objects now."""
        files = self.reloader.store.files
        if self.policy_objects is not None:
            files = replace(files, objects=self.policy_objects.given())
        if self.rollout_objects is not None:
            files = replace(files, rollouts=self.rollout_objects.given())
        return files

    def judge_objects(
        self, compiled: Compilation, reload: Reload, restored: Mapping[str, str] | None = None
    ) -> None:
        """Judge the objects that a reload read; ``restored``: texts that are in force again."""
        store = self.reloader.store
        if self.policy_objects is not None:
            if restored is not None:
                self.policy_objects.restored(restored)
            self.policy_objects.judge(store.files.objects, compiled.paths, reload)
        if self.rollout_objects is not None:
            self.rollout_objects.judge(store.files.rollouts, store.loaded.rollout)

    @abstractmethod
    async def replace_status(self, record: CustomRecord, status: dict[str, Any]) -> CustomRecord:
        """Replace the status of an object of ours if it is unchanged. Raises ClusterError."""

    @abstractmethod
    async def read_rollout(self, name: str) -> CustomRecord:
        """Return a Rollout as it is now. Raises ClusterError."""

    @abstractmethod
    def observe(self, kind: Kind, selector: str, changed: Callable[[], None]) -> Records:
        """Follow the objects of a kind of ours; return what lists them.

        ``changed`` is called when there may be something new.
        """

    @abstractmethod
    async def patch_status(
        self, kind: Kind, namespace: str, name: str, status: Mapping[str, Any]
    ) -> None:
        """Merge a status into that of an object of a kind of ours, or of inputs.

        Raises ClusterError.
        """

    def record_traffic(self, folder: str, annotations: Collection[str] = ()) -> None:
        """Record what comes, goes and is decided, once the cluster is read.

        ``annotations``: further ones that are kept. Raises PolicySchedError or OSError where
        nothing can be recorded.
        """
        from policy_sched.instance.app.traffic import RecordingThread  # noqa: PLC0415 - as audits
        from policy_sched.recording import Kept, Recorder  # noqa: PLC0415 - as above

        recorder, store = Recorder(folder, Kept(annotations)), self.reloader.store
        thread = self.traffic = RecordingThread(
            recorder, store, self.now, self._everything, self._recording_trouble
        )
        thread.look()
        observers = self.scheduler.observers
        observers.decided.append(thread.decided)
        observers.group_decided.append(thread.group_decided)

    @abstractmethod
    def _everything(self) -> Iterator[ApiObject]:
        """Yield all objects of the cluster that are known."""

    def _recording_trouble(self, reason: str) -> None:
        if reason:
            text = "Failed to write the recording"
            self.log.write(observability.WARNING, text, error=reason)
        else:
            self.log.write(observability.INFO, "The recording goes on")

    def audit(self) -> None:
        """Evaluate what is audited beside what decides, from the first that there is on."""
        rollouts = self.rollouts
        wanted = self.reloader.assembly.current.audits or (rollouts and rollouts.audited)
        if self.audits is not None or not wanted:
            return
        # imported here: only where it is used
        from policy_sched.instance.app.audit import Audits, Share  # noqa: PLC0415

        share, families = Share(lambda: self.audit_share), self.metrics.policies
        self.audits = Audits(
            self.scheduler, self._audited, families, self.log, share, lambda: self.rollouts
        )
        self.metrics.refresh.append(self.audits.fold)

    def _audited(self, profile: str) -> Mapping[str, Profile]:
        """Return what is audited in a profile: policies, and the candidate of a rollout."""
        policies = self.reloader.assembly.current.audits.get(profile, {})
        rollouts = self.rollouts
        if rollouts is None or profile not in rollouts.audited:
            return policies
        return {**policies, rollouts.audit_name: rollouts.audited[profile]}

    def _drive(self) -> None:
        """Audit policies and drive rollouts from now on, if the files have some."""
        self.audit()
        there = self.reloader.store.loaded.rollout is not None or self.rollout_objects is not None
        if self.rolls_out and there and self.rollouts is None:
            # imported here: few schedulers have one
            from policy_sched.instance.app.rollouts import Rollouts  # noqa: PLC0415

            self.rollout = self.rollouts = Rollouts(self, self.rollout_storage)

    def rollout_storage(self, uid: str) -> RolloutStorage | None:
        """Return where the state is kept of a Rollout with a uid, or of one without.

        None while that is not known.
        """
        # imported here: few schedulers have one
        from policy_sched.instance.app import rollout_storage as storage  # noqa: PLC0415

        policies, given = self.policy_objects, self.reloader.store.files.objects
        if policies is not None and given and policies.records() is None:
            return None
        text, objects = self.reloader.store.loaded.rollout, self.rollout_objects
        driven = self.rollouts
        if uid and driven is not None and objects is not None and text is not None and text.given:
            return objects.storage(text.given, uid, driven)
        if self.rollout_state is not None:
            return storage.FileStorage(self.rollout_state)
        return self._own_storage() or storage.RolloutStorage()

    def _own_storage(self) -> RolloutStorage | None:
        """Return where a subclass keeps the state of rollouts; None: nowhere."""
        return None

    def close(self) -> None:
        """Close the cluster, the connections to extenders, and what is written of decisions."""
        if self._decisions is not None:
            self._decisions.close()
        if self.traffic is not None:
            self.traffic.close()
        for extender in self.scheduler.handle.extenders:
            extender.close()

    def wakes(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` when the next step has something to do."""
        self._wake = wake

    def woken(self) -> None:
        """Have a step follow soon."""
        self._wake()

    def beside(self) -> list[Coroutine[None, None, None]]:
        """Return the tasks that run beside the steps."""
        return []

    def _adopt(self, profiles: Collection[str]) -> None:
        """Queue the pods of new profiles."""
        if profiles:
            adopt(self.scheduler, self.pods(), profiles)

    @property
    def deciding(self) -> bool:
        """Whether the worker uses the scheduler; other code leaves it alone."""
        return self._worker.busy

    async def settled(self) -> None:
        """Wait until the scheduler is free; it stays free until the caller awaits again."""
        await self._worker.settled()

    async def undisturbed(self, work: Callable[[], T]) -> T:
        """Call a function that uses the scheduler in the worker; steps wait for it."""
        return await self._worker.run(work)

    def _decide(self) -> int:
        """Do what is due, decide pods, and return their number."""
        decided, scheduler, begin = 0, self.scheduler, self.may_begin
        over, threaded = self._slice(), in_event_loop()
        if self.stopping and not self._abandoned:
            self._abandon()
        self._run_due()
        while True:
            if scheduler.has_woken():
                self._run_due()
            if not begin or decided >= PODS_PER_STEP or (decided and over()):
                break
            attempt = scheduler.pop()
            if attempt is None:
                break
            attempt.brief = threaded
            try:
                chosen = scheduler.choose(attempt)
            except TakesLong as long:
                if attempt.profile.extenders:
                    until = 0  # all pods of the profile take long
                else:
                    uid = attempt.queued.info.uid
                    until = self._turns.next(self.now(), uid, apart=long.worked)
                if until:
                    scheduler.queue.put_off(attempt.queued, until)
                    continue
                attempt.brief = False
                self._turns.begin(self.now())
                self._deciding = attempt, self._worker.begin(partial(scheduler.choose, attempt))
                break
            decided += self._execute(attempt, chosen)
        return decided

    def _is_put_off(self, uid: str) -> bool:
        queued = self.scheduler.queue.get(uid)
        return queued is not None and queued.place is QueueState.BACKOFF

    def _run_due(self) -> None:
        for late in self.scheduler.run_due():
            self._decided(late, late=True)

    def _finish_decision(self, attempt: Attempt, future: Future[Choice]) -> bool:
        """Execute the worker's decision; return False while it is not complete.

        A group is executed pod by pod, as much as a step may take at a time.
        """
        if not future.done():
            return False
        done = True
        try:
            if self._executing is None:
                chosen = future.result()
                self._turns.end(self.now(), in_vain=in_vain(chosen))
                if isinstance(chosen, GroupDecision):
                    self._executing = self.scheduler.execute_group(attempt, chosen)
                else:
                    self._execute(attempt, chosen)
            if self._executing is not None:
                done = self._execute_some(self._executing)
        finally:
            if done:
                self._deciding = self._executing = None
                self._worker.finish()
        return done

    def _execute_some(self, outcomes: Iterator[Outcome]) -> bool:
        over = self._slice()
        for outcome in outcomes:
            self._decided(outcome)
            if over():
                return False
        return True

    @property
    def executing(self) -> bool:
        """Whether a decision of the worker is being executed, which the next step goes on with."""
        return self._executing is not None

    def _execute(self, attempt: Attempt, chosen: Choice) -> int:
        outcome = self.scheduler.execute(attempt, chosen)
        for decided in (outcome, *outcome.others):
            self._decided(decided)
        return 1 + len(outcome.others)

    def _slice(self) -> Callable[[], bool]:
        """Return a function that returns whether a slice of time that begins now is over."""
        if self.slice == inf:
            return lambda: False
        timer = self.metrics.attempts.timer
        until = timer() + self.slice
        return lambda: timer() >= until

    def queue_lengths(self) -> dict[str, int]:
        """Return the number of pods in each queue, by upstream's names."""
        return self.scheduler.queue.lengths()

    # Policies.

    async def readied(self, compilation: Compilation) -> Compilation:
        """Return what was compiled once its inputs are there, or why they cannot be."""
        if compilation.failed:
            return compilation
        self.polls.follow(self._polled_of((*self.reloader.plans, *compilation.plans)))
        problems: list[Diagnostic] = []
        for given in self._polled_of(compilation.plans):
            if given.optional or given.identity in self.polls.last:
                continue
            try:
                async with asyncio.timeout(self.patience):
                    await self.polls.answered(given)
            except TimeoutError:
                why = self.polls.errors.get(given.identity, "")
                message = f"input {given.name} has no answer within {self.patience:g} s"
                message += f": {why}" if why else ""
                problems += self.reloader.store.files.problems_of_input(
                    (given.api_version, given.kind), message
                )
        if not problems:
            return compilation
        return Compilation((), (*compilation.problems, *problems))

    def reload(self, compilation: Compilation, trigger: str) -> Reload:
        """Activate compiled policies if they are valid and differ from those in force.

        No decision may be under way (`settled`).
        """
        self._take_answers()
        held = self.rollouts is not None and self.rollouts.holds(compilation)
        steps = self.rolls_out and (held or compilation.rollout is not None)
        reload = (self.reloader.stage if steps else self.reloader.commit)(compilation)
        reload = self._reloaded(reload, trigger)
        self._drive()
        if self.rollouts is not None:
            self.rollouts.reloaded(reload)
        return reload

    def stable_objects(self, candidate: Compilation) -> tuple[str, dict[str, str], bool] | None:
        """Return what the status of policies says of a candidate whose Rollout is gone."""
        return None if self.policy_objects is None else self.policy_objects.stable(candidate)

    def promote_candidate(self, trigger: str) -> Reload:
        """Put the candidate of a rollout in force, as a reload would have done."""
        return self._reloaded(self.reloader.promote(), trigger)

    def drop_candidate(self) -> None:
        """Give the candidate of a rollout up."""
        self.reloader.drop()
        self._follow_inputs()

    def _follow_inputs(self) -> None:
        """Read what the sets that there are declare, and nothing else."""
        self._drop_polled(self.polls.follow(self._polled_of(self.reloader.plans)))

    def _reloaded(self, reload: Reload, trigger: str) -> Reload:
        """Count, log and follow up a reload."""
        self._follow_inputs()
        for identity, answer in self.polls.last.items():
            self.inputs.set_root(identity, answer.root)
        self.schemas.follow(declared_inputs(self.reloader.store.current.plans))
        status = self.reloader.store.status
        self.metrics.reloaded(reload.result, trigger)
        self.log.problems(reload.problems)
        if reload.result is ReloadResult.REFUSED:
            self.metrics.reloadable(status)
            count = sum(d.severity is Severity.ERROR for d in reload.problems)
            text = "Failed to reload policies; keeping the current ones"
            self.log.write(
                observability.ERROR, text, trigger=trigger, problems=count, **self._in_force()
            )
            self.tell("Warning", "FailedReload", "Reload", _refusal(text, reload.problems))
            return reload
        self.metrics.loaded(reload.policies, status)
        if reload.restart:
            text = "Some changed settings take effect only after a restart"
            self.log.write("warning", text, settings=list(reload.restart))
        if reload.result is ReloadResult.LOADED:
            self.audit()
            if self.traffic is not None:
                self.traffic.look()
            changes = reload.changes
            self._adopt(changes.added)
            if changes.gone:
                text = "Policies were removed"
                if not policy_names(reload.policies.plans):
                    text += "; only the default plugins decide"
                self.log.write("warning", text, policies=list(changes.gone))
            text = "Reloaded policies"
            self._log_in_force(text, trigger=trigger, policies=list(changes.policies))
        elif reload.result is ReloadResult.STAGED:
            staged = self.reloader.store.staged
            facts = {"candidate": "" if staged is None else staged.content_hash}
            self._log_in_force("Policies are the candidate of a rollout", trigger=trigger, **facts)
        else:
            self._log_in_force("Policies unchanged", trigger=trigger)
        return reload

    @abstractmethod
    def tell(self, kind: str, reason: str, action: str, note: str) -> None:
        """Record an event about this scheduler."""

    # Shutdown.

    def stop(self) -> None:
        """Pop no further pod and unreserve waiting ones; steps continue until `stopped`."""
        if self.stopping:
            return
        self.stopping = True
        self.log.write(observability.INFO, "Stopping", inFlight=self.scheduler.in_flight)
        if not self.deciding:
            self._abandon()

    def _abandon(self) -> None:
        self._abandoned = True
        for outcome in self.scheduler.shutdown(CLOSING):
            self._decided(outcome, late=True)

    @property
    def stopped(self) -> bool:
        """Whether no decision or binding is under way."""
        return self._abandoned and not self.deciding and not self.scheduler.in_flight

    @abstractmethod
    async def look(self) -> Seen:
        """List the cluster's nodes and pods, not from the cache."""

    async def debug(self) -> None:
        """Log state, cache and queue, and compare them with the cluster.

        Concurrent calls are queued.
        """
        async with self._debugging:
            await self.settled()
            self.dump()
            await dump(self.scheduler, self.log)
            await Comparer(self.scheduler, self.log).run(self.look)

    def dump(self) -> None:
        """Log the state, the longest turn since the last dump, and all metrics."""
        longest, busiest = self.turns.recent()
        facts = {
            "queues": self.queue_lengths(),
            "longestTurnSeconds": round(longest, 4),
            "busiestTurnSeconds": round(busiest, 4),
            "metrics": self.metrics.text(),
        }
        self.log.write(observability.INFO, "State", **self._in_force(), **facts)

    # Inside.

    def _decided(self, outcome: Outcome, *, late: bool = False) -> None:
        self.metrics.decided(outcome, self.now())
        self.log.decided(outcome, 0 if late else self.scheduler.cache.nodes.live_count)

    def _look_at_extenders(self) -> None:
        """Set the gauge of extender calls that are in progress."""
        if self.scheduler.handle.extenders:
            values = self.metrics.upstream.goroutines.values
            values[("prioritizing_extender",)] = self._deciding is not None

    def _look_at_inputs(self) -> None:
        """Set the gauges of inputs."""
        counts = self.inputs.counts()
        families = self.metrics.policies
        if self._decisions is not None:
            families.decision_log_lost_lines.values[()] = self._decisions.lost
        if self.traffic is not None:
            families.recording_bytes_total.values[()] = self.traffic.recorder.size
            families.recording_lost_lines.values[()] = self.traffic.lost
        families.input_objects.replace({(name,): there for name, (there, _) in counts.items()})
        differences = self.schemas.counts().items()
        families.input_schema_differences.replace({(name,): count for name, count in differences})
        families.input_invalid_objects.replace(
            {(name,): invalid for name, (_, invalid) in counts.items()}
        )

    async def _published_quotas(self) -> Sequence[Quotas] | None:
        """Return the quotas once no decision is made; None while nothing may be written."""
        await self.settled()
        return [*self.scheduler.handle.nodes.quotas.values()] if self.may_begin else None

    async def _write_status(self, patch: StatusPatch) -> None:
        await self.patch_status(patch.input.kind, patch.namespace, patch.name, patch.status)

    def _wrote_status(self, patch: StatusPatch, error: str) -> None:
        """Count a write, and tell of the first failure of an input's objects."""
        given = patch.input
        result = "error" if error else "success"
        self.metrics.policies.quota_status_writes_total.values[given.name, result] += 1
        if not error:
            self._unpublished.discard(given.identity)
        elif given.identity not in self._unpublished:
            self._unpublished.add(given.identity)
            name = "/".join(filter(None, (patch.namespace, patch.name)))
            what = f"{given.kind[1]} {name}: {error}"
            text = "Failed to publish a quota"
            self.log.write(observability.WARNING, text, input=given.name, error=what)
            self.tell("Warning", "FailedPublish", "Publish", f"input {given.name}: {what}")

    async def _may_evict(self) -> bool:
        """Return whether pods may be evicted, once no decision is made."""
        await self.settled()
        return self.may_begin and self.leads

    def _evicted(self, policy: str, result: str, error: str) -> None:
        """Count an eviction, and tell of what went wrong."""
        self.metrics.policies.evictions_total.values[policy, result] += 1
        if error:
            text = "Failed to evict"
            self.log.write(observability.WARNING, text, policy=policy, error=error)

    def _polled_of(self, plans: Sequence[CompiledPlan]) -> list[Input]:
        """Return the inputs that are polled."""
        return [given for given in declared_inputs(plans) if given.poll]

    async def _ask(self, given: Input) -> Answer:
        """Return what the URL of an input answers. Raises ClusterError."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=polled_inputs.PATIENCE)
        async with aiohttp.ClientSession(
            timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()
        ) as session:
            return await polled_inputs.fetched(given, session)

    def _polled(self, given: Input, error: str) -> None:
        """Count a try, and tell of a failure."""
        families = self.metrics.policies
        families.input_polls_total.values[given.name, "error" if error else "success"] += 1
        if error:
            self.log.write(
                observability.WARNING, "Failed to poll an input", input=given.name, error=error
            )
            self.tell("Warning", "FailedPoll", "Poll", f"input {given.name}: {error}")
        else:
            families.input_last_success_timestamp_seconds.values[(given.name,)] = self.now() / 1e9
        self._wake()

    def _take_answers(self) -> None:
        """Apply what was polled, each answer in one piece."""
        for answer in self.polls.take():
            kind = kind_of_input(answer.input)
            objects = self.scheduler.handle.objects.of_kind(kind)
            before = {(o.metadata.namespace, o.metadata.name): o for o in objects}
            for item in answer.objects:
                key = item.metadata.namespace, item.metadata.name
                object_changed(self.scheduler, before.pop(key, None), item)
                if self.traffic is not None:
                    self.traffic.changed(item)
            for gone in before.values():
                object_changed(self.scheduler, gone, None)
                if self.traffic is not None:
                    self.traffic.changed(gone, gone=True)
            self.inputs.set_root(answer.input.identity, answer.root)

    def _drop_polled(self, inputs: Iterable[Input]) -> None:
        for given in inputs:
            self.scheduler.handle.objects.drop(kind_of_input(given))

    def _input_problem(self, problem: InputProblem) -> None:
        """Tell of an object that an input cannot have."""
        what = f"{problem.kind[1]} {'/'.join(filter(None, problem.place))}: {problem.message}"
        self.log.write(
            observability.WARNING, "Invalid object of an input", input=problem.input, error=what
        )
        self.tell("Warning", "InvalidInput", "Read", f"input {problem.input}: {what}")

    @abstractmethod
    def _definition(self, given: Input) -> Mapping[str, object] | None:
        """Return the CustomResourceDefinition of an input's kind, None if there is none."""

    def _schema_told(self, given: Input, changes: Sequence[str]) -> None:
        """Tell where the cluster's schema of an input differs from what rules read, or no more."""
        problems: Sequence[Diagnostic] = ()
        if changes:
            what = f"{given.kind} of {given.api_version} in the cluster: {'; '.join(changes)}"
            problems = self.reloader.store.files.problems_of_schema(given, what)
        if self.policy_objects is not None:
            self.policy_objects.noted(given.identity, problems)
        if not changes:
            text = "The schema of an input is again as rules read it"
            self.log.write(observability.INFO, text, input=given.name)
            return
        self.log.problems(problems)
        self.tell("Warning", "InputSchemaChanged", "Read", f"input {given.name}: {what}")

    def _in_force(self) -> dict[str, object]:
        status = self.reloader.store.status
        return {"generation": status.generation, "contentHash": status.content_hash}

    def _log_in_force(self, message: str, **facts: object) -> None:
        profiles = {
            name: profile.pipeline.content_hash for name, profile in self.scheduler.profiles.items()
        }
        self.log.write(observability.INFO, message, profiles=profiles, **facts, **self._in_force())


def _refusal(text: str, problems: Sequence[Diagnostic]) -> str:
    """Return the note about refused policies: the first error, and how many there are."""
    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    more = f" (and {len(errors) - 1} more errors)" if len(errors) > 1 else ""
    return f"{text}: {errors[0].placed}{more}"


def _timing(settings: models.KubeSchedulerConfiguration) -> Timing:
    return Timing(
        initial_backoff=settings.pod_initial_backoff_seconds * SECOND,
        max_backoff=settings.pod_max_backoff_seconds * SECOND,
    )
