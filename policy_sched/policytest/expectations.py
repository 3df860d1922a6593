"""What one entry of ``expect`` means: the machine's full form, and what a person writes instead.

Nodes, pods, plugins and rules that expectations name have to be there: a misspelt node in ``notOn``
would be a test that cannot fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeVar

import re2

from policy_sched.errors import Diagnostic
from policy_sched.model import units
from policy_sched.policytest.reader import MAX_SUGGESTIONS, WRONG_VALUE, FieldPath, Plain, Problems
from policy_sched.profiles import models
from policy_sched.profiles.build import CompiledPlan
from policy_sched.profiles.models import did_you_mean
from policy_sched.source import shortened

QuotaNumber = int | Mapping[str, int]
"""A number of a quota, or amounts by resource in the scheduler's units."""
Words = str | models.Pattern
Number = int | models.Limits


@dataclass(frozen=True, slots=True)
class PluginOutcome:
    """A plugin's outcome: status code (kube-scheduler's word), plugin name, reasons for people.

    ``rule`` names the rule of a policy that gave it, such as ``SpotNodes.filter[0]``.
    """

    code: str | None = None
    plugin: str | None = None
    reasons: tuple[Words, ...] | None = None
    rule: str | None = None


@dataclass(frozen=True, slots=True)
class ExpectedScore:
    """The score of one node: normalised plugin scores times their weights, and their sum."""

    total: Number | None = None
    plugins: Mapping[str, Number] | None = None


@dataclass(frozen=True, slots=True)
class ExpectedEviction:
    """One acceptable way to make room: a node, and the pods (namespace/name) that leave it."""

    node: str
    victims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupCondition:
    """The condition PodGroupScheduled of a PodGroup."""

    status: str
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """What became of a pod group: the pods in the order in which they were decided, and the status.

    ``victims`` are evicted for its pods or for the group.
    """

    name: str | None = None
    order: tuple[str, ...] | None = None
    code: str | None = None
    waiting: bool | None = None
    victims: tuple[str, ...] | None = None
    condition: GroupCondition | None = None


@dataclass(frozen=True, slots=True)
class ExpectedOutcome:
    """One step; None where nothing is stated."""

    pod: str
    """The pod that is decided (namespace/name); empty where the queue is looked at."""
    queue: tuple[tuple[str, ...], ...] | None = None
    """Pods in the order of the queue, equal ones in one tuple."""
    evicted: tuple[str, ...] | None = None
    """Running pods that policies evict, where these are looked at."""
    pre_enqueue: PluginOutcome | None = None
    pre_filter: PluginOutcome | None = None
    rejected: Mapping[str, PluginOutcome] | None = None
    feasible: tuple[str, ...] | None = None
    scores: Mapping[str, ExpectedScore] | None = None
    raw: Mapping[str, int | float] | None = None
    """By node, the score of the scenario's plugin before normalisation."""
    best: tuple[str, ...] | None = None
    chosen: str | None = None
    """The node of the pod."""
    placed: bool | None = None
    """False where the pod fits nowhere."""
    message: Words | None = None
    """The message of a pod without a node; any of ``errors`` is as right."""
    post_filter: PluginOutcome | None = None
    preemption: tuple[ExpectedEviction, ...] | None = None
    reserve: PluginOutcome | None = None
    """Of the node on which the pod is assumed, as ``permit``."""
    permit: PluginOutcome | None = None
    nominated: str | None = None
    """The node that a pod that fits nowhere is nominated to from then on, empty for none."""
    not_on: tuple[str, ...] | None = None
    """Nodes on which the pod is not placed; only people expect this."""
    order: tuple[tuple[str, ...], ...] | None = None
    """Nodes by score, the best first, equally good ones in one tuple; only people expect this."""
    victims: tuple[str, ...] | None = None
    """The pods that make room, on whichever node; only people expect this."""
    pre_bind: PluginOutcome | None = None
    """Of a pod that PreBind refused."""
    claims: Mapping[str, Mapping[str, object]] | None = None
    """The resource claims reserved for the pod, by name."""
    devices: Mapping[str, tuple[str, ...]] | None = None
    """Those that the claims get on the chosen node, by request; "" stands for all."""
    deallocated: tuple[str, ...] | None = None
    """Claims that lost their devices."""
    errors: tuple[str, ...] | None = None
    placement: str | None = None
    """The domain that the pod's group goes to as a whole, empty if it goes to none."""
    placements: Mapping[str, int | None] | None = None
    """The score of each domain that was tried, None where the group has no room."""
    group: GroupOutcome | None = None
    """What became of a group, at the first of its pods."""
    allowed: tuple[str, ...] | None = None
    """Waiting pods that are let through."""
    rejected_waiting: Mapping[str, PluginOutcome] | None = None
    """Why waiting pods are sent back, by pod."""
    activates: tuple[str, ...] | None = None
    """Pods of the group that are tried now."""
    used: Mapping[str, Mapping[str, int]] | None = None
    """By namespace, what its quota counts after the step; cpu in thousandths."""
    quotas: Mapping[str, Mapping[str, QuotaNumber]] | None = None
    """By key of a quota, its numbers after the step. Of an outcome: of all quotas that there are,
    with the numbers of those that are expected."""
    skipped: str = ""
    """Why nothing can be compared with a recorded step, empty where it can."""


EVICTION: Final = "evict"
"""The step at which policies look at the running pods; no pod has such a name."""


T = TypeVar("T")
V = TypeVar("V")


def read_outcome(problems: Problems, entry: models.Expectation, path: FieldPath) -> ExpectedOutcome:
    """Return the expectation at ``path``; ``chosen: null`` means that the pod fits nowhere."""
    if entry.op == "order" or not entry.pod:
        return _without_pod(problems, entry, path)
    _check_queue(problems, entry.queue or (), (*path, "queue"))
    _check_words(problems, (entry.message,), (*path, "message"))

    def outcome(status: models.StatusEntry | None, key: str) -> PluginOutcome | None:
        return None if status is None else _plugin_outcome(problems, status, (*path, key))

    def by_name(
        key: str, entries: Mapping[str, V] | None, read: Callable[[Problems, V, FieldPath], T]
    ) -> dict[str, T] | None:
        if entries is None:
            return None
        return {name: read(problems, value, (*path, key, name)) for name, value in entries.items()}

    devices, waiting = entry.devices, entry.rejected_waiting
    if isinstance(waiting, tuple):
        waiting = dict.fromkeys(waiting, models.StatusEntry())
    given = entry.model_fields_set
    return ExpectedOutcome(
        pod=entry.pod,
        pre_enqueue=outcome(entry.pre_enqueue, "preEnqueue"),
        pre_filter=outcome(entry.pre_filter, "preFilter"),
        rejected=by_name("rejected", entry.rejected, _plugin_outcome),
        feasible=entry.feasible,
        scores=by_name("scores", entry.scores, _score),
        best=entry.best,
        chosen=entry.chosen,
        placed=False if "chosen" in given and entry.chosen is None else None,
        message=entry.message,
        post_filter=outcome(entry.post_filter, "postFilter"),
        preemption=None
        if entry.preemption is None
        else tuple(ExpectedEviction(each.node, each.victims) for each in entry.preemption),
        reserve=outcome(entry.reserve, "reserve"),
        permit=outcome(entry.permit, "permit"),
        pre_bind=outcome(entry.pre_bind, "preBind"),
        claims=entry.claims,
        devices={"": devices} if isinstance(devices, tuple) else devices,
        deallocated=entry.deallocated,
        errors=entry.errors,
        nominated=entry.nominated,
        not_on=entry.not_on,
        order=entry.order,
        victims=entry.victims,
        placement=entry.placement or "" if "placement" in given else None,
        placements=entry.placements,
        group=_group(entry.group),
        queue=entry.queue,
        raw=entry.raw,
        allowed=entry.allowed,
        rejected_waiting=by_name("rejectedWaiting", waiting, _plugin_outcome),
        activates=entry.activates,
        used=entry.used,
        quotas=by_name("quotas", entry.quotas, _quota),
        skipped="" if entry.error_at is None else f"the plugin failed at {entry.error_at}",
    )


def _without_pod(problems: Problems, entry: models.Expectation, path: FieldPath) -> ExpectedOutcome:
    """Return the order of the queue, or the running pods that policies evict, and nothing else."""
    if entry.op == "order":
        if entry.order is None:
            return ExpectedOutcome("", skipped="the plugin's answers are no order")
        order = tuple(tuple(map(models.full_name, names)) for names in entry.order)
        _check_queue(problems, order, (*path, "order"))
        return ExpectedOutcome("", queue=order)
    key = "queue" if entry.evicted is None else "evicted"
    stated = entry.model_dump(by_alias=True, exclude_unset=True)
    for other in sorted(stated.keys() - {key}) if key in stated else ():
        problem = f'"{other}" is stated of no pod'
        problems.add((*path, other), WRONG_VALUE, problem, hint="add pod: NAME", key=True)
    if entry.evicted is not None:
        return ExpectedOutcome(EVICTION, evicted=entry.evicted)
    _check_queue(problems, entry.queue or (), (*path, "queue"))
    return ExpectedOutcome("", queue=entry.queue)


def _check_queue(problems: Problems, order: Sequence[Sequence[str]], path: FieldPath) -> None:
    """Report pods that are ranked twice."""
    for name, count in Counter(name for equal in order for name in equal).items():
        if count > 1:
            problems.add(path, WRONG_VALUE, f"{name} stands in the queue more than once")


def _quota(problems: Problems, entry: models.QuotaEntry, path: FieldPath) -> dict[str, QuotaNumber]:
    if not entry.model_fields_set:
        hint = f"known: {', '.join(models.keys_of(models.QuotaEntry))}"
        problems.add(path, WRONG_VALUE, "nothing is stated of the quota", hint=hint)
    return {
        name: number if isinstance(number, int) else _amounts(problems, number, (*path, name))
        for name, number in entry
        if number is not None
    }


def _amounts(
    problems: Problems, amounts: Mapping[str, models.Amount], path: FieldPath
) -> dict[str, int]:
    """Return amounts by resource in the scheduler's units."""
    read: dict[str, int] = {}
    for name, amount in amounts.items():
        try:
            read[name] = units(name, amount)
        except ValueError as error:
            problems.add((*path, name), WRONG_VALUE, str(error))
    return read


def _group(entry: models.GroupEntry | None) -> GroupOutcome | None:
    if entry is None:
        return None
    stated = entry.condition
    condition = None if stated is None else GroupCondition(**stated.model_dump())
    waiting = entry.waiting_on_preemption
    return GroupOutcome(entry.name, entry.order, entry.code, waiting, entry.victims, condition)


def _check_words(problems: Problems, words: Sequence[Words | None], path: FieldPath) -> None:
    """Report patterns that are none."""
    options = re2.Options()
    options.log_errors = False
    for i, text in enumerate(words):
        if isinstance(text, models.Pattern):
            try:
                re2.compile(text.matches, options)
            except re2.error as error:
                why = f"this is no RE2 pattern: {_error_text(error)}"
                problems.add((*path, i, "matches"), WRONG_VALUE, why)


def _error_text(error: Exception) -> str:
    text = error.args[0] if error.args else error
    return text.decode() if isinstance(text, bytes) else str(text)


def _check_limits(problems: Problems, number: Number | None, path: FieldPath) -> None:
    if isinstance(number, models.Limits):
        least, most = number.min, number.max
        if least is None and most is None:
            problems.add(path, WRONG_VALUE, "limits need min, max or both")
        elif least is not None and most is not None and least > most:
            text = f"no number is at least {least} and at most {most}"
            problems.add(path, WRONG_VALUE, text)


def _plugin_outcome(
    problems: Problems, entry: models.StatusEntry, path: FieldPath
) -> PluginOutcome:
    _check_words(problems, entry.reasons or (), (*path, "reasons"))
    return PluginOutcome(entry.code, entry.plugin, entry.reasons, entry.rule)


def _score(problems: Problems, entry: int | models.ScoreEntry, path: FieldPath) -> ExpectedScore:
    """A number stands for the total alone."""
    if isinstance(entry, int):
        return ExpectedScore(total=entry)
    total = entry.total
    _check_limits(problems, total, (*path, "total"))
    if not (entry.min is None and entry.max is None):
        if total is not None:
            problems.add(path, WRONG_VALUE, "total, or min and max of it, but not both")
        total = models.Limits.model_construct(min=entry.min, max=entry.max)
        _check_limits(problems, total, path)
    for name, number in (entry.plugins or {}).items():
        _check_limits(problems, number, (*path, "plugins", name))
    return ExpectedScore(total, entry.plugins)


_NODES: Final = ("chosen", "nominated", "feasible", "best", "notOn", "order")
STATUSES: Final = ("preEnqueue", "preFilter", "postFilter", "reserve", "permit", "preBind")
_SHOWN: Final = 8
"""Names that a hint lists."""

Kind = Literal["node", "pod", "plugin", "score", "rule"]
_OF_PLANS: Final = {
    "plugin": ("plugin", " that a profile enables"),
    "score": ("plugin", " with a score that a profile enables"),
}


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in an expectation: of what, and where; ``key``: it is the key of a mapping."""

    kind: Kind
    name: str
    path: FieldPath
    key: bool = False


def mentions(stated: Plain, at: FieldPath) -> Iterator[Mention]:
    """Yield what the entry at ``at`` of ``expect`` names; pods with their namespaces."""
    for field in _NODES:
        yield from _texts("node", stated.get(field), (*at, field))
    for field in STATUSES:
        yield from _of_status(stated.get(field), (*at, field))
    for node, status in _items(stated.get("rejected")):
        yield Mention("node", node, (*at, "rejected", node), key=True)
        yield from _of_status(status, (*at, "rejected", node))
    for node, score in _items(stated.get("scores")):
        path = (*at, "scores", node)
        yield Mention("node", node, path, key=True)
        for plugin, _ in _items(dict(_items(score)).get("plugins")):
            yield Mention("score", plugin, (*path, "plugins", plugin), key=True)
    for node, _ in _items(stated.get("raw")):
        yield Mention("node", node, (*at, "raw", node), key=True)
    for field in ("victims", "queue", "allowed", "rejectedWaiting", "activates"):
        yield from _texts("pod", stated.get(field), (*at, field))
    for name, status in _items(stated.get("rejectedWaiting")):
        yield Mention("pod", models.full_name(name), (*at, "rejectedWaiting", name), key=True)
        yield from _of_status(status, (*at, "rejectedWaiting", name))
    evictions = stated.get("preemption")
    for i, value in enumerate(evictions if isinstance(evictions, list) else ()):
        eviction, path = dict(_items(value)), (*at, "preemption", i)
        yield from _texts("node", eviction.get("node"), (*path, "node"))
        yield from _texts("pod", eviction.get("victims"), (*path, "victims"))
    group = dict(_items(stated.get("group")))
    for field in ("order", "victims"):
        yield from _texts("pod", group.get(field), (*at, "group", field))


def _of_status(value: object, at: FieldPath) -> Iterator[Mention]:
    status = dict(_items(value))
    yield from _texts("plugin", status.get("plugin"), (*at, "plugin"))
    yield from _texts("rule", status.get("rule"), (*at, "rule"))


def _items(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        yield from ((key, entry) for key, entry in value.items() if isinstance(key, str))


def _texts(kind: Kind, value: object, at: FieldPath) -> Iterator[Mention]:
    """Yield the texts of a value: itself, or those of a list or of lists in it."""
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from _texts(kind, item, (*at, i))
    elif isinstance(value, str) and value:
        yield Mention(kind, models.full_name(value) if kind == "pod" else value, at)


@dataclass(frozen=True, slots=True)
class PlanMention:
    """A plugin or a rule that an expectation names; ``blank`` is a diagnostic without words."""

    kind: Kind
    name: str
    blank: Diagnostic


def unknown_names(stated: Sequence[PlanMention], plans: Sequence[CompiledPlan]) -> list[Diagnostic]:
    """Return a problem for each plugin that no profile enables, and each rule of no policy."""
    plugins = {name for profile in plans for name in profile.plan.plugins}
    filters = {
        f"{policy.name}.filter[{i}]"
        for profile in plans
        for policy in profile.plan.policies.values()
        for i in range(len(policy.filter))
    }
    rules = filters | {name.partition(".")[2] for name in filters}
    rules |= {
        name for plugin in plugins for name in (f"{plugin} (preFilter)", f"{plugin}.filter[0]")
    }
    scoring = {name for profile in plans for name, _ in profile.plan.points.get("score", ())}
    there = {"plugin": (plugins, plugins), "score": (scoring, scoring), "rule": (rules, filters)}
    problems = []
    for i, named in enumerate(stated):
        unknown = named.kind == "score" and named.name not in plugins
        mention = replace(named, kind="plugin") if unknown else named
        names, shown = there[mention.kind]
        if mention.name not in names:
            problems.append(no_such(mention, shown, mention.blank, suggest=i < MAX_SUGGESTIONS))
    return problems


def no_such(
    mention: Mention | PlanMention, existing: Collection[str], blank: Diagnostic, *, suggest: bool
) -> Diagnostic:
    """Return the problem of a name that nothing has; ``blank`` is where it stands.

    ``suggest``: the name that was meant is looked for.
    """
    kind, where = _OF_PLANS.get(mention.kind, (mention.kind, ""))
    message = f"there is no {kind} {shortened(mention.name, quote=False)}{where}"
    names = sorted(name.removeprefix("default/") for name in existing)
    close = did_you_mean(mention.name.removeprefix("default/"), names) if suggest else ""
    listed = ", ".join(names[:_SHOWN]) or "none"
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    hint = close or f"{kind}s: {listed}{more}"
    return replace(blank, code=WRONG_VALUE, message=message, hint=hint)
