"""A scheduler on a cluster behind an API server: informers in, decisions out, while it leads.

Theory of operation. Informers, events and the election go on beside the steps; a step takes what
they brought. No pod is begun before every collection has been read and handed on once, nor while
another instance leads; a standby takes everything in all the same, so it can begin at once. Nor is
one begun while the watch of nodes or of pods is broken: what another instance bound before we took
over would be missing. Each write asks once more whether we lead (`KubeClient`), so a lease that is
lost stops bindings that were decided before; then the instance ends, for what it believes is of no
use any more. What a binding waits for, and what came of it, is part of the steps.

While the worker decides everything but the scheduler goes on: informers, leases, events, and the
requests of bindings. What the watches bring and what came of bindings is applied afterwards, so a
decision counts on the cluster that it began with.

Deadlines are kept by a clock that does not jump (`SteadyClock`), however the wall clock is set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from policy_sched.client.apimachinery import NODE, POD
from policy_sched.client.kube import RECORD_EVENT, KubeClient
from policy_sched.client.kube.cache import READ, Change, Informers, ReflectorSettings, list_all
from policy_sched.client.kube.leaderelection import Election, Elector, Lease
from policy_sched.client.kube.rest import Api, Decoding, Selection, Settings
from policy_sched.client.kube.time import SECOND, SteadyClock
from policy_sched.errors import ClusterError
from policy_sched.instance.app.cache_debugger import Seen
from policy_sched.instance.app.instance import Instance
from policy_sched.instance.app.manifest_sync import Applied, Contents, ManifestFiles
from policy_sched.instance.observability import (
    ERROR,
    HANDLED,
    INFO,
    LEADER_ELECTION,
    READABLE,
    STEPS,
    SYNCED,
    Check,
    DecisionLog,
    Labels,
    LogThrottle,
    Write,
)
from policy_sched.model import DEFAULT_SCHEDULER, Node, Pod, PodInfo
from policy_sched.profiles.reload import PolicyStore
from policy_sched.scheduler import (
    Happened,
    Scheduler,
    node_gone,
    node_seen,
    object_gone,
    object_seen,
    pod_gone,
    pod_seen,
)

WARNING: Final = "warning"
CHANGES_PER_STEP: Final = 500
"""Changes that one step takes in, after which its owner gets a turn."""


LOOKING: Final = Settings(qps=20, burst=20)
"""For the comparison of the cache with the cluster, which is in no hurry."""
TAKING_IN: Final = 0.05
"""Seconds between two looks whether steps have taken in what had come."""
ELECTION: Final = "LeaderElection"
"""Reason of the events about a new leader (client-go's)."""
TOLERATED: Final = 20.0
"""Seconds by which a leader's lease may have run out before its process counts as sick."""
NAMED: Final = 5
"""Objects that cannot be read which a health check names, of each kind."""
LAST_WORDS: Final = 1.0
"""Seconds in which the last events are to be written, after the lease was given back."""


class LeaseLost(ClusterError):  # noqa: N818 - an event, not a mistake
    """Another instance leads, or we could not renew the lease in time."""


@dataclass(frozen=True, slots=True)
class Candidacy:
    """An election to take part in, its lease, and the connection that nothing else uses."""

    election: Election
    api: Api
    namespace: str
    name: str

    def overdue(self) -> str:
        """Return what is wrong with a leader that has not renewed for long, "" for nothing."""
        renewed, now = self.election.renewed_at, self.api.environment.clocks.monotonic()
        longest = self.election.settings.lease_duration + TOLERATED
        if renewed is None or now - renewed <= longest * SECOND:
            return ""
        return f"failed election to renew leadership on lease {self.name}"


class ClusterInstance(Instance):
    """A scheduler behind ``api``; without a candidacy it always leads.

    ``instance`` signs events.
    """

    def __init__(  # noqa: PLR0913 - the last two are keywords with defaults
        self,
        store: PolicyStore,
        api: Api,
        candidacy: Candidacy | None,
        write: Write,
        *,
        seed: int = 0,
        instance: str = "",
        watching: ReflectorSettings | None = None,
    ) -> None:
        self.api = api
        log = DecisionLog(write, api.environment.clocks.wall)
        reporter = store.current.plans[0].plan.scheduler_name
        self.client = KubeClient(
            api,
            reporter=reporter,
            instance=instance,
            by_profile=True,
            leads=lambda: self.leads,
            failed=self._failed,
            wake=self._woken,
            begin=self._in_loop,
        )
        self.candidacy = candidacy
        self.elector = None if candidacy is None else self._elector(candidacy)
        now = SteadyClock(api.environment.clocks)
        super().__init__(store, self.client, now, log, ManifestFiles(()), seed)
        self.informers = Informers(api, settings=watching, trouble=self._trouble, wake=self._woken)
        self._ready = False
        self._lost = False
        self._resigned = False
        self._troubles = LogThrottle(api.environment.clocks.monotonic)
        api.observe, api.traffic = self.metrics.attempts.requested, self.metrics.attempts
        if candidacy is not None:
            candidacy.api.observe, candidacy.api.traffic = api.observe, api.traffic
        self.metrics.queues.append(self.client.events.queue)
        self.metrics.refresh.append(self._look)

    def _elector(self, candidacy: Candidacy) -> Elector:
        lease = Lease(candidacy.api, candidacy.namespace, candidacy.name, self._lease_trouble)
        return Elector(lease, candidacy.election, candidacy.api, self._lead, self._new_holder)

    @property
    def leads(self) -> bool:
        """Whether we may write."""
        return self.candidacy is None or self.candidacy.election.leading

    @property
    def ready(self) -> bool:
        """Whether everything has been read and handed on once."""
        return self._ready

    @property
    def may_begin(self) -> bool:
        """Whether a pod may be decided now."""
        knows = self._ready and self.informers.following
        return knows and self.leads and not self.stopping

    def _beforehand(self) -> None:
        """Look whether we may go on at all. Raises LeaseLost."""
        if self._lost and not self.stopping:
            raise LeaseLost("the lease is lost; another instance may lead now")
        self.client.lanes.check()

    def _in_loop(self, act: Callable[[], None]) -> None:
        self._worker.call_in_loop(act)

    def _step(self) -> int:
        self.informers.drain(self._tell, CHANGES_PER_STEP, self._slice())
        if not self._ready and self.informers.synced and not self.informers.behind:
            self._ready = True
            self.log.say(INFO, "Read the cluster", nodes=self.scheduler.cache.nodes.live_count)
            self.log.say(INFO, "Handlers synced")
        return self._decide(begin=self.may_begin)

    def next_wakeup(self) -> int | None:
        """Return when the next step is worth while, the present included; None: not by itself."""
        if self.deciding:
            return None  # the worker wakes us
        ready = self.may_begin and not self.scheduler.queue.idle()
        if self.informers.behind or ready:
            return self.now()
        return self.scheduler.next_wakeup()

    @property
    def stopped(self) -> bool:
        """Whether nothing is under way, and everything that was decided is written.

        Events are not waited for here: another instance may begin before they are written.
        """
        return super().stopped and not self.client.lanes.busy

    def apply(self, contents: Contents) -> Applied:
        """Take no notice: the cluster's objects come from its API server."""
        return Applied(problems=contents.problems)

    def pods(self) -> Iterable[Pod]:
        """Return all pods of the cluster that have not ended, as the watch has them."""
        return list(self.informers.objects(POD))

    async def look(self) -> Seen:
        """List nodes and pods, beside the requests of scheduling and its limits."""
        settings = replace(LOOKING, read_only=self.api.settings.read_only)
        # What is there already stands for what is read: to forget all at once would take long.
        nodes, pods = self.informers.reflectors[0].mirror, self.informers.reflectors[-1].mirror
        async with Api(self.api.access, self.api.environment, settings) as api:
            first = await list_all(api, READ[0], Decoding(NODE, Node), known=nodes.known)
            last = await list_all(api, READ[-1], Decoding(POD, Pod), known=pods.known)
        mark = self.informers.mark()
        while not self.informers.past(mark):  # it may wait for a decision that takes its time
            await asyncio.sleep(TAKING_IN)
        await self.settled()
        return Seen([node.metadata.name for node in first.items], last.items)

    def _lease_checks(self) -> tuple[Check, ...]:
        """A leader that has not renewed for long is sick, as upstream's watchdog has it."""
        if self.candidacy is None:
            return ()
        return (Check(LEADER_ELECTION, self.candidacy.overdue),)

    def _sync_checks(self) -> tuple[Check, ...]:
        return (
            Check(SYNCED, self._unsynced),
            Check(HANDLED, self._unhandled),
            Check(READABLE, self._unreadable),
        )

    def _unsynced(self) -> str:
        kinds = [r.selection.kind[1] for r in self.informers.reflectors if not r.synced.is_set()]
        return f"{len(kinds)} informers not started yet: {kinds}" if kinds else ""

    def _look(self) -> None:
        """Set what is only looked up for a page of metrics."""
        self.metrics.policies.events_lost_total.values[()] = self.client.events.lost
        unread = self.informers.unread()
        counts: dict[Labels, float] = {(kind,): len(names) for kind, names in unread.items()}
        self.metrics.policies.unreadable_objects.replace(counts)
        if self.candidacy is not None:
            families = self.metrics.upstream
            families.leader_election_master_status.values[(self.candidacy.name,)] = self.leads

    def _unreadable(self) -> str:
        """Return which objects cannot be read, at most a few of each kind."""
        return "; ".join(
            f"{kind} {', '.join(names[:NAMED])}" + (" ..." if len(names) > NAMED else "")
            for kind, names in self.informers.unread().items()
        )

    def _unhandled(self) -> str:
        return "" if self._ready else "handlers are not fully synchronized"

    def close(self) -> None:
        """Say that this is the end."""
        super().close()
        self.log.say(INFO, "Stopped", inFlight=self.scheduler.in_flight)

    def beside(self) -> list[Coroutine[None, None, None]]:
        """Return what goes on beside the steps."""
        return [self._live()]

    # Inside.

    async def _live(self) -> None:
        """Keep connections, informers, events and the election going until cancelled."""
        async with self.api:
            try:
                await self._take_part()
            finally:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LAST_WORDS):
                        await self.client.events.drained()
                await self.client.events.cancel()
                await self.client.lanes.cancel()

    async def _take_part(self) -> None:
        if self.candidacy is None or self.elector is None:
            await self._follow(())
            return
        async with self.candidacy.api:
            try:
                await self._follow((self.elector.run(),))
            finally:
                self._resigned = True
                await self.elector.release()

    async def _follow(self, others: Collection[Coroutine[Any, Any, None]]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for work in (self.informers.run(), self.client.events.run(), *others):
                tasks.create_task(work)

    def _adopt(self, profiles: Collection[str]) -> None:
        for pod in list(self.informers.objects(POD)) if profiles else ():
            name = pod.spec.scheduler_name or DEFAULT_SCHEDULER
            if name in profiles and not pod.spec.node_name:
                pod_seen(self.scheduler, PodInfo.of(pod))

    def _tell(self, change: Change[Any]) -> None:
        """Tell the scheduler of one change, and take the time."""
        metrics = self.metrics.attempts
        start = metrics.timer()
        events = tell(self.scheduler, change)
        metrics.happened(events, metrics.timer() - start)
        if self.log.verbosity.level >= STEPS:
            self.narration.happened(change.old, change.new, events)

    def _lead(self, leads: bool) -> None:
        assert self.candidacy is not None
        lease = f"{self.candidacy.namespace}/{self.candidacy.name}"
        if leads:
            self.log.say(INFO, "Successfully acquired lease", lease=lease)
        else:
            text = "Gave the lease back" if self._resigned else "Leaderelection lost"
            self.log.say(INFO if self._resigned else ERROR, text, lease=lease)
        assert self.elector is not None
        what, action = ("became leader", "Lead") if leads else ("stopped leading", "Yield")
        note = f"{self.candidacy.election.identity} {what}"
        self.client.say(self.elector.lease.reference, "Normal", ELECTION, action, note)
        self._lost = not leads
        self._wake()

    def _new_holder(self, holder: str) -> None:
        if holder:  # "" after a release
            self.log.say(INFO, "The lease has a new holder", holder=holder)

    def _lease_trouble(self, what: str) -> None:
        self._warn("Trouble with the lease", what)

    def _failed(self, call: str, key: str, error: ClusterError) -> None:
        if call == RECORD_EVENT:
            self._warn("Cannot write an event", f"{key}: {error}")
            return
        self.log.say(ERROR, "A call of the API failed", call=call, object=key, error=str(error))

    def _trouble(self, selection: Selection, what: str) -> None:
        self._warn("Trouble with a watch", what, kind=selection.kind[1])

    def _warn(self, text: str, what: str, **facts: object) -> None:
        """Say what goes wrong again and again from time to time."""
        unsaid = self._troubles.admit(what)
        if unsaid is not None:
            more = {"unsaid": unsaid} if unsaid else {}
            self.log.say(WARNING, text, **facts, error=what, **more)


def tell(scheduler: Scheduler, change: Change[Any]) -> Happened:
    """Tell the scheduler of one change; return what it was."""
    old, new = change.old, change.new
    thing = change.object
    if isinstance(thing, Pod):
        seen = pod_gone if new is None else pod_seen
        return seen(scheduler, PodInfo.of(thing))
    if isinstance(thing, Node):
        return node_gone(scheduler, thing) if new is None else node_seen(scheduler, thing)
    if new is None:
        return object_gone(scheduler, thing)
    return object_seen(scheduler, old, new)
