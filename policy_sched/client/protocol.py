"""The client of a scheduler; every way of reaching a cluster implements this protocol."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Protocol, TypeAlias, TypeVar

from policy_sched.client.request import ObjectRequest, ObjectResponse
from policy_sched.errors import ClusterError
from policy_sched.model import PodInfo

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

    def send(self, request: ObjectRequest, done: ObjectResponse | None = None) -> None:
        """Send a request about an object.

        ``done`` is called once with the response: at once, or later by the event loop of the
        cluster; `send` does not raise then. Without ``done`` the response is not needed: a refusal
        is raised if it is known at once, and the implementation reports it otherwise.
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
