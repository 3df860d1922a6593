"""A process that computes one result after the other, within limits of time and memory.

Theory of operation. What a hostile file does to a compiler or to a rule, it does to the process
that reads it. So a spawned process reads it, and sends the result. It has so much processor time
for each question, and so much memory. If it goes beyond, or ends for any other reason, the question
has no result, and the next one starts another process. A thread in it waits for the end of the
process that started it, and then ends it, whatever it is at.

Everything that goes through the pipe is pickled as it is.

The compiler runs in one. A reload that compiled in this process, even in a thread, would take the
interpreter away from the decisions, and what a hostile file does to a compiler it would do to the
scheduler. The process is started once and compiles what is in force to begin with, so that the
first reload finds it warm. If it goes beyond its limits, or ends for any other reason, the reload
has failed, and what is in force stays. Compiled policies hold their code as bytes, which only the
same interpreter reads; texts leave their places in files behind, as all problems were reported
where they were found. Policies and programs that the result before had, too, are sent as their
numbers there: the scheduler unpickles what changed, and goes on with the rest.
"""

from __future__ import annotations

import os
import pickle
import resource
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from io import BytesIO
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import BaseContext
from threading import Thread
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar

import msgspec

from policy_sched.errors import Diagnostic, PolicySchedError
from policy_sched.language.ir import Recording
from policy_sched.profiles.reload.inputs import Compilation, PolicyFiles, compile_consistently

#: Seconds that a result may take altogether.
LONGEST: Final = 120.0
#: Seconds that the process has to end by itself.
PATIENCE: Final = 2.0
_SPAWN: Final = get_context("spawn")
_FORK: Final = get_context("fork")

Question = TypeVar("Question")
Result = TypeVar("Result")


class ProcessLimits(NamedTuple):
    """Seconds of processor time for one result, and bytes beyond those at the start."""

    processor_time: int = 30
    memory: int = 2**30


class NoResultError(PolicySchedError):
    """A question has no result: its process went beyond a limit, or ended."""


class _Failed(msgspec.Struct, frozen=True):
    """What the process sends instead of a result: why there is none."""

    why: str


class LimitedProcess(Generic[Question, Result]):
    """Computes results in one process; a context that ends the process when it is left.

    ``work`` returns the result of a question. ``first``, unless it is None, is called at the start,
    so that the process is warm. Calls come one at a time, from any thread; `interrupt` may come
    from another.
    """

    name = "the process"
    """What messages call it."""

    def __init__(
        self,
        work: Callable[[Question], object],
        limits: ProcessLimits | None = None,
        first: Callable[[], object] | None = None,
        *,
        forks: bool = False,
    ) -> None:
        """``forks``: the process has all that this one has read; its threads must hold no locks."""
        self._context: BaseContext = _FORK if forks else _SPAWN
        self._first = first
        self._limits = ProcessLimits() if limits is None else limits
        self._work = work
        self._ended = False
        self._start()

    def _start(self) -> None:
        self._pipe, theirs = self._context.Pipe()
        with theirs:
            self._process = self._context.Process(  # type: ignore[attr-defined]  # both have it
                target=serve, args=(theirs, self._first, self._limits, self._work), daemon=True
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
        """The process that computes."""
        return self._process.pid or 0

    @property
    def alive(self) -> bool:
        """Whether the process is ready."""
        return bool(self._process.is_alive())

    def begin(self, question: Question) -> None:
        """Send a question; `result` must be taken before the next call."""
        if not self.alive and not self._ended:
            self._close()
            self._start()
        with suppress(OSError):  # `result` reports what went wrong
            self._pipe.send(question)

    def fileno(self) -> int:
        """Return what can be waited for: it is readable when there is a result, or none comes."""
        return self._pipe.fileno()

    def done(self) -> bool:
        """Return whether there is a result already."""
        return self._pipe.poll(0)

    def result(self) -> Result:
        """Wait for the result and return it. Raises NoResultError if there is none."""
        why = f"it takes more than {LONGEST:.0f} seconds"
        try:
            if self._pipe.poll(LONGEST):
                answer: Any = self._pipe.recv()
                if isinstance(answer, _Failed):
                    raise NoResultError(answer.why)
                return self._received(answer)
        except (EOFError, OSError):
            why = self._end()
        self._process.kill()
        raise NoResultError(why)

    def _received(self, answer: Any) -> Result:
        """Return the result that the process sent."""
        result: Result = answer
        return result

    def interrupt(self) -> None:
        """End the process; a `result` that waits fails, and no other process starts."""
        self._ended = True
        self._process.kill()

    def _end(self) -> str:
        """Return how the process ended."""
        self._process.join(PATIENCE)
        code = self._process.exitcode
        if code is None:
            return f"{self.name} does not respond"
        if code == -signal.SIGXCPU:
            return f"it takes more than {self._limits.processor_time} seconds of processor time"
        return f"{self.name} ended with {_words(code)}"


def _words(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


def serve(
    pipe: Connection,
    first: Callable[[], object] | None,
    limits: ProcessLimits,
    work: Callable[[Question], object],
) -> None:
    """Compute what comes through the pipe until it closes: what the process does."""
    os.setsid()  # signals from a terminal are the parent's alone
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    end_with_parent()
    _bound_memory(limits.memory)
    _bound_time(limits.processor_time)
    with suppress(EOFError, OSError):
        if first is not None:
            with suppress(MemoryError, RecursionError):
                first()
        while True:
            question = pipe.recv()
            _bound_time(limits.processor_time)
            try:
                pipe.send(_answer(work, question))
            except MemoryError:
                why = f"it takes more than {limits.memory >> 20} MiB of memory"
                pipe.send(_Failed(why))
            except RecursionError:
                pipe.send(_Failed("something is nested too deep"))


def _answer(work: Callable[[Question], object], question: Question) -> object:
    """Do the work; a file that cannot be read ends no more than that."""
    try:
        return work(question)
    except OSError as error:
        return _Failed(f"a file cannot be read: {error.strerror}")


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


def end_with_parent() -> None:
    """End this process when the one that started it has ended, however that came about."""
    Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(0)


_TOO_COSTLY: Final = "PS503"

Compile = Callable[[PolicyFiles], Compilation]


class CompilerProcess(LimitedProcess[PolicyFiles, Compilation]):
    """Compiles files in one process; ``files`` are compiled at the start."""

    name = "the compiler"

    def __init__(
        self,
        files: PolicyFiles,
        limits: ProcessLimits | None = None,
        work: Compile = compile_consistently,
    ) -> None:
        super().__init__(_Sender(work), limits, partial(work, files))
        self._files = files

    def _start(self) -> None:
        self._parts: Sequence[object] = ()
        super()._start()

    def compile(self, files: PolicyFiles) -> Compilation:
        """Return what `compile_consistently` returns, or a problem if that exceeds a limit."""
        self.begin(files)
        return self.result()

    def begin(self, question: PolicyFiles) -> None:
        """Start compiling; `result` must be taken before the next call."""
        self._files = question
        super().begin(question)

    def result(self) -> Compilation:
        """Wait for the compilation and return it, or why there is none as its problem."""
        try:
            return super().result()
        except NoResultError as error:
            return failed(self._files, str(error))

    def _received(self, answer: bytes) -> Compilation:
        compilation: Compilation = _Unpickler(answer, self._parts).load()
        self._parts = _parts(compilation) or self._parts
        return compilation


class _Sender:
    """Compiles files, and pickles the result without what its receiver has of the one before."""

    def __init__(self, work: Compile) -> None:
        self._work = work
        self._parts: Sequence[object] = ()

    def __call__(self, files: PolicyFiles) -> bytes:
        compilation = self._work(files)
        content = BytesIO()
        _Pickler(content, self._parts).dump(compilation)
        self._parts = _parts(compilation) or self._parts
        return content.getvalue()


def _parts(compilation: Compilation) -> Sequence[object]:
    """Return what a compilation may have in common with the next one, in the same order."""
    return [
        part for ready in compilation.plans for part in (*ready.policies.values(), *ready.programs)
    ]


class _Pickler(pickle.Pickler):
    """Pickles numbers in place of ``parts``, and None in place of recordings.

    Of a recording a program was made already.
    """

    def __init__(self, content: BytesIO, parts: Sequence[object]) -> None:
        super().__init__(content, pickle.HIGHEST_PROTOCOL)
        self._numbers = {id(part): number for number, part in enumerate(parts)}

    def persistent_id(self, value: object) -> int | None:
        """Return what stands for a value; None: the value itself."""
        return _NONE if isinstance(value, Recording) else self._numbers.get(id(value))


class _Unpickler(pickle.Unpickler):
    """Reads what `_Pickler` wrote."""

    def __init__(self, content: bytes, parts: Sequence[object]) -> None:
        super().__init__(BytesIO(content))
        self._parts = parts

    def persistent_load(self, number: int) -> object:
        """Return the value that a number stands for."""
        return None if number == _NONE else self._parts[number]


_NONE: Final = -1


def failed(files: PolicyFiles, why: str) -> Compilation:
    """Return the compilation that a limit, or the end of the process, has prevented."""
    name = files.paths[0] if files.paths else "<default configuration>"
    hint = "the current policies stay active; `policy-sched check` reports more about the files"
    problem = Diagnostic(name, 1, 1, _TOO_COSTLY, f"cannot compile the policies: {why}", hint)
    return Compilation((), (problem,))
