"""The environment of rules: records with their fields, variables, and the sections that see them.

Theory of operation. `RECORDS` lists the fields of each record, `VARIABLES` the names of
records and values, `SECTIONS` the variables that an expression of a section may read and the type
of its value. A field's level says how often its value changes: C config, P per pod,
S with a node's static data, D with what runs on a node, T with the cluster as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from policy_sched.cluster.tables import MAX_IMAGE
from policy_sched.language.stdlib.variables_text import RECORD_TEXTS, VARIABLE_TEXT
from policy_sched.language.values import (
    BOOL,
    DOUBLE,
    DURATION,
    INT,
    QUANTITY,
    STRING,
    TIMESTAMP,
    RecordType,
    Type,
    list_of,
    optional_of,
    parse_type,
    record,
)

Level = Literal["C", "P", "S", "D", "T", "X"]

#: Largest count that a column may hold.
MAX_COUNT: Final = 2**31 - 1
_RANGES: Final[dict[str, tuple[int, int]]] = {
    "int32": (-(2**31), MAX_COUNT),
    "count": (0, MAX_COUNT),
    "bytes": (0, MAX_IMAGE),
    "port": (0, 65535),
    "score": (-(2**63), 2**63 - 1),
}


@dataclass(frozen=True, slots=True)
class RecordField:
    """A field of a record; ``range`` bounds an int's values (inclusive) where that is known."""

    name: str
    type: Type
    level: Level
    doc: str
    range: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A record type: one of the scheduler's nouns."""

    name: str
    doc: str
    fields: dict[str, RecordField]

    @property
    def type(self) -> RecordType:
        """The record as a type of the language."""
        return record(self.name)


@dataclass(frozen=True, slots=True)
class Variable:
    """A name that expressions may read."""

    name: str
    type: Type
    level: Level
    doc: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a policy: the names that it sees, and the types that its value may have.

    ``expected`` is what a problem prints; ``results`` are the types allowed.
    """

    name: str
    visible: frozenset[str]
    results: tuple[Type, ...]
    expected: str


def _read_record(name: str, doc: str, lines: str) -> Record:
    fields = {}
    for line in lines.strip().splitlines():
        names, kind, level, limits, sentence = (part.strip() for part in line.split("|", 4))
        for field_name in names.split():
            fields[field_name] = RecordField(
                field_name, parse_type(kind), _level(level), sentence, _RANGES.get(limits)
            )
    return Record(name, doc, fields)


def _level(text: str) -> Level:
    for level in ("C", "P", "S", "D", "T", "X"):
        if text == level:
            return level
    raise ValueError(text)


def _read_variables(lines: str) -> dict[str, Variable]:
    found = {}
    for line in lines.strip().splitlines():
        name, kind, level, doc = (part.strip() for part in line.split("|", 3))
        found[name] = Variable(name, parse_type(kind), _level(level), doc)
    return found


RECORDS: Final[dict[str, Record]] = {
    name: _read_record(name, doc, lines) for name, doc, lines in RECORD_TEXTS
}
#: Every variable of any section, `params` and `variables` apart, whose types a policy gives.
VARIABLES: Final[dict[str, Variable]] = _read_variables(VARIABLE_TEXT)

#: What `score` and `scores` are where the rule that gives raw scores is a double.
DOUBLE_SCORES: Final[dict[str, Type]] = {"score": DOUBLE, "scores": record("DoubleStats")}

_EVERYWHERE: Final = frozenset({"params", "variables", "pod", "namespaceObject"})
_BASE: Final = _EVERYWHERE | {"now"}
_CYCLE: Final = _BASE | {"cluster", "cycle", "podGroup"}
_NODE: Final = _CYCLE | {"node"}
_CHOSEN: Final = _BASE | {"node", "cluster", "podGroup"}

_GROUPED: Final = _BASE | {"cluster", "podGroup"}

_ORDERED: Final = (INT, DOUBLE, STRING, BOOL, TIMESTAMP, DURATION, QUANTITY)

_SECTIONS: Final = (
    Section("matchConditions", _BASE | {"cluster"}, (BOOL,), "bool"),
    Section("preEnqueue", _BASE | {"queue", "podGroup"}, (BOOL,), "bool"),
    Section("preEnqueue.messageExpression", _BASE | {"queue", "podGroup"}, (STRING,), "string"),
    Section("queueSort", _EVERYWHERE | {"queue", "podGroup"}, _ORDERED, "an ordered type"),
    Section(
        "preFilter.nodeNames",
        _CYCLE,
        (list_of(STRING), optional_of(list_of(STRING))),
        "list(string) or optional(list(string))",
    ),
    Section("filter", _NODE, (BOOL,), "bool"),
    Section("filter.resolvable", _NODE, (BOOL,), "bool"),
    Section("filter.messageExpression", _NODE, (STRING,), "string"),
    Section("filter.reasons", _NODE, (list_of(STRING),), "list(string)"),
    Section("score", _NODE, (INT, DOUBLE), "int or double"),
    Section("score.matchConditions", _BASE | {"cluster"}, (BOOL,), "bool"),
    Section("score.normalize", _NODE | {"score", "scores"}, (INT, DOUBLE), "int or double"),
    Section("preemption.eligible", _BASE | {"cluster"}, (BOOL,), "bool"),
    Section("preemption.victim", _BASE | {"cluster", "node", "victim"}, (BOOL,), "bool"),
    Section("preemption.victimOrder", _EVERYWHERE | {"victim"}, _ORDERED, "an ordered type"),
    Section(
        "preemption.nodeOrder",
        _BASE | {"cluster", "node", "victims", "pdbViolations"},
        _ORDERED,
        "an ordered type",
    ),
    Section("reserve", _CHOSEN, (BOOL,), "bool"),
    Section("reserve.messageExpression", _CHOSEN, (STRING,), "string"),
    Section("permit.allow", _CHOSEN, (BOOL,), "bool"),
    Section("permit.timeout", _CHOSEN, (DURATION,), "duration"),
    Section("permit.messageExpression", _CHOSEN, (STRING,), "string"),
    Section("preBind", _CHOSEN, (BOOL,), "bool"),
    Section("preBind.messageExpression", _CHOSEN, (STRING,), "string"),
    Section("bind", _CHOSEN, (BOOL,), "bool"),
    Section("postBind", _CHOSEN, (STRING,), "string"),
    Section("placement.domain", _GROUPED | {"node"}, (STRING,), "string"),
    Section("placement.score", _GROUPED | {"placement"}, (INT, DOUBLE), "int or double"),
    Section("requeue.hint", _BASE | {"event"}, (BOOL,), "bool"),
    Section("requeue.every", frozenset({"params", "variables"}), (DURATION,), "duration"),
)
SECTIONS: Final[dict[str, Section]] = {section.name: section for section in _SECTIONS}
_ALL_VISIBLE: Final = frozenset.union(*(s.visible for s in _SECTIONS))
#: What a function's or a variable's text may read: what any section sees. Any type will do.
DEFINITION: Final = Section("definition", _ALL_VISIBLE, (), "a value")
#: An expression by itself, outside every section.
ANY: Final = Section("any", _ALL_VISIBLE, (), "a value")
#: Where the variables stand that no section above sees.
ELSEWHERE: Final[dict[str, str]] = {}
#: What of `podGroup` stays the same while a pod waits in the queue.
STABLE_GROUP_FIELDS: Final = frozenset({"name", "minCount", "topologyKey", "scheduleTimeout"})
#: Names from other rule languages, and what they are here.
HABITS: Final[dict[str, str]] = {
    "object": "pod",
    "self": "pod",
    "oldObject": "pod",
    "request": "pod",
    "device": "node",
    "MY": "pod",
    "TARGET": "node",
    "namespace": "namespaceObject",
    "nodes": "cluster",
    "true_": "true",
    "True": "true",
    "False": "false",
    "len": "size",
    "TRUE": "true",
    "FALSE": "false",
}


def sections_with(name: str) -> tuple[str, ...]:
    """Return the sections that see the variable ``name``, in the order of the manual."""
    seeing = [s.name for s in _SECTIONS if name in s.visible]
    places = tuple(dict.fromkeys(section.partition(".")[0] for section in seeing))
    if places in (("preemption",), ("placement",)):
        return tuple(seeing)
    if name in ("score", "scores"):
        places = ("score.normalize",)
    return places or ((ELSEWHERE[name],) if name in ELSEWHERE else ())
