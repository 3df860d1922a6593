"""The table of kernels: for each overload, a function over plain Python values.

A kernel gives the value, or raises `Fault`. It is what constants are folded with, what one row is
computed with where no cheaper form exists, and so the meaning that every cheaper form must equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from policy_sched.language.stdlib import (
    builtins_collections,
    builtins_math,
    builtins_quantity,
    builtins_scheduler,
    builtins_string,
    builtins_time,
)

#: Kernels whose work does not grow with what they are given.
_CHEAP: Final = frozenset(
    {
        builtins_collections.has_key,
        builtins_collections.value_at,
        builtins_collections.amount,
        builtins_collections.has_element,
        builtins_collections.element,
    }
)
_SIZED: Final = frozenset(module.__name__ for module in (builtins_collections, builtins_string))


def is_sized(function: Callable[..., Any]) -> bool:
    """Tell whether a kernel takes the longer the longer its texts and lists are."""
    return getattr(function, "__module__", "") in _SIZED and function not in _CHEAP


@dataclass(frozen=True, slots=True)
class Builtin:
    """A function over plain values; ``fallible`` ones may raise Fault."""

    function: Callable[..., Any]
    fallible: bool


_MODULES: Final = (
    builtins_math,
    builtins_quantity,
    builtins_collections,
    builtins_string,
    builtins_time,
    builtins_scheduler,
)
KERNELS: Final[dict[str, Builtin]] = {
    **{name: Builtin(f, False) for module in _MODULES for name, f in module.TOTAL.items()},
    **{name: Builtin(f, True) for module in _MODULES for name, f in module.PARTIAL.items()},
}
#: The same over quantities that have no unit yet (exact amounts).
FREE: Final[dict[str, Builtin]] = {
    **{name: Builtin(f, False) for name, f in builtins_quantity.FREE_TOTAL.items()},
    **{name: Builtin(f, True) for name, f in builtins_quantity.FREE_PARTIAL.items()},
}
