"""What the status of a policy that is an object says; pure.

Theory of operation. After each reload every object is judged: by its own problems, by what became
of the set, and by the plans in force. A judgement becomes a status when it is written: times of
conditions that still hold are those that the object shows, so a restart or another leader writes
nothing anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from policy_sched.errors import Diagnostic, Severity
from policy_sched.profiles.build import CompiledPlan
from policy_sched.profiles.load import ObjectProblem, Place, PolicyObject, cut, problem_of
from policy_sched.profiles.models import DUPLICATE
from policy_sched.profiles.reload import Reload, ReloadResult

MOST_PROBLEMS: Final = 20
"""Problems that a status shows."""
ACCEPTED: Final = "Accepted"
IN_FORCE: Final = "InForce"
COUNTS: Final = ("podsMatched", "nodesRejected", "errors")


ABORTED: Final = "RolloutAborted"
"""The reason of what was aborted with its rollout."""


class Candidate(msgspec.Struct, frozen=True):
    """A set that is rolled out, or was aborted; ``plans``: None once it was."""

    hash: str
    plans: Sequence[CompiledPlan] | None = None


class Statement(msgspec.Struct, frozen=True):
    """A condition without its time."""

    status: str
    reason: str
    message: str


class Judgement(msgspec.Struct, frozen=True):
    """What is to be said of an object, but for what it has done."""

    accepted: Statement
    in_force: Statement
    problems: tuple[ObjectProblem, ...] = ()
    profiles: tuple[str, ...] = ()
    hash: str = ""
    generation: int = 0
    candidate: str = ""
    stable: str = ""


def judgements(
    objects: Iterable[PolicyObject],
    in_force: Mapping[str, PolicyObject],
    reload: Reload,
    paths: Mapping[Place, str],
    before: Mapping[str, Judgement],
    rollout: Candidate | None = None,
) -> dict[str, Judgement]:
    """Return what is to be said of each object after a reload, by name.

    ``in_force``: the objects, as they were, of which the set in force was made. ``before``: what
    was said, which stays where a refused set changes nothing for an object. ``rollout``: what a
    rollout decides about, or has aborted.
    """
    by_file: dict[str, list[Diagnostic]] = {}
    for problem in reload.problems:
        by_file.setdefault(problem.file, []).append(problem)
    refused = reload.result is ReloadResult.REFUSED
    result = {}
    for given in objects:
        own, old = by_file.get(given.file, []), in_force.get(given.name)
        if refused and old == given and given.name in before and not any(map(_is_error, own)):
            result[given.name] = before[given.name]
            continue
        if any(p.code == DUPLICATE and not _is_error(p) for p in own):
            old = None  # the policy of this name is in a file
        others = [p for p in reload.problems if _is_error(p) and p not in own]
        accepted = _accepted(own, others if refused else (), paths)
        plans = reload.policies.plans
        profiles = _profiles(plans, given.name) if old is not None else ()
        warned, candidate, stable = in_words(own, paths), "", ""
        if old != given and accepted.status == "True" and rollout is not None:
            stated = _rolled_out(given.name, rollout)
            candidate, stable = rollout.hash, _kept(old)
        else:
            stated = _in_force(accepted, warned, others if refused else (), plans, given, old)
        shown = tuple(problem_of(problem, paths) for problem in own[:MOST_PROBLEMS])
        digest = reload.policies.content_hash if profiles or candidate else ""
        result[given.name] = Judgement(
            accepted, stated, shown, profiles, digest, given.generation, candidate, stable
        )
    return result


def _kept(given: PolicyObject | None) -> str:
    """Return the text of an object as its status keeps it; nothing if it is too large for that."""
    if given is None:
        return ""
    # imported here: for rollouts alone
    from policy_sched.instance.app.rollout_storage import MOST_IN_STATUS, packed  # noqa: PLC0415

    text = packed(given.text)
    return text if len(text) <= MOST_IN_STATUS else ""


def _is_error(problem: Diagnostic) -> bool:
    return problem.severity is Severity.ERROR


def _profiles(plans: Sequence[CompiledPlan], name: str, *, audited: bool = True) -> tuple[str, ...]:
    """Return the profiles that have a policy."""
    return tuple(
        ready.plan.scheduler_name
        for ready in plans
        if name in ready.policies or (audited and name in ready.audits)
    )


def _accepted(
    own: Sequence[Diagnostic], others: Sequence[Diagnostic], paths: Mapping[Place, str]
) -> Statement:
    """Return whether an object has no error; ``others``: those that refused the set."""
    errors = [p for p in own if _is_error(p) or p.code == DUPLICATE]
    if errors:
        return Statement("False", errors[0].code, in_words(errors, paths))
    if not own and any(problem.code == _TOO_COSTLY for problem in others):
        return Statement("Unknown", _TOO_COSTLY, _joined(others))
    return Statement("True", ACCEPTED, "the policy has no error")


_TOO_COSTLY: Final = "PS503"


def _in_force(
    accepted: Statement,
    warned: str,
    others: Sequence[Diagnostic],
    plans: Sequence[CompiledPlan],
    given: PolicyObject,
    old: PolicyObject | None,
) -> Statement:
    """Return whether an object decides, as it is now."""
    enforced = _profiles(plans, given.name, audited=False)
    profiles = _profiles(plans, given.name)
    named = f"in {'profile' if len(profiles) == 1 else 'profiles'} {', '.join(profiles)}"
    if old is not None and profiles and old != given:
        why = accepted.message if accepted.status != "True" else _joined(others)
        said = f"an older version of the policy is in force {named}"
        return Statement("False", "OlderInForce", cut(f"{said}: {why}" if why else said))
    if old is not None and profiles:
        if not enforced:
            return Statement("True", "Audited", f"audited, and decides nothing, {named}")
        return Statement("True", IN_FORCE, f"decides {named}")
    if accepted.status != "True":
        return Statement("False", "NotAccepted", "the policy is not accepted")
    if others:
        text = "the set with it was refused, and the one before stays"
        return Statement("False", "SetRefused", cut(f"{text}: {_joined(others)}"))
    text = "no configuration names it"
    text += f": {warned}" if warned else ", and it names no profile"
    return Statement("False", "NotEnabled", cut(text))


def _rolled_out(name: str, rollout: Candidate) -> Statement:
    """Return what is said of an object that is in force only as a part of a candidate, or not."""
    if rollout.plans is None:
        return Statement("False", ABORTED, "the rollout with it was aborted")
    profiles = _profiles(rollout.plans, name)
    if not profiles:
        return Statement("False", "NotEnabled", "no profile of the candidate enables it")
    text = f"a rollout decides whether it comes in force in {', '.join(profiles)}"
    return Statement("False", "RollingOut", text)


def _joined(problems: Iterable[Diagnostic]) -> str:
    return cut("; ".join(problem.placed for problem in problems))


def in_words(problems: Iterable[Diagnostic], paths: Mapping[Place, str]) -> str:
    """Return the problems of an object, each with its field and line."""
    told = (problem_of(problem, paths) for problem in problems)
    return cut("; ".join(f"{problem.place}: {problem.message}" for problem in told))


def status_of(
    judgement: Judgement, shown: Any, counts: Mapping[str, int], now: str
) -> dict[str, Any]:
    """Return the status of an object. ``shown``: the one that it has; ``now``: the time."""
    given = ((ACCEPTED, judgement.accepted), (IN_FORCE, judgement.in_force))
    return {
        "observedGeneration": judgement.generation,
        "conditions": [condition(*stated, shown, judgement.generation, now) for stated in given],
        "problems": msgspec.to_builtins(judgement.problems),
        "profiles": list(judgement.profiles),
        "hash": judgement.hash,
        "candidate": judgement.candidate,
        "stable": judgement.stable,
        "counts": dict(counts),
    }


def condition(
    kind: str, stated: Statement, shown: Any, generation: int, now: str
) -> dict[str, Any]:
    """Return a condition; ``shown``: the status that the object has, whose time may still hold."""
    conditions = shown.get("conditions") if isinstance(shown, dict) else None
    for old in conditions if isinstance(conditions, list) else ():
        if isinstance(old, dict) and (old.get("type"), old.get("status")) == (kind, stated.status):
            now = old.get("lastTransitionTime") or now
    return {
        "type": kind,
        **msgspec.to_builtins(stated),
        "lastTransitionTime": now,
        "observedGeneration": generation,
    }


def counts_of(shown: Any) -> dict[str, int]:
    """Return the counts that an object shows."""
    counts = shown.get("counts") if isinstance(shown, dict) else None
    return {
        name: counts[name] if isinstance(counts, dict) and type(counts.get(name)) is int else 0
        for name in COUNTS
    }
