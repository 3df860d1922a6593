"""The shipped policies, schemas and documentation."""

from __future__ import annotations

from policy_sched.profiles.models.defaults import (
    default_policies,
    docs_directory,
    policies_directory,
    schemas_directory,
)


def test_shipped_directories_are_found() -> None:
    """Policies, schemas and pages are found from wherever the program is started."""
    assert (default_policies() / "policy.yaml").is_file()
    assert policies_directory().is_dir()
    assert (schemas_directory() / "policy.schema.json").is_file()
    assert (docs_directory() / "tutorial.md").is_file()
