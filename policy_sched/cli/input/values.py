"""Values of options: policies by path or name, the cost limit, durations and times."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Sequence
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from policy_sched.errors import ClusterError, PolicySchedError, nearest
from policy_sched.language.diagnostics import MAX_ANNOTATED_COST, MAX_RULE_COST
from policy_sched.model import nanoseconds_of
from policy_sched.profiles.models import moment_of, policies_directory

NOT_SELECTABLE = "default"
"""The folder of the default profile's own policies, which every profile has already."""

MaxCostLimit = Annotated[
    int, Parameter(validator=Number(gte=MAX_RULE_COST, lte=MAX_ANNOTATED_COST))
]
"""From what every rule may cost to the highest limit that a policy may set."""


def shipped_policies() -> dict[str, str]:
    """Return the directories of the shipped policies by name, sorted."""
    return {
        folder.name: str(folder)
        for folder in sorted(policies_directory().iterdir())
        if (folder / "policy.yaml").is_file() and folder.name != NOT_SELECTABLE
    }


def policy_paths(values: Sequence[str]) -> tuple[str, ...]:
    """Return the paths of the values of ``--policies``.

    A value is a file or a directory, or else the name of a shipped policy, such as ``gang``.
    Raises PolicySchedError with every value that is neither.
    """
    shipped = shipped_policies()
    paths: list[str] = []
    unknown: list[str] = []
    for value in values:
        if os.path.lexists(value) or _is_path(value):
            os.stat(value)
            paths.append(value)
        elif value in shipped:
            paths.append(shipped[value])
        else:
            unknown.append(f"--policies {value}: {_not_found(value, shipped)}")
    if unknown:
        raise PolicySchedError("\n".join(unknown))
    return tuple(dict.fromkeys(paths))


def policy_set_path(value: str) -> str:
    """Return the path of a policy set: a file, a directory, or the name of a shipped one.

    The name ``default`` stands for the default profile. Raises PolicySchedError or OSError for a
    value that is neither.
    """
    if os.path.lexists(value) or _is_path(value):
        os.stat(value)
        return value
    names = [NOT_SELECTABLE, *shipped_policies()]
    if value not in names:
        raise PolicySchedError(f"{value}: {_not_found(value, names)}")
    return str(policies_directory() / value)


def _not_found(value: str, names: Collection[str]) -> str:
    close = nearest(value, names)
    hint = f'did you mean "{close}"?' if close else f"shipped are {', '.join(names)}"
    return f"no such file, directory or shipped policy; {hint}"


def _is_path(value: str) -> bool:
    """Return whether a value can only be meant as a path."""
    return os.sep in value or "." in value or "\0" in value


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


def clock(now: str | None, kubeconfig: str | None = None) -> Callable[[], int] | None:
    """Return a clock that always shows the value of --now; None without a value.

    Without a value, that of a live cluster shows the time at which it is made.
    """
    if now is None and kubeconfig is None:
        return None
    stopped = time.time_ns() if now is None else moment(now)
    return lambda: stopped
