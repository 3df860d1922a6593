"""Groups of rows that have the same numbers in some columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

#: Up to so many numbers for each row are counted, which is faster than sorting.
_DENSE: Final = 4

GroupKey: TypeAlias = tuple[int, ...]
"""The numbers of a group, one for each column."""


def group_rows(
    columns: Sequence[NDArray[np.intp]], most: int
) -> tuple[NDArray[np.intp], list[GroupKey]] | None:
    """Return the group of each row, and what its rows have in common; None beyond ``most`` groups.

    All columns have one number for each row, and there is at least one column.
    """
    groups, keys = np.zeros(columns[0].size, np.intp), list[GroupKey]([()])
    for column in columns:
        low = int(column.min(initial=0))
        size = int(column.max(initial=0)) - low + 1
        found, groups = _numbered(groups * size + (column - low), len(keys) * size)
        if found.size > most:
            return None
        keys = [(*keys[code // size], code % size + low) for code in found.tolist()]
    return groups, keys


def _numbered(codes: NDArray[np.intp], limit: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return which codes there are, and for each row the place of its code among them."""
    if limit > _DENSE * codes.size:
        found, places = np.unique(codes, return_inverse=True)
        return found, places.astype(np.intp)
    found = np.bincount(codes, minlength=limit).nonzero()[0]
    place_of = np.zeros(limit, np.intp)
    place_of[found] = np.arange(found.size)
    return found, place_of.take(codes)
