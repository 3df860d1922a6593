"""What-ifs: the tables say what they would say, and afterwards what they said before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy_sched.cluster.cache import Cache
from policy_sched.cluster.counts.counts import ROW
from policy_sched.cluster.counts.selector_counts import PodMatch
from policy_sched.cluster.overlay.overlay import WhatIf, WhatIfGuests, WhatIfRows
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.selectors import equality_selector
from policy_sched.testing import make_node, make_pod
from tests.cluster.table_contents import picture

APP = PodMatch(((None, equality_selector({"app": "a"})),), terminating=True)
COLUMNS = [
    ("free", "cpu"), ("requested", "memory"), ("nonZeroRequested", "cpu"), ("podCount",),
    ("usedPorts",),
]  # fmt: skip
POD_COLUMNS = [
    ("request", "cpu"), ("request", "memory"), ("nonZeroAdded", "cpu"), ("hostPorts",),
]  # fmt: skip
PODS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["", "100m", "1", "2500m"]),
        st.sampled_from([(), (80,), (80, 443)]),
        st.sampled_from([{}, {"app": "a"}, {"app": "b"}]),
    ),
    min_size=1,
    max_size=9,
)


def pod_of(number: int, cpu: str, ports: tuple[int, ...], labels: dict[str, str]) -> PodInfo:
    requests = {"cpu": cpu} if cpu else {}
    return PodInfo.of(make_pod(f"p{number}", requests=requests, host_ports=ports, labels=labels))


def cache_of(pods: list[PodInfo], rows: list[int]) -> Cache:
    """Return three nodes, with columns and a selector that are in use."""
    cache = Cache()
    for index in range(3):
        cache.add_node(make_node(f"n{index}", labels={"zone": f"z{index % 2}"}))
    for column in COLUMNS:
        cache.nodes.column(column)
    for key in POD_COLUMNS:
        cache.pods.column(key)
    cache.counts.selected.of(APP).by(cache.counts.domains.of("zone"))
    cache.counts.selected.of(APP).by(cache.counts.domains.of(ROW))
    for pod, row in zip(pods, rows, strict=True):
        cache.assume(pod, f"n{row}")
    return cache


@settings(max_examples=100, deadline=None)
@given(PODS, st.lists(st.integers(0, 8), max_size=12))
def test_pods_come_and_go_and_nothing_is_left(
    drawn: list[tuple[int, str, tuple[int, ...], dict[str, str]]], moves: list[int]
) -> None:
    """Inside, the tables equal those of a cluster that really is so; outside, nothing changed.

    A host port is free as soon as one of the pods that hold it has gone.
    """
    pods = [pod_of(number, *rest) for number, (_, *rest) in enumerate(drawn)]
    rows = [row for row, *_ in drawn]
    cache = cache_of(pods, rows)
    before = picture(cache)
    here = set(range(len(pods)))
    guest = pod_of(99, "1", (443,), {"app": "a"})
    held = [
        {port for pod, at in zip(pods, rows, strict=True) if at == row for port in pod.host_ports}
        for row in range(3)
    ]
    with WhatIf(cache) as what_if:
        for move in moves:
            index = move % len(pods)
            if index in here:
                what_if.remove(rows[index], pods[index])
                held[rows[index]].difference_update(pods[index].host_ports)
            else:
                what_if.add(rows[index], pods[index])
                held[rows[index]].update(pods[index].host_ports)
            here ^= {index}
        what_if.add(1, guest)
        held[1].update(guest.host_ports)
        real = cache_of([pods[i] for i in sorted(here)], [rows[i] for i in sorted(here)])
        real.assume(guest, "n1")
        for column in COLUMNS[:-1]:
            np.testing.assert_array_equal(
                cache.nodes.column(column).values[:3], real.nodes.column(column).values[:3]
            )
        for row in range(3):
            ours = cache.nodes
            assert cache.nodes.pods_on(row).keys() == real.nodes.pods_on(row).keys()
            used = ours.port_sets.members(ours.column(("usedPorts",)).values.item(row))
            assert set(used) == held[row]
        assert cache.counts.selected.of(APP).by_row == real.counts.selected.of(APP).by_row
        assert cache.nodes.total_requested("cpu") == real.nodes.total_requested("cpu")
    guest.node_name = ""
    assert picture(cache) == before


def test_an_exception_leaves_nothing_behind() -> None:
    """Whatever is raised inside, the tables are as before."""
    pod = pod_of(0, "1", (80,), {"app": "a"})
    cache = cache_of([pod], [0])
    before = picture(cache)

    def broken() -> None:
        with WhatIf(cache) as what_if:
            what_if.remove(0, pod)
            raise RuntimeError("a filter broke")

    def broken_rows() -> None:
        block = np.array([[cache.pod_row(pod.uid)]], np.intp)
        with WhatIfRows(cache, np.array([0], np.intp), block) as what_if:
            what_if.remove_all()
            raise RuntimeError("a filter broke")

    for case in (broken, broken_rows):
        with pytest.raises(RuntimeError):
            case()
        assert picture(cache) == before


@settings(max_examples=100, deadline=None)
@given(PODS, st.data())
def test_many_rows_at_once_equal_one_after_the_other(
    drawn: list[tuple[int, str, tuple[int, ...], dict[str, str]]], data: st.DataObject
) -> None:
    """A block of pods that goes and comes line by line leaves the columns that WhatIf leaves."""
    pods = [pod_of(number, *rest) for number, (_, *rest) in enumerate(drawn)]
    rows = [row for row, *_ in drawn]
    cache = cache_of(pods, rows)
    before = picture(cache)
    chosen = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True))
    columns = [[cache.pod_row(p.uid) for p, r in zip(pods, rows, strict=True) if r == row]
               for row in chosen]  # fmt: skip
    depth = max(map(len, columns))
    block = np.array([c + [-1] * (depth - len(c)) for c in columns], np.intp)
    block = block.T.reshape(depth, len(chosen))
    some = st.lists(st.integers(0, depth - 1), max_size=3, unique=True) if depth else st.just([])
    lines = data.draw(some)
    lost = data.draw(st.lists(st.integers(0, len(chosen) - 1), max_size=3, unique=True))
    infos = cache.pods.infos

    def steps() -> None:
        """Take all pods off, put lines back, and take some of the last line off again."""
        with WhatIf(cache) as one:
            for line, place, move in (
                *(
                    (line, place, one.remove)
                    for line in range(depth)
                    for place in range(len(chosen))
                ),
                *((line, place, one.add) for line in lines for place in range(len(chosen))),
                *((lines[-1], place, one.remove) for place in lost if lines),
            ):
                pod = infos[block[line, place]] if block[line, place] >= 0 else None
                if pod is not None:
                    move(chosen[place], pod)
            expected.update(_seen(cache))

    expected: dict[str, object] = {}
    steps()
    with WhatIfRows(cache, np.array(chosen, np.intp), block) as many:
        many.remove_all()
        for line in lines:
            many.put_back(line, None if line % 2 else np.arange(len(chosen)))
        if lines:
            many.remove(lines[-1], np.array(sorted(lost), np.intp))
        assert _seen(cache) == expected
    assert picture(cache) == before


@settings(max_examples=60, deadline=None)
@given(PODS, PODS)
def test_guests_on_many_rows_equal_one_after_the_other(
    running: list[tuple[int, str, tuple[int, ...], dict[str, str]]],
    coming: list[tuple[int, str, tuple[int, ...], dict[str, str]]],
) -> None:
    """Guests on full or emptied rows leave the columns that WhatIf leaves."""
    pods = [pod_of(number, *rest) for number, (_, *rest) in enumerate(running)]
    cache = cache_of(pods, [row for row, *_ in running])
    before = picture(cache)
    guests: dict[int, list[PodInfo]] = {}
    for number, (row, *rest) in enumerate(coming):
        guests.setdefault(row, []).append(pod_of(100 + number, *rest))
    gone = [(row, pod) for pod, (row, *_) in zip(pods, running, strict=True) if row == 0]
    block = np.array([[cache.pod_row(pod.uid)] for _, pod in gone], np.intp).reshape(-1, 1)
    for emptied in (False, True):
        with WhatIf(cache) as one:
            for row, pod in gone if emptied else ():
                one.remove(row, pod)
            for row, others in guests.items():
                for other in others:
                    one.add(row, other)
            expected = _seen(cache)
        rows = np.array([0] if emptied else [], np.intp)
        with WhatIfRows(cache, rows, block[:, : rows.size]) as many:
            many.remove_all()
            emptied_rows = _seen(cache)
            with WhatIfGuests(cache, guests) as what_if:
                assert what_if.rows.tolist() == list(guests)
                assert _seen(cache) == expected
            assert _seen(cache) == emptied_rows
        assert picture(cache) == before


def _seen(cache: Cache) -> dict[str, object]:
    nodes = cache.nodes
    found: dict[str, object] = {
        str(key): nodes.column(key).values[: nodes.n].tolist() for key in COLUMNS
    }
    found["pods"] = [set(nodes.pods_on(row)) for row in range(nodes.n)]
    found["total"] = nodes.total_requested("cpu")
    return found
