"""Try it: edited policies decide the pending pods of a cluster beside those in force.

It is `policy-sched diff` over policies that are in no file yet: the same functions compile, decide
and compare, so the numbers are the same. Nothing is applied.
"""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from aiohttp import web
from msgspec.structs import replace

from policy_sched import simulate
from policy_sched.console.sources import ClusterSource
from policy_sched.console.trials.edits import edited
from policy_sched.console.trials.questions import EDITOR, TRIALS, Question, QuestionProcess
from policy_sched.diff import PolicyDiff, Rewrite, compare_placements, compare_seeds, proven_alike
from policy_sched.errors import Diagnostic, PolicyError
from policy_sched.lru import Lru
from policy_sched.manifests import set_creation_times
from policy_sched.model import ApiObject, PodInfo
from policy_sched.profiles.build import CompiledPlan, decoded_kinds
from policy_sched.profiles.format import differences
from policy_sched.profiles.reload import CompiledFiles, PolicyFiles, compiled_set
from policy_sched.recording import Recording
from policy_sched.report import unshown
from policy_sched.scheduler.setup import EPOCH, assemble, load_cluster
from policy_sched.simulate import TimelineResult

MOST_SEEDS: Final = 30
"""Seeds with which a trial decides at most."""


def packed(objects: Sequence[ApiObject]) -> bytes:
    """Return the objects of a cluster as a question carries them."""
    return pickle.dumps(list(objects), pickle.HIGHEST_PROTOCOL)


@lru_cache(maxsize=1)
def _unpacked(objects: bytes) -> list[ApiObject]:
    """Return the objects of a cluster; those of the last question are kept."""
    decoded: list[ApiObject] = pickle.loads(objects)  # noqa: S301  # from this program itself
    return decoded


@dataclass(frozen=True, slots=True)
class PolicyTrial:
    """The result of a trial: problems of the edited files, or what both sets do.

    ``diff`` is None if a problem is an error.
    """

    problems: tuple[Diagnostic, ...]
    diff: PolicyDiff | None = None
    pending: int = 0
    """Pods that both sets decided."""


@dataclass(frozen=True, slots=True)
class TrialQuestion(Question[PolicyTrial]):
    """What would edited policies do on a cluster?

    ``files`` are in force, with ``plans`` if they were compiled; ``edits`` are the new texts by
    path; ``objects`` are a packed cluster.
    """

    files: PolicyFiles
    edits: Mapping[str, str]
    objects: bytes
    plans: tuple[CompiledPlan, ...] = ()
    seeds: tuple[int, ...] = (0,)
    """Seeds that break ties."""
    now: int = EPOCH

    def result(self) -> PolicyTrial:
        """Compile the edited files, decide with both sets, and compare."""
        objects = _unpacked(self.objects)
        pending = sum(map(simulate.waits, objects))
        with edited(self.files, self.edits) as copy:
            try:
                new = compiled_set(copy.files)
            except PolicyError as error:
                return PolicyTrial(copy.renamed(error.diagnostics), pending=pending)
            config = None if new.config is None else copy.text(new.config)
            new = replace(new, config=config, warnings=copy.renamed(new.warnings))
        old = self._old()
        placements = (
            compare_placements(old.plans, new.plans, objects, self.seeds[0], self.now)
            if len(self.seeds) == 1
            else compare_seeds(old.plans, new.plans, objects, self.seeds, now=self.now)
        )
        proven = proven_alike(old, new, _alike)
        sides = replace(old, plans=()), replace(new, plans=())
        diff = PolicyDiff(*sides, differences(old, new), placements, proven)
        return PolicyTrial(tuple(new.warnings), diff, pending)

    def _old(self) -> CompiledFiles:
        """Return the set in force; its files may have changed since."""
        try:
            files = compiled_set(self.files)
        except PolicyError:
            if not self.plans:
                raise
            config = self.files.config if isinstance(self.files.config, str) else None
            return CompiledFiles(config, self.plans, {})
        return replace(files, plans=self.plans) if self.plans else files


def _alike(changed: Sequence[Rewrite]) -> bool:
    from policy_sched.prove import all_alike  # noqa: PLC0415  z3-solver may be absent

    return all_alike(changed)


@dataclass(frozen=True, slots=True)
class Hits:
    """The pending pods and nodes to which each policy in force applied."""

    pods: int
    nodes: int
    policies: tuple[simulate.AppliedPolicy, ...]


@dataclass(frozen=True, slots=True)
class HitsQuestion(Question[Hits]):
    """To which pods and nodes does each policy and rule apply?"""

    plans: tuple[CompiledPlan, ...]
    objects: bytes
    seed: int = 0
    now: int = EPOCH

    def result(self) -> Hits:
        """Decide every pending pod as `policy-sched simulate` does, and count."""
        objects = _unpacked(self.objects)
        set_creation_times(objects, self.now)
        scheduler = assemble(self.plans, seed=self.seed, objects=objects, now=lambda: self.now)
        infos = [PodInfo.of(pod) for pod in load_cluster(scheduler.cache, objects)]
        application = simulate.Application(scheduler, self.plans, by_rule=True)
        run = simulate.run_queue(scheduler, infos, unshown)
        return Hits(len(infos), run.nodes, application.report(infos))


@dataclass(frozen=True, slots=True)
class TimelineQuestion(Question[simulate.TimelineResult]):
    """What happens on a cluster over virtual time?"""

    plans: tuple[CompiledPlan, ...]
    objects: bytes
    seed: int = 0
    until: int | None = None
    """Nanoseconds after the start, None for the whole."""
    retry: simulate.Retry = "Backoff"
    recording: str = ""
    """A directory whose recorded traffic is decided again, in place of the objects."""

    def result(self) -> simulate.TimelineResult:
        """Simulate as `policy-sched simulate --timeline` does, or replay as `replay` does."""
        if self.recording:
            recording = Recording.open(self.recording, decoded_kinds(self.plans))
            span = recording.began, recording.ended + 1
            traffic = simulate.traffic_of(recording.events(*span), *span)
            seed, until = self.seed, self.until
            return simulate.play_traffic(traffic, self.plans, seed=seed, until=until)
        return simulate.play(
            _unpacked(self.objects),
            self.plans,
            seed=self.seed,
            until=self.until,
            retry=self.retry,
        )


@dataclass(slots=True)
class PackedCluster:
    """The cluster as questions carry it, as long as it does not change."""

    versions: tuple[int, ...] = ()
    objects: bytes = b""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


EDITOR_PROCESS: Final = web.AppKey("EDITOR_PROCESS", QuestionProcess)
TRIAL_PROCESS: Final = web.AppKey("TRIAL_PROCESS", QuestionProcess)
TIMELINES: Final = web.AppKey("TIMELINES", Lru[object, TimelineResult])
"""The last results of simulations over time."""
KEPT_TIMELINES: Final = 4
_CLUSTER: Final = web.AppKey("_CLUSTER", PackedCluster)


async def processes(app: web.Application) -> AsyncIterator[None]:
    """Have the processes while the application runs; they start with their first question."""
    app[EDITOR_PROCESS], app[TRIAL_PROCESS] = QuestionProcess(EDITOR), QuestionProcess(TRIALS)
    app[_CLUSTER], app[TIMELINES] = PackedCluster(), Lru(KEPT_TIMELINES)
    yield
    app[EDITOR_PROCESS].close()
    app[TRIAL_PROCESS].close()


async def cluster_of(source: ClusterSource, app: web.Application) -> bytes:
    """Return the objects of a source as questions carry them."""
    kept = app[_CLUSTER]
    async with kept.lock:
        versions = source.versions()
        now = versions["pods"], versions["nodes"]
        if now != kept.versions or not kept.objects:
            objects = await source.undisturbed(lambda: list(source.objects()))
            kept.objects = await asyncio.to_thread(packed, objects)
            kept.versions = now
        return kept.objects


def now_of(source: ClusterSource) -> int:
    """Return the time that rules see."""
    return source.scheduler.handle.now()
