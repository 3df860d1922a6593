"""The checker: from a policy's texts to its typed trees, or to all problems in them at once.

A `CheckedPolicy` has the shape of its source, with a typed tree beside each text.

Theory of operation. Functions and variables are parsed first and checked in an order in which each
follows what it uses; then every section is checked against them. A problem gives its tree the type
ERROR, which silences consequences, so that one mistake is one diagnostic. Problems count offsets in
their own text; a `Text` turns those into places of a file.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec

from policy_sched.errors import Diagnostic, Severity
from policy_sched.language import stdlib
from policy_sched.language.check.definitions import Checked, check_definitions
from policy_sched.language.check.expressions import check_tree
from policy_sched.language.check.inputs import CheckedInput, as_read, check_inputs, objects_read
from policy_sched.language.check.moments import Moments, moments_of
from policy_sched.language.check.scope import Counted, Definitions
from policy_sched.language.diagnostics import (
    MAX_AGGREGATES,
    MAX_PROBLEMS,
    MAX_RULES,
    OF_QUOTA_OBJECTS,
    AggregateRule,
    OrderKey,
    PolicySections,
    PolicySource,
    Problem,
    QuotaObjects,
    QuotaRule,
    ScoreRule,
    Text,
    did_you_mean,
    field_names,
)
from policy_sched.language.syntax import ast, parse
from policy_sched.language.values import types


class CheckedPolicy(PolicySections[Checked], frozen=True):
    """A policy without a mistake that types and names can show.

    ``params`` holds the effective values and ``params_type`` their record type. ``variables``
    are in the order of definition; a tree reads one as ``Var("variables.<name>")``, and the
    parameters as fields of ``Var("params")``.
    """

    name: str
    params: Mapping[str, object]
    params_type: types.RecordType
    inputs: tuple[CheckedInput, ...] = ()
    keys: Mapping[str, Checked] = msgspec.field(default_factory=dict)
    """The keys of inputs that state one, by the input's name."""
    objects: tuple[types.ObjectType, ...] = ()
    """What rules read of `object` of pods, nodes and groups."""
    functions: Mapping[str, ast.UserFunction] = msgspec.field(default_factory=dict)
    variables: tuple[tuple[str, Checked], ...] = ()
    aggregates: tuple[AggregateRule[Checked], ...] = ()
    quotas: tuple[QuotaRule[Checked], ...] = ()
    weights: tuple[tuple[str, Checked], ...] = ()
    """What weights score plugins have, by the plugin's name."""
    measures: tuple[Checked, ...] = ()

    @property
    def rejecting(self) -> Iterator[Checked]:
        """The rules that refuse a pod, or nodes to it, in the order in which they are asked."""
        yield from self.match_conditions
        yield from (rule.expression for rule in self.pre_enqueue)
        if self.pre_filter is not None:
            yield from (rule.expression for rule in self.pre_filter.rules)
            if self.pre_filter.node_names is not None:
                yield self.pre_filter.node_names
        yield from (rule.expression for rule in self.filter)

    def moments(self, rule: Checked) -> Moments:
        """Return the moments at which the passing of time may change a rule."""
        variables = {f"variables.{name}": checked.core for name, checked in self.variables}
        return moments_of(rule.core, variables, self.functions)


T = TypeVar("T")

_CONDITIONS: Final = "match_conditions"
_CUT: Final = "quote it: inside { } and [ ] an unquoted text ends at a comma"
#: What `score` and `scores` are where the rule that gives raw scores is a double.
_DOUBLE_SCORES: Final[dict[str, types.Type]] = {
    "score": types.DOUBLE,
    "scores": types.record("DoubleStats"),
}
NORMALIZERS = ("None", "Max", "MaxReverse", "MinMax", "MinMaxReverse")


def check_policy(source: PolicySource) -> tuple[CheckedPolicy | None, list[Diagnostic]]:
    """Check a whole policy.

    Returns the typed policy, or None if any diagnostic is an error, and all diagnostics (at most
    100) in the order of their places; warnings alone do not refuse the policy.
    """
    return _check_policy(source, {})


def _check_policy(
    source: PolicySource, scores: Mapping[str, types.Type], conditions: str = "matchConditions"
) -> tuple[CheckedPolicy | None, list[Diagnostic]]:
    """Check a policy; ``scores``: the types of `score` and `scores` where they are no ints.

    ``conditions``: the section that its matchConditions are.
    """
    report = _Report(source.name)
    inputs = check_inputs(source.inputs, source.params, report.add)
    aggregates = check_aggregates(source, inputs, report)
    quotas = check_quotas(source, inputs, report)
    counted = _counted(source, aggregates, quotas, inputs)
    definitions, variables = _definitions(source, report, scores, inputs, counted)
    check = _Checker(definitions, report)
    names = (name for name in field_names(PolicySections) if name not in ("score", _CONDITIONS))
    policy = CheckedPolicy(
        name=source.name,
        params=source.params,
        params_type=definitions.params,
        inputs=inputs,
        keys=check.input_keys(inputs),
        functions={n: d.function for n, d in definitions.functions.items() if d.function},
        variables=variables,
        aggregates=aggregates,
        quotas=quotas,
        weights=tuple(
            (given.name, weight)
            for given in source.weights
            if (weight := check.text(given.expression, "weights")) is not None
        ),
        measures=check.part(tuple(measure.expression for measure in source.measures), "measures"),
        match_conditions=check.part(source.match_conditions, conditions),
        score=None if source.score is None else check.score(source.score),
        **{name: check.part(getattr(source, name), _camel(name)) for name in names},
    )
    if not scores and _normalizes_doubles(source.score, policy.score):
        return _check_policy(source, _DOUBLE_SCORES)
    check.conditions_of_an_order(source)
    read = definitions.parts | report.parts
    kept = {"inputs": as_read(inputs, read), "objects": objects_read(read)}
    policy = msgspec.structs.replace(policy, **kept)
    diagnostics = report.sorted()
    failed = any(d.severity is Severity.ERROR for d in diagnostics)
    return (None if failed else policy), diagnostics


def _normalizes_doubles(source: ScoreRule[Text] | None, score: ScoreRule[Checked] | None) -> bool:
    """Return whether an expression normalises raw scores that are doubles."""
    if source is None or score is None:
        return False
    return isinstance(source.normalize, Text) and score.expression.core.type == types.DOUBLE


def check_expression(
    text: str,
    section: str = stdlib.ANY,
    params: Mapping[str, object] | None = None,
    environment: stdlib.Environment | None = None,
) -> tuple[ast.Core | None, list[Diagnostic]]:
    """Check one expression by itself, as a value of ``section`` ("any": of no section).

    ``environment`` is that of policies unless given.
    """
    report = _Report("")
    definitions = Definitions(
        environment or stdlib.policy_environment(), types.params_type(params or {})
    )
    checked = _Checker(definitions, report).text(Text(text), section)
    diagnostics = report.sorted()
    failed = any(d.severity is Severity.ERROR for d in diagnostics)
    return (None if checked is None or failed else checked.core), diagnostics


def check_beside(
    text: Text, section: str, source: PolicySource
) -> tuple[CheckedPolicy | None, list[Diagnostic]]:
    """Check an expression to which a policy's parameters, functions and variables are visible.

    Returns a policy of these definitions, with the expression as its one matchCondition.
    """
    alone = PolicySource(
        source.name,
        source.params,
        inputs=source.inputs,
        aggregates=source.aggregates,
        quotas=source.quotas,
        functions=source.functions,
        variables=source.variables,
        match_conditions=(text,),
    )
    return _check_policy(alone, {}, section)


@dataclass(slots=True)
class _Report:
    """Collects problems as diagnostics."""

    policy: str
    problems: list[Diagnostic] = field(default_factory=list)
    parts: set[str] = field(default_factory=set)
    """What aggregates and quotas read of inputs' objects; see `as_read`."""

    def add(self, problems: Iterable[Problem], text: Text, expected: str = "") -> None:
        parts = [f"policy {self.policy}" if self.policy else "", text.path]
        context = ", ".join(p for p in parts if p)
        if expected and context:
            context += f"; expected {expected}"
        for problem in problems:
            self.problems.append(diagnostic(problem, text, context))

    def sorted(self) -> list[Diagnostic]:
        return sorted(set(self.problems))[:MAX_PROBLEMS]


def diagnostic(problem: Problem, text: Text, context: str = "") -> Diagnostic:
    """Turn a problem at offsets of ``text`` into a diagnostic at a place of its file."""
    start = min(problem.start, len(text.text))
    line, column, source_line = text.position(start)
    last = min(max(problem.end - 1, start), len(text.text))
    end_line, end_column, _ = text.position(last)
    width = end_column - column + 1 if end_line == line else len(source_line) - column + 1
    return Diagnostic(
        file=text.file,
        line=line,
        column=column,
        code=problem.code,
        message=problem.message,
        hint=problem.hint,
        context=context,
        severity=problem.severity,
        width=max(1, width),
        source_line=source_line,
    )


@dataclass(slots=True)
class _Checker:
    """Checks the sections of one policy against its definitions."""

    definitions: Definitions
    report: _Report

    def text(self, text: Text, of: str | stdlib.Section) -> Checked | None:
        """Check one expression of a section; None after an error."""
        section = self.definitions.environment.section(of) if isinstance(of, str) else of
        node, problems = parse(text.text)
        if node is None:
            if cut_at_a_comma(text):
                problems = [dataclasses.replace(problem, hint=_CUT) for problem in problems]
            self.report.add(problems, text, _expected(section))
            return None
        tree, unit = check_tree(node, section, self.definitions)
        self.report.add(unit.problems, text, _expected(section))
        return None if tree.type == types.ERROR else Checked(tree, text)

    def input_keys(self, inputs: Sequence[CheckedInput]) -> dict[str, Checked]:
        """Check the keys of inputs, each over objects of its own."""
        keys = {}
        for entry in inputs:
            if entry.source.key is None:
                continue
            own = {"object": entry.type.record}
            definitions = dataclasses.replace(self.definitions, scores=own)
            checked = _Checker(definitions, self.report).text(entry.source.key, "inputs.key")
            if checked is not None:
                keys[entry.name] = checked
        return keys

    def part(self, given: Any, section: str) -> Any:
        """Check all texts of a part of a policy, which keeps its shape; None where one is wrong.

        A list loses what is wrong. The texts of a rule are sections by the names of their fields.
        """
        if isinstance(given, Text):
            return self.text(given, section)
        if isinstance(given, tuple):
            parts = [self.part(entry, section) for entry in self._within_limit(given, section)]
            return tuple(part for part in parts if part is not None)
        if not isinstance(given, msgspec.Struct):
            return given
        fields = {name: getattr(given, name) for name in field_names(type(given))}
        checked = {
            name: self.part(value, _section_of(section, name)) for name, value in fields.items()
        }
        if any(checked[name] is None and value is not None for name, value in fields.items()):
            return None
        return msgspec.structs.replace(given, **checked)

    def _within_limit(self, items: tuple[T, ...], section: str) -> tuple[T, ...]:
        """Return the first `MAX_RULES` items of a section; report that it has more."""
        if len(items) > MAX_RULES:
            text = getattr(items[MAX_RULES], "expression", items[MAX_RULES])
            noun = _NOUNS.get(type(items[0]), "rules")
            message = f"{section} has {len(items)} {noun}; the limit is {MAX_RULES}"
            if isinstance(text, Text):
                self.report.add([Problem(0, 1, "PS501", message)], text)
        return items[:MAX_RULES]

    def conditions_of_an_order(self, source: PolicySource) -> None:
        """Refuse conditions beside an order: one order has to hold for all pods."""
        if source.match_conditions and (source.queue_sort or source.queue_order):
            text = source.match_conditions[0]
            section = "queueOrder" if source.queue_order else "queueSort"
            message = f"{section} orders every pod, so matchConditions cannot leave any pod out"
            hint = f"write {section} in a policy of its own, or test the pod within its keys"
            self.report.add([Problem(0, len(text.text), "PS312", message, hint)], text)

    def aggregate(self, given: AggregateRule[Text]) -> AggregateRule[Checked] | None:
        """Check one aggregate; None after an error."""
        of = given.of
        by = [self.counted(text, "aggregates.by", of) for text in given.by]
        value = where = None
        if given.value is not None:
            value = self.counted(given.value, f"aggregates.{given.kind}", of)
        if given.where is not None:
            where = self.counted(given.where, "aggregates.where", of)
        for key in by:
            self.key_of_pods(key, alone=len(by) == 1)
        keys = tuple(key for key in by if key is not None)
        wrong = (given.value is not None and value is None) or (given.where and where is None)
        if wrong or len(keys) < len(given.by):
            return None
        since = None
        if given.since is not None:
            own = dataclasses.replace(self.definitions, scores={"key": _type_of_key(keys)})
            since = _Checker(own, self.report).counted(given.since, "aggregates.since", of)
            if since is None:
                return None
        checked = AggregateRule(given.name, keys, given.kind, value, given.of, where, since)
        return msgspec.structs.replace(checked, half_life=given.half_life)

    def counted(self, text: Text, section_name: str, of: Collection[str]) -> Checked | None:
        """Check a rule of an aggregate; one that uses another aggregate is an error, too."""
        before = len(self.report.problems)
        section, waiting = self.definitions.environment.section(section_name), {"queued", "gated"}
        hidden = {"queue"} if not waiting >= set(of) else {"node"}
        section = msgspec.structs.replace(section, visible=section.visible - hidden)
        checked = self.text(text, section)
        if checked is None and len(self.report.problems) == before:
            message = "it uses a function or variable that is wrong, or that reads aggregates"
            hint = "an aggregate cannot be made of another one"
            self.report.add([Problem(0, len(text.text), "PS811", message, hint)], text)
        return checked

    def key_of_pods(self, key: Checked | None, *, alone: bool) -> None:
        """Check what pods are counted by."""
        if key is None:
            return
        core, text = key.core, key.text
        if not alone and core.type != types.STRING:
            message = f"a key of several parts has texts, found {core.type}"
            hint = "write string(...)"
            self.report.add([Problem(0, len(text.text), "PS301", message, hint)], text)
        owner = core.operand if isinstance(core, ast.Field) else None
        of_pod = isinstance(owner, ast.Var) and owner.name == "pod"
        if of_pod and isinstance(core, ast.Field) and core.name in _EACH_POD_ITS_OWN:
            message = f"nearly each pod has a `{core.name}` of its own, so each is counted alone"
            hint = "count by what several pods have in common, such as pod.namespace"
            self.report.add([Problem(0, len(text.text), "PS812", message, hint)], text)

    def score(self, score: ScoreRule[Text]) -> ScoreRule[Checked] | None:
        """Check the score; raw ones may be of use to find out what is wrong with `normalize`."""
        expression = self.text(score.expression, "score")
        conditions = self.part(score.match_conditions, "score.matchConditions")
        normalize = self.part(score.normalize, "score.normalize")
        if expression is None:
            return None
        return ScoreRule(expression, normalize, score.on_error, conditions)


_NOUNS: Final[Mapping[type, str]] = {Text: "conditions", OrderKey: "keys"}


def _section_of(section: str, field_name: str) -> str:
    """Return the section that a text is by the name of its field."""
    if field_name == "expression":
        return "permit.allow" if section == "permit" else section
    return f"{section}.{_camel(field_name)}"


def _camel(name: str) -> str:
    first, *words = name.split("_")
    return first + "".join(map(str.capitalize, words))


_EACH_POD_ITS_OWN: Final = frozenset({"uid", "name"})
"""Fields that nearly each pod has for itself."""


def check_aggregates(
    source: PolicySource, inputs: Sequence[CheckedInput], report: _Report
) -> tuple[AggregateRule[Checked], ...]:
    """Check the aggregates, which read no other ones; an entry with a mistake is left out."""
    if not source.aggregates:
        return ()
    ignored = _Report(source.name)  # they are checked once more, with the types of aggregates
    definitions, _ = _definitions(source, ignored, {}, inputs, Counted())
    definitions.parts = report.parts
    check = _Checker(definitions, report)
    checked: dict[str, AggregateRule[Checked]] = {}
    for i, given in enumerate(source.aggregates):
        name = given.name.text
        if name in checked:
            problem = Problem(0, len(name), "PS111", f"two aggregates are called `{name}`")
            report.add([problem], given.name)
        elif i >= MAX_AGGREGATES:
            problem = Problem(0, len(name), "PS501", f"more than {MAX_AGGREGATES} aggregates")
            report.add([problem], given.name)
        elif (entry := check.aggregate(given)) is not None:
            checked[name] = msgspec.structs.replace(entry, identity=_identity(source, given))
    return tuple(checked.values())


def _definitions(
    source: PolicySource,
    report: _Report,
    scores: Mapping[str, types.Type],
    inputs: Sequence[CheckedInput],
    counted: Counted,
) -> tuple[Definitions, tuple[tuple[str, Checked], ...]]:
    return check_definitions(
        source,
        stdlib.policy_environment(),
        types.params_type(source.params),
        report.add,
        scores,
        inputs,
        counted,
    )


def _identity(source: PolicySource, given: AggregateRule[Text]) -> str:
    """Return a name of all that says what an aggregate counts."""
    parts = (*given.by, given.value, given.where, given.since)
    rules = [None if part is None else part.text for part in parts]
    meaning = (rules, given.kind, given.of, given.half_life)
    return f"{source.name}/{given.name.text}/{_digest(source, meaning)}"


def _digest(source: PolicySource, meaning: object) -> str:
    """Return what differs where something means something else, or the policy's definitions do."""
    functions = [(f.name, f.params, f.expression.text) for f in source.functions]
    variables = [(v.name, v.expression.text) for v in source.variables]
    inputs = [
        (
            *(i.name.text, i.api_version, i.kind, i.content, i.key and i.key.text, i.url, i.items),
            *(i.annotation, [(path, text.text) for path, text in i.fields]),
        )
        for i in source.inputs
    ]
    whole = repr((meaning, functions, variables, inputs, source.params))
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def _type_of_key(by: Sequence[Checked]) -> types.Type:
    """Return the type of the key of an aggregate whose pods count by these."""
    return by[0].core.type if len(by) == 1 else types.list_of(types.STRING)


def _type_of_value(given: AggregateRule[Checked]) -> types.Type:
    """Return the type of what an aggregate has for a key; numbers times hours are doubles."""
    kind = types.INT if given.value is None else given.value.core.type
    return types.DOUBLE if given.half_life and kind == types.INT else kind


def aggregates_type(aggregates: Iterable[AggregateRule[Checked]]) -> types.RecordType:
    """Return the type of `aggregates` in a policy that has these."""
    fields = []
    for given in aggregates:
        kind = types.AggregateType(
            "aggregate",
            _type_of_key(given.by),
            _type_of_value(given),
            given.identity,
            by_node=len(given.by) == 1 and _is_name_of_node(given.by[0].core),
            counts=given.value is None and not given.half_life,
            sums=given.kind == "sum" and not given.half_life,
            parts=len(given.by),
            decays=given.half_life > 0,
        )
        fields.append((given.name.text, kind))
    return types.RecordType("aggregates", tuple(fields))


def check_quotas(
    source: PolicySource, inputs: Sequence[CheckedInput], report: _Report
) -> tuple[QuotaRule[Checked], ...]:
    """Check the quotas; an entry with a mistake is left out."""
    if not source.quotas:
        return ()
    definitions, _ = _definitions(source, _Report(source.name), {}, inputs, Counted())
    definitions.parts = report.parts
    checked: list[QuotaRule[Checked]] = []
    for given in source.quotas:
        declared = [entry.name.text for entry in source.inputs]
        objects = _quota_objects(given.objects, declared, inputs, definitions, report)
        parents = None
        if given.parents is not None:
            parents = _quota_objects(given.parents, declared, inputs, definitions, report)
        pods = _Checker(definitions, report).text(given.pods, "quotas.pods")
        if given.parents is not None and "parent" not in given.objects.rules:
            of = given.parents.of
            problem = Problem(0, len(of.text), "PS704", "no quota names a parent", "write `parent`")
            report.add([problem], of)
        if pods is None or objects is None or (given.parents is not None and parents is None):
            continue
        kinds = [objects, *((parents,) if parents else ())]
        rules = [
            [
                (name, rule.text.text)
                for of in (kind.rules, kind.publish)
                for name, rule in of.items()
            ]
            for kind in kinds
        ]
        names = "|".join(kind.of.text.removeprefix("inputs.") for kind in kinds)
        parts = given.pods.text, rules, given.caps, given.shares_cluster
        identity = f"{names}#{_digest(source, parts)}"
        checked.append(
            QuotaRule(
                given.name, pods, objects, parents, given.caps, given.shares_cluster, identity
            )
        )
    return tuple(checked)


def _quota_objects(
    given: QuotaObjects[Text],
    declared: Sequence[str],
    inputs: Sequence[CheckedInput],
    definitions: Definitions,
    report: _Report,
) -> QuotaObjects[Checked] | None:
    """Check what is read of objects that are quotas; None after an error."""
    wanted = given.of.text.removeprefix("inputs.")
    entry = next((entry for entry in inputs if entry.name == wanted), None)
    if entry is None and wanted not in declared:  # a mistake in the input itself is told already
        message = f"the policy has no input `{wanted}`{did_you_mean(wanted, declared)}"
        problem = Problem(0, len(given.of.text), "PS101", message, "name it in spec.inputs")
        report.add([problem], given.of)
    if entry is None:
        return None
    of_object = dataclasses.replace(definitions, scores={"object": entry.type.record})
    check = _Checker(of_object, report)
    rules = {
        name: check.text(text, f"quotas.{OF_QUOTA_OBJECTS[name]}")
        for name, text in given.rules.items()
    }
    publish = {
        number: _published(number, text, entry, check) for number, text in given.publish.items()
    }
    checked = {name: rule for name, rule in rules.items() if rule is not None}
    shown = {number: rule for number, rule in publish.items() if rule is not None}
    if len(checked) < len(rules) or len(shown) < len(publish):
        return None
    return QuotaObjects(given.of, checked, shown)


def _published(number: str, text: Text, entry: CheckedInput, check: _Checker) -> Checked | None:
    """Check the field of an object's status that shows a number of its quota."""
    environment = check.definitions.environment
    numbers = {
        name: field.type
        for name, field in environment.records["Quota"].fields.items()
        if field.type in (types.RESOURCES, types.INT, types.DOUBLE)
    }
    whole, shown = (0, len(text.text)), None
    if number not in numbers:
        message = f"a quota has no number `{number}`{did_you_mean(number, numbers)}"
        problem = Problem(*whole, "PS823", message, f"one of {', '.join(numbers)}")
    elif not entry.subresource:
        message = f"nothing can be published to objects of kind {entry.source.kind or 'none'}"
        hint = "name a kind whose CustomResourceDefinition has subresources: {status: {}}"
        problem = Problem(*whole, "PS823", message, hint)
    else:
        shown = check.text(text, "quotas.publish")
        if shown is None:
            return None
        if not _in_status(shown.core):
            message = "a number is published in a field of the object's status"
            problem = Problem(*whole, "PS823", message, f"write object.status.{number}")
        elif shown.core.type != numbers[number]:
            message = (
                f"`{number}` is of type {numbers[number]}, the field of type {shown.core.type}"
            )
            hint = "give the field that type in the schema, or name another field"
            problem = Problem(*whole, "PS823", message, hint)
        else:
            return shown
    check.report.add([problem], text)
    return None


def _in_status(core: ast.Core) -> bool:
    """Return whether an expression is a field below the status of the object."""
    path = path_of(core)
    return len(path) > 1 and path[0] == "status"


def path_of(core: ast.Core) -> tuple[str, ...]:
    """Return the fields that lead to an expression from the object; () where it is no such."""
    fields: list[str] = []
    while isinstance(core, ast.Field):
        fields.append(core.name)
        core = core.operand
    return tuple(reversed(fields)) if isinstance(core, ast.Var) and core.name == "object" else ()


def _counted(
    source: PolicySource,
    aggregates: Iterable[AggregateRule[Checked]],
    quotas: Iterable[QuotaRule[Checked]],
    inputs: Iterable[CheckedInput],
) -> Counted:
    """Return the types of aggregates and quotas; one with a mistake is told of once."""
    sums = {given.name.text: types.ERROR for given in source.aggregates}
    sums |= dict(aggregates_type(aggregates).fields)
    trees = {given.name.text: types.ERROR for given in source.quotas}
    records = {f"inputs.{entry.name}": entry.type.record for entry in inputs}
    trees |= {
        given.name.text: types.QuotaType(
            "Quota", (), given.identity, records[given.objects.of.text]
        )
        for given in quotas
    }
    return Counted(
        types.RecordType("aggregates", tuple(sums.items())),
        types.RecordType("quotas", tuple(trees.items())),
    )


def _is_name_of_node(core: ast.Core) -> bool:
    owner = core.operand if isinstance(core, ast.Field) and core.name == "name" else None
    return isinstance(owner, ast.Var) and owner.name == "node"


def cut_at_a_comma(text: Text) -> bool:
    """Return whether a text is a piece of one that YAML ended, or began, at a comma."""
    opened = sum(text.text.count(sign) for sign in "([{")
    if text.locate is None or opened == sum(text.text.count(sign) for sign in ")]}"):
        return False
    _, first, line = text.position(0)
    _, after, last = text.position(len(text.text))
    return line[: first - 1].rstrip().endswith(",") or last[after - 1 :].lstrip().startswith(",")


def _expected(section: stdlib.Section) -> str:
    return section.expected if section.results else ""
