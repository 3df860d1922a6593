"""Lints of a policy document: those of its rules, unused parameters, and what was suppressed.

A comment ``# policy-sched: ignore[PS412] reason`` (or ``//`` inside a rule) at the end of a line,
or on a line of its own above, silences warnings and notes of these codes about that line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from policy_sched.errors import Diagnostic, Severity
from policy_sched.language.check import CheckedPolicy
from policy_sched.language.diagnostics import PolicySource
from policy_sched.language.lint import lint, unused_params
from policy_sched.profiles.load import LoadedPolicy
from policy_sched.profiles.models import ModelProblem
from policy_sched.source import SourceFile, diagnostic

UNUSED: Final = "PS404"
SUPPRESSION: Final = "PS408"
_COMMENT: Final = re.compile(
    r"(?P<sign>\#|//)\s*policy-sched:\s*ignore(?P<codes>\[[^\]\n]*\])?(?P<reason>[^\n]*)"
)
_BLOCK: Final = re.compile(r"[|>][-+]?\s*(#.*)?$")
"""The end of a line whose value follows on the lines below."""
_CODE: Final = re.compile(r"PS[0-9]{3}")
_OF_THE_SEARCH: Final = frozenset({"minCandidateNodesPercentage", "minCandidateNodesAbsolute"})
"""Parameters of a policy with a ``preemption`` section that the search for victims reads."""


def lint_policy(
    policy: LoadedPolicy, source: PolicySource, checked: CheckedPolicy
) -> list[Diagnostic]:
    """Return the warnings and notes about a policy that has no error."""
    read = _OF_THE_SEARCH if checked.preemption is not None else frozenset()
    problems = [
        ModelProblem(
            ("spec", "params", name),
            UNUSED,
            f"no rule reads params.{name}",
            "remove it, or use it",
            warning=True,
            on_key=True,
        )
        for name in unused_params(source, checked)
        if name not in read
    ]
    return sorted([*lint(source, checked), *policy.place.diagnostics(problems)])


@dataclass(slots=True)
class _Suppression:
    """One comment: the lines that it is about, its codes, and whether it silenced anything."""

    span: tuple[int, int]
    lines: range
    codes: frozenset[str]
    reason: str
    used: bool = False


def without_suppressed(file: SourceFile, diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return the diagnostics that no comment suppresses, and problems of the suppressions."""
    suppressions = [_suppression(file, match) for match in _COMMENT.finditer(file.text)]
    kept = [problem for problem in diagnostics if not _silenced(problem, suppressions)]
    for suppression in suppressions:
        kept += _problems(file, suppression)
    return sorted(kept)


def _suppression(file: SourceFile, match: re.Match[str]) -> _Suppression:
    line, column = file.position(match.start())
    alone = not file.line_text(line)[: column - 1].strip()
    if alone:
        line += 1
        while _COMMENT.match(file.line_text(line).strip()):
            line += 1
    last = line + 1 if _BLOCK.search(file.line_text(line)) else line
    lines = range(line, last + 1)
    codes = frozenset(_CODE.findall(match["codes"] or ""))
    return _Suppression(match.span(), lines, codes, match["reason"].strip())


def _silenced(problem: Diagnostic, suppressions: Iterable[_Suppression]) -> bool:
    if problem.severity is Severity.ERROR:
        return False
    silenced = False
    for suppression in suppressions:
        if problem.line in suppression.lines and problem.code in suppression.codes:
            suppression.used = silenced = True
    return silenced


def _problems(file: SourceFile, suppression: _Suppression) -> list[Diagnostic]:
    """Return why a suppression should not be there, or not so."""
    if not suppression.codes:
        message, hint = "this suppression names no code", "write ignore[PS412] and a reason"
    elif not suppression.reason:
        message, hint = "this suppression has no reason", "say why the warning does not apply here"
    elif not suppression.used:
        message, hint = "this suppression silences nothing", "remove it"
    else:
        return []
    warning = Severity.WARNING
    return [diagnostic(file, suppression.span, SUPPRESSION, message, hint=hint, severity=warning)]
