"""Promises about overlays: they equal a table with their pods, and the table does not change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from policy_sched import thresholds
from policy_sched.cluster.cache import Cache
from policy_sched.cluster.tables.node_view import NodeView
from policy_sched.cluster.tables.pod_table import PodRows
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node, make_pod
from tests.cluster.overlay_changes import Contents, cache_with, make_changes
from tests.cluster.table_contents import picture
from tests.examples import scaled

COLUMNS = [
    ("free", "cpu"), ("requested", "memory"), ("nonZeroRequested", "cpu"), ("podCount",),
    ("requested", "example.com/wide"), ("free", "example.com/wide"), ("allocatable", "cpu"),
]  # fmt: skip
#: Three of these are more than a column holds.
WIDE = str(2**62)
PODS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(["", "100m", "1", "2500m"]),
        st.sampled_from(["0", "0", "0", "7", WIDE]),
    ),
    min_size=1,
    max_size=9,
)


def pod_of(number: int, cpu: str, wide: str) -> PodInfo:
    requests = {"example.com/wide": wide} | ({"cpu": cpu} if cpu else {})
    return PodInfo.of(make_pod(f"p{number}", requests=requests, host_ports=(1000 + number,)))


def cache_of(pods: list[tuple[int, str, str]]) -> Cache:
    """Return four nodes with pods."""
    cache = Cache()
    for index in range(4):
        cache.add_node(make_node(f"n{index}", cpu="4", labels={"zone": f"z{index % 2}"}))
    for number, (row, *rest) in enumerate(pods):
        cache.assume(pod_of(number, *rest), f"n{row}")
    return cache


def seen(nodes: NodeView) -> dict[str, object]:
    """Return what a view holds."""
    found: dict[str, object] = {
        str(key): nodes.lookup(key).values[: nodes.n].tolist() for key in COLUMNS
    }
    ports = nodes.lookup(("usedPorts",)).values[: nodes.n].tolist()
    found["ports"] = [set(nodes.port_sets.members(number)) for number in ports]
    found["pods"] = [set(nodes.pods_on(row)) for row in range(nodes.n)]
    found["total"] = (nodes.total_requested("cpu"), nodes.pod_total)
    return found


def unchanged(cache: Cache, before: dict[str, object]) -> bool:
    """Return whether the tables hold what they held, apart from columns that were created."""
    after = picture(cache)
    return {key: after[key] for key in before} == before


@settings(max_examples=scaled(100), deadline=None)
@given(PODS, PODS, st.data())
def test_an_overlay_equals_a_table_with_its_pods(
    running: list[tuple[int, str, str]], coming: list[tuple[int, str, str]], data: st.DataObject
) -> None:
    """Every column, the pods and the totals; the table stays as it is, byte for byte.

    That also holds for columns that are created while pods are changed, and after the table
    changed between two blocks.
    """
    cache = cache_of(running)
    if data.draw(st.booleans()):
        seen(cache.overlay)
    guests = [pod_of(100 + number, *rest) for number, (_, *rest) in enumerate(coming)]
    late = data.draw(st.integers(0, 3))

    def check(contents: Contents) -> None:
        nonlocal late
        late -= 1
        if late < 0:
            fresh = cache_with(cache, contents)
            assert seen(cache.overlay) == seen(fresh.nodes)
            differences = sorted((sign, pod.uid) for sign, pod, _ in cache.overlay.differences())
            pods = [set(cache.nodes.pods_on(row)) for row in range(cache.nodes.n)]
            there = {uid for row, uids in enumerate(pods) for uid in uids - set(contents[row])}
            new = {uid for row, uids in enumerate(contents) for uid in set(uids) - pods[row]}
            assert differences == sorted([(-1, uid) for uid in there] + [(1, uid) for uid in new])

    for step in range(2):
        seen(cache.nodes)
        before = picture(cache)
        make_changes(data, cache, guests, check)
        assert unchanged(cache, before)
        assert seen(cache.overlay) == seen(cache.nodes)
        _change_the_table(data, cache, step)


def _change_the_table(data: st.DataObject, cache: Cache, step: int) -> None:
    """Add nodes, so that columns may grow, and change pods and nodes."""
    for number in range(data.draw(st.sampled_from([0, 1, 20]))):
        cache.add_node(make_node(f"new-{step}-{number}", cpu="8"))
    cache.assume(pod_of(200 + step, "1", "3"), "n1")
    if data.draw(st.booleans()):
        cache.update_node(make_node("n2", cpu="3"))
    if data.draw(st.booleans()) and "n3" in cache.nodes.row_of:
        cache.remove_node(make_node("n3"))


def test_a_shared_port_is_free_when_one_of_its_pods_is_removed() -> None:
    """As in kube-scheduler's dry runs, which keep a set of ports."""
    cache = Cache()
    cache.add_node(make_node("n0"))
    pods = [PodInfo.of(make_pod(f"p{i}", host_ports=(80,))) for i in range(2)]
    for pod in pods:
        cache.assume(pod, "n0")

    def ports() -> list[int]:
        number = cache.overlay.lookup(("usedPorts",)).values.item(0)
        return [port.port for port in cache.overlay.port_sets.members(number)]

    with cache.overlay as nodes:
        assert ports() == [80]
        nodes.remove(0, pods[0])
        assert ports() == []
    assert ports() == [80]


def test_an_exception_leaves_nothing_behind() -> None:
    """Whatever is raised in a block, its changes are undone."""
    cache = cache_of([(0, "1", "7")])
    pod = next(iter(cache.nodes.pods_on(0).values()))
    before = picture(cache)

    def broken() -> None:
        with cache.overlay as nodes:
            nodes.remove(0, pod)
            raise RuntimeError("a filter broke")

    def broken_block() -> None:
        with cache.overlay as nodes:
            nodes.remove_block(np.array([0], np.intp), PodRows(cache.pods, np.array([[0]])))
            raise RuntimeError("a filter broke")

    for case in (broken, broken_block):
        with pytest.raises(RuntimeError):
            case()
        assert unchanged(cache, before)
        assert seen(cache.overlay) == seen(cache.nodes)


def test_columns_that_the_table_evicted_are_created_again() -> None:
    """A column is up to date after its eviction, whichever view looks it up first."""
    cache = cache_of([(0, "1", "7")])
    key = ("requested", "example.com/wide")
    with cache.overlay as nodes:
        assert nodes.lookup(key).values.item(0) == 7
    cache.nodes.eviction.most = cache.nodes.eviction._due = 1
    for _ in range(2):
        cache.nodes.tidy()
    assert key not in cache.nodes.materialised
    cache.nodes.lookup(("requested", "example.com/new"))
    with cache.overlay as nodes:
        assert key not in nodes._copies  # or names that no pod has any more would be kept
    cache.assume(pod_of(9, "1", "3"), "n0")
    with cache.overlay as nodes:
        assert nodes.lookup(key).values.item(0) == 10
        nodes.add(0, pod_of(10, "", "5"))
        assert nodes.lookup(key).values.item(0) == 15
    assert cache.nodes.lookup(key).values.item(0) == 10


def test_many_rows_that_changed_between_two_blocks_are_followed() -> None:
    """A dry run saw nodes as they were before many of their pods came."""
    cache = Cache()
    for index in range(12):
        cache.add_node(make_node(f"n{index}", cpu="4"))
    seen(cache.nodes)
    with cache.overlay:
        seen(cache.overlay)
    for index in range(thresholds.LOOP_ROWS + 1):
        cache.assume(pod_of(index, "1", "3"), f"n{index}")
    with cache.overlay:
        assert seen(cache.overlay) == seen(cache.nodes)
