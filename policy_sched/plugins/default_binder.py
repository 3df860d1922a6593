"""DefaultBinder: binds the pod through the client."""

from __future__ import annotations

from collections.abc import Mapping

from policy_sched.errors import ClusterError
from policy_sched.framework import (
    SUCCESS,
    Code,
    CycleState,
    Handle,
    PendingStatus,
    Status,
    hookimpl,
)
from policy_sched.model import PodInfo

NAME = "DefaultBinder"


class DefaultBinder:
    """Binds the pod to the chosen node through the client."""

    def __init__(self, args: Mapping[str, object], handle: Handle) -> None:  # noqa: ARG002 - every plugin is made alike
        self._client = handle.client

    @hookimpl
    def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | PendingStatus:  # noqa: ARG002 - all of the hook's arguments: every pod comes here
        """Send the binding; an immediate rejection is raised, a later one is an error status."""
        pending = PendingBinding()
        self._client.bind(pod, node, pending.done)
        return pending.given or pending


class PendingBinding(PendingStatus):
    """The API server's response to a binding."""

    def done(self, error: ClusterError | None) -> None:
        """Take it."""
        if error is None and self.wake is None:
            self.given = SUCCESS  # at once, as `finish` does
        else:
            self.finish(SUCCESS if error is None else Status(Code.ERROR, (str(error),)))
