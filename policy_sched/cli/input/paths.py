"""Arguments that are paths: files, directories and standard input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypeAlias

from cyclopts import Parameter

from policy_sched.cli.output.diagnostics import STDIN
from policy_sched.errors import PolicySchedError


class MisspeltOptionError(PolicySchedError):
    """An option that the verb does not have; carries what was typed."""


def no_option(_type: object, paths: Sequence[str]) -> None:
    """Accept "-" for standard input; reject misspelt options."""
    for path in paths:
        if path.startswith("-") and path != STDIN:
            raise MisspeltOptionError(path)


PathsOrStdin: TypeAlias = Annotated[
    tuple[str, ...],
    Parameter(
        name="PATH",
        negative="",
        allow_leading_hyphen=True,
        validator=no_option,
        show_default=False,
    ),
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
