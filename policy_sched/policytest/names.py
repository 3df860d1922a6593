"""Checks that the nodes, pods, plugins and rules that expectations name are there.

A misspelt node in ``notOn`` would be a test that cannot fail.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from policy_sched.errors import Diagnostic
from policy_sched.policytest.reader import MAX_SUGGESTIONS, WRONG_VALUE, FieldPath, Plain, full_name
from policy_sched.profiles.build import CompiledPlan
from policy_sched.profiles.models import did_you_mean
from policy_sched.source import shortened

_NODES: Final = ("chosen", "nominated", "feasible", "best", "notOn", "order")
_STATUSES: Final = ("preEnqueue", "preFilter", "postFilter", "reserve", "permit", "preBind")
_SHOWN: Final = 8
"""Names that a hint lists."""

Kind = Literal["node", "pod", "plugin", "rule"]


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
    for field in _STATUSES:
        yield from _of_status(stated.get(field), (*at, field))
    for node, status in _items(stated.get("rejected")):
        yield Mention("node", node, (*at, "rejected", node), key=True)
        yield from _of_status(status, (*at, "rejected", node))
    for node, score in _items(stated.get("scores")):
        path = (*at, "scores", node)
        yield Mention("node", node, path, key=True)
        for plugin, _ in _items(dict(_items(score)).get("plugins")):
            yield Mention("plugin", plugin, (*path, "plugins", plugin), key=True)
    yield from _texts("pod", stated.get("victims"), (*at, "victims"))
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
    problems = []
    for i, mention in enumerate(stated):
        names, shown = (plugins, plugins) if mention.kind == "plugin" else (rules, filters)
        if mention.name not in names:
            problems.append(no_such(mention, shown, mention.blank, suggest=i < MAX_SUGGESTIONS))
    return problems


def no_such(
    mention: Mention | PlanMention, existing: Collection[str], blank: Diagnostic, *, suggest: bool
) -> Diagnostic:
    """Return the problem of a name that nothing has; ``blank`` is where it stands.

    ``suggest``: the name that was meant is looked for.
    """
    where = " that a profile enables" if mention.kind == "plugin" else ""
    message = f"there is no {mention.kind} {shortened(mention.name, quote=False)}{where}"
    names = sorted(name.removeprefix("default/") for name in existing)
    close = did_you_mean(mention.name.removeprefix("default/"), names) if suggest else ""
    listed = ", ".join(names[:_SHOWN]) or "none"
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    hint = close or f"{mention.kind}s: {listed}{more}"
    return replace(blank, code=WRONG_VALUE, message=message, hint=hint)
