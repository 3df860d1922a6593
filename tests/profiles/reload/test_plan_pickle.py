"""What is compiled in one process runs in another: every policy, each part once."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from policy_sched.language.compiled_policy import CompiledPolicy
from policy_sched.profiles.build import compile as compiling
from policy_sched.profiles.models.package_data import policies_directory
from policy_sched.profiles.reload.inputs import Compilation, PolicyFiles
from policy_sched.profiles.reload.plan_pickle import Receiver, Sender
from tests.profiles.policy_texts import keeping, write


def files(folder: Path) -> PolicyFiles:
    """A directory of policies, enabled after the default ones."""
    return PolicyFiles(None, (str(folder),))


def policies(found: Compilation) -> dict[str, CompiledPolicy]:
    """The compiled policies of the only profile."""
    return found.plans[0].policies


def elsewhere(found: Compilation) -> Compilation:
    """What another process receives, which has compiled nothing by itself."""
    kept = dict(compiling._KEPT)
    compiling._KEPT.clear()
    try:
        return Receiver().unpack(Sender().pack(found))
    finally:
        compiling._KEPT.update(kept)


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


def test_a_part_is_sent_once(tmp_path: Path) -> None:
    """The second shipment holds the one policy that changed; the others are the same objects."""
    write(tmp_path / "a.yaml", keeping("One", 'node.name == "a"'))
    write(tmp_path / "b.yaml", keeping("Two", 'node.name == "b"'))
    sender, receiver = Sender(), Receiver()
    first_bytes = sender.pack(files(tmp_path).compile())
    first = policies(receiver.unpack(first_bytes))
    write(tmp_path / "b.yaml", keeping("Two", 'node.name == "c"'))
    second_bytes = sender.pack(files(tmp_path).compile())
    second = policies(receiver.unpack(second_bytes))
    assert len(second_bytes) < len(first_bytes) / 4
    assert second["One"] is first["One"]
    assert second["Two"] is not first["Two"]


def test_a_form_that_is_known_here_is_used(tmp_path: Path) -> None:
    """What this process has compiled by itself is not replaced by its twin."""
    write(tmp_path / "a.yaml", keeping("One", 'node.name == "known"'))
    found = files(tmp_path).compile()
    arrived = Receiver().unpack(Sender().pack(found))
    assert policies(arrived)["One"] is policies(found)["One"]


def test_parts_that_nobody_needs_are_dropped_at_both_ends(tmp_path: Path) -> None:
    """Many different forms of one policy leave no more parts behind than a few."""
    sender, receiver = Sender(), Receiver()
    held = []
    for number in range(6):
        write(tmp_path / "a.yaml", keeping("One", f'node.name == "{number}"'))
        receiver.unpack(sender.pack(files(tmp_path).compile()))
        held.append((len(sender._held), len(receiver._parts)))
    assert held[-1] == held[-2] == held[-3]
    assert len(set(held[-1])) == 1


def test_problems_travel_with_their_places(tmp_path: Path) -> None:
    """A refused set arrives as its problems, each with file, line and column."""
    write(tmp_path / "a.yaml", keeping("One", 'node.nam == "a"'))
    found = files(tmp_path).compile()
    arrived = elsewhere(found)
    assert arrived.failed
    assert arrived.problems == found.problems


def test_nothing_of_the_files_travels_along(tmp_path: Path) -> None:
    """Places stay behind: a shipment does not hold the text of the file."""
    write(tmp_path / "a.yaml", "# a remark that nobody needs\n" + keeping("One", "true"))
    shipped, _, body = pickle.loads(Sender().pack(files(tmp_path).compile()))
    assert all(b"remark" not in part for part in (*shipped.values(), body))
