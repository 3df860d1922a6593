"""The processes in which a console computes, and the cluster as they get it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from policy_sched.console.sources import ClusterSource
from policy_sched.console.trials.questions import EDITOR, TRIALS, QuestionProcess
from policy_sched.console.trials.trial import packed
from policy_sched.lru import Lru
from policy_sched.simulate import TimelineResult


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
