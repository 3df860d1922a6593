"""From a chosen node to a bound pod: assume, reserve, permit, pre-bind, bind; and all undone.

Theory of operation. Assume, Reserve and Permit run at once, and so does Bind for a pod that neither
Permit nor a PreBind plugin holds up. The rest is a generator that yields whatever the pod waits
for: permission, a PreBind plugin, a response of the cluster; other pods are decided meanwhile, and
it is resumed when there may be a result. Whatever fails after the pod was assumed is undone in
reverse: Unreserve of every Reserve plugin, then the cache forgets the pod.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Final, TypeAlias

import msgspec

from policy_sched.cluster import PodState, PodStateError
from policy_sched.errors import ClusterError, PluginError
from policy_sched.framework import (
    POINTS,
    SUCCESS,
    Code,
    Extender,
    Handle,
    PendingStatus,
    Status,
    Wait,
    WaitingPod,
)
from policy_sched.framework.evaluate import skip
from policy_sched.framework.runtime import Hook, PointResult, Runner
from policy_sched.model import PodInfo
from policy_sched.scheduler.api_calls import nomination, record_event
from policy_sched.scheduler.attempt import Attempt, Bind

Steps: TypeAlias = Generator[Wait, None, Status]
"""A binding on its way: yields what it waits for, returns Success or what failed."""

Waits: TypeAlias = tuple[Mapping[str, float], Mapping[str, Callable[[], Status]], Sequence[str]]
"""By plugin its time-out in seconds and how it is asked again; and their reasons."""

LOG: Final = logging.getLogger(__name__)
_SKIP: Final = Status(Code.SKIP)
_NO_BIND_PLUGIN: Final = Status(Code.ERROR, ("no Bind plugin took the pod",))


def reserve_and_permit(
    attempt: Attempt, node: str, handle: Handle
) -> tuple[Status, WaitingPod | None]:
    """Assume the pod on `node`, reserve, and run Permit.

    Returns Success, with the waiting pod if it has to wait, or the rejection, after which
    nothing is left of the attempt.
    """
    pod = attempt.queued.info
    runner = attempt.profile.runner
    try:
        handle.cache.assume(pod, node)
    except PodStateError as error:
        return Status(Code.ERROR, (str(error),)), None
    if pod.uid in handle.nominator.node_by_uid:
        handle.nominator.clear(pod.uid)
    state, hooks = attempt.state, attempt.hooks
    if not hooks["reserve"] and not hooks["permit"]:
        if runner.recorder is not None:
            runner.note_empty("reserve", "permit")
        return SUCCESS, None
    try:
        status = runner.run("reserve", state, pod, node, hooks=hooks["reserve"]).status
        if status.code is not Code.SUCCESS:
            status = _worded("reserve", status.plugin, status)
        else:
            permitted = runner.run("permit", state, pod, node, hooks=hooks["permit"])
            status = permitted.status
            if status.code is Code.SUCCESS:
                return status, None
            if status.code is Code.WAIT:
                return SUCCESS, hold(permitted, pod, node, handle)
            status = _worded("permit", status.plugin, status)
    except PluginError as error:
        status = Status(Code.ERROR, (str(error),))
    undo(attempt, node, handle)
    return status, None


def hold(permitted: PointResult, pod: PodInfo, node: str, handle: Handle) -> WaitingPod:
    """Let a pod wait for the Permit plugins that ask for it."""
    waiting = WaitingPod(pod, node, {}, handle.now())
    waiting.wait_for(*_waits(permitted))
    handle.waiting_pods.add(waiting)
    return waiting


def _waits(permitted: PointResult) -> Waits:
    """Return what a pod waits for that Permit plugins let wait."""
    waits = permitted.waits
    timeouts = {plugin: result.timeout for plugin, result in waits.items()}
    again = {plugin: r.again for plugin, r in waits.items() if r.again is not None}
    return timeouts, again, [reason for r in waits.values() for reason in r.status.reasons]


def permit_again(waiting: WaitingPod, attempt: Attempt, runner: Runner, handle: Handle) -> None:
    """Run the Permit plugins of a newer pipeline for a pod that waits for those of its own.

    A pod that has to wait for the newer ones has waited since it was held.
    """
    try:
        permitted = runner.run("permit", attempt.state.clone(), waiting.pod, waiting.node)
    except PluginError as error:
        waiting.reject("", str(error))
        return
    status = permitted.status
    if status.ok:
        waiting.allow_all()
    elif status.code is Code.WAIT:
        handle.waiting_pods.wait_for(waiting, *_waits(permitted))
    else:
        waiting.reject(status.plugin, status.message())


def begin_binding(
    attempt: Attempt, node: str, waiting: WaitingPod | None, handle: Handle
) -> Status | Steps:
    """Begin the binding; return how it ended, or the steps that are left."""
    hooks = attempt.hooks
    if (
        waiting is not None
        or hooks["pre_bind"]
        or hooks["pre_bind_pre_flight"]
        or attempt.profile.extenders
    ):
        return _binding_cycle(attempt, node, waiting, handle)
    attempt.permitted = attempt.sent = True
    runner = attempt.profile.runner
    if runner.recorder is not None:
        runner.note_empty("pre_bind_pre_flight", "pre_bind")
    try:
        result = runner.run("bind", attempt.state, attempt.queued.info, node)
    except PluginError as error:
        return Status(Code.ERROR, (str(error),))
    if isinstance(result.returned, PendingStatus):
        return _awaited(result, attempt, node, handle)
    return _bound(result, attempt, node, handle)


def _awaited(result: PointResult, attempt: Attempt, node: str, handle: Handle) -> Steps:
    """Wait for the result of Bind."""
    try:
        result = yield from _finished("bind", result, attempt, node, handle)
    except PluginError as error:
        return Status(Code.ERROR, (str(error),))
    return _bound(result, attempt, node, handle)


def _binding_cycle(
    attempt: Attempt, node: str, waiting: WaitingPod | None, handle: Handle
) -> Steps:
    """Wait for permission, run PreBind, Bind and PostBind; nothing is undone here."""
    pod, runner, hooks = attempt.queued.info, attempt.profile.runner, attempt.hooks
    pre_binds = bool(hooks["pre_bind"] or hooks["pre_bind_pre_flight"])
    try:
        try:
            working, expected = _pre_flight(attempt, node) if pre_binds else ((), False)
            if expected or waiting is not None:
                try:  # its binding may take a while
                    handle.client.send(nomination(pod, node))
                except ClusterError as error:
                    LOG.warning("cannot nominate pod %s to node %s: %s", pod.key, node, error)
            if waiting is not None:
                while (status := waiting.status_at(handle.now())) is None:
                    yield waiting
                runner.waited(status.code, (handle.now() - waiting.started) / 1e9)
                if status.code is not Code.SUCCESS:
                    return status
        finally:
            if waiting is not None:
                handle.waiting_pods.remove(pod.uid)
        attempt.permitted = True
        if pre_binds:
            status = yield from _pre_bind(working, attempt, node, handle)
            if status.code is not Code.SUCCESS:
                return status
        elif runner.recorder is not None:
            runner.note_empty("pre_bind_pre_flight", "pre_bind")
        attempt.sent = True
        extenders = attempt.profile.extenders
        bound = (yield from _by_extenders(extenders, pod, node, handle)) if extenders else _SKIP
        if bound.code is Code.ERROR:
            return bound
        result = PointResult()
        if bound.code is Code.SKIP:
            result = runner.run("bind", attempt.state, pod, node)
            if isinstance(result.returned, PendingStatus):
                result = yield from _finished("bind", result, attempt, node, handle)
    except PluginError as error:
        return Status(Code.ERROR, (str(error),))
    return _bound(result, attempt, node, handle)


def _by_extenders(extenders: Sequence[Extender], pod: PodInfo, node: str, handle: Handle) -> Steps:
    """Wait for the extender that binds; Skip if none does, or it failed and is ignorable."""
    binding = [extender for extender in extenders if extender.binds and extender.interested(pod)]
    if not binding:
        return _SKIP
    work = _ExtenderBinding(extenders=binding, pod=pod, node=node)
    handle.client.delegate(pod, work.bind, work.done)
    while (status := work.status_at(handle.now())) is None:
        yield work
    return status


class _ExtenderBinding(PendingStatus, kw_only=True):
    """The status of extenders that bind a pod; the requests may run in another thread."""

    extenders: Sequence[Extender]
    pod: PodInfo
    node: str
    status: Status = _SKIP

    def bind(self) -> None:
        """Call one after the other until one binds, or one fails that must not."""
        for extender in self.extenders:
            try:
                extender.bind(self.pod, self.node)
            except PluginError as error:
                if not extender.ignorable:
                    self.status = Status(Code.ERROR, (str(error),))
                    return
                skip(extender, error)
            else:
                self.status = SUCCESS
                return

    def done(self, error: ClusterError | None) -> None:
        """Finish when the extender has responded."""
        self.finish(self.status if error is None else Status(Code.ERROR, (str(error),)))


def undo(attempt: Attempt, node: str, handle: Handle) -> bool:
    """Unreserve in reverse order, and let the cache forget the pod; return whether that frees room.

    A plugin that cannot undo does not keep the others from it. A pod that the watch has shown to
    be bound meanwhile is not forgotten. Where it was deleted its plugins may free something.
    """
    pod = attempt.queued.info
    runner = attempt.profile.runner
    for error in runner.undo("reserve", attempt.state, pod, node):
        LOG.warning("%s (pod %s)", error, pod.key)
    bound = handle.cache.state(pod.uid) is PodState.ADDED
    if not bound:
        handle.cache.forget(pod.uid)
    pod.node_name = ""
    return not bound


def _pre_flight(attempt: Attempt, node: str) -> tuple[tuple[Hook, ...], bool]:
    """Return the PreBind plugins that have work to do, and whether one announced that it has.

    Raises PluginError if PreBindPreFlight fails.
    """
    runner, hooks = attempt.profile.runner, attempt.hooks
    point = "pre_bind_pre_flight"
    result = runner.run(point, attempt.state, attempt.queued.info, node, hooks=hooks[point])
    if result.status.code not in (Code.SUCCESS, Code.SKIP):
        name = POINTS[point].name
        raise PluginError(f'running {name} plugin "{result.plugin}": {result.status.message()}')
    working = hooks["pre_bind"]
    if result.skipped:
        working = tuple([hook for hook in working if hook.plugin not in result.skipped])
    return working, len(result.skipped) < len(hooks[point])


def _pre_bind(working: tuple[Hook, ...], attempt: Attempt, node: str, handle: Handle) -> Steps:
    """Run the PreBind plugins that have work to do."""
    runner = attempt.profile.runner
    result = runner.run("pre_bind", attempt.state, attempt.queued.info, node, hooks=working)
    if isinstance(result.returned, PendingStatus):
        result = yield from _finished("pre_bind", result, attempt, node, handle)
    if result.status.code is not Code.SUCCESS:
        return _worded("pre_bind", result.plugin, result.status)
    return SUCCESS


def pre_bind_at_once(attempt: Attempt, node: str, handle: Handle) -> Status:
    """Run PreBind as a binding does; Wait where that takes time. Raises PluginError."""
    working, _ = _pre_flight(attempt, node)
    steps = _pre_bind(working, attempt, node, handle)
    try:
        next(steps)
    except StopIteration as end:
        status: Status = end.value
        return status
    steps.close()
    return Status(Code.WAIT)


def _finished(
    point: str, result: PointResult, attempt: Attempt, node: str, handle: Handle
) -> Generator[Wait, None, PointResult]:
    """Wait for plugins that finish later, and run the rest of their point."""
    pod, runner = attempt.queued.info, attempt.profile.runner
    cancellable = handle.waiting_pods.pre_binding if point == "pre_bind" else {}
    while isinstance(result.returned, PendingStatus):
        work = cancellable[pod.uid] = result.returned
        # Without a function to poll and a deadline there is a status when one was given.
        polled = work.poll is not None or work.deadline is not None
        poll = Hook(result.plugin, work.status_at) if polled else None
        try:
            while (
                status := work.given if poll is None else runner.call(point, poll, handle.now())
            ) is None:
                yield work
        finally:
            del cancellable[pod.uid]
        if not isinstance(status, Status):
            text = f"finished with {type(status).__name__}; a Status is expected"
            raise PluginError(f'plugin "{result.plugin}": {point} {text}')
        if attempt.late:  # the point lasted until the result was there
            started = result.started + attempt.late / 1e9
            result = msgspec.structs.replace(result, started=started)
        result = runner.resume(point, result, status, attempt.state, pod, node)
    return result


def _worded(point: str, plugin: str, status: Status) -> Status:
    """Return what a plugin returned under its name, an error in upstream's words."""
    if status.code is not Code.ERROR:
        return status.by(plugin)
    text = f'running {POINTS[point].name} plugin "{plugin}": {status.message()}'
    return Status(Code.ERROR, (text,), plugin)


def _bound(result: PointResult, attempt: Attempt, node: str, handle: Handle) -> Status:
    """Return what Bind returned; a pod that is bound no plugin can reject any more."""
    status = result.status
    if status is not SUCCESS and status.code is not Code.SUCCESS:
        skipped = status.code is Code.SKIP
        return _NO_BIND_PLUGIN if skipped else _worded("bind", result.plugin, status)
    pod, cache = attempt.queued.info, handle.cache
    cache.finish_binding(pod.uid, handle.now() if cache.time_to_live else 0)
    note = f"Successfully assigned {pod.key} to {node}"
    record_event(handle, pod, "Normal", "Scheduled", "Binding", note)
    runner = attempt.profile.runner
    if not runner.hooks["post_bind"]:
        if runner.recorder is not None:
            runner.note_empty("post_bind")
        return SUCCESS
    for error in runner.run("post_bind", attempt.state, pod, node).errors:
        # The pod is bound and stays bound; the error is reported as an event.
        record_event(handle, pod, "Warning", "PostBindFailed", "Binding", str(error))
    return SUCCESS


#: Nanoseconds between two polls for the same result.
PAUSE: Final = 1_000_000_000


class InFlightBinding(msgspec.Struct, eq=False):
    """An attempt on its way to ``decision.node`` and the rest of its way; ``wait`` is the next."""

    attempt: Attempt
    decision: Bind
    steps: Steps
    wait: Wait | None = None


class InFlightBindings:
    """Attempts that wait, by the UID of their pod, in the order in which they began to.

    ``changes`` returns a number that rises whenever an API object changes, ``now`` nanoseconds
    since 1970.
    """

    def __init__(self, changes: Callable[[], int], now: Callable[[], int]) -> None:
        self._changes = changes
        self._now = now
        self._bindings: dict[str, InFlightBinding] = {}
        self._ready: dict[str, int] = {}
        self._polled: dict[str, None] = {}
        self._asked_at = self._asked_changes = 0
        self._tickets = count()
        self._deadlines: list[tuple[int, int, str]] = []

    def __len__(self) -> int:
        return len(self._bindings)

    def __iter__(self) -> Iterator[InFlightBinding]:
        return iter(tuple(self._bindings.values()))

    def set_aside(self, binding: InFlightBinding, now: int) -> None:
        """Keep an attempt until there may be a result for it."""
        uid, wait = binding.attempt.queued.info.uid, binding.wait
        assert wait is not None, "an attempt is set aside because it waits"
        self._bindings[uid] = binding
        wait.wake = partial(self._wake, uid)
        deadline = wait.deadline
        if deadline is not None:
            heapq.heappush(self._deadlines, (deadline, next(self._tickets), uid))
        if wait.polled:
            if not self._polled:
                self._asked_at, self._asked_changes = now, self._changes()
            self._polled[uid] = None

    def _wake(self, uid: str) -> None:
        self._ready[uid] = self._now()

    def take(self, uid: str) -> InFlightBinding | None:
        """Remove an attempt, if it waits: it resumes or is cancelled."""
        binding = self._bindings.pop(uid, None)
        if binding is not None and binding.wait is not None:
            binding.wait.wake = None
        self._ready.pop(uid, None)
        self._polled.pop(uid, None)
        return binding

    def due(self, now: int) -> list[InFlightBinding]:
        """Take out those for which there may be a result at `now`."""
        uids, self._ready = self._ready, {}
        deadlines = self._deadlines
        while deadlines and deadlines[0][0] <= now:
            uids.setdefault(heapq.heappop(deadlines)[2], now)
        if self._polled and (
            now >= self._asked_at + PAUSE or self._changes() != self._asked_changes
        ):
            self._asked_at, self._asked_changes = now, self._changes()
            for uid in self._polled:
                uids.setdefault(uid, now)
        due = []
        for uid, woken in uids.items():
            binding = self.take(uid)
            if binding is not None:
                binding.attempt.late = now - woken
                due.append(binding)
        return due

    def has_woken(self) -> bool:
        """Return whether an attempt was woken."""
        return bool(self._ready)

    def next_time(self) -> int | None:
        """Return when an attempt has to be looked at if nothing happens; None: never."""
        deadlines = self._deadlines
        while deadlines:
            deadline, _, uid = deadlines[0]
            binding = self._bindings.get(uid)
            if binding is not None and binding.wait is not None:
                if binding.wait.deadline == deadline:
                    break
                if binding.wait.deadline is not None and binding.wait.deadline > deadline:
                    entry = (binding.wait.deadline, next(self._tickets), uid)
                    heapq.heapreplace(deadlines, entry)
                    continue
            heapq.heappop(deadlines)
        times = [deadlines[0][0]] if deadlines else []
        if self._polled:
            times.append(self._asked_at + PAUSE)
        return min(times, default=None)
