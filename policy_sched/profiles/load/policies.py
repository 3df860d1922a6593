"""Reads Policy documents from files and directories: every problem at once, with its place.

Texts of rules are taken as they are written; comments in YAML that hide the rest of a rule are
reported.

Effective parameters are a policy's own params with a profile's arguments laid over them. Mappings
merge deeply; lists and scalars replace. What a profile gives must look like the default: known
names, the same types, or an integer for a double.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from pydantic.alias_generators import to_snake
from yaml.nodes import ScalarNode

from policy_sched.errors import Diagnostic
from policy_sched.language.diagnostics import (
    ANNOTATION,
    MAX_ANNOTATED_COST,
    MAX_FIELDS,
    MAX_FUNCTION_PARAMS,
    MAX_TYPE_DEPTH,
    PolicySource,
)
from policy_sched.language.syntax import comments
from policy_sched.language.values import types
from policy_sched.profiles import models
from policy_sched.profiles.load import document
from policy_sched.profiles.load.configuration import load_config_document
from policy_sched.profiles.validate import check_rollout_steps, unknown_keys
from policy_sched.source import Marked

if TYPE_CHECKING:
    from policy_sched.profiles.models import Experiment, PolicyProof, PolicyTest, Rollout

HIDING_COMMENT: Final = "PS407"
_RULE_KEYS: Final = frozenset(
    {
        "expression",
        "messageExpression",
        "reasons",
        "nodeNames",
        "eligible",
        "victim",
        "reserve",
        "preBind",
        "bind",
        "postBind",
        "postFilter",
        "allow",
        "reject",
        "rejectMessageExpression",
        "activate",
        "timeout",
        "hint",
        "every",
        "key",
    }
)
_DURATION_KEYS: Final = frozenset({"timeout", "every"})
_AGGREGATE_KEYS: Final = frozenset({"by", "where", "since", "sum", "max", "min", "union"})
"""Rules of an entry of ``aggregates``."""
_QUOTA_KEYS: Final = frozenset(
    {"pods", "nominal", "limit", "parent", "lends", "borrows", "weight", "priority"}
)
"""Rules of an entry of ``quotas``."""


def bare_duration(text: str) -> str:
    """Return the duration that a text such as ``90s`` is instead of a rule; "" if it is a rule."""
    bare = text.strip()
    return bare if re.fullmatch(models.DURATION_PATTERN, bare) else ""


def with_rule_texts(
    value: Any, marked: Marked, rules: list[models.Path], path: models.Path = ()
) -> Any:
    """Return ``value`` with rules that YAML took for numbers or booleans as they are written.

    The paths of all rules are added to ``rules``. Parameters are data, and stay.
    """
    if isinstance(value, dict):
        return {
            key: item if key == "params" else _entry(key, item, marked, rules, (*path, key))
            for key, item in value.items()
        }
    if isinstance(value, list):
        rules_alone = path[-1:] in (("matchConditions",), ("by",))
        key = "expression" if rules_alone else ""
        return [_entry(key, item, marked, rules, (*path, i)) for i, item in enumerate(value)]
    return value


def _entry(key: str, item: Any, marked: Marked, rules: list[models.Path], path: models.Path) -> Any:
    """Return the text of a rule; the rules in other values are visited."""
    rule = key in _RULE_KEYS or (key == "resolvable" and not isinstance(item, bool))
    rule = rule or (key in _AGGREGATE_KEYS and path[-3:-2] == ("aggregates",))
    of_quota = path[:-1] if path[-2:-1] != ("parents",) else path[:-2]
    rule = rule or (key in _QUOTA_KEYS and of_quota[-2:-1] == ("quotas",))
    rule = rule or path[-2:-1] == ("publish",)
    if key in _DURATION_KEYS and isinstance(item, str) and bare_duration(item):
        return item
    if not rule or isinstance(item, dict | list):
        return with_rule_texts(item, marked, rules, path)
    rules.append(path)
    node = marked.node(path)
    return node.value if isinstance(node, ScalarNode) and not isinstance(item, str) else item


def hiding_comments(marked: Marked, rules: Iterable[models.Path]) -> Iterator[models.ModelProblem]:
    """Yield rules in which a ``//`` comment swallows lines that YAML folds onto its own."""
    for path in rules:
        node = marked.node(path)
        if not isinstance(node, ScalarNode) or node.style == "|" or "//" not in node.value:
            continue
        text, position = node.value, marked.scalar_map(path)
        for start, end in comments(text):
            last = start + len(text[start:end].rstrip())
            first_line, _ = marked.file.position(position(start))
            last_line, _ = marked.file.position(position(max(start, last - 1)))
            if first_line != last_line:
                message = "this // comment hides the lines below it: YAML folds them onto its line"
                hint = "write the rule below a |- instead"
                yield models.ModelProblem(path, HIDING_COMMENT, message, hint)
                break


_DIGITS: Final = 10
MAX_RULE_TEXT: Final = 64 << 10
"""Characters of all rules of one file; checking 1 MiB of them took 13 s, compiling them longer."""
TOO_MUCH_RULE_TEXT: Final = models.ModelProblem(
    ("spec",),
    models.TOO_LARGE,
    f"the rules of this file have more than {MAX_RULE_TEXT} characters",
    "divide it",
    on_key=True,
)
LEAST_EVERY: Final = 10 * models.SECOND
"""How often running pods are looked at, at most, to evict some of them, in ns."""
_SECTIONS: Final = (
    "preEnqueue",
    "queueSort",
    "queueOrder",
    "preFilter",
    "filter",
    "score",
    "weights",
    "preemption",
    "evict",
    "postFilter",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
    "placement",
    "measures",
    "devices",
)


@dataclass(frozen=True, slots=True)
class LoadedPolicy:
    """One Policy document that could be read, with its place in its file.

    ``sound``: the document has no error. ``filled``: where placeholders stand for values that the
    file lacks or that have the wrong type. ``rule_text``: characters of all of its rules.
    """

    model: models.Policy
    place: document.DocumentPosition
    sound: bool = True
    filled: tuple[models.Path, ...] = ()
    rule_text: int = 0
    sources: dict[str, PolicySource] = field(default_factory=dict, repr=False, compare=False)
    """What the checker reads of it, by a hash of the effective params."""

    def __reduce__(self) -> tuple[type[LoadedPolicy], tuple[object, ...]]:
        """Leave the sources behind: they lose their places in files on the way."""
        return LoadedPolicy, (self.model, self.place, self.sound, self.filled, self.rule_text)

    @property
    def name(self) -> str:
        """The policy's name, which is the plugin's."""
        return self.model.metadata.name


def too_much_rule_text(policies: Sequence[LoadedPolicy]) -> Diagnostic | None:
    """Return the error of a file whose rules, all policies together, are beyond `MAX_RULE_TEXT`.

    Nothing else is checked of such a file.
    """
    size = 0
    for policy in policies:
        size += policy.rule_text
        if size > MAX_RULE_TEXT:
            return policy.place.diagnostic(TOO_MUCH_RULE_TEXT)
    return None


def rule_text(marked: Marked, rules: Iterable[models.Path]) -> int:
    """Return the number of characters of the rules of a document."""
    texts = (marked.node(path) for path in rules)
    return sum(len(node.value) for node in texts if isinstance(node, ScalarNode))


def load_policy_document(marked: Marked) -> tuple[LoadedPolicy | None, list[Diagnostic]]:
    """Read one document; a policy with errors is returned too, mended if possible."""
    position = document.DocumentPosition(marked.file.path, marked)
    version, kind = document.kind_of(marked.value)
    if (version, kind) != (models.POLICY_API_VERSION, models.POLICY_KIND):
        return None, [
            position.diagnostic(
                document.kind_problem(
                    marked.value, ((models.POLICY_API_VERSION, models.POLICY_KIND),)
                )
            )
        ]
    rules: list[models.Path] = []
    value = with_rule_texts(document.without_nulls(marked.value, keep=("params",)), marked, rules)
    model, problems, _ = document.read_model(value, models.Policy, models.POLICY_FILE)
    filled = tuple(p.path for p in problems if p.code in (models.MISSING_KEY, models.WRONG_TYPE))
    problems += hiding_comments(marked, rules)
    large = [] if model is None else list(too_large(model.spec))
    if model is None or large:
        return None, position.diagnostics(models.without_followers([*problems, *large]))
    problems += not_audited(model.spec)
    problems += [p for p in check_policy_model(model) if not document.covered(p.path, problems)]
    sound = all(problem.warning for problem in problems)
    loaded = LoadedPolicy(model, position, sound, filled, rule_text(marked, rules))
    return loaded, position.diagnostics(models.without_followers(problems))


def duplicate_names(policies: Sequence[LoadedPolicy]) -> list[Diagnostic]:
    """Return a diagnostic for each policy whose name an earlier one has."""
    first: dict[str, LoadedPolicy] = {}
    problems: list[Diagnostic] = []
    for policy in policies:
        other = first.setdefault(policy.name, policy)
        if other is not policy:
            at: models.Path = ("metadata", "name")
            where = other.place.diagnostic(models.ModelProblem(at, models.DUPLICATE, ""))
            text = f'policy "{policy.name}" is defined twice'
            hint = f"the other one is at {where.file}:{where.line}:{where.column}"
            problems.append(
                policy.place.diagnostic(
                    models.ModelProblem(("metadata", "name"), models.DUPLICATE, text, hint)
                )
            )
    return problems


def check_policy_model(policy: models.Policy) -> Iterator[models.ModelProblem]:
    """Yield the problems of a policy of the right shape, its rules not included."""
    spec = policy.spec
    if not any(getattr(spec, to_snake(section)) for section in _SECTIONS):
        text = f"spec: Required value: at least one of {', '.join(_SECTIONS)}"
        yield models.ModelProblem(("spec",), models.MISSING_KEY, text, on_key=True)
    yield from _null_params(spec.params, ("spec", "params"))
    stated = policy.metadata.annotations.get(ANNOTATION)
    if stated is not None and cost_limit(policy.metadata.annotations) is None:
        text = f'metadata.annotations[{ANNOTATION}]: Invalid value: "{stated}": must be a number'
        text += f" from 1 to {MAX_ANNOTATED_COST}, the nanoseconds for each node"
        yield models.ModelProblem(("metadata", "annotations", ANNOTATION), models.BAD_VALUE, text)
    for i, given in enumerate(spec.inputs):
        yield from _input_problems(given, ("spec", "inputs", i))
    placement = spec.placement
    if placement is not None and not placement.domain and placement.score is None:
        why = "Required value: domain, score, or both"
        yield models.problem_at(("spec", "placement"), why, models.MISSING_KEY, on_key=True)
    if spec.devices is not None and not spec.devices.filter and spec.devices.score is None:
        why = "Required value: filter, score, or both"
        yield models.problem_at(("spec", "devices"), why, models.MISSING_KEY, on_key=True)
    for i, aggregate in enumerate(spec.aggregates):
        kinds = [k for k in models.AGGREGATE_KINDS if getattr(aggregate, k) is not None]
        if not kinds:
            why = f"Required value: one of {', '.join(models.AGGREGATE_KINDS)}"
            at: models.Path = ("spec", "aggregates", i)
            yield models.problem_at(at, why, models.MISSING_KEY, on_key=True)
        for more in kinds[1:]:
            why = f"Forbidden: the aggregate has {kinds[0]}"
            hint = "write an aggregate of its own"
            yield models.problem_at(("spec", "aggregates", i, more), why, hint=hint, on_key=True)
        if aggregate.half_life and ({*kinds[:1]} - {"count", "sum"} or aggregate.since):
            why = "Forbidden: halfLife is for count and sum, and not beside since"
            yield models.problem_at(("spec", "aggregates", i, "halfLife"), why, on_key=True)
    for i, entry in enumerate(spec.pre_filter.rules if spec.pre_filter else ()):
        yield from _one_message(entry, ("spec", "preFilter", "rules", i))
    for i, gate in enumerate(spec.pre_enqueue):
        yield from _one_message(gate, ("spec", "preEnqueue", i))
    for i, rule in enumerate(spec.filter):
        yield from _one_message(rule, ("spec", "filter", i))
    for section in ("reserve", "permit", "preBind"):
        step = getattr(spec, to_snake(section))
        if isinstance(step, models.VetoRule | models.Permit):
            yield from _one_message(step, ("spec", section))
    yield from _messages_of_reject(spec.permit)
    yield from _eviction_problems(spec.evict)


def _eviction_problems(evict: models.Evict | None) -> Iterator[models.ModelProblem]:
    """Yield what is wrong with the evict section."""
    if evict is None:
        return
    yield from _one_message(evict, ("spec", "evict"))
    if evict.every < LEAST_EVERY:
        yield models.problem_at(("spec", "evict", "every"), "Invalid value: must be at least 10s")


def _input_problems(given: models.Input, path: models.Path) -> Iterator[models.ModelProblem]:
    """Yield what is missing in an input, or is there beside what excludes it."""
    if given.annotation:
        named = ("apiVersion", "kind", "key", "poll", "url", "items", "optional", "most")
        for key in named:
            if getattr(given, to_snake(key)):
                why = "Forbidden: the input is an annotation"
                yield models.problem_at((*path, key), why, on_key=True)
        if not given.schema_file and not given.fields:
            yield models.required((*path, "fields"))
    elif given.url:
        for key, value in (("apiVersion", given.api_version), ("kind", given.kind)):
            if value:
                why = "Forbidden: the input has a url"
                hint = "state the url, or apiVersion and kind"
                yield models.problem_at((*path, key), why, hint=hint, on_key=True)
        if "$(" not in given.url and not models.is_address(given.url):
            yield models.invalid((*path, "url"), given.url, "must be an http or https address")
        if not given.schema_file:
            yield models.required((*path, "schema"))
        if given.poll is None:
            yield models.required((*path, "poll"))
    else:
        for key, value in (("apiVersion", given.api_version), ("kind", given.kind)):
            if not value:
                yield models.required((*path, key))
        if given.items:
            why = "Forbidden: the input has no url"
            yield models.problem_at((*path, "items"), why, on_key=True)
    if given.poll is not None and given.poll < models.SECOND:
        yield models.problem_at((*path, "poll"), "Invalid value: must be at least 1s")


def beyond_ceiling(policies: Iterable[LoadedPolicy], ceiling: int) -> list[Diagnostic]:
    """Return a diagnostic for each policy whose annotation exceeds ``ceiling``."""
    problems: list[Diagnostic] = []
    for policy in policies:
        stated = cost_limit(policy.model.metadata.annotations)
        if stated is not None and stated > ceiling:
            at: models.Path = ("metadata", "annotations", ANNOTATION)
            text = f"metadata.annotations[{ANNOTATION}]: Invalid value: {stated}"
            text += f": more than {ceiling}, which --max-cost-limit allows"
            problems.append(
                policy.place.diagnostic(models.ModelProblem(at, models.BAD_VALUE, text))
            )
    return problems


_AUDITED: Final = frozenset(
    {"enforcement", "profiles", "weight", "params", "functions", "variables", "match_conditions"}
    | {"filter", "score", "measures"}
)
"""Sections that a policy with `enforcement: Audit` may have."""


def enforced(policy: LoadedPolicy) -> LoadedPolicy:
    """Return a policy as it is once it decides."""
    if policy.model.spec.enforcement == "Enforce":
        return policy
    spec = policy.model.spec.model_copy(update={"enforcement": "Enforce"})
    return replace(policy, model=policy.model.model_copy(update={"spec": spec}))


def not_audited(spec: models.PolicySpec) -> Iterator[models.ModelProblem]:
    """Yield the sections that an audited policy cannot have: they do more than choose a node."""
    if spec.enforcement == "Enforce":
        return
    for name, info in type(spec).model_fields.items():
        if name not in _AUDITED and getattr(spec, name) not in ((), None):
            section = info.alias or name
            yield models.problem_at(
                ("spec", section),
                "Unsupported: enforcement Audit is for filter and score alone",
                hint=f"delete {section}, or move it to a policy that is enforced",
                on_key=True,
            )


def too_large(spec: models.PolicySpec) -> Iterator[models.ModelProblem]:
    """Yield what is beyond a limit of the language; nothing else of such a policy is checked."""
    yield from too_many_params(spec.params, ("spec", "params"))
    for i, function in enumerate(spec.functions):
        if len(function.params) > MAX_FUNCTION_PARAMS:
            why = f"{len(function.params)} parameters; the limit is {MAX_FUNCTION_PARAMS}"
            yield models.problem_at(
                ("spec", "functions", i, "params"), why, models.TOO_LARGE, on_key=True
            )


def cost_limit(annotations: Mapping[str, str]) -> int | None:
    """Return the cost limit of a policy's annotation; None without a valid one."""
    stated = annotations.get(ANNOTATION, "")
    if not (stated.isascii() and stated.isdecimal() and len(stated) < _DIGITS):
        return None
    return int(stated) if 1 <= int(stated) <= MAX_ANNOTATED_COST else None


def _one_message(
    rule: models.FilterRule
    | models.PreEnqueueRule
    | models.PreFilterRuleEntry
    | models.VetoRule
    | models.Permit
    | models.Evict,
    path: models.Path,
) -> Iterator[models.ModelProblem]:
    """Yield every message of a rule beyond the first."""
    given = {
        "message": bool(rule.message),
        "messageExpression": rule.message_expression is not None,
        "reasons": isinstance(rule, models.FilterRule | models.PreEnqueueRule)
        and rule.reasons is not None,
    }
    used = [key for key, is_given in given.items() if is_given]
    for key in used[1:]:
        why = f"Forbidden: the rule has {used[0]} already"
        hint = "at most one of message, messageExpression and reasons"
        yield models.problem_at((*path, key), why, hint=hint, on_key=True)


def _messages_of_reject(permit: models.Permit | None) -> Iterator[models.ModelProblem]:
    """Yield messages of permit.reject that are one too many, or that nothing gives."""
    if permit is None:
        return
    given = [
        key
        for key in ("rejectMessage", "rejectMessageExpression")
        if getattr(permit, to_snake(key))
    ]
    for key in given[1:]:
        why = f"Forbidden: the rule has {given[0]} already"
        hint = f"at most one of {' and '.join(given)}"
        yield models.problem_at(("spec", "permit", key), why, hint=hint, on_key=True)
    for key in given if permit.reject is None else ():
        why = "Forbidden: the section has no reject"
        yield models.problem_at(
            ("spec", "permit", key), why, hint="add reject, or take it out", on_key=True
        )


def _null_params(value: object, path: models.Path) -> Iterator[models.ModelProblem]:
    """Yield the parameters without a value: the rule language has no null."""
    if value is None:
        why = "expected a value, found nothing"
        hint = "the rule language has no null; set a default, which also sets the type"
        yield models.problem_at(path, why, models.WRONG_TYPE, hint, on_key=True)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _null_params(item, (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _null_params(item, (*path, i))


def test_problems(marked: Marked, inputs: Collection[str]) -> list[Diagnostic]:
    """Return every problem of the shape of a PolicyTest; none of another document.

    ``inputs``: names of its policies' inputs, with which short forms of objects begin.
    """
    if document.kind_of(marked.value) != (models.POLICY_API_VERSION, "PolicyTest"):
        return []
    problems = read_test(marked.value, inputs)[1]
    shape = document.DocumentPosition(marked.file.path, marked).diagnostics(problems)
    return [*shape, *problems_of_config(marked)]


def policies_of_test(value: Mapping[str, Any]) -> list[str]:
    """Return the files that a PolicyTest names as policies, whatever else it holds."""
    named = value.get("policies")
    names = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    return [name for name in names if isinstance(name, str)]


def read_test(
    value: Mapping[str, Any], inputs: Collection[str]
) -> tuple[PolicyTest | None, list[models.ModelProblem]]:
    """Read a document as a PolicyTest, and return every problem of its shape.

    It need not say what it is. With problems it is mended; None if it cannot be.
    """
    from policy_sched.profiles.models import PolicyTest  # noqa: PLC0415  few commands read tests

    value = {**value, "apiVersion": models.POLICY_API_VERSION, "kind": "PolicyTest"}
    wrong: list[models.ModelProblem] = []
    if isinstance(value.get("objects"), list):
        items = enumerate(value["objects"])
        value["objects"] = [_object(item, ("objects", i), inputs, wrong) for i, item in items]
    test, problems, _ = document.read_model(value, PolicyTest, models.TEST_FILE)
    problems += wrong
    if test is None:
        return None, problems
    shape = tuple(problems)
    for i, entry in enumerate(test.expect):
        path: models.Path = ("expect", i, "pod")
        names_none = entry.model_fields_set.isdisjoint(("pod", "queue", "op", "evicted"))
        if names_none and not document.covered(path, shape):
            problems.append(models.required(path))
    try:
        models.moment_of(models.DEFAULT_NOW if test.now is None else test.now)
    except ValueError as error:
        problems.append(models.problem_at(("now",), str(error)))
        test = test.model_copy(update={"now": None})
    return test, problems


def _object(
    item: Any, path: models.Path, inputs: Collection[str], problems: list[models.ModelProblem]
) -> Any:
    """Return an object of a test with the keys that it may have.

    That of an input, in short, is a manifest: any shape will do.
    """
    if not isinstance(item, dict):
        return item
    if next(iter(item), None) in inputs:
        return {"kind": ""}
    if item.keys().isdisjoint(("kind", "pod", "node", "namespace")):
        hint = "a manifest has apiVersion and kind; a short form begins with node, pod or namespace"
        problems.append(models.problem_at(path, "this is no object", hint=hint))
        return {"kind": ""}
    if item.keys().isdisjoint(("kind", "pod", "node")):
        keys = models.keys_of(models.NamespaceEntry)
        problems += unknown_keys(path, item, keys, models.did_you_mean)
        return {key: item[key] for key in keys if key in item}
    return item


#: Claims of one document.
_MOST_CLAIMS: Final = 500


def read_proof(marked: Marked) -> tuple[PolicyProof | None, list[Diagnostic]]:
    """Read a document as a PolicyProof, and return every problem of its shape.

    None if it has problems.
    """
    from policy_sched.profiles.models import CLAIM_FORMS, PolicyProof  # noqa: PLC0415  few read it

    position = document.DocumentPosition(marked.file.path, marked)
    if document.kind_of(marked.value) != (models.POLICY_API_VERSION, models.PROOF_KIND):
        kinds = ((models.POLICY_API_VERSION, models.PROOF_KIND),)
        return None, [position.diagnostic(document.kind_problem(marked.value, kinds))]
    proof, problems, _ = document.read_model(marked.value, PolicyProof, models.PROOF_FILE)
    if proof is not None and len(proof.claims) > _MOST_CLAIMS:
        why = f"Too many: {len(proof.claims):,}: must have at most {_MOST_CLAIMS} claims"
        problems.append(models.problem_at(("claims",), why, models.BAD_VALUE, on_key=True))
    for i, claim in enumerate(() if proof is None or problems else proof.claims):
        forms = [form for form in CLAIM_FORMS if getattr(claim, form)]
        if len(forms) != 1:
            why = f"Required value: one of {', '.join(CLAIM_FORMS)}"
            path: models.Path = ("claims", i)
            problems.append(models.problem_at(path, why, models.MISSING_KEY, on_key=True))
    return (None if problems else proof), position.diagnostics(problems)


def read_rollout(marked: Marked) -> tuple[Rollout | None, list[models.ModelProblem]]:
    """Read a document as a Rollout, and return every problem of its shape and its steps.

    With problems it is mended as far as possible; None if it cannot be.
    """
    from policy_sched.profiles.models import Rollout  # noqa: PLC0415  few commands read it

    kinds = ((models.POLICY_API_VERSION, models.ROLLOUT_KIND),)
    if document.kind_of(marked.value) != kinds[0]:
        return None, [document.kind_problem(marked.value, kinds)]
    rollout, problems, _ = document.read_model(marked.value, Rollout, models.ROLLOUT_FILE)
    problems = models.without_followers(problems)
    if rollout is not None:
        shape = tuple(problems)
        problems += (
            problem
            for problem in check_rollout_steps(rollout)
            if not document.covered(problem.path, shape)
        )
    return rollout, problems


def read_experiment(
    value: object, marked: Marked
) -> tuple[Experiment | None, list[models.ModelProblem]]:
    """Read a document as an Experiment, and return every problem of its shape.

    ``value``: the document's data, with values for its parameters. None if it cannot be mended.
    """
    if document.kind_of(value) != (models.POLICY_API_VERSION, models.EXPERIMENT_KIND):
        return None, [
            document.kind_problem(
                marked.value, ((models.POLICY_API_VERSION, models.EXPERIMENT_KIND),)
            )
        ]
    from policy_sched.profiles.models import Experiment  # noqa: PLC0415  few commands read it

    model, problems, _ = document.read_model(value, Experiment, models.EXPERIMENT_FILE)
    return model, models.without_followers(problems)


def experiment_shape(marked: Marked) -> list[Diagnostic]:
    """Return every problem of the shape of a document that is an Experiment.

    A text with ``${NAME}`` may become a value of any type, so nothing is said of its type.
    """
    position = document.DocumentPosition(marked.file.path, marked)
    problems = read_experiment(marked.value, marked)[1]
    return position.diagnostics(
        [problem for problem in problems if not _has_parameter(marked, problem.path)]
    )


def _has_parameter(marked: Marked, path: models.Path) -> bool:
    """Return whether the value at a path is a text in which a parameter stands."""
    value: Any = marked.value
    for key in path:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return False
    return isinstance(value, str) and "${" in value


def problems_of_config(marked: Marked) -> list[Diagnostic]:
    """Return the problems of a configuration that is part of a PolicyTest."""
    node = marked.node(("config",))
    value = marked.value.get("config") if isinstance(marked.value, dict) else None
    if node is None or not isinstance(value, dict):
        return []
    position = document.DocumentPosition(marked.file.path, Marked(marked.file, node, value))
    return load_config_document(value, position)[1]


def merge_over(defaults: Any, given: Any) -> Any:
    """Return ``given`` over ``defaults``: mappings merge deeply, anything else replaces."""
    if not isinstance(defaults, dict) or not isinstance(given, dict):
        return given
    merged = dict(defaults)
    for key, value in given.items():
        merged[key] = merge_over(defaults[key], value) if key in defaults else value
    return merged


def merge_params(
    params: Mapping[str, Any],
    args: Mapping[str, Any],
    path: models.Path,
    problems: list[models.ModelProblem],
) -> dict[str, Any]:
    """Return a policy's ``params`` with ``args``, found at ``path``, laid over them.

    What does not look like its default is added to ``problems``, and keeps its default.
    """
    merged = dict(params)
    for name, value in args.items():
        at = (*path, name)
        if name in params:
            merged[name] = _merge(params[name], value, at, problems)
            continue
        names = f"known parameters: {', '.join(params)}" if params else "the policy has no params"
        hint = models.did_you_mean(name, params) or names
        text = f'unknown parameter "{models.path_text(at)}"'
        problems.append(models.ModelProblem(at, models.UNKNOWN_KEY, text, hint, on_key=True))
    return merged


def too_many_params(params: Mapping[str, Any], path: models.Path) -> Iterator[models.ModelProblem]:
    """Yield a problem if the type of ``params``, found at ``path``, is too large or too deep."""
    kind = types.params_type(params)
    fields = sum(
        len(part.fields) for part in types.parts(kind) if isinstance(part, types.RecordType)
    )
    if fields > MAX_FIELDS:
        why = f"{fields} parameters with those in mappings; the limit is {MAX_FIELDS}"
        hint = "mappings with values of one type do not count"
        yield models.problem_at(path, why, models.TOO_LARGE, hint, on_key=True)
    if types.type_depth(kind) > MAX_TYPE_DEPTH:
        yield models.problem_at(
            path, f"nested more than {MAX_TYPE_DEPTH} deep", models.TOO_LARGE, on_key=True
        )


def _merge(default: Any, given: Any, path: models.Path, problems: list[models.ModelProblem]) -> Any:
    """Return ``given`` over ``default``; an empty default takes anything of its kind.

    A map, whose values have one type, is replaced as a list is: else no key could be taken out.
    """
    if isinstance(default, dict) and isinstance(given, dict):
        if len({noun(value) for value in default.values()}) == 1:
            like = next(iter(default.values()))
            return {key: _item(like, v, (*path, key), problems) for key, v in given.items()}
        return _merge_record(default, given, path, problems)
    if isinstance(default, list) and isinstance(given, list):
        if not default:
            return given
        return [_item(default[0], item, (*path, i), problems) for i, item in enumerate(given)]
    if isinstance(default, float) and isinstance(given, int) and not isinstance(given, bool):
        return float(given)
    if noun(default) != noun(given):
        why = f"expected {noun(default)}, found {noun(given)}"
        shown = json.dumps(default, ensure_ascii=False)
        problems.append(models.problem_at(path, why, models.WRONG_TYPE, f"the default is {shown}"))
        return default
    return given


def _merge_record(
    default: dict[str, Any],
    given: dict[str, Any],
    path: models.Path,
    problems: list[models.ModelProblem],
) -> dict[str, Any]:
    """Merge mappings with fields of several types, or none."""
    merged = dict(default)
    for key, value in given.items():
        at = (*path, key)
        if key in default:
            merged[key] = _merge(default[key], value, at, problems)
        elif not default:
            merged[key] = value
        else:
            hint = models.did_you_mean(str(key), default) or f"known fields: {', '.join(default)}"
            text = f'unknown field "{models.path_text(at)}"'
            problems.append(models.ModelProblem(at, models.UNKNOWN_KEY, text, hint, on_key=True))
    return merged


def _item(like: Any, given: Any, path: models.Path, problems: list[models.ModelProblem]) -> Any:
    """Return an item that must look like ``like``, and have all of its fields if a record."""
    fields = set(map(noun, like.values())) if isinstance(like, dict) else ()
    if isinstance(given, dict) and len(fields) > 1:
        problems += (models.required((*path, key)) for key in like if key not in given)
        merged = _merge_record(like, given, path, problems)
        return {key: value for key, value in merged.items() if key in given}
    return _merge(like, given, path, problems)


def noun(value: object) -> str:
    """Return the type of a parameter's value as text."""
    if value is None:
        return "nothing"
    names: tuple[tuple[type, str], ...] = (
        (bool, "true or false"),
        (int, "an integer"),
        (float, "a double"),
        (str, "a string"),
        (list, "a list"),
    )
    return next((name for kind, name in names if isinstance(value, kind)), "a mapping")
