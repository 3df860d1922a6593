"""The fuzzer's long run: ``python -m tests.fuzz [EXAMPLES] [SEED] [KIND...]``.

Runs EXAMPLES inputs (20,000) of all kinds in turn, each hundred of them in a child
process. Prints every input that raised, took more than five seconds of processor time,
needed more than 500 MB or ended the process, as kind and seed, and exits with 1 if there was one.
A machine that others use does not change what is found.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import resource
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Final, TextIO

from tests.fuzz.inputs import KINDS, text
from tests.fuzz.requests import persisted
from tests.fuzz.targets import TARGETS

BATCH: Final = 100
SECONDS: Final = 5.0
MEMORY: Final = 500 * 2**20
PATIENCE: Final = 900
"""Seconds of the clock after which an input is ended; the machine may be busy."""
REQUESTS: Final = "request"


def input_of(kind: str, seed: int) -> Callable[[Path], None]:
    """Return what runs one input in an empty folder; making the input is no work of the program."""
    random = Random(seed)
    if kind == REQUESTS:
        return lambda folder: asyncio.run(persisted(random, folder))
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


def batch(kind: str, seeds: range, results: Connection) -> None:
    """Run inputs, and send what was wrong with each; a process that ends has sent its last seed."""
    for seed in seeds:
        results.send((seed, "began"))
        run = input_of(kind, seed)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        begun = processor_time()
        try:
            one(run)
        except BaseException:  # noqa: BLE001  every failure is a finding
            results.send((seed, traceback.format_exc(limit=-6)))
        took = processor_time() - begun
        if took > SECONDS and kind != REQUESTS:  # each request and step is timed by itself
            results.send((seed, f"took {took:.1f} s of processor time"))
        now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if now - peak > MEMORY:
            results.send((seed, f"needed {(now - peak) / 2**20:.0f} MB more"))
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


def main(examples: int, first: int, kinds: list[str]) -> int:
    """Run all batches; return how many findings there were."""
    found = 0
    context = multiprocessing.get_context("fork")
    warm_up()
    for number in range(-(-examples // BATCH)):
        kind = kinds[number % len(kinds)]
        seeds = range(first + number * BATCH, first + (number + 1) * BATCH)
        ours, theirs = context.Pipe(duplex=False)
        child = context.Process(target=batch, args=(kind, seeds, theirs))
        child.start()
        theirs.close()
        seed, done = -1, False
        while not done:
            try:
                if not ours.poll(PATIENCE):
                    child.kill()
                seed, said = ours.recv()
            except EOFError:
                found += 1
                say(sys.stdout, f"{kind} {seed}: the process ended")
                break
            done = said == "done"
            if said not in ("began", "done"):
                found += 1
                say(sys.stdout, f"{kind} {seed}: {said}")
        child.join()
        say(sys.stderr, f"{(number + 1) * BATCH} inputs, {found} findings")
    return found


if __name__ == "__main__":
    words = sys.argv[1:]
    wanted = words[2:] or [*KINDS, REQUESTS]
    total = int(words[0]) if words else 20_000
    sys.exit(1 if main(total, int(words[1]) if len(words) > 1 else 1, wanted) else 0)
