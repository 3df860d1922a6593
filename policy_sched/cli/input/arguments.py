"""Arguments and options of several verbs: paths, standard input, durations and times."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, TypeAlias

from cyclopts import Parameter

from policy_sched.cli.output.diagnostics import STDIN
from policy_sched.errors import ClusterError, PolicySchedError
from policy_sched.model import nanoseconds_of
from policy_sched.profiles.models import moment_of


class MisspeltOptionError(PolicySchedError):
    """An option that the verb does not have; carries what was typed."""


def no_option(_type: object, paths: Sequence[str]) -> None:
    """Accept "-" for standard input; reject misspelt options."""
    for path in paths:
        if path.startswith("-") and path != STDIN:
            raise MisspeltOptionError(path)


PathsOrStdin: TypeAlias = Annotated[
    tuple[str, ...],
    Parameter(name="PATH", negative="", allow_leading_hyphen=True, validator=no_option),
]
"""Paths, one or more; ``-`` is standard input."""


def needs_a_value(_type: object, paths: Sequence[str]) -> None:
    """Accept "-" for standard input; reject an option in place of a path."""
    if any(path.startswith("-") and path != STDIN for path in paths):
        raise PolicySchedError("--cluster needs a value")


ClusterPaths: TypeAlias = Annotated[
    tuple[str, ...],
    Parameter(negative="", show_default=False, allow_leading_hyphen=True, validator=needs_a_value),
]
"""What holds a cluster, an option given once for each path; ``-`` is standard input."""


def nanoseconds(text: str, flag: str) -> int:
    """Return a duration as Go's flags have them, ``10s`` or ``5m0s``. Raises ClusterError."""
    try:
        return nanoseconds_of(text)
    except ValueError as error:
        raise ClusterError(f"{flag}: {error}") from None


def moment(text: str) -> int:
    """Return the value of --now in nanoseconds since 1970. Raises PolicySchedError."""
    try:
        return moment_of(text)
    except ValueError as error:
        raise PolicySchedError(f"--now: {error}") from None


def clock(now: str | None) -> Callable[[], int] | None:
    """Return a clock that always shows the value of --now; None without a value."""
    if now is None:
        return None
    stopped = moment(now)
    return lambda: stopped
