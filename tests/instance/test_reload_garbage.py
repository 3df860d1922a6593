"""Policies that are replaced are freed: reloads do not make a process larger."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from policy_sched.plugins.rules.bound_policy import BoundPolicy
from policy_sched.profiles.models.defaults import policies_directory
from policy_sched.profiles.reload.store import ReloadResult
from tests.instance.app.test_embedded_instance import World, pod

TIMES = 4
POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {{name: Turn}}
spec:
  params: {{turn: {turn}}}
  preEnqueue: [{{expression: size(pod.name) + {turn} > 0, message: never}}]
  filter: [{{expression: {turn} + node.podCount >= 0, message: never}}]
  score: {{expression: 'percent(node.requested["cpu"], node.allocatable["cpu"])'}}
"""
SHIPPED = sorted(
    path.parent.name
    for path in policies_directory().glob("*/policy.yaml")
    if path.parent.name not in ("default", "qossort")  # which sort the queue
)


def bound_policies() -> int:
    """Return how many bound policies are in memory after a collection, where that is on."""
    if gc.isenabled():
        gc.collect()
    return sum(isinstance(one, BoundPolicy) for one in gc.get_objects())


def growth_by_reloads(world: World, texts: list[str]) -> int:
    """Return the number of additional bound policies after so many changes of the policies."""
    file = world.folder / "policies" / "keep.yaml"

    def turn(number: int, text: str) -> None:
        file.write_text(text, encoding="utf-8")
        assert world.reload() is ReloadResult.LOADED
        world.apply(**{f"p{number}": pod(f"p{abs(number)}{number < 0}".lower(), "1m")})

    for number in (-2, -1):
        turn(number, texts[number])
    before = bound_policies()
    assert before, "the policies in force are bound"
    for number in range(TIMES):
        turn(number, texts[number % 2])
    return bound_policies() - before


def test_a_reload_leaves_nothing(tmp_path: Path) -> None:
    """Compiler, bound rules and hooks of the old policies are freed."""
    world = World(tmp_path)
    world.start()
    texts = [POLICY.format(turn=number) for number in range(2)]
    assert growth_by_reloads(world, texts) <= 0


def test_a_reload_leaves_nothing_to_collect(tmp_path: Path) -> None:
    """Each reload left its pipeline in a cycle; collecting several held decisions up for 40 ms."""
    world = World(tmp_path)
    world.start()
    gc.collect()
    gc.disable()
    try:
        assert growth_by_reloads(world, [POLICY.format(turn=number) for number in range(2)]) <= 0
    finally:
        gc.enable()


@pytest.mark.parametrize("name", SHIPPED)
def test_neither_do_the_shipped_policies(name: str, tmp_path: Path) -> None:
    """With preemption, groups, placements, life cycles and all."""
    text = (policies_directory() / name / "policy.yaml").read_text(encoding="utf-8")
    world = World(tmp_path)
    world.start()
    assert growth_by_reloads(world, [POLICY.format(turn=0), text]) <= 0
