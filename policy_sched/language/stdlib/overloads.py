"""Overloads: the ways to call a function, a method or an operator, and the choice among them.

An overload's ``id`` is its name and the outer words of its parameter types
(`percent_quantity_quantity`, `matches_selector_map`; a type variable's word is `any`); builtins are
keyed by it. A method's receiver is its first parameter.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from policy_sched.language.syntax import Call, Cond, Const, Core
from policy_sched.language.values import (
    QUANTITY,
    UNKNOWN,
    OptionalType,
    QuantityType,
    Type,
    TypeVariable,
    dimensions,
    fit,
    is_known,
    optional_of,
    parse_type,
    quantity_of,
    substitute,
)

Kind = Literal["function", "method", "either", "operator"]


@dataclass(frozen=True, slots=True)
class Overload:
    """One way to call one name.

    ``params`` has the receiver first; ``variadic`` repeats the last one (at least once).
    ``ext`` marks what is not in Kubernetes' CEL; ``reads`` names the variables of the
    environment that a call reads besides its arguments. ``kind`` "either" may be written as a
    function or as a method.
    """

    id: str
    name: str
    kind: Kind
    params: tuple[Type, ...]
    result: Type
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
_NAMESPACES: Final = ("math", "strings", "lists", "sets", "optional")
#: What may stand before the dot of a function's name (`math.abs`).
NAMESPACES: Final = (*_NAMESPACES, "cel")
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


def _word(kind: Type) -> str:
    return "any" if isinstance(kind, TypeVariable) else kind.name.lower()


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
        found = _FUNCTION.match(head)
        assert found, signature
        kind, name, texts = "function", found["name"], _split(found["params"])
        stem = name.replace(".", "_")
    types = [
        parse_type(t.removesuffix("..."), records=records, variables=True) for t in (*texts, result)
    ]
    return Overload(
        id="_".join([stem, *map(_word, types[:-1])]),
        name=name,
        kind="either" if row.get("either") else kind,
        params=tuple(types[:-1]),
        result=types[-1],
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


@dataclass(frozen=True, slots=True)
class Choice:
    """An overload and its result for some arguments; ``clash`` names dimensions that differ."""

    overload: Overload
    result: Type
    dimension: str
    clash: tuple[str, ...] = ()


def choose(candidates: Sequence[Overload], args: Sequence[Type]) -> Choice | None:
    """Return the overload that takes ``args``, or None.

    With arguments whose types are not known several may fit; their common result type is taken,
    and an unknown one where they differ.
    """
    found = [choice for o in candidates if (choice := _try(o, args)) is not None]
    if not found:
        return None
    first = found[0]
    results = {choice.result for choice in found}
    if len(results) > 1 and not all(is_known(a) for a in args):
        return dataclasses.replace(first, result=UNKNOWN)
    return first


def _try(overload: Overload, args: Sequence[Type]) -> Choice | None:
    params = overload.params
    if overload.variadic:
        params = params + params[-1:] * (len(args) - len(params))
    if len(params) != len(args):
        return None
    bound: dict[str, Type] = {}
    if not all(fit(param, arg, bound) for param, arg in zip(params, args, strict=True)):
        return None
    fixed, joint = dimensions(args)
    clash = tuple(sorted(fixed)) if len(fixed) > 1 else ()
    return Choice(overload, _result(overload.result, bound, joint), joint, clash)


def _result(result: Type, bound: dict[str, Type], joint: str) -> Type:
    if result == QUANTITY:
        return quantity_of(joint)
    if isinstance(result, OptionalType) and result.element == QUANTITY:
        return optional_of(quantity_of(joint))
    return substitute(result, bound)


def settle(tree: Core, dimension: str) -> Core:
    """Give a quantity literal, and what is built of literals, the dimension that it meets."""
    if not isinstance(tree.type, QuantityType) or tree.type.dimension != "free":
        return tree
    if dimension == "free" or not isinstance(tree, Call | Cond | Const):
        return tree
    kind = quantity_of(dimension)
    if isinstance(tree, Call):
        args = tuple(settle(arg, dimension) for arg in tree.args)
        return dataclasses.replace(tree, type=kind, args=args)
    if isinstance(tree, Cond):
        return dataclasses.replace(
            tree,
            type=kind,
            then=settle(tree.then, dimension),
            otherwise=settle(tree.otherwise, dimension),
        )
    return dataclasses.replace(tree, type=kind)


def closest(candidates: Sequence[Overload], args: Sequence[Type], limit: int = 3) -> list[str]:
    """Return the signatures that the arguments come nearest to, best first."""

    def misfit(overload: Overload) -> tuple[int, int]:
        pairs = zip(overload.params, args, strict=False)
        wrong = sum(not fit(param, arg, {}) for param, arg in pairs)
        return abs(len(overload.params) - len(args)), wrong

    return [o.signature for o in sorted(candidates, key=misfit)[:limit]]
