"""From a chosen node to a bound pod: assume, reserve, permit, pre-bind, bind; and all undone.

Whatever fails after the pod was assumed is undone in reverse: Unreserve of every Reserve plugin,
then the cache forgets the pod.
"""

from __future__ import annotations

from policy_sched.errors import PluginError
from policy_sched.framework import extending
from policy_sched.framework.handle import Handle
from policy_sched.framework.status import SUCCESS, Code, Status
from policy_sched.framework.waiting_pods import WaitingPod
from policy_sched.scheduler.attempt import Attempt


def reserve_and_permit(attempt: Attempt, node: str, handle: Handle) -> Status:
    """Assume the pod on `node`, reserve, and ask for permission.

    Returns Success, Wait (the pod is among the handle's waiting pods), or the rejection, after
    which nothing is left of the attempt.
    """
    pod = attempt.queued.info
    runner = attempt.profile.runner
    handle.cache.assume(pod, node)
    handle.nominator.clear(pod.uid)
    try:
        status = runner.first_rejection("reserve", attempt.state, pod, node)
        if status.ok:
            status, waits = runner.permit(attempt.state, pod, node)
            if status.code is Code.WAIT:
                now = handle.now() / 1e9
                handle.waiting_pods.add(WaitingPod(pod, node, waits, now))
                return status
    except PluginError as error:
        status = Status(Code.ERROR, (str(error),))
    if not status.ok:
        undo(attempt, node, handle)
    return status


def bind(attempt: Attempt, node: str, handle: Handle) -> Status:
    """Run PreBind, Bind and PostBind; on failure undo, and return what failed."""
    pod = attempt.queued.info
    runner = attempt.profile.runner
    try:
        status = runner.first_rejection("pre_bind", attempt.state, pod, node)
        if status.ok:
            extenders = attempt.profile.extenders
            bound = extending.bind(extenders, pod, node) if extenders else None
            status = bound or runner.first_success("bind", attempt.state, pod, node)
            if status.code is Code.SKIP:
                status = Status(Code.ERROR, ("no Bind plugin took the pod",))
    except PluginError as error:
        status = Status(Code.ERROR, (str(error),))
    if not status.ok:
        undo(attempt, node, handle)
        return status
    handle.cache.finish_binding(pod.uid, handle.now())
    note = f"Successfully assigned {pod.key} to {node}"
    handle.client.record_event(pod, "Normal", "Scheduled", "Binding", note)
    try:
        runner.everyone("post_bind", attempt.state, pod, node)
    except PluginError as error:
        # The pod is bound: nobody can object any more, but somebody should know.
        handle.client.record_event(pod, "Warning", "PostBindFailed", "Binding", str(error))
    return SUCCESS


def undo(attempt: Attempt, node: str, handle: Handle) -> None:
    """Unreserve in reverse order, and let the cache forget the pod."""
    pod = attempt.queued.info
    try:
        attempt.profile.runner.everyone("unreserve", attempt.state, pod, node)
    finally:
        handle.cache.forget(pod.uid)
