"""Compiles the policies of profiles, each form of each policy once in a process.

A policy's form is its texts and its effective params; what it compiles to does not depend on any
cluster, so schedulers share it. A form with problems is kept for its source alone: where they stand
depends on the rest of the file. A reload meets the sources of files that have not changed again,
and neither hashes nor checks them.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace

from policy_sched.errors import Diagnostic, Severity
from policy_sched.language import CompiledPolicy, compile_policy
from policy_sched.language.check import check_policy
from policy_sched.language.diagnostics import PolicySource
from policy_sched.profiles.load import LIMIT, content_hash

Outcome = tuple[CompiledPolicy | None, tuple[Diagnostic, ...]]


@dataclass(slots=True)
class _Met:
    """What was seen, its hash, and what a source came to if that is not kept by its form."""

    value: object
    digest: str
    outcome: Outcome | None = None
    rejecting: str = ""


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
