"""Compiles a checked policy: every section's expressions, proofs about the score, diagnostics."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import TypeVar

from msgspec.structs import replace

from policy_sched.errors import Diagnostic
from policy_sched.language import check, codegen, diagnostics, ir, lower
from policy_sched.language.cost_report import over_budget
from policy_sched.language.expression import constant, limit_steps
from policy_sched.language.ir import ops
from policy_sched.language.runtime import NORMALIZERS, NOT_NEGATIVE
from policy_sched.language.sections import (
    Choice,
    CompiledAggregate,
    CompiledPolicy,
    CompiledQuotaObjects,
    CompiledQuotas,
    ConditionPart,
    DeviceChoices,
    DeviceFilter,
    Eviction,
    FilterRule,
    GateRule,
    Input,
    LifeCycle,
    Moment,
    PlacementRules,
    PreemptionChoices,
    QueueOrderUnits,
    Root,
    Score,
    Sections,
    StatedEvents,
    Step,
    Unit,
)
from policy_sched.language.syntax import ast
from policy_sched.language.values import Interval, LimitError, one_evaluation, types

_T = TypeVar("_T")


class PolicyCompiler:
    """Compiles the sections of one policy and collects what is wrong with them.

    All sections share one lowering, so that what they have in common is lowered once. Without
    ``code``, only errors are collected: the sections cannot be bound.
    """

    def __init__(self, policy: check.CheckedPolicy, *, code: bool = True) -> None:
        self.policy = policy
        self._code = code
        self.diagnostics: list[Diagnostic] = []
        self._low = lower.make_lowering(policy.params, policy.params_type, policy.functions)
        self._low.objects = {kind.name: kind for kind in policy.objects}
        if policy.inputs:
            self._low.globals["inputs"] = lower.identities(policy.inputs)
        for name, variable in policy.variables:
            self._low.globals[f"variables.{name}"] = self._low.thunk(variable.core, {})

    def compile(self) -> Sections:
        """Return the compiled sections; of no use where there are diagnostics."""
        with one_evaluation():
            sections = self._sections()
            # One that is read only where a parameter says otherwise costs nothing.
            read = [each for each in sections.aggregates if each.identity in self._low.aggregates]
            sections = replace(sections, aggregates=tuple(read))
            self._limit_cost(sections)
        return sections

    def _limit_cost(self, sections: Sections) -> None:
        """Refuse filter and score rules that cost too much for each node."""
        policy, limit = self.policy, self.policy.cost_limit
        rules = [rule.expression for rule in policy.filter]
        if sections.filter is None or sections.filter.units <= limit:
            rules = []
        if sections.score is not None and policy.score is not None:
            if sections.score.unit.units > limit:
                rules.append(policy.score.expression)
            normalize, unit = policy.score.normalize, sections.score.expression
            if isinstance(normalize, check.Checked) and unit is not None and unit.units > limit:
                rules.append(normalize)
        for rule in rules:
            self._limit_rule(rule, limit)
        for rule, _ in self._device_rules():
            self._limit_rule(rule, limit * diagnostics.DEVICE_COST, each="device")

    def _limit_rule(self, rule: check.Checked, limit: int, *, each: str = "node") -> None:
        value = self._lowered(rule)
        keeps = each == "node"
        units = 0.0
        if value is not None:
            units = make_unit(self._low, [value], keeps=keeps, code=False).units
        if units > limit:
            variables = [(name, variable.core) for name, variable in self.policy.variables]
            given = (self.policy.params, self.policy.params_type, self.policy.functions, variables)
            self._refused(rule, over_budget(rule, units, limit, given, each=each))

    def _device_rules(self) -> list[tuple[check.Checked, str]]:
        """Return the rules of ``devices``, each with its name."""
        section = self.policy.devices
        if section is None:
            return []
        rules = [(rule.expression, f"filter[{i}]") for i, rule in enumerate(section.filter)]
        return [*rules, *([(section.score, "score")] if section.score is not None else [])]

    def _sections(self) -> Sections:
        policy = self.policy
        before = policy.pre_filter
        names = before.node_names if before else None
        queue_sort = self._unit([key.expression for key in policy.queue_sort])
        descending = tuple([key.order == "Descending" for key in policy.queue_sort])
        return Sections(
            name=policy.name,
            inputs=self.inputs(),
            objects=policy.objects,
            aggregates=tuple(
                made for given in policy.aggregates if (made := self._aggregate(given)) is not None
            ),
            quotas=tuple(
                quota for given in policy.quotas if (quota := self._quotas(given)) is not None
            ),
            match=self._unit(policy.match_conditions),
            score_match=self._unit(policy.score.match_conditions if policy.score else ()),
            pre_enqueue=tuple(
                gate
                for i, rule in enumerate(policy.pre_enqueue)
                if (gate := self._gate(i, rule)) is not None
            ),
            queue_sort=queue_sort,
            descending=descending,
            sort_program=self._sort_program(queue_sort, descending),
            queue_order=self._queue_order(policy.queue_order),
            node_names=self._unit([names] if names else ()),
            pre_filter_message=before.message if before else "",
            pre_filter=tuple(
                gate
                for i, rule in enumerate(before.rules if before else ())
                if (gate := self._gate(i, rule, "preFilter.rules")) is not None
            ),
            pre_filter_together=self._unit([rule.expression for rule in before.rules])
            if before
            else None,
            filter=self._unit([rule.expression for rule in policy.filter], keeps=True),
            rules=tuple(
                rule
                for i, checked in enumerate(policy.filter)
                if (rule := self._filter_rule(i, checked)) is not None
            ),
            score=self._score(policy.score) if policy.score else None,
            weights=tuple(
                (plugin, unit)
                for plugin, weight in policy.weights
                if (unit := self._weight(weight)) is not None
            ),
            life=self._life_cycle(),
            moments=tuple(self._moments()) if self._code else (),
            preemption=self._preemption(policy.preemption),
            evict=None if policy.evict is None else self._eviction(policy.evict),
            placement=self._placement(policy.placement),
            devices=self._devices(policy.devices),
        )

    # Expressions.

    def _sort_program(
        self, unit: Unit | None, descending: Sequence[bool]
    ) -> codegen.SortProgram | None:
        if unit is None or not self._code or unit.program.metered:
            return None
        if any(type(root.zero) is not int or root.error is not None for root in unit.roots):
            return None
        keys = [self._lowered(key.expression) for key in self.policy.queue_sort]
        return codegen.sort_program([key.op for key in keys if key is not None], descending)

    def _refused(self, checked: check.Checked, refusal: lower.Refusal) -> None:
        span = refusal.span
        problem = diagnostics.Problem(
            span.start, span.end, refusal.code, refusal.message, refusal.hint
        )
        context = f"policy {self.policy.name}, {checked.text.path}"
        self.diagnostics.append(check.diagnostic(problem, checked.text, context))

    def _attempt(self, checked: check.Checked, step: Callable[[], _T]) -> _T | None:
        """Run a step; what it refuses becomes a diagnostic."""
        try:
            lowered = step()
            if isinstance(lowered, lower.Value):
                limit_steps(lowered, checked.core.span)
        except lower.Refusal as refusal:
            self._refused(checked, refusal.placed_at(checked.core.span))
            return None
        return lowered

    def _lowered(self, checked: check.Checked) -> lower.Value | None:
        return self._attempt(checked, lambda: self._value(self._low.lower(checked.core, {})))

    def _value(self, value: lower.Abstract) -> lower.Value:
        if isinstance(value, lower.Opt):
            return self._low.val(value)
        return self._low.plain(value)

    def _unit(
        self, checked: Sequence[check.Checked], *, keeps: bool = False, classes: bool = False
    ) -> Unit | None:
        values = [self._lowered(expression) for expression in checked]
        lowered = [value for value in values if value is not None]
        if not lowered or len(lowered) != len(values):
            return None
        return self._made(lowered, keeps=keeps, classes=classes)

    def _made(
        self,
        values: Sequence[lower.Value],
        *,
        keeps: bool = False,
        limited: bool = False,
        classes: bool = False,
    ) -> Unit:
        """Return a unit; ``limited``: what it costs is of interest; others as in `make_unit`."""
        if self._code or keeps or limited:
            return make_unit(self._low, values, keeps=keeps, code=self._code, classes=classes)
        unset: Unit = _not_compiled()
        return unset

    # Sections.

    def inputs(self) -> tuple[Input, ...]:
        """Return the inputs, with what computes their keys."""
        given = (given for given in self.policy.inputs if not given.type.annotation)
        return tuple(map(self._input, given))

    def _input(self, checked: check.CheckedInput) -> Input:
        given, key = checked.source, self.policy.keys.get(checked.name)
        return Input(
            checked.type,
            checked.identity,
            given.api_version,
            given.kind,
            checked.namespaced,
            None if key is None else self._unit([key]),
            given.optional,
            given.poll,
            given.url,
            given.items,
            checked.plural,
            bool(given.schema or given.fields) and not given.url,
        )

    def _quotas(self, given: diagnostics.QuotaRule[check.Checked]) -> CompiledQuotas | None:
        identity = self._low.quotas(types.QuotaType("Quota", (), given.identity))
        names = types.inputs_of_quotas(identity)
        pods, kinds = self._unit([given.pods]), []
        for name, objects in zip(names, (given.objects, given.parents), strict=False):
            unit = None if objects is None else self._unit([*objects.rules.values()])
            if objects is not None and unit is not None:
                publish = objects.publish
                paths = tuple((n, check.path_of(rule.core)) for n, rule in publish.items())
                shown = self._unit([*publish.values()]) if publish else None
                rules = tuple(objects.rules)
                kinds.append(CompiledQuotaObjects(name, rules, unit, paths, shown))
        if pods is None or len(kinds) < len(names):
            return None
        return CompiledQuotas(identity, pods, tuple(kinds), given.caps, given.shares_cluster)

    def _aggregate(
        self, given: diagnostics.AggregateRule[check.Checked]
    ) -> CompiledAggregate | None:
        parts = [*given.by, *((given.value,) if given.value else ())]
        unit = self._unit([*((given.where,) if given.where else ()), *parts])
        since = None if given.since is None else self._unit([given.since])
        if unit is None or (given.since is not None and since is None):
            return None
        counted = dict(check.aggregates_type([given]).fields)[given.name.text]
        return CompiledAggregate(
            name=given.name.text,
            identity=given.identity,
            kind=_kind_of(given),
            sources=given.of,
            unit=unit,
            keys=len(given.by),
            conditional=given.where is not None,
            valued=given.value is not None,
            by_node=isinstance(counted, types.AggregateType) and counted.by_node,
            since=since,
            half_life=given.half_life,
        )

    def _gate(
        self, index: int, rule: diagnostics.Rule[check.Checked], section: str = "preEnqueue"
    ) -> GateRule | None:
        unit = self._unit([rule.expression])
        if unit is None:
            return None
        words = rule.message_expression
        explain = None if words is None else self._unit([words])
        name = f"{self.policy.name}.{section}[{index}]"
        resolvable = rule.resolvable is not False
        return GateRule(name, rule.message, unit, rule.on_error or "Reject", explain, resolvable)

    def _filter_rule(self, index: int, rule: diagnostics.Rule[check.Checked]) -> FilterRule | None:
        parts: list[check.Checked] = []
        constant: bool | None = None
        if isinstance(rule.resolvable, bool):
            constant = rule.resolvable
        else:
            parts.append(rule.resolvable)
        words = rule.reasons or rule.message_expression
        if words is not None:
            parts.append(words)
        explain = self._unit(parts, classes=True)
        if parts and explain is None:
            return None
        name = f"{self.policy.name}.filter[{index}]"
        listed = rule.reasons is not None
        error = rule.on_error or "Reject"
        return FilterRule(name, rule.message, constant, explain, listed, error)

    def _preemption(
        self, section: diagnostics.PreemptionRules[check.Checked] | None
    ) -> PreemptionChoices | None:
        if section is None:
            return None
        eligible = self._choice("eligible", section.eligible)
        victim = self._choice("victim", section.victim)
        victim_order = self._order("victimOrder", section.victim_order)
        node_order = self._order("nodeOrder", section.node_order)
        if eligible is None or victim is None:
            return None
        unit = None if section.unit is None else self._choice("unit", section.unit)
        if self.policy.quotas:
            condition = self._condition(section.victim.core, section.victim.text)
            victim = replace(victim, condition=condition)
        return PreemptionChoices(eligible, victim, victim_order, node_order, unit)

    def _condition(self, core: ast.Core, text: diagnostics.Text) -> ConditionPart | None:
        """Return a condition with its parts."""
        made = self._unit([check.Checked(core, text)])
        match core:
            case ast.And(args=inner):
                pass
            case ast.Cond():
                inner = (core.test, core.then, core.otherwise)
            case _:
                inner = ()
        parts = [part for arg in inner if (part := self._condition(arg, text)) is not None]
        if made is None or len(parts) < len(inner):
            return None
        words = " ".join(text.text[core.span.start : core.span.end].split())
        return ConditionPart(words, made, tuple(parts), isinstance(core, ast.Cond))

    def _eviction(self, section: diagnostics.EvictRule[check.Checked]) -> Eviction | None:
        unit, words = self._unit([section.victim]), section.message_expression
        if unit is None:
            return None
        return Eviction(
            f"{self.policy.name}.evict",
            section.every,
            section.most,
            unit,
            self._unit([key.expression for key in section.order]),
            tuple([key.order == "Descending" for key in section.order]),
            section.message,
            None if words is None else self._unit([words]),
        )

    def _queue_order(
        self, section: diagnostics.QueueOrderRule[check.Checked] | None
    ) -> QueueOrderUnits | None:
        by = None if section is None else self._unit([section.by])
        if section is None or by is None:
            return None
        given = section.strict
        strict = given if isinstance(given, bool) else self._unit([given])
        keys = self._unit([key.expression for key in section.keys])
        descending = tuple([key.order == "Descending" for key in section.keys])
        return QueueOrderUnits(by, keys, descending, strict or False)

    def _placement(
        self, section: diagnostics.PlacementRule[check.Checked] | None
    ) -> PlacementRules | None:
        if section is None:
            return None
        score = None
        domains = [value for rule in section.domain if (value := self._lowered(rule)) is not None]
        units = tuple(self._made([lower.coded(self._low, value)]) for value in domains)
        if section.score is not None:
            raw = self._attempt(section.score, partial(self._raw_score, section.score))
            if raw is not None:
                hint = "write clamp(..., 0, 100), or use percent(part, whole)"
                self._within(section.score, self._low.range(raw), "placement score", hint)
                score = self._made([raw])
        return PlacementRules(units, score, section.on_error != "Zero")

    def _devices(
        self, section: diagnostics.DeviceRules[check.Checked] | None
    ) -> DeviceChoices | None:
        if section is None:
            return None
        rules = []
        for i, rule in enumerate(section.filter):
            unit = self._unit([rule.expression])
            if unit is not None:
                name = f"{self.policy.name}.devices.filter[{i}]"
                rules.append(DeviceFilter(name, unit, rule.message, rule.on_error or "Reject"))
        score = None if section.score is None else self._unit([section.score])
        return DeviceChoices(tuple(rules), score, section.score_on_error == "Abort")

    def _order(
        self, part: str, keys: Sequence[diagnostics.OrderKey[check.Checked]]
    ) -> tuple[Choice, ...]:
        choices = [
            self._choice(f"{part}[{i}]", key.expression, descending=key.order == "Descending")
            for i, key in enumerate(keys)
        ]
        return tuple(choice for choice in choices if choice is not None)

    def _choice(
        self, part: str, checked: check.Checked, *, descending: bool = False
    ) -> Choice | None:
        value = self._lowered(checked)
        if value is None:
            return None
        name = f"{self.policy.name}.preemption.{part}"
        unit = self._made([value])
        victims = codegen.over_victims(value.op, value.err, self._low.build) if self._code else None
        return Choice(name, unit, victims, descending)

    def _life_cycle(self) -> LifeCycle:
        policy, requeue = self.policy, self.policy.requeue
        return LifeCycle(
            post_filter=self._step("postFilter", policy.post_filter),
            reserve=self._step("reserve", policy.reserve),
            permit=self._step("permit", policy.permit),
            pre_bind=self._step("preBind", policy.pre_bind),
            bind=self._step("bind", policy.bind),
            post_bind=self._step("postBind", policy.post_bind),
            events=None if requeue is None else self._events(requeue),
            hint=self._unit([requeue.hint] if requeue and requeue.hint else ()),
            every=self._every(requeue.every) if requeue and requeue.every else 0,
        )

    def _moments(self) -> Iterator[Moment]:
        """Yield when the rules that reject pods may change by time, whatever the node."""
        for rule in self.policy.rejecting:
            for moment in self.policy.moments(rule).stated:
                try:
                    terms = [self._value(self._low.lower(term, {})) for _, term in moment.terms]
                except lower.Refusal:
                    continue  # the rule itself is refused for it, or it differs from node to node
                unit = self._made(terms)
                if not unit.reads.node and not unit.reads.clock:
                    yield Moment(unit, tuple(sign for sign, _ in moment.terms), moment.after)

    def _events(
        self, requeue: diagnostics.RequeueRule[check.Checked]
    ) -> tuple[StatedEvents, ...] | None:
        if requeue.events is None:
            return None
        events = []
        for event in requeue.events:
            hint = event.hint or requeue.hint
            unit = None if hint is None else self._unit([hint])
            events.append(StatedEvents(event.kind, event.actions, unit))
        return tuple(events)

    def _step(self, section: str, step: diagnostics.StepRule[check.Checked] | None) -> Step | None:
        if step is None:
            return None
        unit = self._unit([step.expression])
        explain = self._unit([step.message_expression] if step.message_expression else ())
        timeout = self._unit([step.timeout] if step.timeout else ())
        name = f"{self.policy.name}.{section}"
        if unit is None:
            return None
        return Step(
            name,
            unit,
            step.message,
            explain,
            step.on_error or "Abort",
            timeout,
            self._rejection(step),
            self._unit([step.activate] if step.activate else ()),
        )

    def _rejection(self, step: diagnostics.StepRule[check.Checked]) -> Step | None:
        """Return the rule that sends waiting pods back."""
        if step.reject is None or (unit := self._unit([step.reject])) is None:
            return None
        words = step.reject_message_expression
        explain = self._unit([words] if words else ())
        name = f"{self.policy.name}.permit.reject"
        return Step(name, unit, step.reject_message, explain, step.on_error or "Abort")

    def _every(self, checked: check.Checked) -> int:
        value = self._lowered(checked)
        if value is None:
            return 0
        try:
            period, error = constant(self._low, value)
        except LimitError as limit:
            self._problem(checked, "PS503", f"the value cannot be computed: {limit}")
            return 0
        every = int(period)
        if error:
            self._problem(checked, "PS012", _invalid_every(checked, error), "for example 1m")
        elif every <= 0:
            self._problem(
                checked,
                "PS012",
                _invalid_every(checked, "must be greater than 0"),
                "for example 1m",
            )
        return every

    def _score(self, score: diagnostics.ScoreRule[check.Checked]) -> Score | None:
        normalizer = score.normalize
        keeps = isinstance(normalizer, check.Checked) or normalizer in NORMALIZERS
        lowered = self._raw_number if keeps else self._raw_score
        value = self._attempt(score.expression, partial(lowered, score.expression))
        if value is None:
            return None
        bounds = self._low.range(value)
        expression: Unit | None = None
        name: str | None = None
        if isinstance(normalizer, check.Checked):
            expression = self._normalizer(normalizer, bounds, value.type)
        elif normalizer in NORMALIZERS:
            name = normalizer
            if name in NOT_NEGATIVE and bounds.lo < 0:
                message = f"the score's range is {bounds}, but {name} needs scores that are not"
                self._problem(score.expression, "PS323", f"{message} negative")
        else:
            self._within(score.expression, bounds, "score")
        unit = self._made([value], keeps=True)
        return Score(
            unit, bounds, name, expression, score.on_error == "Abort", value.type == types.DOUBLE
        )

    def _weight(self, checked: check.Checked) -> Unit | None:
        value = self._lowered(checked)
        if value is None:
            return None
        self._within(checked, self._low.range(value), "weight", "write clamp(..., 0, 100)")
        return self._made([value])

    def _raw_score(self, checked: check.Checked) -> lower.Value:
        """Return a score that is final, or counts as one: a double is truncated."""
        value = self._low.val(self._low.lower(checked.core, {}))
        if value.type == types.DOUBLE:
            value = lower.to_int(self._low, value, checked.core.span)
        return value

    def _raw_number(self, checked: check.Checked) -> lower.Value:
        """Return a score that is normalised: a double stays one; an error if no int is near it."""
        value = self._low.val(self._low.lower(checked.core, {}))
        if value.type != types.DOUBLE:
            return value
        whole = lower.to_int(self._low, value, checked.core.span)
        return lower.Value(value.op, whole.err, types.DOUBLE, self._low.range(value))

    def _nearest(self, checked: check.Checked) -> lower.Value:
        """Return a normalised score: a double is rounded."""
        value = self._low.val(self._low.lower(checked.core, {}))
        if value.type == types.DOUBLE:
            value = lower.to_int(self._low, lower.rounded(self._low, value), checked.core.span)
        return value

    def _normalizer(self, checked: check.Checked, raw: Interval, kind: types.Type) -> Unit | None:
        op = self._low.node_op(ops.SCORE, rep="f" if kind == types.DOUBLE else "i", data=None)
        self._low.globals["score"] = lower.Value(op, None, kind, raw)
        value = self._attempt(checked, partial(self._nearest, checked))
        if value is None:
            return None
        self._within(checked, self._low.range(value), "normalized score")
        return self._made([value], limited=True)

    def _within(
        self,
        checked: check.Checked,
        bounds: Interval,
        what: str,
        hint: str = "write clamp(..., 0, 100), or add normalize",
    ) -> None:
        if bounds.within(0, 100):
            return
        message = f"the {what}'s range is {bounds}, not within 0..100"
        if what != "weight":
            message += ", and nothing normalizes it"
        self._problem(checked, "PS321", message, hint)

    def _problem(self, checked: check.Checked, code: str, message: str, hint: str = "") -> None:
        self._refused(checked, lower.Refusal(code, message, checked.core.span, hint))


@cache
def _not_compiled() -> Unit:
    """Return a placeholder for a unit that is not compiled."""
    return Unit(codegen.generate((), code=False), (), ir.Reads(), (), False)


def make_unit(
    low: lower.Lowering,
    values: Sequence[lower.Value],
    *,
    keeps: bool = False,
    code: bool = True,
    classes: bool = False,
) -> Unit:
    """Return the unit that computes ``values``.

    ``keeps``: often, and of all rows. ``classes``: of many rows, once for those that are alike.
    """
    ops: list[ir.Op] = []
    roots: list[Root] = []
    for value in values:
        ops.append(value.op)
        error = None
        if value.err is not None:
            error = len(ops)
            ops.append(value.err)
        value_at = len(ops) - (1 if error is None else 2)
        roots.append(Root(value_at, error, lower.default_of(value.type)))
    return Unit(
        codegen.generate(ops, low.build if keeps else None, code=code),
        tuple(roots),
        ir.find_reads(ops),
        tuple(low.build.sites),
        any(root.error is not None for root in roots),
        keeps and any(ir.may_become_true(value.op, value.err) for value in values),
        codegen.class_program(ops, low.build) if classes and code else None,
    )


def _kind_of(given: diagnostics.AggregateRule[check.Checked]) -> str:
    """Return what the cluster calls the kind of an aggregate."""
    if given.kind not in ("count", "sum") or given.value is None:
        return "sum" if given.kind == "count" else given.kind
    if given.value.core.type == types.RESOURCES:
        return "sumOfResources"
    return "sumOfDoubles" if given.value.core.type == types.DOUBLE else "sum"


def _invalid_every(checked: check.Checked, reason: object) -> str:
    """Return the message for an invalid ``requeue.every``."""
    return f"requeue.every: Invalid value: {json.dumps(checked.text.text)}: {reason}"


def compile_policy(checked: check.CheckedPolicy) -> tuple[CompiledPolicy | None, list[Diagnostic]]:
    """Compile a checked policy.

    Returns the policy, or None with diagnostics: a score whose range is not proved (PS321, PS323),
    a resource name that differs from node to node (PS211).
    """
    compiler = PolicyCompiler(checked)
    sections = compiler.compile()
    if compiler.diagnostics:
        return None, sorted(set(compiler.diagnostics))
    return CompiledPolicy(checked.name, sections, checked.params), []


def problems_of(checked: check.CheckedPolicy) -> list[Diagnostic]:
    """Return the diagnostics of `compile_policy`, without generating code."""
    compiler = PolicyCompiler(checked, code=False)
    compiler.compile()
    return sorted(set(compiler.diagnostics))


def compiled_inputs(policy: check.CheckedPolicy) -> tuple[Input, ...]:
    """Return the inputs of a checked policy, and nothing else of it."""
    return PolicyCompiler(policy).inputs()
