"""Values of rules as terms of the solver: numbers, texts, optionals, lists, maps.

Theory of operation. A value is a plain Python value where it is known, a term of z3 where it is
not, or a structure of these: a `Code` is a text that may be missing, a `Double` a real number that
stands for a double, a `Listing` a list whose elements are there or not. What has no exact term is
`Opaque`, and any number or text made of it is a fresh constant that may be anything: what holds
for every value of it holds for the right one, so that a proof stays a proof. `Terms` keeps what
must hold of the fresh constants, and notes each one, so that a counterexample that rests on one is
not taken for one.

Doubles: the value of a finite double is exact, a real. A result that need not be a double is
rounded by a function of which is known only what IEEE 754 promises of every rounding to nearest:
it is monotone, exact for whole numbers up to 2**53, and off by a factor of 2**-53 at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, Final, NamedTuple

import z3

from policy_sched.language.values import INT_MAX, INT_MIN

Term = Any
"""A bool, an int or a text of Python, or an expression of z3 of that sort."""

#: Whole numbers up to it are doubles.
EXACT: Final = 2**53
_UNIT: Final = Fraction(1, 2**53)
_LEAST: Final = Fraction(1, 2**1074)
_LARGEST: Final = Fraction(2) ** 1023
_FAR: Final = 1e300


class Code(NamedTuple):
    """A text that may be missing."""

    present: Term
    text: Term


class Double(NamedTuple):
    """A double: its value where it is finite, whether it is, and what is known of the value.

    ``most``: no finite value is farther from 0; ``whole``: every finite value is a whole number.
    """

    value: Term
    finite: Term
    most: float = math.inf
    whole: bool = False


class Optional(NamedTuple):
    """An optional as a value."""

    present: Term
    value: Any


class Listing(NamedTuple):
    """A list: its elements in order, each with the condition under which it is there."""

    items: tuple[tuple[Term, Any], ...]


class Record(NamedTuple):
    """An object of the API, by its kind and what it is called in the model."""

    kind: str
    path: tuple[Any, ...]


class Mapping(NamedTuple):
    """A map of texts (labels, annotations), or amounts by resource, of an object."""

    kind: str
    path: tuple[Any, ...]


class Opaque(NamedTuple):
    """A value without a term; equal keys are equal values.

    ``amounts``: of amounts by resource, the least and the most that each can be.
    """

    key: tuple[Any, ...]
    amounts: tuple[float, float] | None = None


class Choice(NamedTuple):
    """One of two structures."""

    test: Term
    then: Any
    otherwise: Any


def is_term(value: object) -> bool:
    """Return whether a value is an expression of z3."""
    return isinstance(value, z3.ExprRef)


def conjunction(*parts: Term) -> Term:
    """Return whether all of several conditions hold."""
    left = [part for part in parts if part is not True]
    if any(part is False for part in left):
        return False
    return True if not left else left[0] if len(left) == 1 else z3.And(*left)


def disjunction(*parts: Term) -> Term:
    """Return whether one of several conditions holds."""
    left = [part for part in parts if part is not False]
    if any(part is True for part in left):
        return True
    return False if not left else left[0] if len(left) == 1 else z3.Or(*left)


def negation(test: Term) -> Term:
    """Return whether a condition does not hold."""
    return z3.Not(test) if is_term(test) else not test


def implies(test: Term, then: Term) -> Term:
    """Return whether one condition holds wherever another does."""
    return disjunction(negation(test), then)


def _identical(a: Any, b: Any) -> bool:
    if is_term(a) or is_term(b):
        return is_term(a) and is_term(b) and bool(a.eq(b))
    return type(a) is type(b) and bool(a == b)


def ite(test: Term, then: Any, otherwise: Any) -> Any:  # one for each form
    """Return one of two values of the same type."""
    if not is_term(test):
        return then if test else otherwise
    if then is otherwise:
        return then
    match then, otherwise:
        case Double(), Double():
            return Double(
                ite(test, then.value, otherwise.value),
                ite(test, then.finite, otherwise.finite),
                max(then.most, otherwise.most),
                then.whole and otherwise.whole,
            )
        case (Code(), Code()) | (Optional(), Optional()):
            return type(then)(*map(ite, [test, test], then, otherwise))
        case Listing(), Listing():
            return Listing(
                tuple((conjunction(test, there), item) for there, item in then.items)
                + tuple((conjunction(negation(test), t), item) for t, item in otherwise.items)
            )
        case tuple(), _:
            return then if then == otherwise else Choice(test, then, otherwise)
        case _, tuple():
            return Choice(test, then, otherwise)
    if _identical(then, otherwise):
        return then
    if (
        not is_term(then)
        and not is_term(otherwise)
        and not isinstance(then, bool | int | str | Fraction)
    ):
        return Choice(test, then, otherwise)
    if isinstance(then, bool) and isinstance(otherwise, bool):
        return test if then else z3.Not(test)
    return z3.If(test, lifted(then, otherwise), lifted(otherwise, then))


def lifted(value: Any, beside: Any) -> Any:
    """Return a value as an expression, so that z3 need not guess the sort."""
    if is_term(value):
        return value
    if isinstance(value, bool):
        return z3.BoolVal(value)
    if isinstance(value, str):
        return z3.StringVal(escaped(value))
    if isinstance(value, Fraction) or (is_term(beside) and z3.is_real(beside)):
        return z3.RealVal(str(Fraction(value)))
    return z3.IntVal(value)


def escaped(text: str) -> str:
    """Return a text in z3's notation, in which a backslash begins an escape."""
    return "".join(c if " " <= c <= "~" and c != "\\" else f"\\u{{{ord(c):x}}}" for c in text)


def text_of(text: Term) -> Term:
    """Return a text as an expression."""
    return text if is_term(text) else z3.StringVal(escaped(text))


def literal_text(term: Term) -> str:
    """Return the text of an expression that is written down, which z3 writes with escapes."""
    parts, rest = [], term.as_string()
    while rest:
        before, mark, after = rest.partition("\\u{")
        parts.append(before)
        if not mark:
            break
        digits, _, rest = after.partition("}")
        parts.append(chr(int(digits, 16)))
    return "".join(parts)


def parts_of(terms: Iterable[Term]) -> Iterator[Term]:
    """Yield each expression within expressions, once."""
    todo, seen = [term for term in terms if is_term(term)], set[int]()
    while todo:
        part = todo.pop()
        if part.get_id() not in seen:
            seen.add(part.get_id())
            yield part
            todo += part.children()


def names_in(*terms: Term) -> set[str]:
    """Return the names of the constants and functions of expressions that have no meaning."""
    decls = (part.decl() for part in parts_of(terms))
    return {decl.name() for decl in decls if decl.kind() == z3.Z3_OP_UNINTERPRETED}


def texts_in(terms: Iterable[Term]) -> list[str]:
    """Return the texts that expressions name, shortest first."""
    texts = {literal_text(part) for part in parts_of(terms) if z3.is_string_value(part)}
    return sorted(texts, key=lambda text: (len(text), text))


def joined(a: Term, b: Term) -> Term:
    """Return one text after the other."""
    return z3.Concat(text_of(a), text_of(b)) if is_term(a) or is_term(b) else a + b


def equal(a: Any, b: Any) -> Term:
    """Return whether two texts, ints or bools are equal."""
    if _identical(a, b):
        return True
    if is_term(a) or is_term(b):
        return lifted(a, b) == lifted(b, a)
    return a == b


def unlike(a: Any, b: Any) -> Term:
    """Return whether two bools, ints or texts differ."""
    return negation(equal(a, b))


def total(parts: Iterable[Term]) -> Term:
    """Return the sum of ints."""
    so_far: Term = 0
    for part in parts:
        so_far = part if not is_term(so_far) and so_far == 0 else so_far + part
    return so_far


def counted(tests: Iterable[Term]) -> Term:
    """Return how many conditions hold."""
    return total(ite(test, 1, 0) for test in tests)


def within_int64(number: Term) -> Term:
    """Return whether an int is one of 64 bits."""
    return conjunction(number >= INT_MIN, number <= INT_MAX)


def failed(error: Any) -> Any:
    """Return whether an error is one."""
    return error != 0


def checked(number: Any, site: int) -> tuple[Any, Any]:
    """Return (number, 0), or (0, site) outside of int64."""
    inside = within_int64(number)
    return ite(inside, number, 0), ite(inside, 0, site)


class Fact(NamedTuple):
    """What holds of constants; ``needs``: those of which a question must name one, or every one."""

    term: Term
    names: frozenset[str]
    needs: frozenset[str] | None = None
    every: bool = False

    def concerns(self, constants: set[str]) -> bool:
        """Return whether a question about constants has to know it."""
        needs = self.names if self.needs is None else self.needs
        return needs <= constants if self.every else not needs.isdisjoint(constants)


_FRESH: Final = "any!"


class Terms:
    """Makes terms that need a definition, and keeps the definitions.

    ``notes``: by name of a fresh constant, what it stands for that has no exact term.
    """

    def __init__(self) -> None:
        self.defined: list[Term] = []
        self.hints: list[Term] = []
        self.assumed: list[Term] = []
        self.notes: dict[str, str] = {}
        self._kept: dict[tuple[Any, ...], Any] = {}
        self._number = 0
        self._rounded: list[tuple[Term, Term]] = []
        self._percents: list[tuple[Term, Term, Term]] = []
        self._most: dict[int, tuple[Term, float]] = {}

    def once(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """Return what was made for a key, or make it."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def fact(self, *facts: Term) -> None:
        """Note what a fresh constant is defined as, which some value of it is for any others."""
        self.defined += [fact for fact in facts if fact is not True]

    def hint(self, *facts: Term) -> None:
        """Note what follows from definitions, but is found late."""
        self.hints += [fact for fact in facts if fact is not True]

    def assume(self, *facts: Term) -> None:
        """Note what is assumed of every pod and node."""
        self.assumed += [fact for fact in facts if fact is not True]

    def facts(self) -> list[Fact]:
        """Return all that was noted: ``assumed``, ``defined``, and ``hints``."""
        facts = [Fact(fact, frozenset(names_in(fact))) for fact in self.assumed]
        for stated, every in ((self.defined, False), (self.hints, True)):
            for fact in stated:
                names = frozenset(names_in(fact))
                fresh = frozenset(name for name in names if name.startswith(_FRESH))
                facts.append(Fact(fact, names, fresh or names, every=every))
        return facts

    def fresh(self, sort: Term, note: str = "") -> Term:
        """Return a constant that may be anything; ``note``: what it stands for."""
        self._number += 1
        name = f"{_FRESH}{self._number}"
        if note:
            self.notes[name] = note
        return z3.Const(name, sort)

    # Ints.

    def most_is(self, number: Term, most: float) -> Term:
        """Note how far an int can be from 0, for the doubles made of it, and return it."""
        if is_term(number):
            self._most[number.get_id()] = (number, most)
        return number

    def most_of(self, number: Term) -> float:
        """Return how far an int can be from 0."""
        if not is_term(number):
            return float(abs(number))
        stated = self._most.get(number.get_id())
        if stated is not None:
            return stated[1]
        if z3.is_int_value(number):
            return float(abs(number.as_long()))
        if z3.is_app_of(number, z3.Z3_OP_ITE):
            return max(self.most_of(number.arg(1)), self.most_of(number.arg(2)))
        if z3.is_add(number) or z3.is_sub(number) or z3.is_app_of(number, z3.Z3_OP_UMINUS):
            return sum(map(self.most_of, number.children()))
        return 2.0**63

    def divided(self, a: Term, b: Term) -> Term:
        """Return a / b rounded down, for b > 0; anything for other divisors."""
        if not is_term(a) and not is_term(b):
            return a // b if b else 0
        if not is_term(b):
            return lifted(a, b) / b if b > 0 else 0 if b == 0 else self._floor(a, b)
        return self._floor(a, b)

    def _floor(self, a: Term, b: Term) -> Term:
        def make() -> Term:
            q = self.fresh(z3.IntSort())
            self.fact(z3.Implies(lifted(b, a) > 0, z3.And(q * b <= a, a < q * b + b)))
            self.fact(z3.Implies(lifted(b, a) < 0, z3.And(q * b >= a, a > q * b + b)))
            return q

        return self.once(("floor", _key(a), _key(b)), make)

    def quotient(self, a: Term, b: Term) -> Term:
        """Return a / b truncated towards zero; 0 where b is 0."""
        size = self.divided(absolute(a), absolute(b))
        signed = ite(equal(ite(a < 0, True, False), ite(b < 0, True, False)), size, -size)
        return ite(
            disjunction(equal(b, 0), conjunction(equal(b, -1), equal(a, INT_MIN))), 0, signed
        )

    def remainder(self, a: Term, b: Term) -> Term:
        """Return a % b with the sign of a; 0 where b is 0."""
        size = absolute(a) - self.divided(absolute(a), absolute(b)) * absolute(b)
        return ite(equal(b, 0), 0, ite(a < 0, -size, size))

    def percent(self, part: Term, whole: Term) -> Term:
        """Return part * 100 / whole within 0..100; 0 where whole <= 0."""
        low, high = disjunction(whole <= 0, part <= 0), part >= whole

        def make() -> Term:
            q = self.divided(part * 100, whole)
            inside = conjunction(negation(low), negation(high))
            self.fact(implies(inside, conjunction(q >= 0, q <= 99)))
            return q

        if not is_term(part) and not is_term(whole):
            return 0 if low else 100 if high else part * 100 // whole

        def whole_term() -> Term:
            q = self.once(("quotient", _key(part), _key(whole)), make)
            share = ite(low, 0, ite(high, 100, q))
            self._compare_percents(part, whole, share)
            return self.most_is(share, 100)

        return self.once(("percent", _key(part), _key(whole)), whole_term)

    def _compare_percents(self, part: Term, whole: Term, share: Term) -> None:
        """Note what the solver finds late: a greater part of one whole is no smaller share."""
        for other, of, other_share in self._percents:
            if _key(of) == _key(whole):
                self.hint(implies(part <= other, share <= other_share))
                self.hint(implies(other <= part, other_share <= share))
            elif _key(other) == _key(part):
                self.hint(implies(conjunction(whole > 0, whole <= of), share >= other_share))
                self.hint(implies(conjunction(of > 0, of <= whole), other_share >= share))
        self._percents.append((part, whole, share))

    # Doubles.

    def any_double(self, note: str) -> Double:
        """Return a double that may be any."""
        value = self.fresh(z3.RealSort(), note)
        self.fact(value <= z3.RealVal(str(2 * _LARGEST)), value >= z3.RealVal(str(-2 * _LARGEST)))
        return Double(value, self.fresh(z3.BoolSort(), note), 2.0**1023 * 1.9999)

    def rounded(self, exact: Term, finite: Term, most: float, *, whole: bool) -> Double:
        """Return the double next to a real, which is a double itself if it is whole and small."""
        if whole and most <= EXACT:
            return Double(exact, finite, most, whole)
        if not is_term(exact):
            try:
                near = float(exact)
            except OverflowError:
                return Double(Fraction(0), False, 0.0, whole=True)
            return Double(Fraction(near), finite, abs(near), near.is_integer())
        most = math.nextafter(most, math.inf)
        if most >= _FAR:
            result = self.any_double("a double that may be too large")
            return Double(result.value, conjunction(finite, result.finite), result.most)
        result = self.once(("round", _key(exact)), lambda: self._near(exact))
        return Double(result, finite, most, whole)

    def _near(self, exact: Term) -> Term:
        near = self.fresh(z3.RealSort(), "the rounding of doubles")
        size = z3.If(exact >= 0, exact, -exact)
        off = z3.RealVal(str(_UNIT)) * size + z3.RealVal(str(_LEAST))
        self.fact(near - exact <= off, exact - near <= off)
        self.fact(z3.Implies(exact >= 0, near >= 0), z3.Implies(exact <= 0, near <= 0))
        self.fact(z3.Implies(z3.And(z3.IsInt(exact), size <= EXACT), near == exact))
        for other, of_other in self._rounded:
            self.hint(
                z3.Implies(exact <= other, near <= of_other),
                z3.Implies(other <= exact, of_other <= near),
            )
        for bound in (0, 1, 100):
            self.fact(z3.Implies(exact <= bound, near <= bound))
            self.fact(z3.Implies(exact >= bound, near >= bound))
        self._rounded.append((exact, near))
        return near

    def of_int(self, number: Term) -> Double:
        """Return an int as a double."""
        if not is_term(number):
            near = float(number)
            return Double(Fraction(near), True, abs(near), whole=True)
        return self.rounded(z3.ToReal(number), True, self.most_of(number), whole=True)

    def double(self, number: float) -> Double:
        """Return a known double."""
        if not math.isfinite(number):
            return Double(Fraction(0), False, 0.0, whole=True)
        return Double(Fraction(number), True, abs(number), number.is_integer())

    def add(self, a: Double, b: Double) -> Double:
        """Return a + b."""
        finite, most = conjunction(a.finite, b.finite), a.most + b.most
        return self.rounded(plus(a.value, b.value), finite, most, whole=a.whole and b.whole)

    def subtract(self, a: Double, b: Double) -> Double:
        """Return a - b."""
        return self.add(a, b._replace(value=-b.value))

    def multiply(self, a: Double, b: Double) -> Double:
        """Return a * b."""
        finite, most = conjunction(a.finite, b.finite), a.most * b.most
        if math.isnan(most):
            most = math.inf
        return self.rounded(times(a.value, b.value), finite, most, whole=a.whole and b.whole)

    def divide(self, a: Double, b: Double) -> Double:
        """Return a / b; by 0 it is not finite, and by what is not finite it may be 0."""
        nothing = equal(b.value, Fraction(0))
        if not is_term(b.value):
            if nothing or not b.finite:
                result = self.any_double("a division by infinity or by no number")
                return result._replace(finite=False) if b.finite is True else result
            most = a.most / abs(float(b.value))
            by = Fraction(b.value)
            exact = a.value / lifted_real(by) if is_term(a.value) else Fraction(a.value) / by
            return self.rounded(exact, a.finite, most, whole=False)
        most = a.most if b.whole else math.inf

        def make() -> Term:
            quotient = self.fresh(z3.RealSort())
            self.fact(z3.Implies(z3.Not(nothing), quotient * b.value == lifted_real(a.value)))
            self.fact(z3.Implies(nothing, quotient == 0))
            return quotient

        quotient = self.once(("divide", _key(a.value), _key(b.value)), make)
        result = self.rounded(quotient, conjunction(a.finite, negation(nothing)), most, whole=False)
        if b.finite is True:
            return result
        other = self.any_double("a division by infinity or by no number")
        chosen: Double = ite(b.finite, result, other)
        return chosen

    def compared(self, a: Double, b: Double, test: Callable[[Any, Any], Any]) -> Term:
        """Return whether two doubles compare so; of what is not finite, nothing is known."""
        both, result = conjunction(a.finite, b.finite), test(*reals(a.value, b.value))
        if both is True:
            return result
        return ite(
            both, result, self.fresh(z3.BoolSort(), "a comparison with infinity or no number")
        )

    def chosen(self, a: Double, b: Double, test: Callable[[Any, Any], Any]) -> Double:
        """Return b where ``test`` of b and a holds, else a."""
        result: Double = ite(self.compared(b, a, test), b, a)
        return result

    def truncated(self, number: Double) -> Term:
        """Return the whole part of a finite double."""
        if not is_term(number.value):
            return math.trunc(number.value)
        value = number.value
        return z3.If(value >= 0, z3.ToInt(value), -z3.ToInt(-value))

    def nearest(self, number: Double) -> Double:
        """Return the whole number next to a double, halves away from zero."""
        if not is_term(number.value):
            size = math.floor(abs(number.value) + Fraction(1, 2))
            whole = size if number.value >= 0 else -size
            return Double(Fraction(whole), number.finite, float(size), whole=True)
        value, half = number.value, z3.RealVal("1/2")
        whole = z3.If(value >= 0, z3.ToInt(value + half), -z3.ToInt(half - value))
        return Double(z3.ToReal(whole), number.finite, number.most + 1, whole=True)


def _key(value: Any) -> Any:
    """Return what equal terms have in common; z3 gives equal terms one number while they live."""
    return ("term", value.get_id(), value) if is_term(value) else value


def lifted_real(value: Any) -> Term:
    """Return a real as an expression."""
    return value if is_term(value) else z3.RealVal(str(Fraction(value)))


def as_double(number: Any) -> Double:
    """Return a number as an exact real: a comparison of an int with a double is exact."""
    if isinstance(number, Double):
        return number
    return Double(z3.ToReal(number) if is_term(number) else Fraction(number), True)


def reals(a: Any, b: Any) -> tuple[Any, Any]:
    """Return two reals as fractions, or both as expressions."""
    if is_term(a) or is_term(b):
        return lifted_real(a), lifted_real(b)
    return Fraction(a), Fraction(b)


def unlike_numbers(a: Any, b: Any) -> Term:
    """Return whether two scores differ, doubles or ints."""
    if not isinstance(a, Double) and not isinstance(b, Double):
        return unlike(a, b)
    left, right = as_double(a), as_double(b)
    other = unlike(*reals(left.value, right.value))
    return disjunction(unlike(left.finite, right.finite), conjunction(left.finite, other))


def plus(a: Any, b: Any) -> Any:
    """Return the sum of two reals."""
    a, b = reals(a, b)
    return a + b


def times(a: Any, b: Any) -> Any:
    """Return the product of two reals."""
    a, b = reals(a, b)
    return a * b


def absolute(number: Term) -> Term:
    """Return the size of an int."""
    return ite(number < 0, -number, number)


def conjoined(parts: Sequence[Term]) -> Term:
    """Return all conditions as one expression, for the solver."""
    return lifted(conjunction(*parts), True)
