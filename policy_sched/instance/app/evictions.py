"""Evictions of running pods that policies ask for, on a cluster.

Theory of operation. Every few seconds the looks that are due are taken, one after the other: the
running pods are judged between two decisions, some at a time, and those that may go are evicted,
one request at a time. What an API server refuses, because of a disruption budget that it knows
better, is passed over for the next pod. A look ends after a few failures.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Final

from policy_sched.errors import ClusterError
from policy_sched.framework import PodToEvict
from policy_sched.language import RuleError
from policy_sched.scheduler import (
    EvictionRound,
    EvictionTimes,
    Scheduler,
    candidates,
    evict,
    in_turn,
)

EVERY: Final = 5.0
"""Seconds between two checks of whether a look is due."""
SPACING: Final = 0.05
"""Seconds between two evictions."""
AT_A_TIME: Final = 200
"""Pods that are judged between two decisions."""
MOST_FAILURES: Final = 5
"""Evictions that are refused after which a look ends."""


class PolicyEvictions:
    """Evicts the pods. ``run`` it as a task.

    ``free`` returns once no decision is made whether pods may be evicted now. ``told`` is called
    with the plugin, the result ("success", "error" or "rule") and what went wrong, for each pod
    that is evicted, or cannot be; for each look with the first rule that failed.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        free: Callable[[], Awaitable[bool]],
        told: Callable[[str, str, str], None],
    ) -> None:
        self._scheduler = scheduler
        self._free = free
        self._told = told
        self._times = EvictionTimes()
        self.sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def run(self) -> None:
        """Evict what is due, until cancelled."""
        while True:
            await self.evict()
            await self.sleep(EVERY)

    async def evict(self) -> None:
        """Evict what is due now."""
        scheduler = self._scheduler
        if not await self._free():
            self._times = EvictionTimes()  # one that leads again begins with a whole interval
            return
        for look in self._times.take(scheduler.profiles, scheduler.handle.now()):
            victims = await self._victims(look)
            if victims:
                await self._evict(look, victims)

    async def _victims(self, look: EvictionRound) -> list[PodToEvict]:
        """Return the pods that may go; none if pods may not be evicted any more."""
        handle, victims, failure = self._scheduler.handle, [], ""
        pods = iter([pod for pod in handle.pods.infos if pod is not None])
        while some := list(islice(pods, AT_A_TIME)):
            if not await self._free():
                return []
            for judged in candidates(look, some, handle):
                if isinstance(judged, RuleError):
                    failure = failure or str(judged)
                else:
                    victims.append(judged)
            await self.sleep(0)
        if failure:
            self._told(look.plugin, "rule", failure)
        return victims

    async def _evict(self, look: EvictionRound, victims: list[PodToEvict]) -> None:
        handle, gone, failures = self._scheduler.handle, 0, 0
        loop = asyncio.get_running_loop()
        for victim in in_turn(victims, handle):
            if gone == look.rules.most or failures == MOST_FAILURES or not await self._free():
                return
            response: asyncio.Future[ClusterError | None] = loop.create_future()
            evict(victim, look, handle, response.set_result)
            error = await response
            gone, failures = gone + (error is None), failures + (error is not None)
            told = "" if error is None else f"pod {victim.pod.key}: {error}"
            self._told(look.plugin, "error" if told else "success", told)
            await self.sleep(SPACING)
