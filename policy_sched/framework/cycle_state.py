"""CycleState: what plugins hand from one extension point to the next within one attempt."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


class CycleState(msgspec.Struct, frozen=True, eq=False):
    """Typed scratch space of one scheduling attempt.

    A value is stored under its own type: ``state.write(MyState(...))`` and later
    ``state.read(MyState)``. Each type has one value; plugins use types of their own.
    """

    _values: dict[type, Any] = msgspec.field(default_factory=dict)

    def write(self, value: object) -> None:
        """Keep ``value`` under its type, replacing what was there."""
        self._values[type(value)] = value

    def read(self, kind: type[T]) -> T | None:
        """Return the value that was written under ``kind``, or None."""
        value: T | None = self._values.get(kind)
        return value

    def same(self, other: CycleState) -> bool:
        """Return whether the other state holds the very same values."""
        mine, theirs = self._values, other._values
        return mine.keys() == theirs.keys() and all(mine[k] is theirs[k] for k in mine)

    def clone(self) -> CycleState:
        """Return a state with the same values; writing to one does not change the other.

        The values themselves are shared: a plugin that changes a value in place (AddPod,
        RemovePod) writes a changed copy instead.
        """
        return CycleState(dict(self._values))
