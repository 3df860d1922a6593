"""Quantities: amounts of resources in Kubernetes' notation, with its exact meaning.

A quantity is a whole number of nano-units (10^-9) and its format. Parsing
rounds fractions of a nano-unit away from zero; `value` and `milli_value` round the same way to
their units. The facts are those of apimachinery's ``resource.Quantity``.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import Final

import msgspec

BYTES: Final = frozenset({"memory", "ephemeral-storage"})
"""Resources that are counted in bytes, and shown with binary suffixes."""


def counted(count: int, noun: str) -> str:
    """Return a number of things as text: "1 pod", "8,152 pods"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def quantity_text(resource: str, amount: int) -> str:
    """Return an amount in the scheduler's unit of a resource as a Kubernetes quantity."""
    if resource == "cpu":
        return str(Quantity(amount * MICRO))
    in_bytes = resource in BYTES or resource.startswith("hugepages-")
    return str(Quantity(amount * NANO, Format.BINARY_SI if in_bytes else Format.DECIMAL_SI))


NANO: Final = 1_000_000_000
"""Nano-units in one unit."""

MICRO: Final = 1_000_000
"""Nano-units in one milli-unit."""

MAX_INT64: Final = 2**63 - 1
"""The largest value of a quantity; a binary quantity is capped here when it is parsed."""

MIN_INT64: Final = -(2**63)
"""The smallest value of a quantity."""

MAX_UNITS: Final = 2**62 - 2**56
"""The largest amount in scheduler units: nearly half of int64, so that the sum and the difference
of two amounts fit."""

MOST_COUNTED: Final = 80 << 50
"""The largest amount of a resource that an object may state, in scheduler units: 80Pi bytes.

kube-scheduler's scores multiply amounts by 100 in int64, which overflows beyond 81.9Pi.
"""

MAX_EXPONENT: Final = 1000
"""Decimal exponents beyond this are rejected: their digits would not fit into memory."""

FORMAT_WRONG: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
SUFFIX_WRONG: Final = "unable to parse quantity's suffix"

Amount = str | int | float
"""An amount in a manifest: usually text, in YAML often a bare number."""


class Format(Enum):
    """The format of a quantity, in which it is also printed."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


_DECIMAL: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = {0: "", **{exponent: suffix for suffix, exponent in _BINARY.items()}}

_PARTS: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*+)(?:\.(?P<fraction>[0-9]*+))?+"
    r"(?P<suffix>[eEinumkKMGTP]*+[-+]?+[0-9]*+)"
)
#: Characters of a text that are parsed; every valid amount is shorter.
_MAX_TEXT: Final = 1_024
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)")

_PLAIN: Final = re.compile(r"([0-9]{1,9})(m|k|M|G|Ki|Mi|Gi|)", re.ASCII)
"""Amounts without rounding or capping."""

_PLAIN_NANOS: Final[dict[str, int]] = {
    **{suffix: 10 ** (9 + _DECIMAL[suffix]) for suffix in ("m", "", "k", "M", "G")},
    **{suffix: NANO << _BINARY[suffix] for suffix in ("Ki", "Mi", "Gi")},
}
"""Nano-units of one unit with a suffix."""


class Quantity(msgspec.Struct, frozen=True, gc=False):
    """An exact amount: ``nanos`` nano-units, the format, and the text if that is canonical."""

    nanos: int
    format: Format = Format.DECIMAL_SI
    text: str = ""

    def value(self) -> int:
        """Return the amount in whole units, rounded away from zero, saturated to int64."""
        return _round_up(self.nanos, NANO)

    def milli_value(self) -> int:
        """Return the amount in thousandths, rounded away from zero, saturated to int64."""
        return _round_up(self.nanos, MICRO)

    def units(self, resource: str) -> int:
        """Return the amount in the scheduler's unit of ``resource``: milli for cpu, else whole.

        No amount is further from zero than MAX_UNITS.
        """
        return units_of_nanos(resource, self.nanos)

    def sign(self) -> int:
        """Return -1, 0 or 1."""
        return (self.nanos > 0) - (self.nanos < 0)

    def __str__(self) -> str:
        """Return the canonical text: no fraction, and the largest suffix that stays exact.

        Unlike Kubernetes, an amount beyond 10^18 written with a decimal suffix keeps its digits.
        """
        return self.text or _canonical(self.nanos, self.format)


def _round_up(nanos: int, unit: int) -> int:
    rounded = -(-nanos // unit) if nanos >= 0 else nanos // unit
    if MIN_INT64 <= rounded <= MAX_INT64:
        return rounded
    return MAX_INT64 if rounded > 0 else MIN_INT64


def _canonical(nanos: int, written: Format) -> str:
    if nanos == 0:
        return "0"
    if written is Format.BINARY_SI and abs(nanos) >= 1024 * NANO and nanos % NANO == 0:
        number, exponent = nanos // NANO, 0
        while number % 1024 == 0 and exponent < 60:
            number, exponent = number // 1024, exponent + 10
        return f"{number}{_BINARY_SUFFIX[exponent]}"
    number, exponent = nanos, -9
    while number % 1000 == 0 and (exponent < 18 or written is Format.DECIMAL_EXPONENT):
        number, exponent = number // 1000, exponent + 3
    if written is Format.DECIMAL_EXPONENT:
        return f"{number}e{exponent}" if exponent else str(number)
    return f"{number}{_DECIMAL_SUFFIX[exponent]}"


def _suffix(suffix: str) -> tuple[int, int, Format]:
    """Return base, exponent and format of a suffix."""
    if suffix in _DECIMAL:
        return 10, _DECIMAL[suffix], Format.DECIMAL_SI
    if suffix in _BINARY:
        return 2, _BINARY[suffix], Format.BINARY_SI
    if match := _EXPONENT.fullmatch(suffix):
        exponent = int(match[1])
        if exponent > MAX_EXPONENT:
            raise ValueError(f"quantity's exponent {exponent} is larger than {MAX_EXPONENT}")
        return 10, max(exponent, -MAX_EXPONENT), Format.DECIMAL_EXPONENT
    raise ValueError(SUFFIX_WRONG)


def parse(text: str) -> Quantity:
    """Parse a quantity.

    Raises ValueError with Kubernetes' message if the text is not a quantity.
    """
    match = _PARTS.fullmatch(text) if len(text) <= _MAX_TEXT else None
    if match is None or not text or not text.isascii():
        raise ValueError(FORMAT_WRONG)
    whole, fraction = match["whole"].lstrip("0"), match["fraction"] or ""
    base, exponent, written = _suffix(match["suffix"])
    digits = whole + fraction
    number = int(digits or "0")
    if base == 2:
        numerator, places = number << exponent, len(fraction)
    else:
        numerator, places = number, len(fraction) - exponent
    # ceil(numerator * 10^9 / 10^places): fractions of a nano-unit are rounded away from zero.
    shift = 9 - places
    nanos = numerator * 10**shift if shift >= 0 else -(-numerator // 10**-shift)
    if written is Format.BINARY_SI:
        nanos = min(nanos, MAX_INT64 * NANO)
        if 0 < nanos < NANO:
            written = Format.DECIMAL_SI
    if match["sign"] == "-":
        nanos = -nanos
    canonical = _written_canonically(whole or "0", fraction, exponent, written)
    return Quantity(nanos, written, text if nanos and canonical else "")


def _written_canonically(whole: str, fraction: str, exponent: int, written: Format) -> bool:
    """Return whether Kubernetes keeps the text as it was written instead of reformatting it."""
    digits = whole + fraction
    if written is Format.BINARY_SI:
        # Its fast path accepts 15 decimal digits, less those of the suffix.
        digits_left = 15 - len(whole) - exponent * 3 // 10 - 1
        return not fraction and digits_left >= 0 and int(digits) & 7 != 0
    scale = exponent - len(fraction)
    fits = len(digits) <= 18 and scale >= -9
    return fits and scale % 3 == 0 and not digits.endswith("000") and digits[0] != "0"


@lru_cache(maxsize=65_536)
def nanos(amount: Amount) -> int:
    """Return an amount of a manifest in nano-units. Raises ValueError as `parse` does."""
    plain = _PLAIN.fullmatch(amount) if isinstance(amount, str) else None
    if plain is not None:  # nearly every amount
        return int(plain[1]) * _PLAIN_NANOS[plain[2]]
    return quantity(amount).nanos


def quantity(amount: Amount) -> Quantity:
    """Return the quantity of a manifest's text or bare number, as Kubernetes decodes JSON.

    Raises ValueError as `parse` does.
    """
    return parse(amount.strip() if isinstance(amount, str) else _number_text(amount))


def _number_text(number: float) -> str:
    """Return a JSON number in quantity notation (YAML's 1e+20 is valid already)."""
    return repr(int(number)) if isinstance(number, float) and number.is_integer() else repr(number)


@lru_cache(maxsize=65_536)
def units(resource: str, amount: Amount) -> int:
    """Return an amount of ``resource`` in the scheduler's unit: milli for cpu, else whole units.

    Rounded away from zero, and no further from zero than MAX_UNITS. Raises ValueError as `parse`
    does.
    """
    return quantity(amount).units(resource)


def excess(resource: str, amount: int) -> str:
    """Return why nano-units of a resource are more than can be counted, "" if they are not."""
    unit = MICRO if resource == "cpu" else NANO
    if resource == "storage" or amount <= MOST_COUNTED * unit:  # sizes of volumes are not added up
        return ""
    most = str(MOST_COUNTED // 1000) if resource == "cpu" else quantity_text(resource, MOST_COUNTED)
    return f"must be less than or equal to {most}"


def units_of_nanos(resource: str, amount: int) -> int:
    """Return nano-units of ``resource`` in the scheduler's unit, as `units` does."""
    unit = MICRO if resource == "cpu" else NANO
    rounded = -(-amount // unit) if amount >= 0 else amount // unit
    if -MAX_UNITS <= rounded <= MAX_UNITS:
        return rounded
    return MAX_UNITS if rounded > 0 else -MAX_UNITS
