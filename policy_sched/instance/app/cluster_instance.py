"""A scheduler of a cluster behind an API server: informers, leader election, writes.

Theory of operation. Informers, events and the election run beside the steps; a step applies the
changes that informers have received. No pod is decided before every collection is listed and
applied, or while another instance leads; a standby applies changes too, so it can take over at
once. No pod is decided while the watch of nodes or pods is broken either: bindings of a former
leader could be missing. Every write checks the lease again (`KubeClient`), so a lost lease stops
bindings that were decided earlier; the instance then ends, because its cache is no longer reliable.
Waiting bindings and their results are handled in steps.

While the worker decides, everything but the scheduler continues: informers, leases, events, and the
requests of bindings. Changes and binding results are applied after the decision, so a decision uses
the cluster as it was when it began.

Deadlines use a clock that does not jump when the wall clock is set (`SteadyClock`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from policy_sched.client.apimachinery import DEFINITION, NODE, POD, is_gone
from policy_sched.client.kube import RECORD_EVENT, KubeClient, cache, rest
from policy_sched.client.kube.events import Reference
from policy_sched.client.kube.leaderelection import Election, Elector, Lease
from policy_sched.client.kube.time import SECOND, BackoffState, SteadyClock
from policy_sched.errors import ClusterError, PolicyError
from policy_sched.instance import observability
from policy_sched.instance.app.cache_debugger import Seen
from policy_sched.instance.app.input_schemas import WatchedDefinitions
from policy_sched.instance.app.instance import POLICY, ROLLOUT, Instance
from policy_sched.instance.app.manifest_sync import ManifestFiles
from policy_sched.instance.app.policy_objects import CustomRecord, Records, with_status
from policy_sched.instance.app.polled_inputs import PollFailed
from policy_sched.instance.observability import healthz
from policy_sched.language import Input
from policy_sched.model import ApiObject, CustomObject, Kind, Node, Pod, PodInfo
from policy_sched.plugins.rules import Answer
from policy_sched.profiles import build
from policy_sched.profiles.reload import Compilation, PolicyStore, Reload
from policy_sched.scheduler import object_changed

if TYPE_CHECKING:
    from policy_sched.instance.app.rollout_storage import RolloutStorage

WARNING: Final = "warning"
CHANGES_PER_STEP: Final = 500
"""Changes that one step applies, after which the event loop runs other tasks."""


LATER: Final = 0.2
"""Seconds after which a step takes in that pods are bound, unless another one does before."""
TURNS_APART: Final = 0.005
"""Seconds between two turns of the event loop: what comes meanwhile shares the next one."""
LOOKING: Final = rest.Settings(qps=20, burst=20)
"""Limits of the requests that compare the cache with the cluster."""
TAKING_IN: Final = 0.05
"""Seconds between two checks whether steps have applied the received changes."""
SYSTEM: Final = Reference("Namespace", "", "kube-system", "")
"""What events about a scheduler without a lease are about."""
ELECTION: Final = "LeaderElection"
"""Reason of the events about a new leader (client-go's)."""
TOLERATED: Final = 20.0
"""Seconds by which a leader's lease may be overdue before its process is unhealthy."""
NAMED: Final = 5
"""Unreadable objects of each kind that a health check names."""
LAST_WORDS: Final = 1.0
"""Seconds in which the last events are written after the lease is released."""


class LeaseLost(ClusterError):  # noqa: N818 - an event, not an error
    """Another instance leads, or the lease could not be renewed in time."""


class Candidacy(msgspec.Struct, frozen=True):
    """A leader election, its lease, and the connection that only the election uses."""

    election: Election
    api: rest.Api
    namespace: str
    name: str

    def overdue(self) -> str:
        """Return the error of a leader whose lease is overdue, "" if there is none."""
        renewed, now = self.election.renewed_at, self.api.environment.clocks.monotonic()
        longest = self.election.settings.lease_duration + TOLERATED
        if renewed is None or now - renewed <= longest * SECOND:
            return ""
        return f"failed election to renew leadership on lease {self.name}"


class ClusterInstance(Instance):
    """A scheduler behind ``api``; without a candidacy it always leads.

    ``instance`` is the reporting instance of events.
    """

    turns_apart = TURNS_APART
    _observing: tuple[Callable[[], Coroutine[None, None, None]], ...] = ()

    def __init__(  # noqa: PLR0913 - the last two are keywords with defaults
        self,
        store: PolicyStore,
        api: rest.Api,
        candidacy: Candidacy | None,
        write: observability.Write,
        *,
        seed: int = 0,
        instance: str = "",
        watching: cache.ReflectorSettings | None = None,
    ) -> None:
        self.api = api
        log = observability.DecisionLog(write, api.environment.clocks.wall)
        self.client = KubeClient(
            api,
            reporter=store.current.plans[0].plan.scheduler_name,
            instance=instance,
            by_profile=True,
            leads=lambda: self.leads,
            failed=self._failed,
            wake=self.woken,
            wake_later=self._woken_later,
            begin=self._in_loop,
        )
        self.candidacy = candidacy
        self.elector = None if candidacy is None else self._elector(candidacy)
        now = SteadyClock(api.environment.clocks)
        super().__init__(store, self.client, now, log, ManifestFiles(()), seed)
        self.published.sleep = self.evictions.sleep = api.environment.sleep
        self.polls.sleep, self.polls.random = api.environment.sleep, api.environment.random
        self._watching = watching or cache.ReflectorSettings()
        self._served: dict[Kind, rest.Selection] = {}
        """How kinds are read that inputs of policies declare, as far as the server has them."""
        self._last_troubles: dict[Kind, str] = {}
        self._again = asyncio.Event()
        self.informers = cache.Informers(
            api,
            self._selections(),
            settings=watching,
            trouble=self._trouble,
            wake=self.woken,
            wake_later=self._woken_later,
        )
        self._later: asyncio.TimerHandle | None = None
        self._until: float | None = None
        self._ready = self._lost = self._resigned = False
        self.definitions = WatchedDefinitions(self._definition_reflector, self._defined)
        self._troubles = observability.LogThrottle(api.environment.clocks.monotonic)
        api.observe, api.traffic = self.metrics.attempts.requested, self.metrics.attempts
        if candidacy is not None:
            candidacy.api.observe, candidacy.api.traffic = api.observe, api.traffic
        self.metrics.queues.append(self.client.events.queue)
        self.metrics.refresh.append(self._look)
        if candidacy is not None:  # as upstream's watchdog
            self.live_checks = (healthz.Check(healthz.LEADER_ELECTION, candidacy.overdue),)
        self.ready_checks = (
            healthz.Check(healthz.SYNCED, self._unsynced),
            healthz.Check(healthz.HANDLED, self._unhandled),
            healthz.Check(healthz.READABLE, self._unreadable),
        )

    def _selections(self) -> tuple[rest.Selection, ...]:
        """Return what the policies in force read."""
        plans = self.reloader.plans
        read = build.kinds_read(plans)
        if self.traffic is not None:
            read |= {selection.kind for selection in cache.READ}
        *first, pods = cache.selections_of(read)
        served = (self._served.get(kind) for kind in _declared(plans))
        return (*first, *(selection for selection in served if selection is not None), pods)

    async def readied(self, compilation: Compilation) -> Compilation:
        """List the inputs that the policies declare anew; what cannot be listed refuses them."""
        if compilation.failed:
            return compilation
        before = _declared(self.reloader.plans)
        new = [  # or must be there now, and is not
            kind
            for kind, optional in _declared(compilation.plans).items()
            if kind not in before or (before[kind] and not optional and kind not in self._served)
        ]
        try:
            self._served |= await self._discovered(compilation.plans, new)
            begun = self.informers.begin(self._served[kind] for kind in new if kind in self._served)
            for reflector in begun:
                await self._listed(reflector)
        except PolicyError as error:
            problems = tuple(error.diagnostics)
        except ClusterError as error:
            files = self.reloader.store.files
            problems = tuple(p for kind in new for p in files.problems_of_input(kind, str(error)))
        else:
            readied = await super().readied(compilation)
            if not readied.failed:
                return readied
            problems = readied.problems
        self._drop(new)
        return Compilation((), (*compilation.problems, *problems))

    async def _discovered(
        self, plans: Sequence[build.CompiledPlan], kinds: Collection[Kind]
    ) -> dict[Kind, rest.Selection]:
        """Return how kinds are read. Raises PolicyError for those that must be there."""
        if not kinds:
            return {}
        served = await cache.discover(self.api, kinds)
        declared, problems = _declared(plans), []
        for kind in kinds:
            if kind not in served and not declared[kind]:
                message = f"the cluster has no {kind[1]} of {kind[0]}"
                problems += self.reloader.store.files.problems_of_input(kind, message)
        if problems:
            raise PolicyError(problems)
        return served

    async def _listed(self, reflector: cache.Reflector[Any]) -> None:
        """Wait until a collection has been listed. Raises PolicyError after ``patience``."""
        kind = reflector.selection.kind
        try:
            async with asyncio.timeout(self.patience):
                await reflector.synced.wait()
        except TimeoutError:
            message = f"{kind[1]} of {kind[0]} cannot be listed within {self.patience:g} s"
            why = self._last_troubles.get(kind, "")
            message += f": {why}" if why else ""
            raise PolicyError(self.reloader.store.files.problems_of_input(kind, message)) from None

    def _drop(self, kinds: Iterable[Kind]) -> None:
        """Read kinds no more that inputs declared, and forget their objects."""
        gone = [kind for kind in kinds if self._served.pop(kind, None) is not None]
        self.informers.stop(gone)
        for kind in gone:
            self.scheduler.handle.objects.drop(kind)

    async def _look_for_inputs(self) -> None:
        """Look for kinds of optional inputs that the server does not have, as informers do."""
        clock, random = self.api.environment.clocks.monotonic, self.api.environment.random
        pauses = BackoffState(self._watching.backoff, clock, random)
        while True:
            missing = self._missing()
            if not missing:
                pauses.succeeded()
                self._again.clear()
                await self._again.wait()
                continue
            await self.api.pause(pauses.next())
            try:
                served = await cache.discover(self.api, missing)
            except ClusterError as error:
                self._warn("Failed to look for the kinds of inputs", str(error))
                continue
            if served:
                self._served |= served
                self.informers.follow(self._selections())
                self.definitions.moved.set()

    def _defined_by(self, given: Input) -> str:
        """Return the name of the CustomResourceDefinition of an input's kind, "" for none."""
        served = self._served.get(given.object_kind)
        return given.definition("" if served is None else served.plural)

    def _definition(self, given: Input) -> Mapping[str, object] | None:
        """Return the CustomResourceDefinition of an input's kind, None if there is none."""
        return self.definitions.find(self._defined_by(given))

    def _defined(self) -> set[str]:
        """Return the names of the definitions of the inputs in force."""
        inputs = build.declared_inputs(self.reloader.store.current.plans)
        return {name for name in map(self._defined_by, inputs) if name}

    def _definition_reflector(self, name: str) -> cache.Reflector[CustomObject]:
        return cache.Reflector(
            self.api,
            rest.Selection(DEFINITION, field_selector=f"metadata.name={name}"),
            CustomObject,
            lambda _: self.schemas.look(),
            settings=self._watching,
            trouble=self._trouble,
        )

    async def _ask(self, given: Input) -> Answer:
        """Return all objects of an API without watch, or what a URL answers."""
        if given.url:
            return await super()._ask(given)
        kind = given.api_version, given.kind
        selection = (await cache.discover(self.api, (kind,))).get(kind)
        if selection is None:
            raise PollFailed(f"the cluster has no {kind[1]} of {kind[0]}")
        decoding = rest.CustomDecoding(kind)
        return Answer(given, (await cache.list_all(self.api, selection, decoding)).items)

    def _missing(self) -> list[Kind]:
        """Return the kinds of inputs that the server does not have."""
        plans = self.reloader.store.current.plans
        return [kind for kind in _declared(plans) if kind not in self._served]

    def reload(self, compilation: Compilation, trigger: str) -> Reload:
        """Activate compiled policies; no pod is decided before what they read is listed."""
        reload = super().reload(compilation, trigger)
        self._again.set()
        self.definitions.moved.set()
        return reload

    def _own_storage(self) -> RolloutStorage | None:
        """Return an annotation of the lease."""
        # imported here: few schedulers have one
        from policy_sched.instance.app.rollout_storage import LeaseStorage  # noqa: PLC0415

        return None if self.elector is None else LeaseStorage(self.elector.lease)

    def _follow_inputs(self) -> None:
        super()._follow_inputs()
        declared = _declared(self.reloader.plans)
        self._drop([kind for kind in self._served if kind not in declared])
        self.informers.decode(build.structs_read(self.reloader.plans))
        self.informers.follow(self._selections())

    def tell(self, kind: str, reason: str, action: str, note: str) -> None:
        """Record an event about the lease, or about the scheduler's namespace without one."""
        if self.api.settings.read_only:
            return
        about = SYSTEM if self.elector is None else self.elector.lease.reference
        self.client.say(about, kind, reason, action, note)

    def _elector(self, candidacy: Candidacy) -> Elector:
        trouble = partial(self._warn, "Leader election failed")
        lease = Lease(candidacy.api, candidacy.namespace, candidacy.name, trouble)
        return Elector(lease, candidacy.election, candidacy.api, self._lead, self._new_holder)

    @property
    def leads(self) -> bool:
        """Whether this instance may write."""
        return self.candidacy is None or self.candidacy.election.leading

    @property
    def ready(self) -> bool:
        """Whether everything is listed and applied once."""
        return self._ready

    @property
    def may_begin(self) -> bool:
        """Whether a pod may be decided now."""
        knows = self._ready and self.informers.following and self.polls.complete
        return knows and self.leads and not self.stopping and self.rolled_out

    def _beforehand(self) -> None:
        """Check the lease. Raises LeaseLost."""
        if self._lost and not self.stopping:
            raise LeaseLost("the lease is lost; another instance may lead now")
        self.client.lanes.check()

    def _in_loop(self, act: Callable[[], None]) -> None:
        self._worker.call_in_loop(act)

    @property
    def behind(self) -> bool:
        """Whether changes were received that the scheduler does not know yet."""
        return self.informers.behind or (self._ready and self.polls.waiting)

    def _woken_later(self) -> None:
        """Pods are bound, as decided: it may wait for a step that decides another one.

        ``_until``: how long it waits, by the event loop's time; None if nothing does.
        """
        if self._until is not None:
            return
        loop = asyncio.get_running_loop()
        self._until = loop.time() + LATER
        if self._later is None:  # a timer for each pod costs as much as to read its event
            self._later = loop.call_at(self._until, self._due)

    def _due(self) -> None:
        """Wake up for what waits, or set the timer anew for what came after it was set."""
        self._later = None
        if self._until is None:
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self._until:
            self._later = loop.call_at(self._until, self._due)
        else:
            self.woken()

    def _take_in(self) -> None:
        self._take_answers()
        self.work += self.informers.drain(self._handle, CHANGES_PER_STEP, self._slice())
        self._until = None
        if not self._ready and self.informers.synced and not self.informers.behind:
            self._ready = True
            self.log.write(
                observability.INFO, "Read the cluster", nodes=self.scheduler.cache.nodes.live_count
            )
            self.log.write(observability.INFO, "Handlers synced")
            if self.traffic is not None:
                self.traffic.begin()

    @property
    def stopped(self) -> bool:
        """Whether no binding is pending, and every result is written.

        Events are not awaited: another instance may lead before they are written.
        """
        return super().stopped and not self.client.lanes.busy

    def pods(self) -> Iterable[Pod]:
        """Return the cluster's pods that have not ended, from the informers' cache."""
        return list(self.informers.objects(POD))

    def _everything(self) -> Iterator[ApiObject]:
        """Yield all objects of the cluster that are known."""
        for reflector in self.informers.reflectors:
            yield from reflector.mirror
        for answer in self.polls.last.values():
            yield from answer.objects

    def record_traffic(self, folder: str, annotations: Collection[str] = ()) -> None:
        """Record as above; what other policies would read is followed, too."""
        super().record_traffic(folder, annotations)
        self.informers.begin(self._selections())

    async def look(self) -> Seen:
        """List nodes and pods, without the limits of the scheduler's own requests."""
        settings = replace(LOOKING, read_only=self.api.settings.read_only)
        # The objects in the cache are decoded already; to replace them all at once takes long.
        nodes, pods = self.informers.reflectors[0].mirror, self.informers.reflectors[-1].mirror
        async with rest.Api(self.api.access, self.api.environment, settings) as api:
            first = await cache.list_all(
                api, cache.READ[0], rest.Decoding(NODE, Node), held=nodes.held
            )
            last = await cache.list_all(
                api, cache.READ[-1], rest.Decoding(POD, Pod), held=pods.held
            )
        mark = self.informers.mark()
        while not self.informers.past(mark):  # a decision may delay the steps
            await asyncio.sleep(TAKING_IN)
        await self.settled()
        return Seen([node.metadata.name for node in first.items], last.items)

    def _unsynced(self) -> str:
        kinds = [r.selection.kind[1] for r in self.informers.reflectors if not r.synced.is_set()]
        return f"{len(kinds)} informers not started yet: {kinds}" if kinds else ""

    def _look(self) -> None:
        """Set the gauges that are read only at a scrape."""
        self.metrics.policies.events_lost_total.values[()] = self.client.events.lost
        unread = self.informers.unread()
        counts: dict[observability.Labels, float] = {
            (kind,): len(names) for kind, names in unread.items()
        }
        self.metrics.policies.unreadable_objects.replace(counts)
        if self.candidacy is not None:
            families = self.metrics.upstream
            families.leader_election_master_status.values[(self.candidacy.name,)] = self.leads

    def _unreadable(self) -> str:
        """Return the objects that cannot be read, at most a few of each kind."""
        return "; ".join(
            f"{kind} {', '.join(names[:NAMED])}" + (" ..." if len(names) > NAMED else "")
            for kind, names in self.informers.unread().items()
        )

    def _unhandled(self) -> str:
        return "" if self._ready else "handlers are not fully synchronized"

    def close(self) -> None:
        """Mark the instance as closed."""
        super().close()
        self.log.write(observability.INFO, "Stopped", inFlight=self.scheduler.in_flight)

    def beside(self) -> list[Coroutine[None, None, None]]:
        """Return the tasks that run beside the steps."""
        return [self._live()]

    # Inside.

    async def _live(self) -> None:
        """Run connections, informers, events and the election until cancelled."""
        async with self.api:
            await self._find_inputs()
            try:
                await self._take_part()
            finally:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LAST_WORDS):
                        await self.client.events.drained()
                await self.client.events.cancel()
                await self.client.lanes.cancel()

    async def _find_inputs(self) -> None:
        """Find how the declared kinds are read. Raises PolicyError for those that are not there."""
        clock, random = self.api.environment.clocks.monotonic, self.api.environment.random
        pauses = BackoffState(self._watching.backoff, clock, random)
        plans = self.reloader.store.current.plans
        while True:
            try:
                self._served = await self._discovered(plans, _declared(plans))
                break
            except rest.Unreachable as error:
                self._warn("Failed to look for the kinds of inputs", str(error))
                await self.api.pause(pauses.next())
        self.informers.decode(build.structs_read(plans))
        self.informers.follow(self._selections())

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
            beside = [self.client.events.run(), self._look_for_inputs(), self.polls.run()]
            beside.append(self.definitions.run())
            beside += [follow() for follow in self._observing]
            if not self.api.settings.read_only:
                beside += [self.published.run(), self.evictions.run()]
                if self.policy_objects is not None:
                    self.policy_objects.sleep = self.api.environment.sleep
                    beside.append(self.policy_objects.run())
                if self.rollout_objects is not None:
                    self.rollout_objects.sleep = self.api.environment.sleep
                    beside.append(self.rollout_objects.run())
            for work in (self.informers.run(), *beside, *others):
                tasks.create_task(work)

    def observe(self, kind: Kind, selector: str, changed: Callable[[], None]) -> Records:
        """Follow the objects of a kind of ours; return what lists them."""
        selection = selection_of(kind, selector)
        reflector = cache.Reflector(
            self.api,
            selection,
            CustomRecord,
            lambda _: changed(),
            settings=self._watching,
            trouble=self._trouble,
        )

        async def follow() -> None:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(reflector.run())
                await reflector.synced.wait()
                changed()

        self._observing = (*self._observing, follow)
        return lambda: list(reflector.mirror) if reflector.synced.is_set() else None

    async def patch_status(
        self, kind: Kind, namespace: str, name: str, status: Mapping[str, Any]
    ) -> None:
        """Merge a status into that of an object. Raises ClusterError."""
        own = kind in (POLICY, ROLLOUT)
        selection = selection_of(kind) if own else self._served.get(kind)
        if selection is not None:
            await self.client.patch_status(selection, namespace, name, dict(status))

    async def replace_status(self, record: CustomRecord, status: dict[str, Any]) -> CustomRecord:
        """Replace the status of an object of ours if it is unchanged. Raises ClusterError."""
        kind = record.api_version, record.kind
        body = await self.client.replace_status(selection_of(kind), with_status(record, status))
        return rest.Decoding(kind, CustomRecord).object(body)

    async def read_rollout(self, name: str) -> CustomRecord:
        """Return a Rollout as it is now. Raises ClusterError."""
        body = await self.api.get(selection_of(ROLLOUT).object_path("", name))
        return rest.Decoding(ROLLOUT, CustomRecord).object(body)

    def _handle(self, change: cache.Change[Any]) -> None:
        """Apply one change to the scheduler, and measure the time."""
        metrics = self.metrics.attempts
        start = metrics.timer()
        events = object_changed(self.scheduler, change.old, change.new)
        metrics.happened(events, metrics.timer() - start)
        if self.traffic is not None:
            self.traffic.changed(change.object, gone=change.new is None)
        if change.new is None and isinstance(change.old, Pod):
            self.log.failures.pop(PodInfo.of(change.old).key, None)
        if self.log.verbosity.level >= observability.STEPS:
            self.verbose_logging.happened(change.old, change.new, events)

    def _lead(self, leads: bool) -> None:
        assert self.candidacy is not None
        lease = f"{self.candidacy.namespace}/{self.candidacy.name}"
        if leads:
            self.log.write(observability.INFO, "Successfully acquired lease", lease=lease)
        else:
            text = "Released lease" if self._resigned else "Leaderelection lost"
            self.log.write(
                observability.INFO if self._resigned else observability.ERROR, text, lease=lease
            )
        what, action = ("became leader", "Lead") if leads else ("stopped leading", "Yield")
        note = f"{self.candidacy.election.identity} {what}"
        self.tell("Normal", ELECTION, action, note)
        self._lost = not leads
        self._wake()

    def _new_holder(self, holder: str) -> None:
        if holder:  # "" after a release
            self.log.write(observability.INFO, "New leader elected", holder=holder)

    def _failed(self, call: str, key: str, error: ClusterError) -> None:
        if call == RECORD_EVENT:
            self._warn("Failed to write event", f"{key}: {error}")
            return
        self.log.write(
            observability.ERROR, "API call failed", call=call, object=key, error=str(error)
        )

    def _trouble(self, selection: rest.Selection, what: str) -> None:
        self._last_troubles[selection.kind] = what
        self._warn("Watch failed", what, kind=selection.kind[1])

    def _warn(self, text: str, what: str, **facts: object) -> None:
        """Log a repeated warning, limited by its cause."""
        unsaid = self._troubles.admit(what)
        if unsaid is not None:
            more = {"unsaid": unsaid} if unsaid else {}
            self.log.write(WARNING, text, **facts, error=what, **more)


async def listed(api: rest.Api, kind: Kind, selector: str) -> list[CustomRecord]:
    """Return the objects of a kind of ours, none if the cluster does not have the kind.

    Raises ClusterError.
    """
    try:
        decoding = rest.Decoding(kind, CustomRecord)
        return (await cache.list_all(api, selection_of(kind, selector), decoding)).items
    except ClusterError as error:
        if is_gone(error):
            return []
        raise


def selection_of(kind: Kind, selector: str = "") -> rest.Selection:
    """Return how the objects of a kind of ours are read."""
    from policy_sched.profiles.models import CUSTOM_RESOURCES  # noqa: PLC0415 - prints schemas, too

    (plural,) = (own.plural for own in CUSTOM_RESOURCES if (own.api_version, own.kind) == kind)
    return rest.Selection(kind, label_selector=selector, plural=plural)


def _declared(plans: Sequence[build.CompiledPlan]) -> dict[Kind, bool]:
    """Return the kinds that only inputs read, and whether each may be missing."""
    kinds = build.declared_kinds(plans)
    followed = {selection.kind for selection in cache.selections_of(frozenset(kinds))}
    return {kind: optional for kind, optional in kinds.items() if kind not in followed}
