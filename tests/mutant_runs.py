"""Runs the program as each of the `mutants`, and the tests that must see it.

Theory of operation. The program is imported once. Child processes play all histories without a
mutant, and run the tests. Then one is forked for each mutant: it compiles the file with the other
text and gives the functions that are there the code that differs. It plays histories, those that
saw most mutants first. To save time it plays each with the scheduler that keeps results alone, and
compares with what was said without a mutant; only where that differs two schedulers play it, whose
difference counts.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from types import CodeType, FunctionType
from typing import IO, Final, TypeVar

import pytest

from tests import mutants
from tests.mutants import MUTANTS, Mutant
from tests.scheduler.histories import SEEDS, History

T = TypeVar("T")
LIMIT: Final = 200
"""Seconds of CPU after which a mutant counts as not seen."""


class Program:
    """The imported program, whose functions a child process gives the code of a mutant."""

    def __init__(self) -> None:
        for file in {mutant.file for mutant in MUTANTS}:
            import_module(f"policy_sched.{file.removesuffix('.py').replace('/', '.')}")
        self._functions: dict[str, list[FunctionType]] = {}
        for value in gc.get_objects():
            if isinstance(value, FunctionType):
                self._functions.setdefault(value.__code__.co_filename, []).append(value)

    def become(self, mutant: Mutant) -> None:
        """Change this process to the mutant. Raises AssertionError if no function differs."""
        before, after = (
            list(_codes(compile(text, str(mutant.path), "exec", dont_inherit=True)))
            for text in mutant.texts()
        )
        assert len(before) == len(after), f"{mutant}: it changes more than bodies of functions"
        replaced = False
        for function in self._functions.get(str(mutant.path), ()):
            number = before.index(function.__code__)
            if before[number] != after[number]:
                function.__code__, replaced = after[number], True
        assert replaced, f"{mutant}: it changes no function"


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a module and of all functions and classes in it."""
    if code.co_name not in {"<genexpr>", "<listcomp>", "<setcomp>", "<dictcomp>"}:
        yield code  # those belong to the function, and are dropped with what is never reached
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def difference(history: History) -> str:
    """Play a history; return where it differs and how, empty if it does not."""
    try:
        history.play()
    except Exception as error:  # noqa: BLE001 - a broken program may raise whatever it likes
        return f"{type(error).__name__} at step {history.step}"
    return ""


def recorded(seed: int) -> str:
    """Play a history; return the checksums of what was said. Raises if it differs."""
    history = History(seed)
    history.checksums = []
    history.play()
    return json.dumps(history.checksums)


def tested(tests: Sequence[str]) -> str:
    """Run tests; return which they are if one of them fails, otherwise nothing."""
    with Path(os.devnull).open("w") as null, redirect_stdout(null), redirect_stderr(null):
        options = ["-x", "-q", "-p", "no:cacheprovider"]
        # The first example that fails is enough: to look for a smaller one takes minutes.
        options.append("--hypothesis-profile=mutants")
        # The histories have imported hypothesis by then.
        options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
        code = pytest.main([*options, *tests])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise AssertionError(f"pytest ends with {code!r}")
    return " ".join(tests) if code else ""


class Judge:
    """Has histories, and tests, look at mutants."""

    def __init__(self, records: Mapping[int, Sequence[int]]) -> None:
        """``records``: of each history, by its seed."""
        self._program = Program()
        self._records = records
        self._seers = Counter(dict.fromkeys(sorted(records), 0))

    def sees(self, mutant: Mutant) -> str:
        """Become a mutant; return the test or the history that sees it, empty if none does."""
        self._program.become(mutant)
        if mutant.tests:
            return tested(mutant.tests)
        for seed, _ in self._seers.most_common():
            alone = History(seed, self._records[seed])
            if difference(alone) and (differs := difference(History(seed))):
                return f"history {seed}: {differs}"
        return ""

    def note(self, seen_by: str) -> None:
        """Let the history that saw a mutant look first at those to come."""
        if seen_by.startswith("history "):
            self._seers[int(seen_by.split()[1].rstrip(":"))] += 1


def in_children(
    work: Iterable[tuple[T, Callable[[], str]]], jobs: int, limit: int
) -> Iterator[tuple[T, str, float]]:
    """Do work in child processes; yield each name, what was returned, and the CPU seconds.

    Work that takes more than ``limit`` seconds of CPU returns nothing. Exits where some raises.
    """
    waiting, running = iter(work), dict[int, tuple[T, IO[str]]]()
    while True:
        for name, call in islice(waiting, jobs - len(running)):
            file = TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - closed when it is read
            running[_child(call, file, limit)] = name, file
        if not running:
            return
        pid, status, usage = os.wait4(-1, 0)
        name, file = running.pop(pid)
        with file:
            file.seek(0)
            said = file.read()
        if os.WIFEXITED(status) and os.WEXITSTATUS(status):
            raise SystemExit(f"{name}: {said}")
        yield name, said, usage.ru_utime + usage.ru_stime


def _child(call: Callable[[], str], file: IO[str], limit: int) -> int:
    """Return the process that calls, and writes what is returned, or raised."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        signal.alarm(20 * limit)
        file.write(call())
        code = 0
    except BaseException as error:  # noqa: BLE001 - the parent exits with it
        file.write(f"{type(error).__name__}: {error}")
    finally:
        file.flush()
        os._exit(code)


def write(line: str) -> None:
    """Print a line at once: a whole run takes some minutes."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Run the chosen mutants; return 1 if the tests do not see one."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=mutants.__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=int, default=LIMIT, help="seconds of CPU for each")
    arguments = parser.parse_args()
    words, jobs, limit = arguments.words, arguments.jobs, arguments.limit
    chosen = [one for one in MUTANTS if not words or any(word in str(one) for word in words)]
    spent, seen, records = 0.0, 0, dict[int, Sequence[int]]()
    seeds = range(SEEDS if any(not one.tests for one in chosen) else 0)
    for seed, said, took in in_children(((i, partial(recorded, i)) for i in seeds), jobs, limit):
        records[seed], spent = json.loads(said), spent + took
    tests = {one.tests: partial(tested, one.tests) for one in chosen if one.tests}
    for _, said, took in in_children(tests.items(), jobs, limit):
        spent += took
        if said:
            raise SystemExit(f"without a mutant: {said}")
    write(f"without a mutant all is as it must be, {spent:.0f} s of CPU")
    judge = Judge(records)
    work = ((one, partial(judge.sees, one)) for one in chosen)
    for mutant, said, took in in_children(work, jobs, limit):
        write(f"{'seen' if said else 'NOT SEEN':8} {took:5.1f} s  {mutant}  ({said or 'by none'})")
        judge.note(said)
        seen, spent = seen + bool(said), spent + took
    spent += time.process_time()
    write(f"{seen} of {len(chosen)} mutants are seen, {spent:.0f} s of CPU")
    return 0 if seen == len(chosen) else 1
