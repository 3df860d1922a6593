"""Policies that are replaced are freed: reloads do not make a process larger."""

from __future__ import annotations

import gc
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from policy_sched.plugins.rules.bound_policy import BoundPolicy
from policy_sched.profiles.models.defaults import policies_directory
from policy_sched.profiles.reload.store import ReloadResult
from tests.instance.app.test_embedded_instance import World, pod
from tests.profiles.policy_texts import config, write

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
    path.parent
    for path in policies_directory().glob("*/policy.yaml")
    if path.parent.name != "default"  # which is part of every set already
)


def bound_policies() -> Counter[str]:
    """Return the bound policies in memory by name, after a collection where that is on."""
    if gc.isenabled():
        gc.collect()
    return Counter(one._sections.name for one in gc.get_objects() if isinstance(one, BoundPolicy))


def growth_by_reloads(world: World, texts: list[str]) -> Counter[str]:
    """Return the additional bound policies after so many changes of the policies."""
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
    assert not growth_by_reloads(world, texts)


def test_a_reload_leaves_nothing_to_collect(tmp_path: Path) -> None:
    """Each reload left its pipeline in a cycle; collecting several held decisions up for 40 ms."""
    world = World(tmp_path)
    world.start()
    gc.collect()
    gc.disable()
    try:
        assert not growth_by_reloads(world, [POLICY.format(turn=number) for number in range(2)])
    finally:
        gc.enable()


def definition(read: dict[str, Any]) -> dict[str, Any]:
    """Return the definition of a custom kind that a policy reads, without a schema."""
    group, _, version = read["apiVersion"].partition("/")
    plural, schema = f"{read['kind'].lower()}s", {"x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True}
    served["schema"] = {"openAPIV3Schema": {"type": "object", **schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": read["kind"], "plural": plural},
            "versions": [served],
        },
    }


def put(world: World, folder: Path) -> None:
    """Reload with the policy of a folder, which decides a pod."""
    text = (folder / "policy.yaml").read_text(encoding="utf-8")
    policy = yaml.load(text, yaml.CSafeLoader)
    name = policy["metadata"]["name"]
    for schema in folder.glob("*.json"):
        shutil.copy(schema, world.folder / "policies")
    # Only one policy of a profile sorts its queue, and a configuration names that one.
    sorts = name if "queueSort" in policy["spec"] else "PrioritySort"
    write(world.folder / "config.yaml", config({"default-scheduler": [name]}, sorts))
    write(world.folder / "policies" / "keep.yaml", text)
    assert world.reload() is ReloadResult.LOADED
    world.apply(pod=pod(folder.name, "1m"))
    assert name in world.instance.scheduler.profiles["default-scheduler"].pipeline.signatures


def test_neither_do_the_shipped_policies(tmp_path: Path) -> None:
    """With preemption, groups, placements, life cycles, objects that they read and all."""
    world = World(tmp_path)
    kinds = [
        definition(read)
        for folder in SHIPPED
        for read in yaml.load((folder / "policy.yaml").read_text(), yaml.CSafeLoader)["spec"].get(
            "inputs", ()
        )
        if {"apiVersion", "schema"} <= read.keys()
    ]
    by_name = {kind["metadata"]["name"]: kind for kind in kinds}
    world.files(definitions=yaml.safe_dump_all(by_name.values()))
    write(world.folder / "config.yaml", config({"default-scheduler": []}))
    world.start()
    left = []
    for _ in range(2):
        for folder in SHIPPED:
            put(world, folder)
        left.append(bound_policies())
    assert not left[1] - left[0]
