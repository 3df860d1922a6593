"""Results by row that pods on nodes do not change: right after each change, and not made anew."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray

from policy_sched.explain.explain import explain
from policy_sched.model.cluster_objects import Node
from policy_sched.model.meta import ApiObject, CustomObject, ObjectMeta
from policy_sched.model.pod_info import PodInfo
from policy_sched.plugins.rules.kept_rows import KeptRows
from policy_sched.profiles.build.pipeline import CompiledPlan
from policy_sched.scheduler import event_handlers
from policy_sched.scheduler.scheduler import Scheduler
from policy_sched.scheduler.setup.factory import assemble, read
from policy_sched.testing import make_node, make_pod

SCHEMA = """{"type": "object", "properties": {"zones": {"type": "array", "items": {
"type": "object", "properties": {"name": {"type": "string"}, "free": {"type": "integer"}}}}}}"""
POLICY = """
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Zones}
spec:
  inputs:
  - {name: numa, apiVersion: example.com/v1, kind: Zones, schema: zones.json, key: object.name}
  variables:
  - name: free
    expression: |-
      inputs.numa[?node.name].optMap(n, n.zones.filter(z, z.name != "x").map(z, z.free)).orValue([])
  filter:
  - expression: |-
      variables.free.exists(f, f >= int(pod.labels["needs"])) && !("closed" in node.labels)
    message: no zone is free
  score:
    expression: clamp(variables.free.sum() - int(pod.labels["needs"]), 0, 100)
"""
NODES = 40


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> tuple[CompiledPlan, ...]:
    """Return the plans of the policy."""
    folder = tmp_path_factory.mktemp("policy")
    (folder / "zones.json").write_text(SCHEMA, "utf-8")
    path = Path(folder, "policy.yaml")
    path.write_text(POLICY, "utf-8")
    return read(None, [str(path)])[0]


def running(name: str, node: str) -> PodInfo:
    """Return a pod on a node."""
    return PodInfo.of(make_pod(name, node_name=node))


class World:
    """A cluster that a scheduler follows, which another one can be given from the start."""

    def __init__(self, plans: tuple[CompiledPlan, ...]) -> None:
        self.plans = plans
        self.random = Random(7)
        self.scheduler = assemble(plans)
        self.nodes: dict[str, Node] = {}
        self.objects: dict[str, CustomObject] = {}
        self.pods: list[PodInfo] = []
        for number in range(NODES):
            self.node(f"n{number}")
            self.zones(f"n{number}")

    def node(self, name: str) -> None:
        """A node comes, or changes."""
        labels = {"closed": "yes"} if self.random.random() < 0.2 else {}
        self.nodes[name] = made = make_node(name, labels=labels)
        event_handlers.node_seen(self.scheduler, made)

    def zones(self, name: str) -> None:
        """An object comes, changes or goes."""
        old = self.objects.pop(name, None)
        if old is not None and self.random.random() < 0.2:
            event_handlers.object_gone(self.scheduler, old)
            return
        zones = [
            {"name": self.random.choice("abx"), "free": self.random.randrange(9)} for _ in "123"
        ]
        content = json.dumps({"zones": zones}).encode()
        self.objects[name] = made = CustomObject(
            api_version="example.com/v1",
            kind="Zones",
            metadata=ObjectMeta(name=name),
            content=content,
        )
        event_handlers.object_changed(self.scheduler, old, made)

    def change(self) -> None:
        """Something changes."""
        name = self.random.choice(list(self.nodes))
        match self.random.randrange(5):
            case 0:
                self.node(name)
            case 1:
                event_handlers.node_gone(self.scheduler, self.nodes.pop(name))
                self.node(f"m{self.random.randrange(99)}")
            case 2:
                self.pods.append(running(f"p{len(self.pods)}", name))
                self.scheduler.cache.add_pod(self.pods[-1])
            case _:
                self.zones(name)

    def anew(self) -> Scheduler:
        """Return a scheduler that sees the cluster as it is now."""
        objects: list[ApiObject] = list(self.objects.values())
        scheduler = assemble(self.plans, objects=objects)
        for node in self.nodes.values():
            scheduler.cache.add_node(node)
        for pod in self.pods:
            scheduler.cache.add_pod(pod)
        return scheduler


def said(scheduler: Scheduler, needs: int) -> object:
    """Return what is said of every node for a pod."""
    pod = PodInfo.of(make_pod("p", labels={"needs": str(needs)}))
    found = explain(scheduler, pod, top=2 * NODES)
    scores = {one.node: one.plugins for one in found.scores}
    return scores, found.message, sorted(found.rejections.items(), key=str)


def test_results_are_those_of_a_scheduler_that_has_just_started(
    plans: tuple[CompiledPlan, ...],
) -> None:
    """Pods of two kinds, while nodes, objects and pods come, change and go."""
    world = World(plans)
    for _ in range(60):
        fresh = world.anew()
        for needs in (3, 7):
            assert said(world.scheduler, needs) == said(fresh, needs)
        for _ in range(world.random.choice((0, 1, 1, 12))):
            world.change()


def test_a_pod_that_is_bound_costs_nothing_and_an_object_its_row(
    plans: tuple[CompiledPlan, ...],
) -> None:
    """Each pod that was placed had the loops over its node's zones run again for the next one."""
    world = World(plans)
    assert plans[0].policies["Zones"].keeps_rows
    table, pod = world.scheduler.cache.nodes, PodInfo.of(make_pod("p"))
    kept, asked = KeptRows(table, lambda pod: pod.labels.get("needs"), np.int64), list[int]()

    def compute(rows: NDArray[np.intp] | None) -> NDArray[np.int64]:
        asked.extend(range(table.n) if rows is None else rows.tolist())
        return np.array(asked) * 2

    assert kept.of_rows(pod, None, compute).tolist() == [2 * row for row in range(NODES)]
    asked.clear()
    world.scheduler.cache.add_pod(running("q", "n3"))
    alike = PodInfo.of(make_pod("r"))
    assert kept.of_rows(alike, None, compute).tolist() == [2 * row for row in range(NODES)]
    assert not asked
    world.zones("n5")
    row = table.row_of["n5"]
    assert kept.of_rows(alike, np.array([1, row, 8]), compute).tolist() == [2, 2 * row, 16]
    assert asked == [row]
    world.zones("n6")
    assert kept.of_row(alike, table.row_of["n6"], lambda: 77) == 77
    assert kept.of_row(alike, table.row_of["n6"], lambda: 78) == 77
    other = PodInfo.of(make_pod("s", labels={"needs": "3"}))
    assert kept.of_row(other, table.row_of["n6"], lambda: 79) == 79


def test_kinds_of_pods_have_a_limit(plans: tuple[CompiledPlan, ...]) -> None:
    """Pods of which no two are alike keep no more than the latest of them."""
    table = World(plans).scheduler.cache.nodes
    kept = KeptRows(table, lambda pod: pod.name, np.int64, most=10 * 16 * NODES)
    for number in range(100):
        kept.of_row(PodInfo.of(make_pod(f"p{number}")), 0, lambda: 1)
    assert kept.nbytes == 10 * 16 * NODES
