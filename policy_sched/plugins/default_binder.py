"""DefaultBinder: binds the pod through the client."""

from __future__ import annotations

from collections.abc import Mapping

from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.handle import Handle
from policy_sched.framework.hookspecs import hookimpl
from policy_sched.framework.status import SUCCESS, Status
from policy_sched.model.pod_info import PodInfo

NAME = "DefaultBinder"


class DefaultBinder:
    """Asks the cluster to bind the pod to the node that was chosen."""

    def __init__(self, args: Mapping[str, object], handle: Handle) -> None:  # noqa: ARG002 - every plugin is made alike
        self._client = handle.client

    @hookimpl
    def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:  # noqa: ARG002 - the hook's arguments
        """Bind; what the cluster refuses is raised."""
        self._client.bind(pod, node)
        return SUCCESS
