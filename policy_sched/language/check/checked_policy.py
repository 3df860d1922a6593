"""A checked policy: the shape of its source, with a typed tree beside each text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from policy_sched.language.diagnostics import (
    MAX_RULE_COST,
    OrderKey,
    PlacementRule,
    PreemptionRules,
    PreFilterRule,
    RequeueRule,
    Rule,
    ScoreRule,
    StepRule,
    Text,
)
from policy_sched.language.syntax import Core, UserFunction
from policy_sched.language.values import RecordType


@dataclass(frozen=True, slots=True)
class Checked:
    """One expression: its typed tree, and the text that the tree's spans count in."""

    core: Core
    text: Text = field(compare=False)


CheckedRule: TypeAlias = Rule[Checked]
CheckedKey: TypeAlias = OrderKey[Checked]
CheckedPreFilter: TypeAlias = PreFilterRule[Checked]
CheckedScore: TypeAlias = ScoreRule[Checked]
CheckedStep: TypeAlias = StepRule[Checked]
CheckedRequeue: TypeAlias = RequeueRule[Checked]
CheckedPreemption: TypeAlias = PreemptionRules[Checked]
CheckedPlacement: TypeAlias = PlacementRule[Checked]


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
