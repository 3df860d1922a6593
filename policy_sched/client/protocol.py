"""The client of a scheduler; every way of reaching a cluster implements this protocol."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Protocol, TypeAlias, TypeVar

from policy_sched.client.request import ObjectRequest, ObjectResponse
from policy_sched.errors import ClusterError
from policy_sched.model import PersistentVolume, PersistentVolumeClaim, PodGroup, PodInfo

Done: TypeAlias = Callable[[ClusterError | None], None]
"""Called when a call is done: with None, or with the error that the cluster returned."""


class Client(Protocol):
    """Effects of decisions. Implementations raise ClusterError when the cluster refuses.

    No call waits: a binding may report its result later.
    """

    def bind(self, pod: PodInfo, node: str, done: Done) -> None:
        """Bind the pod (by UID) to the node.

        ``done`` is called once with the error, or None: at once, or later by the event loop
        of the cluster. If `bind` raises, ``done`` is not called.
        """

    def delegate(self, pod: PodInfo, work: Callable[[], None], done: Done) -> None:
        """Bind the pod by ``work``, which calls an extender and waits for the response.

        ``done`` is called once, at once or later: None when the work is over, or the reason it did
        not run. The work may run in another thread.
        """

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Set status.nominatedNodeName: the pod is about to be bound there, in a while."""

    def set_unschedulable(
        self, pod: PodInfo, reason: str, message: str, nominated: str | None = None
    ) -> None:
        """Set condition PodScheduled=False; reason is ``Unschedulable`` or ``SchedulerError``.

        ``nominated`` is set as status.nominatedNodeName, which None leaves alone.
        """

    def clear_nomination(self, pod: PodInfo) -> None:
        """Empty status.nominatedNodeName."""

    def set_group_scheduled(
        self, group: PodGroup, reason: str, message: str, *, scheduled: bool
    ) -> None:
        """Set condition PodGroupScheduled; reason is ``Scheduled``, or else ``Unschedulable`` or
        ``SchedulerError``."""

    def set_disruption_target(self, pod: PodInfo, message: str) -> None:
        """Set condition DisruptionTarget=True with reason PreemptionByScheduler.

        A pod that does not exist any more is no error.
        """

    def delete_pod(self, pod: PodInfo) -> None:
        """Delete the pod (by UID), gracefully; one that does not exist any more is no error."""

    def record_event(
        self,
        pod: PodInfo,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: PodInfo | None = None,
    ) -> None:
        """Record an event about the pod; ``kind`` is ``Normal`` or ``Warning``.

        ``related``: another pod that had to do with it, on whose behalf we speak then.
        """

    def update_volume(self, volume: PersistentVolume) -> None:
        """Write a volume that is now kept for a claim; the cluster completes the binding."""

    def update_claim(self, claim: PersistentVolumeClaim) -> None:
        """Write a claim that now names the node for which a volume is to be provisioned."""

    def send(self, request: ObjectRequest, done: ObjectResponse) -> None:
        """Send a request about an object.

        ``done`` is called once with the response: at once, or later by the event loop of the
        cluster. `send` itself does not raise.
        """


T = TypeVar("T")


def begun(call: Callable[[], T]) -> Future[T]:
    """Start a call in a thread of its own, which does not hold up the exit of the process.

    At exit, Python joins an executor's threads, however long a call blocks.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def make() -> None:
        try:
            response = call()
        except BaseException as error:  # noqa: BLE001 - raised to the caller that waits
            future.set_exception(error)
        else:
            future.set_result(response)

    Thread(target=make, daemon=True).start()
    return future
