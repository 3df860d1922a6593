"""Reads and compiles files of policies in a process beside the scheduler's.

Theory of operation. A reload that compiled in this process, even in a thread, would take the
interpreter away from the decisions. So a child of it does, and what comes back is what has changed
(see shipping). It is started once and compiles what is in force to begin with, so that the first
reload finds it warm. It ends when the pipe does, whatever became of this process. If it dies, or
never came up, this process compiles by itself, as it would without.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from select import select
from typing import Final, Self

import msgspec

from policy_sched.profiles.policy_files import Compilation, PolicyFiles
from policy_sched.profiles.shipping import Receiver, Sender
from policy_sched.profiles.steady_files import compile_steadily

#: Seconds that the child has to end by itself.
PATIENCE: Final = 2.0


class CompilerProcess:
    """Compiles the same files again and again; a context that ends the process when it is left.

    Calls come one at a time, from whichever thread.
    """

    def __init__(self, files: PolicyFiles) -> None:
        self._files = files
        self._receiver = Receiver()
        self._pipe, theirs = Pipe()
        with theirs:
            number = theirs.fileno()
            command = [sys.executable, "-m", __name__, str(number), _described(files)]
            # Signals from a terminal are this process's alone; its own words are for people.
            self._child = subprocess.Popen(  # noqa: S603 - this module, with data as its arguments
                command,
                pass_fds=(number,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """Whether the child can still be asked."""
        return not self._pipe.closed and self._child.poll() is None

    def compile(self, files: PolicyFiles) -> Compilation:
        """Return what the files hold now; `compile_steadily` says the same."""
        if files != self._files:
            return compile_steadily(files)
        self.ask()
        return self.answer()

    def ask(self) -> None:
        """Have the files compiled; `answer` must be taken before the next question."""
        if not self._pipe.closed:
            with suppress(OSError):
                self._pipe.send_bytes(b"")

    def answered(self) -> bool:
        """Tell whether `answer` comes at once."""
        return self._pipe.closed or bool(select([self._pipe], [], [], 0)[0])

    def answer(self) -> Compilation:
        """Return what was asked for, when it is there."""
        if not self._pipe.closed:
            try:
                return self._receiver.unpack(self._pipe.recv_bytes())
            except (EOFError, OSError):
                self.close()
        return compile_steadily(self._files)

    def close(self) -> None:
        """End the child."""
        self._pipe.close()
        try:
            self._child.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()


def _described(files: PolicyFiles) -> str:
    return msgspec.json.encode(files).decode()


def serve(pipe: Connection, files: PolicyFiles) -> None:
    """Compile the files whenever somebody asks, until the pipe ends."""
    sender = Sender()
    compile_steadily(files)
    try:
        while True:
            pipe.recv_bytes()
            pipe.send_bytes(sender.pack(compile_steadily(files)))
    except (EOFError, OSError):
        return


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])), msgspec.json.decode(sys.argv[2], type=PolicyFiles))
