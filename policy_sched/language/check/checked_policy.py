"""A checked policy: the shape of its source, with a typed tree beside each text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from policy_sched.language.diagnostics import MAX_RULE_COST, Text
from policy_sched.language.syntax import Core, UserFunction
from policy_sched.language.values import RecordType


@dataclass(frozen=True, slots=True)
class Checked:
    """One expression: its typed tree, and the text that the tree's spans count in."""

    core: Core
    text: Text = field(compare=False)


@dataclass(frozen=True, slots=True)
class CheckedRule:
    """A rule of ``filter`` or ``preEnqueue``."""

    expression: Checked
    message: str = ""
    message_expression: Checked | None = None
    reasons: Checked | None = None
    resolvable: bool | Checked = True
    on_error: str | None = None


@dataclass(frozen=True, slots=True)
class CheckedKey:
    """A key of an order, such as ``queueSort``."""

    expression: Checked
    order: str = "Ascending"


@dataclass(frozen=True, slots=True)
class CheckedPreFilter:
    """The ``preFilter`` section; ``node_names`` is list(string) or optional(list(string))."""

    node_names: Checked | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class CheckedScore:
    """The ``score`` section; ``normalize`` is the name of a normaliser or an expression."""

    expression: Checked
    normalize: str | Checked | None = None
    on_error: str | None = None
    match_conditions: tuple[Checked, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckedStep:
    """A section that is one rule, such as ``reserve``; ``permit`` also has a time-out."""

    expression: Checked
    message: str = ""
    message_expression: Checked | None = None
    on_error: str | None = None
    timeout: Checked | None = None


@dataclass(frozen=True, slots=True)
class CheckedRequeue:
    """The ``requeue`` section."""

    hint: Checked | None = None
    every: Checked | None = None


@dataclass(frozen=True, slots=True)
class CheckedPreemption:
    """The ``preemption`` section."""

    eligible: Checked
    victim: Checked
    victim_order: tuple[CheckedKey, ...]
    node_order: tuple[CheckedKey, ...]


@dataclass(frozen=True, slots=True)
class CheckedPlacement:
    """The ``placement`` section."""

    domain: Checked | None = None
    score: Checked | None = None
    on_error: str | None = None


@dataclass(frozen=True, slots=True)
class CheckedPolicy:
    """A policy without a mistake that types and names can show.

    ``params`` holds the effective values and ``params_type`` their record type. ``variables``
    are in the order of definition; a tree reads one as ``Var("variables.<name>")``, and the
    parameters as fields of ``Var("params")``.
    """

    name: str
    params: Mapping[str, object]
    params_type: RecordType
    functions: Mapping[str, UserFunction] = field(default_factory=dict)
    variables: tuple[tuple[str, Checked], ...] = ()
    match_conditions: tuple[Checked, ...] = ()
    pre_enqueue: tuple[CheckedRule, ...] = ()
    queue_sort: tuple[CheckedKey, ...] = ()
    pre_filter: CheckedPreFilter | None = None
    filter: tuple[CheckedRule, ...] = ()
    score: CheckedScore | None = None
    reserve: CheckedStep | None = None
    permit: CheckedStep | None = None
    pre_bind: CheckedStep | None = None
    bind: CheckedStep | None = None
    post_bind: CheckedStep | None = None
    requeue: CheckedRequeue | None = None
    preemption: CheckedPreemption | None = None
    placement: CheckedPlacement | None = None
    cost_limit: int = MAX_RULE_COST
