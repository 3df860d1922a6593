"""Events that policies state: which ones retry a pod, and that the default ones are upstream's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from policy_sched.errors import PolicyError
from policy_sched.model import DeviceClass, Node, PodInfo, QueuedPod
from policy_sched.queue.changes import node_changes
from policy_sched.queue.hints import HintTable, Strategy
from policy_sched.scheduler.setup import build
from policy_sched.testing import make_node, make_pod

#: What kube-scheduler 1.36 registers (EventsToRegister of each plugin, with the event that
#: buildQueueingHintMap adds for those that wait for new nodes), by plugin.
UPSTREAM = {
    "SchedulingGates": {"PodUpdatePodSchedulingGatesEliminated"},
    "NodeUnschedulable": {"NodeAdd", "NodeUpdateNodeTaint", "PodUpdatePodToleration"},
    "NodeName": {"NodeAdd", "NodeUpdateNodeTaint"},
    "TaintToleration": {"NodeAdd", "NodeUpdateNodeTaint", "PodUpdatePodToleration"},
    "NodeAffinity": {"NodeAdd", "NodeUpdateNodeLabel", "NodeUpdateNodeTaint"},
    "NodePorts": {"NodeAdd", "NodeUpdateNodeTaint", "PodDelete"},
    "NodeResourcesFit": {
        *("NodeAdd", "NodeUpdateNodeAllocatable", "NodeUpdateNodeTaint", "PodDelete"),
        *("PodUpdatePodScaleDown", "resource.k8s.io/DeviceClassAdd"),
        "resource.k8s.io/DeviceClassUpdate",
    },
    "InterPodAffinity": {
        *("NodeAdd", "NodeUpdateNodeLabel", "NodeUpdateNodeTaint"),
        *("PodAdd", "PodDelete", "PodUpdatePodLabel"),
    },
    "PodTopologySpread": {
        *("NodeAdd", "NodeDelete", "NodeUpdateNodeLabel", "NodeUpdateNodeTaint"),
        *("PodAdd", "PodDelete", "PodUpdatePodLabel", "PodUpdatePodToleration"),
    },
    "VolumeRestrictions": {
        *("NodeAdd", "NodeUpdateNodeTaint", "AssignedPodDelete", "PersistentVolumeClaimAdd"),
    },
}


def registered() -> dict[str, set[str]]:
    """Return the events of the default profile, one by one, by plugin."""
    (plugins,) = build().queue.hints.registered.values()
    found: dict[str, set[str]] = {}
    for plugin, events in plugins.items():
        for one in events:
            # What happens to other kinds than nodes and pods has no parts.
            of_parts = one.event.resource.value in ("Node", "Pod", "AssignedPod")
            actions = list(one.event.action) if of_parts else [one.event.action]
            labels = {type(one.event)(one.event.resource, action).label for action in actions}
            found.setdefault(plugin, set()).update(labels)
    return found


@pytest.mark.parametrize("plugin", UPSTREAM)
def test_default_plugins_register_kube_schedulers_events(plugin: str) -> None:
    """Pods were tried again at other times than by kube-scheduler: events were derived."""
    assert registered()[plugin] == UPSTREAM[plugin]


def hints(tmp_path: Path, requeue: dict[str, Any]) -> HintTable:
    """Return the hints of a policy that rejects every pod."""
    policy = {
        "apiVersion": "policysched.dev/v1alpha1",
        "kind": "Policy",
        "metadata": {"name": "Never"},
        "spec": {"filter": [{"expression": "node.ready"}], "requeue": requeue},
    }
    path = tmp_path / "policy.yaml"
    path.write_text(yaml.safe_dump(policy))
    return build(policies=[str(path)]).queue.hints


def strategy(table: HintTable, pod: PodInfo, old: Node, new: Node) -> Strategy:
    """Return what a change of a node means for a pod that the policy rejected."""
    queued = QueuedPod(pod, rejected_by=frozenset({"Never"}))
    return max(table.judge(queued, event, old, new) for event in node_changes(old, new))


SSD = make_node(labels={"disk": "ssd"})
POD = PodInfo.of(make_pod("p"))
WANTS_SSD = 'event.newNode.value().labels[?"disk"] == optional.of("ssd")'


def test_only_stated_events_retry_a_pod(tmp_path: Path) -> None:
    """A pod that a policy rejected was tried again whenever something changed that it reads."""
    table = hints(tmp_path, {"events": [{"kind": "Node", "actions": ["UpdateNodeLabel"]}]})
    assert strategy(table, POD, make_node(), SSD) is Strategy.AFTER_BACKOFF
    assert strategy(table, POD, make_node(), make_node(ready=False)) is Strategy.SKIP


def test_an_event_has_a_hint_of_its_own(tmp_path: Path) -> None:
    """The hint is asked with the node before and after."""
    event = {"kind": "Node", "actions": ["UpdateNodeLabel"], "hint": WANTS_SSD}
    table = hints(tmp_path, {"events": [event]})
    assert strategy(table, POD, make_node(), SSD) is Strategy.AFTER_BACKOFF
    assert strategy(table, POD, SSD, make_node()) is Strategy.SKIP


def test_the_sections_hint_is_that_of_events_without_one(tmp_path: Path) -> None:
    """A hint beside events does not make every event count."""
    event = {"kind": "Node", "actions": ["UpdateNodeLabel"]}
    table = hints(tmp_path, {"events": [event], "hint": WANTS_SSD})
    assert strategy(table, POD, make_node(), SSD) is Strategy.AFTER_BACKOFF
    assert strategy(table, POD, SSD, make_node()) is Strategy.SKIP
    assert strategy(table, POD, make_node(), make_node(ready=False)) is Strategy.SKIP


def test_no_events_leave_the_timer(tmp_path: Path) -> None:
    """``events: []`` waits for nothing but the time."""
    table = hints(tmp_path, {"events": [], "every": "1m"})
    assert strategy(table, POD, make_node(), SSD) is Strategy.SKIP
    queued = QueuedPod(POD, rejected_by=frozenset({"Never"}))
    assert table.retry_at(queued, 5) == 5 + 60 * 10**9


def test_one_run_of_a_hint_holds_for_pods_that_it_cannot_distinguish(tmp_path: Path) -> None:
    """An event on a node evaluated the hint for each of thousands of equal pods."""
    event = {"kind": "Node", "actions": ["UpdateNodeLabel"], "hint": WANTS_SSD}
    table = hints(tmp_path, {"events": [event]})
    pods = [PodInfo.of(make_pod(f"p{i}")) for i in range(3)]
    queued = [QueuedPod(pod, rejected_by=frozenset({"Never"})) for pod in pods]
    (label,) = node_changes(make_node(), SSD)
    assert len(list(table.judge_group(queued, label, make_node(), SSD))) == 3
    assert sum(table.results.values()) == 1


@pytest.mark.parametrize(
    ("spec", "resources", "retried"),
    [
        ({"extendedResourceName": "example.com/gpu"}, {"example.com/gpu": "1"}, True),
        ({"extendedResourceName": "example.com/gpu"}, {"example.com/fpga": "1"}, False),
        ({}, {"deviceclass.resource.kubernetes.io/gpus": "1"}, True),
    ],
)
def test_a_device_class_that_serves_a_resource_retries_its_pods(
    spec: dict[str, str], resources: dict[str, str], retried: bool
) -> None:
    """NodeResourcesFit's hint reads which resources the class serves now."""
    new = msgspec.convert({"metadata": {"name": "gpus"}, "spec": spec}, DeviceClass)
    pod = PodInfo.of(make_pod("p", requests=resources))
    queued = QueuedPod(pod, rejected_by=frozenset({"NodeResourcesFit"}))
    table = build().queue.hints
    (plugins,) = table.registered.values()
    event = next(
        one.event
        for one in plugins["NodeResourcesFit"]
        if one.event.label == "resource.k8s.io/DeviceClassAdd"
    )
    found = table.judge(queued, event, None, new)
    assert found is (Strategy.AFTER_BACKOFF if retried else Strategy.SKIP)


def test_an_update_of_another_kind_is_refused(tmp_path: Path) -> None:
    """An event that never happens would leave the pod waiting for ever."""
    with pytest.raises(PolicyError, match="UpdateNodeLabel happens to kind Node, not to Pod"):
        hints(tmp_path, {"events": [{"kind": "Pod", "actions": ["UpdateNodeLabel"]}]})
