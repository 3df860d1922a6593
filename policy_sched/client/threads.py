"""Calls that are made in threads of their own, because they wait for somebody."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import TypeVar

T = TypeVar("T")


def begun(call: Callable[[], T]) -> Future[T]:
    """Begin a call in a thread of its own; the process does not wait for it when it ends.

    An executor's threads would be waited for, however long somebody takes to answer.
    """
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()

    def make() -> None:
        try:
            answer = call()
        except BaseException as error:  # noqa: BLE001 - it is for who waits
            future.set_exception(error)
        else:
            future.set_result(answer)

    Thread(target=make, daemon=True).start()
    return future
