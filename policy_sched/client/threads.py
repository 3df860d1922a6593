"""Calls that block, each made in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def begun(call: Callable[[], T]) -> Future[T]:
    """Begin a call in a thread of its own; the process does not wait for it when it ends.

    At exit, Python joins an executor's threads, however long a call blocks.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def make() -> None:
        try:
            answer = call()
        except BaseException as error:  # noqa: BLE001 - raised to the caller that waits
            future.set_exception(error)
        else:
            future.set_result(answer)

    Thread(target=make, daemon=True).start()
    return future
