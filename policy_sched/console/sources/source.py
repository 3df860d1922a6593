"""Source: the interface between pages and what they show.

A page reads the scheduler and the objects of a cluster; it changes nothing. `undisturbed` runs a
function that uses the scheduler while nothing else does. `versions` has a number for each kind of
thing, which rises with each change; browsers are told which of them rose.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from policy_sched.console.sources.history import History
from policy_sched.console.sources.pending import Waiting
from policy_sched.errors import Diagnostic
from policy_sched.explain import Explanation
from policy_sched.instance.observability import Decided
from policy_sched.model import ApiObject, Pod
from policy_sched.profiles.reload import PolicyStore
from policy_sched.scheduler import Scheduler

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """What a reader needs to know before the numbers.

    ``kind``: "files", "live" or "instance"; ``name``: of the cluster. ``missing``: what is not
    read yet, "" if everything is. ``fallback``: the policies have errors since the start, and the
    default profile decides. ``progress``: what is being computed, "" if nothing is. ``failure``:
    why it could not be computed.
    """

    kind: str
    name: str
    missing: str = ""
    fallback: bool = False
    progress: str = ""
    failure: str = ""


class ClusterSource(ABC):
    """A cluster and its policies; ``store`` has the policies in force."""

    store: PolicyStore
    history: History

    @property
    @abstractmethod
    def status(self) -> SourceStatus:
        """What is looked at, and whether it is complete."""

    @property
    @abstractmethod
    def scheduler(self) -> Scheduler:
        """The scheduler that decides; only for functions that run `undisturbed`."""

    @property
    def simulated(self) -> Scheduler | None:
        """The scheduler after its pending pods were simulated; None without a simulation."""
        return None

    @abstractmethod
    async def undisturbed(self, work: Callable[[], T]) -> T:
        """Run a function that uses the scheduler, while nothing else does."""

    @abstractmethod
    def versions(self) -> Mapping[str, int]:
        """Return a number for pods, nodes and policies each; it rises with every change."""

    @abstractmethod
    def objects(self) -> Sequence[ApiObject]:
        """Return all objects of the cluster that a simulation reads."""

    @abstractmethod
    def pods(self) -> Sequence[Pod]:
        """Return the pods that have not ended."""

    @abstractmethod
    def waiting(self) -> Mapping[str, Waiting]:
        """Return the pods without a node by uid, in the order of the queue."""

    @abstractmethod
    def explained(self, pod: Pod, *, top: int, after_queue: bool = False) -> Explanation:
        """Explain the decision of a pod as ``explain`` does; one with a node, as if it had none."""

    @abstractmethod
    def queue_lengths(self) -> Mapping[str, int]:
        """Return how many pods wait, by queue."""

    @abstractmethod
    def decided(self, key: str) -> Sequence[Decided]:
        """Return the decisions of a pod that are remembered, the newest first."""

    @abstractmethod
    def problems(self) -> Sequence[Diagnostic]:
        """Return the problems of the last reload of policies or manifests that failed."""

    def beside(self) -> Iterable[Coroutine[None, None, None]]:
        """Return the tasks that keep the source up to date while the console runs."""
        return ()
