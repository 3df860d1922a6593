"""Compiles a consistent read of the policy files, even while they are being written."""

from __future__ import annotations

from typing import Final

from policy_sched.profiles.reload.inputs import Compilation, PolicyFiles

#: How often files that change while they are read are read again.
TRIES: Final = 3


def compile_consistently(files: PolicyFiles) -> Compilation:
    """Compile the files from one consistent read; after `TRIES` attempts, from the last read."""
    before = files.fingerprint()
    found = files.compile()
    for _ in range(TRIES - 1):
        after = files.fingerprint()
        if after == before:
            break
        before, found = after, files.compile()
    return found
