"""Reads and compiles files of policies in a process beside the scheduler's, within limits.

Theory of operation. A reload that compiled in this process, even in a thread, would take the
interpreter away from the decisions, and what a hostile file does to a compiler it would do to the
scheduler. So a `LimitedProcess` compiles, and sends the `Compilation`. It is started once and
compiles what is in force to begin with, so that the first reload finds it warm. If it goes beyond
its limits, or ends for any other reason, the reload has failed, and what is in force stays.

Compiled policies hold their code as bytes, which only the same interpreter reads; texts leave their
places in files behind, as all problems were reported where they were found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from policy_sched.errors import Diagnostic
from policy_sched.profiles.reload.inputs import Compilation, PolicyFiles, compile_consistently
from policy_sched.profiles.reload.limited_process import (
    LimitedProcess,
    NoResultError,
    ProcessLimits,
)

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
        super().__init__(work, limits, files)
        self._files = files

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


def failed(files: PolicyFiles, why: str) -> Compilation:
    """Return the compilation that a limit, or the end of the process, has prevented."""
    name = files.paths[0] if files.paths else "<default configuration>"
    hint = "the current policies stay active; `policy-sched check` reports more about the files"
    problem = Diagnostic(name, 1, 1, _TOO_COSTLY, f"cannot compile the policies: {why}", hint)
    return Compilation((), (problem,))
