"""The table of kernels: for each overload, a function over plain Python values.

A kernel gives the value, or raises `Fault`. It is what constants are folded with, what one row is
computed with where no cheaper form exists, and so the meaning that every cheaper form must equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from policy_sched.language.stdlib import builtins_collections as kernels_lists
from policy_sched.language.stdlib import builtins_format as kernels_format
from policy_sched.language.stdlib import builtins_math as kernels_numbers
from policy_sched.language.stdlib import builtins_quantity as kernels_quantities
from policy_sched.language.stdlib import builtins_scheduler as kernels_scheduler
from policy_sched.language.stdlib import builtins_semver as kernels_semver
from policy_sched.language.stdlib import builtins_string as kernels_strings
from policy_sched.language.stdlib import builtins_time as kernels_time

#: Kernels whose work does not grow with what they are given.
_CHEAP: Final = frozenset(
    {
        kernels_lists.has_key,
        kernels_lists.value_at,
        kernels_lists.amount,
        kernels_lists.has_element,
        kernels_lists.element,
    }
)
_SIZED: Final = frozenset(
    room.__name__ for room in (kernels_format, kernels_lists, kernels_strings)
)


def is_sized(function: Callable[..., Any]) -> bool:
    """Tell whether a kernel takes the longer the longer its texts and lists are."""
    return getattr(function, "__module__", "") in _SIZED and function not in _CHEAP


@dataclass(frozen=True, slots=True)
class Builtin:
    """A function over plain values; ``fallible`` ones may raise Fault."""

    function: Callable[..., Any]
    fallible: bool


_ROOMS: Final = (
    kernels_numbers,
    kernels_quantities,
    kernels_lists,
    kernels_strings,
    kernels_time,
    kernels_semver,
    kernels_scheduler,
)
KERNELS: Final[dict[str, Builtin]] = {
    **{name: Builtin(f, False) for room in _ROOMS for name, f in room.TOTAL.items()},
    **{name: Builtin(f, True) for room in _ROOMS for name, f in room.PARTIAL.items()},
}
#: The same over quantities that have no unit yet (exact amounts).
FREE: Final[dict[str, Builtin]] = {
    **{name: Builtin(f, False) for name, f in kernels_quantities.FREE_TOTAL.items()},
    **{name: Builtin(f, True) for name, f in kernels_quantities.FREE_PARTIAL.items()},
}
