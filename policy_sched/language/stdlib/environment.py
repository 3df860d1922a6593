"""The environment of expressions: the variables, records, sections, macros and functions.

The checker takes an `Environment` as a value. That of policies is read from environment.toml and
functions.toml when it is first needed.

An overload is one way to call a function, a method or an operator. Its ``id`` is its name and the
outer words of its parameter types (`percent_quantity_quantity`, `matches_selector_map`; a type
variable's word is `any`); builtins are keyed by it. A method's receiver is its first parameter.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from policy_sched.cluster.tables import MAX_IMAGE
from policy_sched.language.stdlib.input_kinds import core_object
from policy_sched.language.syntax import ast
from policy_sched.language.values import types

Kind = Literal["function", "method", "either", "operator"]


class Overload(msgspec.Struct, frozen=True):
    """One way to call one name.

    ``params`` has the receiver first; ``variadic`` repeats the last one (at least once).
    ``ext`` marks what is not in Kubernetes' CEL; ``reads`` names the variables of the
    environment that a call reads besides its arguments. ``kind`` "either" may be written as a
    function or as a method.
    """

    id: str
    name: str
    kind: Kind
    params: tuple[types.Type, ...]
    result: types.Type
    group: str
    doc: str
    example: str
    variadic: bool = False
    ext: bool = False
    reads: tuple[str, ...] = ()

    @property
    def signature(self) -> str:
        """The overload as an author reads it, such as ``string.contains(string) -> bool``."""
        words = [str(p) for p in self.params]
        if self.variadic:
            words[-1] += ", ..."
        if self.kind == "operator":
            if len(words) == 1:
                return f"{self.name}{words[0]} -> {self.result}"
            return f"{words[0]} {self.name} {words[1]} -> {self.result}"
        if self.kind == "function":
            return f"{self.name}({', '.join(words)}) -> {self.result}"
        return f"{words[0]}.{self.name}({', '.join(words[1:])}) -> {self.result}"


_METHOD = re.compile(r"(?P<receiver>[A-Za-z]+(?:\(.*?\)+)?)\.(?P<name>\w+)\((?P<params>.*)\)$")
_FUNCTION = re.compile(r"(?P<name>[\w.]+)\((?P<params>.*)\)$")
_OPERATOR = re.compile(
    r"(?:(?P<left>\S+(?:\(.*?\)+)?) )?(?P<name>[-+*/%<>=!]+|in) (?P<right>\S.*)$"
)
#: What may stand before the dot of a function's name, in a signature (`math.abs`).
_NAMESPACES: Final = ("math", "strings", "lists", "sets", "optional")
#: The word of each operator in an overload's id ("-u" is the sign before a number).
_OPERATOR_NAMES: Final = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "%": "mod",
    "-u": "neg",
    "!": "not",
    "==": "eq",
    "!=": "ne",
    "<": "lt",
    "<=": "le",
    ">": "gt",
    ">=": "ge",
    "in": "in",
}


def _split(params: str) -> list[str]:
    """Split a parameter list at its outer commas."""
    parts = re.split(r",\s*(?![^(]*\))", params)
    return [p for p in parts if p]


def _word(kind: types.Type) -> str:
    return "any" if isinstance(kind, types.TypeVariable) else kind.name.lower()


def _overload(
    signature: str, group: str, row: Mapping[str, Any], records: Collection[str]
) -> Overload:
    """Return the overload of a row of the document."""
    head, result = signature.rsplit(" -> ", 1)
    kind: Kind
    if match := _OPERATOR.match(head):
        kind, name = "operator", match["name"]
        texts = [t for t in (match["left"], match["right"]) if t]
        stem = _OPERATOR_NAMES["-u" if name == "-" and len(texts) == 1 else name]
    elif (
        (match := _METHOD.match(head))
        and match["receiver"] not in _NAMESPACES
        and not row.get("function")
    ):
        kind, name = "method", match["name"]
        texts = [match["receiver"], *_split(match["params"])]
        stem = name
    else:
        parsed_head = _FUNCTION.match(head)
        assert parsed_head, signature
        kind, name, texts = "function", parsed_head["name"], _split(parsed_head["params"])
        stem = name.replace(".", "_")
    kinds = [
        types.parse_type(t.removesuffix("..."), records=records, variables=True)
        for t in (*texts, result)
    ]
    return Overload(
        id="_".join([stem, *map(_word, kinds[:-1])]),
        name=name,
        kind="either" if row.get("either") else kind,
        params=tuple(kinds[:-1]),
        result=kinds[-1],
        group=group,
        doc=row["doc"],
        example=row["example"],
        variadic=bool(texts) and texts[-1].endswith("..."),
        ext=row.get("ext", False),
        reads=tuple(row.get("reads", ())),
    )


def read_overloads(
    document: Mapping[str, Mapping[str, Mapping[str, Any]]], records: Collection[str]
) -> Iterator[Overload]:
    """Yield the overloads of a TOML document such as functions.toml."""
    for group, rows in document.items():
        for signature, row in rows.items():
            yield _overload(signature, group, row, records)


class Choice(msgspec.Struct, frozen=True):
    """An overload and its result for some arguments; ``clash`` names dimensions that differ."""

    overload: Overload
    result: types.Type
    dimension: str
    clash: tuple[str, ...] = ()


def choose(
    candidates: Sequence[Overload], args: Sequence[types.Type], *, dynamic: bool = False
) -> Choice | None:
    """Return the overload that takes ``args``, or None.

    With arguments whose types are not known several may fit; their common result type is taken,
    and an unknown one where they differ. ``dynamic``: as Kubernetes' CEL has it.
    """
    matching = [choice for o in candidates if (choice := _try(o, args, dynamic)) is not None]
    if not matching:
        return None
    first = matching[0]
    results = {choice.result for choice in matching}
    if len(results) > 1 and not all(types.is_known(a) for a in args):
        return msgspec.structs.replace(first, result=types.DYN if dynamic else types.UNKNOWN)
    return first


def _try(overload: Overload, args: Sequence[types.Type], dynamic: bool) -> Choice | None:
    params = overload.params
    if overload.variadic:
        params = params + params[-1:] * (len(args) - len(params))
    if len(params) != len(args):
        return None
    bound: dict[str, types.Type] = {}
    if not all(types.fit(param, arg, bound) for param, arg in zip(params, args, strict=True)):
        return None
    if dynamic and any(
        isinstance(bound.get(name), types.QuantityType) for name in ("ordered", "amount")
    ):
        return None  # rules alone order and add quantities by operators
    fixed, joint = types.dimensions(args)
    clash = tuple(sorted(fixed)) if len(fixed) > 1 else ()
    return Choice(overload, _result(overload.result, bound, joint), joint, clash)


def _result(result: types.Type, bound: dict[str, types.Type], joint: str) -> types.Type:
    if result == types.QUANTITY:
        return types.quantity_of(joint)
    if isinstance(result, types.OptionalType) and result.element == types.QUANTITY:
        return types.optional_of(types.quantity_of(joint))
    return types.substitute(result, bound)


def settle(tree: ast.Core, dimension: str) -> ast.Core:
    """Give a quantity literal, and what is built of literals, the dimension that it meets."""
    if not isinstance(tree.type, types.QuantityType) or tree.type.dimension != "free":
        return tree
    if dimension == "free" or not isinstance(tree, ast.Call | ast.Cond | ast.Const):
        return tree
    kind = types.quantity_of(dimension)
    if isinstance(tree, ast.Call):
        args = tuple(settle(arg, dimension) for arg in tree.args)
        return msgspec.structs.replace(tree, type=kind, args=args)
    if isinstance(tree, ast.Cond):
        return msgspec.structs.replace(
            tree,
            type=kind,
            then=settle(tree.then, dimension),
            otherwise=settle(tree.otherwise, dimension),
        )
    return msgspec.structs.replace(tree, type=kind)


def closest(candidates: Sequence[Overload], args: Sequence[types.Type]) -> list[str]:
    """Return three signatures that the arguments come nearest to, best first."""

    def misfit(overload: Overload) -> tuple[int, int]:
        pairs = zip(overload.params, args, strict=False)
        wrong = sum(not types.fit(param, arg, {}) for param, arg in pairs)
        return abs(len(overload.params) - len(args)), wrong

    return [o.signature for o in sorted(candidates, key=misfit)[:3]]


Level = Literal["C", "P", "S", "D", "T", "X"]

#: The name of an expression that belongs to no section.
ANY: Final = "any"
#: The text of a function or variable of a policy: it may read what any section sees.
DEFINITION: Final = "definition"

#: The names of variables in the forms of macros.
_VARIABLES: Final = frozenset("xikv")
_FOLDER: Final = Path(__file__).parent
#: Largest count that a column may hold.
_MAX_COUNT: Final = 2**31 - 1
_RANGES: Final[dict[str, tuple[int, int]]] = {
    "int32": (-(2**31), _MAX_COUNT),
    "count": (0, _MAX_COUNT),
    "bytes": (0, MAX_IMAGE),
    "port": (0, 65535),
    "score": (-(2**63), 2**63 - 1),
}
_ORDERED: Final = (
    types.INT,
    types.DOUBLE,
    types.STRING,
    types.BOOL,
    types.TIMESTAMP,
    types.DURATION,
    types.QUANTITY,
)


class RecordField(msgspec.Struct, frozen=True):
    """A field of a record; ``range`` bounds an int's values (inclusive) where that is known."""

    name: str
    type: types.Type
    level: Level
    doc: str
    range: tuple[int, int] | None = None


class Record(msgspec.Struct, frozen=True):
    """A record type and its fields."""

    name: str
    doc: str
    fields: dict[str, RecordField]

    @property
    def object(self) -> types.ObjectType | None:
        """The type of its field `object`, which the whole API object is; None without one."""
        field = self.fields.get("object")
        return field.type if field and isinstance(field.type, types.ObjectType) else None


class Variable(msgspec.Struct, frozen=True):
    """A name that expressions may read."""

    name: str
    type: types.Type
    level: Level
    doc: str


OF_EXPERIMENTS: Final = frozenset({"variants.devices"})
"""Sections that an Experiment has, and a policy has not."""


class Section(msgspec.Struct, frozen=True):
    """A part of a policy: the variables that it sees and the types that its value may have.

    ``results`` is empty where any type will do; ``expected`` describes the types in messages.
    """

    name: str
    visible: frozenset[str]
    results: tuple[types.Type, ...]
    expected: str
    example: str = ""


class MacroForms(msgspec.Struct, frozen=True):
    """A macro that is written as a method: the arguments of each form, and what it gives."""

    name: str
    forms: tuple[str, ...]
    doc: str
    of_optional: bool
    variables: Mapping[int, int]
    """By number of arguments, how many of them are names of variables."""

    @property
    def title(self) -> str:
        """How it is written."""
        operand = "o" if self.of_optional else "e"
        return " or ".join(f"{operand}.{self.name}({form})" for form in self.forms)


@dataclass(frozen=True)
class Environment:
    """What expressions may name.

    ``overloads`` has every spelling of every function. ``habits`` maps names of other rule
    languages to names of this one. ``type_names`` are values where the environment is
    ``dynamic``: types may be known only of a value. ``unsupported`` says why names of CEL mean
    nothing here and what to write, ``elsewhere`` of other names where they mean something.
    """

    variables: Mapping[str, Variable]
    records: Mapping[str, Record]
    sections: Mapping[str, Section]
    overloads: tuple[Overload, ...]
    habits: Mapping[str, str]
    macros: Mapping[str, MacroForms] = field(default_factory=dict)
    type_names: frozenset[str] = frozenset()
    unsupported: Mapping[str, Sequence[str]] = field(default_factory=dict)
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    dynamic: bool = False

    @cached_property
    def namespaces(self) -> frozenset[str]:
        """What may stand before the dot of a function's name, functions apart."""
        prefixes = {name.partition(".")[0] for name in self.functions if "." in name}
        return frozenset({*prefixes, "cel"} - self.functions.keys())

    @cached_property
    def functions(self) -> Mapping[str, tuple[Overload, ...]]:
        """Overloads that are called as functions, by name; a name may hold a dot."""
        return self._index("function", "either")

    @cached_property
    def methods(self) -> Mapping[str, tuple[Overload, ...]]:
        """Overloads that are called as methods, by name."""
        return self._index("method", "either")

    @cached_property
    def operators(self) -> Mapping[str, tuple[Overload, ...]]:
        """Overloads of operators, by sign."""
        return self._index("operator")

    def _index(self, *kinds: Kind) -> Mapping[str, tuple[Overload, ...]]:
        by_name: dict[str, list[Overload]] = {}
        for overload in self.overloads:
            if overload.kind in kinds:
                by_name.setdefault(overload.name, []).append(overload)
        return {name: tuple(overloads) for name, overloads in by_name.items()}

    def section(self, name: str) -> Section:
        """Return a section by its name, `ANY` and `DEFINITION` included."""
        if name in (ANY, DEFINITION):
            return Section(name, self._all_visible, (), "a value")
        return self.sections[name]

    @cached_property
    def _all_visible(self) -> frozenset[str]:
        return frozenset.union(*(section.visible for section in self.sections.values()))

    def fields_of(self, kind: types.Type) -> dict[str, types.Type] | None:
        """Return a record's fields with their types, or None if the type is not a record."""
        if not isinstance(kind, types.RecordType):
            return None
        if kind.name in self.records and not kind.fields:
            fields = self.records[kind.name].fields
            return {name: field.type for name, field in fields.items()} or None
        return dict(kind.fields)

    def sections_with(self, name: str) -> tuple[str, ...]:
        """Return a policy's sections that see the variable ``name``, in the manual's order."""
        seeing = [
            s.name
            for s in self.sections.values()
            if name in s.visible and s.name not in OF_EXPERIMENTS
        ]
        places = tuple(dict.fromkeys(section.partition(".")[0] for section in seeing))
        if places in (("preemption",), ("placement",), ("devices",)):
            return tuple(seeing)
        return ("score.normalize",) if name in ("score", "scores") else places


def _environment(
    document: Mapping[str, Any], overloads: Iterable[Overload], **more: Any
) -> Environment:
    """Return the environment that a TOML document such as environment.toml describes."""
    records = document["records"]
    return Environment(
        variables={
            name: Variable(
                name, types.parse_type(row["type"], records=records), row["level"], row["doc"]
            )
            for name, row in document["variables"].items()
        },
        records={
            name: Record(name, row["doc"], _read_fields(name, row["fields"], records))
            for name, row in records.items()
        },
        sections={name: _read_section(name, row) for name, row in document["sections"].items()},
        overloads=tuple(overloads),
        habits=document["habits"],
        type_names=frozenset(document["types"]),
        **more,
    )


def _read_fields(
    record: str, rows: Mapping[str, Any], records: Collection[str]
) -> dict[str, RecordField]:
    """Return the fields of a record; one row may describe several of one type."""
    return {
        name: RecordField(
            name,
            core_object(record)
            if row["type"] == "object"
            else types.parse_type(row["type"], records=records),
            row["level"],
            row["doc"],
            _RANGES.get(row.get("range", "")),
        )
        for names, row in rows.items()
        for name in names.split()
    }


def _read_section(name: str, row: Mapping[str, Any]) -> Section:
    inputs: tuple[str, ...] = ()
    if {"pod", "head", "key"} & {*row["sees"]} and name not in OF_EXPERIMENTS:
        inputs = ("inputs",)
    common = ("params", "variables", *inputs)
    visible = frozenset(row["sees"] if row.get("alone") else (*common, *row["sees"]))
    if row["results"] == "ordered":
        return Section(name, visible, _ORDERED, "an ordered type", row["example"])
    results = tuple(map(types.parse_type, row["results"]))
    return Section(name, visible, results, " or ".join(map(str, results)), row["example"])


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((_FOLDER / name).read_text(encoding="utf-8"))


@cache
def policy_environment() -> Environment:
    """Return the environment of policies."""
    document, features = _read("environment.toml"), _read("unsupported.toml")
    return _environment(
        document,
        read_overloads(_read("functions.toml"), document["records"]),
        macros=_macros("rules"),
        unsupported={
            name: (f"{feature} is CEL, but not part of rules", "")
            for name, feature in features.items()
        },
    )


#: Groups, and functions by id, of Kubernetes' CEL that upstream does not turn on for devices.
_LEFT_OUT: Final = frozenset(
    {"Math", "reverse_string", "optional_unwrap_list", "unwrapOpt_list", "sign_quantity"}
)


@cache
def selector_environment(*, new: bool = False) -> Environment:
    """Return the environment of selectors over devices, as kube-apiserver 1.36 has it.

    Functions that policies have, too, are their rows, except what Kubernetes leaves out. ``new``:
    of an object that is being created, for which kube-apiserver has fewer functions.
    """
    document, rules = _read("selector_environment.toml"), policy_environment()
    refused = document["refused"] if new else {}
    shared = [
        overload
        for overload in rules.overloads
        if not overload.ext
        and _LEFT_OUT.isdisjoint((overload.group, overload.id))
        and overload.name not in refused
    ]
    own = read_overloads(_read("selector_functions.toml"), document["records"])
    names = (*(overload.name for overload in rules.overloads), *rules.macros, *rules.namespaces)
    elsewhere = dict.fromkeys(names, "policies have it; Kubernetes' CEL over devices does not")
    elsewhere |= dict.fromkeys(rules.variables, "policies have it; a selector sees only `device`")
    return _environment(
        document,
        (*shared, *(overload for overload in own if overload.name not in refused)),
        macros=_macros("selectors"),
        unsupported=refused,
        elsewhere=elsewhere,
        dynamic=True,
    )


def _macros(dialect: str) -> Mapping[str, MacroForms]:
    forms = {}
    for name, row in _read("macros.toml").items():
        if dialect in row.get("in", [dialect]):
            words = [form.split(", ") for form in row["forms"] if form]
            variables = {len(form): len(_VARIABLES.intersection(form)) for form in words}
            optional = row.get("of") == "optional"
            forms[name] = MacroForms(name, tuple(row["forms"]), row["doc"], optional, variables)
    return forms
