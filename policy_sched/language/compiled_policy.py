"""The entry point of the compiler: a checked policy becomes a `CompiledPolicy`.

It knows no table, is immutable and can be shared and pickled. plugins/rules binds it to the tables
of a cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_

from policy_sched.errors import Diagnostic
from policy_sched.language.check import CheckedPolicy
from policy_sched.language.compile import PolicyCompiler
from policy_sched.language.ir import Reads
from policy_sched.language.sections import Sections, Unit


class CompiledPolicy:
    """A policy whose rules are compiled; immutable, and independent of any table."""

    def __init__(self, name: str, sections: Sections, params: Mapping[str, object]) -> None:
        self.name = name
        self.params = params
        self.sections = sections
        matching = _reads(sections.match)
        self.match_reads: Reads = matching
        """What the matchConditions of the whole policy read."""
        self.filter_reads: Reads = _reads(sections.filter, *_explaining(sections)) | matching
        self.score_reads: Reads = _reads(sections.score_match, *_scoring(sections)) | matching
        self.reads: Reads = self.filter_reads | self.score_reads | _reads(sections.node_names)
        """What the rules that place a pod read: filter, score, and the conditions of both."""
        self.rejecting_reads: Reads = self.filter_reads | _reads(sections.node_names)
        """What decides whether a node is refused to a pod."""
        self.passes_with_more_pods = (
            sections.filter is not None and sections.filter.passes_with_more_pods
        )
        """Whether a node that is refused may be acceptable because a pod came to it."""
        gates = [gate.unit for gate in sections.pre_enqueue]
        gates += [gate.explain for gate in sections.pre_enqueue if gate.explain is not None]
        self.gate_reads: Reads = _reads(*gates) | matching if gates else Reads()
        """What decides whether a pod is kept out of the queue."""
        self.sort_reads: Reads = _reads(sections.queue_sort)
        """What the order of the queue depends on."""
        self.preemption = sections.preemption
        """Which pods may preempt, which pods are victims, and which nodes are preferred."""
        placement = sections.placement
        self.domain_reads: Reads | None = (
            None
            if placement is None or placement.domain is None
            else placement.domain.reads | matching
        )
        """What decides which domain a node belongs to; None where the policy does not say."""
        self.life = sections.life
        """What follows the choice of a node."""
        vetoes = (self.life.reserve, self.life.permit, self.life.pre_bind)
        found = [step.reads for step in vetoes if step is not None]
        self.veto_reads: Reads = reduce(or_, found, matching) if found else Reads()
        """What decides whether a pod may have the node that was chosen for it."""

    @property
    def reads_pod_groups(self) -> bool:
        """Whether a rule reads facts of the pod's group."""
        found = (one for one in vars(self).values() if isinstance(one, Reads))
        return any(path[:1] == ("podGroup",) for reads in found for path in reads.pod)

    @property
    def units(self) -> float:
        """What filter and score cost per pod and node, in units of `cost`."""
        units = (self.sections.filter, *_scoring(self.sections))
        return sum(unit.units for unit in units if unit is not None)

    @property
    def has_filter(self) -> bool:
        """Whether there are filter rules."""
        return self.sections.filter is not None

    @property
    def has_score(self) -> bool:
        """Whether there is a score rule."""
        return self.sections.score is not None

    @property
    def has_pre_enqueue(self) -> bool:
        """Whether there are preEnqueue rules."""
        return bool(self.sections.pre_enqueue)

    @property
    def has_queue_sort(self) -> bool:
        """Whether there are queueSort keys."""
        return self.sections.queue_sort is not None

    @property
    def has_pre_filter(self) -> bool:
        """Whether preFilter names nodes."""
        return self.sections.node_names is not None

    @property
    def has_match(self) -> bool:
        """Whether there are matchConditions of the whole policy."""
        return self.sections.match is not None

    @property
    def has_score_match(self) -> bool:
        """Whether there are matchConditions of the score alone."""
        return self.sections.score_match is not None

    @property
    def has_normalize(self) -> bool:
        """Whether raw scores are normalised over the feasible nodes, or may end the attempt."""
        score = self.sections.score
        return score is not None and score.marks_failures

    @property
    def normalizes_by_row(self) -> bool:
        """Whether normalisation depends on more than raw scores."""
        score = self.sections.score
        return score is not None and score.normalizes_by_row

    @property
    def pre_filter_message(self) -> str:
        """The reason where preFilter names no node at all."""
        return self.sections.pre_filter_message

    @property
    def normalizer(self) -> str | None:
        """The normaliser's name, ``expression``, or None."""
        score = self.sections.score
        if score is None:
            return None
        return "expression" if score.expression is not None else score.normalizer

    @property
    def has_placement_score(self) -> bool:
        """Whether domains are rated."""
        placement = self.sections.placement
        return placement is not None and placement.score is not None


def _reads(*units: Unit | None) -> Reads:
    found = Reads()
    for unit in units:
        if unit is not None:
            found |= unit.reads
    return found


def _scoring(sections: Sections) -> list[Unit | None]:
    score = sections.score
    return [] if score is None else [score.unit, score.expression]


def _explaining(sections: Sections) -> list[Unit | None]:
    return [rule.explain for rule in sections.rules]


def compile_policy(checked: CheckedPolicy) -> tuple[CompiledPolicy | None, list[Diagnostic]]:
    """Compile a checked policy.

    Returns the policy, or None with diagnostics: a score whose range is not proved (PS321, PS323),
    a resource name that differs from node to node (PS211).
    """
    compiler = PolicyCompiler(checked)
    sections = compiler.compile()
    if compiler.diagnostics:
        return None, sorted(set(compiler.diagnostics))
    return CompiledPolicy(checked.name, sections, checked.params), []


def problems_of(checked: CheckedPolicy) -> list[Diagnostic]:
    """Return what `compile_policy` says of a checked policy, in two thirds of the time."""
    compiler = PolicyCompiler(checked, code=False)
    compiler.compile()
    return sorted(set(compiler.diagnostics))
