"""The table of builtins: for each overload, a function over plain Python values.

A builtin returns the value or raises `Fault`. It folds constants, it computes single rows where no
cheaper form exists, and every cheaper form must equal it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from policy_sched.language.stdlib import (
    builtins_collections,
    builtins_fragmentation,
    builtins_math,
    builtins_quantity,
    builtins_scheduler,
    builtins_string,
    builtins_time,
)

#: Builtins whose work does not grow with what they are given.
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
    """Return whether a builtin's work grows with the length of its texts and lists."""
    return getattr(function, "__module__", "") in _SIZED and function not in _CHEAP


class Builtin(msgspec.Struct, frozen=True):
    """A function over plain values; ``fallible`` ones may raise Fault."""

    function: Callable[..., Any]
    fallible: bool


def _builtins(functions: Mapping[str, Callable[..., Any]], *, fallible: bool) -> dict[str, Builtin]:
    """Return the builtins of a table.

    A function without a name becomes a global of its module, so that it can be pickled.
    """
    for name, function in functions.items():
        if "<" in function.__qualname__:
            function.__name__ = function.__qualname__ = name
            setattr(sys.modules[function.__module__], name, function)
    return {name: Builtin(function, fallible) for name, function in functions.items()}


_MODULES: Final = (
    builtins_math,
    builtins_quantity,
    builtins_collections,
    builtins_string,
    builtins_time,
    builtins_scheduler,
    builtins_fragmentation,
)
BUILTINS: Final[dict[str, Builtin]] = {}
for _module in _MODULES:
    BUILTINS.update(_builtins(_module.TOTAL, fallible=False))
    BUILTINS.update(_builtins(_module.PARTIAL, fallible=True))
#: The same over quantities that have no unit yet (exact amounts).
FREE: Final[dict[str, Builtin]] = {
    **_builtins(builtins_quantity.FREE_TOTAL, fallible=False),
    **_builtins(builtins_quantity.FREE_PARTIAL, fallible=True),
}
