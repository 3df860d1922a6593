"""Looks up what the tables of the language say of a name: for ``docs``, and for editors."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from policy_sched.language.check import METHOD_MACROS
from policy_sched.language.diagnostics import CODES, WARNINGS
from policy_sched.language.examples import EXAMPLES
from policy_sched.language.problem_examples import CODE_EXAMPLES, SECTION_EXAMPLES
from policy_sched.language.stdlib import (
    RECORDS,
    SECTIONS,
    VARIABLES,
    Overload,
    Record,
    RecordField,
    Section,
    Variable,
    sections_with,
    spellings,
)

LEVELS: Final = {
    "C": "changes with the files",
    "P": "changes with the pod",
    "S": "a node's own data",
    "D": "changes with what runs on a node",
    "T": "changes with the cluster",
    "X": "changes with the feasible nodes",
}
MACROS: Final = {
    "all": "all(x, test): is the test true of every element",
    "exists": "exists(x, test): is the test true of an element",
    "exists_one": "exists_one(x, test): is the test true of exactly one element",
    "existsOne": "existsOne(x, test): is the test true of exactly one element",
    "map": "map(x, value) or map(x, test, value): the values of the elements",
    "filter": "filter(x, test): the elements of which the test is true",
    "sum": "sum(x, value): the sum of the elements' values",
    "transformList": "transformList(i, v, value) or transformList(i, v, test, value): the values",
    "transformMap": "transformMap(k, v, value) or transformMap(k, v, test, value): keys stay",
    "optMap": "optMap(x, value): the value of what is there, else nothing",
    "optFlatMap": "optFlatMap(x, optional): the optional of what is there, else nothing",
}
"""Every macro that is written as a method, and what it gives."""

_KINDS: Final = {
    "function": "function",
    "method": "method",
    "either": "function or method",
    "operator": "operator",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that has a name: how it is written, of what kind it is, and what it means."""

    title: str
    kind: str
    text: str
    example: str = ""

    def __str__(self) -> str:
        lines = [self.title, self.kind, self.text]
        lines += [f"example: {self.example}"] if self.example else []
        return "\n    ".join(lines)


def entries(topic: str) -> list[Entry]:
    """Return everything that is called so: codes, variables, fields, sections, functions.

    A field may be named with its record or with its variable: Node.labels, node.labels, labels.
    """
    return list(_entries(topic))


def nearest(topic: str, more: tuple[str, ...] = ()) -> str:
    """Return a name that looks like ``topic``, or ""."""
    names = {overload.name for overload in spellings()}
    names |= {field for record in RECORDS.values() for field in record.fields}
    known = [*CODES, *VARIABLES, *SECTIONS, *RECORDS, *METHOD_MACROS, *sorted(names), *more]
    close = difflib.get_close_matches(topic, known, n=1)
    return close[0] if close else ""


def _entries(topic: str) -> Iterator[Entry]:
    code = topic.upper()
    if code in CODES:
        yield Entry(code, _kind_of(code), CODES[code], CODE_EXAMPLES[code])
    if topic in VARIABLES:
        yield of_variable(VARIABLES[topic])
    for section in SECTIONS.values():
        if section.name == topic or section.name.startswith(f"{topic}."):
            yield of_section(section)
    if topic in RECORDS:
        yield from _of_record(RECORDS[topic])
    yield from _fields(topic)
    if topic in METHOD_MACROS:
        yield of_macro(topic)
    yield from (of_overload(one) for one in spellings() if one.name == topic)


def _kind_of(code: str) -> str:
    at_run_time = "at run time" if code.startswith("PS6") else "error"
    return f"code of a problem: {WARNINGS.get(code, at_run_time)}"


def _fields(topic: str) -> Iterator[Entry]:
    owner, _, name = topic.rpartition(".")
    for record in RECORDS.values():
        if name in record.fields and owner in ("", record.name, *_variables_of(record)):
            yield of_field(record, record.fields[name])


def _variables_of(record: Record) -> list[str]:
    return [name for name, variable in VARIABLES.items() if variable.type == record.type]


def _of_record(record: Record) -> Iterator[Entry]:
    yield Entry(record.name, "record", record.doc)
    yield from (of_field(record, field) for field in record.fields.values())


def of_variable(variable: Variable) -> Entry:
    """Return the entry of a variable, with the sections that see it."""
    seen = ", ".join(sections_with(variable.name)) or "nowhere yet"
    kind = f"variable, {LEVELS[variable.level]}; seen by {seen}"
    return Entry(f"{variable.name}: {variable.type}", kind, variable.doc)


def of_field(record: Record, field: RecordField) -> Entry:
    """Return the entry of a record's field; its sentence names the unit where there is one."""
    limits = f"; {field.range[0]} to {field.range[1]}" if field.range else ""
    kind = f"field of {record.name}, {LEVELS[field.level]}{limits}"
    return Entry(f"{record.name}.{field.name}: {field.type}", kind, field.doc)


def of_section(section: Section) -> Entry:
    """Return the entry of a section of a policy."""
    seen = ", ".join(sorted(section.visible)) or "nothing"
    title, example = f"{section.name}: {section.expected}", SECTION_EXAMPLES[section.name]
    return Entry(title, "section of a policy", f"sees {seen}", example)


def of_macro(name: str) -> Entry:
    """Return the entry of a macro."""
    form, _, meaning = MACROS[name].partition(": ")
    return Entry(f"e.{form}", "macro: its variable is known within it", meaning)


def of_overload(overload: Overload) -> Entry:
    """Return the entry of one way to call a function, a method or an operator."""
    ext = ", not in Kubernetes' CEL" if overload.ext else ""
    kind = f"{_KINDS[overload.kind]} ({overload.group}){ext}"
    return Entry(overload.signature, kind, overload.doc, EXAMPLES[overload.id])
