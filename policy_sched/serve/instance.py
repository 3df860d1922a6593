"""Instance: cluster, scheduler, policies and files, driven one step at a time.

Theory of operation. Nothing here waits or reads a clock of its own: `step` does what can be done
now, `next_wakeup` says when the next step is worth while, and whoever drives the instance sleeps
until then, or until a file has changed. Files are read beside the steps and take effect between
two of them. `stop` ends it in order: no pod is begun any more, what waits for permission is
undone, and the bindings that were sent are awaited.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from policy_sched.client.embedded.client import EmbeddedClient
from policy_sched.client.embedded.cluster import EmbeddedCluster
from policy_sched.errors import Diagnostic, PolicyError, Severity
from policy_sched.profiles.models import KubeSchedulerConfiguration
from policy_sched.profiles.policy_files import Compilation, PolicyFiles
from policy_sched.profiles.store import PolicyStore, Reload, Result
from policy_sched.queue.backoff import SECOND, Timing
from policy_sched.scheduler.loop import Outcome
from policy_sched.scheduler.reload import Reloader
from policy_sched.scheduler.wiring import assemble_with_assembly
from policy_sched.serve.decision_log import ERROR, INFO, DecisionLog, Write
from policy_sched.serve.feed import Feed
from policy_sched.serve.manifest_files import Applied, Contents, ManifestFiles
from policy_sched.serve.metrics import Metrics

PODS_PER_STEP = 64
"""Pods that one step decides, after which its owner gets a turn."""
CLOSING = "the scheduler is shutting down"


@dataclass(frozen=True, slots=True)
class Sources:
    """What an instance is started with: files of policies and of objects, and its own file."""

    policies: PolicyFiles
    manifests: Sequence[str] = ()
    data: str | None = None
    seed: int = 0


class Instance:
    """A scheduler on an embedded cluster; ``now`` returns nanoseconds since 1970.

    Raises PolicyError with every problem of the files, ClusterError if the data cannot be opened.
    """

    def __init__(self, sources: Sources, now: Callable[[], int], write: Write) -> None:
        self.now = now
        self.log = DecisionLog(write, now)
        self.metrics = Metrics()
        self.manifests = ManifestFiles(sources.manifests)
        contents = self.manifests.read()
        store = _loaded(sources.policies, contents, now)
        self.cluster = EmbeddedCluster.open(sources.data, now)
        self.scheduler, assembly = assemble_with_assembly(
            store.current.plans,
            seed=sources.seed,
            client=EmbeddedClient(self.cluster),
            now=now,
            timing=_timing(store.current.settings),
        )
        self.reloader = Reloader(self.scheduler, assembly, store)
        self.feed = Feed(self.cluster.store, self.scheduler)
        self.stopping = False
        self.manifest_problems: tuple[Diagnostic, ...] = ()
        self.metrics.loaded(store.current, store.status)
        self._say_what_is_in_force("Loaded policies")
        self.log.problems(store.current.warnings)
        self.apply(contents)

    # What happens by itself.

    def step(self) -> int:
        """Do what can be done now; return how many pods were decided."""
        self.cluster.step()
        self.feed.drain()
        decided = 0
        while True:
            for late in self.scheduler.tick():
                self._decided(late, late=True)
            if self.stopping or decided == PODS_PER_STEP:
                break
            outcome = self.scheduler.schedule_one()
            if outcome is None:
                break
            self._decided(outcome)
            decided += 1
        self.metrics.waiting(self.queue_lengths())
        return decided

    def next_wakeup(self) -> int | None:
        """Return when the next step is worth while, the present included; None: not by itself."""
        if self.feed.behind or not (self.stopping or self.scheduler.queue.idle()):
            return self.now()
        times = (self.cluster.next_wakeup(), self.scheduler.next_wakeup())
        return min((time for time in times if time is not None), default=None)

    def queue_lengths(self) -> dict[str, int]:
        """Return how many pods wait, by upstream's name of the queue."""
        return self.scheduler.queue.lengths()

    # What files say.

    def read_policies(self) -> Compilation:
        """Read and compile the files of policies; nothing that runs notices."""
        return self.reloader.prepare()

    def reload(self, found: Compilation, trigger: str) -> Reload:
        """Put compiled policies in force if they are in order and say something new."""
        reload = self.reloader.commit(found)
        status = self.reloader.status
        self.metrics.reloaded(reload.result, trigger)
        self.log.problems(reload.problems)
        if reload.result is Result.REFUSED:
            self.metrics.reloadable(status)
            count = sum(d.severity is Severity.ERROR for d in reload.problems)
            text = "Failed to reload policies; those in force stay"
            self.log.say(ERROR, text, trigger=trigger, problems=count, **self._in_force())
            return reload
        self.metrics.loaded(reload.policies, status)
        if reload.restart:
            text = "Some settings of the configuration count from the next start only"
            self.log.say("warning", text, settings=list(reload.restart))
        if reload.result is Result.LOADED:
            changes = reload.changes
            self.feed.adopt(changes.added)
            text = "Reloaded policies"
            self._say_what_is_in_force(text, trigger=trigger, policies=list(changes.policies))
        else:
            self._say_what_is_in_force("Policies say what they said", trigger=trigger)
        return reload

    def read_manifests(self) -> Contents:
        """Read the files of objects; nothing that runs notices."""
        return self.manifests.read()

    def apply(self, contents: Contents) -> Applied:
        """Make the cluster what the files of objects say; with mistakes in them it stays."""
        done = self.manifests.apply(contents, self.cluster)
        self.manifest_problems = done.problems
        self.log.problems(done.problems)
        if done.applied or done.deleted:
            facts = {"applied": len(done.applied), "deleted": len(done.deleted)}
            self.log.say(INFO, "Applied manifests", **facts)
        elif _errors(done.problems):
            self.log.say(ERROR, "Failed to apply manifests; the cluster stays as it is")
        return done

    # The end.

    def stop(self) -> None:
        """Begin no pod any more, and undo what waits; steps go on until `stopped`."""
        if self.stopping:
            return
        self.stopping = True
        self.log.say(INFO, "Stopping", inFlight=self.scheduler.in_flight)
        for outcome in self.scheduler.abandon(CLOSING):
            self._decided(outcome, late=True)

    @property
    def stopped(self) -> bool:
        """Whether nothing is half done."""
        return self.stopping and not self.scheduler.in_flight

    def close(self) -> None:
        """Let go of the data."""
        self.log.say(INFO, "Stopped", inFlight=self.scheduler.in_flight)
        self.cluster.close()

    def dump(self) -> None:
        """Write a record of the state and all metrics."""
        facts = {"queues": self.queue_lengths(), "metrics": self.metrics.text()}
        self.log.say(INFO, "State", **self._in_force(), **facts)

    # Inside.

    def _decided(self, outcome: Outcome, *, late: bool = False) -> None:
        self.metrics.decided(outcome)
        self.log.decided(outcome, 0 if late else self.scheduler.cache.nodes.live_count)

    def _in_force(self) -> dict[str, object]:
        status = self.reloader.status
        return {"generation": status.generation, "contentHash": status.content_hash}

    def _say_what_is_in_force(self, message: str, **facts: object) -> None:
        profiles = {
            name: profile.pipeline.content_hash for name, profile in self.scheduler.profiles.items()
        }
        self.log.say(INFO, message, profiles=profiles, **facts, **self._in_force())


def _loaded(files: PolicyFiles, contents: Contents, now: Callable[[], int]) -> PolicyStore:
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


def _timing(settings: KubeSchedulerConfiguration) -> Timing:
    return Timing(
        initial_backoff=settings.pod_initial_backoff_seconds * SECOND,
        max_backoff=settings.pod_max_backoff_seconds * SECOND,
    )
