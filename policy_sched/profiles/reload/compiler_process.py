"""Reads and compiles files of policies in a process beside the scheduler's, within limits.

Theory of operation. A reload that compiled in this process, even in a thread, would take the
interpreter away from the decisions, and what a hostile file does to a compiler it would do to the
scheduler. So a spawned process compiles, and sends the `Compilation`. It is started once and
compiles what is in force to begin with, so that the first reload finds it warm. It has so much
processor time for each compilation, and so much memory. If it goes beyond, or ends for any other
reason, the reload has failed, what is in force stays, and the next reload starts another process.
A thread in it waits for the end of this process, and then ends it, whatever it is at.

Everything that goes through the pipe is pickled as it is. Compiled policies hold their code as
bytes, which only the same interpreter reads; texts leave their places in files behind, as all
problems were reported where they were found.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from threading import Thread
from typing import Final, NamedTuple, Self

from policy_sched.errors import Diagnostic
from policy_sched.profiles.reload.inputs import Compilation, PolicyFiles, compile_consistently

#: Seconds that a compilation may take altogether.
LONGEST: Final = 120.0
#: Seconds that the process has to end by itself.
PATIENCE: Final = 2.0
_TOO_COSTLY: Final = "PS503"
_SPAWN: Final = get_context("spawn")

Compile = Callable[[PolicyFiles], Compilation]


class Limits(NamedTuple):
    """Seconds of processor time for one compilation, and bytes beyond those at the start."""

    processor_time: int = 30
    memory: int = 2**30


class CompilerProcess:
    """Compiles files in one process; a context that ends the process when it is left.

    ``files`` are compiled at the start, so that the process is warm. Calls come one at a time, from
    any thread; `interrupt` may come from another.
    """

    def __init__(
        self,
        files: PolicyFiles,
        limits: Limits | None = None,
        work: Compile = compile_consistently,
    ) -> None:
        self._files = files
        self._limits = Limits() if limits is None else limits
        self._work = work
        self._ended = False
        self._start()

    def _start(self) -> None:
        self._pipe, theirs = _SPAWN.Pipe()
        with theirs:
            self._process = _SPAWN.Process(
                target=serve, args=(theirs, self._files, self._limits, self._work), daemon=True
            )
            self._process.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.interrupt()
        self._close()

    def _close(self) -> None:
        """Release the pipe and the process, which has ended."""
        self._pipe.close()
        self._process.join()

    @property
    def pid(self) -> int:
        """The process that compiles."""
        return self._process.pid or 0

    @property
    def alive(self) -> bool:
        """Whether the process is ready."""
        return self._process.is_alive()

    def compile(self, files: PolicyFiles) -> Compilation:
        """Return what `compile_consistently` returns, or a problem if that exceeds a limit."""
        self.begin(files)
        return self.result()

    def begin(self, files: PolicyFiles) -> None:
        """Start compiling; `result` must be taken before the next call."""
        if not self.alive and not self._ended:
            self._close()
            self._start()
        self._files = files
        with suppress(OSError):  # `result` reports what went wrong
            self._pipe.send(files)

    def done(self) -> bool:
        """Return whether `result` returns at once."""
        return self._pipe.poll(0)

    def result(self) -> Compilation:
        """Wait for the compilation and return it."""
        why = f"it takes more than {LONGEST:.0f} seconds"
        try:
            if self._pipe.poll(LONGEST):
                found = self._pipe.recv()
                assert isinstance(found, Compilation)
                return found
        except (EOFError, OSError):
            why = self._end()
        self._process.kill()
        return failed(self._files, why)

    def interrupt(self) -> None:
        """End the process; a `result` that waits fails, and no other process starts."""
        self._ended = True
        self._process.kill()

    def _end(self) -> str:
        """Return how the process ended."""
        self._process.join(PATIENCE)
        code = self._process.exitcode
        if code is None:
            return "the compiler does not answer"
        if code == -signal.SIGXCPU:
            return f"it takes more than {self._limits.processor_time} seconds of processor time"
        return f"the compiler ended with {_words(code)}"


def failed(files: PolicyFiles, why: str) -> Compilation:
    """Return the compilation that a limit, or the end of the process, has prevented."""
    name = files.paths[0] if files.paths else "<default configuration>"
    hint = "the current policies stay active; `policy-sched check` reports more about the files"
    problem = Diagnostic(name, 1, 1, _TOO_COSTLY, f"cannot compile the policies: {why}", hint)
    return Compilation((), (problem,))


def _words(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


def serve(pipe: Connection, files: PolicyFiles, limits: Limits, work: Compile) -> None:
    """Compile what comes through the pipe until it closes: what the process does."""
    os.setsid()  # signals from a terminal are the parent's alone
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    Thread(target=_end_with_parent, daemon=True).start()
    _bound_memory(limits.memory)
    _bound_time(limits.processor_time)
    with suppress(EOFError, OSError):
        with suppress(MemoryError, RecursionError):
            work(files)
        while True:
            files = pipe.recv()
            _bound_time(limits.processor_time)
            try:
                pipe.send(work(files))
            except MemoryError:
                why = f"it takes more than {limits.memory >> 20} MiB of memory"
                pipe.send(failed(files, why))
            except RecursionError:
                pipe.send(failed(files, "something is nested too deep"))


def _bound_time(seconds: int) -> None:
    """Limit the processor time from now on; SIGXCPU ends what takes more."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime) + seconds
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, most))


def _bound_memory(memory: int) -> None:
    """Limit the address space, where the system shows how large it is."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            pages = int(statm.read().split()[0])
    except OSError:
        return
    limit = pages * resource.getpagesize() + memory
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY or limit < most:
        resource.setrlimit(resource.RLIMIT_AS, (limit, most))


def _end_with_parent() -> None:
    """Wait for the end of the process that started this one, and end."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(0)
