"""What can be typed in a selector over devices, in the manifest of a device class or a claim."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from policy_sched.language import Entry, of_device
from policy_sched.language.cel import selector_type
from policy_sched.language.stdlib import selector_environment
from policy_sched.language.values import types
from policy_sched.lsp import suggestion
from policy_sched.lsp.place import CursorPosition, loops, member_before, word_before
from policy_sched.profiles.load import WITH_SELECTORS

_EXPRESSION: Final = ("cel", "expression")
_DOMAIN: Final = re.compile(r"device\.(?:attributes|capacity)\[\??[\"']([^\"'\[\]]*)$")
#: Where a manifest names a driver or a domain.
_NAMED: Final = re.compile(
    r"(?:device\.driver\s*==\s*|device\.(?:attributes|capacity)\[\??)(?:\\?\"|')([a-zA-Z0-9.-]+)"
)


def has_selectors(kind: str) -> bool:
    """Return whether objects of a kind have selectors over devices."""
    return kind in WITH_SELECTORS


def suggestions(text: str, place: CursorPosition) -> list[suggestion.Suggestion]:
    """Return the completions at a position of a manifest; none outside of its selectors."""
    before = place.before
    if before is None or place.path[-2:] != _EXPRESSION:
        return []
    domain = _DOMAIN.search(before)
    if domain is not None:
        return [one for one in _domains(text) if one.label.startswith(domain[1])]
    member = member_before(before)
    found = _names(before) if member is None else _members(member[0], before)
    word = word_before(before) if member is None else member[1]
    return [one for one in found if one.label.startswith(word)]


def _domains(text: str) -> list[suggestion.Suggestion]:
    """Return the drivers and domains that the manifest names elsewhere."""
    entry = "domain of attributes and capacities"
    names = dict.fromkeys(_NAMED.findall(text))
    complete = [name for name in names if "." in name]
    return [suggestion.Suggestion(name, "property", Entry(name, entry, "")) for name in complete]


def _names(before: str) -> Iterator[suggestion.Suggestion]:
    """Yield what a selector may begin with."""
    for name, _ in loops(before):
        entry = Entry(f"{name}: {_type_of(name, before)}", "variable of a loop", "")
        yield suggestion.Suggestion(name, "variable", entry)
    environment = selector_environment()
    for variable in environment.variables.values():
        yield suggestion.Suggestion(variable.name, "variable", of_device(variable))
    yield from suggestion.functions(environment)


def _members(base: str, before: str) -> Iterator[suggestion.Suggestion]:
    """Yield the members of the expression before the dot."""
    environment = selector_environment()
    grouped = list(suggestion.functions_in(environment, base))
    if grouped:
        yield from grouped
        return
    kind = _type_of(base, before)
    if kind is None:
        return
    record = environment.records.get(kind.name)
    for field in record.fields.values() if record is not None else ():
        yield suggestion.Suggestion(field.name, "field", of_device(field))
    yield from suggestion.methods(environment, kind)


def _type_of(expression: str, before: str) -> types.Type | None:
    """Return the type of an expression at the end of ``before``, in the loops that are open."""
    for name, operand in reversed(loops(before)):
        if selector_type(f"({operand}).optMap(x, x)") is not None:
            expression = f"({operand}).optMap({name}, {expression}).value()"
        else:
            expression = f"({operand}).map({name}, {expression})[0]"
    return selector_type(expression)
