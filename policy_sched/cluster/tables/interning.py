"""Turns strings and small sets into dense numbers, so that a column of them is a column of ints.

Theory of operation: a code or an id means the same for as long as a column has it. Names and label
values come and go with their pods, and ports make many sets of few items; so now and then, between
two decisions, the codes that no column has are freed and given again. Outside of columns a code is
for the current decision: what is kept for longer, keeps the text, and finds its code again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

MANY_SETS: Final = 4096
"""Number of sets from which on an interner looks for unused ones."""

MANY_STRINGS: Final = 65_536
"""Number of strings from which on an interner looks for unused ones."""

T = TypeVar("T", bound=Hashable)


class Strings:
    """Codes of strings: 0 means missing, 1 is the empty string.

    ``crowded``: whether there are so many strings that `tidy` is worthwhile. That is at ``many``,
    and later at twice the number that was in use at the last time.
    """

    __slots__ = ("_codes", "_due", "_free", "crowded", "many", "texts")

    def __init__(self, many: int = MANY_STRINGS) -> None:
        self._codes: dict[str, int] = {}
        self._free: list[int] = []
        self.texts: list[str] = [""]
        """Text by code, "" for a free one; the text of code 0 represents a missing value."""
        self.many = self._due = many
        self.crowded = False
        self.code("")

    def __len__(self) -> int:
        """Return one more than the highest code."""
        return len(self.texts)

    def code(self, text: str) -> int:
        """Return the code of a string, a new one if it has none."""
        code = self._codes.get(text)
        if code is None:
            if self._free:
                code = self._free.pop()
                self.texts[code] = text
            else:
                code = len(self.texts)
                self.texts.append(text)
            self._codes[text] = code
            self.crowded = len(self._codes) >= self._due
        return code

    def tidy(self, columns: Iterable[NDArray[np.int32]]) -> None:
        """Free the codes that are in none of these columns; call it between decisions."""
        texts = self.texts
        used = np.zeros(len(texts), np.bool_)
        used[:2] = True
        for column in columns:
            used[column] = True
        kept = np.flatnonzero(used).tolist()
        del texts[kept[-1] + 1 :]
        self._free = np.flatnonzero(~used[: len(texts)]).tolist()
        for code in self._free:
            texts[code] = ""
        self._codes = {texts[code]: code for code in kept[1:]}  # a dict never shrinks
        self._due = max(self.many, 2 * len(self._codes))
        self.crowded = False

    def find(self, text: str) -> int:
        """Return the code of a string, or -1, which no column holds, if it has none."""
        return self._codes.get(text, -1)

    def text(self, code: int) -> str:
        """Return the string of a code; "" for 0."""
        return self.texts[code]


class Sets(Generic[T]):
    """Ids of tuples of items; 0 is the empty one, and two orders are two sets.

    ``sets[s]`` has the members of set ``s``. An unused set is () until its id is given again.
    ``many``: number of sets from which on `tidy` looks for unused ones.
    """

    __slots__ = ("_due", "_free", "_ids", "many", "sets")

    def __init__(self) -> None:
        self._ids: dict[tuple[T, ...], int] = {(): 0}
        self.sets: list[tuple[T, ...]] = [()]
        self.many = self._due = MANY_SETS
        self._free: list[int] = []

    def set_id(self, members: tuple[T, ...]) -> int:
        """Return the id of the set with these members in this order."""
        number = self._ids.get(members)
        if number is None:
            if self._free:
                number = self._free.pop()
                self.sets[number] = members
            else:
                number = len(self.sets)
                self.sets.append(members)
            self._ids[members] = number
        return number

    def tidy(self, ids: NDArray[np.intp]) -> None:
        """Free the sets that are not among these, if there are many; call it between decisions."""
        if len(self._ids) < self._due:
            return
        used = {0, *np.unique(ids).tolist()}
        del self.sets[max(used) + 1 :]
        self._free = [number for number in range(len(self.sets)) if number not in used]
        for number in self._free:
            self.sets[number] = ()
        self._ids = {members: number for members, number in self._ids.items() if number in used}
        self._due = max(self.many, len(self._ids) + self.many // 2)

    def members(self, set_id: int) -> tuple[T, ...]:
        """Return the items of a set, in its order."""
        return self.sets[set_id]
