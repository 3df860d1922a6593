"""Strings and sets that no node and no pod has any more are given up, and no column changes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from policy_sched.cluster import Cache
from policy_sched.cluster.tables.interning import Strings
from policy_sched.cluster.tables.schema import CODE_UNIT, Key
from policy_sched.model import Node, PodInfo
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled

MANY = 8
NODE_KEYS: list[Key] = [("name",), ("label", "zone"), ("label", "k1"), ("annotation", "note")]
POD_KEYS: list[Key] = [("name",), ("namespace",), ("label", "app"), ("label", "k1")]
LABELS = st.dictionaries(
    st.sampled_from(["zone", "app", "k1", "k2"]), st.integers(0, 10_000).map(str), max_size=3
)
NAMES = st.integers(0, 10_000).map("n{}".format)
TAINTS = st.lists(st.integers(0, 10_000).map("taint-{}:NoSchedule".format), max_size=2)
PORTS = st.lists(st.integers(1, 10_000), max_size=2, unique=True)


def small_cache() -> Cache:
    """Return a cache that looks early for what is not used any more."""
    cache = Cache()
    for table in (cache.nodes, cache.pods):
        table.strings.many = table.strings._due = MANY
    cache.pods.many_labels = cache.pods._labels_due = MANY
    cache.nodes.many_named = cache.nodes._named_due = MANY
    for sets in (cache.nodes.taint_sets, cache.nodes.port_sets):
        sets.many = sets._due = MANY
    cache.nodes.usage.many = cache.nodes.usage._due = MANY
    return cache


def pod_of(name: str, *, node: str, labels: dict[str, str], ports: Sequence[int] = ()) -> PodInfo:
    """Return a pod that is bound to a node and requests a resource of its own."""
    requests = {f"example.com/{name}": 1}
    pod = make_pod(
        name, uid=name, node_name=node, labels=labels, host_ports=ports, requests=requests
    )
    return PodInfo.of(pod)


def texts(cache: Cache) -> dict[object, object]:
    """Return what each column says of each node and pod, codes as texts and ids as sets."""
    found: dict[object, object] = {}
    strings = cache.nodes.strings
    for key in NODE_KEYS:
        values = cache.nodes.lookup(key).values
        for name, row in cache.nodes.row_of.items():
            found["node", name, key] = values[row] != 0, strings.text(int(values[row]))
    for key, sets in (("taints", cache.nodes.taint_sets), ("usedPorts", cache.nodes.port_sets)):
        values = cache.nodes.lookup((key,)).values
        for name, row in cache.nodes.row_of.items():
            found["node", name, key] = sets.members(int(values[row]))
    for key in POD_KEYS:
        values = cache.pods.lookup(key).values
        for row, info in enumerate(cache.pods.infos):
            if info is not None:
                found["pod", info.uid, key] = values[row] != 0, strings.text(int(values[row]))
    return found


def filled(nodes: dict[str, Node], pods: dict[str, PodInfo]) -> Cache:
    """Return a new cache with these nodes and pods."""
    cache = Cache()
    for node in nodes.values():
        cache.add_node(node)
    for pod in pods.values():
        cache.add_pod(pod)
    return cache


class Churn(RuleBasedStateMachine):
    """Nodes and pods come, change and go with any labels, taints and ports."""

    @initialize(columns=st.booleans())
    def start(self, columns: bool) -> None:
        """Begin with columns that are kept up to date, or with none."""
        self.cache = small_cache()
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, PodInfo] = {}
        if columns:
            for key in POD_KEYS:
                self.cache.pods.column(key)
            for key in (*NODE_KEYS, ("taints",)):
                self.cache.nodes.column(key)

    @rule(name=NAMES, labels=LABELS, taints=TAINTS)
    def node_comes_or_changes(self, name: str, labels: dict[str, str], taints: list[str]) -> None:
        """A node comes, or has other labels and taints."""
        self.nodes[name] = make_node(name, labels=labels, taints=taints)
        self.cache.add_node(self.nodes[name])

    @rule(data=st.data())
    def node_goes(self, data: st.DataObject) -> None:
        """A node goes; its pods stay."""
        if self.nodes:
            name = data.draw(st.sampled_from(sorted(self.nodes)))
            self.cache.remove_node(self.nodes.pop(name))

    @rule(data=st.data(), name=NAMES, labels=LABELS, ports=PORTS)
    def pod_comes(
        self, data: st.DataObject, name: str, labels: dict[str, str], ports: list[int]
    ) -> None:
        """A pod comes that is bound to a node, known or not."""
        node = data.draw(st.sampled_from(["unknown", *sorted(self.nodes)]))
        pod = pod_of(name, node=node, labels=labels, ports=ports)
        if pod.uid not in self.pods:
            self.pods[pod.uid] = pod
            self.cache.add_pod(pod)

    @rule(data=st.data(), labels=LABELS, ports=PORTS)
    def pod_changes(self, data: st.DataObject, labels: dict[str, str], ports: list[int]) -> None:
        """A pod has other labels and ports."""
        if self.pods:
            old = self.pods[data.draw(st.sampled_from(sorted(self.pods)))]
            pod = pod_of(old.name, node=old.node_name, labels=labels, ports=ports)
            self.pods[pod.uid] = pod
            self.cache.update_pod(pod)

    @rule(data=st.data())
    def pod_goes(self, data: st.DataObject) -> None:
        """A pod goes."""
        if self.pods:
            uid = data.draw(st.sampled_from(sorted(self.pods)))
            self.cache.remove_pod(self.pods.pop(uid))

    @invariant()
    def columns_are_those_of_a_new_cache(self) -> None:
        """Whatever was given up, each column says the same as one that is filled anew."""
        if hasattr(self, "cache"):
            assert texts(self.cache) == texts(filled(self.nodes, self.pods))
            assert self.cache.check() == []

    @invariant()
    def codes_are_those_of_live_strings(self) -> None:
        """No two strings share a code, and a string that is found has the code of its columns."""
        if not hasattr(self, "cache"):
            return
        strings = self.cache.nodes.strings
        given = strings._codes
        assert len(set(given.values())) == len(given)
        assert all(strings.text(code) == text for text, code in given.items())
        for table in (self.cache.nodes, self.cache.pods):
            for column in table.materialised.values():
                if column.family.unit == CODE_UNIT:
                    held = {0, *given.values()}
                    assert set(np.unique(column.values).tolist()) <= held


Churn.TestCase.settings = settings(max_examples=scaled(60), stateful_step_count=40, deadline=None)
TestChurn = Churn.TestCase


def test_unique_pods_leave_tables_that_are_no_larger() -> None:
    """Thousands of pods with names, labels, resources and ports of their own come and go."""
    cache = small_cache()
    node = make_node("n", labels={"zone": "a"})
    cache.add_node(node)
    for key in POD_KEYS:
        cache.pods.column(key)
    kept = [pod_of(f"kept-{i}", node="n", labels={"app": "x"}) for i in range(10)]
    for pod in kept:
        cache.add_pod(pod)
    for i in range(3_000):
        labels = {"app": f"app-{i}", f"key-{i}": "x", "k1": str(i)}
        pod = pod_of(f"pod-{i}", node="n", labels=labels, ports=[1 + i])
        cache.add_pod(pod)
        cache.remove_pod(pod)
        cache.add_node(node)  # its kubelet reports now and then
    live = 20
    assert len(cache.nodes.strings) <= 2 * live + 10
    assert len(cache.pods._labels) <= 2 * MANY
    assert len(cache.nodes.port_sets.sets) <= 2 * MANY
    assert len(cache.nodes.usage._uncounted | cache.nodes.usage._uncounted_non_zero) <= 3 * live
    assert {cache.nodes.strings.text(int(c)) for c in cache.pods.lookup(("name",)).values[:10]} == {
        pod.name for pod in kept
    }


def test_unique_nodes_leave_tables_that_are_no_larger() -> None:
    """Thousands of nodes of a cloud, each with its own name, labels and taints, come and go."""
    cache = small_cache()
    cache.nodes.column(("label", "zone"))
    cache.nodes.column(("taints",))
    for i in range(3_000):
        labels = {"zone": f"z{i}", f"key-{i}": "x"}
        node = make_node(f"node-{i}", labels=labels, taints=[f"taint-{i}=x:NoSchedule"])
        cache.add_node(node)
        cache.remove_node(node)
    assert len(cache.nodes.strings) <= 3 * MANY
    assert len(cache.nodes._named["label"]) <= 3 * MANY
    assert len(cache.nodes.taint_sets.sets) <= 3 * MANY


def test_a_freed_code_is_given_again() -> None:
    """The empty string keeps its code, and codes at the end are not kept for later."""
    strings = Strings(many=4)
    a, b = strings.code("a"), strings.code("b")
    assert not strings.crowded
    strings.code("c")
    assert strings.crowded
    strings.tidy([np.array([b], np.int32)])
    assert len(strings) == b + 1
    assert strings.find("a") == strings.find("c") == -1
    assert strings.text(strings.find("b")) == "b"
    assert strings.find("") == 1
    assert strings.code("d") == a
    assert strings.code("e") == b + 1
    assert [strings.text(code) for code in (a, b, b + 1)] == ["d", "b", "e"]


def test_what_a_wave_of_names_took_is_given_back() -> None:
    """Many nodes with names and taints of their own, of which few stay."""
    cache = small_cache()
    cache.nodes.column(("taints",))
    wave = [make_node(f"wave-{i}", taints=[f"taint-{i}=x:NoSchedule"]) for i in range(1_000)]
    for node in wave:
        cache.add_node(node)
    assert len(cache.nodes.strings) > 1_000
    for node in wave:
        cache.remove_node(node)
    for i in range(3_000):
        node = make_node(f"node-{i}", taints=[f"taint-{i}=x:NoSchedule"])
        cache.add_node(node)
        cache.remove_node(node)
    assert len(cache.nodes.strings) <= 3 * MANY
    assert len(cache.nodes.taint_sets.sets) <= 3 * MANY
