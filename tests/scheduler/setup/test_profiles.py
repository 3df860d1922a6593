"""Profiles of a reload: unchanged ones are kept; nothing changes before it is settled."""

from __future__ import annotations

from pathlib import Path

from policy_sched.profiles.build.pipeline import CompiledPlan
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.scheduler.setup.factory import assemble_with_assembly
from tests.profiles.policy_texts import config, keeping, write

EXTENDER = "extenders:\n- {urlPrefix: 'http://127.0.0.1:1', filterVerb: f}\n"


def plans(folder: Path, allowed: str = "a", more: str = "") -> tuple[CompiledPlan, ...]:
    """Return two profiles; ``allowed`` is the node that the first one's policy allows."""
    write(folder / "keep.yaml", keeping("Keep", f'node.name == "{allowed}"'))
    write(folder / "config.yaml", config({"one": ["Keep"], "two": []}) + more)
    found = PolicyFiles(str(folder / "config.yaml"), (str(folder),)).compile()
    assert not found.problems
    return found.plans


def test_an_unchanged_profile_is_kept_whole(tmp_path: Path) -> None:
    """Its caches stay; only its generation is new."""
    scheduler, assembly = assemble_with_assembly(plans(tmp_path))
    before = dict(scheduler.profiles)
    built = assembly.build(plans(tmp_path, "b"), 2)
    one, two = built.profiles["one"], built.profiles["two"]
    assert two.evaluator is before["two"].evaluator
    assert (two.pipeline.generation, before["two"].pipeline.generation) == (2, 1)
    assert one.evaluator is not before["one"].evaluator
    assert one.pipeline.content_hash != before["one"].pipeline.content_hash


def test_unchanged_plugins_of_a_changed_profile_are_kept(tmp_path: Path) -> None:
    """Their caches outlive the reload of another policy."""
    scheduler, assembly = assemble_with_assembly(plans(tmp_path))
    hooks = {hook.plugin: hook.function for hook in scheduler.profiles["one"].pipeline.at("filter")}
    built = assembly.build(plans(tmp_path, "b"), 2)
    for hook in built.profiles["one"].pipeline.at("filter"):
        assert (hook.function == hooks[hook.plugin]) == (hook.plugin != "Keep")


def test_extenders_change_when_the_set_is_in_force(tmp_path: Path) -> None:
    """Until then the handle has the old ones; equal settings keep their connection."""
    scheduler, assembly = assemble_with_assembly(plans(tmp_path, more=EXTENDER))
    (before,) = scheduler.handle.extenders
    built = assembly.build(plans(tmp_path, "b", EXTENDER), 2)
    assert list(built.extenders.values()) == [before]
    built = assembly.build(plans(tmp_path, "b"), 3)
    assert list(scheduler.handle.extenders) == [before]
    assembly.settle(built)
    assert not scheduler.handle.extenders
