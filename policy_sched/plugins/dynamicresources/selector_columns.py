"""Selectors as columns: what a selector finds for every device.

Theory of operation. A selector is evaluated once for each device. Mostly it reads the driver and a
few attributes by constant names; devices that have these in common have one result, so that 40,000
devices of one kind are one evaluation.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from policy_sched.language.cel import compile_selector
from policy_sched.language.syntax import ast, children
from policy_sched.plugins.dynamicresources.devices import DeviceView, SelectorError

NO: Final = 0
YES: Final = 1
FAILS: Final = 2
"""The selector has an error for the device."""
_UNKNOWN: Final = 3

Reads = frozenset[tuple[str, str]]
"""Attributes and capacities by full name, each with the field of the device that it is in."""
_KINDS: Final = ("attributes", "capacity")
_SIMPLE: Final = ("driver", "allowMultipleAllocations")
_MOST_RESULTS: Final = 10_000


@lru_cache(maxsize=4096)
def reads_of(expression: str) -> Reads | None:
    """Return what a selector reads beside the driver; None where that depends on the device."""
    tree = compile_selector(expression).tree
    if tree is None:
        return frozenset()  # the same error for every device
    found = set()
    stack = [tree]
    while stack:
        node = stack.pop()
        read = _constant_read(node)
        if read is not None:
            found.add(read)
        elif isinstance(node, ast.Ident) and node.name == "device":
            return None
        elif not _simple_read(node):
            stack.extend(children(node))
    return frozenset(found)


def _simple_read(node: ast.Node) -> bool:
    match node:
        case ast.Select(operand=ast.Ident(name="device"), name=name):
            return name in _SIMPLE
    return False


def _constant_read(node: ast.Node) -> tuple[str, str] | None:
    """Return kind and full name of ``device.kind["domain"].name``, None for anything else."""
    match node:
        case (
            ast.Select(operand=inner, name=short)
            | ast.IndexExpr(operand=inner, index=ast.Literal(value=str() as short))
        ):
            match inner:
                case (
                    ast.IndexExpr(
                        operand=ast.Select(operand=ast.Ident(name="device"), name=kind),
                        index=ast.Literal(value=str() as domain),
                    )
                    | ast.Select(
                        operand=ast.Select(operand=ast.Ident(name="device"), name=kind), name=domain
                    )
                ) if kind in _KINDS:
                    return kind, f"{domain}/{short}"
    return None


class SelectorColumn:
    """What one selector finds for each device, by the number of the device."""

    def __init__(self, expression: str) -> None:
        self._expression = expression
        self._reads = reads_of(expression)
        self._results: dict[object, int] = {}
        self._values: NDArray[np.int8] = np.empty(0, np.int8)

    def of(self, views: Sequence[DeviceView], numbers: NDArray[np.intp]) -> NDArray[np.int8]:
        """Return NO, YES or FAILS for devices by number; ``views``: all devices."""
        missing = len(views) - len(self._values)
        if missing > 0:
            unknown = np.full(missing, _UNKNOWN, np.int8)
            self._values = np.concatenate((self._values, unknown))
        results = self._values[numbers]
        fresh = numbers[results == _UNKNOWN]
        if fresh.size:
            evaluate = self._evaluate_by_reads if self._reads is not None else self._evaluate
            self._values[fresh] = [evaluate(views[number]) for number in fresh.tolist()]
            results = self._values[numbers]
        return results

    def _evaluate(self, device: DeviceView) -> int:
        try:
            return YES if device.selected(self._expression) else NO
        except SelectorError:
            return FAILS

    def _evaluate_by_reads(self, device: DeviceView) -> int:
        assert self._reads is not None, "the selector reads constant names"
        key = device.read(self._reads)
        known = self._results.get(key)
        if known is None:
            if len(self._results) >= _MOST_RESULTS:
                self._results.clear()
            known = self._results[key] = self._evaluate(device)
        return known
