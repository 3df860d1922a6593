"""A running instance: an embedded cluster, a scheduler on a real one, or one that only watches.

Theory of operation. Pages read the instance between two of its steps, or in its worker while it
waits. An instance that decides remembers why its pods wait. A shadow queues no pod, so the pods
that wait are decided beside it, without effects, in pieces of `PIECE` seconds, again whenever the
cluster has changed; it takes at most one part in `SHARE` of the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from time import perf_counter
from typing import Final, TypeVar

from msgspec.structs import replace

from policy_sched.console.sources import source
from policy_sched.errors import Diagnostic
from policy_sched.explain import Explanation, explain
from policy_sched.instance.app import Instance
from policy_sched.instance.observability import Decided
from policy_sched.instance.shadow import ShadowInstance, choose
from policy_sched.model import ENDED_PHASES, KINDS, ApiObject, Namespace, Node, Pod, PodInfo
from policy_sched.rollout import RolloutControl
from policy_sched.scheduler import Scheduler

T = TypeVar("T")

EVERY: Final = 1.0
"""Seconds between two samples, and between two looks for pods to decide."""
PIECE: Final = 0.05
"""Seconds that deciding pods beside a shadow takes at a time."""
SHARE: Final = 5
"""A shadow's pods are decided in one part of so many of the time."""
_READ_AS_TABLE: Final = (Pod, Node, Namespace)


class RunningSource(source.ClusterSource):
    """The instance of this process; ``name`` is its cluster's.

    ``fallback``: the policies were not valid at the start, and the default profile decides.
    """

    def __init__(self, instance: Instance, name: str, *, fallback: bool = False) -> None:
        self.instance = instance
        self.history = source.History()
        self.store = instance.reloader.store
        self._name = name
        self._fallback = fallback
        self._marks: dict[str, tuple[object, int]] = {}
        self._choices: dict[str, source.Waiting] = {}
        self._chosen_at: object = None
        self._rounds = 0

    @property
    def status(self) -> source.SourceStatus:
        """The cluster, and what of it is not read yet."""
        kind = "instance" if self.instance.leads else "live"
        missing = ""
        if not self.instance.ready:
            checks = self.instance.checks()["readyz"]
            missing = "; ".join(filter(None, (check.test() for check in checks)))
        fallback = self._fallback and self.store.current.generation == 1
        return source.SourceStatus(kind, self._name, missing=missing, fallback=fallback)

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler that runs, or that would decide."""
        return self.instance.scheduler

    @property
    def decides(self) -> bool:
        """Whether the instance is no shadow."""
        return not isinstance(self.instance, ShadowInstance)

    @property
    def rollout(self) -> RolloutControl | None:
        """What drives the rollout of the instance, if it has one."""
        return self.instance.rollout

    async def undisturbed(self, work: Callable[[], T]) -> T:
        """Run a function in the instance's worker; steps wait for it."""

        def act() -> T:
            with self.instance.metrics.unmeasured():
                return work()

        return await self.instance.undisturbed(act)

    def versions(self) -> Mapping[str, int]:
        """Return the numbers of changes, which are found by comparing with the last call."""
        instance, table = self.instance, self.instance.scheduler.cache.nodes
        status = self.store.status
        now = {
            "pods": (table.journal.version, self.queue_lengths(), self._decisions(), self._rounds),
            "nodes": table.journal.nodes_version,
            "rollout": self._rolled_out(),
            "policies": (status.generation, status.counts, instance.manifest_problems),
        }
        for kind, mark in now.items():
            before, number = self._marks.get(kind, (mark, 1))
            self._marks[kind] = mark, number + (before != mark)
        return {kind: number for kind, (_, number) in self._marks.items()}

    def _rolled_out(self) -> object:
        """Return what changes as a rollout goes on; of the time, parts of ten seconds."""
        report = None if self.rollout is None else self.rollout.report()
        return report and replace(report, elapsed=report.elapsed // 10)

    def objects(self) -> Sequence[ApiObject]:
        """Return nodes, namespaces, pods, and all other objects that a decision reads."""
        table, objects = self.scheduler.cache.nodes, self.scheduler.handle.objects
        kinds = [kind for kind in dict.fromkeys(KINDS.values()) if kind not in _READ_AS_TABLE]
        return [
            *(node for node in table.nodes if node is not None),
            *table.namespaces.values(),
            *(obj for kind in kinds for obj in objects.of(kind)),
            *self.pods(),
        ]

    def pods(self) -> Sequence[Pod]:
        """Return the pods that have not ended."""
        return [pod for pod in self.instance.pods() if pod.status.phase not in ENDED_PHASES]

    def waiting(self) -> Mapping[str, source.Waiting]:
        """Return the pods without a node."""
        if isinstance(self.instance, ShadowInstance):
            return {
                waiting.uid: self._choices.get(waiting.uid, waiting) for waiting in self._unbound()
            }
        return {waiting.uid: waiting for waiting in self._queued()}

    def _queued(self) -> Iterator[source.Waiting]:
        """Yield the pods of the queue, those that are decided next first."""
        queue, failures = self.scheduler.queue, self.instance.log.failures
        for number, queued in enumerate(queue.active(), start=1):
            key = queued.info.key
            yield source.Waiting(key, queued.info.uid, "active", number, failures.get(key, ""))
        waiting = {
            "in flight": (*queue.in_flight(), *queue.binding()),
            "backoff": queue.backoff(),
            "unschedulable": queue.unschedulable(),
            "gated": queue.gated(),
        }
        for name, members in waiting.items():
            for queued in members:
                key, message = queued.info.key, failures.get(queued.info.key, "")
                if not message and (queued.gated_by or queued.rejected_by):
                    message = (
                        f"rejected by {queued.gated_by or ', '.join(sorted(queued.rejected_by))}"
                    )
                yield source.Waiting(key, queued.info.uid, name, None, message)

    def _unbound(self) -> Iterator[source.Waiting]:
        """Yield the pods of a real cluster that have no node, with that scheduler's message."""
        for pod in self.pods():
            if not pod.spec.node_name and pod.metadata.deletion_timestamp is None:
                meta = pod.metadata
                key = f"{meta.namespace or 'default'}/{meta.name}"
                yield source.Waiting(key, meta.uid or key, message=_condition(pod))

    def explained(self, pod: Pod, *, top: int, after_queue: bool = False) -> Explanation:
        """Explain a pod, now and without effects; one with a node, as if it had none."""
        del after_queue  # what is ahead of it changes all the time
        info = PodInfo.of(pod)
        waiting = self.instance.waiting(info.uid)
        by = self._profile(info) if waiting is None else waiting[1]
        info = info if waiting is None else waiting[0]
        cache = self.scheduler.cache
        if cache.pod(info.uid) is None or info.pod_group:
            return explain(self.scheduler, info, top=top, by=by)
        taken = cache.take_off(info.uid)
        try:
            info.node_name = ""
            return explain(self.scheduler, info, top=top, by=by)
        finally:
            cache.put_back(taken)

    def _profile(self, info: PodInfo) -> str:
        """Return the profile that decides a pod: its own, or the shadow's."""
        if info.scheduler_name in self.scheduler.profiles:
            return info.scheduler_name
        instance = self.instance
        if isinstance(instance, ShadowInstance):
            return instance.shadow.profile[0]
        return info.scheduler_name

    def queue_lengths(self) -> Mapping[str, int]:
        """Return how many pods wait, by queue; for a shadow, how many it waits for."""
        if isinstance(self.instance, ShadowInstance):
            return {"pending": len(self.instance.shadow)}
        return self.instance.queue_lengths()

    def decided(self, key: str) -> Sequence[Decided]:
        """Return the decisions of a pod that are remembered, the newest first."""
        return [decided for decided in reversed(self.instance.log.last) if decided.pod == key]

    def problems(self) -> Sequence[Diagnostic]:
        """Return the problems of the last reload of policies or manifests that failed."""
        return (*self.store.status.problems, *self.instance.manifest_problems)

    # In the course of time.

    def sample(self) -> None:
        """Note the lengths of the queues, and the number of decisions."""
        now = self.instance.now()
        self.history.add(source.QueueSample(now, dict(self.queue_lengths()), self._decisions()))

    def _decisions(self) -> int:
        if isinstance(self.instance, ShadowInstance):
            return self.instance.compared
        return self.instance.log.count

    def beside(self) -> Iterable[Coroutine[None, None, None]]:
        """Sample once a second, and decide the pods that wait for another scheduler."""
        tasks = [self._sampling()]
        if isinstance(self.instance, ShadowInstance):
            tasks.append(self._choosing())
        return tasks

    async def _sampling(self) -> None:
        while True:
            self.sample()
            await asyncio.sleep(EVERY)

    async def _choosing(self) -> None:
        while True:
            began = perf_counter()
            if self.instance.ready and self._chosen_at != self._mark():
                await self.choose_all()
            await asyncio.sleep(max(EVERY, SHARE * (perf_counter() - began)))

    def _mark(self) -> object:
        """Return what changes whenever a pod may be decided otherwise."""
        generation = self.store.current.generation
        return generation, self.scheduler.cache.nodes.journal.version, len(list(self._unbound()))

    async def choose_all(self) -> None:
        """Decide all pods that wait for another scheduler, without effects."""
        mark, by_uid = self._mark(), dict[str, source.Waiting]()
        left = [pod for pod in self.pods() if not pod.spec.node_name]
        while left:
            left = await self.undisturbed(partial(self._choose_some, left, by_uid))
        self._choices, self._chosen_at = by_uid, mark
        self._rounds += 1

    def _choose_some(self, pods: Sequence[Pod], by_uid: dict[str, source.Waiting]) -> list[Pod]:
        """Decide pods for a short while; return the remaining ones."""
        until = perf_counter() + PIECE
        for number, pod in enumerate(pods, start=1):
            info = PodInfo.of(pod)
            profile = self.scheduler.profiles.get(self._profile(info))
            if profile is not None and not info.terminating:
                # Ties are not broken: each of the best nodes is as good.
                ties = Random(0)  # noqa: S311 - no secret
                side = choose(info, profile, self.scheduler.handle, ties).side
                node = "" if side.preempts else side.node or ""
                message = "" if node else side.message
                by_uid[info.uid] = source.Waiting(info.key, info.uid, message=message, node=node)
            if perf_counter() > until:
                return list(pods[number:])
        return []


def _condition(pod: Pod) -> str:
    """Return the message of a pod's condition PodScheduled."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message
    return ""
