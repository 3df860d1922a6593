"""Compiles the policies of profiles, each form of each policy once in a process.

A policy's form is its texts and its effective params; what it compiles to does not depend on any
cluster, so schedulers share it. A form with problems is kept for its source alone: where they stand
depends on the rest of the file. A reload meets the sources of files that have not changed again,
and neither hashes nor checks them.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Final

from policy_sched.errors import Diagnostic, Severity
from policy_sched.language.checker import check_policy
from policy_sched.language.program import CompiledPolicy, compile_policy
from policy_sched.language.sources import PolicySource

#: Forms that are kept; far more than the policies of a process.
LIMIT: Final = 512

Outcome = tuple[CompiledPolicy | None, tuple[Diagnostic, ...]]


@dataclass(slots=True)
class _Met:
    """What was seen, its hash, and what a source came to if that is not kept by its form."""

    value: object
    digest: str
    outcome: Outcome | None = None
    rejecting: str = ""


_PLAIN: Final = (str, int, float, type(None))
_COMPARED: Final[dict[type, tuple[str, ...]]] = {}
_KEPT: OrderedDict[str, CompiledPolicy] = OrderedDict()
_MET: OrderedDict[int, _Met] = OrderedDict()


def compiled(source: PolicySource) -> Outcome:
    """Check and compile a policy; None if there are errors among the diagnostics."""
    met = _met(source)
    kept = _KEPT.get(met.digest)
    if kept is not None:
        return kept, ()
    if met.outcome is None:
        policy, problems = _compile(source)
        if policy is not None and not problems:
            _KEPT[met.digest] = policy
            while len(_KEPT) > LIMIT:
                _KEPT.popitem(last=False)
            return policy, ()
        met.outcome = policy, problems
    return met.outcome


def known_form(source: PolicySource, policy: CompiledPolicy) -> CompiledPolicy:
    """Return the kept form of a source that was compiled elsewhere; ``policy`` if there is none."""
    return _KEPT.get(_met(source).digest, policy)


def hashes_of(source: PolicySource) -> tuple[str, str]:
    """Return `kept_hash` and `rejecting_hash` of a source."""
    return kept_hash(source), rejecting_hash(source)


def adopt(source: PolicySource, hashes: tuple[str, str]) -> None:
    """Take note of a source whose `hashes_of` were worked out in another process."""
    _keep(_Met(source, hashes[0], rejecting=hashes[1]))


def kept_hash(value: object) -> str:
    """Return the `content_hash` of what never changes, worked out once for each object."""
    return _met(value).digest


def rejecting_hash(source: PolicySource) -> str:
    """Return the hash of a source without what only chooses among nodes, or orders the queue."""
    met = _met(source)
    if not met.rejecting:
        placement = source.placement
        if placement is not None:
            placement = replace(placement, score=None, on_error=None)
        part = replace(source, score=None, queue_sort=(), placement=placement)
        met.rejecting = content_hash(part)
    return met.rejecting


def _met(value: object) -> _Met:
    """Return what is known of an object; it is held, so its identity stays its own."""
    met = _MET.get(id(value))
    if met is None:
        met = _Met(value, content_hash(value))
        _keep(met)
    return met


def _keep(met: _Met) -> None:
    _MET[id(met.value)] = met
    while len(_MET) > 2 * LIMIT:
        _MET.popitem(last=False)


def _compile(source: PolicySource) -> Outcome:
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
    if isinstance(value, _PLAIN):
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
