"""From a chosen node to a bound pod: assume, reserve, permit, pre-bind, bind; and all undone.

Theory of operation. Up to Permit a pod is alone with the scheduler. From there its way is a
generator that yields whatever it has to wait for: permission, a PreBind plugin, an answer of the
cluster; other pods are decided meanwhile, and it is resumed when there may be an answer. A pod
that waits for nothing runs straight through. Whatever fails after the pod was assumed is undone
in reverse: Unreserve of every Reserve plugin, then the cache forgets the pod.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from typing import Final, TypeAlias, cast

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
from policy_sched.framework.evaluate import extenders as extending
from policy_sched.framework.runtime import Hook
from policy_sched.model import PodInfo
from policy_sched.scheduler.attempt import Attempt
from policy_sched.scheduler.event_recorder import record_event

Steps: TypeAlias = Generator[Wait, None, Status]
"""A binding on its way: yields what it waits for, returns Success or what failed."""

LOG: Final = logging.getLogger(__name__)
_SKIP: Final = Status(Code.SKIP)
_NOBODY_BOUND: Final = Status(Code.ERROR, ("no Bind plugin took the pod",))


def reserve_and_permit(
    attempt: Attempt, node: str, handle: Handle
) -> tuple[Status, WaitingPod | None]:
    """Assume the pod on `node`, reserve, and ask for permission.

    Returns Success, with the waiting pod if it has to wait, or the rejection, after which
    nothing is left of the attempt.
    """
    pod = attempt.queued.info
    runner = attempt.profile.runner
    try:
        handle.cache.assume(pod, node)
    except PodStateError as error:
        return Status(Code.ERROR, (str(error),)), None
    handle.nominator.clear(pod.uid)
    try:
        status = runner.run("reserve", attempt.state, pod, node).status
        if status.code is not Code.SUCCESS:
            status = _worded("reserve", status.plugin, status)
        else:
            permitted = runner.run("permit", attempt.state, pod, node)
            status, waits = permitted.status, permitted.waits
            if status.code is Code.SUCCESS:
                return status, None
            if status.code is Code.WAIT:
                timeouts = {plugin: result.timeout for plugin, result in waits.items()}
                again = {p: r.again for p, r in waits.items() if r.again is not None}
                reasons = [reason for r in waits.values() for reason in r.status.reasons]
                waiting = WaitingPod(pod, node, timeouts, handle.now(), again, reasons)
                handle.waiting_pods.add(waiting)
                return SUCCESS, waiting
            status = _worded("permit", status.plugin, status)
    except PluginError as error:
        status = Status(Code.ERROR, (str(error),))
    undo(attempt, node, handle)
    return status, None


def binding_cycle(attempt: Attempt, node: str, waiting: WaitingPod | None, handle: Handle) -> Steps:
    """Wait for permission, run PreBind, Bind and PostBind; nothing is undone here."""
    pod, runner = attempt.queued.info, attempt.profile.runner
    try:
        try:
            working, expected = _at_work(attempt, node)
            if expected or waiting is not None:
                _promise(attempt, node, handle)
            if waiting is not None:
                while (status := waiting.answer(handle.now())) is None:
                    yield waiting
                runner.waited(status.code, (handle.now() - waiting.started) / 1e9)
                if not status.ok:
                    return status
        finally:
            if waiting is not None:
                handle.waiting_pods.remove(pod.uid)
        attempt.permitted = True
        if working:
            status = yield from _pre_bind(attempt, working, node, handle)
            if not status.ok:
                return status
        elif runner.recorder is not None:  # nothing is to be done, and it takes no time
            runner.ended("pre_bind", Code.SUCCESS, runner.began())
        attempt.sent = True
        extenders = attempt.profile.extenders
        bound = (yield from _by_extenders(extenders, pod, node, handle)) if extenders else _SKIP
        if bound.code is Code.ERROR:
            return bound
        if bound.code is Code.SKIP:
            found = runner.run("bind", attempt.state, pod, node)
            plugin, answer = found.plugin, found.status
            if isinstance(found.answer, PendingStatus):
                answer = yield from _finished("bind", plugin, found.answer, attempt, handle)
                runner.ended("bind", answer.code, found.started)
            if answer.code is not Code.SUCCESS:
                skipped = answer.code is Code.SKIP
                return _NOBODY_BOUND if skipped else _worded("bind", plugin, answer)
    except PluginError as error:
        return Status(Code.ERROR, (str(error),))
    _bound(attempt, node, handle)
    return SUCCESS


def _by_extenders(extenders: Sequence[Extender], pod: PodInfo, node: str, handle: Handle) -> Steps:
    """Wait for the extender that binds; Skip if none does."""
    work = extending.bind(extenders, pod, node, handle.client)
    if work is None:
        return _SKIP
    while (answer := work.answer(handle.now())) is None:
        yield work
    return answer


def _pre_bind(attempt: Attempt, working: list[Hook], node: str, handle: Handle) -> Steps:
    """Run the PreBind plugins that have something to do."""
    pod, runner = attempt.queued.info, attempt.profile.runner
    start, status = runner.began(), SUCCESS
    for hook in working:
        answer = cast(
            "Status | PendingStatus", runner.call("pre_bind", hook, attempt.state, pod, node)
        )
        if isinstance(answer, PendingStatus):
            handle.waiting_pods.pre_binding[pod.uid] = answer
            try:
                answer = yield from _finished("pre_bind", hook.plugin, answer, attempt, handle)
            finally:
                del handle.waiting_pods.pre_binding[pod.uid]
        if not answer.ok:
            status = _worded("pre_bind", hook.plugin, answer)
            break
    runner.ended("pre_bind", status.code, start)
    return status


def undo(attempt: Attempt, node: str, handle: Handle) -> bool:
    """Unreserve in reverse order, and let the cache forget the pod; tell whether that frees room.

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


def _at_work(attempt: Attempt, node: str) -> tuple[list[Hook], bool]:
    """Return the PreBind plugins that have not said that they skip, and whether one said it works.

    Raises PluginError where one refuses: it is not asked for permission here.
    """
    runner = attempt.profile.runner
    found = runner.run("pre_bind_pre_flight", attempt.state, attempt.queued.info, node)
    status = found.status
    if status.code not in (Code.SUCCESS, Code.SKIP):
        name = POINTS["pre_bind_pre_flight"].name
        raise PluginError(f'running {name} plugin "{found.plugin}": {status.message()}')
    working: list[Hook] = []
    expected = False
    for hook, flight in runner.pre_bind:
        if flight is None:
            working.append(hook)
        elif hook.plugin not in found.skipped:
            expected = True
            working.append(hook)
    return working, expected


def _promise(attempt: Attempt, node: str, handle: Handle) -> None:
    """Tell the cluster where the pod is about to go, as that may take a while."""
    pod = attempt.queued.info
    try:
        handle.client.nominate(pod, node)
    except ClusterError as error:
        LOG.warning("cannot nominate pod %s to node %s: %s", pod.key, node, error)


def _finished(
    point: str, plugin: str, work: PendingStatus, attempt: Attempt, handle: Handle
) -> Generator[Wait, None, Status]:
    """Wait for a plugin's answer; asking for it is a call of the plugin like others."""
    hook = Hook(plugin, work.answer)
    while True:
        answer = attempt.profile.runner.call(point, hook, handle.now())
        if answer is not None:
            return cast("Status", answer)
        yield work


def _worded(point: str, plugin: str, status: Status) -> Status:
    """Return what a plugin answered under its name, an error in upstream's words."""
    if status.code is not Code.ERROR:
        return status.by(plugin)
    text = f'running {POINTS[point].name} plugin "{plugin}": {status.message()}'
    return Status(Code.ERROR, (text,), plugin)


def _bound(attempt: Attempt, node: str, handle: Handle) -> None:
    """Finish a pod that the API server has bound; no plugin can reject it any more."""
    pod = attempt.queued.info
    handle.cache.finish_binding(pod.uid, handle.now())
    note = f"Successfully assigned {pod.key} to {node}"
    record_event(handle, pod, "Normal", "Scheduled", "Binding", note)
    for error in attempt.profile.runner.run("post_bind", attempt.state, pod, node).errors:
        # The pod is bound and stays bound; the error is reported as an event.
        record_event(handle, pod, "Warning", "PostBindFailed", "Binding", str(error))
