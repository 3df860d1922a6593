"""Compiles files that somebody may be writing: as they were at one moment."""

from __future__ import annotations

from typing import Final

from policy_sched.profiles.policy_files import Compilation, PolicyFiles

#: How often files that change while they are read are read again.
TRIES: Final = 3


def compile_steadily(files: PolicyFiles) -> Compilation:
    """Compile the files as they were at one moment, if they hold still for long enough."""
    before = files.fingerprint()
    found = files.compile()
    for _ in range(TRIES - 1):
        after = files.fingerprint()
        if after == before:
            break
        before, found = after, files.compile()
    return found
