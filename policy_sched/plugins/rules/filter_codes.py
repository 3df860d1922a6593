"""Units over a table, and a filter's status codes from the values and errors of its rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from policy_sched.language import FilterRule

Codes = npt.NDArray[np.int16]


def filter_codes(
    codes: Codes | None, values: Any, errors: Any, rule: FilterRule, number: int, n: int
) -> Codes | None:
    """Return ``codes`` with what rule ``number`` adds for rows that passed so far."""
    own: Any = None
    if errors is not None and np.any(errors):
        failed = np.not_equal(errors, 0)
        wrong = 0 if rule.on_error == "Allow" else 2 * number + 2
        own = np.where(failed, wrong, np.where(values, 0, 2 * number + 1))
    elif isinstance(values, np.ndarray) and values.ndim:
        if values.all():
            return codes
        if number == 0:
            own = np.logical_not(values).astype(np.int16)
        else:
            own = np.where(values, 0, 2 * number + 1)
    elif values:
        return codes
    else:
        own = 2 * number + 1
    if not isinstance(own, np.ndarray) or own.ndim == 0:
        own = np.full(n, own, dtype=np.int16)
    own = own.astype(np.int16, copy=False)
    return own if codes is None else np.where(codes, codes, own)


class Reversed:
    """A string that sorts in descending order."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __lt__(self, other: Reversed) -> bool:
        return other.text < self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reversed) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)
