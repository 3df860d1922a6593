"""The hooks of a policy for what follows the choice of a node: Reserve, Permit, binding.

PostFilter is here for pods that found none: it says why, and whether their group failed.

Theory of operation. Each section is evaluated for one pod and its chosen node, on
which the cache counts the pod already. A pod that has to wait leaves a function by which it is
evaluated again when something that its rule reads has changed: its group's counts, nodes and
what runs on them, the time. When a pod that a Permit rule let through or held is undone, all other
pods of its group that wait for the same policy are sent back with it, as users of the coscheduling
plugin expect: a gang that lost a member would only wait for its time to be up.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

from msgspec.structs import replace

from policy_sched.errors import ClusterError, PluginError
from policy_sched.framework import (
    SKIP,
    SUCCESS,
    Code,
    CycleState,
    Diagnosis,
    DryRunMarker,
    Evictions,
    GroupFailure,
    Handle,
    PendingStatus,
    PermitCondition,
    PermitResult,
    PodsToActivate,
    PodToEvict,
    PostFilterResult,
    Scope,
    Status,
    hookimpl,
)
from policy_sched.language import CompiledPolicy
from policy_sched.language.runtime import Activation
from policy_sched.language.values import RuleError
from policy_sched.model import SECOND, PodInfo
from policy_sched.plugins import DefaultBinder, Preemption
from policy_sched.plugins.rules.bound_policy import BoundPolicy
from policy_sched.plugins.rules.life_cycle import BoundStep

_ALLOWED: Final = PermitResult()
_NO_HELP: Final = PostFilterResult(Status(Code.UNSCHEDULABLE))


def life_cycle_hooks(
    policy: CompiledPolicy,
    bound: BoundPolicy,
    handle: Handle,
    profile: str,
    preemption: Preemption | None = None,
) -> dict[str, Callable[..., object]]:
    """Return the hooks of the policy's sections, by name; ``preemption``: its own, if it has one.

    That is asked first for what makes room.
    """
    rules = _LifeCycle(policy, bound, handle, profile, preemption)
    life = policy.life
    hooks: dict[str, Callable[..., object]] = {}
    if life.post_filter is not None or (life.permit and life.permit.reject):
        hooks["post_filter"] = rules.post_filter
    if policy.sections.evict is not None:
        hooks.setdefault("post_filter", rules.post_filter)  # where it counts
        hooks["evictions"] = rules.evictions
    if life.reserve is not None or life.permit is not None:
        hooks["reserve"] = rules.reserve
    if life.permit is not None:
        hooks |= {"permit": rules.permit, "unreserve": rules.unreserve}
    if life.pre_bind is not None:
        hooks["pre_bind"] = rules.pre_bind
    if life.bind is not None:
        hooks["bind"] = rules.bind
    if life.post_bind is not None:
        hooks["post_bind"] = rules.post_bind
    return hooks


_OF_THE_COUNTS: Final = frozenset({("podGroup",)})
_OF_A_GROUP: Final = _OF_THE_COUNTS | {("pod_group",), ("namespace",)}
"""What rules read of a pod that is the same for all pods of its group."""


class _LifeCycle:
    """The hooks of one bound policy."""

    def __init__(
        self,
        policy: CompiledPolicy,
        bound: BoundPolicy,
        handle: Handle,
        profile: str,
        preemption: Preemption | None,
    ) -> None:
        self._name = policy.name
        self._preemption = preemption
        self._policy = policy
        self._bound = bound
        self._sections = bound.life
        self._handle = handle
        self._profile = profile
        self._binder = DefaultBinder({}, handle)
        permit = policy.life.permit
        self._permit_reads = None if permit is None else permit.unit.reads
        if permit is not None and permit.reject is not None:
            self._permit_reads = permit.unit.reads | permit.reject.unit.reads
        self._waits_for_its_group = permit is not None and ("podGroup",) in permit.unit.reads.pod
        matching = policy.match_reads
        self._match_moves = bool(matching.node) or matching.scope is Scope.VOLATILE

    @hookimpl
    def post_filter(
        self, state: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        """Say why the pod found no node, and whether its group failed with it."""
        result = _NO_HELP
        if self._preemption is not None:
            result = self._preemption.post_filter(state, pod, diagnosis)
            if result.status.code is not Code.UNSCHEDULABLE:
                return result
        cycle = self._cycle(pod)
        group = replace(cycle.pod_group, failures=cycle.pod_group.failures + 1)
        cycle = replace(cycle, pod_group=group)
        try:
            if not self._bound.matches(pod, cycle):
                return result
            permit = self._sections.permit
            if permit is not None and permit.reject is not None and pod.pod_group:
                failed = permit.reject.rejection(pod, cycle, 0) is not None
                state.write(GroupFailure(failed))
            section = self._sections.post_filter
            text = "" if section is None else section.text(pod, cycle, 0)
        except RuleError as error:
            raise PluginError(f'policy "{self._name}": {error}') from error
        if not text:
            return result
        return replace(result, status=Status(Code.UNSCHEDULABLE, (*result.status.reasons, text)))

    @hookimpl
    def reserve(self, pod: PodInfo, node: str) -> Status:
        """Let the pod have the node, or send it back."""
        return self._evaluate(self._sections.reserve, pod, node, apart=True)

    @hookimpl
    def unreserve(self, state: CycleState, pod: PodInfo) -> None:
        """Send the other pods of the group back that wait for this policy."""
        if not pod.pod_group or state.read(DryRunMarker) is not None or not self._takes_part(pod):
            return
        group = self._handle.waiting_pods.of_group((pod.namespace, pod.pod_group))
        for waiting in tuple(group.values()):
            if waiting.pod.uid != pod.uid and self._name in waiting.pending_plugins:
                text = f"pod {pod.key} of pod group {pod.pod_group} was sent back"
                waiting.reject(self._name, text)

    def _takes_part(self, pod: PodInfo) -> bool:
        """Return whether no matchCondition is false of a pod."""
        try:
            return self._bound.matches(pod, self._cycle(pod, apart=True))
        except RuleError:
            return True

    @hookimpl
    def permit(self, state: CycleState, pod: PodInfo, node: str) -> PermitResult:
        """Allow the binding, or let the pod wait for the policy's timeout."""
        section = self._sections.permit
        assert section is not None, "only policies with the section have this hook"
        cycle = self._cycle(pod, apart=True)
        if not self._bound.matches(pod, cycle):
            return _ALLOWED
        result = section.evaluate(pod, cycle, self._row(node))
        if result.holds:
            return _ALLOWED
        reasons = (result.message,)
        if not result.wait:
            return PermitResult(Status(Code.UNSCHEDULABLE, reasons))
        wanted = section.activates(pod, cycle, self._row(node))
        if self._waits_for_its_group if wanted is None else wanted:
            _call_siblings(state, pod)
        again = self._again(section, pod, node, reasons)
        return PermitResult(Status(Code.WAIT, reasons), result.wait / SECOND, again)

    @hookimpl
    def pre_bind(self, pod: PodInfo, node: str) -> Status:
        """Let the binding begin, or send the pod back."""
        return self._evaluate(self._sections.pre_bind, pod, node)

    @hookimpl
    def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status | PendingStatus:
        """Bind the pod, or leave it to the next plugin."""
        section = self._sections.bind
        cycle = self._cycle(pod)
        if section is None or not self._bound.matches(pod, cycle):
            return SKIP
        if not section.holds(pod, cycle, self._row(node)):
            return SKIP
        return self._binder.bind(state, pod, node)

    @hookimpl
    def post_bind(self, pod: PodInfo, node: str) -> None:
        """Record the binding in an event whose reason is the policy's name."""
        section = self._sections.post_bind
        cycle = self._cycle(pod)
        if section is None or not self._bound.matches(pod, cycle):
            return
        note = section.text(pod, cycle, self._row(node))
        if note:
            self._handle.client.record_event(pod, "Normal", self._name, "Binding", note)

    @hookimpl
    def evictions(self) -> Evictions | None:
        """Return which running pods the policy evicts."""
        section, rules = self._policy.sections.evict, self._bound.evict
        if section is None or rules is None:
            return None

        def judge(pod: PodInfo, node: str) -> PodToEvict | None:
            cycle = self._cycle(pod)
            if not self._bound.matches(pod, cycle):
                return None
            return rules.judge(pod, cycle, self._row(node))

        return Evictions(section.every, section.most, judge)

    def _evaluate(
        self, section: BoundStep | None, pod: PodInfo, node: str, *, apart: bool = False
    ) -> Status:
        if section is None:
            return SUCCESS
        cycle = self._cycle(pod, apart=apart)
        if not self._bound.matches(pod, cycle):
            return SUCCESS
        result = section.evaluate(pod, cycle, self._row(node))
        return SUCCESS if result.holds else Status(Code.UNSCHEDULABLE, (result.message,))

    def _cycle(self, pod: PodInfo, *, apart: bool = False) -> Activation:
        """Return what the rules see now; ``apart``: the pod itself does not count in its group."""
        handle = self._handle
        group = handle.groups.counts(pod, apart=apart)
        return Activation(now=handle.now(), profile=self._profile, pod_group=group)

    def _row(self, node: str) -> int:
        """Return the row of the chosen node; ClusterError if it is gone by now."""
        row = self._handle.nodes.row_of.get(node)
        if row is None:
            raise ClusterError(f"node {node} is gone")
        return row

    # Waiting for permission.

    def _again(
        self, section: BoundStep, pod: PodInfo, node: str, reasons: tuple[str, ...]
    ) -> PermitCondition:
        """Return how Permit is evaluated again: pods that read the same things share a topic."""
        reads = self._permit_reads
        assert reads is not None, "the policy has a permit section"
        if self._match_moves:
            reads = reads | self._policy.match_reads
        grouped = ("podGroup",) in reads.pod
        group = (pod.namespace, pod.pod_group) if pod.pod_group else None

        def evaluate() -> Status:
            cycle = self._cycle(pod, apart=True)
            try:
                if self._match_moves and not self._bound.matches(pod, cycle):
                    return SUCCESS
                if section.holds(pod, cycle, self._row(node)):
                    return SUCCESS
                rule = section.reject
                # Of the group as a whole: all that wait count.
                rejection = None if rule is None else rule.rejection(pod, self._cycle(pod), 0)
            except (ClusterError, RuleError) as error:
                return Status(Code.ERROR, (str(error),))
            if rejection is not None:
                return Status(Code.UNSCHEDULABLE, (rejection,))
            return Status(Code.WAIT, reasons)

        def version() -> Hashable:
            handle = self._handle
            objects = handle.objects.version if grouped else 0
            nodes = handle.nodes.journal.version if reads.node or reads.inputs else 0
            return objects, nodes, handle.now() if reads.clock else 0

        alike = reads.pod <= (_OF_A_GROUP if group else _OF_THE_COUNTS) and not reads.node
        return PermitCondition(evaluate, id(self), version, alike, group)


def _call_siblings(state: CycleState, pod: PodInfo) -> None:
    """Activate the other pods of the group: the pod waits only for them."""
    wanted = state.read(PodsToActivate) or PodsToActivate()
    wanted.groups.add((pod.namespace, pod.pod_group))
    state.write(wanted)
