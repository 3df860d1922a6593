"""Hands a loaded policy to the rule language: its texts with their places, its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from policy_sched.errors import PolicyError
from policy_sched.language.diagnostics import (
    MAX_RULE_COST,
    FunctionSource,
    KeySource,
    PlacementSource,
    PolicySource,
    PreemptionSource,
    PreFilterSource,
    RequeueSource,
    RuleSource,
    ScoreSource,
    StepSource,
    Text,
    VariableSource,
)
from policy_sched.profiles.load.document import locator
from policy_sched.profiles.load.fingerprint import content_hash
from policy_sched.profiles.load.load import load_policies
from policy_sched.profiles.load.params import merge_params
from policy_sched.profiles.load.policies import (
    LoadedPolicy,
    bare_duration,
    cost_limit,
)
from policy_sched.profiles.models import (
    BindRule,
    EventRule,
    FilterRule,
    NormalizeExpression,
    Path,
    Permit,
    Placement,
    Preemption,
    PreEnqueueRule,
    Problem,
    Requeue,
    Score,
    SortKey,
    VetoRule,
    default_policies,
    path_text,
)

#: Forms that are kept; far more than the policies of a process.
LIMIT: Final = 512


#: The shipped policy that has the defaults of the preemption section.
DEFAULT_PREEMPTION: Final = "DefaultPreemption"


def policy_source(loaded: LoadedPolicy, args: Mapping[str, Any] | None = None) -> PolicySource:
    """Return what the checker reads of a policy, its params overlaid with ``args``.

    PolicyError if ``args`` do not look like the params; `resolve` reports the same at their
    place in the configuration.
    """
    problems: list[Problem] = []
    params = merge_params(loaded.model.spec.params, args or {}, (), problems)
    if problems:
        raise PolicyError(loaded.place.diagnostics(problems))
    return source_with(loaded, params)


def source_with(loaded: LoadedPolicy, params: Mapping[str, Any]) -> PolicySource:
    """Return what the checker reads of a policy, with these effective ``params``.

    The same policy, as it was read, with the same params gives the same object.
    """
    key = content_hash(params)
    source = loaded.sources.get(key)
    if source is None:
        source = loaded.sources[key] = _source_of(loaded, params)
    return source


def _source_of(loaded: LoadedPolicy, params: Mapping[str, Any]) -> PolicySource:
    spec = loaded.model.spec
    text = _Texts(loaded)
    pre_filter = spec.pre_filter
    return PolicySource(
        name=loaded.name,
        params=dict(params),
        functions=tuple(
            FunctionSource(f.name, tuple(f.params.items()), text("functions", i, "expression"))
            for i, f in enumerate(spec.functions)
        ),
        variables=tuple(
            VariableSource(v.name, text("variables", i, "expression"))
            for i, v in enumerate(spec.variables)
        ),
        match_conditions=text.each("matchConditions", count=len(spec.match_conditions)),
        pre_enqueue=tuple(
            text.rule(rule, ("preEnqueue", i)) for i, rule in enumerate(spec.pre_enqueue)
        ),
        queue_sort=text.keys(spec.queue_sort, "queueSort"),
        pre_filter=None
        if pre_filter is None
        else PreFilterSource(
            node_names=None if pre_filter.node_names is None else text("preFilter", "nodeNames"),
            message=pre_filter.message,
        ),
        filter=tuple(text.rule(rule, ("filter", i)) for i, rule in enumerate(spec.filter)),
        score=None if spec.score is None else text.score(spec.score),
        preemption=None if spec.preemption is None else text.preemption(spec.preemption),
        cost_limit=cost_limit(loaded.model.metadata.annotations) or MAX_RULE_COST,
        reserve=text.step("reserve", spec.reserve),
        permit=None if spec.permit is None else text.permit(spec.permit),
        pre_bind=text.step("preBind", spec.pre_bind),
        bind=text.step("bind", spec.bind),
        post_bind=text.step("postBind", spec.post_bind),
        placement=None if spec.placement is None else text.placement(spec.placement),
        requeue=None if spec.requeue is None else text.requeue(spec.requeue),
    )


class _Texts:
    """The texts of one policy, by their path in ``spec``."""

    def __init__(self, loaded: LoadedPolicy) -> None:
        self._spec = loaded.model.spec.model_dump(by_alias=True)
        self._preemption = loaded.model.spec.preemption
        self._place = loaded.place

    def __call__(self, *path: str | int) -> Text:
        """Return the text at ``path`` with its place in the file."""
        value: Any = self._spec
        for step in path:
            value = value[step]
        marked = self._place.marked
        locate = None if marked is None else locator(marked, ("spec", *path))
        return Text(str(value), self._place.name, locate, path_text(path))

    def each(self, *path: str | int, count: int) -> tuple[Text, ...]:
        """Return the texts of a list of ``count`` rules."""
        return tuple(self(*path, i) for i in range(count))

    def keys(self, keys: Sequence[SortKey], *path: str) -> tuple[KeySource, ...]:
        """Return the keys of an order."""
        return tuple(
            KeySource(self(*path, i, "expression"), key.order) for i, key in enumerate(keys)
        )

    def preemption(self, given: Preemption) -> PreemptionSource:
        """Return the preemption section; what it leaves open is the default profile's."""

        def chosen(part: object) -> _Texts:
            return self if part else _default_preemption()

        def order(keys: Sequence[SortKey], name: str) -> tuple[KeySource, ...]:
            texts = chosen(keys)
            return texts.keys(texts.orders[name], "preemption", name)

        return PreemptionSource(
            chosen(given.eligible)("preemption", "eligible"),
            chosen(given.victim)("preemption", "victim"),
            order(given.victim_order, "victimOrder"),
            order(given.node_order, "nodeOrder"),
        )

    @property
    def orders(self) -> Mapping[str, Sequence[SortKey]]:
        """The orders of the preemption section."""
        assert self._preemption is not None, "only called with a preemption section"
        return {
            "victimOrder": self._preemption.victim_order,
            "nodeOrder": self._preemption.node_order,
        }

    def rule(self, rule: FilterRule | PreEnqueueRule, path: Path) -> RuleSource:
        """Return a rule of preEnqueue or filter."""
        resolvable = rule.resolvable if isinstance(rule, FilterRule) else True
        return RuleSource(
            expression=self(*path, "expression"),
            message=rule.message,
            message_expression=None
            if rule.message_expression is None
            else self(*path, "messageExpression"),
            reasons=None if rule.reasons is None else self(*path, "reasons"),
            resolvable=self(*path, "resolvable") if isinstance(resolvable, str) else resolvable,
            on_error=rule.on_error,
        )

    def score(self, score: Score) -> ScoreSource:
        """Return the score section."""
        normalize: str | Text | None
        if isinstance(score.normalize, NormalizeExpression):
            normalize = self("score", "normalize", "expression")
        else:
            normalize = score.normalize
        return ScoreSource(
            expression=self("score", "expression"),
            normalize=normalize,
            on_error=score.on_error,
            match_conditions=self.each(
                "score", "matchConditions", count=len(score.match_conditions)
            ),
        )

    def step(
        self, section: str, rule: str | VetoRule | BindRule | EventRule | None
    ) -> StepSource | None:
        """Return a section that is one rule, written alone or as a mapping."""
        if rule is None or isinstance(rule, str):
            return None if rule is None else StepSource(self(section))
        expression = self(section, "expression")
        if not isinstance(rule, VetoRule):
            return StepSource(expression, on_error=rule.on_error)
        return StepSource(
            expression,
            rule.message,
            self._given(rule.message_expression, section, "messageExpression"),
            rule.on_error,
        )

    def permit(self, permit: Permit) -> StepSource:
        """Return the permit section."""
        return StepSource(
            self("permit", "allow"),
            permit.message,
            self._given(permit.message_expression, "permit", "messageExpression"),
            permit.on_error,
            None if permit.timeout is None else as_duration(self("permit", "timeout")),
        )

    def placement(self, placement: Placement) -> PlacementSource:
        """Return the placement section."""
        return PlacementSource(
            self._given(placement.domain, "placement", "domain"),
            self._given(placement.score, "placement", "score"),
            placement.on_error,
        )

    def requeue(self, requeue: Requeue) -> RequeueSource:
        """Return the requeue section."""
        return RequeueSource(
            self._given(requeue.hint, "requeue", "hint"),
            None if requeue.every is None else as_duration(self("requeue", "every")),
        )

    def _given(self, value: str | None, *path: str) -> Text | None:
        return None if value is None else self(*path)


def _default_preemption() -> _Texts:
    """Return the texts of the policy that does what kube-scheduler does."""
    shipped, _ = load_policies([str(default_policies())])
    return next(_Texts(policy) for policy in shipped if policy.name == DEFAULT_PREEMPTION)


def as_duration(text: Text) -> Text:
    """Return a bare duration such as ``90s`` as the equivalent rule; a rule as it is."""
    bare = bare_duration(text.text)
    if not bare:
        return text
    before = 'duration("'

    def locate(offset: int) -> tuple[int, int, str]:
        return text.position(min(max(offset - len(before), 0), len(text.text)))

    return Text(f'{before}{bare}")', text.file, locate, text.path)
