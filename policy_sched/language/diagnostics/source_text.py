"""The checker's input: a policy's texts and settings as plain data, each text with its place.

`profiles` builds these from YAML; nothing here knows YAML.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

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


@dataclass(frozen=True, slots=True)
class RuleSource:
    """A rule of ``filter`` or ``preEnqueue``; at most one of the message forms is given."""

    expression: Text
    message: str = ""
    message_expression: Text | None = None
    reasons: Text | None = None
    resolvable: bool | Text = True
    on_error: str | None = None


@dataclass(frozen=True, slots=True)
class KeySource:
    """A key of an order, such as ``queueSort``; ``order`` is Ascending or Descending."""

    expression: Text
    order: str = "Ascending"


@dataclass(frozen=True, slots=True)
class PreFilterSource:
    """The ``preFilter`` section: the node names to look at, and why a pod with none fails."""

    node_names: Text | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class ScoreSource:
    """The ``score`` section; ``normalize`` is the name of a normaliser or an expression."""

    expression: Text
    normalize: str | Text | None = None
    on_error: str | None = None
    match_conditions: tuple[Text, ...] = ()


@dataclass(frozen=True, slots=True)
class StepSource:
    """A section that is one rule: ``reserve``, ``preBind``, ``bind``, ``postBind``.

    ``permit`` has its ``allow`` as the expression, and a time-out beside it.
    """

    expression: Text
    message: str = ""
    message_expression: Text | None = None
    on_error: str | None = None
    timeout: Text | None = None


@dataclass(frozen=True, slots=True)
class RequeueSource:
    """The ``requeue`` section."""

    hint: Text | None = None
    every: Text | None = None


@dataclass(frozen=True, slots=True)
class PreemptionSource:
    """The ``preemption`` section, complete: what a policy leaves open is as upstream does it."""

    eligible: Text
    victim: Text
    victim_order: tuple[KeySource, ...]
    node_order: tuple[KeySource, ...]


@dataclass(frozen=True, slots=True)
class PlacementSource:
    """The ``placement`` section: the domain of a node, and how good a domain is for a group."""

    domain: Text | None = None
    score: Text | None = None
    on_error: str | None = None


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
