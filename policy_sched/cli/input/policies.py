"""The option ``--policies``: files, directories, and the names of policies that ship with us."""

from __future__ import annotations

import os
from collections.abc import Sequence

from policy_sched.errors import PolicySchedError
from policy_sched.language.diagnostics import nearest
from policy_sched.profiles.models import policies_directory

NOT_SELECTABLE = "default"
"""The folder of the default profile's own policies, which every profile has already."""


def shipped_policies() -> dict[str, str]:
    """Return the directories of the shipped policies by name, sorted."""
    return {
        folder.name: str(folder)
        for folder in sorted(policies_directory().iterdir())
        if (folder / "policy.yaml").is_file() and folder.name != NOT_SELECTABLE
    }


def policy_paths(values: Sequence[str]) -> tuple[str, ...]:
    """Return the paths that the values of ``--policies`` stand for.

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
            close = nearest(value, shipped)
            hint = f'did you mean "{close}"?' if close else f"shipped are {', '.join(shipped)}"
            unknown.append(f"--policies {value}: no such file, directory or shipped policy; {hint}")
    if unknown:
        raise PolicySchedError("\n".join(unknown))
    return tuple(paths)


def policy_set_path(value: str) -> str:
    """Return the path of a policy set: a file, a directory, or the name of a shipped one.

    The name ``default`` stands for the default profile. What is neither is returned as it is.
    """
    folder = policies_directory() / value
    known = {*shipped_policies(), NOT_SELECTABLE}
    return value if os.path.lexists(value) or value not in known else str(folder)


def _is_path(value: str) -> bool:
    """Return whether a value can only be meant as a path."""
    return os.sep in value or "." in value or "\0" in value
