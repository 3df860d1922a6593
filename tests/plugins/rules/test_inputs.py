"""Promises of inputs in a running scheduler: which object counts, and what a change wakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policy_sched.model.meta import CustomObject, ObjectMeta, datetime_of
from policy_sched.model.pod_info import PodInfo
from policy_sched.plugins.rules.inputs import inputs_of
from policy_sched.scheduler import event_handlers
from policy_sched.scheduler.scheduler import Outcome, Scheduler
from policy_sched.scheduler.setup.factory import build
from policy_sched.testing import make_node, make_pod
from tests.scheduler.random_objects import INPUT_SCHEMA


def scheduler_of(folder: Path, **sections: object) -> Scheduler:
    """Return a scheduler of two nodes with a policy that reads loads and quotas."""
    kinds = {"schema": "inputs.json", "apiVersion": "example.com/v1", "most": 3}
    inputs = [
        {"name": "loads", "kind": "Load", "key": "object.name", **kinds},
        {"name": "quotas", "kind": "Quota", "key": "object.namespace", **kinds},
    ]
    document = {
        "apiVersion": "policysched.dev/v1alpha1",
        "kind": "Policy",
        "metadata": {"name": "P"},
        "spec": {"inputs": inputs, **sections},
    }
    (folder / "inputs.json").write_text(INPUT_SCHEMA, encoding="utf-8")
    (folder / "p.yaml").write_text(json.dumps(document), encoding="utf-8")
    scheduler = build(policies=[str(folder / "p.yaml")])
    for name in ("n1", "n2"):
        event_handlers.node_seen(scheduler, make_node(name))
    return scheduler


def an_object(
    kind: str, name: str, namespace: str = "", age: int = 0, **spec: object
) -> CustomObject:
    """Return an object; of two the one of the greater age is older."""
    meta = ObjectMeta(
        name=name, namespace=namespace, creation_timestamp=datetime_of((100 - age) * 10**9)
    )
    return CustomObject(
        api_version="example.com/v1", kind=kind, metadata=meta, content={"spec": spec}
    )


def seen(scheduler: Scheduler, *objects: CustomObject) -> None:
    """Let objects come, or change."""
    for one in objects:
        event_handlers.object_seen(scheduler, None, one)


def run(scheduler: Scheduler) -> list[str]:
    """Schedule what is due; return the nodes that pods get, or why they get none."""
    ended: list[Outcome] = []
    while (outcome := scheduler.schedule_one()) is not None:
        ended.append(outcome)
    return [outcome.node or outcome.message for outcome in ended]


NOT_LOADED = [
    {
        "expression": "inputs.loads[?node.name].optMap(l, l.spec.level).orValue(0) < 60",
        "message": "loaded",
    }
]
OPEN = "inputs.quotas[?pod.namespace].optMap(q, q.spec.open).orValue(true)"


def test_a_pod_waits_for_the_object_of_its_node(tmp_path: Path) -> None:
    """A pod that every node refused slept on though a node's load went down."""
    scheduler = scheduler_of(tmp_path, filter=NOT_LOADED)
    seen(scheduler, an_object("Load", "n1", level=70), an_object("Load", "n2", level=80))
    event_handlers.pod_seen(scheduler, PodInfo.of(make_pod("p")))
    assert "2 loaded" in run(scheduler)[0]
    seen(scheduler, an_object("Load", "n1", level=65), an_object("Load", "elsewhere", level=1))
    assert len(scheduler.queue.unschedulable()) == 1
    seen(scheduler, an_object("Load", "n2", level=5))
    assert scheduler.queue.unschedulable() == []


def test_a_gate_opens_for_the_next_equal_pod(tmp_path: Path) -> None:
    """A gate that depends on a quota was asked once for all pods that are alike."""
    scheduler = scheduler_of(tmp_path, preEnqueue=[{"expression": OPEN, "message": "shut"}])
    seen(scheduler, an_object("Quota", "q", "default", open=True))
    event_handlers.pod_seen(scheduler, PodInfo.of(make_pod("a")))
    assert run(scheduler) != []
    seen(scheduler, an_object("Quota", "q", "default", open=False))
    event_handlers.pod_seen(scheduler, PodInfo.of(make_pod("b")))
    assert run(scheduler) == []
    seen(scheduler, an_object("Quota", "q", "default", open=True))
    assert len(run(scheduler)) == 1


def test_the_older_of_two_objects_counts_until_it_goes(tmp_path: Path) -> None:
    """Which of two quotas of a namespace counted depended on which came last."""
    scheduler = scheduler_of(tmp_path, filter=[{"expression": OPEN, "message": "shut"}])
    shut, newer = (
        an_object("Quota", "z", "default", age=9, open=False),
        an_object("Quota", "a", "default", age=1, open=True),
    )
    seen(scheduler, newer, shut)
    (problem,) = scheduler.handle.shared(inputs_of).problems.values()
    assert problem.message == "default/z has the key 'default', too, and is older"
    event_handlers.pod_seen(scheduler, PodInfo.of(make_pod("p")))
    assert "shut" in run(scheduler)[0]
    event_handlers.object_gone(scheduler, shut)
    assert scheduler.queue.unschedulable() == []
    assert scheduler.handle.shared(inputs_of).problems == {}


def test_an_object_of_another_type_leaves_what_was_there(tmp_path: Path) -> None:
    """An object that changes its type is told of, and what is in force stays."""
    scheduler = scheduler_of(tmp_path, filter=[{"expression": OPEN, "message": "shut"}])
    seen(scheduler, an_object("Quota", "q", "default", open=False))
    seen(scheduler, an_object("Quota", "q", "default", open="maybe"))
    (problem,) = scheduler.handle.shared(inputs_of).problems.values()
    assert problem.message == "Expected `bool`, got `str` - at `$.spec.open`"
    event_handlers.pod_seen(scheduler, PodInfo.of(make_pod("p")))
    assert "shut" in run(scheduler)[0]
    seen(scheduler, an_object("Quota", "q", "default", open=True))
    assert scheduler.handle.shared(inputs_of).problems == {}


@pytest.mark.parametrize(("count", "fails"), [(3, False), (4, True)])
def test_more_objects_than_stated_fail_the_rule(tmp_path: Path, count: int, fails: bool) -> None:
    """A rule over all objects reads as many as the input states, else it is an error."""
    rule = "inputs.loads.all().size() > 0"
    scheduler = scheduler_of(
        tmp_path, filter=[{"expression": rule, "message": "no", "onError": "Reject"}]
    )
    seen(scheduler, *(an_object("Load", f"l{i}") for i in range(count)))
    event_handlers.pod_seen(scheduler, PodInfo.of(make_pod("p")))
    (said,) = run(scheduler)
    assert ("index out of range" in said) is fails
