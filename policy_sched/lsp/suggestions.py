"""Completion, hover texts, and quick fixes.

Keys and their descriptions come from the JSON Schemas.

Theory of operation of fixes. The hint of a problem is written for people ("did you mean 'free'?",
"write clamp(..., 0, 100), or add normalize"). The suggested text replaces the underlined one,
and the file is checked again; the fix is offered only if the problem disappears and no other one
appears.

Selectors over devices, in manifests of device classes and claims, have an environment of their own.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, TypeAlias

from policy_sched.errors import Diagnostic
from policy_sched.language import Entry, of_device, of_field, of_macro, of_overload, of_variable
from policy_sched.language.cel import selector_type
from policy_sched.language.check import CheckedPolicy
from policy_sched.language.diagnostics import PolicySource
from policy_sched.language.stdlib import (
    Environment,
    Overload,
    policy_environment,
    selector_environment,
)
from policy_sched.language.values import types
from policy_sched.lsp.cursor import (
    CursorPosition,
    cursor_at,
    locals_in,
    loops,
    member_before,
    policies_at,
    source_at,
    type_of,
    word_before,
)
from policy_sched.profiles import models
from policy_sched.profiles.check import OF_POLICIES, PASSES, SCORE
from policy_sched.profiles.load import WITH_SELECTORS

_FILES: Final = {
    "Policy": models.POLICY_FILE,
    "KubeSchedulerConfiguration": models.CONFIGURATION_FILE,
    "PolicyTest": models.TEST_FILE,
    "Experiment": models.EXPERIMENT_FILE,
    "PolicyProof": models.PROOF_FILE,
    "Rollout": models.ROLLOUT_FILE,
}


def keys_at(text: str, line: int, path: tuple[str, ...]) -> dict[str, str]:
    """Return the keys below ``path`` in the document of a line (from 0), with descriptions."""
    root = _schema(_FILES.get(_kind(text, line), models.POLICY_FILE))
    keys: dict[str, str] = {}
    for schema in _below(root, root, path):
        for key, value in schema.get("properties", {}).items():
            keys.setdefault(key, str(value.get("description", "")))
    return keys


def _kind(text: str, line: int) -> str:
    """Return the kind of the document that contains a line; Policy if it has none."""
    lines = text.split("\n")
    breaks = [i for i, text_line in enumerate(lines) if text_line.startswith("---")]
    start = max((i for i in breaks if i <= line), default=0)
    end = min((i for i in breaks if i > line), default=len(lines))
    match = re.search(r"^kind:\s*(\w+)", "\n".join(lines[start:end]), re.MULTILINE)
    return match[1] if match else "Policy"


@cache
def _schema(file: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(models.schemas()[file])
    return loaded


def _below(
    root: Mapping[str, Any], schema: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas of mappings at a path; lists are transparent."""
    for part in _resolved(root, schema):
        if not path:
            yield part
            continue
        inner = part.get("properties", {}).get(path[0])
        if inner is None and isinstance(part.get("additionalProperties"), dict):
            inner = part["additionalProperties"]
        if inner is not None:
            yield from _below(root, inner, path[1:])


def _resolved(root: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a schema with references resolved, and its alternatives and items."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        yield from _resolved(root, root["definitions"][name])
        return
    yield schema
    for key in ("then", "else"):
        if key in schema:
            yield from _resolved(root, schema[key])
    for key in ("allOf", "anyOf", "oneOf"):
        for choice in schema.get(key, ()):
            yield from _resolved(root, choice)
    items = schema.get("items")
    if isinstance(items, dict):
        yield from _resolved(root, items)


def suggestions(path: str, text: str, line: int, character: int) -> list[Suggestion]:
    """Return the words for a cursor (from 0, in characters), in the order of the tables."""
    cursor = cursor_at(text, line, character)
    if has_selectors(_kind(text, line)):
        return selector_suggestions(text, cursor)
    if cursor.before is None:
        keys = keys_at(text, line, cursor.path)
        return [
            Suggestion(key, "property", Entry(key, "key", meaning))
            for key, meaning in keys.items()
            if key.startswith(cursor.word)
        ]
    named = _policy_before(cursor)
    if named is not None:
        return list(_policies(*named, policies_at(path, text, line)))
    if cursor.section is None:
        return []
    source = source_at(path, text, line)
    member = member_before(cursor.before)
    candidates = (
        _names(cursor, source)
        if member is None
        else _members(member[0], cursor.before, source, cursor)
    )
    word = word_before(cursor.before) if member is None else member[1]
    return [suggestion for suggestion in candidates if suggestion.label.startswith(word)]


def meaning(path: str, text: str, line: int, character: int) -> Entry | None:
    """Return the description of the word at a cursor; None if it has none."""
    lines = text.split("\n")
    shown = lines[line] if line < len(lines) else ""
    end = character + len(re.match(r"\w*", shown[character:])[0])  # type: ignore[index]
    cursor = cursor_at(text, line, end)
    key = re.search(r"([$\w]+)$", shown[:end])
    if key is None:
        return None
    if not has_selectors(_kind(text, line)):
        if shown[end : end + 1] == ":" and (cursor.section is None or cursor.before == key[1]):
            path_of_key = cursor_at(text, line, key.start()).path
            description = keys_at(text, line, path_of_key).get(key[1])
            return Entry(key[1], "key", description) if description else None
        if cursor.before is None or cursor.section is None:
            return None
    candidates = suggestions(path, text, line, end)
    return next((suggestion.entry for suggestion in candidates if suggestion.label == key[1]), None)


def _names(cursor: CursorPosition, source: PolicySource) -> Iterator[Suggestion]:
    """Yield the names that an expression of a section may begin with."""
    section, before = cursor.section, cursor.before or ""
    assert section is not None, "the cursor is in a rule"
    for name in locals_in(before):
        kind = type_of(name, before, source)
        yield Suggestion(name, "variable", Entry(f"{name}: {kind}", "variable of a loop", ""))
    environment = policy_environment()
    for name, variable in environment.variables.items():
        if name in section.visible:
            yield Suggestion(name, "variable", of_variable(variable))
    for name, words in (("params", "parameters"), ("variables", "variables"), ("inputs", "inputs")):
        if name in section.visible and (name != "inputs" or source.inputs):
            yield Suggestion(name, "variable", Entry(name, "variable", f"This policy's {words}."))
    for function in source.functions:
        params = ", ".join(f"{name}: {kind}" for name, kind in function.params)
        entry = Entry(
            f"{function.name}({params})", "function of this policy", function.expression.text
        )
        known = _OF_CLAIMS if cursor.claims else {}
        yield Suggestion(function.name, "function", known.get(function.name, entry))
    yield from functions(environment)


_OF_CLAIMS: Final = {
    PASSES: Entry(
        f'{PASSES}: bool\n{PASSES}("POLICY"): bool',
        "of claims",
        "Whether the filters of all policies, or of one, let the node pass.",
    ),
    **{
        name: Entry(f'{name}("POLICY"): {kind}', "of claims", text)
        for name, kind, text in (
            (SCORE, "double", "The raw score of a policy for the node."),
            ("normalized", "int", "The score as it is after `normalize`, before weights."),
            ("takesPart", "bool", "Whether the policy's `matchConditions` hold."),
            ("preEnqueue", "bool", "Whether the policy lets the pod enter the queue."),
            ("eligible", "bool", "Whether the policy lets the pod evict others."),
            ("victim", "bool", "Whether the pod may then evict `victim`."),
        )
    },
}
_NAMES_POLICY: Final = re.compile(rf"\b({'|'.join(OF_POLICIES)})\(\\?[\"']([^\"'\\]*)$")


def _policy_before(cursor: CursorPosition) -> tuple[str, str] | None:
    """Return the start of a policy's name at a cursor in a claim, and the function it is for."""
    if cursor.path == ("claims", "monotone", "score"):
        return cursor.before or "", SCORE
    match = _NAMES_POLICY.search(cursor.before or "") if cursor.claims else None
    return None if match is None else (match[2], match[1])


def _policies(start: str, function: str, policies: Sequence[CheckedPolicy]) -> Iterator[Suggestion]:
    for policy in policies:
        if policy.name.startswith(start) and OF_POLICIES[function](policy):
            yield Suggestion(
                policy.name, "variable", Entry(policy.name, "policy of the claims", "")
            )


def _members(
    base: str, before: str, source: PolicySource, cursor: CursorPosition
) -> Iterator[Suggestion]:
    """Yield the members of the expression before the dot."""
    section = cursor.section
    assert section is not None, "the cursor is in a rule"
    environment = policy_environment()
    if base in environment.namespaces:
        yield from functions_in(environment, base)
        return
    if base == "variables":
        for variable in source.variables:
            name = f"variables.{variable.name}"
            title = f"{name}: {type_of(name, '', source) or 'unknown'}"
            entry = Entry(title, "variable of this policy", variable.expression.text)
            yield Suggestion(variable.name, "field", entry)
        return
    is_bound = base in section.visible or base in locals_in(before)
    if base in environment.variables and not is_bound:
        return
    kind = type_of(base, before, source)
    if kind is None:
        return
    if isinstance(kind, types.RecordType):
        yield from _fields(base, kind)
    if isinstance(kind, types.InputType) and not kind.annotation:
        title = f"{base}.all() -> list({kind.record})"
        yield Suggestion("all", "method", Entry(title, "method", "All objects of the input."))
        return
    yield from methods(environment, kind)


def _fields(base: str, kind: types.RecordType) -> Iterator[Suggestion]:
    record = policy_environment().records.get(kind.name)
    if record is not None and not kind.fields:
        for field in record.fields.values():
            yield Suggestion(field.name, "field", of_field(record, field))
        return
    what = "parameter of this policy"
    if isinstance(kind, types.ObjectType):
        what = f"field of {kind}"
    elif base == "inputs":
        what = "input of this policy"
    for name, inner in kind.fields:
        entry = Entry(f"{base}.{name}: {inner}", what, "")
        yield Suggestion(name, "field", entry)


_MEANT: Final = re.compile(r"did you mean (?P<quote>['\"`])(?P<word>.+?)(?P=quote)\?")
_WRITE: Final = re.compile(
    r"write (?:`(?P<code>[^`]+)`|(?P<text>.+?))(?=,? or | instead\b| around\b| to | for |$)"
)
_WHOLE: Final = "..."
#: Codes that a fix must not introduce: YAML, syntax, names and types.
_SLIPS: Final = ("PS0", "PS1", "PS2", "PS701", "PS702", "PS703")

Check: TypeAlias = Callable[[str], Sequence[Diagnostic]]
"""Returns all problems of a text."""


@dataclass(frozen=True, slots=True)
class Fix:
    """A problem, and the replacement for the underlined text."""

    problem: Diagnostic
    new_text: str

    @property
    def title(self) -> str:
        """The text in an editor's menu."""
        shown = " ".join(self.new_text.split())
        return f"Write {shown if len(shown) <= 60 else f'{shown[:57]}...'}"


def fixes(text: str, first: int, last: int, check: Check) -> Iterator[Fix]:
    """Yield the fixes of problems on some lines of a text, from 0."""
    problems = check(text)
    for problem in problems:
        if first <= problem.line - 1 <= last:
            fix = _fix(text, problem, problems, check)
            if fix is not None:
                yield fix


def _fix(text: str, problem: Diagnostic, before: Sequence[Diagnostic], check: Check) -> Fix | None:
    lines = text.split("\n")
    row, start = problem.line - 1, problem.column - 1
    if row >= len(lines):
        return None
    shown, end = lines[row], start + problem.width
    for offered in _offers(problem, shown[start:end]):
        for written in _spellings(offered, shown[:start], shown[end:]):
            lines[row] = shown[:start] + written + shown[end:]
            if _solves(problem, before, check("\n".join(lines))):
                return Fix(problem, written)
    return None


def _offers(problem: Diagnostic, underlined: str) -> Iterator[str]:
    """Yield the replacements that a problem's hint suggests for the underlined text."""
    for words in (problem.message, problem.hint):
        meant = _MEANT.search(words)
        if meant is not None:
            quote = underlined[:1] if underlined[:1] in ("'", '"') else ""
            yield f"{quote}{meant['word']}{quote}"
        write = _WRITE.match(words)
        if write is not None:
            code = write["code"] or write["text"]
            yield code.replace(_WHOLE, underlined)


def _spellings(offered: str, before: str, after: str) -> Iterator[str]:
    """Yield a replacement as plain and as quoted YAML, and in quotes if it is a whole value.

    In ``{expression: clamp(a, 0, 100)}`` YAML would end the value at the comma.
    """
    single = offered.replace("'", "''")
    yield from dict.fromkeys((offered, single, _escaped(offered)))
    if before.endswith((": ", "- ")) and after[:1] in ("", "}", ","):
        yield f"'{single}'"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _solves(problem: Diagnostic, before: Sequence[Diagnostic], after: Sequence[Diagnostic]) -> bool:
    """Return whether a problem is gone and no other one appeared."""
    earlier, later = _counted(before), _counted(after)
    gone = later[problem.code, problem.message] < earlier[problem.code, problem.message]
    new = [code for code, _ in (later - earlier)]
    return gone and not any(code.startswith(_SLIPS) for code in new)


def _counted(problems: Sequence[Diagnostic]) -> Counter[tuple[str, str]]:
    return Counter((problem.code, problem.message) for problem in problems)


Kind = Literal["variable", "field", "method", "function", "module", "keyword", "property"]
_CONSTANTS: Final = ("true", "false")


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A completion at the cursor: the word, its kind and its description."""

    label: str
    kind: Kind
    entry: Entry


def functions(environment: Environment) -> Iterator[Suggestion]:
    """Yield functions, groups of functions and keywords."""
    for name, overloads in environment.functions.items():
        if "." not in name:
            yield Suggestion(name, "function", _all_of(overloads))
    for name in sorted(environment.namespaces):
        yield Suggestion(name, "module", Entry(name, "group of functions", ""))
    for name in ("has", *_CONSTANTS):
        yield Suggestion(name, "keyword", Entry(name, "keyword", ""))


def functions_in(environment: Environment, namespace: str) -> Iterator[Suggestion]:
    """Yield the functions of a group."""
    for name, overloads in environment.functions.items():
        if name.startswith(f"{namespace}."):
            yield Suggestion(name.partition(".")[2], "function", _all_of(overloads))


def methods(environment: Environment, kind: types.Type) -> Iterator[Suggestion]:
    """Yield the methods and macros that a value of a type has."""
    for name, overloads in environment.methods.items():
        fitting = tuple(
            overload for overload in overloads if types.fit(overload.params[0], kind, {})
        )
        if fitting:
            yield Suggestion(name, "method", _all_of(fitting))
    if isinstance(kind, types.ListType | types.MapType | types.OptionalType):
        optional = isinstance(kind, types.OptionalType)
        for name, macro in environment.macros.items():
            if macro.of_optional == optional:
                yield Suggestion(name, "method", of_macro(macro))


def _all_of(overloads: tuple[Overload, ...]) -> Entry:
    """Return one entry for all ways to call a name."""
    first = of_overload(overloads[0])
    if len(overloads) == 1:
        return first
    titles = "\n".join(dict.fromkeys(overload.signature for overload in overloads))
    texts = "\n".join(dict.fromkeys(overload.doc for overload in overloads))
    return Entry(titles, first.kind, texts, first.example)


_EXPRESSION: Final = ("cel", "expression")
_DOMAIN: Final = re.compile(r"device\.(?:attributes|capacity)\[\??[\"']([^\"'\[\]]*)$")
#: Where a manifest names a driver or a domain.
_NAMED: Final = re.compile(
    r"(?:device\.driver\s*==\s*|device\.(?:attributes|capacity)\[\??)(?:\\?\"|')([a-zA-Z0-9.-]+)"
)


def has_selectors(kind: str) -> bool:
    """Return whether objects of a kind have selectors over devices."""
    return kind in WITH_SELECTORS


def selector_suggestions(text: str, cursor: CursorPosition) -> list[Suggestion]:
    """Return the completions at a position of a manifest; none outside of its selectors."""
    before = cursor.before
    if before is None or cursor.path[-2:] != _EXPRESSION:
        return []
    domain = _DOMAIN.search(before)
    if domain is not None:
        return [
            suggestion for suggestion in _domains(text) if suggestion.label.startswith(domain[1])
        ]
    member = member_before(before)
    candidates = _selector_names(before) if member is None else _selector_members(member[0], before)
    word = word_before(before) if member is None else member[1]
    return [suggestion for suggestion in candidates if suggestion.label.startswith(word)]


def _domains(text: str) -> list[Suggestion]:
    """Return the drivers and domains that the manifest names elsewhere."""
    entry = "domain of attributes and capacities"
    names = dict.fromkeys(_NAMED.findall(text))
    complete = [name for name in names if "." in name]
    return [Suggestion(name, "property", Entry(name, entry, "")) for name in complete]


def _selector_names(before: str) -> Iterator[Suggestion]:
    """Yield what a selector may begin with."""
    for name, _ in loops(before):
        entry = Entry(f"{name}: {_type_of(name, before)}", "variable of a loop", "")
        yield Suggestion(name, "variable", entry)
    environment = selector_environment()
    for variable in environment.variables.values():
        yield Suggestion(variable.name, "variable", of_device(variable))
    yield from functions(environment)


def _selector_members(base: str, before: str) -> Iterator[Suggestion]:
    """Yield the members of the expression before the dot."""
    environment = selector_environment()
    grouped = list(functions_in(environment, base))
    if grouped:
        yield from grouped
        return
    kind = _type_of(base, before)
    if kind is None:
        return
    record = environment.records.get(kind.name)
    for field in record.fields.values() if record is not None else ():
        yield Suggestion(field.name, "field", of_device(field))
    yield from methods(environment, kind)


def _type_of(expression: str, before: str) -> types.Type | None:
    """Return the type of an expression at the end of ``before``, in the loops that are open."""
    for name, operand in reversed(loops(before)):
        if selector_type(f"({operand}).optMap(x, x)") is not None:
            expression = f"({operand}).optMap({name}, {expression}).value()"
        else:
            expression = f"({operand}).map({name}, {expression})[0]"
    return selector_type(expression)
