"""Work on all cores: the same results in the same order, whatever becomes of a copy."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import threading

import pytest

from policy_sched.cli.input.parallel_map import ENOUGH, parallel_map

#: In a process of its own: copies of pytest's would have its threads' locks and no threads.
SCRIPT = """
import os
import importlib
module = importlib.import_module("policy_sched.cli.input.parallel_map")
module.cores = lambda: {cores}
def work(number):
    if number == {bad} and os.getpid() != me:
        {how}
    return number * number, os.getpid()
me = os.getpid()
found = module.parallel_map(work, range({count}))
assert [value for value, _ in found] == [n * n for n in range({count})]
print(len({{process for _, process in found}}))
"""


def processes(cores: int, count: int, bad: int = -1, how: str = "pass") -> int:
    """Square numbers; return how many processes did it."""
    script = SCRIPT.format(cores=cores, count=count, bad=bad, how=how)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr == "" or how != "pass"
    return int(done.stdout)


@pytest.mark.parametrize(
    ("cores", "count", "expected"),
    [(4, 4 * ENOUGH, 4), (4, 2 * ENOUGH + 1, 2), (4, ENOUGH, 1), (1, 4 * ENOUGH, 1), (4, 0, 0)],
)
def test_every_core_does_its_share(cores: int, count: int, expected: int) -> None:
    """As many processes as there are cores, if there is enough to do; results are in order."""
    assert processes(cores, count) == expected


@pytest.mark.parametrize("how", ["os._exit(7)", "raise ValueError", "os.kill(os.getpid(), 9)"])
def test_what_a_copy_cannot_do_is_done_here(how: str) -> None:
    """A copy that dies or fails is not missed."""
    assert processes(2, 2 * ENOUGH, bad=1, how=how) == 1


def test_a_process_with_threads_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their locks would stay held in the copy."""
    module = importlib.import_module("policy_sched.cli.input.parallel_map")
    monkeypatch.setattr(module, "cores", lambda: 4)
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    results = parallel_map(lambda _: os.getpid(), range(4 * ENOUGH))
    stop.set()
    thread.join()
    assert set(results) == {os.getpid()}
