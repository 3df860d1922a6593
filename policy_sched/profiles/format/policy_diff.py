"""The differences between two policy sets: profiles, weights, parameters and rules, not their form.

Rules are compared by meaning as far as their trees show it: blanks, needless parentheses and
comments make no difference. Values come as text, with the path that leads to them. Policies that
no profile enables are compared, too, as they stand in their files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence, Set as AbstractSet
from typing import Final

import msgspec

from policy_sched.language import plain_expression
from policy_sched.language.diagnostics import PolicySource, Text, field_names
from policy_sched.model import NOTHING, Requirement, Selector
from policy_sched.plugins.extenders import ExtenderSettings, TlsSettings
from policy_sched.profiles.build import CompiledPlan
from policy_sched.profiles.reload import CompiledFiles
from policy_sched.profiles.resolve import ProfilePlan

_DIGEST: Final = 12
"""Hexadecimal digits that are shown of the hash of a certificate or key."""


class ValueDifference(msgspec.Struct, frozen=True):
    """One value that differs: where, and both values; empty on the side that has none.

    ``enabled``: a profile uses it on both sides, or came or went.
    """

    where: str
    old: str
    new: str
    enabled: bool = True


def differences(old: CompiledFiles, new: CompiledFiles) -> list[ValueDifference]:
    """Return what differs between two sets: profiles first, then policies, each by name."""
    before, after = _by_scheduler(old.plans), _by_scheduler(new.plans)
    value_differences: list[ValueDifference] = []
    for name in dict.fromkeys([*before, *after]):
        plan, other = before.get(name), after.get(name)
        if plan is None or other is None:
            value_differences.append(
                ValueDifference(f"profile {name}", _there(plan), _there(other))
            )
        else:
            value_differences += _in_profile(f"profile {name}", plan, other)
    compared = {
        policy
        for name in before.keys() & after.keys()
        for policy in before[name].policies.keys() & after[name].policies.keys()
    }
    value_differences += _outside_profiles(old, new, compared)
    return value_differences


def _by_scheduler(plans: Sequence[CompiledPlan]) -> dict[str, ProfilePlan]:
    return {ready.plan.scheduler_name: ready.plan for ready in plans}


def _outside_profiles(
    old: CompiledFiles, new: CompiledFiles, compared: Collection[str]
) -> Iterator[ValueDifference]:
    """Yield the differences of policies that no profile has on both sides."""
    before, after = _policies(old), _policies(new)
    for name in sorted({*before, *after}.difference(compared)):
        source, other = before.get(name), after.get(name)
        where = f"policy {name}"
        if source is not None and other is not None:
            for each in _in_policy(f"{where}:", source, other):
                yield ValueDifference(each.where, each.old, each.new, enabled=False)
        elif name in old.idle or name in new.idle:
            yield ValueDifference(where, _there(source), _there(other), enabled=False)


def _policies(files: CompiledFiles) -> dict[str, PolicySource]:
    """Return every policy of a set by name, with its params in the first profile that has it."""
    policies = dict(files.idle)
    for ready in files.plans:
        for name, source in ready.plan.policies.items():
            policies.setdefault(name, source)
    return policies


def _there(value: object) -> str:
    return "" if value is None else "present"


def _in_profile(where: str, old: ProfilePlan, new: ProfilePlan) -> Iterator[ValueDifference]:
    for point in dict.fromkeys([*old.points, *new.points]):
        yield from _at_point(f"{where}: {point}", old.points.get(point), new.points.get(point))
    percentage = "percentageOfNodesToScore"
    yield from _value(
        f"{where}: {percentage}",
        old.percentage_of_nodes_to_score,
        new.percentage_of_nodes_to_score,
    )
    yield from _in_section(f"{where}: extenders", old.extenders, new.extenders)
    for name in sorted({*old.args, *new.args}):
        yield from _value(f"{where}: {name} args", old.args.get(name, {}), new.args.get(name, {}))
    for name in sorted({*old.policies, *new.policies}):
        source, other = old.policies.get(name), new.policies.get(name)
        if source is not None and other is not None:
            yield from _in_policy(f"{where}: {name}", source, other)


def _at_point(
    where: str,
    old: Sequence[tuple[str, int]] | None,
    new: Sequence[tuple[str, int]] | None,
) -> Iterator[ValueDifference]:
    """Yield added and removed plugins, changed weights, and a changed order."""
    before, after = dict(old or ()), dict(new or ())
    for name in dict.fromkeys([*before, *after]):
        if before.get(name) != after.get(name):
            yield ValueDifference(
                f"{where} {name}", _weight(before.get(name)), _weight(after.get(name))
            )
    both = [name for name in before if name in after]
    order = [name for name in after if name in before]
    if both != order:
        yield ValueDifference(f"{where} order", ", ".join(both), ", ".join(order))


def _weight(weight: int | None) -> str:
    if weight is None:
        return ""
    return f"weight {weight}" if weight else "enabled"


def _in_policy(where: str, old: PolicySource, new: PolicySource) -> Iterator[ValueDifference]:
    for name in sorted({*old.params, *new.params}):
        was, now = old.params.get(name), new.params.get(name)
        yield from _value(f"{where} params.{name}", was, now)
    for part in field_names(PolicySource):
        if part not in ("name", "params"):
            yield from _in_section(
                f"{where} {_camel(part)}", getattr(old, part), getattr(new, part)
            )


def _in_section(where: str, old: object, new: object) -> Iterator[ValueDifference]:
    """Compare two values of one field of a policy, down to its texts."""
    if isinstance(old, tuple) and isinstance(new, tuple):
        for i in range(max(len(old), len(new))):
            was = old[i] if i < len(old) else None
            other = new[i] if i < len(new) else None
            yield from _in_section(f"{where}[{_label(i, was, other)}]", was, other)
    elif field_names(type(old)) and type(old) is type(new) and not isinstance(old, Text):
        for part in field_names(type(old)):
            name = f"{where}.{_camel(part)}"
            yield from _in_section(name, getattr(old, part), getattr(new, part))
    else:
        yield from _value(where, old, new)


def _label(index: int, old: object, new: object) -> str:
    """Return the name of an entry that has one, else its number."""
    names = {getattr(value, "name", "") for value in (old, new) if value is not None}
    name = names.pop() if len(names) == 1 else ""
    return (name.text if isinstance(name, Text) else name) or str(index)


def _value(where: str, old: object, new: object) -> Iterator[ValueDifference]:
    before, after = _text(old), _text(new)
    if before != after:
        yield ValueDifference(where, before, after)


def _text(value: object) -> str:
    """Return a value as text: a rule in its one form, a record by its expression."""
    if value is None:
        return ""
    if isinstance(value, Text):
        return plain_expression(value.text) or value.text
    if isinstance(value, ExtenderSettings | TlsSettings):
        return _settings(value)
    if isinstance(value, Selector):
        return _selector(value)
    if isinstance(value, bytes):
        return f"sha256:{hashlib.sha256(value).hexdigest()[:_DIGEST]}" if value else ""
    if field_names(type(value)):
        shown = [_text(getattr(value, part)) for part in field_names(type(value))]
        return ", ".join(text for text in shown if text)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_text(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    if isinstance(value, AbstractSet):
        return "[" + ", ".join(sorted(map(_text, value))) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _settings(value: ExtenderSettings | TlsSettings) -> str:
    """Return the settings of an extender that are not upstream's defaults."""
    given = (
        f"{_camel(part.name)}: {_text(getattr(value, part.name))}"
        for part in msgspec.structs.fields(value)
        if part.default is msgspec.NODEFAULT or getattr(value, part.name) != part.default
    )
    return "{" + ", ".join(given) + "}"


def _selector(value: Selector) -> str:
    """Return a selector as `kubectl get --selector` has it."""
    if value == NOTHING:
        return "nothing"
    return ",".join(map(_requirement, value.requirements)) or "everything"


def _requirement(requirement: Requirement) -> str:
    key, operator, values = requirement.key, requirement.operator, requirement.values
    match operator:
        case "Exists":
            return key
        case "DoesNotExist":
            return f"!{key}"
        case "Gt" | "Lt":
            return f"{key}{'>' if operator == 'Gt' else '<'}{requirement.bound}"
    if operator == "In" and len(values) == 1:
        return f"{key}={values[0]}"
    return f"{key} {operator.lower()} ({','.join(sorted(values))})"


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
