"""Feature gates: what a flag says, what is known, and what cannot be set.

The shipped policies, schemas and documentation.
"""

from __future__ import annotations

import pytest

from policy_sched.profiles.models import defaults
from policy_sched.profiles.models.defaults import (
    FEATURE_GATES,
    enabled_gates,
    gate_faults,
    gates_of,
    settled_gates,
)


@pytest.mark.parametrize(
    ("text", "gates"),
    [
        ("", {}),
        ("A=true", {"A": True}),
        (" A = true , B=f,", {"A": True, "B": False}),
        ("A=1,B=0", {"A": True, "B": False}),
    ],
)
def test_a_flag_names_gates(text: str, gates: dict[str, bool]) -> None:
    """Pairs with commas, booleans as Go reads them."""
    assert gates_of(text) == gates


@pytest.mark.parametrize(
    ("text", "words"),
    [("A", "missing bool value for A"), ("A=yes", "invalid value of A=yes")],
)
def test_a_flag_that_names_none(text: str, words: str) -> None:
    """The part that cannot be read is in the message."""
    with pytest.raises(ValueError, match=words):
        gates_of(text)


def test_every_gate_needs_known_ones() -> None:
    """A slip in the table would refuse every configuration."""
    assert all(need in FEATURE_GATES for gate in FEATURE_GATES.values() for need in gate.needs)


def test_all_off_is_the_default() -> None:
    """No settable gate is on by itself, as upstream has it for alpha gates."""
    assert enabled_gates({}) == frozenset()
    assert not any(gate.on for gate in FEATURE_GATES.values() if gate.settable)
    assert set(settled_gates(frozenset())) == {
        "GenericWorkload",
        "GangScheduling",
        "TopologyAwareWorkloadScheduling",
        "WorkloadAwarePreemption",
    }


def test_a_state_that_a_gate_has_anyway_may_be_named() -> None:
    """Manifests of kube-scheduler name defaults."""
    assert (
        list(gate_faults({"SchedulerPopFromBackoffQ": True, "StorageCapacityScoring": False})) == []
    )


def test_shipped_directories_are_found() -> None:
    """Policies, schemas and pages are found from wherever the program is started."""
    assert (defaults.default_policies() / "policy.yaml").is_file()
    assert defaults.policies_directory().is_dir()
    assert (defaults.schemas_directory() / "policy.schema.json").is_file()
    assert (defaults.docs_directory() / "tutorial.md").is_file()
