"""Compiles the policies of profiles, each form of each policy once in a process.

A policy's form is its texts and its effective params; what it compiles to does not depend on any
cluster, so schedulers share it. A form with problems is not kept: where they stand depends on the
rest of the file.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import fields, is_dataclass
from typing import Final

from policy_sched.errors import Diagnostic, Severity
from policy_sched.language.checker import check_policy
from policy_sched.language.program import CompiledPolicy, compile_policy
from policy_sched.language.sources import PolicySource

#: Forms that are kept; far more than the policies of a process.
LIMIT: Final = 512

_COMPARED: Final[dict[type, tuple[str, ...]]] = {}
_KEPT: OrderedDict[str, CompiledPolicy] = OrderedDict()


def compiled(source: PolicySource) -> tuple[CompiledPolicy | None, tuple[Diagnostic, ...]]:
    """Check and compile a policy; None if there are errors among the diagnostics."""
    key = content_hash(source)
    kept = _KEPT.get(key)
    if kept is not None:
        return kept, ()
    policy, problems = _compile(source)
    if policy is not None and not problems:
        _KEPT[key] = policy
        while len(_KEPT) > LIMIT:
            _KEPT.popitem(last=False)
    return policy, problems


def _compile(source: PolicySource) -> tuple[CompiledPolicy | None, tuple[Diagnostic, ...]]:
    checked, problems = check_policy(source)
    if checked is None or _failed(problems):
        return None, tuple(sorted(problems))
    policy, more = compile_policy(checked)
    problems = [*problems, *more]
    return (None if _failed(problems) else policy), tuple(sorted(problems))


def _failed(problems: list[Diagnostic]) -> bool:
    return any(d.severity is Severity.ERROR for d in problems)


def content_hash(value: object) -> str:
    """Return the SHA-256 (hex) of plain data and dataclasses, the same in every process.

    Fields of dataclasses that do not take part in comparisons do not count: places in files.
    """
    return hashlib.sha256(_canonical(value).encode()).hexdigest()


def _canonical(value: object) -> str:
    if isinstance(value, str | int | float | None):
        return f"{type(value).__name__}:{value!r}"
    compared = _compared(type(value))
    if compared:
        parts = [f"{name}={_canonical(getattr(value, name))}" for name in compared]
        return f"{type(value).__name__}({','.join(parts)})"
    if isinstance(value, dict):
        return "{" + ",".join(f"{k!r}:{_canonical(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(_canonical(item) for item in value) + "]"
    if isinstance(value, set | frozenset):
        return "{" + ",".join(sorted(_canonical(item) for item in value)) + "}"
    return f"{type(value).__name__}:{value!r}"


def _compared(kind: type) -> tuple[str, ...]:
    """Return the fields by which objects of a dataclass are compared; none of other types."""
    known = _COMPARED.get(kind)
    if known is None:
        found = fields(kind) if is_dataclass(kind) else ()
        known = _COMPARED[kind] = tuple(field.name for field in found if field.compare)
    return known
