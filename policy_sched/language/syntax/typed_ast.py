"""The typed tree: what the checker hands to the compiler, with every name and overload settled.

Theory of operation. The parser's tree (syntax.py) says what was written; this one says what is
meant. User functions and `cel.bind` are still calls and lets here, macros are one node with
their lambda, `has()` is a presence test, and each operator and function is a `Call` to one
overload of functions.py. Nothing in this tree is wrong: whatever was wrong has been reported.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from policy_sched.language.values import Type


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of character offsets in one expression's text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """Anything that has a type and a place in the text."""

    type: Type
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Const(Core):
    """A literal: bool, int, float, str, or (durations, timestamps) int nanoseconds."""

    value: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Var(Core):
    """A name: a variable of the environment, a macro variable, or a function's parameter.

    ``variables.x`` is ``Var("variables.x")``; macro variables are made unique by the checker
    (``x#3``), so that a name means one thing in one tree.
    """

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Field(Core):
    """A record's field, by the name that the author wrote (``hostPorts``)."""

    operand: Core
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Index(Core):
    """``operand[index]``: a map's or resources' value, a list's element. Strict: may error.

    ``optional`` is true for ``operand[?index]``, whose type is an optional. A ``.?field``
    and a map's ``m.key`` arrive here too, with a constant string index.
    """

    operand: Core
    index: Core
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Has(Core):
    """``has(operand.key)`` over a map or resources: is there such a key. Never errs by itself."""

    operand: Core
    key: Core


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Core):
    """An operator, function or method, settled to one overload id of functions.py."""

    overload: str
    args: tuple[Core, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class And(Core):
    """``a && b && c``, absorbing errors as CEL does."""

    args: tuple[Core, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Or(Core):
    """``a || b || c``, absorbing errors as CEL does."""

    args: tuple[Core, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cond(Core):
    """``test ? then : otherwise``; an error in ``test`` is its own, a branch's only if taken."""

    test: Core
    then: Core
    otherwise: Core


@dataclass(frozen=True, slots=True, kw_only=True)
class ListLit(Core):
    """``[a, b, ?c]``; ``optional[i]`` tells whether element i was written with ``?``."""

    elements: tuple[Core, ...]
    optional: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapLit(Core):
    """``{k: v, ?k2: o}``, in source order."""

    keys: tuple[Core, ...]
    values: tuple[Core, ...]
    optional: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Let(Core):
    """``cel.bind(name, value, body)``: value is evaluated when body first reads it."""

    name: str
    value: Core
    body: Core


@dataclass(frozen=True, slots=True, kw_only=True)
class Macro(Core):
    """An iteration over a list or a map's keys.

    ``kind``: all, exists, existsOne, filter, map, transformList, transformMap, optMap,
    optFlatMap. ``names``: one variable, or two (index or key, value). ``test`` is the
    predicate (all, exists, existsOne, filter and the filtering form of map and transform*),
    ``body`` the transform; the one that a kind has not is None. For optMap and optFlatMap,
    ``operand`` is an optional and ``body`` the transform.
    """

    kind: str
    operand: Core
    names: tuple[str, ...]
    test: Core | None = None
    body: Core | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserCall(Core):
    """A call of a policy's own function; the compiler inlines it."""

    name: str
    args: tuple[Core, ...]


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A function of a policy's ``functions`` section: parameters by unique name, and the body."""

    name: str
    params: tuple[str, ...]
    body: Core
