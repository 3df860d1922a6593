"""Looks up names in the tables of the language, for `docs` and for editors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from policy_sched.language import stdlib
from policy_sched.language.diagnostics import codes

LEVELS: Final = {
    "C": "changes with the files",
    "P": "changes with the pod",
    "S": "a node's own data",
    "D": "changes with what runs on a node",
    "T": "changes with the cluster",
    "X": "changes with the feasible nodes",
}

_KINDS: Final = {
    "function": "function",
    "method": "method",
    "either": "function or method",
    "operator": "operator",
}


class Entry(msgspec.Struct, frozen=True):
    """A name: how it is written, its kind, and its meaning."""

    title: str
    kind: str
    text: str
    example: str = ""

    def __str__(self) -> str:
        lines = [self.title, self.kind, self.text]
        lines += [f"example: {self.example}"] if self.example else []
        return "\n    ".join(lines)


def entries(topic: str) -> list[Entry]:
    """Return everything with a name: codes, variables, fields, sections, functions.

    A field may be named with its record or with its variable: Node.labels, node.labels, labels.
    """
    return list(_entries(topic))


def topics() -> list[str]:
    """Return the names of `entries`."""
    environment = stdlib.policy_environment()
    names = {overload.name for overload in environment.overloads}
    names |= {field for record in environment.records.values() for field in record.fields}
    named = [*environment.variables, "device", *environment.sections, *environment.records]
    return [*codes(), *named, *environment.macros, *sorted(names)]


def _entries(topic: str) -> Iterator[Entry]:
    environment, code = stdlib.policy_environment(), topic.upper()
    if code in codes():
        yield _of_code(code)
    if topic in environment.variables:
        yield of_variable(environment.variables[topic])
    for section in environment.sections.values():
        if section.name == topic or section.name.startswith(f"{topic}."):
            yield of_section(section)
    if topic in environment.records:
        yield from _of_record(environment.records[topic])
    yield from _fields(topic)
    if topic in environment.macros:
        yield of_macro(environment.macros[topic])
    yield from (
        of_overload(overload) for overload in environment.overloads if overload.name == topic
    )
    yield from _of_selectors(topic)


def _of_selectors(topic: str) -> Iterator[Entry]:
    """Yield what a name means in selectors over devices alone."""
    environment, shared = stdlib.selector_environment(), set(stdlib.policy_environment().overloads)
    for variable in environment.variables.values():
        if topic == variable.name:
            yield of_device(variable)
    for field in environment.records["Device"].fields.values():
        if topic in (field.name, f"device.{field.name}", "Device"):
            yield of_device(field)
    for overload in environment.overloads:
        if overload.name == topic and overload not in shared:
            yield of_overload(overload)


def of_device(named: stdlib.Variable | stdlib.RecordField) -> Entry:
    """Return the entry of the variable of selectors over devices, or of one of its fields."""
    name = named.name if isinstance(named, stdlib.Variable) else f"device.{named.name}"
    kind = "variable" if isinstance(named, stdlib.Variable) else "field of Device"
    return Entry(f"{name}: {named.type}", f"{kind}, in selectors over devices", named.doc)


def _of_code(name: str) -> Entry:
    code = codes()[name]
    kind = "at run time" if name.startswith("PS6") else code.severity
    return Entry(name, f"code of a problem: {kind}", code.meaning, code.example)


def _fields(topic: str) -> Iterator[Entry]:
    owner, _, name = topic.rpartition(".")
    for record in stdlib.policy_environment().records.values():
        if name in record.fields and owner in ("", record.name, *_variables_of(record)):
            yield of_field(record, record.fields[name])


def _variables_of(record: stdlib.Record) -> list[str]:
    variables = stdlib.policy_environment().variables.values()
    return [variable.name for variable in variables if str(variable.type) == record.name]


def _of_record(record: stdlib.Record) -> Iterator[Entry]:
    yield Entry(record.name, "record", record.doc)
    yield from (of_field(record, field) for field in record.fields.values())


def of_variable(variable: stdlib.Variable) -> Entry:
    """Return the entry of a variable, with the sections that see it."""
    seen = ", ".join(stdlib.policy_environment().sections_with(variable.name)) or "nowhere yet"
    kind = f"variable, {LEVELS[variable.level]}; seen by {seen}"
    return Entry(f"{variable.name}: {variable.type}", kind, variable.doc)


def of_field(record: stdlib.Record, field: stdlib.RecordField) -> Entry:
    """Return the entry of a record's field; its sentence names the unit where there is one."""
    limits = f"; {field.range[0]} to {field.range[1]}" if field.range else ""
    kind = f"field of {record.name}, {LEVELS[field.level]}{limits}"
    return Entry(f"{record.name}.{field.name}: {field.type}", kind, field.doc)


def of_section(section: stdlib.Section) -> Entry:
    """Return the entry of a section of a policy."""
    seen = ", ".join(sorted(section.visible)) or "nothing"
    title = f"{section.name}: {section.expected}"
    return Entry(title, "section of a policy", f"sees {seen}", section.example)


def of_macro(macro: stdlib.MacroForms) -> Entry:
    """Return the entry of a macro."""
    return Entry(macro.title, "macro: its variable is known within it", macro.doc)


def of_overload(overload: stdlib.Overload) -> Entry:
    """Return the entry of one way to call a function, a method or an operator."""
    ext = ", not in Kubernetes' CEL" if overload.ext else ""
    kind = f"{_KINDS[overload.kind]} ({overload.group}){ext}"
    return Entry(overload.signature, kind, overload.doc, overload.example)
