"""Kernels of CEL's standard library, by the ids of overloads.

Kernels get plain values and raise CelError. What policies have with the same values is not here:
`functions` takes it from the rule language.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from functools import cmp_to_key
from typing import Any, Final

from policy_sched.language.cel import values
from policy_sched.language.stdlib import BUILTINS, Version
from policy_sched.language.values import (
    DIVIDE_BY_ZERO,
    KINDS,
    NOT_FINITE,
    OUT_OF_RANGE,
    OVERFLOW,
    Fault,
    LimitError,
    types,
)

Kernel = Callable[..., Any]
INT64: Final = 2**63
UINT64: Final = 2**64
MAX_MADE: Final = 1_000_000
"""Elements of a list, and characters of a text, that one function makes."""


_WRAPPED: Final = {types.DURATION: values.Duration, types.TIMESTAMP: values.Timestamp}
#: cel-go's words of errors that the rule language knows by their kind.
_WORDS: Final = {
    OVERFLOW: "integer overflow",
    NOT_FINITE: "integer overflow",
    DIVIDE_BY_ZERO: "division by zero",
    OUT_OF_RANGE: "index out of range",
}


def rule_kernel(name: str, result: types.Type = types.INT) -> Kernel:
    """Return the rule language's kernel of an overload; its faults become errors."""
    kernel, wrap = BUILTINS[name].function, _WRAPPED.get(result)

    def called(*args: Any) -> Any:
        try:
            answer = kernel(*args)
        except LimitError as error:
            raise values.CelError(str(error)) from None
        except Fault as fault:
            raise values.CelError(_words(name, fault, result)) from None
        return answer if wrap is None else wrap(answer)

    return called


def _words(name: str, fault: Fault, result: types.Type) -> str:
    short = name.partition("_")[0]
    if fault.kind == OVERFLOW and result == types.TIMESTAMP:
        return "timestamp overflow"
    if short == "mod":
        return "modulus by zero"
    return _WORDS.get(fault.kind, f"{short}: {KINDS[fault.kind].replace('_', ' ')}")


def int64(value: int) -> int:
    """Return an int that fits. Raises CelError."""
    if not -INT64 <= value < INT64:
        raise values.CelError("integer overflow")
    return value


def uint64(value: int) -> values.Uint:
    """Return an unsigned int that fits. Raises CelError."""
    if not 0 <= value < UINT64:
        raise values.CelError("unsigned integer overflow")
    return values.Uint(value)


_text_of_timestamp: Final = BUILTINS["string_timestamp"].function
_text_of_duration: Final = BUILTINS["string_duration"].function
_text_of_double: Final = BUILTINS["string_double"].function


def _joined(a: Any, b: Any) -> Any:
    if len(a) + len(b) > MAX_MADE:
        raise values.CelError("the value is too large")
    return a + b


def compare(a: Any, b: Any) -> int:
    """Return -1, 0 or 1; both are of one comparable type, or numbers."""
    if isinstance(a, str):
        a, b = a.encode(), b.encode()
    order: int = (a > b) - (a < b)
    return order


def _int_of_text(text: str) -> int:
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 40):
        raise values.CelError(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int64(int(text))


def _uint_of_text(text: str) -> values.Uint:
    if not (text.isascii() and text.isdigit() and len(text) <= 40):
        raise values.CelError(f'strconv.ParseUint: parsing "{text}": invalid syntax')
    return uint64(int(text))


def _double_of_text(text: str) -> float:
    try:
        return float(text if text == text.strip() and len(text) <= 4096 else "")
    except ValueError:
        raise values.CelError(f'strconv.ParseFloat: parsing "{text}": invalid syntax') from None


def _bool_of_text(text: str) -> bool:
    if text in ("1", "t", "true", "TRUE", "True"):
        return True
    if text in ("0", "f", "false", "FALSE", "False"):
        return False
    raise values.CelError(f"type conversion error from 'string' to 'bool': {text}")


def _text_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise values.CelError("invalid UTF-8 in bytes, cannot convert to string") from None


def _type_of(value: object) -> values.TypeValue:
    return values.TypeValue(values.type_name(value))


def nonzero(value: Any) -> values.Optional:
    """Return a value that is not its type's zero, or an absent one."""
    zero = value is None or (
        isinstance(value, str | bytes | list | values.CelMap) and not len(value)
    )
    zero = zero or (isinstance(value, int | float) and not value)
    return values.ABSENT if zero else values.Optional(True, value)


def _value(optional: values.Optional) -> Any:
    if not optional.present:
        raise values.CelError("optional.none() dereference")
    return optional.value


def _is_in(sought: Any, items: list[Any]) -> bool:
    error: values.CelError | None = None
    for item in items:
        try:
            if values.equal(sought, item):
                return True
        except values.CelError as failure:
            error = failure
    if error is not None:
        raise error
    return False


def _text_of(items: list[Any], between: str) -> str:
    if not all(isinstance(item, str) for item in items):
        raise values.CelError("no such overload")
    if sum(map(len, items)) + len(between) * len(items) > MAX_MADE:
        raise values.CelError("the value is too large")
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
            raise values.CelError(f"index {used} out of range")
        if clause not in tuple("sdfexXbo"):
            raise values.CelError(
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
    raise values.CelError(
        f"error during formatting: no formatting function for {values.type_name(value)}"
    )


def text_of(value: Any) -> str:
    """Return a value as %s writes it."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case values.Duration():
            return str(_text_of_duration(int(value)))
        case values.Timestamp():
            return str(_text_of_timestamp(int(value)))
        case int():
            return str(int(value))
        case float():
            return str(_text_of_double(value))
        case list():
            return f"[{', '.join(map(text_of, value))}]"
        case values.CelMap():
            entries = sorted(f"{text_of(k)}: {text_of(v)}" for k, v in value.items())
            return f"{{{', '.join(entries)}}}"
        case bytes():
            return _text_of_bytes(value)
    written = _WRITTEN.get(type(value))
    return str(value) if written is None else written(value)


def _version_text(value: Version) -> str:
    labels = ".".join(label for *_, label in value.order[-1])
    core_text = f"{value.major}.{value.minor}.{value.patch}"
    return f"{core_text}-{labels}" if labels else core_text


_WRITTEN: Final[dict[type, Callable[[Any], str]]] = {
    values.TypeValue: lambda value: str(value.name),
    values.NamedFormat: lambda value: str(value.name),
    Version: _version_text,
    values.Address: lambda value: str(value.ip),
    values.Network: lambda value: f"{value.ip}/{value.network.prefixlen}",
    values.Url: lambda value: str(value.parts.geturl()),
}


def plain(value: Any) -> Any:
    """Return a value as data of JSON: numbers, truth values, texts, lists and mappings."""
    match value:
        case None | bool() | str():
            return value
        case values.Duration() | values.Timestamp():
            return text_of(value)
        case int():
            return int(value)
        case float():
            return value if math.isfinite(value) else text_of(value)
        case list():
            return [plain(item) for item in value]
        case values.CelMap():
            return {text_of(k): plain(v) for k, v in value.items()}
        case values.Optional():
            return plain(value.value) if value.present else None
        case values.Record():
            return {name: plain(v) for name, v in value.fields.items()}
    return value.hex() if isinstance(value, bytes) else text_of(value)


def ordered(items: list[Any]) -> list[Any]:
    """Return a list in ascending order. Raises CelError for elements that do not compare."""
    for before, after in itertools.pairwise(items):
        comparable(before, after)
    return sorted(items, key=cmp_to_key(compare))


def comparable(a: Any, b: Any) -> None:
    """Raise CelError if two elements have no order."""
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (a, b))
    if type(a) is not type(b) and not numbers:
        raise values.CelError("list elements must have the same type")
    if not isinstance(a, int | float | str | bytes):
        raise values.CelError("list elements must be comparable")


_ORDERS: Final[dict[str, Kernel]] = {
    "lt": lambda a, b: compare(a, b) < 0,
    "le": lambda a, b: a <= b if isinstance(a, float) else compare(a, b) <= 0,
    "gt": lambda a, b: compare(a, b) > 0,
    "ge": lambda a, b: a >= b if isinstance(a, float) else compare(a, b) >= 0,
}
_UINTS: Final[dict[str, Kernel]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.floordiv,
    "mod": operator.mod,
}


def _of_uints(name: str, kernel: Kernel) -> Kernel:
    def of_uints(a: values.Uint, b: values.Uint) -> values.Uint:
        try:
            return uint64(kernel(int(a), int(b)))
        except ZeroDivisionError:
            word = "modulus" if name == "mod" else "division"
            raise values.CelError(f"{word} by zero") from None

    return of_uints


def uint_of_double(number: float) -> values.Uint:
    """Return a double as an unsigned int, truncated. Raises CelError."""
    if not 0 <= number < UINT64:
        raise values.CelError("unsigned integer overflow")
    return values.Uint(number)


OPERATORS: Final[dict[str, Kernel]] = {
    "add_string_string": _joined,
    "add_bytes_bytes": _joined,
    "add_list_list": _joined,
    **{f"{name}_uint_uint": _of_uints(name, kernel) for name, kernel in _UINTS.items()},
    **{
        f"{name}_{a}_{b}": kernel
        for name, kernel in _ORDERS.items()
        for a, b in (
            *(("uint", name) for name in ("int", "uint", "double")),
            *(("int", "uint"), ("double", "uint"), ("bytes", "bytes")),
        )
    },
    "eq_any_any": values.equal,
    "ne_any_any": lambda a, b: not values.equal(a, b),
    "in_any_list": _is_in,
    "in_any_map": lambda key, entries: key in entries,
}

STANDARD: Final[dict[str, Kernel]] = {
    "size_bytes": len,
    "int_uint": lambda a: int64(int(a)),
    "int_string": _int_of_text,
    "int_duration": int,
    "uint_uint": lambda a: a,
    "uint_int": uint64,
    "uint_double": uint_of_double,
    "uint_string": _uint_of_text,
    "double_uint": float,
    "double_string": _double_of_text,
    "string_uint": lambda a: str(int(a)),
    "string_bytes": _text_of_bytes,
    "bytes_bytes": bytes,
    "bytes_string": str.encode,
    "bool_string": _bool_of_text,
    "type_any": _type_of,
    "dyn_any": lambda a: a,
    "optional_of_any": lambda a: values.Optional(True, a),
    "optional_ofNonZeroValue_any": nonzero,
    "optional_none": lambda: values.ABSENT,
    "hasValue_optional": lambda a: a.present,
    "value_optional": _value,
    "join_list": lambda items: _text_of(items, ""),
    "join_list_string": _text_of,
    "format_string_list": _formatted,
}
