"""Prints the operations of rules as terms of the solver: a third printer beside those for rows.

Theory of operation. A column of ops.toml, ``smt``, has the text of each operation's term, over the
functions below; what follows from an operation's data (columns, fields, calls, loops) is made
here. An error is an int, the number of its site, 0 for none, as in the generated programs. Loops
over lists of the model are unrolled. An operation without a term is `Opaque`: what is read of it is
a fresh constant that may be anything, the same one for the same operation over the same arguments.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import cache
from types import CodeType
from typing import Any, Final

import z3

from policy_sched import model
from policy_sched.language import ir, lower
from policy_sched.language.ir import ops
from policy_sched.language.stdlib import (
    BUILTINS,
    amount,
    element,
    has_element,
    has_key,
    policy_environment,
    tolerates,
    value_at,
)
from policy_sched.language.values import CONVERSION, INT_MAX, INT_MIN, Some, types
from policy_sched.model import MAX_UNITS
from policy_sched.prove import terms
from policy_sched.prove.scores import Scores
from policy_sched.prove.terms import (
    Choice,
    Code,
    Double,
    Listing,
    Mapping as MappingTerm,
    Opaque,
    Optional,
    Record,
    Term,
    as_double,
    checked,
    conjunction,
    counted,
    disjunction,
    equal,
    failed,
    implies,
    is_term,
    ite,
    negation,
)
from policy_sched.prove.world import AMOUNTS, INTS, World

_TESTS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    name: getattr(operator, name) for name in ("lt", "le", "gt", "ge")
}
#: The last character that a text of the solver may have.
LAST_CHARACTER: Final = "\U0002ffff"
WITHOUT_TERM: Final = {
    "nodes": "Other nodes, their domains, and counts of their pods: a claim has one node.",
    "aggregates": "Aggregates, which count pods of other nodes and of the queue.",
    "inputs": "Objects of inputs as a whole, and what is read of all of them.",
    "devices": "Devices, which an allocator chooses.",
    "affinity": "Affinity to nodes.",
    "numbers": "Deviations of numbers, and numbers by their place in a table.",
    "texts": "Host ports, parts of texts, and columns whose name is not constant.",
    "programs": "What programs over many nodes compute at once; terms are of programs for one.",
}
"""What may be anything in a proof, by what ops.toml says of operations without a term."""
_NAMES: Final = {builtin.function: name for name, builtin in BUILTINS.items()}
SECOND: Final = 10**9
#: Elements of a constant list over which a loop is unrolled, and elements of all loops of a policy.
_LONGEST: Final = 200
_MOST: Final = 20_000

Environment = Mapping[int, Any]
"""What loop variables stand for, by their serial number."""
_NOTHING_BOUND: Final[Mapping[int, int]] = {}


def _is_int(value: Any) -> bool:
    return z3.is_int(value) if is_term(value) else type(value) is int


_FORMS: Final[dict[str, Callable[[Any], bool]]] = {
    "b": lambda value: z3.is_bool(value) if is_term(value) else type(value) is bool,
    "i": _is_int,
    "e": _is_int,
    "s": lambda value: z3.is_string(value) if is_term(value) else isinstance(value, str),
    "f": lambda value: isinstance(value, Double),
    "c": lambda value: isinstance(value, Code),
}
"""Whether a value has the form of an operation."""


@cache
def _compiled(text: str) -> CodeType:
    """Return the code of a text of the column ``smt``."""
    plain = re.sub(r"\{(\d)\}", r"a[\1]", text).replace("{*}", "*a").replace("{s}", "op.data")
    return compile(plain, "ops.toml", "eval")


def part(pair: Any, number: int) -> Any:
    """Return the value of a (value, error), or the error; None of what is no pair."""
    return pair[number] if type(pair) is tuple else None


def of_choice(value: Any, make: Callable[[Any], Any]) -> Any:
    """Return what is made of a value, or of both of a choice; None where one has no term."""
    if not isinstance(value, Choice):
        return make(value)
    then, otherwise = of_choice(value.then, make), of_choice(value.otherwise, make)
    return None if then is None or otherwise is None else ite(value.test, then, otherwise)


def is_some(value: Any) -> Any:
    """Return whether an optional has a value; None where that has no term."""
    if isinstance(value, Choice):
        return of_choice(value, is_some)
    return value.present if isinstance(value, Optional) else False if value is None else None


def opt_value(value: Any, default: Any) -> Any:
    """Return the value of an optional, or a default."""
    if isinstance(value, Optional):
        return ite(value.present, value.value, default)
    return default if value is None else None


def masked(*pairs: Any) -> Listing:
    """Return the list of values whose mask is true."""
    return Listing(tuple(zip(pairs[::2], pairs[1::2], strict=True)))


def of_list(items: Any, position: Any, default: Any) -> Any:
    """Return the element of a list at a position, a default where it has none."""
    if not isinstance(items, Listing):
        return None
    chosen, before = default, 0
    cases = []
    for taken, item in items.items:
        cases.append((conjunction(taken, equal(before, position)), item))
        before = before + ite(taken, 1, 0)
    for test, item in reversed(cases):
        chosen = ite(test, item, chosen)
    return chosen


def _in(value: Any, items: Any) -> Any:
    if not isinstance(items, Listing):
        return None
    parts = []
    for there, item in items.items:
        if isinstance(item, tuple | dict | list | float) or isinstance(value, tuple | dict | list):
            return None
        parts.append(conjunction(there, equal(value, item)))
    return disjunction(*parts)


def _texts(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: function(terms.text_of(a), terms.text_of(b))


CALLS: Final[dict[str, Callable[..., Any]]] = {
    "contains_string_string": _texts(z3.Contains),
    "startsWith_string_string": _texts(lambda a, b: z3.PrefixOf(b, a)),
    "endsWith_string_string": _texts(lambda a, b: z3.SuffixOf(b, a)),
    "indexOf_string_string": _texts(lambda a, b: z3.IndexOf(a, b, 0)),
    "add_string_string": _texts(z3.Concat),
    "in_any_list": _in,
    "add_list_list": lambda a, b: Listing(a.items + b.items),
}
"""Terms of functions that do not fail, by the id of their overload; None where there is none."""


def int_of_text(text: Any) -> tuple[Any, Any]:
    """Return the int that a text is in decimal digits with or without a sign, and if it is none."""
    text = terms.text_of(text)
    below = z3.PrefixOf(z3.StringVal("-"), text)
    signed = z3.Or(below, z3.PrefixOf(z3.StringVal("+"), text))
    digits = z3.If(signed, z3.SubString(text, 1, z3.Length(text) - 1), text)
    size_of = z3.StrToInt(digits)
    number = z3.If(below, -size_of, size_of)
    return number, negation(conjunction(size_of >= 0, terms.within_int64(number)))


def _try_int(text: Any) -> Optional:
    number, wrong = int_of_text(text)
    return Optional(negation(wrong), number)


CALLS["tryInt_string"] = _try_int


def _limits(amounts: Any) -> tuple[float, float]:
    """Return the least and the most that amounts by resource can be, 0 among them."""
    match amounts:
        case MappingTerm(kind="amounts"):
            return 0, MAX_UNITS
        case Opaque(amounts=(least, most)):
            return least, most
        case Choice(then=then, otherwise=otherwise):
            (a, b), (c, d) = _limits(then), _limits(otherwise)
            return min(a, c), max(b, d)
        case dict():
            return min([0, *amounts.values()]), max([0, *amounts.values()])
    return -math.inf, math.inf


def _of_amounts(sign: int) -> Callable[[Any, Any], Any]:
    """Return what adds amounts, or subtracts them, where that cannot leave int64."""

    def made(a: Any, b: Any) -> Any:
        (low, high), (less, more) = _limits(a), _limits(b)
        ends = (low + less, high + more) if sign > 0 else (low - more, high - less)
        inside = ends[0] >= INT_MIN and ends[1] <= INT_MAX
        return (Opaque(("amounts", sign, a, b), ends), False) if inside else None

    return made


def _between(a: Any, b: Any) -> tuple[Any, Any]:
    """Return the time between two moments, and whether it is no duration."""
    return a - b, negation(terms.within_int64(a - b))


FALLIBLE: Final[dict[str, Callable[..., tuple[Any, Any] | None]]] = {
    "int_string": int_of_text,
    "add_resources_resources": _of_amounts(1),
    "sub_resources_resources": _of_amounts(-1),
    "sub_timestamp_timestamp": _between,
}
"""Terms of functions that may fail: the value, and whether they fail with their only error."""


class Printer:
    """Terms of the operations of one policy, over one pod and node."""

    def __init__(self, world: World, salt: str = "") -> None:
        """``salt`` tells what has no term from the same in another world."""
        self._salt = salt
        self._scored: tuple[Any, Scores] | None = None
        self._unrolled = 0
        self.world = world
        self.made = world.terms
        self._shapes: dict[tuple[Any, ...], int] = {}
        self.names: dict[str, Any] = {
            "made": self.made, "conjunction": conjunction, "disjunction": disjunction, "ite": ite,
            "negation": negation, "counted": counted, "failed": failed, "same": self.same,
            "compare": self.compare, "extreme": self.extreme, "checked": checked,
            "truncated": self._truncated, "to_int": self._to_int, "magnitude": self._magnitude,
            "is_some": is_some, "opt_value": opt_value, "Optional": Optional,
            "mean": self._mean, "weighted": self._weighted, "masked": masked,
            "part": part,
            "field": self.field, "fits": self._fits, "Code": Code, "Opaque": Opaque,
            "Record": Record,
        }  # fmt: skip

        self._calls: dict[Any, Callable[..., Any]] = {
            has_key: lambda *given: self._of_map(given, there=True),
            value_at: lambda *given: self._of_map(given, there=False),
            has_element: lambda items, at: conjunction(at >= 0, at < self._size(items)),
            element: of_list, amount: self._amount, len: self._size, tolerates: self._tolerated,
            BUILTINS["int_timestamp"].function: lambda at: self.made.divided(at, SECOND),
        }  # fmt: skip

    @contextmanager
    def scored(self, score: Any, scores: Scores) -> Iterator[None]:
        """Take a raw score and those of all nodes for what `score` and `scores` are."""
        before, self._salt = self._salt, f"{self._salt}scored{id(scores)}"
        self._scored = (score, scores)
        try:
            yield
        finally:
            self._salt, self._scored = before, None

    @staticmethod
    def code_of(kind: ir.OpKind) -> CodeType:
        """Return the code of the text that an operation's kind has for its term."""
        return _compiled(kind.smt)

    def term(self, op: ir.Op, env: Environment | None = None) -> Any:
        """Return the value of an operation; ``env``: what its loop variables stand for."""
        env = {} if env is None else env
        own = tuple((p.serial, id(env.get(p.serial))) for p in op.params if p.serial in env)
        key = (self._salt, self.shape(op), tuple(sorted(own)))
        kept = self.world.kept
        if key not in kept:
            kept[key] = (self._made(op, env), env)
        return kept[key][0]

    def text(self, op: ir.Op) -> Any:
        """Return the value of an operation that is a text, or stands for one."""
        value = self.term(op)
        if isinstance(value, Code):
            return ite(value.present, value.text, "")
        if _FORMS["s"](value):
            return value
        return self._of_rep("s", ("text", self._digest(op, {})), described(op))

    def outcome(self, value: lower.Value) -> tuple[Any, Term]:
        """Return the value of what is lowered, and whether it fails instead."""
        fails = False if value.err is None else failed(self.term(value.err))
        return self.term(value.op), fails

    def _made(self, op: ir.Op, env: Environment) -> Any:
        kind = op.kind
        if kind is ops.PARAM:
            return env.get(op.serial, Opaque(("param", op.serial)))
        if kind.smt == "leaf":
            value = self._leaf(op, env)
            return self._opaque(op, env) if value is None else self._read(op, value, env)
        if not kind.smt:
            return self._opaque(op, env)
        arguments = [self.term(arg, env) for arg in op.args]
        if op.kind is ops.WHERE and not is_term(arguments[0]):
            return arguments[1] if arguments[0] else arguments[2]
        try:
            # The texts are those of ops.toml, which no user writes.
            value = eval(  # noqa: S307
                self.code_of(kind), {"__builtins__": {}}, {**self.names, "op": op, "a": arguments}
            )
        except (TypeError, AttributeError, z3.Z3Exception):
            value = None  # an argument is opaque, or a choice of structures
        return self._opaque(op, env) if value is None else self._read(op, value, env)

    def _read(self, op: ir.Op, value: Any, env: Environment) -> Any:
        """Return a value in the form of its operation: numbers of what is opaque are constants."""
        if isinstance(value, Choice) and op.rep in "bisfce":
            return of_choice(value, lambda branch: self._read(op, branch, env))
        if isinstance(value, Opaque) and op.rep != "o":
            return self._constant(op, value.key)
        if op.rep in _FORMS and not _FORMS[op.rep](value):
            return self._opaque(op, env)  # a placeholder in a branch that is not taken
        return value

    # What has no term.

    def _opaque(self, op: ir.Op, env: Environment) -> Any:
        key = ("opaque", self._digest(op, env))
        return Opaque(key) if op.rep == "o" else self._constant(op, key)

    def _constant(self, op: ir.Op, key: tuple[Any, ...]) -> Any:
        """Return what an operation without a term may be, once for equal ones."""
        note = described(op)
        if op.rep[0] == "t":
            fails = self.made.once((*key, "fails"), lambda: self.made.fresh(z3.BoolSort(), note))
            value = self._of_rep(op.rep[1:], key, note, _limits_of(op, key))
            return value, ite(fails, self._site(op), 0)
        if op.rep == "e":
            fails = self.made.once((*key, "fails"), lambda: self.made.fresh(z3.BoolSort(), note))
            return ite(fails, 1, 0)
        value = self._of_rep(op.rep, key, note, _limits_of(op, key))
        pods = isinstance(op.data, str) and op.data in self.world.counts
        if op.rep == "i" and (pods or note == "size" or note.startswith("count_")):
            self.made.fact(value >= 0)
        return value

    @staticmethod
    def _site(op: ir.Op) -> int:
        site = op.data.site if isinstance(op.data, ir.Call | ir.Loop) else op.data
        return site if isinstance(site, int) and site > 0 else 1

    def _of_rep(
        self, rep: str, key: tuple[Any, ...], note: str, limits: tuple[float, float] = (0, INT_MAX)
    ) -> Any:
        """Return a constant of a form; ``limits``: the least and the most of an int."""

        def make() -> Any:
            match rep:
                case "b":
                    return self.made.fresh(z3.BoolSort(), note)
                case "s":
                    return self.made.fresh(z3.StringSort(), note)
                case "f":
                    return self.made.any_double(note)
                case "c":
                    there, text = z3.BoolSort(), z3.StringSort()
                    return Code(self.made.fresh(there, note), self.made.fresh(text, note))
                case "i":
                    number = self.made.fresh(z3.IntSort(), note)
                    self.made.fact(number >= int(limits[0]), number <= int(limits[1]))
                    return number
            return Opaque(key)

        return self.made.once((*key, rep), make)

    def _digest(self, op: ir.Op, env: Environment) -> str:
        """Return what operations have in common that are equal, of whichever policy."""
        own = sorted(p.serial for p in op.params if p.serial in env)
        spelt = [(number, self._spelt(env[number])) for number in own]
        return f"{self._salt}{self.shape(op)}{spelt}"

    def _spelt(self, value: Any) -> str:
        """Return a text that two values have in common only if they are equal."""
        if isinstance(value, model.Taint | model.Toleration):
            return repr(value)
        if is_term(value) or not isinstance(value, bool | int | float | str | tuple | list | dict):
            self.world.alive.append(value)
            return f"term{value.get_id()}" if is_term(value) else f"object{id(value)}"
        if isinstance(value, dict):
            return f"map{[(repr(key), self._spelt(of)) for key, of in value.items()]}"
        if isinstance(value, tuple | list):
            return f"{type(value).__name__}{[self._spelt(part) for part in value]}"
        return f"{type(value).__name__} {value!r}"

    def shape(self, op: ir.Op, names: Mapping[int, int] = _NOTHING_BOUND) -> int:
        """Return a number that equal operations have in common, of whichever policy.

        Where errors come from does not count. ``names``: levels of loops, by their variable.
        """
        own = sorted((p.serial, names[p.serial]) for p in op.params if p.serial in names)
        place = (op, tuple(own))
        if place not in self._shapes:
            key = self._form(op, dict(own))
            self._shapes[place] = self.world.shapes.setdefault(key, len(self.world.shapes))
        return self._shapes[place]

    def _form(self, op: ir.Op, names: dict[int, int]) -> tuple[Any, ...]:
        data, inner = op.data, names
        if isinstance(data, ir.Loop):
            level = max(names.values(), default=-1) + 1
            inner = {**names, data.param: level}
            if data.index is not None:
                inner[data.index] = level + 1
            indexed = data.index is not None
            data = (data.kind.name, indexed, data.errors, data.masked, bool(data.site))
        elif isinstance(data, ir.Call):
            data = (_NAMES.get(data.function, data.function), data.guards, data.default)
        elif isinstance(data, ir.graph.Table):
            data = (data.first, data.entries)
        elif op.rep in ("e", "ti"):
            data = bool(data)  # the place of an error
        number = names.get(op.serial, -op.serial) if op.kind is ops.PARAM else 0
        first, rest = op.args[:1], op.args[1:]
        shapes = (*(self.shape(a, names) for a in first), *(self.shape(a, inner) for a in rest))
        return (op.kind.name, op.rep, self._spelt(data), number, shapes)

    # Leaves.

    def _leaf(self, op: ir.Op, env: Environment) -> Any:
        """Return what is written down, read of the model, or what a call or a loop makes."""
        match op.kind.name:
            case "const":
                return self._known(op.data, op.rep)
            case "column":
                family, argument = (*op.data, "")[:2]  # type: ignore[misc]  # a key is a tuple
                return self.world.column(family, argument, op.rep)
            case "pods_at":
                return self.world.pods()
            case "runtime_of" if op.data == "namespace":
                return Record("Namespace", ("namespace",))
            case "of_ctx" if op.data == "victim":
                return self.world.victim()
            case "of_ctx" | "cluster":
                return Opaque((op.data or "cluster", self._digest(op, env)))
            case "input":
                return Opaque((self.world.inputs.get(str(op.data), "input"), op.data))
            case "quota" | "victim_quota" | "quota_total":
                return Opaque(("quota", self._digest(op, env)))
            case "score" | "scores" if self._scored is not None:
                return self._scored[op.kind is ops.SCORES]
            case "call":
                return self._call(op, env)
            case "loop":
                return self._loop(op, env)
        return None

    def _known(self, value: object, rep: str) -> Any:
        if _is_beyond(value):
            return Opaque(("constant", value if isinstance(value, str) else repr(value)))
        if rep == "f" and isinstance(value, int | float):
            return self.made.double(float(value))
        if isinstance(value, Some):
            return Optional(True, self._known(value.value, "o"))
        if isinstance(value, Fraction):
            return Opaque(("constant", value))
        if isinstance(value, float):
            return self.made.double(value)
        if isinstance(value, list | tuple) and len(value) <= _LONGEST:
            return Listing(tuple((True, self._known(item, "o")) for item in value))
        return value

    def field(self, value: Any, name: str, rep: str) -> Any:
        """Return a field of an object."""
        match value:
            case Choice():
                return of_choice(value, lambda branch: self.field(branch, name, rep))
            case Record():
                return self.world.attribute(value, name, rep)
            case Scores():
                return value.field(name)
            case Opaque(key):
                return Opaque((*key, name), AMOUNTS.get((key[0], name)))
            case model.Taint() | model.Toleration():
                return getattr(value, name)
        return None

    def _fits(self, wanted: Any, family: str) -> Any:
        """Return whether requests fit: those of the resources that are named, and of all others."""
        if not isinstance(wanted, MappingTerm) or family not in ("free", "allocatable"):
            return None
        others = {name: self.world.flag(("others", name)) for name in ("free", "allocatable")}
        self.made.fact(implies(others["free"], others["allocatable"]))
        self.made.notes |= {str(flag): "fitsIn" for flag in others.values()}
        parts = [others[family]]
        for resource in ("cpu", "memory"):
            needs = self.world.amount(wanted, resource)
            room = self.world.column(family, resource, "i")
            parts.append(disjunction(needs <= 0, needs <= room))
        return conjunction(*parts)

    # Calls.

    def _call(self, op: ir.Op, env: Environment) -> Any:
        call = op.data
        assert isinstance(call, ir.Call)
        arguments = [self.term(arg, env) for arg in op.args]
        guards, plain = arguments[: call.guards], arguments[call.guards :]
        try:
            if op.rep[0] == "t":
                return self._fallible(call, guards, plain, op.rep[1:])
            value = self._called(call.function, plain)
        except (TypeError, AttributeError, z3.Z3Exception):
            return None
        if value is None or not guards:
            return value
        wrong = disjunction(*map(failed, guards))
        return ite(wrong, self._known(call.default, op.rep), value)

    def _fallible(
        self, call: ir.Call, guards: Sequence[Any], given: Sequence[Any], rep: str
    ) -> Any:
        """Return the (value, error) of a call that may fail."""
        term = FALLIBLE.get(_NAMES.get(call.function, ""))
        pair = None if term is None else term(*given)
        if pair is None:
            return None
        (value, fails), wrong = pair, disjunction(*map(failed, guards))
        default, site = self._known(call.default, rep), (call.site or 1) + CONVERSION - 1
        error = ite(conjunction(negation(wrong), fails), site, 0)
        return ite(disjunction(wrong, fails), default, value), error

    def _called(self, function: Callable[..., object], given: Sequence[Any]) -> Any:
        if all(not is_term(value) and isinstance(value, bool | int | str) for value in given):
            result = function(*given)
            return result if isinstance(result, bool | int | str) else None
        known = self._calls.get(function) or CALLS.get(_NAMES.get(function, ""))
        return None if known is None else known(*given)

    def _of_map(self, given: Sequence[Any], *, there: bool) -> Any:
        mapping, key = given[0], given[1]
        default = given[2] if len(given) > 2 else False
        if isinstance(mapping, Opaque) and not there:
            return Opaque((*mapping.key, self._spelt(key)))
        if isinstance(mapping, Choice):
            rest = given[1:]
            return of_choice(mapping, lambda branch: self._of_map((branch, *rest), there=there))
        if isinstance(mapping, MappingTerm) and isinstance(key, str):
            if mapping.kind == "amounts":
                return None
            entry = self.world.entry(mapping, key)
            return entry.present if there else ite(entry.present, entry.text, default)
        if not isinstance(mapping, dict) or len(mapping) > _LONGEST:
            return None
        if not is_term(key):
            return key in mapping if there else self._known(mapping.get(key, default), "o")
        chosen = False if there else default
        for name, value in mapping.items():
            chosen = ite(equal(key, name), True if there else self._known(value, "o"), chosen)
        return chosen

    def _amount(self, mapping: Any, resource: Any) -> Any:
        if isinstance(mapping, Choice):
            return of_choice(mapping, lambda branch: self._amount(branch, resource))
        if isinstance(mapping, dict) and isinstance(resource, str):
            return mapping.get(resource, 0)
        if isinstance(mapping, MappingTerm) and isinstance(resource, str):
            return self.world.amount(mapping, resource)
        return None

    def _tolerated(self, tolerations: Any, taint: Any) -> Any:
        """Return whether one of the tolerations tolerates a taint, as `Toleration.tolerates`."""
        if not isinstance(tolerations, Listing):
            return None
        cases = []
        for there, item in tolerations.items:
            own = {n: self.field(item, n, "s") for n in ("effect", "key", "value")}
            same = {n: equal(of, self.field(taint, n, "s")) for n, of in own.items()}
            operator = self.field(item, "operator", "s")
            any_or_same = [disjunction(equal(own[n], ""), same[n]) for n in ("effect", "key")]
            exists, *equals = (equal(operator, word) for word in ("Exists", "", "Equal"))
            same_value = conjunction(disjunction(*equals), same["value"])
            cases.append(conjunction(there, *any_or_same, disjunction(exists, same_value)))
        return disjunction(*cases)

    # Loops.

    def _loop(self, op: ir.Op, env: Environment) -> Any:
        loop = op.data
        assert isinstance(loop, ir.Loop)
        source = self.term(op.args[0], env)
        if isinstance(source, dict):
            source = self._known(list(source), "o")
        if isinstance(source, Opaque):
            return self._over_unknown(op, loop, env)
        if not isinstance(source, Listing) or len(source.items) > _LONGEST:
            return None
        if self._among(op, env) >= self.world.bound and any(
            there is not True for there, _ in source.items
        ):
            return None  # with fewer elements than loops, two of them would always be one
        self._unrolled += len(source.items)
        return None if self._unrolled > _MOST else Unrolled(self, op, loop, source, env).result()

    def _over_unknown(self, op: ir.Op, loop: ir.Loop, env: Environment) -> Any:
        """Return what a loop makes of a list without a term.

        Where it fails, it does so as it would with one of the elements alone.
        """
        value, error = self._constant(op, ("opaque", self._digest(op, env)))
        if loop.kind is not ir.LoopKind.FOLD and not loop.site:
            single = Listing(((True, Opaque(("element", self._digest(op, env)))),))
            alone = Unrolled(self, op, loop, single, env).result()
            if alone is not None:
                self.made.fact(implies(failed(error), failed(alone[1])))
        return value, error

    def _size(self, items: Any) -> Any:
        """Return the length of a list or a text; None where it has no term."""
        match items:
            case Listing():
                return counted(there for there, _ in items.items)
            case Opaque(key):
                size = self._of_rep("i", (*key, "size"), "size")
                if key[0] == "quota" and key[2:] == ("path",):
                    exists = self._of_rep("b", (*key[:2], "exists"), "exists")
                    self.made.fact(implies(exists, size >= 1))
                return size
        return z3.Length(items) if is_term(items) and z3.is_string(items) else None

    @staticmethod
    def _among(op: ir.Op, env: Environment) -> int:
        """Return of how many loops around it an operation reads elements that are not known."""
        values = (env.get(param.serial) for param in op.params)
        return sum(is_term(value) or isinstance(value, Record | Opaque) for value in values)

    # Numbers.

    def same(self, a: Any, b: Any) -> Any:
        """Return whether two values are equal; None where that has no term."""
        match a, b:
            case Code(), Code():
                there = equal(a.present, b.present)
                return conjunction(there, disjunction(negation(a.present), equal(a.text, b.text)))
            case Code(), int():
                return None if b else negation(a.present)
            case int(), Code():
                return None if a else negation(b.present)
            case Double(), _:
                return self.made.compared(a, as_double(b), operator.eq)
            case _, Double():
                return self.made.compared(as_double(a), b, operator.eq)
        if isinstance(a, tuple | dict | list) or isinstance(b, tuple | dict | list):
            return None
        return equal(a, b)

    def compare(self, test: str, a: Any, b: Any) -> Any:
        """Return whether two numbers or texts compare so."""
        if isinstance(a, Double) or isinstance(b, Double):
            return self.made.compared(as_double(a), as_double(b), _TESTS[test])
        if isinstance(a, str) or isinstance(b, str):
            a, b = terms.text_of(a), terms.text_of(b)
        return _TESTS[test](a, b)

    def extreme(self, test: str, a: Any, b: Any) -> Any:
        """Return b where it compares so with a, else a."""
        if isinstance(a, Double) or isinstance(b, Double):
            return self.made.chosen(as_double(a), as_double(b), _TESTS[test])
        return ite(_TESTS[test](b, a), b, a)

    def _truncated(self, number: Double) -> Any:
        value = terms.reals(number.value, 0)[0]
        inside = number.most < 2.0**63 or conjunction(value >= -(2**63), value < 2**63)
        return ite(conjunction(number.finite, inside), self.made.truncated(number), 0)

    def _to_int(self, number: Double, site: int) -> tuple[Any, Any]:
        value = terms.reals(number.value, 0)[0]
        inside = number.most < 2.0**63 or conjunction(value > -(2**63), value < 2**63)
        whole = ite(conjunction(number.finite, inside), self.made.truncated(number), 0)
        return whole, ite(number.finite, ite(inside, 0, site), site + 4)

    def _magnitude(self, number: Double) -> Double:
        value = number.value
        return number._replace(
            value=ite(value < 0, -value, value) if is_term(value) else abs(value)
        )

    def _mean(self, *pairs: Any) -> Double:
        masks, values = pairs[::2], pairs[1::2]
        summed = self.made.double(0.0)
        for mask, value in zip(masks, values, strict=True):
            summed = self.made.add(summed, ite(mask, value, self.made.double(0.0)))
        count, mean = counted(masks), self.made.double(0.0)
        for number in range(1, len(masks) + 1):
            share = self.made.divide(summed, self.made.double(float(number)))
            mean = ite(equal(count, number), share, mean)
        return mean

    def _weighted(self, *triples: Any) -> Any:
        parts = [triples[i : i + 3] for i in range(0, len(triples), 3)]
        upper = terms.total(ite(mask, value * weight, 0) for mask, value, weight in parts)
        whole = terms.total(ite(mask, weight, 0) for mask, _, weight in parts)
        return ite(equal(whole, 0), 0, self.made.quotient(upper, whole))


def _is_beyond(value: object) -> bool:
    """Return whether a text, or a key of a map, has a character that z3 does not know."""
    texts = value if isinstance(value, dict) else (value,)
    return any(isinstance(text, str) and any(c > LAST_CHARACTER for c in text) for text in texts)


def described(op: ir.Op) -> str:
    """Return how an operation without a term is called in a reason."""
    if isinstance(op.data, ir.Call):
        name = _NAMES.get(op.data.function, "")
        return name.partition("_")[0] or getattr(op.data.function, "__name__", "a function")
    if isinstance(op.data, ir.Loop):
        return "a loop"
    if op.kind in (ops.ATTR, ops.FIELD_OF_POD):
        return str(op.data)
    if op.kind is ops.COLUMN and isinstance(op.data, tuple):
        return str(op.data[0])
    return op.kind.name


#: Attributes that are moments, and those of objects, which may be.
_MOMENTS: Final = re.compile(r"f_.*|now|.*_(time|at|since)")


@cache
def _results() -> Mapping[str, types.Type]:
    """Return the types that functions return, by the id of their overload."""
    return {overload.id: overload.result for overload in policy_environment().overloads}


def _limits_of(op: ir.Op, key: tuple[Any, ...]) -> tuple[float, float]:
    """Return the least and the most of an int without a term: a moment is often no int64."""
    stated = INTS.get(key[0] if len(key) == 2 else (key[0], key[-1]))
    if stated is not None:
        return stated
    whole = False
    if isinstance(op.data, ir.Call):
        result = _results().get(_NAMES.get(op.data.function, ""))
        whole = result in (types.INT, types.DURATION)
    elif op.kind in (ops.ATTR, ops.FIELD_OF_POD):
        whole = not _MOMENTS.fullmatch(str(op.data))
    kind = lower.range_of(types.INT if whole else types.TIMESTAMP)
    return kind.lo, kind.hi


class Unrolled:
    """A loop over the elements of a list, one after the other."""

    def __init__(
        self, printer: Printer, op: ir.Op, loop: ir.Loop, source: Listing, env: Environment
    ) -> None:
        self._printer, self._loop = printer, loop
        self._source, self._env = source, env
        rest = list(op.args[1:])
        self._stages = [rest.pop(0) for _ in range(loop.errors)]
        self._first = rest.pop() if loop.kind is ir.LoopKind.FOLD else None
        self._mask = rest.pop(0) if loop.masked else None
        self._value = rest[0]
        self._error = rest[1] if len(rest) > 1 else None
        self._stage_errors: list[Term] = [0] * loop.errors

    def _elements(self) -> Iterator[tuple[Term, Any, dict[int, Any]]]:
        """Yield when each element takes part, itself, and the variables with it."""
        position: Term = 0
        for there, item in self._source.items:
            if there is False:
                continue
            env = {**self._env, self._loop.param: item}
            if self._loop.index is not None and self._first is None:
                env[self._loop.index] = position
            for i, stage in enumerate(self._stages):
                error = ite(there, self._printer.term(stage, env), 0)
                so_far = self._stage_errors[i]
                self._stage_errors[i] = ite(failed(so_far), so_far, error)
            taken = there
            if self._mask is not None:
                taken = conjunction(there, self._printer.term(self._mask, env))
            yield taken, item, env
            position = position + ite(there, 1, 0)

    def result(self) -> Any:
        """Return (value, error), or None where the loop has no term."""
        match self._loop.kind:
            case ir.LoopKind.ALL | ir.LoopKind.EXISTS:
                pair = self._quantifier(every=self._loop.kind is ir.LoopKind.ALL)
            case ir.LoopKind.COUNT:
                pair = counted([taken for taken, _, _ in self._elements()]), 0
            case ir.LoopKind.SUM_INT:
                pair = self._sum()
            case ir.LoopKind.SUM_DOUBLE:
                pair = self._sum_of_doubles()
            case ir.LoopKind.LIST:
                items = [(t, self._printer.term(self._value, e)) for t, _, e in self._elements()]
                pair = Listing(tuple(items)), 0
            case ir.LoopKind.FOLD if self._first is not None:
                pair = self._fold(self._first)
            case _:
                return None
        value, error = pair
        for stage in reversed(self._stage_errors):
            error = ite(failed(stage), stage, error)
        return value, error

    def _quantifier(self, *, every: bool) -> tuple[Any, Any]:
        decided, errors = [], []
        for taken, _, env in self._elements():
            value = self._printer.term(self._value, env)
            error = 0 if self._error is None else self._printer.term(self._error, env)
            decides = negation(value) if every else value
            decided.append(conjunction(taken, negation(failed(error)), decides))
            errors.append(ite(taken, error, 0))
        settled, first = disjunction(*decided), 0
        for error in reversed(errors):
            first = ite(failed(error), error, first)
        return (negation(settled) if every else settled), ite(settled, 0, first)

    def _sum(self) -> tuple[Any, Any]:
        so_far: Any = 0
        error: Any = 0
        for taken, _, env in self._elements():
            so_far = so_far + ite(taken, self._printer.term(self._value, env), 0)
            if self._loop.site:
                so_far, own = checked(so_far, self._loop.site)
                error = ite(failed(error), error, own)
        return so_far, error

    def _sum_of_doubles(self) -> tuple[Any, Any]:
        made = self._printer.made
        so_far = made.double(0.0)
        for taken, _, env in self._elements():
            added = made.add(so_far, self._printer.term(self._value, env))
            so_far = ite(taken, added, so_far)
        return so_far, 0

    def _fold(self, first: ir.Op) -> tuple[Any, Any]:
        so_far, error = self._printer.term(first, self._env), 0
        for there, item in self._source.items:
            env = {**self._env, self._loop.param: item, self._loop.index or 0: so_far}
            if self._error is not None:
                own = ite(there, self._printer.term(self._error, env), 0)
                error = ite(failed(error), error, own)
            so_far = ite(there, self._printer.term(self._value, env), so_far)
        return so_far, error
