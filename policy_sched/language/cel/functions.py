"""All functions by the way in which they are called, and by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from policy_sched.language.cel.library import OPERATORS as OPERATOR_TABLE
from policy_sched.language.cel.library import STANDARD, Function, read_table
from policy_sched.language.cel.library_kubernetes import KUBERNETES


def _by_name(functions: Iterable[Function]) -> Mapping[str, tuple[Function, ...]]:
    found: dict[str, tuple[Function, ...]] = {}
    for one in functions:
        found[one.name] = (*found.get(one.name, ()), one)
    return found


_ALL: Final = read_table({**STANDARD, **KUBERNETES})
OPERATORS: Final = _by_name(read_table(OPERATOR_TABLE))
FUNCTIONS: Final = _by_name(one for one in _ALL if not one.method)
METHODS: Final = _by_name(one for one in _ALL if one.method)
NAMESPACES: Final = frozenset(name.split(".")[0] for name in FUNCTIONS if "." in name) - {"ip"}
