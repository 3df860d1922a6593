"""A policy's compiled rules as a plugin: one hook per section that the policy has.

The hooks are closures over the bound policy. A policy that has a section implements its point,
and the PreFilter and PreScore points wherever its matchConditions can make them skip; which
fields of the pod and of nodes it reads, and hence its signature and the events that may help a
pod it rejected, is known from its rules: an author registers nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from types import SimpleNamespace
from typing import Final, TypeVar

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from policy_sched import model
from policy_sched.cluster.tables import Key as ColumnKey, NodeView
from policy_sched.errors import PluginError
from policy_sched.framework import (
    PASSES,
    SKIP,
    SUCCESS,
    ByRow,
    Code,
    Codes,
    CycleState,
    DescribeMasked,
    Feasible,
    FilterResult,
    Gate,
    Handle,
    Masked,
    OverlayFilter,
    PreFilterResult,
    RawScores,
    RowKernel,
    Rows,
    Scope,
    Scores,
    Signature,
    Status,
    hookimpl,
)
from policy_sched.framework.evaluate import key_getter
from policy_sched.framework.runtime import broken
from policy_sched.language import BoundUnit, CompiledPolicy, Unit
from policy_sched.language.ir import field_of_column
from policy_sched.language.runtime import Activation, Event, no_allocation
from policy_sched.language.values import Failure, NodeFacts, RuleError, object_of
from policy_sched.plugins import Preempting, Preemption
from policy_sched.plugins.dynamicresources import Allocating, ResourceClaims
from policy_sched.plugins.rules.bound_filter import BoundFilter, Explanation
from policy_sched.plugins.rules.bound_order import BoundOrder
from policy_sched.plugins.rules.bound_policy import BoundPolicy, Refusal, bind
from policy_sched.plugins.rules.events import events_of, newly_served
from policy_sched.plugins.rules.fused_rules import PolicyRules
from policy_sched.plugins.rules.inputs import declare_inputs
from policy_sched.plugins.rules.life_cycle_hooks import life_cycle_hooks
from policy_sched.plugins.rules.placement_hooks import placement_hooks
from policy_sched.queue import QueueOrder

#: Reads that are no fields of the pod; a policy with one of them is evaluated at every attempt.
_OF_THE_ATTEMPT: Final = frozenset({"queue", "podGroup"})
_OF_THE_GROUP: Final = frozenset({("podGroup",), ("pod_group",), ("namespace",)})
"""What all pods of a group have in common."""
_SKIPPED: Final = PreFilterResult(SKIP)
_EVERYWHERE: Final = PreFilterResult()
T = TypeVar("T")


def rule_plugin(
    policy: CompiledPolicy, handle: Handle, profile: str, allocating: Allocating | None = None
) -> object:
    """Return a plugin object with the hooks of the policy's sections.

    ``allocating``: what allocates devices in the profile, if a rule reads that.
    """
    if "devices" in policy.reads.node:
        handle.shared(ResourceClaims)  # which knows them
    declare_inputs(policy, handle)
    bound = bind(policy, handle.nodes, handle.pods)
    rules = _Rules(policy, bound, handle, profile, allocating)
    hooks: dict[str, Callable[..., object]] = {
        "sign_pod": rules.sign_pod,
        "events_to_register": rules.events_to_register,
    }
    sections = policy.sections
    if sections.pre_enqueue:
        hooks["pre_enqueue"] = rules.pre_enqueue
    if sections.queue_sort is not None:
        hooks["queue_sort"] = rules.queue_sort
        if sections.queue_order is not None or policy.sorts_anew:
            hooks["queue_order"] = rules.queue_order
        elif bound.queue_sort is not None and ("podGroup",) not in policy.sort_reads.pod:
            hooks["queue_sort"] = hookimpl(bound.queue_sort)
    if sections.filter is not None:
        hooks["filter"] = rules.filter
        bound.filters(handle.cache.overlay)  # else the first dry run binds it, at pod time
    if policy.pre_filter_reads_pods:
        hooks["filter"] = rules.filter  # in dry runs
    names_nodes = sections.node_names is not None or bool(sections.pre_filter)
    matches = sections.match is not None
    if names_nodes or (sections.filter is not None and matches):
        skipping = None if names_nodes else rules.skipping(_SKIPPED, _EVERYWHERE)
        hooks["pre_filter"] = skipping or rules.pre_filter
    if sections.score is not None:
        hooks["score"] = rules.score
        if matches or sections.score_match is not None or policy.score_reads.preferred:
            own = (
                None if policy.score_reads.preferred else rules.skipping(SKIP, SUCCESS, score=True)
            )
            hooks["pre_score"] = own or rules.pre_score
        if policy.has_normalize:
            hooks["normalize_score"] = rules.normalize_score
    if sections.weights:
        hooks.setdefault("pre_score", rules.pre_score_nothing)
    preemption = None
    if bound.preemption is not None:
        preemption = Preemption(policy, bound, handle, profile)
        hooks["post_filter"] = preemption.post_filter
    hooks |= life_cycle_hooks(policy, bound, handle, profile, preemption)
    hooks |= placement_hooks(policy, bound, handle, profile)
    return _Plugin(**hooks)


class _Plugin(SimpleNamespace):
    """Namespace of hooks; `__dir__` is short so that pluggy scans it fast."""

    def __dir__(self) -> list[str]:
        return list(vars(self))


class _Rules:
    """The hooks of one bound policy."""

    def __init__(
        self,
        policy: CompiledPolicy,
        bound: BoundPolicy,
        handle: Handle,
        profile: str,
        allocating: Allocating | None = None,
    ) -> None:
        self._allocating = allocating
        self._allocation = no_allocation if allocating is None else allocating.would_allocate
        self._policy = policy
        self._bound = bound
        self._handle = handle
        self._profile = profile
        self._name = policy.name
        self._still = Activation(profile=profile, allocation=self._allocation)
        self._moves = policy.reads.scope is Scope.VOLATILE
        self._pre_filter_moves = self._policy.pre_filter_reads.scope is Scope.VOLATILE
        self._asked: tuple[str, int, int] | None = None
        """The pod, and the versions of what rules of preFilter were asked about last."""
        self._answer: Refusal | None = None
        self._several = policy.sections.filter is not None and len(policy.sections.rules) > 1
        self._weighing = [
            (plugin, BoundUnit(unit, bound.runtime)) for plugin, unit in policy.sections.weights
        ]
        self._like = key_getter(self.sign_pod())
        if policy.keeps_rows and allocating is None:
            bound.keep_rows(key_getter(Signature(policy.reads.pod, Scope.NODE, proved=True)))
        self._sorts_groups = ("podGroup",) in policy.sort_reads.pod
        self._order: BoundOrder | None = None
        if policy.sections.queue_order is not None or policy.sorts_anew:
            self._order = BoundOrder(policy.sections, handle.nodes)
        gates = policy.gate_reads
        self._gates_move = gates.scope is Scope.VOLATILE or ("podGroup",) in gates.pod

    @hookimpl
    def sign_pod(self) -> Signature:
        """Name the pod fields that the rules read; the compiler found them."""
        reads = self._policy.reads
        others = _OF_THE_ATTEMPT | {"object"}  # which has a key of its own
        fields = frozenset(path for path in reads.pod if path[0] not in others)
        scope = reads.scope
        if self._policy.pre_filter_reads_pods:
            scope = max(scope, Scope.CLUSTER)
        allocating = self._allocating
        if allocating is not None:
            scope = max(scope, allocating.scope)
        gate = self._policy.gate_reads.pod
        return Signature(
            fields,
            scope,
            proved=self._policy.scores_proved,
            writes_state=False,
            keys=self._keys(),
            weights=self._weights if self._weighing else None,
            gate=Gate(
                self._gates if self._gates_read_the_pod() else None,
                gate,
                by_group=gate <= _OF_THE_GROUP,
            ),
            kernel=self._kernel(by_row=allocating is None and scope is Scope.NODE),
        )

    def _keys(self) -> tuple[Callable[[model.PodInfo], Hashable], ...]:
        """Return what results depend on besides fields of the pod, as functions of the pod."""
        allocating, counted = self._allocating, list(self._bound.aggregates.values())
        keys: list[Callable[[model.PodInfo], Hashable]] = []
        if allocating is not None:
            keys.append(allocating.claims_key)
        if counted:
            # A pod that counts, such as one that is nominated, is decided without itself.
            def own(pod: model.PodInfo) -> Hashable:
                return tuple([repr(aggregate.counted.get(pod.uid)) for aggregate in counted])

            keys.append(own)
        if ("object",) in self._policy.reads.pod:
            read = [kind for kind in self._policy.sections.objects if kind.name == "pod.object"]
            keys.append(lambda pod: repr([object_of(pod, kind) for kind in read]))
        if self._policy.sections.pre_filter:
            # Once for each evaluation: what was found with another verdict is not used again.
            keys.append(self._verdict_of_pre_filter)
        if self._weighing:
            keys.append(self._weights)
        return tuple(keys)

    def _weights(self, pod: model.PodInfo) -> tuple[tuple[str, int], ...] | None:
        """Return the weights of a pod by plugin; where a rule fails, the profile's one holds."""
        try:
            if not self._bound.matches(pod, self._still):
                return None
        except RuleError:
            return None  # the sections meet it again
        values = [
            (plugin, unit.evaluate(0, pod, self._still, 0)) for plugin, unit in self._weighing
        ]
        return tuple([weight for weight in values if not isinstance(weight[1], Failure)])

    @hookimpl
    def pre_score_nothing(self) -> Status:
        """Skip: the policy has weights, and no score of its own."""
        return SKIP

    def _verdict_of_pre_filter(self, pod: model.PodInfo) -> str:
        """Return why rules of preFilter reject the pod; "" where they do not."""
        if self._policy.sections.match is not None:
            try:
                if not self._bound.matches(pod, self._still):
                    return ""
            except RuleError:
                return ""  # PreFilter meets it again
        refusal = self._refusal(pod)
        return "" if refusal is None else f"refused: {refusal.text}"

    def _kernel(self, *, by_row: bool) -> RowKernel:
        """Return what the compiler knows; ``by_row``: filter and score follow from a row."""
        policy, bound = self._policy, self._bound
        kernel = RowKernel(
            normalizes_by_row=policy.normalizes_by_row,
            normalizes_by_extremes=policy.normalizes_by_extremes,
            asked_taints=None if policy.reads.tolerations else policy.reads.taints,
            # Its filter rejects in dry runs alone, and its key has what PreFilter returns.
            follows_from_key=(
                policy.sections.filter is None
                and policy.sections.node_names is None
                and policy.reads.scope <= Scope.NODE
                and policy.pre_filter_reads.scope < Scope.VOLATILE
            ),
        )
        if not by_row:
            return kernel
        still, rules, score = self._still, bound.filters(), bound.score
        return replace(
            kernel,
            filter=rules.row_rule(still),
            score=None if score is None else score.row_rule(still),
            overlay=self._over(self._handle.cache.overlay),
            filter_reads=self._filter_reads,
            rules=PolicyRules(
                rules, score, lambda pod, codes: self._verdict(rules, pod, still, None, codes)
            ),
        )

    def _filter_reads(self, key: ColumnKey) -> bool:
        return field_of_column(key) in self._policy.filter_reads.node

    def _over(self, nodes: NodeView) -> OverlayFilter | None:
        """Return the filter over the overlay; None if it can end the attempt or counts steps."""
        still = self._still
        without = self._policy.sections.filter is None
        if without or self._bound.aborting or self._bound.filters().metered:
            return None
        rules = self._bound.filters(nodes)
        return OverlayFilter(
            nodes,
            lambda pod: rules.flags(pod, still),
            lambda pod, row, code: _status(rules.explain_row(pod, still, row, code)),
            lambda pod, row: rules.code(pod, still, row),
        )

    def skipping(
        self, skips: T, passes: T, *, score: bool = False
    ) -> Callable[[CycleState, model.PodInfo], T] | None:
        """Return a hook that evaluates matchConditions alone, with those of the score or without.

        None if one of them may fail, or reads more than the pod.
        """
        tests, still = self._bound.plain_match(score=score), self._still
        if tests is None or self._moves:
            return None

        @hookimpl
        def hook(state: CycleState, pod: model.PodInfo) -> T:  # noqa: ARG001 - the arguments of hooks
            for test in tests:
                if not all(test(pod, still, 0)):
                    return skips
            return passes

        return hook

    def _gates_read_the_pod(self) -> bool:
        """Return whether the preEnqueue rules read nothing but the pod."""
        reads = self._policy.gate_reads
        others = _OF_THE_ATTEMPT | {"namespaceObject", "object"}
        static = reads.scope is Scope.STATIC and not (reads.node or reads.clock or reads.inputs)
        return static and all(path[0] not in others for path in reads.pod)

    def _gates(self, pod: model.PodInfo) -> bool:
        """Return whether the preEnqueue rules reject the pod."""
        return self._bound.pre_enqueue(pod, self._still) is not None

    @hookimpl
    def events_to_register(self) -> tuple[model.ClusterEventWithHint, ...]:
        """Derive the events, and whether they help, from what the rules read.

        The caller must keep them: they refer to the rules.
        """
        may_evict = Preempting(self._handle)
        return events_of(
            self._policy,
            self._helps,
            self._own_hint,
            may_evict,
            self._alike,
            trees=self._trees,
            moment=self._moment,
        )

    @hookimpl
    def pre_enqueue(self, pod: model.PodInfo) -> Status:
        """Gate the pod if a preEnqueue rule rejects it."""
        refusal = self._bound.pre_enqueue(pod, self._now(pod) if self._gates_move else self._still)
        if refusal is None:
            return SUCCESS
        return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (refusal.text,), self._name)

    @hookimpl
    def queue_sort(self, queued: model.QueuedPod) -> tuple[int | float | str, ...]:
        """Return the values of the policy's sort keys."""
        key = self._bound.queue_key if self._order is None else self._order.sort_key
        if not self._sorts_groups:
            return key(queued)
        return key(queued, self._handle.groups.counts(queued.info))

    @hookimpl
    def queue_order(self) -> QueueOrder | None:
        """Return the order of the policy's queues, or of pods whose place changes."""
        return self._order

    @hookimpl
    def pre_filter(self, state: CycleState, pod: model.PodInfo) -> PreFilterResult:
        """Skip if a matchCondition is false; else name the only nodes, if the policy does."""
        cycle = self._cycle(state, pod)
        if not self._bound.matches(pod, cycle):
            return _SKIPPED
        refusal = self._refusal(pod)
        if refusal is not None:
            return PreFilterResult(Status(_code(refusal.resolvable), (refusal.text,)))
        if self._policy.sections.node_names is None:
            return _EVERYWHERE
        names = self._bound.node_names(pod, cycle)
        if names is not None and not names:
            reasons = (self._policy.sections.pre_filter_message,)
            return PreFilterResult(Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons))
        return PreFilterResult(node_names=names)

    @hookimpl
    def filter(
        self, state: CycleState, pod: model.PodInfo, rows: Rows, nodes: NodeView
    ) -> FilterResult:
        """Run the filter rules over the rows."""
        cycle = self._cycle(state, pod)
        if nodes is not self._handle.nodes and self._policy.pre_filter_reads_pods:
            refusal = self._refusal(pod, nodes)
            if refusal is not None:
                count = nodes.n if rows is None else rows.size
                status = Status(_code(refusal.resolvable), (refusal.text,))
                return FilterResult.of(np.ones(count, np.int16), status)
        if self._policy.sections.filter is None:
            return PASSES
        rules = self._bound.filters(nodes)
        return self._verdict(rules, pod, cycle, rows, rules.codes(pod, cycle, rows))

    def _refusal(self, pod: model.PodInfo, nodes: NodeView | None = None) -> Refusal | None:
        """Return why a rule of preFilter rejects the pod, None if none does."""
        policy, handle, moves = self._policy, self._handle, self._pre_filter_moves
        if not policy.sections.pre_filter:
            return None
        # For speed: PreFilter asks again what the signature asked. Whatever the rules count is
        # noted in the journal when it changes.
        table, nominator = handle.cache.nodes, handle.nominator
        asked = pod.uid, table.journal.version, nominator.version
        if nodes is None and not moves and self._asked == asked:
            return self._answer
        nominated: list[tuple[int, model.PodInfo, int]] = []
        if nominator.node_by_uid and policy.pre_filter_reads_pods:
            row_of = table.row_of
            nominated = [
                (1, other, row_of.get(node, -1))
                for node, pods in nominator.nominated()
                for other in pods
                if other.priority >= pod.priority and other.uid != pod.uid
            ]
        cycle = self._now(pod) if moves else self._still
        before = self._bound.before if nodes is None else self._bound.pod_rules(nodes)
        answer = before.refusal(pod, cycle, nominated)
        if nodes is None:
            self._asked, self._answer = asked, answer
        return answer

    def _verdict(
        self,
        rules: BoundFilter,
        pod: model.PodInfo,
        cycle: Activation,
        rows: Rows,
        codes: Codes | None,
    ) -> FilterResult:
        """Return codes with what explains them."""
        if codes is None:
            return PASSES

        def describe(where: NDArray[np.intp], codes: Codes) -> ByRow[Status]:
            return rules.explain(pod, cycle, where, codes).map(_status)

        def masked(where: NDArray[np.bool_], codes: Codes) -> Masked | None:
            explained = rules.explain_masked(pod, cycle, where, codes)
            return None if explained is None else [(own, _status(why)) for own, why in explained]

        parts = (lambda: rules.by_rule(pod, cycle, rows)) if self._several else None
        return FilterResult(
            codes, DescribeMasked(describe, masked), parts=parts, fatal=self._bound.aborting
        )

    @hookimpl
    def pre_score(self, state: CycleState, pod: model.PodInfo) -> Status:
        """Skip if a matchCondition, of the policy or of its score, is false.

        A preferred term of the pod that is not valid ends the attempt where the score weighs it.
        """
        cycle = self._cycle(state, pod)
        bound = self._bound
        if not (bound.matches(pod, cycle) and bound.matches_score(pod, cycle)):
            return SKIP
        if self._policy.score_reads.preferred and pod.node_affinity is not None:
            error = model.node_matcher(pod.node_affinity).error
            if error:
                return Status(Code.ERROR, (error,))
        return SUCCESS

    @hookimpl
    def score(self, state: CycleState, pod: model.PodInfo, rows: Rows) -> RawScores:
        """Run the score rule over the rows."""
        rule = self._bound.score
        assert rule is not None, "the policy has a score"
        return rule.raw(pod, self._cycle(state, pod), rows)

    @hookimpl
    def normalize_score(self, state: CycleState, pod: model.PodInfo, scores: RawScores) -> Scores:
        """Normalise the scores of all feasible rows."""
        rule = self._bound.score
        assert rule is not None, "the policy has a score"
        if not self._policy.normalizes_by_row:
            return rule.normalize(scores)
        feasible = state.read(Feasible)
        assert feasible is not None, "it is there from PreScore on"
        cycle, rows = self._cycle(state, pod), feasible.rows
        failure = rule.failure(pod, cycle, scores, rows)
        if failure is not None:
            raise PluginError(broken("score", self._name, failure))
        return rule.normalize(scores, pod, cycle, rows)

    def _helps(self, pod: model.PodInfo, node: str) -> bool:
        """Return whether the rules have nothing against the pod on one node, as it is now."""
        table, bound = self._handle.nodes, self._bound
        row = table.row_of.get(node)
        if row is None:
            return False
        if not bound.matches(pod, self._still):
            return True
        names = bound.node_names(pod, self._still)
        if names is not None and node not in names:
            return False
        codes = bound.filters().codes(pod, self._still, np.array([row], np.intp))
        return codes is None or codes.item() == 0 or codes.item() in bound.aborting

    def _alike(self, pod: model.PodInfo) -> Hashable:
        """Return a key of pods for which `_helps` and `Preempting` return the same."""
        nominated = pod.uid in self._handle.nominator.node_by_uid
        return self._like(pod), pod.priority, pod.pod.spec.preemption_policy, nominated

    def _trees(self, pod: model.PodInfo) -> tuple[Hashable, ...]:
        """Return the tree that a pod counts in, for each of the policy's quotas."""
        return tuple(quotas.tree_of(pod) for quotas in self._bound.quotas)

    def _moment(self, queued: model.QueuedPod) -> int:
        """Return when the time itself may change what the rules say of a pod; 0: never."""
        cycle = replace(self._now(queued.info), queued=queued)
        return self._bound.next_moment(queued.info, cycle)

    def _own_hint(self, unit: Unit, kind: str, action: str) -> model.ClusterEventWithHint:
        """Return an event with a hint of the policy's own about what happens to a kind."""
        table, own = self._handle.nodes, self._bound.life.hint(unit)
        reads = self._policy.reads | unit.reads
        fields = frozenset(reads.pod)
        moves = reads.scope is Scope.VOLATILE or reads.clock
        alike = None
        if not moves and not any(path[0] in _OF_THE_ATTEMPT for path in fields):
            alike = key_getter(Signature(fields, Scope.STATIC))

        def facts(item: object) -> NodeFacts | None:
            return NodeFacts(item, table) if isinstance(item, model.Node) else None

        def hint(pod: model.PodInfo, old: object, new: object) -> model.QueueingHint:
            event = Event(
                kind,
                action,
                facts(old),
                facts(new),
                old if isinstance(old, model.PodInfo) else None,
                new if isinstance(new, model.PodInfo) else None,
                newly_served(old, new),
            )
            cycle = Activation(now=self._handle.now(), profile=self._profile, event=event)
            worth = not self._bound.matches(pod, cycle) or own(pod, cycle)
            return model.QueueingHint.QUEUE if worth else model.QueueingHint.SKIP

        return model.ClusterEventWithHint(model.TIMER, hint, alike=alike)

    def _now(self, pod: model.PodInfo) -> Activation:
        handle = self._handle
        return Activation(
            now=handle.now(),
            profile=self._profile,
            pod_group=handle.groups.counts(pod),
            allocation=self._allocation,
        )

    def _cycle(self, state: CycleState, pod: model.PodInfo) -> Activation:
        """Return the activation of this cycle; its time is fixed."""
        if not self._moves:
            return self._still
        cycle = state.read(Activation)
        if cycle is None:
            cycle = self._now(pod)
            state.write(cycle)
        return cycle


def _status(explanation: Explanation) -> Status:
    return Status(_code(explanation.resolvable), explanation.reasons)


def _code(resolvable: bool) -> Code:
    return Code.UNSCHEDULABLE if resolvable else Code.UNSCHEDULABLE_AND_UNRESOLVABLE
