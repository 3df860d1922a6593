"""Makes the source of a loaded policy for the checker: texts with positions, and parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from policy_sched.errors import PolicyError
from policy_sched.language import diagnostics, stdlib
from policy_sched.language.values import types
from policy_sched.lru import Lru
from policy_sched.model import KINDS, ApiObject, CustomObject, Kind
from policy_sched.profiles import models
from policy_sched.profiles.load.document import locator
from policy_sched.profiles.load.fingerprint import content_hash
from policy_sched.profiles.load.load import load_policies
from policy_sched.profiles.load.policies import (
    LoadedPolicy,
    bare_duration,
    cost_limit,
    merge_params,
)
from policy_sched.source import leads_out, read_bytes, root_of, shortened

#: Forms that are kept; far more than the policies of a process.
LIMIT: Final = 512


#: The shipped policy that has the defaults of the preemption section.
DEFAULT_PREEMPTION: Final = "DefaultPreemption"


def policy_source(
    loaded: LoadedPolicy, args: Mapping[str, Any] | None = None
) -> diagnostics.PolicySource:
    """Return what the checker reads of a policy, its params overlaid with ``args``.

    PolicyError if ``args`` do not look like the params; `resolve` reports the same at their
    place in the configuration.
    """
    problems: list[models.ModelProblem] = []
    params = merge_params(loaded.model.spec.params, args or {}, (), problems)
    if problems:
        raise PolicyError(loaded.place.diagnostics(problems))
    return source_with(loaded, params)


def source_with(loaded: LoadedPolicy, params: Mapping[str, Any]) -> diagnostics.PolicySource:
    """Return what the checker reads of a policy, with these effective ``params``.

    The same policy, as it was read, with the same params gives the same object.
    """
    schemas = [_schema(loaded, given) for given in loaded.model.spec.inputs]
    key = content_hash((params, schemas) if schemas else params)
    source = loaded.sources.get(key)
    if source is None:
        source = loaded.sources[key] = _source_of(loaded, params, schemas)
    return source


_Schema = tuple[str, str]
"""The content of a schema, and why it cannot be read."""


def _schema(loaded: LoadedPolicy, given: models.Input) -> _Schema:
    """Read the schema of an input, which is beside the policy or below its repository."""
    if not given.schema_file:
        return "", ""
    path = FilePath(loaded.place.name).parent / given.schema_file
    shown = shortened(given.schema_file)
    try:
        if leads_out(path, (root_of(loaded.place.name), FilePath(loaded.place.name).parent)):
            return "", f"{shown} leads out of the policy's repository"
        return read_bytes(str(path)).decode(), ""
    except UnicodeDecodeError:
        return "", f"{shown} is not UTF-8"
    except (OSError, ValueError, EOFError) as error:
        why = getattr(error, "strerror", None) or str(error)
        return "", f"{shown} cannot be read: {why}"


def _inputs(
    text: _Texts, given: Sequence[models.Input], schemas: Sequence[_Schema]
) -> tuple[diagnostics.InputSource, ...]:
    """Return the inputs of a policy, each with the content of its schema."""
    inputs = []
    for i, (entry, (content, refused)) in enumerate(zip(given, schemas, strict=True)):
        at = ("inputs", i)
        inputs.append(
            diagnostics.InputSource(
                text(*at, "name"),
                entry.api_version,
                entry.kind,
                text(*at, "schema") if entry.schema_file else None,
                content,
                refused,
                None if entry.key is None else text(*at, "key"),
                entry.optional,
                tuple((path, text(*at, "fields", path)) for path in entry.fields),
                entry.most,
                entry.poll or 0,
                entry.url,
                entry.items,
                entry.annotation,
            )
        )
    return tuple(inputs)


def _source_of(
    loaded: LoadedPolicy, params: Mapping[str, Any], schemas: Sequence[_Schema]
) -> diagnostics.PolicySource:
    spec = loaded.model.spec
    text = _Texts(loaded)
    return diagnostics.PolicySource(
        name=loaded.name,
        params=dict(params),
        inputs=_inputs(text, spec.inputs, schemas),
        functions=tuple(
            diagnostics.FunctionSource(
                f.name, tuple(f.params.items()), text("functions", i, "expression")
            )
            for i, f in enumerate(spec.functions)
        ),
        variables=tuple(
            diagnostics.VariableSource(v.name, text("variables", i, "expression"))
            for i, v in enumerate(spec.variables)
        ),
        aggregates=tuple(_aggregate(text, i, entry) for i, entry in enumerate(spec.aggregates)),
        quotas=tuple(_quota(text, i, entry) for i, entry in enumerate(spec.quotas)),
        match_conditions=text.each("matchConditions", count=len(spec.match_conditions)),
        pre_enqueue=text.entries(
            diagnostics.Rule[diagnostics.Text], spec.pre_enqueue, "preEnqueue"
        ),
        queue_sort=_queue_sort(text, spec),
        queue_order=text.section(
            diagnostics.QueueOrderRule[diagnostics.Text], spec.queue_order, "queueOrder"
        ),
        pre_filter=text.section(
            diagnostics.PreFilterRule[diagnostics.Text], spec.pre_filter, "preFilter"
        ),
        filter=text.entries(diagnostics.Rule[diagnostics.Text], spec.filter, "filter"),
        score=text.section(diagnostics.ScoreRule[diagnostics.Text], spec.score, "score"),
        weights=tuple(
            diagnostics.VariableSource(weight.plugin, text("weights", i, "expression"))
            for i, weight in enumerate(spec.weights)
        ),
        preemption=None if spec.preemption is None else _preemption(text, spec.preemption),
        evict=text.section(diagnostics.EvictRule[diagnostics.Text], spec.evict, "evict"),
        cost_limit=cost_limit(loaded.model.metadata.annotations) or diagnostics.MAX_RULE_COST,
        post_filter=text.section(
            diagnostics.StepRule[diagnostics.Text], spec.post_filter, "postFilter"
        ),
        reserve=text.section(diagnostics.StepRule[diagnostics.Text], spec.reserve, "reserve"),
        permit=text.section(diagnostics.StepRule[diagnostics.Text], spec.permit, "permit"),
        pre_bind=text.section(diagnostics.StepRule[diagnostics.Text], spec.pre_bind, "preBind"),
        bind=text.section(diagnostics.StepRule[diagnostics.Text], spec.bind, "bind"),
        post_bind=text.section(diagnostics.StepRule[diagnostics.Text], spec.post_bind, "postBind"),
        placement=text.section(
            diagnostics.PlacementRule[diagnostics.Text], spec.placement, "placement"
        ),
        devices=None if spec.devices is None else _devices(text, spec.devices),
        requeue=text.section(diagnostics.RequeueRule[diagnostics.Text], spec.requeue, "requeue"),
        measures=tuple(
            diagnostics.VariableSource(measure.name, text("measures", i, "expression"))
            for i, measure in enumerate(spec.measures)
        ),
    )


S = TypeVar("S")
_DURATIONS: Final = frozenset({"timeout", "every"})
_RULES: Final = frozenset(
    {
        *("expression", "message_expression", "reasons", "resolvable"),
        *("node_names", "eligible", "victim", "unit", "allow", "hint", "score"),
        *("reject", "reject_message_expression", "activate", "by", "strict"),
        *_DURATIONS,
    }
)
"""Fields of the models' sections that are rules."""
_RENAMED: Final = {"allow": "expression"}
_FORMS: Final[Mapping[str, Callable[..., Any]]] = {
    "events": diagnostics.EventRule[diagnostics.Text],
    "rules": diagnostics.Rule[diagnostics.Text],
}
"""Forms of the entries of lists, other than the keys of an order."""


class _Texts:
    """The texts of one policy, by their path in ``spec``."""

    def __init__(self, loaded: LoadedPolicy) -> None:
        self._spec = loaded.model.spec.model_dump(by_alias=True)
        self._place = loaded.place

    def __call__(self, *path: str | int) -> diagnostics.Text:
        """Return the text at ``path`` with its place in the file."""
        value: Any = self._spec
        for step in path:
            value = value[step]
        marked = self._place.marked
        locate = None if marked is None else locator(marked, ("spec", *path))
        return diagnostics.Text(str(value), self._place.name, locate, models.path_text(path))

    def each(self, *path: str | int, count: int) -> tuple[diagnostics.Text, ...]:
        """Return the texts of a list of ``count`` rules."""
        return tuple(self(*path, i) for i in range(count))

    def entries(
        self, form: Callable[..., S], given: Sequence[models.Document], *path: str | int
    ) -> tuple[S, ...]:
        """Return the entries of a list in the form that the checker reads."""
        return tuple(form(**self._fields(document, (*path, i))) for i, document in enumerate(given))

    def section(
        self, form: Callable[..., S], given: str | models.Document | None, path: str
    ) -> S | None:
        """Return a section in the form that the checker reads; it may be a rule alone."""
        if given is None:
            return None
        if isinstance(given, str):
            return form(self(path))
        return form(**self._fields(given, (path,)))

    def _fields(self, given: models.Document, path: models.Path) -> dict[str, Any]:
        """Return the fields of a section or an entry: rules as texts, all others as they are."""
        fields: dict[str, Any] = {}
        for name, field in type(given).model_fields.items():
            at, value = (*path, field.alias or name), getattr(given, name)
            if isinstance(value, models.NormalizeExpression):
                value = self(*at, "expression")
            elif name in _RULES and isinstance(value, str):
                value = as_duration(self(*at)) if name in _DURATIONS else self(*at)
            elif name == "match_conditions":
                value = self.each(*at, count=len(value))
            elif name == "domain":
                if isinstance(value, str):
                    value = (self(*at),)
                else:
                    value = self.each(*at, count=len(value or ()))
            elif isinstance(value, tuple) and name != "actions":
                form = _FORMS.get(name, diagnostics.OrderKey[diagnostics.Text])
                value = self.entries(form, value, *at)
            fields[_RENAMED.get(name, name)] = value
        return fields


def _queue_sort(
    text: _Texts, spec: models.PolicySpec
) -> tuple[diagnostics.OrderKey[diagnostics.Text], ...]:
    """Return the keys of queueSort; where only queueOrder is given, those within a queue."""
    if spec.queue_order is None or spec.queue_sort:
        return text.entries(diagnostics.OrderKey[diagnostics.Text], spec.queue_sort, "queueSort")
    # The time of the last attempt would send the head of a strict queue behind the others.
    return (
        diagnostics.OrderKey(diagnostics.Text("pod.priority"), "Descending"),
        diagnostics.OrderKey(diagnostics.Text("queue.firstEnqueuedAt")),
    )


def _aggregate(
    text: _Texts, i: int, given: models.Aggregate
) -> diagnostics.AggregateRule[diagnostics.Text]:
    """Return an entry of aggregates; one without a kind, which is reported, counts."""
    at = ("aggregates", i)
    stated = (kind for kind in models.AGGREGATE_KINDS if getattr(given, kind) is not None)
    kind = next(stated, "count")
    by = given.by
    return diagnostics.AggregateRule(
        name=text(*at, "name"),
        by=(text(*at, "by"),) if isinstance(by, str) else text.each(*at, "by", count=len(by)),
        kind=kind,
        value=None if kind == "count" else text(*at, kind),
        of=given.of,
        where=None if given.where is None else text(*at, "where"),
        since=None if given.since is None else text(*at, "since"),
        half_life=given.half_life or 0,
    )


def _quota(text: _Texts, i: int, given: models.Quota) -> diagnostics.QuotaRule[diagnostics.Text]:
    """Return an entry of quotas."""
    at = ("quotas", i)
    return diagnostics.QuotaRule(
        name=text(*at, "name"),
        pods=text(*at, "pods"),
        objects=_quota_objects(text, given, *at),
        parents=None
        if given.parents is None
        else _quota_objects(text, given.parents, *at, "parents"),
        caps=given.inner == "caps",
        shares_cluster=given.shares == "cluster",
    )


def _quota_objects(
    text: _Texts, given: models.QuotaObjects, *at: str | int
) -> diagnostics.QuotaObjects[diagnostics.Text]:
    """Return what objects say of quotas."""
    return diagnostics.QuotaObjects(
        text(*at, "of"),
        {
            name: text(*at, name)
            for name in diagnostics.OF_QUOTA_OBJECTS
            if getattr(given, name) is not None
        },
        {number: text(*at, "publish", number) for number in given.publish},
    )


def _devices(text: _Texts, given: models.Devices) -> diagnostics.DeviceRules[diagnostics.Text]:
    """Return the devices section."""
    rules = text.entries(
        diagnostics.DeviceRule[diagnostics.Text], given.filter, "devices", "filter"
    )
    if given.score is None:
        return diagnostics.DeviceRules(rules)
    return diagnostics.DeviceRules(
        rules, text("devices", "score", "expression"), given.score.on_error
    )


def _preemption(
    text: _Texts, given: models.Preemption
) -> diagnostics.PreemptionRules[diagnostics.Text]:
    """Return the preemption section; what it leaves open is the default profile's."""
    own = text.section(diagnostics.PreemptionRules[diagnostics.Text], given, "preemption")
    shipped, _ = load_policies([str(models.default_policies())])
    default = next(policy for policy in shipped if policy.name == DEFAULT_PREEMPTION)
    other = _Texts(default).section(
        diagnostics.PreemptionRules[diagnostics.Text], default.model.spec.preemption, "preemption"
    )
    assert own is not None, "the section is given"
    open_fields = [name for name in own.__struct_fields__ if not getattr(own, name)]
    return replace(own, **{name: getattr(other, name) for name in open_fields})


def as_duration(text: diagnostics.Text) -> diagnostics.Text:
    """Return a bare duration such as ``90s`` as the equivalent rule; a rule as it is."""
    bare = bare_duration(text.text)
    if not bare:
        return text
    before = 'duration("'

    def locate(offset: int) -> tuple[int, int, str]:
        return text.position(min(max(offset - len(before), 0), len(text.text)))

    return diagnostics.Text(f'{before}{bare}")', text.file, locate, text.path)


def input_kinds(policies: Iterable[LoadedPolicy]) -> dict[Kind, type[ApiObject]]:
    """Return how the kinds are decoded that policies read besides what scheduling reads.

    Those of their inputs, and pods, nodes and groups where a rule reads their `object`.
    """
    kinds: dict[Kind, type[ApiObject]] = {}
    objects: list[types.ObjectType] = []
    for policy in policies:
        for given in policy.model.spec.inputs:
            kind = given.api_version, given.kind
            if given.kind:
                kinds[kind] = KINDS.get(kind, CustomObject)
        if ".object" in policy.model.model_dump_json():  # else there is nothing to check
            objects += _objects_of(policy_source(policy))
    return kinds | stdlib.decoded_structs(objects)


def _objects_of(source: diagnostics.PolicySource) -> Sequence[types.ObjectType]:
    """Return the types of whole objects that rules read; each test of a policy asks for them."""
    from policy_sched.language.check import check_policy  # noqa: PLC0415 - of few policies

    if id(source) not in _objects.entries:
        checked, _ = check_policy(source)
        _objects.put(id(source), (source, () if checked is None else checked.objects))
    return _objects.entries[id(source)][1]


_objects: Final[Lru[int, tuple[diagnostics.PolicySource, Sequence[types.ObjectType]]]] = Lru(100)
"""By the identity of sources, of which a policy that is read again has the same one."""
