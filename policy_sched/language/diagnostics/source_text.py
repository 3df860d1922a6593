"""The checker's input: a policy's texts and settings as plain data, each text with its place.

`profiles` builds these from YAML; nothing here knows YAML.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from policy_sched.language.diagnostics.catalogue import MAX_RULE_COST

#: Maps an offset of a text (0 to its length) to line, column (both from 1) and the line's text.
Locate = Callable[[int], tuple[int, int, str]]


@dataclass(frozen=True, slots=True)
class Text:
    """One expression, its position in a file, and its path in the policy.

    ``path`` is such as ``filter[0].expression``, and is shown with problems. Equal texts in
    different files compare equal.
    """

    text: str
    file: str = field(default="<text>", compare=False)
    locate: Locate | None = field(default=None, compare=False)
    path: str = ""

    def __reduce__(self) -> tuple[type[Text], tuple[object, ...]]:
        """Leave the places in the file behind: another process needs the text alone."""
        return Text, (self.text, self.file, None, self.path)

    def position(self, offset: int) -> tuple[int, int, str]:
        """Return (line, column, source line) of a character of the text, in its file."""
        if self.locate is not None:
            return self.locate(offset)
        line_start = self.text.rfind("\n", 0, offset) + 1
        line_end = self.text.find("\n", offset)
        line = self.text[line_start : line_end if line_end >= 0 else len(self.text)]
        return self.text.count("\n", 0, offset) + 1, offset - line_start + 1, line


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """An entry of ``functions``: parameters with the text of their types, and the body."""

    name: str
    params: tuple[tuple[str, str], ...]
    expression: Text


@dataclass(frozen=True, slots=True)
class VariableSource:
    """An entry of ``variables``."""

    name: str
    expression: Text


E = TypeVar("E")
"""The form of expressions: `Text` as read, or with a typed tree once checked.

The classes below have no slots: Python 3.11 cannot call an alias such as ``Rule[Text]`` of frozen
dataclasses with slots.
"""


@dataclass(frozen=True)
class Rule(Generic[E]):
    """A rule of ``filter`` or ``preEnqueue``; at most one of the message forms is given."""

    expression: E
    message: str = ""
    message_expression: E | None = None
    reasons: E | None = None
    resolvable: bool | E = True
    on_error: str | None = None


@dataclass(frozen=True)
class OrderKey(Generic[E]):
    """A key of an order, such as ``queueSort``; ``order`` is Ascending or Descending."""

    expression: E
    order: str = "Ascending"


@dataclass(frozen=True)
class PreFilterRule(Generic[E]):
    """The ``preFilter`` section: the node names to look at, and why a pod with none fails."""

    node_names: E | None = None
    message: str = ""


@dataclass(frozen=True)
class ScoreRule(Generic[E]):
    """The ``score`` section; ``normalize`` is the name of a normaliser or an expression."""

    expression: E
    normalize: str | E | None = None
    on_error: str | None = None
    match_conditions: tuple[E, ...] = ()


@dataclass(frozen=True)
class StepRule(Generic[E]):
    """A section that is one rule: ``reserve``, ``preBind``, ``bind``, ``postBind``.

    ``permit`` has its ``allow`` as the expression, and a time-out beside it.
    """

    expression: E
    message: str = ""
    message_expression: E | None = None
    on_error: str | None = None
    timeout: E | None = None


@dataclass(frozen=True)
class RequeueRule(Generic[E]):
    """The ``requeue`` section."""

    hint: E | None = None
    every: E | None = None


@dataclass(frozen=True)
class PreemptionRules(Generic[E]):
    """The ``preemption`` section, complete: what a policy leaves open is as upstream does it."""

    eligible: E
    victim: E
    victim_order: tuple[OrderKey[E], ...]
    node_order: tuple[OrderKey[E], ...]


@dataclass(frozen=True)
class PlacementRule(Generic[E]):
    """The ``placement`` section: the domain of a node, and how good a domain is for a group."""

    domain: E | None = None
    score: E | None = None
    on_error: str | None = None


RuleSource: TypeAlias = Rule[Text]
KeySource: TypeAlias = OrderKey[Text]
PreFilterSource: TypeAlias = PreFilterRule[Text]
ScoreSource: TypeAlias = ScoreRule[Text]
StepSource: TypeAlias = StepRule[Text]
RequeueSource: TypeAlias = RequeueRule[Text]
PreemptionSource: TypeAlias = PreemptionRules[Text]
PlacementSource: TypeAlias = PlacementRule[Text]


@dataclass(frozen=True, slots=True)
class PolicySource:
    """One policy with its effective parameters."""

    name: str
    params: Mapping[str, object] = field(default_factory=dict)
    functions: tuple[FunctionSource, ...] = ()
    variables: tuple[VariableSource, ...] = ()
    match_conditions: tuple[Text, ...] = ()
    pre_enqueue: tuple[RuleSource, ...] = ()
    queue_sort: tuple[KeySource, ...] = ()
    pre_filter: PreFilterSource | None = None
    filter: tuple[RuleSource, ...] = ()
    score: ScoreSource | None = None
    reserve: StepSource | None = None
    permit: StepSource | None = None
    pre_bind: StepSource | None = None
    bind: StepSource | None = None
    post_bind: StepSource | None = None
    requeue: RequeueSource | None = None
    preemption: PreemptionSource | None = None
    placement: PlacementSource | None = None
    cost_limit: int = MAX_RULE_COST
