"""Source: the interface between pages and what they show.

A page reads the scheduler and the objects of a cluster; it changes nothing. `undisturbed` runs a
function that uses the scheduler while nothing else does. `versions` has a number for each kind of
thing, which rises with each change; browsers are told which of them rose.

`History` samples queue lengths and decisions over time while the console runs; `Waiting` are pods
without a node, and the reasons for it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, TypeVar

from policy_sched.errors import Diagnostic
from policy_sched.explain import Explanation
from policy_sched.instance.observability import Decided
from policy_sched.model import ApiObject, Pod
from policy_sched.profiles.reload import PolicyStore
from policy_sched.rollout import RolloutControl
from policy_sched.scheduler import Scheduler

KEPT: Final = 900
"""Samples that are kept: a quarter of an hour at one each second."""


@dataclass(frozen=True, slots=True)
class QueueSample:
    """The lengths of the queues at a time (nanoseconds since 1970), and the decisions so far."""

    time: int
    lengths: Mapping[str, int]
    decisions: int


@dataclass(slots=True)
class History:
    """The last samples, the oldest first."""

    samples: deque[QueueSample] = field(default_factory=lambda: deque(maxlen=KEPT))

    def add(self, sample: QueueSample) -> None:
        """Keep a sample, unless time stands still."""
        if not self.samples or sample.time > self.samples[-1].time:
            self.samples.append(sample)

    def rates(self) -> list[tuple[int, float]]:
        """Return the decisions per second between each two samples, at the time of the second."""
        per_second = []
        samples = list(self.samples)
        for before, after in pairwise(samples):
            seconds = (after.time - before.time) / 1e9
            per_second.append((after.time, max(0, after.decisions - before.decisions) / seconds))
        return per_second

    def rate(self, seconds: float = 10.0) -> float | None:
        """Return the decisions per second over the last seconds; None without two samples."""
        samples = list(self.samples)
        if len(samples) < 2:
            return None
        last = samples[-1]
        first = next(sample for sample in samples if last.time - sample.time <= seconds * 1e9)
        if first is last:
            first = samples[-2]
        return max(0, last.decisions - first.decisions) / ((last.time - first.time) / 1e9)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """The state of a source, for the head of a page."""

    kind: str
    """files, live or instance."""
    name: str
    """The name of the cluster."""
    missing: str = ""
    """Kinds that are not read yet, empty if all are."""
    fallback: bool = False
    """The policies have errors since the start, and the default profile decides."""
    progress: str = ""
    """A computation in progress, empty if there is none."""
    failure: str = ""
    """Why it could not be computed."""


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

    @property
    def decides(self) -> bool:
        """Whether a scheduler runs here whose decisions are carried out, now or when it leads."""
        return False

    @property
    def recording(self) -> str:
        """The directory of the recording whose beginning is looked at, empty if it is none."""
        return ""

    @property
    def rollout(self) -> RolloutControl | None:
        """The rollout of a scheduler that runs; None without one."""
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


UNDECIDED: Final = "not decided yet"

_HEAD: Final = re.compile(r"\A\d+/\d+ nodes are available: ")
_COUNTED: Final = re.compile(r"(?:\A|, )(\d+) ")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pod without a node."""

    key: str
    uid: str
    queue: str = ""
    """Part of the queue: active, backoff, unschedulable, gated, in flight, or empty."""
    position: int | None = None
    """From 1, in the order in which ready pods are decided."""
    message: str = ""
    """Why it has no node, empty if it was not decided yet."""
    node: str = ""
    """Where a simulation puts it."""

    @property
    def reason(self) -> str:
        """The reason of most nodes."""
        return dominant_reason(self.message)


def dominant_reason(message: str) -> str:
    """Return the reason that most nodes have in a message of a scheduler.

    The form is kube-scheduler's: ``0/5 nodes are available: 3 Insufficient cpu, 2 ... .`` Any
    other message is a reason as a whole. Of reasons with equally many nodes the first counts.
    """
    head = _HEAD.match(message)
    if head is None:
        return message.partition("\n")[0] or UNDECIDED
    filters = message[head.end() :].partition(". ")[0]
    reasons = list(_COUNTED.finditer(filters))
    if not reasons:
        return filters.rstrip(".") or UNDECIDED
    ends = [reason.start() for reason in reasons[1:]] + [len(filters)]
    best, most = "", -1
    for match, end in zip(reasons, ends, strict=True):
        if int(match[1]) > most:
            best, most = filters[match.end() : end], int(match[1])
    return best.rstrip(".")


def grouped(pods: Iterable[Waiting]) -> list[tuple[str, list[Waiting]]]:
    """Return pods that wait by their dominant reason, the most frequent first."""
    groups: dict[str, list[Waiting]] = {}
    for waiting in pods:
        groups.setdefault(waiting.reason, []).append(waiting)
    sizes = Counter({reason: len(members) for reason, members in groups.items()})
    return [(reason, groups[reason]) for reason, _ in sizes.most_common()]
