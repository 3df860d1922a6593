"""Colours of nodes: the use of a resource, or an expression of the rule language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from policy_sched.console.pages.page import Query
from policy_sched.errors import PolicyError, PolicySchedError
from policy_sched.explain import NodeValue, evaluated
from policy_sched.language.stdlib import ANY, value_text
from policy_sched.language.values import types
from policy_sched.model import quantity_text
from policy_sched.scheduler import Scheduler
from policy_sched.simulate import resource_names
from policy_sched.web import Problem

EXPRESSION: Final = "expression"
"""The choice of an expression, beside the names of resources."""
FIRST: Final = "cpu"


@dataclass(frozen=True, slots=True)
class Colouring:
    """By node a share from 0 to 1, or None, and a text; and the ends of the scale.

    ``choice``: a resource, or "expression"; ``expression``: its text. ``problems``: what is wrong
    with it. ``means``: whether a mean of shares says anything.
    """

    choice: str
    low: str = "0 %"
    high: str = "100 %"
    expression: str = ""
    shares: Mapping[str, tuple[float | None, str]] = field(default_factory=dict)
    problems: Sequence[Problem] = ()
    failure: str = ""
    means: bool = True

    @property
    def caption(self) -> str:
        """Return what the colours mean."""
        return self.expression if self.choice == EXPRESSION else f"{self.choice} requested"

    def of(self, node: str) -> tuple[float | None, str]:
        """Return the share and the text of a node."""
        return self.shares.get(node, (None, ""))

    def mean(self, nodes: Sequence[str]) -> str:
        """Return the mean share of nodes as a text."""
        known = [share for share, _ in map(self.of, nodes) if share is not None]
        return f"{100 * sum(known) / len(known):.0f} % on average" if known and self.means else ""


def colours(scheduler: Scheduler) -> list[str]:
    """Return the resources that nodes have."""
    return resource_names(scheduler.cache.nodes)


def coloured(scheduler: Scheduler, query: Query) -> Colouring:
    """Return the colours that the address names."""
    choice, expression = query.get("colour", FIRST), query.get("expression")
    if choice == EXPRESSION and expression:
        return _by_expression(scheduler, expression)
    if choice == EXPRESSION:
        return Colouring(EXPRESSION, failure="Write an expression, such as node.free.cpu.")
    return _by_resource(scheduler, choice)


def _by_resource(scheduler: Scheduler, resource: str) -> Colouring:
    """Return the requested share of a resource of each node."""
    table = scheduler.cache.nodes
    whole = table.lookup(("allocatable", resource)).values
    used = table.lookup(("podCount",) if resource == "pods" else ("requested", resource)).values
    found: dict[str, tuple[float | None, str]] = {}
    for name, row in table.row_of.items():
        most, now = whole.item(row), used.item(row)
        text = f"{quantity_text(resource, now)} of {quantity_text(resource, most)} {resource}"
        found[name] = (now / most if most else None, text if most else f"no {resource}")
    return Colouring(resource, shares=found)


def _text(value: NodeValue, kind: types.Type) -> str:
    return f"error {value.code}: {value.error}" if value.code else value_text(value.value, kind)


def _by_expression(scheduler: Scheduler, text: str) -> Colouring:
    """Return the values of an expression, from the smallest to the largest."""
    try:
        result = evaluated(text, ANY, None, scheduler.cache, None, scheduler.handle.now())
    except PolicyError as error:
        problems = [Problem.of(problem) for problem in error.diagnostics]
        return Colouring(EXPRESSION, expression=text, problems=problems)
    except PolicySchedError as error:
        return Colouring(EXPRESSION, expression=text, failure=str(error))
    values: dict[str, Any] = {value.node: value.value for value in result.values if not value.code}
    texts = {value.node: _text(value, result.type) for value in result.values}
    if set(texts) == {""}:  # it reads no node
        names = scheduler.cache.nodes.row_of
        values, texts = dict.fromkeys(names, values.get("")), dict.fromkeys(names, texts[""])
    numbers = {node: float(v) for node, v in values.items() if isinstance(v, bool | int | float)}
    low, high = min(numbers.values(), default=0.0), max(numbers.values(), default=0.0)
    width = high - low
    shares = {
        node: ((numbers[node] - low) / width if width and node in numbers else None, text)
        for node, text in texts.items()
    }
    if not width:
        shares = {n: (0.0 if n in numbers else None, text) for n, (_, text) in shares.items()}
    ends = {number: texts[node] for node, number in numbers.items()}
    return Colouring(
        EXPRESSION, ends.get(low, "low"), ends.get(high, "high"), text, shares, means=False
    )
