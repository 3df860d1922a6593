"""Questions that other processes compute: what hostile text must not do to the server.

Theory of operation. Policy text from an editor is checked, compiled and run by two processes, one
for the editor's short questions and one for trials and simulations, each within limits of time and
memory. They start with the first question. A question without a result is a problem that the page
shows; the next question finds a fresh process.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, Generic, TypeVar

from policy_sched.errors import Diagnostic, PolicyError, PolicySchedError
from policy_sched.profiles.reload import LimitedProcess, NoResultError, ProcessLimits

Result = TypeVar("Result")

EDITOR: Final = ProcessLimits(10, 2**30)
TRIALS: Final = ProcessLimits(60, 2**31)
"""The limits of the two processes: seconds of processor time, bytes of memory."""


class Question(Generic[Result]):
    """Something to evaluate in another process; it and its result are pickled."""

    __slots__ = ()

    def result(self) -> Result:
        """Return the result. Raises PolicySchedError if there is none."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why a question has no result: the text of an error, and its diagnostics."""

    message: str
    diagnostics: tuple[Diagnostic, ...] | None


def computed(question: Question[Any]) -> Any:
    """Return the result to a question, or why there is none: what the processes do."""
    try:
        return question.result()
    except PolicyError as error:
        return _Refusal(str(error), error.diagnostics)
    except PolicySchedError as error:
        return _Refusal(str(error), None)


class QuestionProcess:
    """One process that computes, started with the first question; questions wait for each other."""

    def __init__(self, limits: ProcessLimits) -> None:
        self._limits = limits
        self._lock = Lock()
        self._process: LimitedProcess[Question[Any], Any] | None = None
        self._closed = False

    async def ask(self, question: Question[Result]) -> Result:
        """Return the result to a question. Raises PolicySchedError if there is none."""
        return await asyncio.to_thread(self.wait_for, question)

    def wait_for(self, question: Question[Result]) -> Result:
        """Return the result to a question, as `ask` does, in this thread."""
        with self._lock:
            if self._closed:
                raise NoResultError("the console ends")
            if self._process is None:
                self._process = LimitedProcess(computed, self._limits)
            self._process.begin(question)
            answer = self._process.result()
        if isinstance(answer, _Refusal):
            if answer.diagnostics is not None:
                raise PolicyError(answer.diagnostics)
            raise PolicySchedError(answer.message)
        result: Result = answer
        return result

    def close(self) -> None:
        """End the process; a question that waits has no result."""
        self._closed = True
        if self._process is not None:
            self._process.interrupt()
