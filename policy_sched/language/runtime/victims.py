"""Functions of generated code over the victims of many nodes at once.

Arrays have the shape (depth, m): a column of victims for each of m nodes. A reduction goes along
the victims; a plain number stands for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from policy_sched.language.runtime.context import Runtime
from policy_sched.language.runtime.vector import Rows
from policy_sched.language.values import INT_MAX, INT_MIN

#: Sums whose terms' magnitudes add up to less cannot overflow, whatever float64 rounds away.
_SURE_SUM: Final = 2.0**62
_DTYPES: Final = {"b": np.bool_, "i": np.int64, "s": np.int32}


@dataclass(frozen=True, slots=True)
class TextCall:
    """A builtin of a text: the place of the text among its arguments, and the result's rep."""

    function: Callable[..., Any]
    place: int
    rep: str


def any_victim(flags: Rows) -> Rows:
    """Return whether a flag holds for any victim."""
    return flags.any(axis=0) if isinstance(flags, np.ndarray) else flags


def sum_of_victims(numbers: Rows) -> Rows:
    """Return the sum over the victims; a plain number is that of no victim at all."""
    return numbers.sum(axis=0) if isinstance(numbers, np.ndarray) else numbers


def unsure_sum(numbers: Rows) -> Rows:
    """Return where a sum of ints may leave int64."""
    if not isinstance(numbers, np.ndarray):
        return False
    return np.abs(numbers.astype(np.float64)).sum(axis=0) >= _SURE_SUM


def greatest_victim(held: Rows, numbers: Rows) -> tuple[Rows, Rows]:
    """Return the greatest number over the victims that are held; an error if there is none."""
    return _extreme(np.maximum, held, numbers, INT_MIN)


def least_victim(held: Rows, numbers: Rows) -> tuple[Rows, Rows]:
    """Return the least number over the victims that are held; an error if there is none."""
    return _extreme(np.minimum, held, numbers, INT_MAX)


def _extreme(find: np.ufunc, held: Rows, numbers: Rows, otherwise: int) -> tuple[Rows, Rows]:
    if not isinstance(held, np.ndarray):
        return 0, True
    return find.reduce(np.where(held, numbers, otherwise), axis=0, initial=otherwise), ~held.any(
        axis=0
    )


def each_text(rt: Runtime, call: TextCall, *args: Any) -> Rows:
    """Call a builtin once for each distinct text of an array of codes; texts become codes."""
    strings, given = rt.table.strings, list(args)
    codes = np.asarray(given[call.place])
    seen = np.zeros(len(strings), np.bool_)
    seen[codes] = True
    table: npt.NDArray[Any] = np.zeros(seen.size, _DTYPES[call.rep])
    for number in np.flatnonzero(seen).tolist():
        given[call.place] = strings.text(number)
        result = call.function(*given)
        table[number] = strings.code(result) if isinstance(result, str) else result
    return table[codes]  # one code, where a choice that is the same for all made it one


def in_int64(number: Any) -> bool:
    """Tell whether a value is no int beyond int64, so that an array can hold it."""
    return not isinstance(number, int) or INT_MIN <= number <= INT_MAX
