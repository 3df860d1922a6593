"""EmbeddedInstance: an embedded cluster and a scheduler on it, driven one step at a time.

Manifests are read beside the steps and applied between two of them. While an extender is called,
the cluster and its API continue; the scheduler applies their changes afterwards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from policy_sched.client.apimachinery import NODE, POD, Expired, Stored
from policy_sched.embedded import EmbeddedClient, EmbeddedCluster, Occurrence
from policy_sched.embedded.store import DELETED, Key, ObjectStore, StoreChange
from policy_sched.errors import Diagnostic, PolicyError, Severity
from policy_sched.instance.app import manifest_sync
from policy_sched.instance.app.cache_debugger import Seen
from policy_sched.instance.app.instance import POLICY, ROLLOUT, Instance, Sources
from policy_sched.instance.app.policy_objects import (
    CustomRecord,
    Records,
    policy_object,
    with_status,
)
from policy_sched.instance.observability import (
    ERROR,
    INFO,
    AttemptMetrics,
    ClusterMetrics,
    DecisionLog,
    UpstreamMetrics,
    Write,
    healthz,
)
from policy_sched.language import Input
from policy_sched.manifests import NO_STRUCTS, custom_of_json, decode_json
from policy_sched.model import KINDS, SKIPPED_KINDS, ApiObject, Kind, Pod
from policy_sched.profiles.build import CompiledPlan, declared_kinds, structs_read
from policy_sched.profiles.reload import (
    Compilation,
    PolicyFiles,
    PolicyStore,
    Reload,
    first_compilation,
)
from policy_sched.scheduler import ClusterChange, Scheduler, object_changed
from policy_sched.scheduler.setup import ENDED

if TYPE_CHECKING:
    from policy_sched.instance.app.rollout_storage import RolloutStorage
    from policy_sched.instance.app.traffic import RecordingThread


class Informer:
    """The scheduler's informers: one watch of all kinds. ``metrics`` measure the handlers."""

    def __init__(
        self, store: ObjectStore, scheduler: Scheduler, metrics: AttemptMetrics | None = None
    ) -> None:
        self._store = store
        self._scheduler = scheduler
        self._metrics = metrics or AttemptMetrics(UpstreamMetrics())
        self._watch = store.watch()
        self._known: dict[Key, ApiObject] = {}
        self._waiting: deque[StoreChange] = deque()
        self._structs: Mapping[Kind, type[ApiObject]] = {}
        self.told: dict[Kind, Callable[[], None]] = {}
        """What is called when an object of a kind has changed, by the kind as it is stored."""
        self._inputs: dict[Kind, tuple[Kind, ...]] = {}
        """By kind as it is stored, the kinds that inputs of policies declare."""
        self.traffic: RecordingThread | None = None

    def follow(
        self, kinds: Collection[Kind], structs: Mapping[Kind, type[ApiObject]] = NO_STRUCTS
    ) -> None:
        """Read from now on what inputs declare, besides the kinds that decisions read.

        ``structs``: how kinds are decoded of which more is read than scheduling does.
        """
        before_structs, self._structs = self._structs, structs
        for kind in {*before_structs, *structs}:
            if before_structs.get(kind) is not structs.get(kind):
                for stored in self._store.select(kind):
                    if stored.key in self._known:
                        self._dispatch(StoreChange("MODIFIED", stored.version, stored))
        before = {kind for declared in self._inputs.values() for kind in declared}
        wanted = {kind for kind in kinds if kind not in KINDS}
        self._inputs = {}
        for kind in sorted(wanted):
            stored_as = kind if kind in SKIPPED_KINDS else (_group(kind), kind[1])
            self._inputs[stored_as] = (*self._inputs.get(stored_as, ()), kind)
            served = kind in SKIPPED_KINDS or self._store.custom.find(kind)
            for stored in self._store.select(stored_as) if served and kind not in before else ():
                self._input_changed(stored, kind)
        gone = before - wanted
        self._known = {key: seen for key, seen in self._known.items() if key.kind not in gone}
        for kind in gone:
            self._scheduler.handle.objects.drop(kind)

    @property
    def behind(self) -> bool:
        """Whether the store holds changes that are not applied to the scheduler yet."""
        return bool(self._waiting) or self._watch.behind

    def process(self, over: Callable[[], bool] = lambda: False) -> int:
        """Apply the changes since the last call; return how many were applied.

        Once ``over`` returns true, the rest is left for the next call.
        """
        waiting = self._waiting
        try:
            waiting.extend(self._watch.drain())
        except Expired:
            while waiting:
                self._dispatch(waiting.popleft())
            waiting.extend(self._relist())
        timer = self._metrics.timer
        applied = 0
        while waiting and not (applied and over()):
            start = timer()
            events = self._dispatch(waiting.popleft())
            self._metrics.happened(events, timer() - start)
            applied += 1
        return applied

    def _relist(self) -> list[StoreChange]:
        """Return the objects of the store after the watch expired; apply deletions at once."""
        self._watch = self._store.watch()
        changes = self._watch.drain()
        present = {
            key
            for change in changes
            for stored in (change.new,)
            for key in (stored.key, *(key for _, key in self._keys(stored)))
        }
        for key in [key for key in self._known if key not in present]:
            self._gone(self._known.pop(key))
        return changes

    def _dispatch(self, change: StoreChange) -> ClusterChange:
        key, new = change.new.key, self._typed(change.new)
        if type(new) is ApiObject:  # a kind that only inputs may read
            self.told.get(key.kind, _ignore)()
            gone = change.type == DELETED
            events: ClusterChange = ()
            for kind, _ in self._keys(change.new):
                events += self._input_changed(change.new, kind, gone=gone)
            return events
        old = self._known.get(key)
        if self.traffic is not None and change.type != DELETED:
            self.traffic.changed(new)
        if change.type == DELETED:
            self._known.pop(key, None)
            return self._gone(new)
        self._known[key] = new
        if isinstance(new, Pod) and new.status.phase in ENDED:
            return object_changed(self._scheduler, new, None)
        return object_changed(self._scheduler, old, new)

    def _typed(self, stored: Stored) -> ApiObject:
        struct = self._structs.get(stored.resource.key)
        if struct is None:
            return stored.typed
        read = decode_json(stored.raw, struct)
        if read is None:  # it does not fit
            return stored.typed
        read.api_version, read.kind = stored.resource.key
        return read

    def _gone(self, old: ApiObject) -> ClusterChange:
        if self.traffic is not None:
            self.traffic.changed(old, gone=True)
        return object_changed(self._scheduler, old, None)

    def _keys(self, stored: Stored) -> list[tuple[Kind, Key]]:
        """Return the kinds by which inputs read an object, and its key as each."""
        kinds = self._inputs.get(stored.resource.key, ())
        return [(kind, Key(kind, stored.namespace, stored.name)) for kind in kinds]

    def _input_changed(self, stored: Stored, kind: Kind, *, gone: bool = False) -> ClusterChange:
        key = Key(kind, stored.namespace, stored.name)
        old = self._known.pop(key, None)
        if gone:
            return () if old is None else self._gone(old)
        new = custom_of_json(stored.raw, kind)
        self._known[key] = new
        if self.traffic is not None:
            self.traffic.changed(new)
        return object_changed(self._scheduler, old, new)

    def objects(self) -> Iterable[ApiObject]:
        """Return the objects that the scheduler knows."""
        return self._known.values()


def _ignore() -> None:
    """Do nothing: nothing follows the kind."""


def _group(kind: Kind) -> str:
    return kind[0].rpartition("/")[0]


class EmbeddedInstance(Instance):
    """A scheduler on an embedded cluster; ``now`` returns nanoseconds since 1970.

    Raises PolicyError with every problem of the files, ClusterError if the data cannot be opened.
    """

    def __init__(
        self,
        sources: Sources,
        now: Callable[[], int],
        write: Write,
        compiler: Callable[[PolicyFiles], Compilation] = PolicyFiles.compile,
    ) -> None:
        manifests = manifest_sync.ManifestFiles(sources.manifests)
        contents = manifests.read()
        selector, cluster = sources.policy_objects, None
        if selector is None:
            store = _loaded(sources.policies, contents, now)
        else:
            cluster = EmbeddedCluster.open(sources.data, now, controllers=sources.controllers)
            try:
                store = _loaded_with_objects(sources, contents, cluster, manifests, compiler)
            except BaseException:
                cluster.close()
                raise
        self.cluster = cluster or EmbeddedCluster.open(
            sources.data, now, controllers=sources.controllers
        )
        client, log = EmbeddedClient(self.cluster), DecisionLog(write, now)
        super().__init__(store, client, now, log, manifests, sources.seed)
        self._failing = ""
        self._data = sources.data
        client.beside = self._worker.run_beside
        self.cluster.store.tell = self._worker.call_in_loop
        counted = ClusterMetrics(self.cluster.store)
        self.metrics.add(counted, counted.look)
        if lost := self.cluster.store.storage.lost:
            self.log.write(ERROR, "Changes of the cluster are lost", error=lost)
        self.ready_checks = (
            healthz.Check(healthz.STORAGE, self.cluster.store.storage.write_error),
            healthz.Check(healthz.INPUTS, self._unserved),
        )
        self.feed = Informer(self.cluster.store, self.scheduler, self.metrics.attempts)
        self._missing: list[Kind] = []
        self._definitions_seen = -1
        self._follow(store.current.plans)
        self.apply(contents)
        self._wait_for_inputs()
        if selector is not None:
            self.follow_policies(selector)

    def _follow(self, plans: Sequence[CompiledPlan]) -> None:
        self.feed.follow(declared_kinds(plans, polled=True), structs_read(plans))

    def _definition(self, given: Input) -> Mapping[str, object] | None:
        """Return the CustomResourceDefinition of an input's kind, None if there is none."""
        group = _group(given.object_kind)
        for kind in self.cluster.store.custom:
            if (kind.group, kind.names["kind"]) == (group, given.kind):
                return {"spec": kind.spec}
        return None

    def _serves(self, kind: Kind) -> bool:
        custom = self.cluster.store.custom.find(kind)
        return custom is not None or kind in KINDS or kind in SKIPPED_KINDS

    def _lacking(self, plans: Sequence[CompiledPlan]) -> list[Kind]:
        """Return the kinds that inputs need and that are not served."""
        declared = declared_kinds(plans)
        return [kind for kind, may in declared.items() if not (may or self._serves(kind))]

    def _problems_of(self, kinds: Collection[Kind]) -> list[Diagnostic]:
        problems = []
        for kind in kinds:
            message = f"the cluster has no {kind[1]} of {kind[0]}"
            problems += self.reloader.store.files.problems_of_input(kind, message)
        return problems

    def _wait_for_inputs(self) -> None:
        """Decide no pod before the kinds are served that inputs need."""
        self._missing = self._lacking(self.reloader.store.current.plans)
        self.log.problems(self._problems_of(self._missing))

    @property
    def may_begin(self) -> bool:
        """Whether a pod may be decided now."""
        if self._missing:
            self._missing = self._lacking(self.reloader.store.current.plans)
        return super().may_begin and not self._missing

    async def readied(self, compilation: Compilation) -> Compilation:
        """Return what was compiled if the kinds of its inputs are served, or why not."""
        problems = self._problems_of(self._lacking(compilation.plans))
        if not problems:
            return await super().readied(compilation)
        return Compilation((), (*compilation.problems, *problems))

    def reload(self, compilation: Compilation, trigger: str) -> Reload:
        """Activate compiled policies; what they read is there when they are in force."""
        self._follow((*self.reloader.plans, *compilation.plans))
        return super().reload(compilation, trigger)

    def _follow_inputs(self) -> None:
        super()._follow_inputs()
        self._follow(self.reloader.plans)

    def _own_storage(self) -> RolloutStorage | None:
        """Return a file beside the data; a cluster in memory ends with the process, too."""
        # imported here: few schedulers have one
        from policy_sched.instance.app.rollout_storage import FileStorage  # noqa: PLC0415

        return None if self._data is None else FileStorage(f"{self._data}-rollout")

    def _beforehand(self) -> None:
        self.cluster.step(self._slice())
        failing = self.cluster.store.storage.failing
        if failing != self._failing:
            self._failing = failing
            if failing:
                self.log.write(ERROR, "Changes of the cluster cannot be written", error=failing)
            else:
                self.log.write(INFO, "Changes of the cluster are written again")

    @property
    def behind(self) -> bool:
        """Whether the store holds changes that the scheduler does not know yet."""
        return self.feed.behind or self.polls.waiting

    def beside(self) -> list[Coroutine[None, None, None]]:
        """Return the tasks that run beside the steps."""
        beside = [self.polls.run(), self.published.run(), self.evictions.run()]
        if self.policy_objects is not None:
            beside.append(self.policy_objects.run())
        if self.rollout_objects is not None:
            beside.append(self.rollout_objects.run())
        return beside

    def observe(self, kind: Kind, selector: str, changed: Callable[[], None]) -> Records:
        """Follow the objects of a kind of ours; return what lists them."""
        self.feed.told[_group(kind), kind[1]] = changed
        changed()
        return lambda: records_of(self.cluster, kind, selector)

    async def patch_status(
        self, kind: Kind, namespace: str, name: str, status: Mapping[str, Any]
    ) -> None:
        """Merge a status into that of an object. Raises ClusterError."""
        key = Key((_group(kind), kind[1]), namespace, name)
        self.cluster.store.patch(key, {"status": dict(status)}, subresource="status")

    async def replace_status(self, record: CustomRecord, status: dict[str, Any]) -> CustomRecord:
        """Replace the status of an object of ours if it is unchanged. Raises ClusterError."""
        return _record(self.cluster.store.update(with_status(record, status), "status"))

    async def read_rollout(self, name: str) -> CustomRecord:
        """Return a Rollout as it is now. Raises ClusterError."""
        return _record(self.cluster.store.get((_group(ROLLOUT), ROLLOUT[1]), "", name))

    def _polled_of(self, plans: Sequence[CompiledPlan]) -> list[Input]:
        """Return the inputs that are polled: the store lets watch all kinds."""
        return [given for given in super()._polled_of(plans) if given.url]

    def _take_in(self) -> None:
        self._take_answers()
        self.feed.process(self._slice())
        if self._definitions_seen != self.cluster.store.custom.version:
            self._definitions_seen = self.cluster.store.custom.version
            self.schemas.look()
        if self.traffic is not None and not self.traffic.begun and not self.feed.behind:
            self.traffic.begin()

    def _everything(self) -> Iterator[ApiObject]:
        """Yield all objects of the cluster that are known."""
        yield from self.feed.objects()
        for answer in self.polls.last.values():
            yield from answer.objects

    def record_traffic(self, folder: str, annotations: Collection[str] = ()) -> None:
        """Record as above."""
        super().record_traffic(folder, annotations)
        self.feed.traffic = self.traffic

    def _cluster_wakeup(self) -> int | None:
        return self.cluster.next_wakeup()

    def apply(self, contents: manifest_sync.ManifestContents) -> manifest_sync.AppliedManifests:
        """Apply the files of objects to the cluster; on errors the cluster stays as it is."""
        done = self.manifests.apply(contents, self.cluster)
        self.manifest_problems = done.problems
        self.log.problems(done.problems)
        if done.applied or done.deleted:
            facts = {"applied": len(done.applied), "deleted": len(done.deleted)}
            self.log.write(INFO, "Applied manifests", **facts)
        elif _errors(done.problems):
            self.log.write(ERROR, "Failed to apply manifests; the cluster stays as it is")
        return done

    def _unserved(self) -> str:
        return "; ".join(problem.message for problem in self._problems_of(self._missing))

    def tell(self, kind: str, reason: str, action: str, note: str) -> None:
        """Record an event about the scheduler's namespace."""
        reporter = next(iter(self.scheduler.profiles))
        about = ("Namespace", "", "kube-system", "")
        self.cluster.events.record(Occurrence(about, reporter, kind, reason, action, note))

    def pods(self) -> Iterable[Pod]:
        """Return all pods of the cluster."""
        return [s.typed for s in self.cluster.store.select(POD) if isinstance(s.typed, Pod)]

    async def look(self) -> Seen:
        """List the store."""
        nodes = [stored.name for stored in self.cluster.store.select(NODE)]
        return Seen(nodes, [pod for pod in self.pods() if pod.status.phase not in ENDED])

    def close(self) -> None:
        """Close the data directory."""
        self.log.write(INFO, "Stopped", inFlight=self.scheduler.in_flight)
        super().close()
        self.cluster.close()

    def wakes(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` after every change of an object."""
        super().wakes(wake)
        self.cluster.store.on_commit.append(wake)


def records_of(cluster: EmbeddedCluster, kind: Kind, selector: str) -> list[CustomRecord]:
    """Return the objects of a kind of ours, none if the cluster does not have the kind."""
    if cluster.store.custom.find(kind) is None:
        return []
    objects = cluster.store.select(kind, labels=selector)
    read = (decode_json(stored.raw, CustomRecord) for stored in objects)
    return [record for record in read if isinstance(record, CustomRecord)]


def _record(stored: Stored) -> CustomRecord:
    record = decode_json(stored.raw, CustomRecord)
    assert isinstance(record, CustomRecord), "the store has checked it"
    return record


def _loaded_with_objects(
    sources: Sources,
    contents: manifest_sync.ManifestContents,
    cluster: EmbeddedCluster,
    manifests: manifest_sync.ManifestFiles,
    compiler: Callable[[PolicyFiles], Compilation],
) -> PolicyStore:
    """Load policies for the first time, with those that the cluster, and the manifests, have."""
    if _errors(contents.problems):
        return _loaded(sources.policies, contents, cluster.store.now)
    manifests.apply(contents, cluster)
    selector = sources.policy_objects or ""
    objects, rollouts = (
        tuple(sorted(map(policy_object, records), key=lambda given: given.name))
        for records in (records_of(cluster, kind, selector) for kind in (POLICY, ROLLOUT))
    )
    files = replace(sources.policies, objects=objects, rollouts=rollouts)
    files, compilation = first_compilation(files, compiler)
    return PolicyStore(files, cluster.store.now, compilation)


def _loaded(
    files: PolicyFiles, contents: manifest_sync.ManifestContents, now: Callable[[], int]
) -> PolicyStore:
    """Load policies for the first time. Raises PolicyError with the problems of all files."""
    errors = _errors(contents.problems)
    try:
        store = PolicyStore(files, now)
    except PolicyError as error:
        raise PolicyError((*error.diagnostics, *errors)) from None
    if errors:
        raise PolicyError(contents.problems)
    return store


def _errors(problems: Sequence[Diagnostic]) -> list[Diagnostic]:
    return [problem for problem in problems if problem.severity is Severity.ERROR]
