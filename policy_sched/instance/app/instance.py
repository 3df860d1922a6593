"""Instance: a scheduler with its policies, driven one step at a time.

Theory of operation. Nothing here waits or reads a clock of its own: `step` does what can be done
now, `next_wakeup` returns when the next step is due, and the run loop sleeps until then, or
until an event arrives. Policies are read beside the steps and take effect between
two of them. `stop` ends it in order: no pod is begun any more, what waits for permission is
undone, and the bindings that were sent are awaited. Where the cluster is, subclasses know.

With a `slice`, a step ends in the middle of what takes longer (see the queue's agenda), and the
next one goes on with it before anything else. Code that reads or changes the scheduler between
two steps waits until it is `settled`. Steps run on a `StepExecutor`, which documents what is shared
while an extender is called.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Iterable
from math import inf
from typing import Final, TypeVar

from policy_sched.client import Client
from policy_sched.errors import Diagnostic, Severity
from policy_sched.instance.app.cache_debugger import Comparer, Seen, dump
from policy_sched.instance.app.manifest_sync import Applied, Contents, ManifestFiles
from policy_sched.instance.app.step_executor import StepExecutor
from policy_sched.instance.observability import (
    ERROR,
    INFO,
    PING,
    POLICIES,
    SHUTDOWN,
    Check,
    DecisionLog,
    EventLoopLatency,
    Metrics,
    VerboseLogging,
    nothing_wrong,
)
from policy_sched.model import Pod, PodInfo
from policy_sched.profiles.build import policy_names
from policy_sched.profiles.models import KubeSchedulerConfiguration
from policy_sched.profiles.reload import Compilation, PolicyStore, Reload, Result
from policy_sched.queue import SECOND, Timing, Work, never
from policy_sched.scheduler import Outcome
from policy_sched.scheduler.setup import Reloader, assemble_with_assembly

T = TypeVar("T")

PODS_PER_STEP: Final = 64
"""Pods that one step decides, after which its owner gets a turn."""
CLOSING = "the scheduler is shutting down"
SETTLING: Final = 0.002
"""Seconds between two looks whether anything is half done."""


class Instance(ABC):
    """A scheduler behind a client; ``now`` returns nanoseconds since 1970."""

    def __init__(
        self,
        store: PolicyStore,
        client: Client,
        now: Callable[[], int],
        log: DecisionLog,
        manifests: ManifestFiles,
        seed: int = 0,
    ) -> None:
        self.now = now
        self.log = log
        self.metrics = Metrics()
        self.turns = EventLoopLatency()
        self.metrics.registry.register(self.turns)
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
        self.narration = VerboseLogging(self.scheduler, log)
        self.reloader = Reloader(self.scheduler, assembly, store)
        self.stopping = False
        self._abandoned = False
        self._cut = False
        self._debugging = asyncio.Lock()
        self._wake: Callable[[], None] = _nobody
        asks = self.scheduler.handle.extenders
        self._bench = StepExecutor(lambda: bool(asks), self._woken, self._slice)
        self.metrics.refresh.append(self._look_at_extenders)
        self.slice = inf
        """Seconds after which a step starts no more work; set by the run loop."""
        self.metrics.loaded(store.current, store.status)
        self._say_what_is_in_force("Loaded policies")
        self.log.problems(store.current.warnings)

    @abstractmethod
    def pods(self) -> Iterable[Pod]:
        """Return all pods of the cluster that we know of."""

    def waiting(self, uid: str) -> tuple[PodInfo, str] | None:
        """Return a pod that waits to be decided here, and the profile that decides it."""
        queued = self.scheduler.queue.get(uid)
        return None if queued is None else (queued.info, queued.info.scheduler_name)

    @property
    def leads(self) -> bool:
        """Whether we may write."""
        return True

    def checks(self) -> dict[str, tuple[Check, ...]]:
        """Return the health checks: of the process, of its life, of its readiness."""
        ping = Check(PING, nothing_wrong)
        alive = (ping, *self._lease_checks())
        ready = (*alive, Check(SHUTDOWN, self._going_on), *self._sync_checks())
        policies = Check(POLICIES, nothing_wrong)  # without policies nothing ever starts
        return {"healthz": alive, "livez": alive, "readyz": (*ready, policies)}

    def _lease_checks(self) -> tuple[Check, ...]:
        return ()

    def _sync_checks(self) -> tuple[Check, ...]:
        return ()

    def _going_on(self) -> str:
        return "process is shutting down" if self.stopping else ""

    @property
    def ready(self) -> bool:
        """Whether the cluster has been read once."""
        return True

    def step(self) -> int:
        """Do what can be done now; return how many pods were decided."""
        self._beforehand()
        if self._bench.busy:
            self._meanwhile()
            return 0
        return self._bench.step(self._step) or 0

    @abstractmethod
    def _step(self) -> int:
        """Do what a step does with the scheduler."""

    @abstractmethod
    def _beforehand(self) -> None:
        """Do what a step does whether an extender is being asked or not."""

    @abstractmethod
    def _meanwhile(self) -> None:
        """Do what can be done while an extender is asked."""

    @abstractmethod
    def next_wakeup(self) -> int | None:
        """Return when the next step is worth while, the present included; None: not by itself."""

    @abstractmethod
    def apply(self, contents: Contents) -> Applied:
        """Make the cluster what the files of objects say; with mistakes in them it stays."""

    def close(self) -> None:
        """Close the cluster and the connections to extenders."""
        self._bench.close()
        for extender in self.scheduler.handle.extenders:
            extender.close()

    def wakes(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` when something came that a step can deal with."""
        self._wake = wake

    def _woken(self) -> None:
        self._wake()

    def beside(self) -> list[Coroutine[None, None, None]]:
        """Return what is to go on beside the steps."""
        return []

    @abstractmethod
    def _adopting(self, profiles: Collection[str]) -> Work:
        """Profiles came: queue the pods that wait for them."""

    @property
    def half_done(self) -> bool:
        """Whether the scheduler is in the middle of something; only steps may touch it then."""
        return self._bench.busy or self.scheduler.half_done

    async def settled(self) -> None:
        """Wait until nothing is half done; until the caller awaits again nothing will be."""
        while self.half_done:
            if self._bench.busy:
                await self._bench.change()
            else:
                await asyncio.sleep(SETTLING)

    async def undisturbed(self, work: Callable[[], T]) -> T:
        """Do something with the scheduler when nothing is half done; it may ask extenders."""
        await self.settled()
        return await self._bench.do(work)

    def _takes_in(self, drain: Callable[[Callable[[], bool]], object]) -> bool:
        """Go on with what is half done, and tell of changes; return whether there is time left.

        ``drain`` tells of changes until it is over. After a change that could not be done with at
        once pods have their turn before the next one, however many changes there are.
        """
        agenda = self.scheduler.agenda
        agenda.over = self._slice()
        if not agenda.go_on():
            return False
        if self._cut:
            self._cut = False
            return True
        drain(agenda.over)
        self._cut = agenda.half_done
        return not self._cut

    def _decide(self, *, begin: bool = True) -> int:
        """Do what is due, and decide pods; return how many. ``begin``: whether to begin any."""
        decided = 0
        over = self.scheduler.agenda.over = self._slice()
        if self.stopping and not self._abandoned:
            self._abandon()
        while True:
            for late in self.scheduler.run_due():
                self._decided(late, late=True)
            if self.half_done or self.stopping or not begin or decided == PODS_PER_STEP or over():
                break
            outcome = self.scheduler.schedule_one()
            if outcome is None:
                break
            self._decided(outcome)
            decided += 1
        return decided

    def _slice(self) -> Callable[[], bool]:
        """Return what tells whether a slice of time that begins now is over."""
        if self.slice == inf:
            return never
        timer = self.metrics.attempts.timer
        until = timer() + self.slice
        return lambda: timer() >= until

    def queue_lengths(self) -> dict[str, int]:
        """Return how many pods wait, by upstream's name of the queue."""
        return self.scheduler.queue.lengths()

    # What files say.

    def read_policies(self) -> Compilation:
        """Read and compile the files of policies; nothing that runs notices."""
        return self.reloader.prepare()

    def reload(self, found: Compilation, trigger: str) -> Reload:
        """Put compiled policies in force if they are in order and say something new."""
        reloads: list[Reload] = []
        self.begin_reload(found, trigger, reloads.append)
        self.scheduler.agenda.finish()
        return reloads[0]

    def begin_reload(
        self, found: Compilation, trigger: str, done: Callable[[Reload], None]
    ) -> None:
        """Begin what `reload` does, for steps to go on with; ``done`` is told what came of it."""
        self.scheduler.agenda.begin(self._reloading(found, trigger, done))

    def _reloading(self, found: Compilation, trigger: str, done: Callable[[Reload], None]) -> Work:
        reload = yield from self.reloader.committing(found)
        status = self.reloader.status
        self.metrics.reloaded(reload.result, trigger)
        self.log.problems(reload.problems)
        if reload.result is Result.REFUSED:
            self.metrics.reloadable(status)
            count = sum(d.severity is Severity.ERROR for d in reload.problems)
            text = "Failed to reload policies; keeping the current ones"
            self.log.say(ERROR, text, trigger=trigger, problems=count, **self._in_force())
            done(reload)
            return
        self.metrics.loaded(reload.policies, status)
        if reload.restart:
            text = "Some settings of the configuration count from the next start only"
            self.log.say("warning", text, settings=list(reload.restart))
        if reload.result is Result.LOADED:
            changes = reload.changes
            yield from self._adopting(changes.added)
            if changes.gone:
                text = "Policies are gone"
                if not policy_names(reload.policies.plans):
                    text += "; only the default plugins decide"
                self.log.say("warning", text, policies=list(changes.gone))
            text = "Reloaded policies"
            self._say_what_is_in_force(text, trigger=trigger, policies=list(changes.policies))
        else:
            self._say_what_is_in_force("Policies unchanged", trigger=trigger)
        done(reload)

    def read_manifests(self) -> Contents:
        """Read the files of objects; nothing that runs notices."""
        return self.manifests.read()

    # The end.

    def stop(self) -> None:
        """Begin no pod any more, and undo what waits; steps go on until `stopped`."""
        if self.stopping:
            return
        self.stopping = True
        self.log.say(INFO, "Stopping", inFlight=self.scheduler.in_flight)
        if not self.half_done:
            self._abandon()

    def _abandon(self) -> None:
        self._abandoned = True
        for outcome in self.scheduler.shutdown(CLOSING):
            self._decided(outcome, late=True)

    @property
    def stopped(self) -> bool:
        """Whether nothing is half done."""
        return self._abandoned and not self.half_done and not self.scheduler.in_flight

    @abstractmethod
    async def look(self) -> Seen:
        """Read the cluster's nodes and pods, not from what is known already."""

    async def debug(self) -> None:
        """Write the state, the cache and the queue, and compare them with the cluster.

        Concurrent calls are queued.
        """
        async with self._debugging:
            await self.settled()
            self.dump()
            await dump(self.scheduler, self.log)
            await Comparer(self.scheduler, self.log).run(self.look)

    def dump(self) -> None:
        """Write a record of the state, the longest turn since the last record, and all metrics."""
        longest, busiest = self.turns.recent()
        facts = {
            "queues": self.queue_lengths(),
            "longestTurnSeconds": round(longest, 4),
            "busiestTurnSeconds": round(busiest, 4),
            "metrics": self.metrics.text(),
        }
        self.log.say(INFO, "State", **self._in_force(), **facts)

    # Inside.

    def _decided(self, outcome: Outcome, *, late: bool = False) -> None:
        self.metrics.decided(outcome, self.now())
        self.log.decided(outcome, 0 if late else self.scheduler.cache.nodes.live_count)

    def _look_at_extenders(self) -> None:
        """Set whether an extender is being asked, for a page of metrics."""
        if self.scheduler.handle.extenders:
            values = self.metrics.upstream.goroutines.values
            values[("prioritizing_extender",)] = self._bench.busy

    def _in_force(self) -> dict[str, object]:
        status = self.reloader.status
        return {"generation": status.generation, "contentHash": status.content_hash}

    def _say_what_is_in_force(self, message: str, **facts: object) -> None:
        profiles = {
            name: profile.pipeline.content_hash for name, profile in self.scheduler.profiles.items()
        }
        self.log.say(INFO, message, profiles=profiles, **facts, **self._in_force())


def _nobody() -> None:
    """Do nothing."""


def _timing(settings: KubeSchedulerConfiguration) -> Timing:
    return Timing(
        initial_backoff=settings.pod_initial_backoff_seconds * SECOND,
        max_backoff=settings.pod_max_backoff_seconds * SECOND,
    )
