"""Bindings, until it is known how they went.

Theory of operation. A binding that was answered is done with: bound, or refused. What else can
happen leaves it open: the connection broke, the server failed half way, something on the way wrote
the answer. The pod holds its node in the scheduler's cache as long as that is so; were it given up
while it is bound, the node would be filled twice. So the pod is read until there is an answer:

* bound to the node that we chose: bound, whichever request did it;
* bound elsewhere, gone, or another pod of the name: refused;
* bound nowhere: the binding is sent again, a few times. It names pod and node, and a pod is bound
  once, so that the first one, should it still be on its way, and the second cannot both count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from policy_sched.client.apimachinery import POD, ApiError
from policy_sched.client.kube.rest import (
    CONFLICT,
    REQUEST_BACKOFF,
    TOO_MANY,
    Api,
    Decoding,
    Malformed,
    Unreachable,
    object_path,
)
from policy_sched.client.kube.time import BackoffState
from policy_sched.errors import ClusterError
from policy_sched.model import Pod, PodInfo

SENT: Final = 5
"""How often a binding is sent whose fate stays open."""


class BindConfirmation:
    """Binds pods; ``may_write`` raises ClusterError if nothing may be written (any more)."""

    def __init__(self, api: Api, may_write: Callable[[], None]) -> None:
        self._api = api
        self._may_write = may_write
        self._pods = Decoding(POD, Pod)

    async def bound(self, pod: PodInfo, node: str) -> ClusterError | None:
        """Bind a pod (by UID) to a node; return None, or why it is not bound there."""
        environment = self._api.environment
        pauses = BackoffState(REQUEST_BACKOFF, environment.clocks.monotonic, environment.random)
        refused: ClusterError | None = None
        for _ in range(SENT):
            if refused is not None:
                await self._api.pause(pauses.next())
            try:
                await self._send(pod, node)
            except ClusterError as error:
                refused = error.with_traceback(None)  # which would keep this call, and it the error
                if not _open(error):
                    return refused
            else:
                return None
            found = await self._read(pod)
            if isinstance(found, ClusterError):
                return refused if _is(refused, CONFLICT) else found
            same = found.metadata.uid == pod.uid
            if same and found.spec.node_name == node:
                return None
            if not same or found.spec.node_name or _is(refused, CONFLICT):
                return refused
        return refused

    async def _send(self, pod: PodInfo, node: str) -> None:
        path = object_path(POD, pod.namespace, pod.name, "binding")
        meta = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
        target = {"kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": target}
        await self._api.request("POST", path, binding, check=self._may_write)

    async def _read(self, pod: PodInfo) -> Pod | ClusterError:
        """Return the pod of that name, or why there is none to be read, however long it takes."""
        environment = self._api.environment
        pauses = BackoffState(REQUEST_BACKOFF, environment.clocks.monotonic, environment.random)
        path = object_path(POD, pod.namespace, pod.name)
        while True:
            try:
                return self._pods.object(await self._api.get(path))
            except ClusterError as error:
                if not (_open(error) or _is(error, TOO_MANY) or isinstance(error, Unreachable)):
                    return error.with_traceback(None)
            await self._api.pause(pauses.next())


def _open(error: ClusterError) -> bool:
    """Tell whether a request that failed so may have been carried out, or its fate can be read."""
    if isinstance(error, ApiError):
        return error.code == CONFLICT or error.code >= 500
    return isinstance(error, Malformed) or (isinstance(error, Unreachable) and error.sent)


def _is(error: ClusterError, code: int) -> bool:
    return isinstance(error, ApiError) and error.code == code
