"""Runs the program as each of the `mutants`, and the tests that must see it.

Theory of operation. The program is imported once, and plays all histories. For each mutant a child
process is forked, which compiles the file with the other text and gives the functions that are
there the code that differs. It plays histories, those that saw most mutants first. To save time it
plays each with the scheduler that keeps results alone, and compares with what was said without a
mutant; only where that differs two schedulers play it, whose difference counts. Tests, too, run
without a mutant first.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import signal
import sys
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Final

import pytest

from tests import mutants
from tests.mutants import MUTANTS, Mutant
from tests.scheduler.histories import SEEDS, History

LIMIT: Final = 200
"""Seconds of CPU after which a mutant counts as not seen."""


@dataclass(frozen=True)
class Verdict:
    """Who saw a mutant, empty if nobody did, and the CPU seconds that it took."""

    seen_by: str
    seconds: float


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


def judged(seeds: Sequence[int], records: Sequence[Sequence[int]]) -> str:
    """Play histories; return which differs between two schedulers, empty if none does."""
    for seed in seeds:
        if difference(History(seed, records[seed])) and (differs := difference(History(seed))):
            return f"history {seed}: {differs}"
    return ""


def tested(tests: Sequence[str]) -> str:
    """Run tests; return which they are if one of them fails, otherwise nothing."""
    with Path(os.devnull).open("w") as null, redirect_stdout(null), redirect_stderr(null):
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise AssertionError(f"pytest ends with {code!r}")
    return " ".join(tests) if code else ""


class Run:
    """Judges mutants in child processes."""

    def __init__(self, program: Program, jobs: int, limit: int) -> None:
        self._program = program
        self._jobs = jobs
        self._limit = limit
        self._seers = Counter[int](dict.fromkeys(range(SEEDS), 0))
        self._records: list[Sequence[int]] = []

    def record(self) -> str:
        """Play all histories without a mutant; return where one differs, empty if none does."""
        for seed in range(SEEDS):
            history = History(seed)
            if differs := difference(history):
                return f"history {seed}: {differs}"
            self._records.append(history.checksums)
        return ""

    def verdicts(
        self, asked: Sequence[tuple[Mutant | None, Sequence[str]]]
    ) -> Iterator[tuple[Mutant | None, Verdict]]:
        """Yield the verdict on each mutant, or None for the program as it is, as they end."""
        waiting, running = deque(asked), dict[int, tuple[Mutant | None, int]]()
        while waiting or running:
            while waiting and len(running) < self._jobs:
                mutant, tests = waiting.popleft()
                pid, read = self._start(mutant, tests)
                running[pid] = mutant, read
            pid, status, usage = os.wait4(-1, 0)
            mutant, read = running.pop(pid)
            with open(read, encoding="utf-8") as pipe:
                said = pipe.read()
            if os.WIFEXITED(status) and os.WEXITSTATUS(status):
                raise SystemExit(f"{mutant}: {said}")
            if said.startswith("history "):
                self._seers[int(said.split()[1].rstrip(":"))] += 1
            yield mutant, Verdict(said, usage.ru_utime + usage.ru_stime)

    def _start(self, mutant: Mutant | None, tests: Sequence[str]) -> tuple[int, int]:
        """Return the process that judges a mutant, and where it writes what it saw."""
        read, write = os.pipe()
        pid = os.fork()
        if pid:
            os.close(write)
            return pid, read
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (self._limit, self._limit))
            signal.alarm(10 * self._limit)
            if mutant is not None:
                self._program.become(mutant)
            seeds = [seed for seed, _ in self._seers.most_common()]
            said = tested(tests) if tests else judged(seeds, self._records)
            code = 0
        except BaseException as error:  # noqa: BLE001 - the parent raises it again
            said = f"{type(error).__name__}: {error}"
        finally:
            os.write(write, said.encode()[:4096])
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
    words, run = arguments.words, Run(Program(), arguments.jobs, arguments.limit)
    chosen = [one for one in MUTANTS if not words or any(word in str(one) for word in words)]
    spent, unseen = 0.0, 0
    tests = {mutant.tests: None for mutant in chosen if mutant.tests}
    failed = run.record() if any(not mutant.tests for mutant in chosen) else ""
    for _, verdict in run.verdicts([(None, names) for names in tests]):
        spent += verdict.seconds
        failed = failed or verdict.seen_by
    if failed:
        write(f"without a mutant: {failed}")
        return 1
    spent += time.process_time()
    write(f"{spent:5.1f} s  without a mutant all is as it must be")
    for mutant, verdict in run.verdicts([(mutant, mutant.tests) for mutant in chosen]):
        said = f"seen      {verdict.seconds:5.1f} s  {mutant}  ({verdict.seen_by})"
        if not verdict.seen_by:
            said = f"NOT SEEN  {verdict.seconds:5.1f} s  {mutant}"
            unseen += 1
        write(said)
        spent += verdict.seconds
    write(f"{len(chosen) - unseen} of {len(chosen)} mutants are seen; {spent:.0f} s of CPU")
    return 1 if unseen else 0
