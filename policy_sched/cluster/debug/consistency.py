"""Recomputes both tables from the nodes and pods they hold and names every difference.

This is the second opinion on the incremental arithmetic of node_table, usage, images and
pod_table, and shares none of it: sums are taken anew, row by row. Tests call it after every step.
The one thing that has a history is the size of an image (see images); its presence is checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from policy_sched.cluster import tables
from policy_sched.cluster.counts import ROW, Counts, PodCounts, TermCounts
from policy_sched.model import AffinityTerm, Node, PodInfo, PodTerms

Amounts = list[tuple[int, int]]
"""Rows and amounts, a row perhaps more than once."""


def count_differences(counts: PodCounts, nodes: tables.NodeTable, held: Held) -> list[str]:
    """Return one sentence per difference between the counts and what they should hold."""
    on = [(nodes.row_of[name], info) for info, name, _ in held.values() if name in nodes.row_of]
    differing: list[str] = []
    for match, kept in counts.selected:
        rows = [
            (row, 1)
            for row, pod in on
            if match.selects(pod) and (match.terminating or not pod.terminating)
        ]
        differing += _differences(f"selected {match.parts}", kept, rows, nodes)
    differing += _carried("anti-affinity", counts.carried.anti_affinity, on, nodes, _anti_affinity)
    differing += _carried("affinity", counts.carried.affinity, on, nodes, _affinity)
    differing += _carried("preferred", counts.carried.preferred, on, nodes, _weights)
    return differing


def _carried(
    name: str,
    kind: TermCounts,
    on: list[tuple[int, PodInfo]],
    nodes: tables.NodeTable,
    read: Callable[[PodTerms], Mapping[AffinityTerm, int]],
) -> Iterator[str]:
    """Compare the terms of one kind with what the pods carry."""
    wanted: dict[AffinityTerm, Amounts] = {carried.term: [] for carried in kind}
    for row, pod in on:
        for term, amount in read(pod.affinity_terms).items():
            wanted.setdefault(term, []).append((row, amount))
    listed = {carried.term: carried.counts for carried in kind}
    for term, amounts in wanted.items():
        yield from _differences(f"{name} {term}", listed.get(term, Counts()), amounts, nodes)
    live = sum(bool(counts.by_row) for counts in listed.values())
    if live != kind.live:
        yield f"{name} has {live} live terms, says {kind.live}"


def _anti_affinity(terms: PodTerms) -> Mapping[AffinityTerm, int]:
    return Counter(terms.anti_affinity)


def _affinity(terms: PodTerms) -> Mapping[AffinityTerm, int]:
    return Counter(terms.affinity)


def _weights(terms: PodTerms) -> Mapping[AffinityTerm, int]:
    weights: Counter[AffinityTerm] = Counter()
    for weight, term in terms.preferred:
        weights[term] += weight
    return weights


def _differences(
    name: str, counts: Counts, amounts: Amounts, nodes: tables.NodeTable
) -> Iterator[str]:
    expected: Counter[int] = Counter()
    for row, amount in amounts:
        expected[row] += amount
    by_row = {row: number for row, number in expected.items() if number}
    if counts.by_row != by_row:
        yield f"{name}: by row {counts.by_row}, should be {by_row}"
    for domain, totals in counts.kept():
        grouped: Counter[str] = Counter()
        for row, number in by_row.items():
            grouped[_count_value(nodes, domain.key, row)] += number
        counted: Counter[str] = Counter()
        for row in nodes.row_of.values():
            counted[_count_value(nodes, domain.key, row)] = int(totals[domain.ids[row]])
        if {k: v for k, v in counted.items() if v} != {k: v for k, v in grouped.items() if v}:
            yield f"{name}: by {domain.key!r} {counted}, should be {grouped}"
        if int(totals.sum()) != sum(by_row.values()):
            yield f"{name}: the totals by {domain.key!r} are {totals}"


def _count_value(nodes: tables.NodeTable, key: str, row: int) -> str:
    """Return the domain of a row in words; a missing label is no value that a label can have."""
    node = nodes.nodes[row]
    assert node is not None, "pods are on live rows"
    return str(row) if key == ROW else node.metadata.labels.get(key, "(missing)")


Held: TypeAlias = Mapping[str, tuple[PodInfo, str, int]]
"""Every pod of the cache by uid: what it is, the name of its node, its row in the pod table."""


def differences(nodes: tables.NodeTable, pods: tables.PodTable, held: Held) -> list[str]:
    """Return one sentence per difference between the tables and what they should hold."""
    return [
        *_structure(nodes),
        *_placement(nodes, held),
        *_node_columns(nodes, held),
        *_images(nodes),
        *_totals(nodes),
        *_pod_rows(nodes, pods, held),
        *_pod_columns(pods),
    ]


def _structure(nodes: tables.NodeTable) -> Iterator[str]:
    """Names, rows and liveness agree."""
    live = {row for row in range(nodes.n) if nodes.nodes[row] is not None}
    if sorted(nodes.row_of.values()) != sorted(live) or nodes.live_count != len(live):
        yield f"row_of has rows {sorted(nodes.row_of.values())}, nodes are on {sorted(live)}"
    for name, row in nodes.row_of.items():
        node = nodes.nodes[row]
        if node is None or node.metadata.name != name or nodes.names[row] != name:
            yield f"row {row} should be node {name}"
    for row in range(nodes.n):
        if bool(nodes.live.view[row]) != (row in live):
            yield f"live[{row}] is wrong"
        if row not in live and (nodes.names[row] or nodes.pods_on(row)):
            yield f"dead row {row} has a name or pods"
    for key, column in nodes.materialised.items():
        if column.values[nodes.n :].any():
            yield f"{key} is not zero beyond the last row"


def _placement(nodes: tables.NodeTable, held: Held) -> Iterator[str]:
    """Every pod is in one place: on its node's row, or a ghost if there is no such node."""
    seen: dict[str, str] = {}
    places = [(name, nodes.pods_on(row)) for name, row in nodes.row_of.items()]
    for name, pods_without_node in nodes.pods_without_node.items():
        if name in nodes.row_of or not pods_without_node:
            yield f"pods without node {name}: the node is known, or there are none"
        places.append((name, pods_without_node))
    for name, infos in places:
        for uid, info in infos.items():
            if uid in seen:
                yield f"pod {uid} is on {seen[uid]} and on {name}"
            seen[uid] = name
            if uid not in held or held[uid][0] is not info:
                yield f"pod {uid} on {name} is not the one that the cache holds"
    expected = {uid: name for uid, (_, name, _) in held.items()}
    if seen != expected:
        yield f"pods are on {seen}, should be on {expected}"


def _node_columns(nodes: tables.NodeTable, held: Held) -> Iterator[str]:
    """Every materialised column holds on every row the values of its node and its pods."""
    on: dict[str, list[PodInfo]] = {}
    for info, name, _ in held.values():
        on.setdefault(name, []).append(info)
    for key, column in nodes.materialised.items():
        for row in range(nodes.n):
            node = nodes.nodes[row]
            value = 0 if node is None else _value(nodes, key, node, on.get(nodes.names[row], []))
            if value is not None and column.values[row] != value:
                yield f"{key}[{row}] is {column.values[row]}, should be {value}"
            if column.view[row] != column.values[row]:
                yield f"{key}: the view is not the array"


def _value(
    nodes: tables.NodeTable, key: tables.Key, node: Node, infos: list[PodInfo]
) -> int | None:
    """Return what a live row should hold, None where history decides."""
    match key:
        case ("live",):
            return 1
        case ("podCount",):
            return len(infos)
        case ("requested", resource):
            return tables.total(i.requests.get(resource, 0) for i in infos)
        case ("nonZeroRequested", resource):
            return tables.total(i.non_zero_added.get(resource, 0) for i in infos)
        case ("free", resource):
            allocatable = _read(nodes, ("allocatable", resource), node)
            return allocatable - (_value(nodes, ("requested", resource), node, infos) or 0)
        case ("deviceAllocatable" | "deviceRequested" as family, resource):
            return nodes.devices.amount(family, resource, node)
        case ("usedPorts",):
            ports = {port for info in infos for port in info.host_ports}
            return nodes.port_sets.set_id(tuple(sorted(ports)))
        case ("imagePresent", name):
            return name in dict(tables.names_of(node))
        case ("imageSize", _):
            return None
    return _read(nodes, key, node)


def _read(nodes: tables.NodeTable, key: tables.Key, node: Node) -> int:
    return tables.reader(key, nodes.strings, nodes.taint_sets)(node)


def _images(nodes: tables.NodeTable) -> Iterator[str]:
    """The rows of each image are those of the live nodes that name it."""
    rows: dict[str, set[int]] = {}
    for row in nodes.row_of.values():
        node = nodes.nodes[row]
        for name, _ in () if node is None else tables.names_of(node):
            rows.setdefault(name, set()).add(row)
    states = nodes.images.states
    if {name: state.rows for name, state in states.items()} != rows:
        yield f"images are on { ({n: s.rows for n, s in states.items()}) }, should be on {rows}"
    for key, column in nodes.materialised.items():
        if key[0] == "imageSize":
            for row in range(nodes.n):
                size = states[key[1]].size if row in rows.get(key[1], ()) else 0
                if column.values[row] != size:
                    yield f"{key}[{row}] is {column.values[row]}, should be {size}"


def _totals(nodes: tables.NodeTable) -> Iterator[str]:
    """The totals are the sums of their columns."""
    if nodes.pod_total != sum(len(nodes.pods_on(row)) for row in nodes.row_of.values()):
        yield f"pod_total is {nodes.pod_total}"
    for key, column in list(nodes.materialised.items()):
        total = {"allocatable": nodes.total_allocatable, "requested": nodes.total_requested}
        amount = min(sum(column.values.tolist()), tables.MAX_SUM)
        if key[0] in total and total[key[0]](key[1]) != amount:
            yield f"the total of {key} is {total[key[0]](key[1])}"


def _pod_rows(nodes: tables.NodeTable, pods: tables.PodTable, held: Held) -> Iterator[str]:
    """Every held pod has one row, which names its node's row; the other rows are free."""
    used = {row: (info, name) for info, name, row in held.values()}
    if len(used) != len(held):
        yield "two pods share a row of the pod table"
    for row in range(pods.n):
        info, name = used.get(row, (None, ""))
        if pods.infos[row] is not info:
            yield f"pod row {row} holds another pod than the cache says"
        node_row = nodes.row_of.get(name, tables.NO_NODE)
        if pods.node.view[row] != node_row:
            yield f"pod row {row} is on node row {pods.node.view[row]}, should be {node_row}"
        if info is not None and info.node_name != name:
            yield f"pod row {row} says node {info.node_name!r}, the cache {name!r}"
    affine = {uid: info for uid, (info, _, _) in held.items() if info.has_pod_affinity}
    if pods.with_affinity != affine:
        yield f"pods with affinity are {sorted(pods.with_affinity)}, should be {sorted(affine)}"
    if (pods.node.values[pods.n :] != tables.NO_NODE).any():
        yield "pod rows beyond the last one have a node"


def _pod_columns(pods: tables.PodTable) -> Iterator[str]:
    """Every materialised column of the pod table holds the pods' values."""
    for key, column in pods.materialised.items():
        if key == ("node",):
            continue
        read = tables.pod_table_reader(key, pods.strings)
        for row, info in enumerate(pods.infos):
            value = 0 if info is None else read(info)
            if column.values[row] != value or column.view[row] != value:
                yield f"pod column {key}[{row}] is {column.values[row]}, should be {value}"
