"""Recordings of a live cluster from outside: all that decisions read is watched, and written.

The kinds are those of a snapshot. What may not be read of the useful ones is left out and noted;
without the others nothing is recorded. Nothing is written to the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from policy_sched.client.kube import cache, rest
from policy_sched.manifests import NO_STRUCTS, Structs
from policy_sched.model import SECOND, ApiObject
from policy_sched.recording import EVERY, Recorder
from policy_sched.snapshot.collect import readable

CHANGES: Final = 500
"""Changes that are written before other tasks have their turn."""
Tell = Callable[[str], None]


class Following:
    """Records a cluster until ``stop`` is set. ``now``: ns since 1970; ``tell`` takes notes."""

    def __init__(
        self, api: rest.Api, recorder: Recorder, now: Callable[[], int], tell: Tell
    ) -> None:
        self.stop = asyncio.Event()
        self._api, self._recorder, self._now, self._tell = api, recorder, now, tell
        self._woken = asyncio.Event()
        self._troubles: dict[tuple[str, str], str] = {}

    async def run(
        self, begun: Callable[[list[ApiObject]], None], inputs: Structs = NO_STRUCTS
    ) -> None:
        """Record; ``begun`` is called with the objects of the first snapshot.

        ``inputs``: further kinds, which inputs of policies declare. Raises ClusterError where the
        cluster may not be read, or cannot be reached, and OSError where nothing can be written.
        """
        asked = readable(self._api, inputs, self._ask, self._tell, "a recording")
        selections = [selection async for selection, _ in asked]
        informers = cache.Informers(
            self._api, selections, trouble=self._trouble, wake=self._woken.set
        )
        informers.decode(inputs)
        following = asyncio.create_task(informers.run())
        stopped = asyncio.create_task(self.stop.wait())
        try:
            if await self._synced(informers, stopped):
                objects: list[ApiObject] = []
                while informers.behind:
                    informers.drain(lambda change: objects.append(change.object), CHANGES)
                self._recorder.begin(self._now(), objects)
                begun(objects)
                del objects
                await self._record(informers, stopped)
        finally:
            following.cancel()
            stopped.cancel()
            await asyncio.gather(following, stopped, return_exceptions=True)
            self._recorder.close(self._now())

    async def _synced(self, informers: cache.Informers, stopped: asyncio.Task[bool]) -> bool:
        """Wait until everything has been listed once; return False if it is to end before."""
        listed = asyncio.create_task(_all_listed(informers))
        await asyncio.wait((listed, stopped), return_when=asyncio.FIRST_COMPLETED)
        listed.cancel()
        return not stopped.done() and informers.synced

    async def _record(self, informers: cache.Informers, stopped: asyncio.Task[bool]) -> None:
        recorder = self._recorder
        while not stopped.done():
            self._woken.clear()
            woken = asyncio.create_task(self._woken.wait())
            await asyncio.wait(
                (woken, stopped), timeout=EVERY / SECOND, return_when=asyncio.FIRST_COMPLETED
            )
            woken.cancel()
            while informers.behind:
                informers.drain(self._write, CHANGES)
                await asyncio.sleep(0)
            if self._now() >= recorder.due:
                recorder.flush(self._now())

    def _write(self, change: cache.Change[Any]) -> None:
        if change.new is None:
            self._recorder.remove(self._now(), change.object)
        else:
            self._recorder.put(self._now(), change.new)

    async def _ask(self, selection: rest.Selection) -> None:
        await self._api.get(selection.path, selection.query(limit="1"))

    def _trouble(self, selection: rest.Selection, what: str) -> None:
        """Tell of a failure that informers handle, once until another one of its kind."""
        if self._troubles.get(selection.kind) != what:
            self._troubles[selection.kind] = what
            self._tell(f"{selection.kind[1]}: {what}")


async def _all_listed(informers: cache.Informers) -> None:
    for reflector in informers.reflectors:
        await reflector.synced.wait()
