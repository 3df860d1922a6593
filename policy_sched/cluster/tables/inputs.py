"""The objects of one input, by key and by number; a column of the node table holds the numbers."""

from __future__ import annotations

from typing import Any, Final

from policy_sched.cluster.tables.dependencies import Watched


class InputTable(Watched):
    """What rules look up: ``by_key`` has one record for each key.

    ``records`` has them by number; 0 is none. A changed record has another number than before, so
    that a column shows the change. ``most``: how many a rule may read at once. ``root`` is what a
    polled answer says beside its items, None before there was one.
    """

    __slots__ = ("_free", "_numbers", "by_key", "most", "records", "root", "version")

    def __init__(self, most: int = 0) -> None:
        super().__init__()
        self.by_key: dict[str, Any] = {}
        self.records: list[Any] = [None]
        self.root: Any = None
        self.most = most
        self.version = 0
        """How many changes there were."""
        self._numbers: dict[str, int] = {}
        self._free: list[int] = []

    def number(self, key: str) -> int:
        """Return the number of the record that a key has, 0 if there is none."""
        return self._numbers.get(key, 0)

    def put(self, key: str, record: Any) -> None:
        """Give a key a record, or another one."""
        self.by_key[key] = record
        self.version += 1
        if self._free:
            number = self._free.pop()
            self.records[number] = record
        else:
            number = len(self.records)
            self.records.append(record)
        before = self._numbers.get(key, 0)
        if before:
            self._release(before)
        self._numbers[key] = number
        if self.readers:
            self.changed(key)

    def remove(self, key: str) -> None:
        """Take away a key that has a record."""
        del self.by_key[key]
        self.version += 1
        self._release(self._numbers.pop(key))
        self.changed(key)

    def _release(self, number: int) -> None:
        self.records[number] = None
        self._free.append(number)


NO_OBJECTS: Final = InputTable()
"""The table of an input that is not declared; it stays empty."""
