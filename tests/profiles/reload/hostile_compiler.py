"""What a compiler does with hostile files, for the process that it runs in."""

from __future__ import annotations

from policy_sched.profiles.reload.inputs import Compilation, PolicyFiles


def endless(_files: PolicyFiles) -> Compilation:
    """Never return."""
    while True:
        pass


def huge(_files: PolicyFiles) -> Compilation:
    """Take 2 GiB."""
    bytearray(2**31)
    raise AssertionError


def deep(files: PolicyFiles) -> Compilation:
    """Call itself without end."""
    return deep(files)
