"""Reads and compiles files of policies in a process beside the scheduler's, within limits.

Theory of operation. A reload that compiled in this process, even in a thread, would take the
interpreter away from the decisions, and what a hostile file does to a compiler it would do to the
scheduler. So a child compiles, and what comes back is what has changed (see shipping). It is
started once and compiles what is in force to begin with, so that the first reload finds it warm. It
has so much processor time for each question, and so much memory. If it goes beyond, or ends for any
other reason, the reload has failed, what is in force stays, and the next reload starts another
child. A thread of the child waits for the end of its standard input, which comes when this process
ends, however it does; then the child ends, too, whatever it is at.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from threading import Thread
from typing import Final, Self

import msgspec

from policy_sched.errors import Diagnostic
from policy_sched.profiles.reload.consistent_read import compile_consistently
from policy_sched.profiles.reload.inputs import Compilation, PolicyFiles
from policy_sched.profiles.reload.plan_pickle import Receiver, Sender

#: The program of the child, for the interpreter.
PROGRAM: Final[tuple[str, ...]] = ("-c", f"from {__name__} import main; main()")
#: Seconds of processor time that the child has for one question, and of time altogether.
PROCESSOR_TIME: Final = 30
LONGEST: Final = 120.0
#: Bytes that the child may take beyond what it has when it is ready.
MEMORY: Final = 2**30
#: Seconds that the child has to end by itself.
PATIENCE: Final = 2.0
#: The first byte of an answer: a shipment, or words that say why there is none.
_SHIPMENT: Final = b"S"
_FAILURE: Final = b"F"
_TOO_COSTLY: Final = "PS503"


class CompilerProcess:
    """Compiles the same files again and again; a context that ends the process when it is left.

    Calls come one at a time, from whichever thread; `interrupt` may come from another.
    """

    def __init__(self, files: PolicyFiles) -> None:
        self._files = files
        self._ended = False
        self._child = _Child(files)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.interrupt()
        self._child.close()

    @property
    def alive(self) -> bool:
        """Whether the child process is ready."""
        return self._child.alive

    def compile(self, files: PolicyFiles) -> Compilation:
        """Return what the files hold now; `compile_consistently` says the same.

        Where that cannot be worked out within the limits, a problem says so.
        """
        if files != self._files:
            return compile_consistently(files)
        self.ask()
        return self.answer()

    def ask(self) -> None:
        """Have the files compiled; `answer` must be taken before the next question."""
        if not self._child.alive and not self._ended:
            self._child.close()
            self._child = _Child(self._files)
        self._child.ask()

    def answered(self) -> bool:
        """Tell whether `answer` comes at once."""
        return self._child.answered()

    def answer(self) -> Compilation:
        """Return the requested compilation, when it is done."""
        try:
            return self._child.answer()
        except _NoAnswerError as error:
            self._child.kill()
            return self._failed(str(error))

    def interrupt(self) -> None:
        """End the child; a question that waits for its answer fails, and no other child starts."""
        self._ended = True
        self._child.kill()

    def _failed(self, why: str) -> Compilation:
        name = self._files.paths[0] if self._files.paths else "<default configuration>"
        hint = "the current policies stay active; `policy-sched check` reports more about the files"
        problem = Diagnostic(name, 1, 1, _TOO_COSTLY, f"cannot compile the policies: {why}", hint)
        return Compilation((), (problem,))


class _NoAnswerError(Exception):
    """The child has no answer, in words."""


class _Child:
    """One process, and this end of its pipe."""

    def __init__(self, files: PolicyFiles) -> None:
        self._receiver = Receiver()
        self._pipe, theirs = Pipe()
        with theirs:
            number = theirs.fileno()
            command = [sys.executable, *PROGRAM, str(number), _described(files)]
            # Signals from a terminal are this process's alone; its own words are for people.
            self.process = subprocess.Popen(  # noqa: S603 - this module, with data as its arguments
                command,
                pass_fds=(number,),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )

    @property
    def alive(self) -> bool:
        """Whether it is ready for requests."""
        return self.process.poll() is None

    def ask(self) -> None:
        """Ask; what goes wrong, `answer` tells."""
        with suppress(OSError):
            self._pipe.send_bytes(b"")

    def answered(self) -> bool:
        """Whether there is an answer, or will be none."""
        return self._pipe.poll(0)

    def answer(self) -> Compilation:
        """Return the answer. Raises _NoAnswerError if there is none."""
        try:
            if not self._pipe.poll(LONGEST):
                raise _NoAnswerError(f"it takes more than {LONGEST:.0f} seconds")
            answer = self._pipe.recv_bytes()
        except (EOFError, OSError):
            raise _NoAnswerError(self._end()) from None
        if answer[:1] == _FAILURE:
            raise _NoAnswerError(answer[1:].decode())
        return self._receiver.unpack(answer[1:])

    def _end(self) -> str:
        """Return how the child ended."""
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            return "the compiler does not answer"
        if code == -signal.SIGXCPU:
            return f"it takes more than {PROCESSOR_TIME} seconds of processor time"
        return f"the compiler ended with {_words(code)}"

    def kill(self) -> None:
        """End the process now."""
        self.process.kill()

    def close(self) -> None:
        """Give back what the process holds here, when it has ended."""
        self._pipe.close()
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()
        self.process.wait()


def _words(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


def _described(files: PolicyFiles) -> str:
    return msgspec.json.encode(files).decode()


def serve(pipe: Connection, files: PolicyFiles) -> None:
    """Compile the files on request, until the pipe closes."""
    sender = Sender()
    _bound_time()
    with suppress(MemoryError):  # what is in force compiled before; a question will say more
        compile_consistently(files)
    with suppress(EOFError, OSError):
        while True:
            pipe.recv_bytes()
            _bound_time()
            pipe.send_bytes(_answer(sender, files))


def _answer(sender: Sender, files: PolicyFiles) -> bytes:
    try:
        return _SHIPMENT + sender.pack(compile_consistently(files))
    except MemoryError:
        return _FAILURE + f"it takes more than {MEMORY // 2**20} MiB of memory".encode()
    except RecursionError:
        return _FAILURE + b"something is nested too deep"


def _bound_time() -> None:
    """Take the processor time that a question has from now on; SIGXCPU ends what takes more."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime) + PROCESSOR_TIME
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, most))


def _bound_memory() -> None:
    """Limit the address space, where the system tells how large it is."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            pages = int(statm.read().split()[0])
    except OSError:
        return
    limit = pages * resource.getpagesize() + MEMORY
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    if most == resource.RLIM_INFINITY or limit < most:
        resource.setrlimit(resource.RLIMIT_AS, (limit, most))


def _end_with_parent() -> None:
    """Wait for the end of standard input, and end."""
    while sys.stdin.buffer.read(1):
        pass
    os._exit(0)


def main() -> None:
    """Serve the parent until it ends; the arguments are a file descriptor and the files."""
    Thread(target=_end_with_parent, daemon=True).start()
    _bound_memory()
    serve(Connection(int(sys.argv[1])), msgspec.json.decode(sys.argv[2], type=PolicyFiles))
