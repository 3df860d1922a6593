"""Functions of CEL's standard library and of cel-go's extensions that Kubernetes turns on.

A line of a table is an overload, ``name | parameters | result``; a dot before the name makes it a
method of its first parameter. Kernels get plain values and raise CelError.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any, Final

from policy_sched.language.cel.types import fits, read_type, split
from policy_sched.language.cel.values import (
    ABSENT,
    CelError,
    CelMap,
    Duration,
    Optional,
    Timestamp,
    TypeValue,
    Uint,
    equal,
    type_name,
)
from policy_sched.language.stdlib import BUILTINS
from policy_sched.language.values import Fault, LimitError, Type

Kernel = Callable[..., Any]
INT64: Final = 2**63
UINT64: Final = 2**64
MAX_MADE: Final = 1_000_000
"""Elements of a list, and characters of a text, that one function makes."""


@dataclass(frozen=True, slots=True)
class Function:
    """An overload: its name, whether it is a method, its parameters (the receiver first)."""

    name: str
    method: bool
    params: tuple[Type, ...]
    result: Type
    kernel: Kernel

    def takes(self, args: Sequence[Type]) -> dict[str, Type] | None:
        """Return what type variables stand for with these arguments, None if they do not suit."""
        bound: dict[str, Type] = {}
        if len(args) != len(self.params):
            return None
        ok = all(fits(param, arg, bound) for param, arg in zip(self.params, args, strict=True))
        return bound if ok else None


def read_table(table: Mapping[str, Kernel]) -> list[Function]:
    """Return the functions of a table."""
    found = []
    for line, kernel in table.items():
        name, params, result = (part.strip() for part in line.split("|"))
        kinds = tuple(map(read_type, split(params)))
        method = name.startswith(".")
        found.append(Function(name.lstrip("."), method, kinds, read_type(result), kernel))
    return found


def shared(name: str, *args: Any) -> Any:
    """Call a kernel of the rule language by its id; its faults become errors."""
    kernel = BUILTINS[name].function
    try:
        return kernel(*args)
    except (Fault, LimitError) as error:
        raise CelError(f"{name.split('_', maxsplit=1)[0]}: {error}") from None


def _kernel(name: str, wrap: Kernel = lambda value: value) -> Kernel:
    assert name in BUILTINS, name
    return lambda *args: wrap(shared(name, *args))


def int64(value: int) -> int:
    """Return an int that fits. Raises CelError."""
    if not -INT64 <= value < INT64:
        raise CelError("integer overflow")
    return value


def uint64(value: int) -> Uint:
    """Return an unsigned int that fits. Raises CelError."""
    if not 0 <= value < UINT64:
        raise CelError("unsigned integer overflow")
    return Uint(value)


def _quotient(a: int, b: int) -> int:
    if b == 0:
        raise CelError("division by zero")
    found = abs(a) // abs(b)
    return found if (a < 0) == (b < 0) else -found


def _remainder(a: int, b: int) -> int:
    if b == 0:
        raise CelError("modulus by zero")
    return a - b * _quotient(a, b)


def _double_quotient(a: float, b: float) -> float:
    if b:
        return a / b
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


_FIRST: Final = -62_135_596_800 * 10**9
_LAST: Final = 253_402_300_800 * 10**9 - 1
_text_of_timestamp: Final = BUILTINS["string_timestamp"].function
_text_of_duration: Final = BUILTINS["string_duration"].function
_text_of_double: Final = BUILTINS["string_double"].function


def _span(value: int) -> Duration:
    return Duration(int64(value))


def _moment(value: int) -> Timestamp:
    if not _FIRST <= value <= _LAST:
        raise CelError("timestamp overflow")
    return Timestamp(value)


def _joined(a: Any, b: Any) -> Any:
    if len(a) + len(b) > MAX_MADE:
        raise CelError("the value is too large")
    return a + b


def compare(a: Any, b: Any) -> int:
    """Return -1, 0 or 1; both are of one comparable type, or numbers."""
    if isinstance(a, str):
        a, b = a.encode(), b.encode()
    found: int = (a > b) - (a < b)
    return found


def _int_of_double(value: float) -> int:
    if not -(2.0**63) < value < 2.0**63:
        raise CelError("integer overflow")
    return int(value)


def _int_of_text(text: str) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 40):
        raise CelError(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int64(int(text))


def _uint_of_text(text: str) -> Uint:
    if not (text.isascii() and text.isdigit() and len(text) <= 40):
        raise CelError(f'strconv.ParseUint: parsing "{text}": invalid syntax')
    return uint64(int(text))


def _double_of_text(text: str) -> float:
    try:
        return float(text if text == text.strip() and len(text) <= 4096 else "")
    except ValueError:
        raise CelError(f'strconv.ParseFloat: parsing "{text}": invalid syntax') from None


def _bool_of_text(text: str) -> bool:
    if text in ("1", "t", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "false", "FALSE", "False"):
        return False
    raise CelError(f"type conversion error from 'string' to 'bool': {text}")


def _text_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None


def _type_of(value: object) -> TypeValue:
    return TypeValue(type_name(value))


def nonzero(value: Any) -> Optional:
    """Return a value that is not its type's zero, or an absent one."""
    zero = value is None or (isinstance(value, str | bytes | list | CelMap) and not len(value))
    zero = zero or (isinstance(value, int | float) and not value)
    return ABSENT if zero else Optional(True, value)


def _value(one: Optional) -> Any:
    if not one.present:
        raise CelError("optional.none() dereference")
    return one.value


_ZONED: Final = (
    "getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear",
    "getHours", "getMinutes", "getSeconds", "getMilliseconds",
)  # fmt: skip


def _is_in(one: Any, items: list[Any]) -> bool:
    error: CelError | None = None
    for item in items:
        try:
            if equal(one, item):
                return True
        except CelError as found:
            error = found
    if error is not None:
        raise error
    return False


def _text_of(items: list[Any], between: str) -> str:
    if not all(isinstance(item, str) for item in items):
        raise CelError("no such overload")
    if sum(map(len, items)) + len(between) * len(items) > MAX_MADE:
        raise CelError("the value is too large")
    return between.join(items)


def _formatted(form: str, items: list[Any]) -> str:
    parts, used, at = [], 0, 0
    while (percent := form.find("%", at)) >= 0:
        parts.append(form[at:percent])
        if form[percent + 1 : percent + 2] == "%":
            parts.append("%")
            at = percent + 2
            continue
        precision, at = "", percent + 1
        if form[at : at + 1] == ".":
            at += 1
            while form[at : at + 1].isdigit():
                precision, at = precision + form[at], at + 1
        clause, at = form[at : at + 1], at + 1
        if used >= len(items):
            raise CelError(f"index {used} out of range")
        if clause not in tuple("sdfexXbo"):
            raise CelError(
                f'could not parse formatting clause: unrecognized formatting clause "{clause}"'
            )
        places = min(int(precision), 1000) if precision else 6
        parts.append(_clause(clause, places, items[used]))
        used += 1
    return "".join([*parts, form[at:]])


def _clause(clause: str, places: int, value: Any) -> str:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    if clause == "s":
        return text_of(value)
    if clause in "fe" and plain:
        return f"{float(value):.{places}{clause}}"
    if clause == "b" and isinstance(value, bool):
        return str(int(value))
    if clause in "xX" and isinstance(value, str | bytes):
        digits = (value.encode() if isinstance(value, str) else value).hex()
        return digits if clause == "x" else digits.upper()
    if clause == "d" and plain:
        return text_of(value)
    if clause in "bxXo" and isinstance(value, int) and plain:
        return format(int(value), clause)
    raise CelError(f"error during formatting: no formatting function for {type_name(value)}")


def text_of(value: Any) -> str:
    """Return a value as %s writes it."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case Duration():
            return str(_text_of_duration(int(value)))
        case Timestamp():
            return str(_text_of_timestamp(int(value)))
        case int():
            return str(int(value))
        case float():
            return str(_text_of_double(value))
        case list():
            return f"[{', '.join(map(text_of, value))}]"
        case CelMap():
            entries = sorted(f"{text_of(k)}: {text_of(v)}" for k, v in value.items())
            return f"{{{', '.join(entries)}}}"
        case bytes():
            return _text_of_bytes(value)
        case TypeValue():
            return value.name
    return str(value)


def ordered(items: list[Any]) -> list[Any]:
    """Return a list in ascending order. Raises CelError for elements that do not compare."""
    for before, after in itertools.pairwise(items):
        comparable(before, after)
    return sorted(items, key=cmp_to_key(compare))


def comparable(a: Any, b: Any) -> None:
    """Raise CelError if two elements have no order."""
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (a, b))
    if type(a) is not type(b) and not numbers:
        raise CelError("list elements must have the same type")
    if not isinstance(a, int | float | str | bytes):
        raise CelError("list elements must be comparable")


OPERATORS: Final[dict[str, Kernel]] = {
    "_+_ | int, int | int": lambda a, b: int64(a + b),
    "_+_ | uint, uint | uint": lambda a, b: uint64(int(a) + int(b)),
    "_+_ | double, double | double": lambda a, b: a + b,
    "_+_ | string, string | string": _joined,
    "_+_ | bytes, bytes | bytes": _joined,
    "_+_ | list(T), list(T) | list(T)": _joined,
    "_+_ | duration, duration | duration": lambda a, b: _span(int(a) + int(b)),
    "_+_ | timestamp, duration | timestamp": lambda a, b: _moment(int(a) + int(b)),
    "_+_ | duration, timestamp | timestamp": lambda a, b: _moment(int(a) + int(b)),
    "_-_ | int, int | int": lambda a, b: int64(a - b),
    "_-_ | uint, uint | uint": lambda a, b: uint64(int(a) - int(b)),
    "_-_ | double, double | double": lambda a, b: a - b,
    "_-_ | duration, duration | duration": lambda a, b: _span(int(a) - int(b)),
    "_-_ | timestamp, timestamp | duration": lambda a, b: _span(int(a) - int(b)),
    "_-_ | timestamp, duration | timestamp": lambda a, b: _moment(int(a) - int(b)),
    "_*_ | int, int | int": lambda a, b: int64(a * b),
    "_*_ | uint, uint | uint": lambda a, b: uint64(int(a) * int(b)),
    "_*_ | double, double | double": lambda a, b: a * b,
    "_/_ | int, int | int": lambda a, b: int64(_quotient(a, b)),
    "_/_ | uint, uint | uint": lambda a, b: uint64(_quotient(int(a), int(b))),
    "_/_ | double, double | double": _double_quotient,
    "_%_ | int, int | int": _remainder,
    "_%_ | uint, uint | uint": lambda a, b: uint64(_remainder(int(a), int(b))),
    "-_ | int | int": lambda a: int64(-a),
    "-_ | double | double": lambda a: -a,
    "!_ | bool | bool": lambda a: not a,
    **{
        f"_{op}_ | {a}, {b} | bool": kernel
        for op, kernel in {
            "<": lambda a, b: compare(a, b) < 0,
            "<=": lambda a, b: a <= b if isinstance(a, float) else compare(a, b) <= 0,
            ">": lambda a, b: compare(a, b) > 0,
            ">=": lambda a, b: a >= b if isinstance(a, float) else compare(a, b) >= 0,
        }.items()
        for a, b in [
            *((one, one) for one in ("bool", "string", "bytes", "duration", "timestamp")),
            *((a, b) for a in ("int", "uint", "double") for b in ("int", "uint", "double")),
        ]
    },
    "_==_ | T, T | bool": equal,
    "_!=_ | T, T | bool": lambda a, b: not equal(a, b),
    "_in_ | T, list(T) | bool": _is_in,
    "_in_ | K, map(K, V) | bool": lambda key, entries: key in entries,
}

STANDARD: Final[dict[str, Kernel]] = {
    **{
        f"{dot}size | {kind} | int": len
        for dot in ("", ".")
        for kind in ("string", "bytes", "list(T)", "map(K, V)")
    },
    ".contains | string, string | bool": lambda text, part: part in text,
    ".startsWith | string, string | bool": str.startswith,
    ".endsWith | string, string | bool": str.endswith,
    ".matches | string, string | bool": _kernel("matches_string_string"),
    "matches | string, string | bool": _kernel("matches_string_string"),
    "int | int | int": int,
    "int | uint | int": lambda a: int64(int(a)),
    "int | double | int": _int_of_double,
    "int | string | int": _int_of_text,
    "int | timestamp | int": lambda a: int(a) // 10**9,
    "int | duration | int": int,
    "uint | uint | uint": lambda a: a,
    "uint | int | uint": uint64,
    "uint | double | uint": lambda a: uint64(_int_of_double(a)),
    "uint | string | uint": _uint_of_text,
    "double | double | double": float,
    "double | int | double": float,
    "double | uint | double": float,
    "double | string | double": _double_of_text,
    "string | string | string": str,
    "string | bool | string": lambda a: str(a).lower(),
    "string | int | string": str,
    "string | uint | string": lambda a: str(int(a)),
    "string | double | string": _text_of_double,
    "string | bytes | string": _text_of_bytes,
    "string | timestamp | string": lambda a: _text_of_timestamp(int(a)),
    "string | duration | string": lambda a: _text_of_duration(int(a)),
    "bytes | bytes | bytes": bytes,
    "bytes | string | bytes": str.encode,
    "bool | bool | bool": bool,
    "bool | string | bool": _bool_of_text,
    "duration | duration | duration": lambda a: a,
    "duration | string | duration": _kernel("duration_string", Duration),
    "timestamp | timestamp | timestamp": lambda a: a,
    "timestamp | string | timestamp": _kernel("timestamp_string", Timestamp),
    "timestamp | int | timestamp": lambda a: _moment(a * 10**9),
    "type | T | type": _type_of,
    "dyn | T | any": lambda a: a,
    **{f".{n} | timestamp | int": _kernel(f"{n}_timestamp") for n in _ZONED},
    **{f".{n} | timestamp, string | int": _kernel(f"{n}_timestamp_string") for n in _ZONED},
    **{
        f".{n} | duration | int": _kernel(f"{n}_duration")
        for n in ("getHours", "getMinutes", "getSeconds", "getMilliseconds")
    },
    "optional.of | T | optional(T)": lambda a: Optional(True, a),
    "optional.ofNonZeroValue | T | optional(T)": nonzero,
    "optional.none | | optional(T)": lambda: ABSENT,
    ".hasValue | optional(T) | bool": lambda a: a.present,
    ".value | optional(T) | T": _value,
    ".charAt | string, int | string": _kernel("charAt_string_int"),
    ".indexOf | string, string | int": lambda text, part: text.find(part),
    ".indexOf | string, string, int | int": _kernel("indexOf_string_string_int"),
    ".lastIndexOf | string, string | int": _kernel("lastIndexOf_string_string"),
    ".lastIndexOf | string, string, int | int": _kernel("lastIndexOf_string_string_int"),
    ".lowerAscii | string | string": _kernel("lowerAscii_string"),
    ".upperAscii | string | string": _kernel("upperAscii_string"),
    ".replace | string, string, string | string": _kernel("replace_string_string_string"),
    ".replace | string, string, string, int | string": _kernel("replace_string_string_string_int"),
    ".split | string, string | list(string)": _kernel("split_string_string"),
    ".split | string, string, int | list(string)": _kernel("split_string_string_int"),
    ".substring | string, int | string": _kernel("substring_string_int"),
    ".substring | string, int, int | string": _kernel("substring_string_int_int"),
    ".trim | string | string": _kernel("trim_string"),
    ".join | list(string) | string": lambda items: _text_of(items, ""),
    ".join | list(string), string | string": _text_of,
    ".format | string, list(T) | string": _formatted,
    "strings.quote | string | string": _kernel("strings_quote_string"),
}
