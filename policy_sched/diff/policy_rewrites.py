"""Where two policy sets differ in rules alone, whose meaning may be shown to be the same.

Weights, plugins, arguments, schemas of inputs, and sections other than filter and score have to be
the same on both sides. So have parameters, variables, functions and matchConditions of a policy
with such other sections, as these may read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from policy_sched.language.diagnostics import PolicySource, Text
from policy_sched.profiles.load import content_hash
from policy_sched.profiles.reload import CompiledFiles

Rewrite: TypeAlias = tuple[PolicySource, PolicySource]
"""A policy before and after."""
_SHARED: Final[dict[str, Any]] = {
    part: getattr(PolicySource(name=""), part)
    for part in ("params", "functions", "variables", "match_conditions")
}
"""What rules of several sections read, each without anything in it."""


def proven_alike(
    old: CompiledFiles, new: CompiledFiles, alike: Callable[[Sequence[Rewrite]], bool]
) -> list[str] | None:
    """Return the names of rewritten policies if no decision can change; None if some may.

    ``alike`` says whether it is proven of rewrites; it is not asked where z3-solver is absent.
    """
    changed = rewrites(old, new) if find_spec("z3") else None
    if changed is None or (changed and not alike(changed)):
        return None
    return sorted({source.name for source, _ in changed})


def rewrites(old: CompiledFiles, new: CompiledFiles) -> list[Rewrite] | None:
    """Return the policies whose rules differ; None if anything else that decides differs."""
    if old.idle.keys() != new.idle.keys() or _profiles(old) != _profiles(new):
        return None
    changed: dict[str, Rewrite] = {}
    for before, after in _policies(old, new):
        pair = replace(before, measures=()), replace(after, measures=())
        if not _same(*pair):
            if not _comparable(*pair):
                return None
            changed[content_hash(pair)] = pair
    return list(changed.values())


def _profiles(files: CompiledFiles) -> str:
    """Return a hash of the profiles without the content of policies; none of audits decides."""
    plans = [ready.plan for ready in files.plans]
    return content_hash(
        [replace(plan, policies=dict.fromkeys(sorted(plan.policies)), audits={}) for plan in plans]
    )


def _policies(old: CompiledFiles, new: CompiledFiles) -> Iterator[Rewrite]:
    """Yield each policy of each profile, and those that none enables."""
    for before, after in zip(old.plans, new.plans, strict=True):
        for name, source in before.plan.policies.items():
            yield source, after.plan.policies[name]
    for name, source in old.idle.items():
        yield source, new.idle[name]


def _comparable(old: PolicySource, new: PolicySource) -> bool:
    """Return whether filter, raw score and what they share are all that differs."""
    rest = _rest(old)
    if not _same(rest, _rest(new)):
        return False
    reads_nothing = rest.score is None or not isinstance(rest.score.normalize, Text)
    alone = PolicySource(name=old.name, cost_limit=old.cost_limit)
    if reads_nothing and _same(replace(rest, score=None), alone):
        return True
    return all(_same(getattr(old, part), getattr(new, part)) for part in _SHARED)


def _rest(source: PolicySource) -> PolicySource:
    """Return a policy without the rules that are compared by their meaning."""
    score = source.score
    if score is not None:
        score = replace(score, expression=Text(""), match_conditions=())
    return replace(source, filter=(), score=score, **_SHARED)


def _same(old: object, other: object) -> bool:
    """Return whether two values are the same, types of numbers included."""
    return content_hash(old) == content_hash(other)
