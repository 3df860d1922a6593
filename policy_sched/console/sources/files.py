"""A cluster in files: explained as ``explain`` does it, and simulated as ``simulate`` does it.

Theory of operation. Nodes and running pods are in the cache of one scheduler, and the other pods
in its queue; nothing is ever decided on it, so it stays the cluster as it is. Another scheduler on
the same objects decides all pending pods, in a thread; its result says what becomes of each. A
change of a file builds both again; on errors everything stays as it is, and the problems are shown.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock
from typing import Final, Protocol, TypeVar

from msgspec import structs

from policy_sched.console.sources.source import ClusterSource, History, SourceStatus, Waiting
from policy_sched.errors import Diagnostic, PolicyError, PolicySchedError
from policy_sched.explain import Explanation, explain, locate_selectors
from policy_sched.instance.app import manifests_below
from policy_sched.instance.observability import Decided
from policy_sched.manifests import ManifestPosition, set_creation_times
from policy_sched.model import ENDED_PHASES, ApiObject, Pod, PodInfo
from policy_sched.profiles.build import CompiledPlan, PlanDiff
from policy_sched.profiles.reload import (
    ActivePolicies,
    PolicyFiles,
    PolicyStore,
    ReloadResult,
    Watched,
    changes,
)
from policy_sched.scheduler import Scheduler
from policy_sched.scheduler.setup import assemble, load_cluster
from policy_sched.simulate import (
    Application,
    OneShotRun,
    add_policies,
    enqueue,
    explain_after_queue,
    explain_queued,
    run_queue,
    waiting_with,
)

T = TypeVar("T")

STDIN: Final = "-"
_BREATH: Final = 0.0005
"""Seconds that a simulation sleeps now and then, so that pages are served meanwhile."""


class Cluster(Protocol):
    """The contents of files: objects, warnings, and the position of each object."""

    @property
    def objects(self) -> list[ApiObject]:
        """The objects."""

    @property
    def problems(self) -> list[Diagnostic]:
        """Warnings."""

    @property
    def positions(self) -> Mapping[tuple[str, str, str], ManifestPosition]:
        """The position of each object."""


@dataclass(frozen=True, slots=True)
class InputFiles:
    """Files of a cluster and of policies.

    ``read`` reads the cluster, and raises PolicyError for errors.
    """

    paths: tuple[str, ...]
    read: Callable[[], Cluster]
    policies: PolicyFiles
    seed: int = 0
    now: Callable[[], int] | None = None
    """The time that rules see, None for the usual one."""
    recording: str = ""
    """The directory of the recording that they are, empty if they are manifests."""


class Cancelled(Exception):  # noqa: N818 - no error: newer files are read
    """A simulation is out of date."""


_KINDS: Final = ("pods", "nodes", "policies")


@dataclass(slots=True)
class Numbers:
    """A number for each kind of thing, which rises with every change."""

    values: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_KINDS, 1))

    def rise(self, *kinds: str) -> None:
        """Note a change."""
        for kind in kinds:
            self.values[kind] += 1


def open_store(files: PolicyFiles, now: Callable[[], int]) -> tuple[PolicyStore, bool]:
    """Return the store of policies, and whether they are valid.

    If they are not, the default profile decides until a reload succeeds; the store has their
    problems.
    """
    try:
        return PolicyStore(files, now), True
    except PolicyError as error:
        store = PolicyStore(PolicyFiles(), now)
        store.files = structs.replace(files, feature_gates=store.files.feature_gates)
        problems = tuple(error.diagnostics)
        store.status = structs.replace(store.status, refused_at=now(), problems=problems)
        return store, False


class FilesSource(ClusterSource):
    """The cluster of some files. Raises PolicyError with every problem of its manifests."""

    def __init__(self, inputs: InputFiles) -> None:
        self.inputs = inputs
        self.history = History()
        self.store, valid = open_store(inputs.policies, time.time_ns)
        self._fallback = not valid
        self._numbers = Numbers()
        self._using = Lock()
        self._cluster = inputs.read()
        self._manifest_problems: tuple[Diagnostic, ...] = ()
        self.run: OneShotRun | None = None
        """The result of the simulation; None until it is complete."""
        self._runs: dict[str, Waiting] = {}
        self._after: Scheduler | None = None
        self._failure = ""
        self._decided = 0
        self._turn = 0
        self._wake = asyncio.Event()
        self._wake.set()
        self._build(self.store.current.plans)

    # What pages read.

    @property
    def recording(self) -> str:
        """The directory of the recording, empty for manifests."""
        return self.inputs.recording

    @property
    def status(self) -> SourceStatus:
        """The names of the files, and how far the simulation is."""
        paths = self.inputs.paths
        progress = ""
        if self.run is None:
            progress = f"simulating: {self._decided:,} of {len(self._infos):,} pods are decided"
        named = ("standard input" if path == STDIN else Path(path).name or path for path in paths)
        names = ", ".join(named)
        progress = "" if self._failure else progress
        return SourceStatus("files", names, "", self._fallback, progress, self._failure)

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler on the cluster as it is."""
        return self._scheduler

    @property
    def simulated(self) -> Scheduler | None:
        """The scheduler that has decided all pending pods; None until it has."""
        return self._after

    async def undisturbed(self, work: Callable[[], T]) -> T:
        """Run a function in a thread, one at a time."""

        def act() -> T:
            with self._using:
                return work()

        return await asyncio.to_thread(act)

    def versions(self) -> Mapping[str, int]:
        """Return the numbers of changes."""
        return dict(self._numbers.values)

    def objects(self) -> Sequence[ApiObject]:
        """Return the objects of the files."""
        return self._cluster.objects

    def pods(self) -> Sequence[Pod]:
        """Return the pods that have not ended."""
        return self._pods

    def waiting(self) -> Mapping[str, Waiting]:
        """Return the pods without a node; with what the simulation says once it is complete."""
        return self._runs

    def queue_lengths(self) -> Mapping[str, int]:
        """Return how many pods wait before anything is decided."""
        return self._scheduler.queue.lengths()

    def decided(self, key: str) -> Sequence[Decided]:
        """Return nothing: the pods of files have no history."""
        del key
        return ()

    def problems(self) -> Sequence[Diagnostic]:
        """Return the problems of the last reload of policies or manifests that failed."""
        return (*self.store.status.problems, *self._manifest_problems)

    def explained(self, pod: Pod, *, top: int, after_queue: bool = False) -> Explanation:
        """Explain a pod as the verb does."""
        info = PodInfo.of(pod)
        if after_queue or (pod.spec.node_name and info.pod_group):
            explanation, scheduler = self._explained_anew(pod, top, after_queue=after_queue)
        elif pod.spec.node_name:
            explanation, scheduler = self._explained_aside(info, top), self._scheduler
        else:
            queued = self._scheduler.queue.get(info.uid)
            queued_info = info if queued is None else queued.info
            explanation, scheduler = (
                explain_queued(self._scheduler, queued_info, top),
                self._scheduler,
            )
        info.node_name = ""
        applied = Application(scheduler, self.store.current.plans).report([info])
        add_policies(explanation, applied, info.scheduler_name)
        if explanation.claims is not None:
            locate_selectors(explanation.claims, self._cluster.positions, self._cluster.objects)
        return explanation

    def _explained_aside(self, info: PodInfo, top: int) -> Explanation:
        """Explain a bound pod as if it were pending."""
        cache = self._scheduler.cache
        if cache.pod(info.uid) is None:
            return explain(self._scheduler, info, top=top)
        taken = cache.take_off(info.uid)
        try:
            info.node_name = ""
            return explain(self._scheduler, info, top=top)
        finally:
            cache.put_back(taken)

    def _explained_anew(
        self, pod: Pod, top: int, *, after_queue: bool
    ) -> tuple[Explanation, Scheduler]:
        """Explain a pod on a scheduler of its own."""
        objects = self._cluster.objects
        scheduler = self._assembled(self.store.current.plans)
        pending = load_cluster(scheduler.cache, [obj for obj in objects if obj is not pod])
        infos = waiting_with(
            pod, [candidate for candidate in objects if isinstance(candidate, Pod)], pending
        )
        uid = PodInfo.of(pod).uid
        if after_queue:
            return explain_after_queue(scheduler, infos, uid, top), scheduler
        for info in infos:
            enqueue(scheduler, info)
        scheduler.run_due()
        mine = next(info for info in infos if info.uid == uid)
        return explain_queued(scheduler, mine, top), scheduler

    # Reading and simulating.

    def beside(self) -> Iterable[Coroutine[None, None, None]]:
        """Watch the files, and simulate whenever they are read."""
        return (self._watch(), self._simulate_all())

    def _assembled(self, plans: Sequence[CompiledPlan]) -> Scheduler:
        inputs, objects = self.inputs, self._cluster.objects
        scheduler = assemble(plans, seed=inputs.seed, objects=objects, now=inputs.now)
        set_creation_times(objects, scheduler.handle.now())
        return scheduler

    def _build(self, plans: Sequence[CompiledPlan]) -> None:
        """Load the cluster, and queue its pending pods."""
        scheduler = self._assembled(plans)
        infos = [PodInfo.of(pod) for pod in load_cluster(scheduler.cache, self._cluster.objects)]
        refused = {info.uid: enqueue(scheduler, info) for info in infos}
        scheduler.run_due()
        self._scheduler, self._infos = scheduler, infos
        self._pods = [
            obj
            for obj in self._cluster.objects
            if isinstance(obj, Pod) and obj.status.phase not in ENDED_PHASES
        ]
        queue_positions = {
            queued.info.uid: (number, "active")
            for number, queued in enumerate(scheduler.queue.active(), start=1)
        }
        ordered = sorted(
            infos, key=lambda info: queue_positions.get(info.uid, (len(infos) + 1, ""))[0]
        )
        self._runs = {
            info.uid: _queued(info, queue_positions, refused[info.uid]) for info in ordered
        }
        self.run, self._after, self._failure, self._decided = None, None, "", 0
        self._turn += 1
        self._numbers.rise("pods", "nodes")

    async def _simulate_all(self) -> None:
        """Simulate the cluster as it was read last, over and over."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self.run is None:
                await asyncio.to_thread(self.simulate)

    def simulate(self) -> None:
        """Decide all pending pods as the verb ``simulate`` does."""
        turn, plans = self._turn, self.store.current.plans
        scheduler = self._assembled(plans)
        infos = [PodInfo.of(pod) for pod in load_cluster(scheduler.cache, self._cluster.objects)]

        def advance(more: int) -> None:
            self._decided += more
            time.sleep(_BREATH)
            if turn != self._turn:
                raise Cancelled

        try:
            run = run_queue(scheduler, infos, advance)
        except Cancelled:
            return
        except PolicySchedError as error:
            self._failure = str(error)
            self._numbers.rise("pods")
            return
        placed = {
            info.uid: placement for info, placement in zip(infos, run.placements, strict=True)
        }
        self._runs = {
            uid: replace(waiting, message=placed[uid].message, node=placed[uid].node or "")
            for uid, waiting in self._runs.items()
        }
        self.run, self._after = run, scheduler
        self._numbers.rise("pods")

    async def _watch(self) -> None:
        """Read policies and manifests again when they change."""
        policies = Watched(self.inputs.policies.paths, last=self.store.seen)
        named = tuple(path for path in self.inputs.paths if path != STDIN)
        manifests = Watched(named, manifests_below)
        watched = [inputs for inputs in (policies, manifests) if inputs.paths]
        if not watched:
            return
        async for inputs, _ in changes(watched, asyncio.Event()):
            await asyncio.to_thread(self.reload if inputs is policies else self.reread)
            self._wake.set()

    def reload(self) -> ReloadResult:
        """Read the policies again; return what came of it."""
        compilation = self.store.prepare()
        with self._using:
            result = self.store.commit(compilation, self._enact).result
            self._fallback = self._fallback and result is ReloadResult.REFUSED
        self._numbers.rise("policies")
        return result

    def _enact(self, policies: ActivePolicies, _changes: PlanDiff) -> None:
        self._build(policies.plans)

    def reread(self) -> None:
        """Read the manifests again; on errors the cluster stays as it is."""
        try:
            cluster = self.inputs.read()
        except PolicyError as error:
            self._manifest_problems = tuple(error.diagnostics)
            self._numbers.rise("policies")
            return
        with self._using:
            self._manifest_problems, self._cluster = (), cluster
            self._build(self.store.current.plans)


def _queued(
    info: PodInfo, queue_positions: Mapping[str, tuple[int, str]], refused: str | None
) -> Waiting:
    position, state = queue_positions.get(info.uid, (None, "" if refused is None else "gated"))
    return Waiting(info.key, info.uid, state, position, refused or "")
