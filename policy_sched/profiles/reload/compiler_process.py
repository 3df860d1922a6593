"""Reads and compiles files of policies in a process beside the scheduler's, within limits.

Theory of operation. A reload that compiled in this process, even in a thread, would take the
interpreter away from the decisions, and what a hostile file does to a compiler it would do to the
scheduler. So a spawned process compiles, and sends the `Compilation`. It is started once and
compiles what is in force to begin with, so that the first reload finds it warm. It has so much
processor time for each compilation, and so much memory. If it goes beyond, or ends for any other
reason, the reload has failed, what is in force stays, and the next reload starts another process.
A thread in it waits for the end of this process, and then ends it, whatever it is at.

Plans are pickled: generated code as code objects, which only the same interpreter reads, functions
of the standard library of rules by their names, other closures as their code and cells. Places in
files stay behind: all problems were reported where they were found.
"""

from __future__ import annotations

import importlib
import io
import marshal
import os
import pickle
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from threading import Thread
from types import CellType, CodeType, FunctionType, MappingProxyType
from typing import Any, Final, NamedTuple, Self

from policy_sched.errors import Diagnostic
from policy_sched.language.ir import MIXED
from policy_sched.language.stdlib import BUILTINS
from policy_sched.profiles.reload.inputs import Compilation, PolicyFiles, compile_consistently

Reduced = tuple[Callable[..., Any], tuple[Any, ...]]


def dumps(value: object) -> bytes:
    """Return a value for `pickle.loads`."""
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


class _Pickler(pickle.Pickler):
    """Knows code, closures and read-only mappings."""

    def reducer_override(self, obj: object) -> Reduced | Any:
        """Return how to make what pickle cannot, or should not, take as it is."""
        if isinstance(obj, CodeType):
            return marshal.loads, (marshal.dumps(obj),)
        if isinstance(obj, MappingProxyType):
            return MappingProxyType, (dict(obj),)
        if obj is MIXED:
            return _global, ("policy_sched.language.ir", "MIXED")
        if isinstance(obj, FunctionType):
            return _reduced_function(obj)
        names = _arguments(type(obj))  # type: ignore[arg-type]  # types are hashable
        return (
            (type(obj), tuple([getattr(obj, name) for name in names])) if names else NotImplemented
        )


@cache
def _arguments(kind: type) -> tuple[str, ...]:
    """Return the arguments that make a dataclass as it is; none of other types.

    That is half the work of filling an empty object, which the receiver would do otherwise.
    """
    found = fields(kind) if is_dataclass(kind) else ()
    plain = all(field.init and not field.kw_only for field in found)
    plain = plain and "__reduce__" not in vars(kind)
    return tuple(field.name for field in found) if plain else ()


def _reduced_function(function: FunctionType) -> Reduced | Any:
    """Return a function by a name for it, else as its code and cells."""
    builtin = _builtins().get(function)
    if builtin is not None:
        return _builtin, (builtin,)
    module = function.__module__
    if getattr(sys.modules[module], function.__qualname__, None) is function:
        return NotImplemented
    for name, value in vars(sys.modules[module]).items():
        if value is function:
            return _global, (module, name)
    cells = tuple(cell.cell_contents for cell in function.__closure__ or ())
    facts = function.__name__, function.__defaults__, function.__kwdefaults__
    return _function, (marshal.dumps(function.__code__), module, cells, facts)


@cache
def _builtins() -> dict[Callable[..., Any], str]:
    """Return the overloads by their functions, which some compare by identity."""
    return {builtin.function: overload for overload, builtin in BUILTINS.items()}


def _builtin(overload: str) -> object:
    return BUILTINS[overload].function


def _global(module: str, name: str) -> object:
    return getattr(importlib.import_module(module), name)


def _function(code: bytes, module: str, cells: tuple[object, ...], facts: Any) -> FunctionType:
    name, defaults, keyword_defaults = facts
    scope = vars(importlib.import_module(module))
    closure = tuple(CellType(content) for content in cells)
    made = FunctionType(marshal.loads(code), scope, name, defaults, closure)  # noqa: S302 - ours
    made.__kwdefaults__ = keyword_defaults
    return made


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
    """Compiles the same files again and again; a context that ends the process when it is left.

    Calls come one at a time, from any thread; `interrupt` may come from another.
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
        """Give back what the process holds here, when it has ended."""
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
        """Return what the files hold now; `compile_consistently` returns the same.

        Where that cannot be worked out within the limits, a problem reports it.
        """
        if files != self._files:
            return self._work(files)
        self.ask()
        return self.answer()

    def ask(self) -> None:
        """Have the files compiled; `answer` must be taken before they are compiled again."""
        if not self.alive and not self._ended:
            self._close()
            self._start()
        with suppress(OSError):  # `answer` reports what went wrong
            self._pipe.send_bytes(b"")

    def answered(self) -> bool:
        """Return whether `answer` comes at once."""
        return self._pipe.poll(0)

    def answer(self) -> Compilation:
        """Return the requested compilation, when it is done."""
        why = f"it takes more than {LONGEST:.0f} seconds"
        try:
            if self._pipe.poll(LONGEST):
                found = pickle.loads(self._pipe.recv_bytes())  # noqa: S301 - of a process of ours
                assert isinstance(found, Compilation)
                return found
        except (EOFError, OSError):
            why = self._end()
        self._process.kill()
        return failed(self._files, why)

    def interrupt(self) -> None:
        """End the process; an `answer` that waits fails, and no other process starts."""
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
    """Compile the files on request, until the pipe closes: what the process does."""
    os.setsid()  # signals from a terminal are the parent's alone
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    Thread(target=_end_with_parent, daemon=True).start()
    _bound_memory(limits.memory)
    _bound_time(limits.processor_time)
    _compiled(files, limits, work)
    with suppress(EOFError, OSError):
        while True:
            pipe.recv_bytes()
            _bound_time(limits.processor_time)
            pipe.send_bytes(_compiled(files, limits, work))


def _compiled(files: PolicyFiles, limits: Limits, work: Compile) -> bytes:
    try:
        return dumps(work(files))
    except MemoryError:
        return dumps(failed(files, f"it takes more than {limits.memory >> 20} MiB of memory"))
    except RecursionError:
        return dumps(failed(files, "something is nested too deep"))


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
