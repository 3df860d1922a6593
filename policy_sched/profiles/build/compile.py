"""Compiles the policies of profiles, each form of each policy once in a process.

A policy's form is its texts and its effective params; what it compiles to does not depend on any
cluster, so schedulers share it. A form with problems is compiled each time: where they stand
depends on the rest of the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from policy_sched.errors import Diagnostic, Severity
from policy_sched.language import CompiledPolicy, compile_policy
from policy_sched.language.check import check_policy
from policy_sched.language.diagnostics import PolicySource
from policy_sched.profiles.build.rules_cache import rules_cache
from policy_sched.profiles.load import LIMIT, content_hash

Outcome = tuple[CompiledPolicy | None, tuple[Diagnostic, ...]]


class PluginHash(NamedTuple):
    """Hashes of a plugin: of all of its content, and of what may reject a pod."""

    whole: str
    rejecting: str


@dataclass(frozen=True, slots=True)
class _Form:
    """A policy's source; equal to every other one of the same content."""

    digest: str
    source: PolicySource = field(compare=False)


class _ProblemsError(Exception):
    """The policy has problems; ``outcome`` holds them."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


def compiled(source: PolicySource, digest: str = "", *, kept: bool = False) -> Outcome:
    """Check and compile a policy; None if there are errors among the diagnostics.

    ``digest``: the `content_hash` of the source, if it is known. ``kept``: it is looked up in the
    rules cache, and kept there.
    """
    try:
        return _without_problems(_Form(digest or content_hash(source), source), kept=kept), ()
    except _ProblemsError as error:
        return error.outcome


@lru_cache(maxsize=LIMIT)
def _without_problems(form: _Form, *, kept: bool) -> CompiledPolicy:
    """Return a compiled policy. Raises _ProblemsError, which is not kept."""
    cache = rules_cache() if kept else None
    known = None if cache is None else cache.find(form.digest)
    if known is not None:
        return known
    policy, problems = _compile(form.source)
    if policy is None or problems:
        raise _ProblemsError((policy, problems))
    if cache is not None:
        cache.keep(form.digest, policy)
    return policy


def policy_hash(source: PolicySource) -> PluginHash:
    """Return the hashes of a policy; scores and the order of the queue reject no pod."""
    source = replace(source, measures=())  # they decide nothing
    placement = source.placement
    if placement is not None:
        placement = replace(placement, score=None, on_error=None)
    devices = source.devices
    if devices is not None:
        devices = replace(devices, score=None, score_on_error=None)
    rejecting = replace(source, score=None, queue_sort=(), placement=placement, devices=devices)
    return PluginHash(content_hash(source), content_hash(rejecting))


def devices_hash(
    sources: Sequence[tuple[PolicySource, Sequence[tuple[str, int]]]],
) -> PluginHash | None:
    """Return the hashes of the ``devices`` sections of policies, None if none has one.

    With each policy come the points at which it is enabled, and its weights there.
    """
    found = []
    for source, enabled in sources:
        if source.devices is not None:
            given = PolicySource(
                name=source.name,
                params=source.params,
                functions=source.functions,
                variables=source.variables,
                match_conditions=source.match_conditions,
                devices=source.devices,
                cost_limit=source.cost_limit,
            )
            found.append((policy_hash(given), list(enabled)))
    if not found:
        return None
    whole = content_hash([(hashes.whole, enabled) for hashes, enabled in found])
    rejecting = content_hash([(hashes.rejecting, enabled) for hashes, enabled in found])
    return PluginHash(whole, rejecting)


def _compile(source: PolicySource) -> Outcome:
    checked, problems = check_policy(source)
    if checked is None or _failed(problems):
        return None, tuple(sorted(problems))
    policy, more = compile_policy(checked)
    problems = [*problems, *more]
    return (None if _failed(problems) else policy), tuple(sorted(problems))


def _failed(problems: list[Diagnostic]) -> bool:
    return any(d.severity is Severity.ERROR for d in problems)
