"""What is compiled in one process runs in another: every shipped policy."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from policy_sched.language.sections import CompiledPolicy
from policy_sched.profiles.build import diff_plans
from policy_sched.profiles.models.defaults import policies_directory
from policy_sched.profiles.reload.compiler_process import dumps
from policy_sched.profiles.reload.inputs import Compilation, PolicyFiles
from tests.profiles.policy_texts import keeping, write


def files(folder: Path) -> PolicyFiles:
    """A directory of policies, enabled after the default ones."""
    return PolicyFiles(None, (str(folder),))


def policies(found: Compilation) -> dict[str, CompiledPolicy]:
    """The compiled policies of the only profile."""
    return found.plans[0].policies


def elsewhere(found: Compilation) -> Compilation:
    """What another process receives."""
    arrived = pickle.loads(dumps(found))
    assert isinstance(arrived, Compilation)
    return arrived


@pytest.mark.parametrize("name", sorted(path.name for path in policies_directory().iterdir()))
def test_every_shipped_policy_travels(name: str) -> None:
    """The text of all programs, what they read and the profile's hash arrive as they were."""
    folder = policies_directory() / name
    if not folder.is_dir() or not list(folder.rglob("policy.yaml")):
        return
    found = files(folder).compile()
    assert not found.failed
    arrived = elsewhere(found)
    assert arrived.plans[0].content_hash == found.plans[0].content_hash
    assert policies(arrived).keys() == policies(found).keys()
    for known, policy in policies(found).items():
        twin = policies(arrived)[known]
        assert twin is not policy
        assert (twin.reads, twin.gate_reads) == (policy.reads, policy.gate_reads)
        unit, other = policy.sections.filter, twin.sections.filter
        assert (unit is None) == (other is None)
        if unit is not None and other is not None:
            assert other.program.text == unit.program.text


def test_an_unchanged_policy_is_the_same_to_the_scheduler(tmp_path: Path) -> None:
    """What arrives differs from what is in force in nothing, so that no plugin is made anew."""
    write(tmp_path / "a.yaml", keeping("One", 'node.name == "a"'))
    write(tmp_path / "b.yaml", keeping("Two", 'node.name == "b"'))
    found = files(tmp_path).compile()
    assert not diff_plans(found.plans, elsewhere(found).plans)
    write(tmp_path / "b.yaml", keeping("Two", 'node.name == "c"'))
    changes = diff_plans(found.plans, elsewhere(files(tmp_path).compile()).plans)
    assert changes.policies == ("Two",)


def test_problems_travel_with_their_places(tmp_path: Path) -> None:
    """A refused set arrives as its problems, each with file, line and column."""
    write(tmp_path / "a.yaml", keeping("One", 'node.nam == "a"'))
    found = files(tmp_path).compile()
    arrived = elsewhere(found)
    assert arrived.failed
    assert arrived.problems == found.problems


def test_the_text_of_the_files_is_not_sent(tmp_path: Path) -> None:
    """Places stay behind: what is sent does not hold the text of the file."""
    write(tmp_path / "a.yaml", "# a remark\n" + keeping("One", "true"))
    assert b"remark" not in dumps(files(tmp_path).compile())
