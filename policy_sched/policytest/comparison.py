"""Compares what was decided with what was expected, field by field.

Rules of the conformance data: the pod is assumed on the expected node whatever we would pick, so
that node need only be among our best; a plugin that is absent from a node's scores counts as 0;
order matters only inside a list of reasons. A person may state a message without what preemption
adds to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

import msgspec

from policy_sched.model import quantity_text
from policy_sched.policytest.expectations import (
    ExpectedOutcome,
    ExpectedScore,
    GroupCondition,
    GroupOutcome,
    Number,
    PluginOutcome,
    QuotaNumber,
    Words,
)
from policy_sched.profiles.models import Limits, Pattern

Value = str | int | bool | list[str]
"""What a field can hold, as it is shown and written to JSON."""

NO_CLAIMS: Final = " no new claims to deallocate"
"""DynamicResources' part of a message (kube-scheduler's FitError text)."""
NOT_FOUND: Final = ". not found"
"""The end of a message where DynamicResources had not seen the pod."""
PREEMPTION_TAIL: Final = " preemption: "
"""Where DefaultPreemption's part begins."""

ABSENT: Final = "(none)"


@dataclass(frozen=True, slots=True)
class Deviation:
    """One field in which the decision is not as expected; ``field`` is a dotted path."""

    field: str
    expected: Value
    got: Value


@dataclass(frozen=True, slots=True)
class Strictness:
    """How strictly to compare.

    complete: the expectation is a machine's record: what it leaves out did not happen.
    nominations: the record states, too, when a nomination has changed.
    """

    complete: bool
    nominations: bool = False
    sorted_reasons: bool = False
    """Whether the record has the reasons of each node sorted."""


def compare(
    expected: ExpectedOutcome, got: ExpectedOutcome, rules: Strictness
) -> tuple[Deviation, ...]:
    """Return every field in which ``got`` is not as ``expected``, in the order of the cycle."""
    if rules.sorted_reasons:
        rejected = {
            node: replace(outcome, reasons=tuple(sorted(map(str, outcome.reasons or ()))))
            for node, outcome in (got.rejected or {}).items()
        }
        got = replace(got, rejected=rejected)
    return tuple(_differences(expected, got, rules))


def _differences(
    expected: ExpectedOutcome, got: ExpectedOutcome, rules: Strictness
) -> Iterator[Deviation]:
    complete = rules.complete
    if expected.queue is not None:
        yield from _queue(expected.queue, got.queue or ())
    if expected.evicted is not None:
        yield from _sets("evicted", expected.evicted, got.evicted)
    yield from _plugin_outcomes("preEnqueue", expected.pre_enqueue, got.pre_enqueue, complete)
    yield from _plugin_outcomes("preFilter", expected.pre_filter, got.pre_filter, complete)
    if expected.feasible is not None:
        yield from _sets("feasible", expected.feasible, got.feasible)
    yield from _rejections(expected.rejected, got.rejected or {}, complete)
    yield from _scores(expected.scores, got.scores or {}, complete)
    yield from _raw(expected.raw or {}, got.raw or {})
    if expected.best is not None:
        yield from _sets("best", expected.best, got.best)
    best = () if got.message else got.best or ()  # a pod may fail with its group
    if expected.chosen is not None and expected.chosen not in best:
        yield Deviation("chosen", expected.chosen, list(best))
    if expected.placed is False and best:
        yield Deviation("chosen", ABSENT, list(got.best or ()))
    if expected.not_on is not None and not set(expected.not_on).isdisjoint(got.best or ()):
        wanted = f"none of {', '.join(sorted(expected.not_on))}"
        yield Deviation("notOn", wanted, list(got.best or ()))
    if expected.order is not None:
        yield from _order(expected.order, got.scores or {})
    yield from _message(expected, got, rules)
    ours, theirs = got.post_filter, expected.post_filter
    if expected.used is not None:  # CapacityScheduling has words of its own
        ours = None if ours is None else replace(ours, reasons=())
        theirs = None if theirs is None else replace(theirs, reasons=())
    yield from _plugin_outcomes("postFilter", theirs, ours, complete)
    yield from _evictions(expected, got, complete)
    if expected.victims is not None:
        victims = [victim for eviction in got.preemption or () for victim in eviction.victims]
        yield from _sets("victims", expected.victims, tuple(victims))
    yield from _plugin_outcomes("reserve", expected.reserve, got.reserve, complete)
    yield from _plugin_outcomes("permit", expected.permit, got.permit, complete)
    yield from _plugin_outcomes("preBind", expected.pre_bind, got.pre_bind, complete)
    yield from _waiting(expected, got, complete)
    if expected.used is not None and expected.used != got.used:
        yield Deviation("used", _json(expected.used), _json(got.used))
    yield from _quotas(expected.quotas or {}, got.quotas or {})
    yield from _claims(expected, got, complete)
    yield from _devices(expected, got)
    if expected.nominated is not None or (rules.nominations and got.nominated is not None):
        yield from _nominated(expected.nominated, got.nominated)
    yield from _placed_together(expected, got)
    if complete and expected.chosen is None and got.chosen is not None:
        yield Deviation("chosen", ABSENT, got.chosen)
    if expected.group is not None or (complete and got.group is not None):
        yield from _group(expected.group or GroupOutcome(), got.group or GroupOutcome(), complete)


def _group(expected: GroupOutcome, got: GroupOutcome, complete: bool) -> Iterator[Deviation]:
    """Compare what became of a group; a record has no victims and no waiting where none is."""
    for field in fields(GroupOutcome):
        wanted, ours = getattr(expected, field.name), getattr(got, field.name)
        if wanted is None and not complete:
            continue
        if field.name == "victims":
            wanted, ours = sorted(wanted or ()), sorted(ours or ())
        if (wanted or None) != (ours or None):
            name = "waitingOnPreemption" if field.name == "waiting" else field.name
            yield Deviation(f"group.{name}", _of_group(wanted), _of_group(ours))


def _of_group(value: object) -> Value:
    """Return what is stated of a group as it is shown."""
    if isinstance(value, GroupCondition):
        text = f"{value.status} {value.reason}"
        return f"{text}: {value.message}" if value.message else text
    if isinstance(value, tuple | list):
        return [str(item) for item in value]
    return str(value).lower() if isinstance(value, bool) else str(value or ABSENT)


def _claims(expected: ExpectedOutcome, got: ExpectedOutcome, complete: bool) -> Iterator[Deviation]:
    """Compare resource claims: of each what is stated, and in a record no others."""
    stated, ours = expected.claims or {}, got.claims or {}
    for name in sorted({*stated, *ours} if complete else stated):
        for field, value in stated.get(name, {}).items():
            claim_field = ours.get(name, {}).get(field)
            if field == "reservedFor" and isinstance(value, list):
                # A pod that names a claim twice: API servers refuse a consumer that is there.
                same = list(dict.fromkeys(value)) == claim_field
            else:
                same = value == claim_field
            if not same:
                yield Deviation(f"claims.{name}.{field}", _json(value), _json(claim_field))
        if name not in stated or name not in ours:
            shown = [_json(claim.get(name)) for claim in (stated, ours)]
            yield Deviation(f"claims.{name}", *shown)
    if expected.deallocated is not None or (complete and got.deallocated):
        yield from _sets("deallocated", expected.deallocated or (), got.deallocated)


def _devices(expected: ExpectedOutcome, got: ExpectedOutcome) -> Iterator[Deviation]:
    """Compare devices: of all requests together, or of each that is stated."""
    ours = got.devices or {}
    for request, devices in sorted((expected.devices or {}).items()):
        allocated = (
            ours.get(request, ()) if request else [d for names in ours.values() for d in names]
        )
        field = f"devices.{request}" if request else "devices"
        yield from _sets(field, devices, tuple(allocated))


def _quotas(
    expected: Mapping[str, Mapping[str, QuotaNumber]], got: Mapping[str, Mapping[str, QuotaNumber]]
) -> Iterator[Deviation]:
    """Compare the amounts that are stated; a resource without a limit has none."""
    for key, numbers in sorted(expected.items()):
        if key not in got:
            yield Deviation(f"quotas.{key}", "a quota", f"no such quota; there are: {_some(got)}")
            continue
        for name, stated in numbers.items():
            ours, field = got[key][name], f"quotas.{key}.{name}"
            if isinstance(stated, int) or isinstance(ours, int):
                if stated != ours:
                    yield Deviation(field, str(stated), str(ours))
                continue
            no_amount = None if name == "limit" else 0
            for resource in sorted(stated or {n for n, amount in ours.items() if amount}):
                wanted = stated.get(resource, no_amount)
                amount = ours.get(resource, no_amount)
                if wanted != amount:
                    shown = [
                        ABSENT if units is None else quantity_text(resource, units)
                        for units in (wanted, amount)
                    ]
                    yield Deviation(f"{field}.{resource}", *shown)


def _some(names: Mapping[str, object]) -> str:
    """Return the first names of a mapping."""
    shown = sorted(names)[:_SHOWN]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(shown) + more if shown else "none"


_SHOWN: Final = 8
"""Names that are listed."""


def _json(value: object) -> str:
    return ABSENT if value is None else msgspec.json.encode(value).decode()


def _nominated(expected: str | None, got: str | None) -> Iterator[Deviation]:
    if expected != got:
        shown = ["as before" if node is None else node or ABSENT for node in (expected, got)]
        yield Deviation("nominated", *shown)


def _placed_together(expected: ExpectedOutcome, got: ExpectedOutcome) -> Iterator[Deviation]:
    if expected.placement is not None and expected.placement != got.placement:
        yield Deviation("placement", expected.placement or ABSENT, got.placement or ABSENT)
    scores = got.placements or {}
    for name, score in sorted((expected.placements or {}).items()):
        field = f"placements.{name}"
        if name not in scores:
            yield Deviation(field, _score_shown(score), "no such placement")
        elif score != scores[name]:
            yield Deviation(field, _score_shown(score), _score_shown(scores[name]))


def _score_shown(score: int | None) -> Value:
    return "no room" if score is None else score


def _plugin_outcomes(
    field: str, expected: PluginOutcome | None, got: PluginOutcome | None, complete: bool
) -> Iterator[Deviation]:
    """Compare two outcomes; one that is stated must be there, and in a record no other is."""
    if expected is None:
        if complete and got is not None:
            yield Deviation(field, ABSENT, _shown(got))
    elif got is None:
        yield Deviation(field, _shown(expected), ABSENT)
    else:
        yield from _plugin_outcome(field, expected, got, complete)


def _plugin_outcome(
    field: str, expected: PluginOutcome, got: PluginOutcome, complete: bool
) -> Iterator[Deviation]:
    if (expected.code is not None or complete) and expected.code != got.code:
        yield Deviation(f"{field}.code", expected.code or ABSENT, got.code or ABSENT)
    if (expected.plugin is not None or complete) and (expected.plugin or "") != (got.plugin or ""):
        yield Deviation(f"{field}.plugin", expected.plugin or ABSENT, got.plugin or ABSENT)
    if expected.reasons is not None or complete:
        yield from _reasons(field, expected.reasons or (), got.reasons or ())
    if expected.rule is not None and not _same_rule(expected.rule, got):
        yield Deviation(f"{field}.rule", expected.rule, got.rule or ABSENT)


def _reasons(field: str, expected: Sequence[Words], got: Sequence[Words]) -> Iterator[Deviation]:
    same = len(expected) == len(got)
    if not (
        same and all(_fits(words, str(ours)) for words, ours in zip(expected, got, strict=True))
    ):
        yield Deviation(f"{field}.reasons", list(map(str, expected)), list(map(str, got)))


def _fits(expected: Words, got: str) -> bool:
    return expected.fits(got) if isinstance(expected, Pattern) else expected == got


def _same_rule(expected: str, got: PluginOutcome) -> bool:
    """A rule may be named with its policy, ``SpotNodes.filter[0]``, or without."""
    return got.rule is not None and expected in (got.rule, got.rule.removeprefix(f"{got.plugin}."))


def _rejections(
    expected: Mapping[str, PluginOutcome] | None, got: Mapping[str, PluginOutcome], complete: bool
) -> Iterator[Deviation]:
    for node, outcome in sorted((expected or {}).items()):
        yield from _plugin_outcomes(f"rejected.{node}", outcome, got.get(node), complete)
    if complete:
        for node in sorted(set(got) - set(expected or {})):
            yield Deviation(f"rejected.{node}", ABSENT, _shown(got[node]))


def _scores(
    expected: Mapping[str, ExpectedScore] | None, got: Mapping[str, ExpectedScore], complete: bool
) -> Iterator[Deviation]:
    for node, score in sorted((expected or {}).items()):
        ours = got.get(node)
        if ours is None:
            yield Deviation(f"scores.{node}", "a score", ABSENT)
            continue
        if score.total is not None:
            yield from _number(f"scores.{node}.total", score.total, _whole(ours.total))
        stated, actual = score.plugins or {}, ours.plugins or {}
        names = set(stated) | set(actual) if complete else set(stated)
        for name in sorted(names):
            field = f"scores.{node}.plugins.{name}"
            yield from _number(field, stated.get(name, 0), _whole(actual.get(name)))


def _number(field: str, expected: Number, got: int) -> Iterator[Deviation]:
    if isinstance(expected, Limits):
        if not expected.fits(got):
            yield Deviation(field, str(expected), got)
    elif expected != got:
        yield Deviation(field, expected, got)


def _whole(number: Number | None) -> int:
    """Return an observed number; a plugin that is absent from a node's scores counts as 0."""
    return number if isinstance(number, int) else 0


def _order(
    expected: Sequence[Sequence[str]], got: Mapping[str, ExpectedScore]
) -> Iterator[Deviation]:
    """Compare the ranks of the nodes that are named; others may stand between them."""
    named = [name for equal in expected for name in equal]
    totals = {name: _whole(got[name].total) for name in named if name in got}
    ranked = sorted({*totals.values()}, reverse=True)
    ours = [sorted(name for name in totals if totals[name] == total) for total in ranked]
    if ours != [sorted(equal) for equal in expected]:
        yield Deviation("order", _ranks(expected), _ranks(ours))


def _raw(
    expected: Mapping[str, int | float], got: Mapping[str, int | float]
) -> Iterator[Deviation]:
    """Compare a plugin's scores before normalisation."""
    for node, score in sorted(expected.items()):
        if got.get(node) != score:
            yield Deviation(f"raw.{node}", str(score), str(got.get(node, ABSENT)))


def _waiting(
    expected: ExpectedOutcome, got: ExpectedOutcome, complete: bool
) -> Iterator[Deviation]:
    """Compare the pods that no longer wait, or are tried now; in a record there are no others."""
    if expected.activates is not None or (complete and got.activates):
        yield from _sets("activates", expected.activates or (), got.activates)
    if expected.allowed is not None or (complete and got.allowed):
        yield from _sets("allowed", expected.allowed or (), got.allowed)
    ours = got.rejected_waiting or {}
    if expected.rejected_waiting is None and not complete:
        return
    stated = expected.rejected_waiting or {}
    yield from _sets("rejectedWaiting", tuple(stated), tuple(ours))
    for name, outcome in sorted(stated.items()):
        if name in ours:
            yield from _plugin_outcome(f"rejectedWaiting.{name}", outcome, ours[name], complete)


def _queue(expected: Sequence[Sequence[str]], got: Sequence[Sequence[str]]) -> Iterator[Deviation]:
    """Compare the order of the pods that are named; others may stand between them."""
    named = {name for equal in expected for name in equal}
    ours = [[name for name in equal if name in named] for equal in got]
    wanted, shown = _ranks(expected), _ranks([equal for equal in ours if equal])
    if wanted != shown:
        yield Deviation("queue", wanted, shown)


def _ranks(order: Sequence[Sequence[str]]) -> list[str]:
    return [" = ".join(sorted(equal)) for equal in order]


def _message(
    expected: ExpectedOutcome, got: ExpectedOutcome, rules: Strictness
) -> Iterator[Deviation]:
    if expected.message is None and not rules.complete:
        return
    wanted, ours = expected.message or "", str(got.message or "")
    if expected.used is not None and isinstance(wanted, str):
        wanted, ours = (_BEFORE_POST_FILTER.split(words)[0] for words in (wanted, ours))
    if not rules.complete and isinstance(wanted, str):
        ours = as_far_as(wanted, ours)
    if not _fits(wanted, ours) and ours not in (expected.errors or ()):
        yield Deviation("message", str(wanted) or ABSENT, ours or ABSENT)


_BEFORE_POST_FILTER: Final = re.compile(r"(?<=\.) (?=preemption: |not eligible|\d+/\d+ nodes)")
"""Ends what a message says before the words of PostFilter."""


def as_far_as(stated: str, message: str) -> str:
    """Return a message without those parts of PostFilter plugins that a stated one has not."""
    if NO_CLAIMS not in stated:
        message = message.replace(f"{NO_CLAIMS},", "").removesuffix(NO_CLAIMS)
    if message.endswith(NOT_FOUND) and not stated.endswith(NOT_FOUND):
        message = message.removesuffix(NOT_FOUND) + "."
    if PREEMPTION_TAIL not in stated:
        message = message.partition(PREEMPTION_TAIL)[0].removesuffix(",")
    return message


def _evictions(
    expected: ExpectedOutcome, got: ExpectedOutcome, complete: bool
) -> Iterator[Deviation]:
    """The nomination must be one of the acceptable ones, a list; there is none if that is empty."""
    if expected.preemption is None:
        if complete and got.preemption:
            yield Deviation("preemption", ABSENT, _pairs(_as_sets(got)))
        return
    acceptable, ours = _as_sets(expected), _as_sets(got)
    if bool(ours) != bool(acceptable) or not ours <= acceptable:
        yield Deviation("preemption", _pairs(acceptable), _pairs(ours))


def _as_sets(outcome: ExpectedOutcome) -> set[tuple[str, frozenset[str]]]:
    return {(eviction.node, frozenset(eviction.victims)) for eviction in outcome.preemption or ()}


def _pairs(evictions: set[tuple[str, frozenset[str]]]) -> list[str]:
    return sorted(f"{node}: {', '.join(sorted(victims))}" for node, victims in evictions)


def _sets(
    field: str, expected: tuple[str, ...], got: tuple[str, ...] | None
) -> Iterator[Deviation]:
    if sorted(expected) != sorted(got or ()):
        yield Deviation(field, sorted(expected), sorted(got or ()))


def _shown(outcome: PluginOutcome) -> str:
    words = [outcome.code or "", f"by {outcome.plugin}" if outcome.plugin else ""]
    reasons = "; ".join(map(str, outcome.reasons or ()))
    head = " ".join(word for word in words if word)
    return f"{head}: {reasons}" if head and reasons else head or reasons or "an outcome"
