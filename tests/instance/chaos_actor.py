"""A scheduler of the chaos run: it is restarted whenever it ends, for whatever reason."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from pathlib import Path
from random import Random

from policy_sched.client.kube.auth.credentials import ClusterAccess
from policy_sched.client.kube.leaderelection.state_machine import JITTER, Election, ElectionSettings
from policy_sched.client.kube.rest.client import Api
from policy_sched.client.kube.rest.retry import RetryPolicy
from policy_sched.client.kube.rest.settings import ClientEnvironment, Settings
from policy_sched.client.kube.time.work_queue import Clocks
from policy_sched.instance.app.cluster_instance import Candidacy, ClusterInstance, LeaseLost
from policy_sched.instance.observability.log import Record
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.profiles.reload.store import PolicyStore

TIMES = ElectionSettings(lease_duration=3.0, renew_deadline=2.0, retry_period=0.5)
RECOVERY = 2 * TIMES.retry_period * (1 + JITTER)
"""Seconds of two retry periods at most (a candidate waits 1.2 periods more)."""
GANGS = str(Path(__file__).parents[2] / "policies" / "gang")
TIMEOUT = 2.0
"""Seconds after which a scheduler gives a request up."""


class Actor:
    """A scheduler that is started again whenever it ends; ``jump`` moves its wall clock."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.jumped = 0
        self.lives = 0
        self._url = url
        self._store = PolicyStore(PolicyFiles(None, (GANGS,)), time.time_ns)
        self._life: asyncio.Task[None] | None = None
        self._instance: ClusterInstance | None = None
        self._election: Election | None = None

    def jump(self, seconds: float) -> None:
        """Set the wall clock."""
        self.jumped += round(seconds * 1e9)

    def crash(self) -> None:
        """Crash: the lease is not released."""
        if self._election is not None and self._life is not None:
            self._election.identity = "crashed"
            self._life.cancel()

    async def live(self) -> None:
        """Run until cancelled."""
        while True:
            self.lives += 1
            self._life = asyncio.create_task(self._run())
            try:
                await asyncio.wait({self._life})
            finally:
                self._life.cancel()
            if not self._life.cancelled():
                self._life.result()

    async def _run(self) -> None:
        instance = self._instance = self._made()
        tasks = [asyncio.create_task(work) for work in instance.beside()]
        try:
            with suppress(LeaseLost):
                while True:
                    instance.step()
                    for task in tasks:
                        if task.done():
                            task.result()
                    await asyncio.sleep(0.005)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def believes(self) -> dict[str, str]:
        """Return the nodes of all bound pods, by UID, in the scheduler's cache."""
        if self._instance is None or self._instance.scheduler.cache.check():
            return {}
        table = self._instance.scheduler.cache.nodes
        return {uid: name for name, row in table.row_of.items() for uid in table.pods_on(row)}

    def _made(self) -> ClusterInstance:
        clocks = Clocks(lambda: time.time_ns() + self.jumped, time.monotonic_ns)
        environment = ClientEnvironment(clocks, Random(f"{self.name}/{self.lives}"))
        api = Api(ClusterAccess(self._url), environment, Settings(qps=0, timeout=TIMEOUT))
        once = Settings(qps=0, timeout=TIMEOUT, retry_policy=RetryPolicy(tries=1))
        beside = Api(api.access, environment, once, api.recovery)
        identity = f"{self.name}-{self.lives}"
        self._election = Election(identity, clocks, environment.random, TIMES)
        candidacy = Candidacy(self._election, beside, "kube-system", "policy-sched")
        return ClusterInstance(self._store, api, candidacy, _unsaid, instance=identity)


def _unsaid(_record: Record) -> None:
    """Write no log."""
