"""Promises of `object` in a running scheduler: what follows from a field that only rules read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from policy_sched.language.stdlib import decoded_structs
from policy_sched.model import ApiObject, Node, Pod, PodInfo
from policy_sched.profiles.load import input_kinds, load_policies
from policy_sched.scheduler import event_handlers
from policy_sched.scheduler.scheduler import Scheduler
from policy_sched.scheduler.setup.factory import build
from tests.plugins.rules.test_inputs import run

ROOM = {"cpu": "8", "memory": "8Gi", "pods": "20"}


class World:
    """A scheduler with one filter rule, whose objects are decoded as it reads them."""

    def __init__(self, folder: Path, rule: str) -> None:
        document = {
            "apiVersion": "policysched.dev/v1alpha1",
            "kind": "Policy",
            "metadata": {"name": "P", "annotations": {"policysched.dev/cost-limit": "2000"}},
            "spec": {"filter": [{"expression": rule, "message": "no"}]},
        }
        (folder / "p.yaml").write_text(json.dumps(document), encoding="utf-8")
        files = [str(folder / "p.yaml")]
        self.scheduler: Scheduler = build(policies=files)
        self._structs = input_kinds(load_policies(files)[0])

    def _decoded(self, kind: str, plain: dict[str, Any]) -> Any:
        usual: dict[str, type[ApiObject]] = {"Pod": Pod, "Node": Node}
        return msgspec.convert(plain, self._structs.get(("v1", kind), usual[kind]))

    def node(self, name: str, status: dict[str, Any] | None = None, **spec: object) -> None:
        """Let a node come, or change."""
        plain = {"metadata": {"name": name}, "spec": spec}
        plain["status"] = {"allocatable": ROOM, **(status or {})}
        event_handlers.node_seen(self.scheduler, self._decoded("Node", plain))

    def pod(self, name: str, status: dict[str, Any] | None = None, **spec: object) -> None:
        """Let a pod come, or change."""
        meta = {"name": name, "uid": name}
        plain = {"metadata": meta, "spec": {"containers": [{"name": "c"}], **spec}}
        plain["status"] = status or {}
        event_handlers.pod_seen(self.scheduler, PodInfo.of(self._decoded("Pod", plain)))


def test_equal_pods_that_differ_in_such_a_field_are_decided_apart(tmp_path: Path) -> None:
    """What was found for one pod held for the next one, which differs in that field alone."""
    world = World(tmp_path, "!pod.object.spec.hostPID")
    world.node("n")
    for number, host in enumerate((False, True, False, True)):
        world.pod(f"p{number}", hostPID=host)
    assert [said == "n" for said in run(world.scheduler)] == [True, False, True, False]


def test_a_field_of_a_node_counts_as_it_is_now(tmp_path: Path) -> None:
    """A change of a field that no plugin reads was no change, and woke nobody."""
    world = World(tmp_path, 'node.object.status.addresses.exists(a, a.type == "ExternalIP")')
    world.node("n")
    world.pod("p")
    assert run(world.scheduler) != ["n"]
    address = {"type": "ExternalIP", "address": "192.0.2.1"}
    world.node("n", {"addresses": [address]})
    assert run(world.scheduler) == ["n"]
    world.pod("q")
    assert run(world.scheduler) == ["n"]
    world.node("n")
    world.pod("r")
    assert run(world.scheduler) != ["n"]


def test_a_field_of_a_pod_on_the_node_counts_as_it_is_now(tmp_path: Path) -> None:
    """A pod on a node that restarted again and again looked as on its first day."""
    rule = "node.pods.all(p, p.object.status.containerStatuses.all(c, c.restartCount < 3))"
    world = World(tmp_path, rule)
    world.node("n")
    world.pod("old", nodeName="n")
    world.pod("p")
    assert run(world.scheduler) == ["n"]
    world.pod("old", {"containerStatuses": [{"name": "c", "restartCount": 5}]}, nodeName="n")
    world.pod("q")
    assert run(world.scheduler) != ["n"]


@pytest.mark.parametrize(
    "rule",
    [
        'node.pods.all(p, p.conditions.all(c, c.type != "Bad"))',
        'node.pods.all(p, p.object.status.conditions.all(c, c.type != "Bad"))',
        'cluster.pods.all(p, p.conditions.all(c, c.type != "Bad"))',
        "!(1 in node.pods.map(p, size(p.object.status.conditions)))",
    ],
)
def test_a_condition_of_a_pod_on_the_node_counts_as_it_is_now(tmp_path: Path, rule: str) -> None:
    """A node whose pod had recovered refused all pods until another pod came or went there."""
    world = World(tmp_path, rule)
    world.node("n")
    bad = {"conditions": [{"type": "Bad", "status": "True"}]}
    world.pod("old", bad, nodeName="n")
    world.pod("p")
    assert run(world.scheduler) != ["n"]
    world.pod("old", nodeName="n")
    world.pod("q")
    assert run(world.scheduler) == ["n"]


def test_a_status_that_no_rule_reads_changes_no_row(tmp_path: Path) -> None:
    """A policy that reads no status pays nothing for its updates."""
    world = World(tmp_path, "node.pods.all(p, p.priority < 5)")
    world.node("n")
    world.pod("old", nodeName="n")
    world.pod("p")
    assert run(world.scheduler) == ["n"]
    version = world.scheduler.cache.nodes.journal.version
    world.pod("old", {"conditions": [{"type": "Bad", "status": "True"}]}, nodeName="n")
    assert world.scheduler.cache.nodes.journal.version == version


def test_nothing_more_is_decoded_where_no_rule_reads_it(tmp_path: Path) -> None:
    """A policy without `object` costs what it cost before."""
    world = World(tmp_path, "pod.hostNetwork || node.ready")
    assert world._structs == {} == decoded_structs([])
