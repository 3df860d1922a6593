"""Compiled policies are pickled as they are, and run in another process."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path

import pytest

from policy_sched.language.sections import CompiledPolicy
from policy_sched.language.stdlib import BUILTINS, FREE, Builtin
from policy_sched.profiles.build import diff_plans
from policy_sched.profiles.models.defaults import policies_directory
from policy_sched.profiles.reload.inputs import Compilation, PolicyFiles
from tests.profiles.policy_texts import keeping, write


def files(folder: Path) -> PolicyFiles:
    """A directory of policies, enabled after the default ones."""
    return PolicyFiles(None, (str(folder),))


def policies(found: Compilation) -> dict[str, CompiledPolicy]:
    """The compiled policies of the only profile."""
    return found.plans[0].policies


def copied(found: Compilation) -> Compilation:
    """The compilation as another process receives it."""
    arrived = pickle.loads(pickle.dumps(found))
    assert isinstance(arrived, Compilation)
    return arrived


FOLDERS = sorted(
    path.parent
    for path in policies_directory().glob("*/policy.yaml")
    if "queueSort:" not in path.read_text(encoding="utf-8")  # one plugin sorts the queue
)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_shipped_policy_can_be_pickled(folder: Path) -> None:
    """The text of all programs, what they read and the profile's hash arrive as they were."""
    found = files(folder).compile()
    assert not found.failed
    arrived = copied(found)
    assert arrived.plans[0].content_hash == found.plans[0].content_hash
    assert policies(arrived).keys() == policies(found).keys()
    for known, policy in policies(found).items():
        copy = policies(arrived)[known]
        assert copy is not policy
        assert (copy.reads, copy.gate_reads) == (policy.reads, policy.gate_reads)
        unit, other = policy.sections.filter, copy.sections.filter
        assert (unit is None) == (other is None)
        if unit is not None and other is not None:
            assert other.program.text == unit.program.text


def test_an_unchanged_policy_is_equal_to_its_copy(tmp_path: Path) -> None:
    """A copy differs in nothing from the policy in force, so no plugin is made anew."""
    write(tmp_path / "a.yaml", keeping("One", 'node.name == "a"'))
    write(tmp_path / "b.yaml", keeping("Two", 'node.name == "b"'))
    found = files(tmp_path).compile()
    assert not diff_plans(found.plans, copied(found).plans)
    write(tmp_path / "b.yaml", keeping("Two", 'node.name == "c"'))
    changes = diff_plans(found.plans, copied(files(tmp_path).compile()).plans)
    assert changes.policies == ("Two",)


def test_problems_keep_their_places(tmp_path: Path) -> None:
    """The problems of a refused set are pickled with file, line and column."""
    write(tmp_path / "a.yaml", keeping("One", 'node.nam == "a"'))
    found = files(tmp_path).compile()
    arrived = copied(found)
    assert arrived.failed
    assert arrived.problems == found.problems


def test_the_text_of_the_files_is_not_sent(tmp_path: Path) -> None:
    """A pickled policy does not hold the text of its file."""
    write(tmp_path / "a.yaml", "# a remark\n" + keeping("One", "true"))
    assert b"remark" not in pickle.dumps(files(tmp_path).compile())


@pytest.mark.parametrize("table", [BUILTINS, FREE], ids=["builtins", "free"])
def test_functions_of_rules_are_pickled_by_name(table: Mapping[str, Builtin]) -> None:
    """A generated program calls the same functions of the standard library after pickling."""
    for name, builtin in table.items():
        assert pickle.loads(pickle.dumps(builtin.function)) is builtin.function, name
