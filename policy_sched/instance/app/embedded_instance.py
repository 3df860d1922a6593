"""EmbeddedInstance: an embedded cluster and a scheduler on it, driven one step at a time.

Files of objects are read beside the steps and take effect between two of them. While an extender is
asked the cluster lives on, and so does its API; the scheduler is told of it afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from policy_sched.client.apimachinery import NODE, POD
from policy_sched.embedded import EmbeddedClient, EmbeddedCluster
from policy_sched.errors import Diagnostic, PolicyError, Severity
from policy_sched.instance.app.cache_debugger import Seen
from policy_sched.instance.app.embedded_informer import ENDED, Informer
from policy_sched.instance.app.instance import Instance, Sources
from policy_sched.instance.app.manifest_sync import Applied, Contents, ManifestFiles
from policy_sched.instance.observability import (
    ERROR,
    INFO,
    STORAGE,
    Check,
    ClusterMetrics,
    DecisionLog,
    Write,
)
from policy_sched.model import Pod
from policy_sched.profiles.reload import PolicyFiles, PolicyStore


class EmbeddedInstance(Instance):
    """A scheduler on an embedded cluster; ``now`` returns nanoseconds since 1970.

    Raises PolicyError with every problem of the files, ClusterError if the data cannot be opened.
    """

    def __init__(self, sources: Sources, now: Callable[[], int], write: Write) -> None:
        manifests = ManifestFiles(sources.manifests)
        contents = manifests.read()
        store = _loaded(sources.policies, contents, now)
        self.cluster = EmbeddedCluster.open(sources.data, now, controllers=sources.controllers)
        client, log = EmbeddedClient(self.cluster), DecisionLog(write, now)
        super().__init__(store, client, now, log, manifests, sources.seed)
        self._failing = ""
        client.beside = self._worker.run_beside
        self.cluster.store.tell = self._worker.call_in_loop
        self.metrics.registry.register(ClusterMetrics(self.cluster.store))
        if lost := self.cluster.store.lost:
            self.log.say(ERROR, "Changes of the cluster are lost", error=lost)
        self.feed = Informer(self.cluster.store, self.scheduler, self.metrics.attempts)
        self.apply(contents)

    def _beforehand(self) -> None:
        self.cluster.step(self._slice())
        failing = self.cluster.store.failing
        if failing != self._failing:
            self._failing = failing
            if failing:
                self.log.say(ERROR, "Changes of the cluster cannot be written", error=failing)
            else:
                self.log.say(INFO, "Changes of the cluster are written again")

    def _sync_checks(self) -> tuple[Check, ...]:
        return (Check(STORAGE, self.cluster.store.trouble),)

    def _step(self) -> int:
        self.feed.process(self._slice())
        return self._decide()

    def next_wakeup(self) -> int | None:
        """Return when the next step is worth while, the present included; None: not by itself."""
        if self.deciding:
            return self.cluster.next_wakeup()
        ready = not (self.stopping or self.scheduler.queue.idle())
        if self.feed.behind or ready:
            return self.now()
        times = (self.cluster.next_wakeup(), self.scheduler.next_wakeup())
        return min((time for time in times if time is not None), default=None)

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

    def pods(self) -> Iterable[Pod]:
        """Return all pods of the cluster."""
        return [s.typed for s in self.cluster.store.select(POD) if isinstance(s.typed, Pod)]

    async def look(self) -> Seen:
        """Read the store."""
        nodes = [stored.name for stored in self.cluster.store.select(NODE)]
        return Seen(nodes, [pod for pod in self.pods() if pod.status.phase not in ENDED])

    def close(self) -> None:
        """Let go of the data."""
        self.log.say(INFO, "Stopped", inFlight=self.scheduler.in_flight)
        super().close()
        self.cluster.close()

    def wakes(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` after every change of an object."""
        super().wakes(wake)
        self.cluster.store.on_commit.append(wake)

    def _adopt(self, profiles: Collection[str]) -> None:
        self.feed.adopt(profiles)


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
