"""What selectors find for devices, one by one and as columns.

Theory of operation. A selector is evaluated once for each device. Mostly it reads the driver and a
few attributes by constant names; devices that have these in common have one result, so that 40,000
devices of one kind are one evaluation. A column is filled at once as long as that is cheap. The
devices that are left are evaluated when a search comes to them: the first that fails may end it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from policy_sched.framework import UNITS, AttemptBudget
from policy_sched.language import cel
from policy_sched.language.syntax import ast, children
from policy_sched.plugins.dynamicresources.devices import DeviceView, SelectorError

NO: Final = 0
YES: Final = 1
FAILS: Final = 2
"""The selector has an error for the device."""
UNKNOWN: Final = 3
"""It takes too much work to evaluate the selector for all devices."""
FILL_SHARE: Final = 25
"""Filling a column may take one part of so many of an attempt's units at once."""

Reads = frozenset[tuple[str, str]]
"""Attributes and capacities by full name, each with the field of the device that it is in."""
_KINDS: Final = ("attributes", "capacity")
_SIMPLE: Final = ("driver", "allowMultipleAllocations")
_MOST_RESULTS: Final = 10_000
_MOST_SELECTORS: Final = 4096
#: Units of the evaluation itself, and of compiling a character: 4 to 8 us.
_EVALUATION: Final = 10
_CHARACTER: Final = 3


@lru_cache(maxsize=4096)
def reads_of(expression: str) -> Reads | None:
    """Return what a selector reads beside the driver; None where that depends on the device."""
    tree = cel.compile_selector(expression).tree
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


class _Kept(NamedTuple):
    """A selector, what it reads, and its results by what a device has of that."""

    selector: cel.Selector
    reads: Reads | None
    results: dict[Hashable, bool | str]


class SelectorResults:
    """What selectors return, one result for devices that a selector cannot tell apart.

    ``budget`` is what work is paid from; None: work is free.
    """

    def __init__(self, budget: AttemptBudget | None = None) -> None:
        self._budget = budget
        self._kept: dict[str, _Kept] = {}
        self.work = 0
        """Units of work that all evaluations took."""

    @property
    def units(self) -> int:
        """The units of an attempt."""
        return UNITS if self._budget is None else self._budget.units

    def selected(self, expression: str, device: DeviceView) -> bool:
        """Tell whether a selector takes a device.

        Raises SelectorError, without the place, and DeadlineExceeded.
        """
        result = device.selected.get(expression)
        if result is None:
            result = device.selected[expression] = self._result(expression, device)
        if isinstance(result, str):
            raise SelectorError(result)
        return result

    def _result(self, expression: str, device: DeviceView) -> bool | str:
        kept = self._kept.get(expression)
        if kept is None:
            kept = self._compile(expression)
        key = device.read(kept.reads)
        result = kept.results.get(key)
        if result is None:
            if len(kept.results) >= _MOST_RESULTS:
                kept.results.clear()
            result = kept.results[key] = self._evaluate(kept.selector, device)
        return result

    def _compile(self, expression: str) -> _Kept:
        if self._budget is not None:
            self._budget.spend(_CHARACTER * len(expression))
        if len(self._kept) >= _MOST_SELECTORS:
            self._kept.clear()
        kept = _Kept(cel.compile_selector(expression), reads_of(expression), {})
        self._kept[expression] = kept
        return kept

    def _evaluate(self, selector: cel.Selector, device: DeviceView) -> bool | str:
        if selector.error:
            return f"CEL compile error: {selector.error}"
        budget = self._budget
        if budget is not None:
            budget.spend(_EVALUATION)
        evaluation = cel.Evaluation() if budget is None else cel.Evaluation(budget.left)
        result: bool | str | None = None
        try:
            result, _ = selector.evaluate(device.record(), evaluation)
        except cel.InterruptError:
            pass  # what it took is more than there is
        except cel.CelError as error:
            result = f"CEL runtime error: {error}"
        self.work += evaluation.work
        if budget is not None:
            (budget.spend if result is None else budget.charge)(evaluation.work)
        assert result is not None, "without units the budget is exceeded"
        return result


class SelectorColumn:
    """What one selector finds for each device, by the number of the device."""

    def __init__(self, expression: str, results: SelectorResults) -> None:
        self._expression = expression
        self._results = results
        self._values: NDArray[np.int8] = np.empty(0, np.int8)

    def of(self, views: Sequence[DeviceView], numbers: NDArray[np.intp]) -> NDArray[np.int8]:
        """Return NO, YES, FAILS or UNKNOWN for devices by number; ``views``: all devices.

        Raises DeadlineExceeded.
        """
        missing = len(views) - len(self._values)
        if missing > 0:
            unknown = np.full(missing, UNKNOWN, np.int8)
            self._values = np.concatenate((self._values, unknown))
        values, results = self._values, self._results
        most = results.work + results.units // FILL_SHARE
        for number in numbers[values[numbers] == UNKNOWN].tolist():
            if results.work > most:
                break
            values[number] = self._evaluate(views[number])
        return values[numbers]

    def _evaluate(self, device: DeviceView) -> int:
        try:
            return YES if self._results.selected(self._expression, device) else NO
        except SelectorError:
            return FAILS
