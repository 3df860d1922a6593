"""The node table: columns on demand, kept up to date."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from policy_sched.cluster.cache import Cache
from policy_sched.cluster.tables.journal import DYNAMIC, STATIC, STRUCTURE
from policy_sched.cluster.tables.node_table import NodeTable
from policy_sched.cluster.tables.schema import MAX_SUM, Key
from policy_sched.model.cluster_objects import Node
from policy_sched.model.meta import Taint
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.quantity import MAX_UNITS
from policy_sched.testing import make_node, make_pod


def table(*nodes: Node) -> NodeTable:
    """Return a table with these nodes on rows 0, 1, ..."""
    made = NodeTable()
    for node in nodes:
        made.add_node(node)
    return made


def changed(nodes: NodeTable, row: int, node: Node) -> int:
    """Update the node of a row and return the union of the changes in the journal."""
    version = nodes.journal.version
    nodes.update_node(row, node)
    changes = nodes.journal.since(version)
    assert changes is not None
    return changes.kind


class TestColumns:
    """What a column holds."""

    def test_labels_are_codes(self) -> None:
        """A label is a code: 0 where it is missing, not where it is empty."""
        nodes = table(
            make_node("a", labels={"zone": "z"}),
            make_node("b"),
            make_node("c", labels={"zone": ""}),
        )
        codes = nodes.column(("label", "zone")).values[: nodes.n].tolist()
        assert codes == [nodes.strings.find("z"), 0, nodes.strings.find("")]

    def test_fields_are_never_missing(self) -> None:
        """A field that the node does not say is the empty string, which has a code."""
        nodes = table(make_node("a"))
        assert nodes.column(("field", "osImage")).view[0] == nodes.strings.find("") != 0

    def test_taints_are_sets(self) -> None:
        """Nodes with the same taints share a set id; no taints is set 0."""
        taint = Taint(key="a", value="b", effect="NoSchedule")
        nodes = table(
            make_node("a", taints=(taint,)), make_node("b", taints=(taint,)), make_node("c")
        )
        ids = nodes.column(("taints",)).values[: nodes.n]
        assert ids.dtype == np.intp
        assert ids[0] == ids[1] != 0
        assert ids[2] == 0
        assert nodes.taint_sets.members(int(ids[0])) == (taint,)

    def test_amounts_are_in_scheduler_units(self) -> None:
        """Cpu counts in milli, others in one; absent and explicit zero differ in presence only."""
        nodes = table(make_node("a", cpu="1500m", memory="1Ki", resources={"x.y/z": 0}))
        for resource, amount in (("cpu", 1500), ("memory", 1024), ("x.y/z", 0), ("x.y/no", 0)):
            assert nodes.column(("allocatable", resource)).view[0] == amount
        assert nodes.column(("allocatable?", "x.y/z")).view[0]
        assert not nodes.column(("allocatable?", "x.y/no")).view[0]

    def test_amounts_are_capped(self) -> None:
        """More than MAX_UNITS counts as that, so arithmetic on columns cannot overflow."""
        nodes = table(make_node("a", memory="9E"))
        assert nodes.column(("allocatable", "memory")).view[0] == MAX_UNITS

    def test_amounts_are_exact_above_2_to_the_53(self) -> None:
        """A node with 2^53 + 1 bytes had no room for a pod that asked for just that."""
        nodes = table(make_node("a", memory=2**53 + 3))
        free = nodes.column(("free", "memory"))
        for i, amount in enumerate((2**53 + 1, 1, 1)):
            nodes.add_pod(0, PodInfo.of(make_pod(f"p{i}", memory=amount)))
        assert free.view[0] == 0
        assert nodes.column(("requested", "memory")).view[0] == 2**53 + 3

    def test_sums_stay_within_64_bits(self) -> None:
        """Pods that ask for 8Ei each do not overflow a column, and give back what they took."""
        nodes = table(make_node("a", memory="8Ei"), make_node("b", memory="8Ei"))
        requested, free = (nodes.column((name, "memory")) for name in ("requested", "free"))
        pods = [PodInfo.of(make_pod(f"p{i}", memory="8Ei")) for i in range(4)]
        for pod in pods:
            nodes.add_pod(0, pod)
        assert (requested.view[0], free.view[0]) == (MAX_UNITS, 0)
        assert nodes.total_allocatable("memory") == MAX_SUM
        for pod in pods:
            nodes.remove_pod(0, pod)
        assert (requested.view[0], free.view[0]) == (0, MAX_UNITS)

    def test_free_is_below_zero_where_a_requested_resource_is_not_allocatable(self) -> None:
        """A resource that the node does not have is free below zero once a pod requests it."""
        nodes = table(make_node("a"))
        nodes.add_pod(0, PodInfo.of(make_pod(requests={"x.y/z": 2})))
        assert nodes.column(("free", "x.y/z")).view[0] == -2

    def test_readiness_and_creation_time_are_columns(self) -> None:
        """Readiness is the Ready condition; a creation time is nanoseconds, 0 if not said."""
        nodes = table(make_node("a", ready=False), make_node("b"))
        assert nodes.column(("ready",)).values[:2].tolist() == [False, True]
        assert nodes.column(("creationTime",)).values[:2].tolist() == [0, 0]

    def test_a_late_column_equals_an_early_one(self) -> None:
        """It does not matter whether a column was asked for before or after nodes and pods came."""
        keys: list[Key] = [("requested", "cpu"), ("free", "cpu"), ("nonZeroRequested", "memory")]
        early, late = NodeTable(), NodeTable()
        for key in keys:
            early.column(key)
        for made in (early, late):
            made.add_node(make_node("a", cpu="2"))
            made.add_pod(0, PodInfo.of(make_pod(cpu="3")))
        for key in keys:
            assert early.column(key).values.tolist() == late.column(key).values.tolist()


class TestRows:
    """Where nodes are."""

    def test_freed_rows_are_reused(self) -> None:
        """A removed node's row holds zeros, then the next node."""
        nodes = table(make_node("a", labels={"zone": "z"}), make_node("b"))
        zone = nodes.column(("label", "zone"))
        nodes.remove_node(0)
        assert (nodes.n, nodes.live_count, zone.view[0], nodes.names[0]) == (2, 1, 0, "")
        assert nodes.add_node(make_node("c")) == 0
        assert nodes.row_of == {"b": 1, "c": 0}

    def test_growth_keeps_values(self) -> None:
        """Growing replaces the arrays and keeps what they hold, in views too."""
        nodes = NodeTable()
        cpu = nodes.column(("allocatable", "cpu"))
        before = cpu.values
        for number in range(100):
            nodes.add_node(make_node(f"n{number}", cpu=number))
        assert cpu.values is not before
        assert cpu.values[:100].tolist() == [1000 * number for number in range(100)]
        assert cpu.view.tolist() == cpu.values.tolist()
        assert nodes.live.values.sum() == 100


class TestChanges:
    """What an update is worth."""

    def test_a_heartbeat_is_nothing(self) -> None:
        """What no decision can see is not in the journal, and no version rises."""
        nodes = table(make_node("a"))
        static = nodes.journal.nodes_version
        newer = make_node("a")
        newer.metadata.resource_version = "2"
        assert changed(nodes, 0, newer) == 0
        assert nodes.journal.nodes_version == static
        assert nodes.nodes[0] is newer

    def test_a_changed_label_is_a_static_change_of_one_column(self) -> None:
        """A changed label is a STATIC change, and the version of its column alone rises."""
        nodes = table(make_node("a", labels={"zone": "x"}))
        zone, other = nodes.column(("label", "zone")), nodes.column(("label", "other"))
        versions = zone.version, other.version
        assert changed(nodes, 0, make_node("a", labels={"zone": "y"})) == STATIC
        assert zone.version > versions[0]
        assert other.version == versions[1]

    def test_a_changed_allocatable_is_a_dynamic_change_where_free_is_a_column(self) -> None:
        """A changed allocatable is STATIC, and DYNAMIC too where free is a column."""
        nodes = table(make_node("a", cpu="1"))
        assert changed(nodes, 0, make_node("a", cpu="2")) == STATIC
        free = nodes.column(("free", "cpu"))
        assert changed(nodes, 0, make_node("a", cpu="3")) == STATIC | DYNAMIC
        assert free.view[0] == 3000

    def test_a_changed_number_of_nodes_with_an_image_concerns_every_row(self) -> None:
        """A change of a watched image's node count concerns every row, hence STRUCTURE."""
        nodes = table(make_node("a", images={"i": 5}), make_node("b"))
        assert changed(nodes, 1, make_node("b", images={"j": 5})) == STATIC
        assert (nodes.image_nodes("i"), nodes.image_nodes("j")) == (1, 1)
        assert changed(nodes, 1, make_node("b", images={"i": 5})) == STATIC | STRUCTURE
        assert (nodes.image_nodes("i"), nodes.image_nodes("j")) == (2, 0)


class TestImages:
    """Image states."""

    def test_size_is_the_first_report(self) -> None:
        """As upstream: all nodes share the size that the first said, until none has the image."""
        nodes = table(make_node("a", images={"i": 5}), make_node("b", images={"i": 7}))
        size = nodes.column(("imageSize", "i"))
        assert size.values[:2].tolist() == [5, 5]
        nodes.remove_node(0)
        assert size.values[:2].tolist() == [0, 5]
        nodes.update_node(1, make_node("b", images={"i": 9}))
        assert size.values[:2].tolist() == [0, 9]

    def test_images_that_no_node_has_are_one_column(self) -> None:
        """A pod with 6,000 images took 14 s on 5,000 nodes, and 40 kB for each image."""
        nodes = table(make_node("a", images={"i": 5}), make_node("b"))
        before = len(nodes.materialised)
        size = nodes.lookup(("imageSize", "x"))
        assert size is nodes.lookup(("imageSize", "y"))
        assert (size.view[:2].tolist(), len(nodes.materialised)) == ([0, 0], before)
        assert changed(nodes, 1, make_node("b", images={"x": 7})) == STATIC | STRUCTURE
        assert nodes.lookup(("imageSize", "x")).view[:2].tolist() == [0, 7]
        assert nodes.lookup(("imagePresent", "y")).view[:2].tolist() == [0, 0]

    def test_the_last_node_with_an_image_is_believed_when_it_reports_again(self) -> None:
        """Even if it says what it said before, while another's word counted; then no more."""
        nodes = table(make_node("a", images={"i": 5}), make_node("b", images={"i": 7}))
        size = nodes.column(("imageSize", "i"))
        nodes.remove_node(0)
        assert size.view[1] == 5
        assert changed(nodes, 1, make_node("b", images={"i": 7})) & STATIC
        assert size.view[1] == 7
        before = nodes.journal.version
        nodes.update_node(1, make_node("b", images={"i": 7}))
        assert nodes.journal.version == before

    def test_an_image_is_found_under_each_of_its_names(self) -> None:
        """An image is found under each of its names."""
        node = msgspec.convert(
            {
                "metadata": {"name": "a"},
                "status": {"images": [{"names": ["i:v1", "i@sha"], "sizeBytes": 5}]},
            },
            Node,
        )
        nodes = table(node)
        for name in ("i:v1", "i@sha"):
            assert nodes.image_nodes(name) == 1
            assert nodes.column(("imagePresent", name)).view[0]


class TestPorts:
    """Used host ports."""

    def test_a_port_held_twice_is_freed_once_both_are_gone(self) -> None:
        """Two bound pods may hold the same port; it is used until the last of them goes."""
        cache = Cache()
        cache.add_node(make_node("n"))
        pods = [PodInfo.of(make_pod(name, host_ports=(80,), node_name="n")) for name in ("p", "q")]
        used = cache.nodes.column(("usedPorts",))
        for pod in pods:
            cache.add_pod(pod)
        cache.remove_pod(pods[0])
        assert cache.nodes.port_sets.members(used.view[0]) == pods[1].host_ports
        cache.remove_pod(pods[1])
        assert used.view[0] == 0


@pytest.mark.parametrize("count", [0, 3])
def test_totals_are_sums(count: int) -> None:
    """Totals are over live nodes, up to date after every change."""
    cache = Cache()
    for number in range(count):
        cache.add_node(make_node(f"n{number}", cpu="2"))
        cache.assume(PodInfo.of(make_pod(f"p{number}", cpu="1")), f"n{number}")
        cache.nodes.total_requested("cpu")
    assert cache.nodes.total_allocatable("cpu") == 2000 * count
    assert cache.nodes.total_requested("cpu") == 1000 * count
    assert cache.nodes.pod_total == count
    assert list(cache.nodes.pods_on(0)) == ["default/p0"] if count else cache.nodes.n == 0
