"""Random changes to an overlay, and a cache in which they really happened."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from policy_sched.cluster.cache import Cache
from policy_sched.cluster.overlay.amounts import AddedPods
from policy_sched.cluster.tables.pod_table import PodRows
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node

Contents = list[dict[str, PodInfo]]
"""The pods of each row, by uid."""


def contents_of(cache: Cache) -> Contents:
    """Return the pods of each row."""
    return [dict(cache.nodes.pods_on(row)) for row in range(cache.nodes.n)]


def cache_with(cache: Cache, contents: Contents) -> Cache:
    """Return a new cache with the nodes of another one, row by row, and these pods."""
    fresh = Cache()
    for namespace in cache.nodes.namespaces.values():
        fresh.set_namespace(namespace)
    nodes = [node or make_node(f"dead-{row}") for row, node in enumerate(cache.nodes.nodes)]
    for node in nodes:
        fresh.add_node(node)
    for node in nodes:
        if node.metadata.name not in cache.nodes.row_of:
            fresh.remove_node(node)
    for row, pods in enumerate(contents):
        for pod in pods.values():
            fresh.assume(PodInfo.of(pod.pod), cache.nodes.names[row])
    return fresh


def make_changes(
    data: st.DataObject, cache: Cache, guests: list[PodInfo], check: Callable[[Contents], None]
) -> None:
    """Change the overlay in nested blocks; after each change pass what it holds to ``check``.

    ``guests``: pods that run nowhere.
    """
    contents = contents_of(cache)
    with cache.overlay:
        _block_of_pods(data, cache, contents, check)
        _single_pods(data, cache, contents, guests[::2], check)
        before = [dict(pods) for pods in contents]
        with cache.overlay:
            _single_pods(data, cache, contents, guests[1::2], check)
            _many_pods(data, cache, contents, guests, check)
        check(before)


def _single_pods(
    data: st.DataObject,
    cache: Cache,
    contents: Contents,
    guests: list[PodInfo],
    check: Callable[[Contents], None],
) -> None:
    """Remove and add pods, one after the other."""
    rows = sorted(cache.nodes.row_of.values())
    for guest in guests:
        row = data.draw(st.sampled_from(rows))
        if contents[row] and data.draw(st.booleans()):
            pod = data.draw(st.sampled_from(list(contents[row].values())))
            cache.overlay.remove(row, pod)
            del contents[row][pod.uid]
        elif all(guest.uid not in pods for pods in contents):
            cache.overlay.add(row, guest)
            contents[row][guest.uid] = guest
        check(contents)


def _many_pods(
    data: st.DataObject,
    cache: Cache,
    contents: Contents,
    guests: list[PodInfo],
    check: Callable[[Contents], None],
) -> None:
    """Add the remaining guests to rows at once."""
    rows = sorted(cache.nodes.row_of.values())
    added: dict[int, list[PodInfo]] = {}
    for guest in guests:
        if all(guest.uid not in pods for pods in contents):
            row = data.draw(st.sampled_from(rows))
            added.setdefault(row, []).append(guest)
            contents[row][guest.uid] = guest
    cache.overlay.add_all(AddedPods(added))
    check(contents)


def _block_of_pods(
    data: st.DataObject, cache: Cache, contents: Contents, check: Callable[[Contents], None]
) -> None:
    """Remove pods from many rows, and move lines of that block."""
    rows = data.draw(st.lists(st.sampled_from(sorted(cache.nodes.row_of.values())), unique=True))
    columns = [data.draw(st.permutations(list(contents[row].values()))) for row in rows]
    depth = max(map(len, columns), default=0)
    block = np.full((depth, len(rows)), -1, np.intp)
    for place, pods in enumerate(columns):
        block[: len(pods), place] = [cache.pod_row(pod.uid) for pod in pods]
    columns = [pods[: data.draw(st.integers(0, len(pods)))] for pods in columns]
    for place, pods in enumerate(columns):
        for pod in pods:
            del contents[rows[place]][pod.uid]
    sizes = np.array([len(pods) for pods in columns], np.intp)
    gone = PodRows(cache.pods, block).holding(np.arange(depth)[:, np.newaxis] < sizes)
    overlay = cache.overlay
    overlay.remove_block(np.array(rows, np.intp), gone)
    check(contents)
    for step in range(depth):
        if data.draw(st.booleans()):
            continue
        everywhere = data.draw(st.booleans())
        places = [place for place in range(len(rows)) if everywhere or data.draw(st.booleans())]
        overlay.put_back(step, None if everywhere else np.isin(np.arange(len(rows)), places))
        for place in places:
            for pod in columns[place][step : step + 1]:
                contents[rows[place]][pod.uid] = pod
        check(contents)
        lost = [place for place in places if data.draw(st.booleans())]
        overlay.take_off(step, np.isin(np.arange(len(rows)), lost))
        for place in lost:
            for pod in columns[place][step : step + 1]:
                del contents[rows[place]][pod.uid]
    check(contents)
