"""The fuzzer's long run: ``python -m tests.fuzz [EXAMPLES] [SEED] [KIND...]``.

Runs EXAMPLES inputs (20,000) of each kind, each hundred of them in a child process. Prints every
input that raised, took more than five seconds of processor time, needed more than 500 MB or ended
the process, as kind and seed, and exits with 1 if there was one. An input is interrupted at these
limits. A machine that others use does not change what is found.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from types import FrameType
from typing import Final, TextIO

from tests.fuzz import sessions
from tests.fuzz.inputs import KINDS, text
from tests.fuzz.requests import persisted
from tests.fuzz.targets import TARGETS

BATCH: Final = 100
SECONDS: Final = 5.0
MEMORY: Final = 500 * 2**20
HARD: Final = 60
"""Seconds of processor time after the limit until a process is ended that cannot be interrupted."""
PATIENCE: Final = 3600
"""Seconds of the clock after which an input is ended that waits; the machine may be busy."""
REQUESTS: Final = "request"
CONSOLE: Final = "console"


class TooSlowError(BaseException):
    """An input takes too much processor time."""


def input_of(kind: str, seed: int) -> Callable[[Path], None]:
    """Return what runs one input in an empty folder; making the input is no work of the program."""
    random = Random(seed)
    if kind == REQUESTS:
        return lambda folder: asyncio.run(persisted(random, folder))
    if kind == CONSOLE:
        request = sessions.console_request(random)
        return lambda _folder: sessions.CONSOLES.send(request)
    if kind == sessions.LSP:
        sent = sessions.frames(random)
        return lambda _folder: sessions.language_server(sent)
    made = text(kind, random)
    return lambda folder: TARGETS[kind](made, folder)


def one(run: Callable[[Path], None]) -> None:
    """Run one input."""
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder))


def processor_time() -> float:
    """Return the seconds of processor time of this process and of its children that ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def peak() -> int:
    """Return the most memory that this process had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Interrupt what takes more processor time; end the process if that does not help.

    Memory beyond twice the limit is not to be had.
    """

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise TooSlowError

    size = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    used = int(processor_time() + seconds) + HARD
    resource.setrlimit(resource.RLIMIT_CPU, (used, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_AS, (size + 2 * MEMORY, resource.RLIM_INFINITY))
    signal.signal(signal.SIGPROF, interrupt)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def batch(kind: str, seeds: range, results: Connection) -> None:
    """Run inputs, and send what was wrong with each; a process that ends has sent its last seed."""
    for seed in seeds:
        results.send((seed, "began"))
        run = input_of(kind, seed)
        before, begun = peak(), processor_time()
        # Each request and step of the API server is timed by itself, and less severely.
        seconds = SECONDS * 10 if kind == REQUESTS else SECONDS
        try:
            with limited(seconds):
                one(run)
        except TooSlowError:
            where = "".join(traceback.format_exc(limit=-4))
            results.send((seed, f"took {seconds:.0f} s of processor time: {where}"))
            break  # what was interrupted may be half done
        except BaseException:  # noqa: BLE001  every failure is a finding
            results.send((seed, traceback.format_exc(limit=-6)))
        took = processor_time() - begun
        if took > seconds:
            results.send((seed, f"took {took:.1f} s of processor time"))
        if (needed := peak() - before) > MEMORY:
            results.send((seed, f"needed {needed / 2**20:.0f} MB more"))
    sessions.CONSOLES.close()
    results.send((-1, "done"))


def warm_up() -> None:
    """Run one input of each kind, so that children inherit what is imported and read once."""
    for kind in KINDS:
        with suppress(Exception):
            one(input_of(kind, 0))


def say(stream: TextIO, line: str) -> None:
    """Write a line at once."""
    stream.write(f"{line}\n")
    stream.flush()


def findings(kind: str, seeds: range) -> Iterator[tuple[int, str]]:
    """Run inputs in processes, and yield what was wrong with each; after one that ended go on."""
    context = multiprocessing.get_context("fork")
    while seeds:
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=batch, args=(kind, seeds, theirs))
        child.start()
        theirs.close()
        seed = seeds.start
        for at, said in _received(ours, child):
            if said == "done":
                break
            seed = at
            if said != "began":
                yield seed, said
        else:
            yield seed, "the process ended"
        child.join()
        seeds = range(seed + 1, seeds.stop)


def _received(ours: Connection, child: BaseProcess) -> Iterator[tuple[int, str]]:
    """Yield what a process sends, until it ends."""
    with suppress(EOFError):
        while True:
            if not ours.poll(PATIENCE):
                child.kill()
            yield ours.recv()


def main(examples: int, first: int, kinds: list[str]) -> int:
    """Run all inputs; return how many findings there were."""
    count = 0
    warm_up()
    for start in range(first, first + examples, BATCH):
        seeds = range(start, min(start + BATCH, first + examples))
        for kind in kinds:
            for seed, said in findings(kind, seeds):
                count += 1
                say(sys.stdout, f"{kind} {seed}: {said}")
        say(sys.stderr, f"{seeds.stop - first} inputs of {' '.join(kinds)}, {count} findings")
    return count


if __name__ == "__main__":
    words = sys.argv[1:]
    wanted = words[2:] or [*KINDS, REQUESTS, CONSOLE, sessions.LSP]
    total = int(words[0]) if words else 20_000
    sys.exit(1 if main(total, int(words[1]) if len(words) > 1 else 1, wanted) else 0)
