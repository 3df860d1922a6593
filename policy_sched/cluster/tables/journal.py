"""The change journal: which rows of the node table changed since a version, in O(changes).

Theory of operation: a version is the count of changes ever noted. Each entry is one number, row and
kind packed together, and the version of its latest change: a change that is the same as the one
before it makes no new entry. So the changes since version v are the tail of the list. The list is
cut to its newest half when it is full; a reader of an older version gets None and recomputes
everything, which is also faster at that distance.

Many pods come to a node and leave it between two looks at it. A row's stamp is another one after
each change, but for this: it is the same whenever the last pod has left, as long as nothing but
pods changed on the row. A reader that keeps the stamps passes over rows that have theirs.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Final

import msgspec
import numpy as np

from policy_sched import thresholds

STATIC: Final = 1
"""A value of the row changed that comes from the node object."""
DYNAMIC: Final = 2
"""A value of the row changed that comes from the pods on it."""
STRUCTURE: Final = 4
"""A node came to or left the row, or a number changed that every row shares."""

_KIND_BITS: Final = 3
_KIND_MASK: Final = 7


class Changes(msgspec.Struct, frozen=True):
    """Changed rows, each once, in order of their first change; ``kinds[i]`` is of ``rows[i]``.

    A kind is a union of STATIC, DYNAMIC and STRUCTURE; ``kind`` is the union over all rows.
    """

    rows: list[int]
    kinds: list[int]
    kind: int


_NOTHING: Final = Changes([], [], 0)


class Journal:
    """Remembers at least the last ``capacity / 2`` changes, in at most ``capacity`` entries."""

    __slots__ = (
        "_capacity",
        "_dropped",
        "_ends",
        "_log",
        "bare",
        "nodes_version",
        "stamps",
        "static_version",
        "version",
    )

    def __init__(self, capacity: int = 65_536) -> None:
        self._capacity = capacity
        self._dropped = 0
        self._log: list[int] = []
        self._ends: list[int] = []
        self.stamps = array("q")
        """By row: where a stamp is what it was, the row is what it was. To be read only."""
        self.bare = array("q")
        """By row, the stamp without pods: another one after each change but of pods."""
        self.version = 0
        """How many changes there ever were."""
        self.static_version = 0
        """The version just after the last change that was more than pods coming and going."""
        self.nodes_version = 0
        """The version just after the last change of a node, or of which rows there are."""

    def append(self, row: int, kind: int, pods: int | None = None) -> None:
        """Note that something of ``kind`` changed on ``row``.

        ``pods``: how many pods the row has now, where a pod came, left or changed and nothing else.
        """
        log, entry = self._log, row << _KIND_BITS | kind
        self.version = version = self.version + 1
        if log and log[-1] == entry:
            self._ends[-1] = version
        else:
            log.append(entry)
            self._ends.append(version)
        if pods:
            self.stamps[row] = version
        elif pods is not None:
            self.stamps[row] = self.bare[row]
        else:
            if row >= len(self.stamps):
                more = [0] * (row + 1 - len(self.stamps))
                self.stamps.extend(more)
                self.bare.extend(more)
            # Another one, and yet another one for when the pods have left.
            self.stamps[row], self.bare[row] = version, -version
        if kind != DYNAMIC:
            self.static_version = self.nodes_version = version
        if len(log) > self._capacity:
            cut = len(log) - self._capacity // 2
            self._dropped = self._ends[cut - 1]
            del log[:cut], self._ends[:cut]

    def changed_everything(self) -> None:
        """Note a change that may affect what any row gets, though no node changed.

        For example of a namespace's labels, or of a volume.
        """
        nodes_version = self.nodes_version
        self.append(0, STRUCTURE)
        self.nodes_version = nodes_version

    def moved(self, version: int, seen: array[int]) -> list[int] | None:
        """Return the rows whose stamps are not those that a reader saw at ``version``.

        At least one row if anything changed; None if more changed than pods. How long ago that is
        does not matter: the stamps tell. ``seen``: the stamps then, by row.
        """
        if version < self.static_version:
            return None
        stamps, log, ends = self.stamps, self._log, self._ends
        if len(ends) > 1 and ends[-2] <= version < ends[-1]:  # most often one pod came or left
            return [log[-1] >> _KIND_BITS]
        few = thresholds.FEW_ROWS + len(stamps) // thresholds.ROWS_PER_CHANGE
        far = self.version - version > few
        if far or version < self._dropped:
            differ = np.frombuffer(stamps, np.int64) != np.frombuffer(seen, np.int64)
            differing: list[int] = differ.nonzero()[0].tolist()
            return differing or [log[-1] >> _KIND_BITS]
        start = bisect_right(ends, version)
        rows = [entry >> _KIND_BITS for entry in dict.fromkeys(log[start:])]
        # What came and left meanwhile leaves nothing to do.
        return [row for row in rows if stamps[row] != seen[row]] or rows[:1]

    def since(self, version: int) -> Changes | None:
        """Return what changed after ``version``; None if that is too long ago.

        The result is shared when empty: do not change its lists.
        """
        if version < self._dropped:
            return None
        log, ends = self._log, self._ends
        # Most readers are behind by a few entries: the memory around the others is not touched.
        start = bisect_right(ends, version)
        count = len(log) - start
        if count == 0:
            return _NOTHING
        if count == 1:
            entry = log[-1]
            kind = entry & _KIND_MASK
            return Changes([entry >> _KIND_BITS], [kind], kind)
        if version >= self.static_version:
            rows = [entry >> _KIND_BITS for entry in dict.fromkeys(log[start:])]
            return Changes(rows, [DYNAMIC] * len(rows), DYNAMIC)
        kinds: dict[int, int] = {}
        union = 0
        for entry in dict.fromkeys(log[start:]):
            row = entry >> _KIND_BITS
            kind = entry & _KIND_MASK
            kinds[row] = kinds.get(row, 0) | kind
            union |= kind
        return Changes(list(kinds), list(kinds.values()), union)
