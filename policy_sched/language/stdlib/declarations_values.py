"""The overload table's lines over plain values: numbers, strings, lists, maps, time, optionals."""

from __future__ import annotations

from typing import Final

#: The word of each operator in an overload's id ("-u" is the sign before a number).
OPERATOR_NAMES: Final = {
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

_ARITHMETIC: Final = """
int + int -> int | | Sum; an error where it leaves int64.
double + double -> double | | Sum.
string + string -> string | | Concatenation.
list(T) + list(T) -> list(T) | | Concatenation.
timestamp + duration -> timestamp | | The later moment.
duration + timestamp -> timestamp | | The later moment.
duration + duration -> duration | | Sum.
quantity + quantity -> quantity | ext | Sum of two quantities of one dimension.
int - int -> int | | Difference; an error where it leaves int64.
double - double -> double | | Difference.
timestamp - timestamp -> duration | | The time between two moments.
timestamp - duration -> timestamp | | The earlier moment.
duration - duration -> duration | | Difference.
quantity - quantity -> quantity | ext | Difference of two quantities of one dimension.
int * int -> int | | Product; an error where it leaves int64.
double * double -> double | | Product.
quantity * int -> quantity | ext | The quantity that many times.
int * quantity -> quantity | ext | The quantity that many times.
int / int -> int | | Quotient, truncated towards zero; an error for a zero divisor.
double / double -> double | | Quotient by IEEE 754: a zero divisor gives an infinity or NaN.
quantity / int -> quantity | ext | Quotient, truncated in the unit (of literals: in billionths).
quantity / quantity -> double | ext | The ratio of two quantities of one dimension.
int % int -> int | | Remainder with the dividend's sign; an error for a zero divisor.
- int -> int | | The negated number; an error for the smallest int.
- double -> double | | The negated number.
- quantity -> quantity | ext | The negated quantity.
! bool -> bool | | The opposite.
"""

_ORDER_SENTENCES: Final = {
    "<": "Less than.",
    "<=": "Less than or equal.",
    ">": "Greater than.",
    ">=": "Greater than or equal.",
}
_ORDER_PAIRS: Final = (
    ("int", "int", ""),
    ("int", "double", ""),
    ("double", "int", ""),
    ("double", "double", ""),
    ("string", "string", ""),
    ("bool", "bool", ""),
    ("duration", "duration", ""),
    ("timestamp", "timestamp", ""),
    ("quantity", "quantity", "ext"),
)
_COMPARISON: Final = "\n".join(
    [
        "T == T -> bool | | Equality of two values of one type.",
        "T != T -> bool | | Inequality of two values of one type.",
        *(
            f"{left} {op} {right} -> bool | {flag} | {sentence}"
            for op, sentence in _ORDER_SENTENCES.items()
            for left, right, flag in _ORDER_PAIRS
        ),
        "T in list(T) -> bool | | Whether the list has the value.",
        "K in map(K, V) -> bool | | Whether the map has the key.",
        "string in resources -> bool | ext | Whether the resource is named at all, even as 0.",
    ]
)

_CONVERSION: Final = """
int(int) -> int | | The number itself.
int(double) -> int | | Truncated towards zero; an error for NaN and outside int64.
int(string) -> int | | The decimal number that the text is.
int(timestamp) -> int | | Whole seconds since 1970.
double(double) -> double | | The number itself.
double(int) -> double | | The nearest double.
double(string) -> double | | The number that the text is.
string(string) -> string | | The text itself.
string(bool) -> string | | "true" or "false".
string(int) -> string | | Decimal digits.
string(double) -> string | | The shortest text that reads back as the number.
string(timestamp) -> string | | RFC 3339.
string(duration) -> string | | Seconds with the suffix "s".
bool(bool) -> bool | | The value itself.
bool(string) -> bool | | "true", "True", "TRUE", "t", "1" and their opposites.
duration(duration) -> duration | | The value itself.
duration(string) -> duration | | Such as "90s", "1h30m", "1.5h".
timestamp(timestamp) -> timestamp | | The value itself.
timestamp(string) -> timestamp | | RFC 3339, such as "2024-05-01T12:00:00Z".
timestamp(int) -> timestamp | | Seconds since 1970.
tryInt(string) -> optional(int) | ext | The number, or none where the text is not one.
tryDouble(string) -> optional(double) | ext | The number, or none where the text is not one.
tryQuantity(string) -> optional(quantity) | ext | The quantity, or none where the text is not one.
tryTimestamp(string) -> optional(timestamp) | ext | The moment, or none where the text is not one.
tryDuration(string) -> optional(duration) | ext | The duration, or none where the text is not one.
trySemver(string) -> optional(semver) | ext | The version (also "v1.36"), or none.
"""

_STRING: Final = """
string.size() -> int | either | The number of code points.
string.contains(string) -> bool | | Whether the text occurs in it.
string.startsWith(string) -> bool | | Whether it begins with the text.
string.endsWith(string) -> bool | | Whether it ends with the text.
string.matches(string) -> bool | either | Whether the RE2 pattern is found in it.
string.find(string) -> string | | The first match of the RE2 pattern, or "".
string.charAt(int) -> string | | The character at the position; "" at the very end.
string.indexOf(string) -> int | | The first position of the text, or -1.
string.indexOf(string, int) -> int | | The first position from an offset on, or -1.
string.lastIndexOf(string) -> int | | The last position of the text, or -1.
string.lastIndexOf(string, int) -> int | | The last position up to an offset, or -1.
string.lowerAscii() -> string | | A to Z in lower case.
string.upperAscii() -> string | | a to z in upper case.
string.replace(string, string) -> string | | Every occurrence replaced.
string.replace(string, string, int) -> string | | At most that many occurrences replaced.
string.split(string) -> list(string) | | The parts between the separators.
string.split(string, int) -> list(string) | | At most that many parts.
string.substring(int) -> string | | From the position to the end.
string.substring(int, int) -> string | | From the first position up to the second.
string.trim() -> string | | Without white space at its ends.
string.reverse() -> string | | Code points in opposite order.
string.format(list(T)) -> string | | printf-like: %s %d %f %e %b %x %X %o.
strings.quote(string) -> string | | The text as a double-quoted literal.
list(string).join() -> string | | The texts one after the other.
list(string).join(string) -> string | | The texts with a separator between them.
"""

_COLLECTION: Final = """
list(T).size() -> int | either | The number of elements.
map(K, V).size() -> int | either | The number of entries.
list(O).isSorted() -> bool | | Whether no element is less than the one before it.
list(A).sum() -> A | | The sum; 0 for an empty list.
list(O).min() -> O | | The least element; an error for an empty list.
list(O).max() -> O | | The greatest element; an error for an empty list.
list(T).indexOf(T) -> int | | The first position of the value, or -1.
list(T).lastIndexOf(T) -> int | | The last position of the value, or -1.
list(T).distinct() -> list(T) | | Each value once, in order of first appearance.
list(O).sort() -> list(O) | | In ascending order.
list(T).first() -> optional(T) | | The first element, or none.
list(T).last() -> optional(T) | | The last element, or none.
list(list(T)).flatten() -> list(T) | | The elements of the elements.
list(T).reverse() -> list(T) | | In opposite order.
lists.range(int) -> list(int) | | 0, 1, ... up to but without the number.
sets.contains(list(T), list(T)) -> bool | | Whether the first has all elements of the second.
sets.intersects(list(T), list(T)) -> bool | | Whether the two share an element.
sets.equivalent(list(T), list(T)) -> bool | | Whether each has all elements of the other.
list(N).mean() -> double | ext | The arithmetic mean; 0.0 for an empty list.
list(N).stddev() -> double | ext | The population standard deviation; 0.0 under two elements.
list(int).weightedMean(list(int)) -> int | ext | sum(v*w) / sum(w); 0 where sum(w) is 0.
map(K, V).includes(map(K, V)) -> bool | ext | Whether all entries of the other are there and equal.
list(T).includes(T) -> bool | ext | Whether the list has the value.
"""

_MATH: Final = """
math.greatest(N...) -> N | | The greatest argument.
math.greatest(list(N)) -> N | | The greatest element.
math.least(N...) -> N | | The least argument.
math.least(list(N)) -> N | | The least element.
math.ceil(double) -> double | | The next whole number upwards.
math.floor(double) -> double | | The next whole number downwards.
math.round(double) -> double | | The nearest whole number; halves away from zero.
math.trunc(double) -> double | | Without its fraction.
math.abs(int) -> int | | Without its sign; an error for the smallest int.
math.abs(double) -> double | | Without its sign.
math.sign(int) -> int | | -1, 0 or 1.
math.sign(double) -> double | | -1.0, 0.0 or 1.0; NaN for NaN.
math.isNaN(double) -> bool | | Whether it is not a number.
math.isInf(double) -> bool | | Whether it is an infinity.
math.isFinite(double) -> bool | | Whether it is neither NaN nor an infinity.
math.sqrt(double) -> double | | The square root; NaN below zero.
math.sqrt(int) -> double | | The square root; NaN below zero.
math.bitAnd(int, int) -> int | | Bits that both have.
math.bitOr(int, int) -> int | | Bits that either has.
math.bitXor(int, int) -> int | | Bits in which the two differ.
math.bitNot(int) -> int | | The opposite bits.
math.bitShiftLeft(int, int) -> int | | Bits moved up; an error for a negative distance.
math.bitShiftRight(int, int) -> int | | Bits moved down, zeros coming in; negative is an error.
min(O...) -> O | ext | The least argument.
max(O...) -> O | ext | The greatest argument.
abs(int) -> int | ext | Without its sign; an error for the smallest int.
abs(double) -> double | ext | Without its sign.
abs(quantity) -> quantity | ext | Without its sign.
clamp(O, O, O) -> O | ext | The first, but not below the second and not above the third.
percent(int, int) -> int | ext | part * 100 / whole within 0..100; 0 where whole <= 0.
percent(quantity, quantity) -> int | ext | part * 100 / whole within 0..100; 0 where whole <= 0.
interpolate(int, list(list(int))) -> int | ext | Piecewise linear through [[x, y], ...]; truncates.
interpolate(double, list(list(double))) -> double | ext | Piecewise linear through [[x, y], ...].
"""

_TIME_PARTS: Final = {
    "getFullYear": "The year.",
    "getMonth": "The month, from 0.",
    "getDate": "The day of the month, from 1.",
    "getDayOfMonth": "The day of the month, from 0.",
    "getDayOfWeek": "The day of the week, from 0 for Sunday.",
    "getDayOfYear": "The day of the year, from 0.",
    "getHours": "The hour.",
    "getMinutes": "The minute.",
    "getSeconds": "The second.",
    "getMilliseconds": "The millisecond.",
}
_TIME: Final = "\n".join(
    [
        *(f"timestamp.{name}() -> int | | {doc} UTC." for name, doc in _TIME_PARTS.items()),
        *(
            f"timestamp.{name}(string) -> int | | {doc} In the given time zone."
            for name, doc in _TIME_PARTS.items()
        ),
        "duration.getHours() -> int | | Whole hours.",
        "duration.getMinutes() -> int | | Whole minutes.",
        "duration.getSeconds() -> int | | Whole seconds.",
        "duration.getMilliseconds() -> int | | The milliseconds within the second.",
    ]
)

_OPTIONAL: Final = """
optional.of(T) -> optional(T) | | A value that is there.
optional.none() -> optional(unknown) | | No value.
optional.ofNonZeroValue(T) -> optional(T) | | None for 0, "", false, [] and {}.
optional.unwrap(list(optional(T))) -> list(T) | | The values that are there.
list(optional(T)).unwrapOpt() -> list(T) | | The values that are there.
optional(T).hasValue() -> bool | | Whether there is a value.
optional(T).value() -> T | | The value; an error where there is none.
optional(T).or(optional(T)) -> optional(T) | | The first that has a value.
optional(T).orValue(T) -> T | | The value, or the argument where there is none.
"""

#: (group, not in Kubernetes' CEL, lines)
VALUE_GROUPS: Final = (
    ("Arithmetic", False, _ARITHMETIC),
    ("Comparison", False, _COMPARISON),
    ("Conversion", False, _CONVERSION),
    ("String", False, _STRING),
    ("List and map", False, _COLLECTION),
    ("Math", False, _MATH),
    ("Time", False, _TIME),
    ("Optional", False, _OPTIONAL),
)
