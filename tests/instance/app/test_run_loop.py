"""RunLoop: signals."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest

from policy_sched.instance.app.embedded_instance import EmbeddedInstance, Sources
from policy_sched.instance.app.run_loop import LONGEST_SLEEP, RunLoop
from policy_sched.instance.observability.log import Record
from policy_sched.profiles.reload.inputs import PolicyFiles


def test_signal_handlers_are_restored_at_the_end() -> None:
    """SIGHUP in the last moment does not change an orderly exit."""
    reported: list[str] = []
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2)
    at_first = [signal.signal(number, lambda *_: reported.append("signal")) for number in numbers]
    before = [signal.getsignal(number) for number in numbers]

    def write(record: Record) -> None:
        if record["msg"] == "Running":
            os.kill(os.getpid(), signal.SIGTERM)

    instance = EmbeddedInstance(Sources(PolicyFiles(None, ())), time.time_ns, write)
    try:
        asyncio.run(RunLoop(instance, lambda: None, LONGEST_SLEEP).run())
        assert [signal.getsignal(number) for number in numbers] == before
        assert reported == []
        os.kill(os.getpid(), signal.SIGHUP)
        assert reported == ["signal"]
    finally:
        instance.close()
        for number, act in zip(numbers, at_first, strict=True):
            signal.signal(number, act)


@pytest.mark.parametrize("gone", [True, False])
def test_sighup_ends_a_dashboard_whose_terminal_is_gone(gone: bool) -> None:
    """A closed terminal window left the scheduler running without one: SIGHUP was a reload."""
    messages: list[str] = []

    def write(record: Record) -> None:
        messages.append(str(record["msg"]))
        if record["msg"] == "Running":
            os.kill(os.getpid(), signal.SIGHUP)
        elif record["msg"] == "Policies unchanged":
            os.kill(os.getpid(), signal.SIGTERM)

    instance = EmbeddedInstance(Sources(PolicyFiles(None, ())), time.time_ns, write)
    running = RunLoop(instance, lambda: None, LONGEST_SLEEP, hung_up=lambda: gone)
    try:
        asyncio.run(running.run())
    finally:
        instance.close()
    assert ("Policies unchanged" in messages) is not gone


def test_a_step_that_fails_ends_the_run() -> None:
    """`run` raises what a step raises, the second one too; steps do not go on behind it."""
    shown: list[int] = []

    def show() -> None:
        shown.append(len(shown))
        if len(shown) == 2:
            raise RuntimeError("broken")

    instance = EmbeddedInstance(Sources(PolicyFiles(None, ())), time.time_ns, lambda _: None)
    running = RunLoop(instance, show, 0.0)
    try:
        with pytest.raises(RuntimeError, match="broken"):
            asyncio.run(running.run())
    finally:
        instance.close()
    assert shown == [0, 1]
