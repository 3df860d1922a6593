"""Recounts pods by selector and term from scratch and names every difference.

The second opinion on pod_counts: it asks each pod about each selector, without any index, and
groups rows by the labels of their nodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from policy_sched.cluster.counts import ROW, Counts, PodCounts, TermCounts
from policy_sched.cluster.debug.consistency import Held
from policy_sched.cluster.tables import NodeTable
from policy_sched.model import AffinityTerm, PodInfo, PodTerms

Amounts = list[tuple[int, int]]
"""Rows and amounts, a row perhaps more than once."""


def count_differences(counts: PodCounts, nodes: NodeTable, held: Held) -> list[str]:
    """Return one sentence per difference between the counts and what they should hold."""
    on = [(nodes.row_of[name], info) for info, name, _ in held.values() if name in nodes.row_of]
    found: list[str] = []
    for match, kept in counts.selected:
        rows = [
            (row, 1)
            for row, pod in on
            if match.selects(pod) and (match.terminating or not pod.terminating)
        ]
        found += _differences(f"selected {match.parts}", kept, rows, nodes)
    found += _carried("anti-affinity", counts.carried.anti_affinity, on, nodes, _anti_affinity)
    found += _carried("affinity", counts.carried.affinity, on, nodes, _affinity)
    found += _carried("preferred", counts.carried.preferred, on, nodes, _weights)
    return found


def _carried(
    name: str,
    kind: TermCounts,
    on: list[tuple[int, PodInfo]],
    nodes: NodeTable,
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


def _differences(name: str, counts: Counts, amounts: Amounts, nodes: NodeTable) -> Iterator[str]:
    expected: Counter[int] = Counter()
    for row, amount in amounts:
        expected[row] += amount
    by_row = {row: number for row, number in expected.items() if number}
    if counts.by_row != by_row:
        yield f"{name}: by row {counts.by_row}, should be {by_row}"
    for domain, totals in counts.kept():
        grouped: Counter[str] = Counter()
        for row, number in by_row.items():
            grouped[_value(nodes, domain.key, row)] += number
        found: Counter[str] = Counter()
        for row in nodes.row_of.values():
            found[_value(nodes, domain.key, row)] = int(totals[domain.ids[row]])
        if {k: v for k, v in found.items() if v} != {k: v for k, v in grouped.items() if v}:
            yield f"{name}: by {domain.key!r} {found}, should be {grouped}"
        if int(totals.sum()) != sum(by_row.values()):
            yield f"{name}: the totals by {domain.key!r} are {totals}"


def _value(nodes: NodeTable, key: str, row: int) -> str:
    """Return the domain of a row in words; a missing label is no value that a label can have."""
    node = nodes.nodes[row]
    assert node is not None, "pods are on live rows"
    return str(row) if key == ROW else node.metadata.labels.get(key, "(missing)")
