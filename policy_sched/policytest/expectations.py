"""Reads one entry of ``expect``: the machine's full form, and what a person may write instead.

Nodes, pods, plugins and rules that expectations name have to be there: a misspelt node in ``notOn``
would be a test that cannot fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal, TypeVar, get_args

import re2

from policy_sched.errors import Diagnostic
from policy_sched.model import units
from policy_sched.policytest.reader import (
    MAX_SUGGESTIONS,
    WRONG_VALUE,
    FieldPath,
    Plain,
    Reader,
    full_name,
)
from policy_sched.profiles import models
from policy_sched.profiles.build import CompiledPlan
from policy_sched.profiles.models import did_you_mean
from policy_sched.source import shortened


@dataclass(frozen=True, slots=True)
class Matching:
    """A text that is expected by a regular expression (RE2) that is found in it."""

    pattern: str

    def fits(self, text: str) -> bool:
        """Return whether the text has the pattern in it."""
        return re2.search(self.pattern, text) is not None

    def __str__(self) -> str:
        return f"matches {self.pattern}"


@dataclass(frozen=True, slots=True)
class Between:
    """A number that is expected within limits, both included; None: no limit."""

    least: int | None = None
    most: int | None = None

    def fits(self, number: int) -> bool:
        """Return whether the number is within the limits."""
        return (self.least is None or number >= self.least) and (
            self.most is None or number <= self.most
        )

    def __str__(self) -> str:
        if self.least is None:
            return f"at most {self.most}"
        return f"at least {self.least}" if self.most is None else f"{self.least} to {self.most}"


QuotaNumber = int | Mapping[str, int]
"""A number of a quota, or amounts by resource in the scheduler's units."""
Words = str | Matching
Number = int | Between


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
KEYS: Final = models.keys_of(models.Expectation)
CODES: Final = get_args(models.StatusCode)


T = TypeVar("T")


def read_outcome(reader: Reader, value: object, path: FieldPath) -> ExpectedOutcome:
    """Return the expectation at ``path``; ``chosen: null`` means that the pod fits nowhere."""
    stated = reader.mapping(value, path, KEYS)
    if stated.get("op") == "order":
        return _queue_step(reader, stated, path)
    if "evicted" in stated and "pod" not in stated:
        return _eviction_step(reader, stated, path)
    pod = _pod(reader, stated, path)

    def outcome(key: str) -> PluginOutcome | None:
        return _plugin_outcome(reader, stated[key], (*path, key)) if key in stated else None

    def texts(key: str) -> tuple[str, ...] | None:
        return reader.texts(stated[key], (*path, key)) if key in stated else None

    def text(key: str) -> str | None:
        return reader.text(stated[key], (*path, key)) if stated.get(key) is not None else None

    def by_name(key: str, read: Callable[[object, FieldPath], T]) -> dict[str, T] | None:
        return reader.by_name(stated, key, path, read)

    return ExpectedOutcome(
        pod=pod,
        pre_enqueue=outcome("preEnqueue"),
        pre_filter=outcome("preFilter"),
        rejected=by_name("rejected", partial(_plugin_outcome, reader)),
        feasible=texts("feasible"),
        scores=by_name("scores", partial(_score, reader)),
        best=texts("best"),
        chosen=text("chosen"),
        placed=False if "chosen" in stated and stated["chosen"] is None else None,
        message=(
            _words(reader, stated["message"], (*path, "message"))
            if stated.get("message") is not None
            else None
        ),
        post_filter=outcome("postFilter"),
        preemption=_evictions(reader, stated, path),
        reserve=outcome("reserve"),
        permit=outcome("permit"),
        pre_bind=outcome("preBind"),
        claims=by_name("claims", reader.mapping),
        devices=_devices(reader, stated, path),
        deallocated=texts("deallocated"),
        errors=texts("errors"),
        nominated=text("nominated"),
        not_on=texts("notOn"),
        order=_order(reader, stated["order"], (*path, "order")) if "order" in stated else None,
        victims=_full_names(texts("victims")),
        placement=(text("placement") or "") if "placement" in stated else None,
        placements=by_name("placements", lambda v, at: None if v is None else reader.whole(v, at)),
        group=_group(reader, stated, path),
        queue=_queue(reader, stated["queue"], (*path, "queue")) if "queue" in stated else None,
        raw=by_name("raw", lambda v, at: v if isinstance(v, float) else reader.whole(v, at)),
        allowed=_full_names(texts("allowed")),
        rejected_waiting=_rejected_waiting(reader, stated, path),
        activates=_full_names(texts("activates")),
        used=by_name("used", partial(_counts, reader)),
        quotas=by_name("quotas", partial(_quota, reader)),
        skipped=f"the plugin failed at {text('errorAt')}" if "errorAt" in stated else "",
    )


def _pod(reader: Reader, stated: Plain, path: FieldPath) -> str:
    """Return the pod of an entry; without one it states the queue and nothing else."""
    if "pod" in stated or "queue" not in stated:
        if reader.require(stated, "pod", path):
            return full_name(reader.text(stated["pod"], (*path, "pod")))
        return ""
    _stated_alone(reader, stated, "queue", path)
    return ""


def _eviction_step(reader: Reader, stated: Plain, path: FieldPath) -> ExpectedOutcome:
    """Return the running pods that policies evict."""
    _stated_alone(reader, stated, "evicted", path)
    evicted = reader.texts(stated["evicted"], (*path, "evicted"))
    return ExpectedOutcome(EVICTION, evicted=_full_names(evicted))


def _stated_alone(reader: Reader, stated: Plain, key: str, path: FieldPath) -> None:
    """Report what an entry without a pod states besides a key."""
    for other in sorted(stated.keys() - {key}):
        problem = f'"{other}" is stated of no pod'
        reader.problem((*path, other), WRONG_VALUE, problem, hint="add pod: NAME", key=True)


def _queue_step(reader: Reader, stated: Plain, path: FieldPath) -> ExpectedOutcome:
    """Return a recorded order of the queue; a plugin's answers may be none."""
    if "order" not in stated:
        return ExpectedOutcome("", skipped="the plugin's answers are no order")
    return ExpectedOutcome("", queue=_queue(reader, stated["order"], (*path, "order")))


def _queue(reader: Reader, value: object, path: FieldPath) -> tuple[tuple[str, ...], ...]:
    """Return pods that are ranked; those of a list within the list are equal."""
    order = tuple(tuple(map(full_name, names)) for names in _order(reader, value, path))
    for name, count in Counter(name for equal in order for name in equal).items():
        if count > 1:
            reader.problem(path, WRONG_VALUE, f"{name} stands in the queue more than once")
    return order


def _rejected_waiting(
    reader: Reader, stated: Plain, path: FieldPath
) -> dict[str, PluginOutcome] | None:
    value = stated.get("rejectedWaiting")
    if isinstance(value, str | list):
        pods = reader.texts(value, (*path, "rejectedWaiting"))
        return {full_name(name): PluginOutcome() for name in pods}
    statuses = reader.by_name(stated, "rejectedWaiting", path, partial(_plugin_outcome, reader))
    return None if statuses is None else {full_name(n): why for n, why in statuses.items()}


def _counts(reader: Reader, value: object, path: FieldPath) -> dict[str, int]:
    amounts = reader.mapping(value, path)
    return {name: reader.whole(amount, (*path, name)) for name, amount in amounts.items()}


def _quota(reader: Reader, value: object, path: FieldPath) -> dict[str, QuotaNumber]:
    keys = models.keys_of(models.QuotaEntry)
    numbers = reader.mapping(value, path, keys)
    if not numbers and isinstance(value, dict):
        hint = f"known: {', '.join(keys)}"
        reader.problem(path, WRONG_VALUE, "nothing is stated of the quota", hint=hint)
    return {
        name: (reader.whole if name == "share" else partial(_amounts, reader))(
            number, (*path, name)
        )
        for name, number in numbers.items()
    }


def _amounts(reader: Reader, value: object, path: FieldPath) -> dict[str, int]:
    """Return amounts by resource in the scheduler's units."""
    amounts: dict[str, int] = {}
    for name, amount in reader.mapping(value, path).items():
        if isinstance(amount, bool) or not isinstance(amount, str | int | float):
            wanted = "a quantity is expected, such as 4, 500m or 8Gi"
            reader.problem((*path, name), WRONG_VALUE, wanted)
            continue
        try:
            amounts[name] = units(name, amount)
        except ValueError as error:
            reader.problem((*path, name), WRONG_VALUE, str(error))
    return amounts


def _group(reader: Reader, stated: Plain, path: FieldPath) -> GroupOutcome | None:
    if "group" not in stated:
        return None
    at = (*path, "group")
    fields = reader.mapping(stated["group"], at, models.keys_of(models.GroupEntry))

    def text(key: str) -> str | None:
        return reader.text(fields[key], (*at, key)) if key in fields else None

    def pods(key: str) -> tuple[str, ...] | None:
        return _full_names(reader.texts(fields[key], (*at, key))) if key in fields else None

    waiting = fields.get("waitingOnPreemption")
    if waiting is not None and not isinstance(waiting, bool):
        reader.problem((*at, "waitingOnPreemption"), WRONG_VALUE, "true or false is expected")
    condition = None
    if "condition" in fields:
        inside = (*at, "condition")
        entry = reader.mapping(fields["condition"], inside, models.keys_of(models.ConditionEntry))
        keys = ("status", "reason", "message")
        words = [reader.text(entry.get(key, ""), (*inside, key)) for key in keys]
        condition = GroupCondition(*words)
    name = text("name")
    return GroupOutcome(
        None if name is None else full_name(name),
        pods("order"),
        text("code"),
        waiting if isinstance(waiting, bool) else None,
        pods("victims"),
        condition,
    )


def _devices(reader: Reader, stated: Plain, path: FieldPath) -> dict[str, tuple[str, ...]] | None:
    """Return the devices that are stated, by request; a list is of all requests."""
    if "devices" in stated and not isinstance(stated["devices"], dict):
        return {"": reader.texts(stated["devices"], (*path, "devices"))}
    return reader.by_name(stated, "devices", path, reader.texts)


def _full_names(names: tuple[str, ...] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(full_name(name) for name in names)


def _order(reader: Reader, value: object, path: FieldPath) -> tuple[tuple[str, ...], ...]:
    """Return nodes that are ranked; those of a list within the list are equal."""
    return tuple(
        reader.texts(names, (*path, i)) for i, names in enumerate(reader.items(value, path))
    )


def _words(reader: Reader, value: object, path: FieldPath) -> Words:
    """Return a text, or a pattern of one."""
    if not isinstance(value, dict):
        return reader.text(value, path)
    stated = reader.mapping(value, path, models.keys_of(models.Pattern))
    if not reader.require(stated, "matches", path):
        return ""
    at = (*path, "matches")
    pattern = reader.text(stated["matches"], at)
    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(pattern, options)
    except re2.error as error:
        reader.problem(at, WRONG_VALUE, f"this is no RE2 pattern: {_error_text(error)}")
        return ""
    return Matching(pattern)


def _error_text(error: Exception) -> str:
    text = error.args[0] if error.args else error
    return text.decode() if isinstance(text, bytes) else str(text)


def _reasons(reader: Reader, value: object, path: FieldPath) -> tuple[Words, ...]:
    if isinstance(value, str | dict):
        return (_words(reader, value, path),)
    items = reader.items(value, path)
    return tuple(_words(reader, words, (*path, i)) for i, words in enumerate(items))


def _number(reader: Reader, value: object, path: FieldPath) -> Number:
    """Return a whole number, or the limits of one."""
    if not isinstance(value, dict):
        return reader.whole(value, path)
    stated = reader.mapping(value, path, models.keys_of(models.Limits))
    return _between(reader, stated, path)


def _between(reader: Reader, stated: Plain, path: FieldPath) -> Between:
    limits = {
        key: reader.whole(stated[key], (*path, key)) for key in ("min", "max") if key in stated
    }
    least, most = limits.get("min"), limits.get("max")
    if not limits:
        reader.problem(path, WRONG_VALUE, "limits need min, max or both")
    elif least is not None and most is not None and least > most:
        reader.problem(path, WRONG_VALUE, f"no number is at least {least} and at most {most}")
    return Between(least, most)


def _plugin_outcome(reader: Reader, value: object, path: FieldPath) -> PluginOutcome:
    """A text or a list of texts stands for the reasons alone."""
    if isinstance(value, str | list):
        return PluginOutcome(reasons=_reasons(reader, value, path))
    stated = reader.mapping(value, path, models.keys_of(models.StatusEntry))
    code = plugin = reasons = rule = None
    if "code" in stated:
        code = reader.text(stated["code"], (*path, "code"))
        if code and code not in CODES:
            codes = ", ".join(CODES)
            reader.problem(
                (*path, "code"), WRONG_VALUE, f'there is no code "{code}"', hint=f"known: {codes}"
            )
    if "plugin" in stated:
        plugin = reader.text(stated["plugin"], (*path, "plugin"))
    if "reasons" in stated:
        reasons = _reasons(reader, stated["reasons"], (*path, "reasons"))
    if "rule" in stated:
        rule = reader.text(stated["rule"], (*path, "rule"))
    return PluginOutcome(code, plugin, reasons, rule)


def _score(reader: Reader, value: object, path: FieldPath) -> ExpectedScore:
    """A number stands for the total alone."""
    if not isinstance(value, dict):
        return ExpectedScore(total=reader.whole(value, path))
    stated = reader.mapping(value, path, models.keys_of(models.ScoreEntry))
    total: Number | None = None
    if "total" in stated:
        total = _number(reader, stated["total"], (*path, "total"))
        if "min" in stated or "max" in stated:
            reader.problem(path, WRONG_VALUE, "total, or min and max of it, but not both")
    elif "min" in stated or "max" in stated:
        total = _between(reader, stated, path)
    return ExpectedScore(total, reader.by_name(stated, "plugins", path, partial(_number, reader)))


def _evictions(
    reader: Reader, stated: Plain, path: FieldPath
) -> tuple[ExpectedEviction, ...] | None:
    if "preemption" not in stated:
        return None
    at = (*path, "preemption")
    return tuple(
        _eviction(reader, eviction, (*at, i))
        for i, eviction in enumerate(reader.items(stated["preemption"], at))
    )


def _eviction(reader: Reader, value: object, path: FieldPath) -> ExpectedEviction:
    stated = reader.mapping(value, path, models.keys_of(models.EvictionEntry))
    node = ""
    if reader.require(stated, "node", path):
        node = reader.text(stated["node"], (*path, "node"))
    victims = reader.texts(stated.get("victims"), (*path, "victims"))
    return ExpectedEviction(node, tuple(full_name(victim) for victim in victims))


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
        yield Mention("pod", full_name(name), (*at, "rejectedWaiting", name), key=True)
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
        yield Mention(kind, full_name(value) if kind == "pod" else value, at)


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
