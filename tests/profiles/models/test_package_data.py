"""The shipped policies, schemas and documentation."""

from __future__ import annotations

from policy_sched.profiles.models import defaults


def test_shipped_directories_are_found() -> None:
    """Policies, schemas and pages are found from wherever the program is started."""
    assert (defaults.default_policies() / "policy.yaml").is_file()
    assert defaults.policies_directory().is_dir()
    assert (defaults.schemas_directory() / "policy.schema.json").is_file()
    assert (defaults.docs_directory() / "tutorial.md").is_file()
