"""The table of every operator, function and method of the rule language, and look-up in it.

Theory of operation. A line of a group below is one overload: its signature as an author reads it,
and one sentence. An overload's ``id`` is its name and the outer words of its parameter types
(`percent_quantity_quantity`, `matches_selector_map`; a type variable's word is `any`), so the
compiler keys its kernels by it. A method's receiver is its first parameter. Order matters only
where an argument's type is not known (an empty list of params): the first that fits is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from policy_sched.language.stdlib.declarations_scheduler import SCHEDULER_GROUPS
from policy_sched.language.stdlib.declarations_values import OPERATOR_NAMES, VALUE_GROUPS
from policy_sched.language.values import Type, TypeVariable, parse_type

Kind = Literal["function", "method", "either", "operator"]


@dataclass(frozen=True, slots=True)
class Overload:
    """One way to call one name.

    ``params`` has the receiver first; ``variadic`` repeats the last one (at least once).
    ``ext`` marks what is not in Kubernetes' CEL; ``reads`` names the variables of the
    environment that a call reads besides its arguments; ``since`` is the apiVersion that
    brought it. ``kind`` "either" may be written as a function or as a method.
    """

    id: str
    name: str
    kind: Kind
    params: tuple[Type, ...]
    result: Type
    group: str
    doc: str
    variadic: bool = False
    ext: bool = False
    reads: tuple[str, ...] = ()
    since: str = "v1alpha1"

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


def _split(params: str) -> list[str]:
    """Split a parameter list at its outer commas."""
    parts = re.split(r",\s*(?![^(]*\))", params)
    return [p for p in parts if p]


def _word(kind: Type) -> str:
    return "any" if isinstance(kind, TypeVariable) else kind.name.lower()


def _overload(line: str, group: str, ext: bool) -> Overload:
    """Read one line: ``signature -> result | flags | sentence``."""
    signature, flags, doc = (part.strip() for part in line.split("|", 2))
    head, result = signature.rsplit(" -> ", 1)
    kind: Kind
    if match := _OPERATOR.match(head):
        kind, name = "operator", match["name"]
        texts = [t for t in (match["left"], match["right"]) if t]
        unary = len(texts) == 1
        stem = OPERATOR_NAMES["-u" if unary and name == "-" else name]
    elif (match := _METHOD.match(head)) and match["receiver"] not in _NAMESPACES:
        kind, name = "method", match["name"]
        texts = [match["receiver"], *_split(match["params"])]
        stem = name
    else:
        found = _FUNCTION.match(head)
        assert found, line
        kind, name, texts = "function", found["name"], _split(found["params"])
        stem = name.replace(".", "_")
    variadic = bool(texts) and texts[-1].endswith("...")
    params = tuple(parse_type(t.removesuffix("..."), variables=True) for t in texts)
    words = flags.split()
    return Overload(
        id="_".join([stem, *(_word(p) for p in params)]),
        name=name,
        kind="either" if "either" in words else kind,
        params=params,
        result=parse_type(result, variables=True),
        group=group,
        doc=doc,
        variadic=variadic,
        ext=ext or "ext" in words,
        reads=tuple(w.removeprefix("reads:") for w in words if w.startswith("reads:")),
    )


def _read_table() -> Iterator[Overload]:
    for group, ext, lines in (*VALUE_GROUPS, *SCHEDULER_GROUPS):
        for line in lines.strip().splitlines():
            yield _overload(line, group, ext)


def spellings() -> tuple[Overload, ...]:
    """Return every line of the table, also those that share an id: what a manual lists."""
    return _ALL


def _index(kinds: tuple[Kind, ...]) -> dict[str, tuple[Overload, ...]]:
    found: dict[str, list[Overload]] = {}
    for overload in _ALL:
        if overload.kind in kinds:
            found.setdefault(overload.name, []).append(overload)
    return {name: tuple(overloads) for name, overloads in found.items()}


_ALL: Final = tuple(_read_table())
#: Every overload by its id, in the order of the manual. `a + b` and `a.add(b)` over quantities
#: (and their differences) are two spellings of one id; the operator's entry stands for both.
OVERLOADS: Final[dict[str, Overload]] = dict(
    reversed({overload.id: overload for overload in reversed(_ALL)}.items())
)
#: Overloads by name, for each way of writing a call. Names of functions may hold a dot.
FUNCTIONS: Final = _index(("function", "either"))
METHODS: Final = _index(("method", "either"))
OPERATORS: Final = _index(("operator",))
#: What may stand before the dot of a function's name (`math.abs`).
NAMESPACES: Final = (*_NAMESPACES, "cel")
