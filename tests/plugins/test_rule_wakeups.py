"""No lost wake-ups: whatever a filter reads, the pod is retried once a node would fit.

Point 6 of the language's test plan: random rules, random clusters, random sequences of events.
"""

from __future__ import annotations

import copy
from typing import Final

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from policy_sched.client.memory import MemoryClient
from policy_sched.cluster.cache import Cache
from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.handle import Handle
from policy_sched.framework.waiting_pods import WaitingPods
from policy_sched.language.check.policy import check_policy
from policy_sched.language.compile import compile_policy
from policy_sched.language.diagnostics import PolicySource, Rule, Text
from policy_sched.model import cluster_event
from policy_sched.model.cluster_objects import Namespace
from policy_sched.model.pod_info import PodInfo
from policy_sched.plugins.rules.plugin import rule_plugin
from policy_sched.queue.changes import node_changes, pod_changes
from policy_sched.queue.nominator import Nominator
from policy_sched.testing import make_pod
from tests.examples import scaled
from tests.language.strategies import PARAMS, nodes, pods, rules

NAMES: Final = ("n0", "n1", "n2")
NODE_DELETE: Final = cluster_event.ClusterEvent(
    cluster_event.EventResource.NODE, cluster_event.ActionType.DELETE
)
NAMESPACE: Final = cluster_event.EventResource.NAMESPACE
#: An event with the object before and after it.
Reported = tuple[cluster_event.ClusterEvent, object, object]
QUIET: Final = settings(deadline=None, suppress_health_check=list(HealthCheck))


class Watched:
    """A cluster, and the plugin of a policy with one filter rule over it."""

    def __init__(self, rule: str) -> None:
        source = PolicySource(
            "Rules", params=PARAMS, filter=(Rule(Text(rule), "no"),), cost_limit=10**6
        )
        checked, _ = check_policy(source)
        policy = None if checked is None else compile_policy(checked)[0]
        assume(policy is not None)
        assert policy is not None
        self.cache = Cache()
        handle = Handle(self.cache, WaitingPods(), Nominator(), MemoryClient(), lambda: 0)
        self.plugin = rule_plugin(policy, handle, "default")

    def feasible(self, pod: PodInfo) -> set[str]:
        """Return the nodes that pass the rule."""
        table = self.cache.nodes
        codes = self.plugin.filter(CycleState(), pod, None, table).codes  # type: ignore[attr-defined]
        passed = np.zeros(table.n) if codes is None else codes
        return {name for name, row in table.row_of.items() if not passed[row]}

    def wakes(self, pod: PodInfo, reported: list[Reported]) -> bool:
        """Return whether the plugin queues the pod after some events."""
        return any(
            one.event.covers(event)
            and (one.hint is None or one.hint(pod, old, new) is cluster_event.QueueingHint.QUEUE)
            for event, old, new in reported
            for one in self.plugin.events_to_register()  # type: ignore[attr-defined]
        )

    def happen(self, data: st.DataObject) -> list[Reported]:
        """Apply a change; return its events, once it is in the cache."""
        kinds = ("node", "node", "node gone", "pod", "pod gone", "pod changed", "namespace")
        cache, table = self.cache, self.cache.nodes
        kind = data.draw(st.sampled_from(kinds))
        if kind == "node":
            node = data.draw(nodes(data.draw(st.sampled_from(NAMES))))
            row = table.row_of.get(node.metadata.name)
            old = None if row is None else copy.deepcopy(table.nodes[row])
            cache.add_node(node)
            if old is None:
                return [(cluster_event.NODE_ADD, None, node)]
            return [(event, old, node) for event in node_changes(old, node)]
        if kind == "namespace":
            labels = data.draw(st.sampled_from([{}, {"tenant": "a"}, {"tenant": "b"}]))
            name = data.draw(st.sampled_from(["a", "b", "default"]))
            found = Namespace(metadata=make_pod(name, labels=labels).metadata)
            action = (
                cluster_event.UPDATE if name in table.namespaces else cluster_event.ActionType.ADD
            )
            old_namespace = table.namespaces.get(name)
            cache.set_namespace(found)
            return [(cluster_event.ClusterEvent(NAMESPACE, action), old_namespace, found)]
        if kind == "pod":
            place = data.draw(st.sampled_from(sorted(table.row_of)))
            pod = PodInfo.of(data.draw(pods(f"bound{data.draw(st.integers(0, 5))}", place)))
            if cache.pod(pod.uid) is not None:
                return []
            cache.add_pod(pod)
            return [(cluster_event.ASSIGNED_POD_ADD, None, pod)]
        return self._change(kind, data)

    def _change(self, kind: str, data: st.DataObject) -> list[Reported]:
        cache, table = self.cache, self.cache.nodes
        here = [pod for row in table.row_of.values() for pod in table.pods_on(row).values()]
        if kind == "node gone" and len(table.row_of) > 1:
            name, row = data.draw(st.sampled_from(sorted(table.row_of.items())))
            node = table.nodes[row]
            assert node is not None
            gone = [pod for pod in here if pod.node_name == name]
            for pod in gone:
                cache.remove_pod(pod)
            cache.remove_node(node)
            return [
                *((cluster_event.ASSIGNED_POD_DELETE, p, None) for p in gone),
                (NODE_DELETE, node, None),
            ]
        if not here or kind == "node gone":
            return []
        pod = data.draw(st.sampled_from(here))
        if kind == "pod gone":
            cache.remove_pod(pod)
            return [(cluster_event.ASSIGNED_POD_DELETE, pod, None)]
        changed = copy.deepcopy(pod.pod)
        changed.metadata.labels = data.draw(st.sampled_from([{}, {"app": "a"}, {"a": "b"}]))
        newer = PodInfo.of(changed)
        cache.update_pod(newer)
        return [(event, pod, newer) for event in pod_changes(pod, newer)]


def follow(rule: str, data: st.DataObject) -> None:
    """Watch a pod that no node accepts: when one does, the plugin has queued it."""
    watched = Watched(rule)
    for name in NAMES[:2]:
        watched.cache.add_node(data.draw(nodes(name)))
    raw = data.draw(pods("asked"))
    raw.spec.preemption_policy = "Never"
    requested = PodInfo.of(raw)
    for _ in range(6):
        before = watched.feasible(requested)
        reported = watched.happen(data)
        if not before and (found := watched.feasible(requested)):
            assert watched.wakes(requested, reported), (rule, reported, found)


@settings(QUIET, max_examples=scaled(80))
@given(rules("filter", 2), st.data())
def test_a_pod_that_could_run_is_tried_again(rule: str, data: st.DataObject) -> None:
    """A random rule that rejects all nodes queues the pod whenever its result changes."""
    follow(rule, data)


#: Rules whose result for one node may depend on others, or that read many fields.
ELSEWHERE: Final = (
    'node.images[?"img:1"].optMap(i, i.numNodes).orValue(0) > 1',
    'domain("zone").podCount > 0',
    'domains("zone").size() > 1',
    'node.images[?"img:1"].optMap(i, i.numNodes).orValue(0) > 1 && node.name == "n0"',
    "cluster.nodeCount > 2",
    'cluster.nodeCount > 2 && node.name == "n0"',
    'cluster.requested["cpu"].sign() > 0',
    'cluster.allocatable.names().exists(r, r == "example.com/gpu")',
    "[node][0].labels.size() > 1",
    '[node].exists(n, n.images[?"plain"].optMap(i, i.numNodes).orValue(0) > 1)',
    'namespaceObject.labels[?"tenant"].orValue("") == "a"',
    'node.pods.exists(p, p.labels[?"app"].orValue("") == "a")',
    "node.pods.size() > 0 && !node.unschedulable",
    'node.requested["cpu"].sign() > 0 || node.podCount == 2',
    'percent(node.requested["cpu"], node.allocatable["cpu"]) >= 30',
    "node.usedPorts.exists(p, p.port == 80)",
    'node.allocatable["cpu"] / node.requested["cpu"] < 10.0',
)


@pytest.mark.parametrize("rule", ELSEWHERE)
@settings(QUIET, max_examples=scaled(15))
@given(data=st.data())
def test_what_happens_elsewhere_counts(rule: str, data: st.DataObject) -> None:
    """Totals, domains, images and namespaces: their events queue the pod."""
    follow(rule, data)
