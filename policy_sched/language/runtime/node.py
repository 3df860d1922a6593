"""Resource fit and node affinity for generated code.

Each function has a form for one row and one for many; both read the same columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from policy_sched.language.runtime.context import RowSet, Runtime, each
from policy_sched.model import (
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    node_matcher,
    node_term,
    requirement,
)

Mask = Any
"""A bool array with an element per row, or one bool for all rows."""


def fits_row(rt: Runtime, family: str, wanted: Mapping[str, int], row: int) -> bool:
    """Tell whether every amount above zero is within the row's column of ``family``."""
    column = rt.table.column
    for name, amount in wanted.items():
        if amount > 0 and amount > column((family, name)).view[row]:
            return False
    return True


def fits_rows(rt: Runtime, family: str, wanted: Mapping[str, int], rows: RowSet) -> Mask:
    """Do as `fits_row` for many rows."""
    mask: npt.NDArray[np.bool_] | None = None
    for name, amount in wanted.items():
        if amount > 0:
            fits = rt.table.column((family, name)).values[rows] >= amount
            if mask is None:
                mask = fits
            else:
                mask &= fits
    return True if mask is None else mask


def affinity_row(
    rt: Runtime, affinity: NodeAffinity | None, selector: Mapping[str, str], row: int
) -> bool:
    """Tell whether a row's node has all labels of ``selector`` and meets what is required."""
    column, find = rt.table.column, rt.table.strings.find
    for key, value in selector.items():
        if column(("label", key)).view[row] != find(value):
            return False
    if affinity is None or affinity.required is None:
        return True
    node = rt.node(row)
    matcher = node_matcher(affinity)
    return matcher.required_matches(node.metadata.labels, node.metadata.name)


def affinity_rows(
    rt: Runtime, affinity: NodeAffinity | None, selector: Mapping[str, str], rows: RowSet
) -> Mask:
    """Do as `affinity_row` for many rows."""
    mask: Mask = True
    column, find = rt.table.column, rt.table.strings.find
    for key, value in selector.items():
        mask = mask & (column(("label", key)).values[rows] == find(value))
    if affinity is None or affinity.required is None:
        return mask
    matching: Mask = False
    for term in affinity.required.node_selector_terms:
        matching = matching | _term_rows(rt, term, rows)
    return mask & matching


def preference_row(rt: Runtime, affinity: NodeAffinity | None, row: int) -> int:
    """Return the sum of the weights of the preferred terms that a row's node matches."""
    if affinity is None or not affinity.preferred:
        return 0
    node = rt.node(row)
    return node_matcher(affinity).preferred_score(node.metadata.labels, node.metadata.name)


def preference_rows(rt: Runtime, affinity: NodeAffinity | None, rows: RowSet) -> Any:
    """Do as `preference_row` for many rows."""
    total: Any = 0
    for preferred in affinity.preferred if affinity else ():
        if preferred.weight:
            total = total + np.multiply(
                _term_rows(rt, preferred.preference, rows), preferred.weight
            )
    return total


def _term_rows(rt: Runtime, term: NodeSelectorTerm, rows: RowSet) -> Mask:
    """Tell for many rows whether their node matches a term; a wrong or empty term matches none."""
    try:
        if node_term(term) is None:
            return False
    except ValueError:
        return False
    mask: Mask = True
    for wanted in term.match_expressions:
        mask = mask & _requirement_rows(rt, wanted, rows)
    for wanted in term.match_fields:
        named = wanted.key == "metadata.name"
        names = rt.table.column(("name",)).values[rows]
        same = names == (rt.table.strings.find(wanted.values[0]) if named else -1)
        if not named:
            same = same | (wanted.values[0] == "")
        mask = mask & (same if wanted.operator == "In" else ~same)
    return mask


def _requirement_rows(rt: Runtime, wanted: NodeSelectorRequirement, rows: RowSet) -> Mask:
    test = requirement(wanted.key, wanted.operator, wanted.values)
    texts = rt.table.strings.texts

    def holds(code: int) -> bool:
        return test.matches({wanted.key: texts[code]} if code else {})

    return rt.distinct_one("b", each(holds), rt.table.column(("label", wanted.key)), rows)
