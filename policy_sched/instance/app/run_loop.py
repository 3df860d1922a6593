"""Drives an instance in real time: sleeps until a step is due, a file changes or a signal arrives.

Theory of operation. A callback of the event loop steps the instance; what has something to do for
it, or a timer, has the next one follow. A task watches the files and reads changed ones in a
thread. Their contents take effect in the event loop, that is, between two steps. SIGHUP reads
everything again, or ends the instance if the terminal of the dashboard is gone. SIGUSR2 dumps the
state. SIGTERM and SIGINT end the instance: steps continue until nothing is under way. A second
signal exits at once, as upstream; the results of requests in flight are then unknown.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Final

from policy_sched import __version__
from policy_sched.instance.app.gc_tuning import MemoryAfterBursts, freeze_loaded
from policy_sched.instance.app.instance import Instance
from policy_sched.instance.app.manifest_sync import manifests_below
from policy_sched.instance.app.policy_objects import PolicyObjects
from policy_sched.instance.observability import INFO, WARNING
from policy_sched.profiles.reload import PolicyFiles, Reload, Watched, changes, frozen_mounts

GRACE: Final = 10.0
"""Seconds in which bindings in flight must complete at shutdown."""
SLICE: Final = 0.005
"""Seconds after which a step begins nothing new, so that connections, leases and probes run."""
AT_ONCE: Final = 1
"""Exit code of a process that did not shut down in order (upstream's)."""
TOGETHER: Final = 0.2
"""Seconds in which changes of objects are one reload."""
LOOK: Final = 0.05
"""Seconds between two checks for work under way at shutdown."""
LONGEST_SLEEP: Final = 3600.0
"""Seconds after which an idle instance checks the clock, in case it was set."""
_MOUNTS: Final = Path("/proc/self/mountinfo")


class RunLoop:
    """An instance in an event loop.

    ``show`` is called after steps and while the instance is idle; ``hung_up`` returns whether the
    terminal that it draws on is gone.
    """

    def __init__(
        self,
        instance: Instance,
        show: Callable[[], None],
        show_every: float,
        leave: Callable[[int], object] = os._exit,
        hung_up: Callable[[], bool] = lambda: False,
    ) -> None:
        self.instance = instance
        self._hung_up = hung_up
        self._leave = leave
        instance.slice = SLICE
        self._show = show
        self._show_every = min(show_every, LONGEST_SLEEP)
        self._woken = False
        """Whether a step follows in the next turn of the event loop."""
        self._ended: asyncio.Future[None] | None = None
        """Is done when nothing is under way any more; None while this does not run."""
        self._give_up_at: float | None = None
        """When the grace period is over, once the end was requested."""
        self._timer: asyncio.TimerHandle | None = None
        self._end = asyncio.Event()
        self._reload_lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._settled = False
        self._memory = MemoryAfterBursts()

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT."""
        loop = asyncio.get_running_loop()
        ended = self._ended = loop.create_future()
        self._woken = False
        signals = {
            signal.SIGTERM: self._on_terminate,
            signal.SIGINT: self._on_terminate,
            signal.SIGHUP: self._on_hangup,
            signal.SIGUSR2: lambda: self._begin(self.instance.debug()),
        }
        before = {signal_number: signal.getsignal(signal_number) for signal_number in signals}
        for signal_number, act in signals.items():
            loop.add_signal_handler(signal_number, act)
        self.instance.log.write(INFO, "Running", version=__version__)
        self.instance.wakes(self._wake)
        for work in self.instance.beside():
            self._begin(work)
        self._warn_of_frozen_files()
        self._begin(self._watch())
        if self.instance.policy_objects is not None:
            self._begin(self._watch_objects(self.instance.policy_objects))
        try:
            self._wake()
            await ended
        finally:
            self._ended = None
            if self._timer is not None:
                self._timer.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            for signal_number, act_before in before.items():
                loop.remove_signal_handler(signal_number)
                signal.signal(signal_number, act_before)

    def _wake(self) -> None:
        """Have a step follow in the next turn of the event loop, and end this if it fails."""
        if not self._woken and self._ended is not None:
            self._woken = True
            self._ended.get_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        """Do a step; complete `run` after the last one, or with what it raises."""
        ended = self._ended
        if ended is None or ended.done():
            return
        try:
            if not self._end.is_set():
                self._step(LONGEST_SLEEP)
            elif self._is_over():
                self._show()
                ended.set_result(None)
            else:
                self._step(LOOK)
        except Exception as error:  # noqa: BLE001 - `run` raises it
            ended.set_exception(error)

    def _step(self, longest: float) -> None:
        """Do the work that is due, and wake up when more is due, ``longest`` seconds from now."""
        self._raise_what_failed()
        instance = self.instance
        instance.step()
        self._woken = False  # `next_wakeup` covers the step's own changes
        self._show()
        if instance.ready and not self._settled:
            self._settle()
        pause = min(self._show_every, longest)
        now = instance.now()
        for wakeup in (instance.next_wakeup(), self._memory.look(instance.work, now)):
            if wakeup is not None:
                pause = min(pause, max(0, wakeup - now) / 1e9)
        if pause <= 0:
            self._wake()
            return
        loop = asyncio.get_running_loop()
        at = loop.time() + pause
        if self._timer is None or self._timer.when() > at:  # else it does, or wakes us for nothing
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(at, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._wake()

    def _settle(self) -> None:
        """Freeze the objects of the first listing, and measure turns from now on."""
        self._settled = True
        freeze_loaded()
        self.instance.turns.begin()

    def _is_over(self) -> bool:
        """Return whether nothing is under way, or the grace period is over."""
        now = asyncio.get_running_loop().time()
        if self._give_up_at is None:
            self.instance.stop()
            self._give_up_at = now + GRACE
        return self.instance.stopped or now >= self._give_up_at

    def _on_hangup(self) -> None:
        """Read all files again; shut down if the terminal of the dashboard is gone."""
        if self._hung_up():
            self._on_terminate()
        else:
            self._begin(self._again("SIGHUP"))

    def _on_terminate(self) -> None:
        """Shut down gracefully; a second signal exits immediately."""
        if self._end.is_set():
            self.instance.log.write(WARNING, "Received second signal, exiting immediately")
            asyncio.get_running_loop().call_soon(self._leave, AT_ONCE)  # after the log's lines
        self._end.set()
        self._wake()

    # Files.

    async def _watch(self) -> None:
        """Watch the files until cancelled."""
        reloader, manifests = self.instance.reloader, self.instance.manifests
        policies = Watched(reloader.store.files.paths, last=reloader.store.seen)
        objects = Watched(manifests.paths, manifests_below, manifests.seen)
        watched = [watch for watch in (policies, objects) if watch.paths]
        if not watched:
            return
        async for watch, _ in changes(watched, self._end):
            if watch is policies:
                await self.reload("file")
            else:
                await self._apply()

    async def _watch_objects(self, objects: PolicyObjects) -> None:
        """Reload when policies that are objects have changed, until cancelled."""
        judged: PolicyFiles | None = None
        while True:
            await objects.changed.wait()
            await asyncio.sleep(TOGETHER)
            objects.changed.clear()
            if self.instance.files() != judged:
                await self.reload("object")
                judged = self.instance.reloader.store.files

    async def _again(self, trigger: str) -> None:
        """Read all files again, changed or not."""
        await self.reload(trigger)
        await self._apply()

    async def reload(self, trigger: str = "http") -> Reload:
        """Read the policies again, changed or not; return the result."""
        async with self._reload_lock:
            instance = self.instance
            instance.reloader.store.files = instance.files()
            compiled = await asyncio.to_thread(instance.reloader.store.prepare)
            compilation = await instance.readied(compiled)
            await instance.settled()
            reload = instance.reload(compilation, trigger)
            instance.judge_objects(compiled, reload)
        self._wake()
        return reload

    async def _apply(self) -> None:
        async with self._reload_lock:
            contents = await asyncio.to_thread(self.instance.manifests.read)
            self.instance.apply(contents)
        self._wake()

    def _warn_of_frozen_files(self) -> None:
        paths = (*self.instance.reloader.store.files.paths, *self.instance.manifests.paths)
        if _MOUNTS.exists():
            mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace")
            self.instance.log.problems(frozen_mounts(paths, mounts))

    # Tasks.

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        """Run a task beside the steps."""
        self._tasks.add(asyncio.create_task(work))

    def _raise_what_failed(self) -> None:
        """Raise the exception of a failed task, which ends the instance; drop completed tasks."""
        for task in [task for task in self._tasks if task.done()]:
            self._tasks.remove(task)
            task.result()
