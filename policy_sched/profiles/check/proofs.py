"""Checks PolicyProofs: the policies that they name, and the types of their claims.

A claim is a rule over pod and node, and `victim`, a pod on the node, in which functions stand for
what a policy makes of them. The checker knows their types; what they return is for `prove` to say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from policy_sched.errors import Diagnostic, Severity
from policy_sched.language import check
from policy_sched.language.diagnostics import FunctionSource, PolicySource, Problem, Text
from policy_sched.language.syntax import ast
from policy_sched.language.values import types
from policy_sched.profiles import load, models
from policy_sched.profiles.load import policy_source
from policy_sched.source import Marked, leads_out, root_of, shortened

PASSES, SCORE, NORMALIZED = "passes", "score", "normalized"
TAKES_PART, ENQUEUES = "takesPart", "preEnqueue"
ELIGIBLE, VICTIM = "eligible", "victim"
OF_POLICIES: Final[dict[str, Callable[[check.CheckedPolicy], bool]]] = {
    PASSES: lambda _policy: True,
    SCORE: lambda policy: policy.score is not None,
    NORMALIZED: lambda policy: policy.score is not None,
    TAKES_PART: lambda _policy: True,
    ENQUEUES: lambda policy: bool(policy.pre_enqueue),
    ELIGIBLE: lambda policy: policy.preemption is not None,
    VICTIM: lambda policy: policy.preemption is not None,
}
"""The functions of claims, each with the policies that it may name."""
_UNKNOWN: Final = "PS705"
_BARE: Final = re.compile(
    r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|(?<![\w.])(?:passes|victim)\b(?!\s*\()"
)
_ALL: Final = '("")'


@dataclass(frozen=True, slots=True)
class ClaimRule:
    """A rule of a claim: typed, with the places of its text."""

    core: ast.Core
    text: Text


@dataclass(frozen=True, slots=True)
class CheckedProof:
    """A PolicyProof without problems: its model, the files of its policies, and its rules.

    ``rules``: by their path in the document, such as ("claims", 0, "always").
    """

    model: models.PolicyProof
    file: str
    paths: tuple[str, ...]
    policies: tuple[check.CheckedPolicy, ...]
    rules: dict[models.Path, ClaimRule] = field(default_factory=dict)

    def files(self, named: str | Sequence[str]) -> tuple[str, ...]:
        """Return the paths of files that the document names."""
        return _beside(self.file, named)


def _beside(file: str, named: str | Sequence[str]) -> tuple[str, ...]:
    names = (named,) if isinstance(named, str) else tuple(named)
    return tuple(str(Path(file).parent / name) for name in names)


def is_proof(marked: Marked) -> bool:
    """Return whether a document is a PolicyProof."""
    return load.kind_of(marked.value)[1] == models.PROOF_KIND


def proof_problems(marked: Marked) -> list[Diagnostic]:
    """Return every problem of a PolicyProof beyond its shape, and none of another document."""
    if not is_proof(marked) or load.read_proof(marked)[0] is None:
        return []
    return check_proof(marked)[1]


def check_proof(marked: Marked) -> tuple[CheckedProof | None, list[Diagnostic]]:
    """Return a PolicyProof with its rules checked, or None with every problem of it."""
    model, problems = load.read_proof(marked)
    if model is None:
        return None, problems
    file = marked.file.path
    proof = CheckedProof(model, file, (), ())
    policies: list[check.CheckedPolicy] = []
    position = load.DocumentPosition(file, marked)
    for path, named in _files_of(model):
        checked, wrong = _named_policies(position, path, named)
        problems += wrong
        policies += checked if path == ("policies",) else []
    proof = CheckedProof(model, file, proof.files(model.policies), tuple(policies))
    if problems:
        return None, sorted(problems)
    for path, section in _rules_of(model):
        text = _text(marked, path)
        core, wrong = _checked(text, section, proof.policies)
        problems += wrong
        if core is not None:
            proof.rules[path] = ClaimRule(core, text)
    names = {policy.name for policy in policies if policy.score is not None}
    for i, claim in enumerate(model.claims):
        if claim.monotone is not None and claim.monotone.score not in names:
            why = f"no policy with a score is called {claim.monotone.score}"
            at: models.Path = ("claims", i, "monotone", "score")
            problems.append(position.diagnostic(models.ModelProblem(at, _UNKNOWN, why)))
    return (None if problems else proof), sorted(problems)


def _files_of(model: models.PolicyProof) -> Iterator[tuple[models.Path, str | Sequence[str]]]:
    yield ("policies",), model.policies
    for i, claim in enumerate(model.claims):
        if claim.equivalent is not None:
            yield ("claims", i, "equivalent", "old"), claim.equivalent.old
            yield ("claims", i, "equivalent", "new"), claim.equivalent.new


def policies_of(marked: Marked) -> list[check.CheckedPolicy]:
    """Return the policies that a PolicyProof names, as far as both can be read."""
    named = marked.value.get("policies")
    names = [named] if isinstance(named, str) else named
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return []
    position = load.DocumentPosition(marked.file.path, marked)
    return _named_policies(position, ("policies",), names)[0]


def _named_policies(
    position: load.DocumentPosition, path: models.Path, named: str | Sequence[str]
) -> tuple[list[check.CheckedPolicy], list[Diagnostic]]:
    """Return the policies of files that a document names, or what is wrong with that."""
    sound: list[check.CheckedPolicy] = []
    files = _beside(position.name, named)
    for file in files:
        roots = (root_of(position.name), Path(position.name).parent)
        try:
            gone = leads_out(Path(file), roots) or not Path(file).exists()
        except (OSError, ValueError):  # no file system has such a name
            gone = True
        if gone:
            why = f"{shortened(file)} is not there, or leads out of the repository"
            return [], [position.diagnostic(models.ModelProblem(path, models.BAD_VALUE, why))]
    policies, problems = load.read_policies(files)
    for policy in policies:
        checked, wrong = check.check_policy(policy_source(policy))
        problems += wrong
        sound += [] if checked is None or not policy.sound else [checked]
    return sound, [problem for problem in problems if problem.severity is Severity.ERROR]


def _rules_of(model: models.PolicyProof) -> Iterator[tuple[models.Path, str]]:
    """Yield the paths of the rules of a document, each with the section whose type it has."""
    for i in range(len(model.assume)):
        yield ("assume", i), "filter"
    for i, claim in enumerate(model.claims):
        at: models.Path = ("claims", i)
        for key in ("always", "never"):
            if getattr(claim, key) is not None:
                yield (*at, key), "filter"
        if claim.implies is not None:
            yield (*at, "implies", "if"), "filter"
            yield (*at, "implies", "then"), "filter"
        for j in range(len(claim.disjoint)):
            yield (*at, "disjoint", j), "filter"
        if claim.monotone is not None:
            yield (*at, "monotone", "in"), "any"


def _text(marked: Marked, path: models.Path) -> Text:
    value: Any = marked.value
    for step in path:
        value = value[step]
    return Text(str(value), marked.file.path, load.locator(marked, path), models.path_text(path))


def _written_out(text: Text) -> Text:
    """Return a text in which ``passes`` alone is a call; places are those of the text before."""
    parts: list[str] = []
    moved: list[int] = []
    last = 0
    for match in _BARE.finditer(text.text):
        if match[0] == PASSES:
            parts += [text.text[last : match.end()], _ALL]
            moved.append(match.end() + len(_ALL) * len(moved))
            last = match.end()
    parts.append(text.text[last:])

    def locate(offset: int) -> tuple[int, int, str]:
        for place in reversed(moved):
            if offset > place:
                offset -= min(len(_ALL), offset - place)
        return text.position(offset)

    return Text("".join(parts), text.file, locate, text.path)


def source_of_claims(policies: Sequence[check.CheckedPolicy]) -> PolicySource:
    """Return what the checker has to know of rules about policies: functions."""
    scores = [policy.score for policy in policies if policy.score is not None]
    doubles = any(score.expression.core.type == types.DOUBLE for score in scores)
    stand_for = {
        **dict.fromkeys(OF_POLICIES, 'policy == ""'),
        SCORE: "double(policy.size())" if doubles else "policy.size()",
        NORMALIZED: "policy.size()",
    }
    functions = tuple(
        FunctionSource(name, (("policy", "string"),), Text(body))
        for name, body in stand_for.items()
    )
    return PolicySource("", {}, functions=functions)


def _checked(
    text: Text, section: str, policies: Sequence[check.CheckedPolicy]
) -> tuple[ast.Core | None, list[Diagnostic]]:
    """Return the tree of a rule of a claim, or its problems."""
    written = _written_out(text)
    if section == "filter" and any(m[0] == VICTIM for m in _BARE.finditer(text.text)):
        section = "preemption.victim"  # which sees it
    policy, problems = check.check_beside(written, section, source_of_claims(policies))
    problems = [replace_context(problem, text.path) for problem in problems]
    if policy is None:
        return None, [problem for problem in problems if problem.severity is Severity.ERROR]
    (checked,) = policy.match_conditions
    wrong = [
        check.diagnostic(problem, written, text.path)
        for problem in _wrong_names(checked.core, policies)
    ]
    return (None if wrong else checked.core), wrong


def replace_context(problem: Diagnostic, context: str) -> Diagnostic:
    """Return a problem of a claim, which belongs to no policy."""
    return Diagnostic(
        problem.file, problem.line, problem.column, problem.code, problem.message, problem.hint,
        context, problem.severity, problem.width, problem.source_line,
    )  # fmt: skip


def _wrong_names(core: ast.Core, policies: Sequence[check.CheckedPolicy]) -> Iterator[Problem]:
    """Yield the calls that name no policy of the document, or one without the section."""
    for part in check.walk(core):
        if not isinstance(part, ast.UserCall):
            continue
        known = [policy.name for policy in policies if OF_POLICIES[part.name](policy)]
        (given,) = part.args
        name = given.value if isinstance(given, ast.Const) else None
        if name in known or (name == "" and part.name == PASSES):
            continue
        hint = f"policies here: {', '.join(known) or 'none'}"
        what = "a policy" if part.name in (PASSES, TAKES_PART) else "a policy that has the section"
        message = f"{part.name} takes the name of {what} of this document, as a text"
        yield Problem(part.span.start, part.span.end, _UNKNOWN, message, hint)


def resolved(core: ast.Core, named: dict[tuple[str, str], ast.Core]) -> ast.Core:
    """Return a tree in which calls of policies are other trees, by function and name."""
    if isinstance(core, ast.UserCall) and isinstance(core.args[0], ast.Const):
        return named[core.name, str(core.args[0].value)]
    changed: dict[str, Any] = {}
    for name in core.__struct_fields__:
        value = getattr(core, name)
        if isinstance(value, ast.Core):
            changed[name] = resolved(value, named)
        elif isinstance(value, tuple) and any(isinstance(part, ast.Core) for part in value):
            changed[name] = tuple(
                resolved(part, named) if isinstance(part, ast.Core) else part for part in value
            )
    return replace(core, **changed) if changed else core
