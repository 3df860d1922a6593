"""The shipped policies and schemas."""

from __future__ import annotations

from policy_sched.profiles.resources import (
    default_policies,
    policies_directory,
    schemas_directory,
)


def test_shipped_directories_are_found() -> None:
    """Policies and schemas are found from wherever the program is started."""
    assert (default_policies() / "policy.yaml").is_file()
    assert policies_directory().is_dir()
    assert (schemas_directory() / "policy.schema.json").is_file()
