"""The operations: one row per kind, with everything that the compiler knows of it.

``{0}``, ``{1}`` stand for arguments, ``{*}`` for all of them, ``{d}`` for the name of the constant
that holds the op's data, ``{s}`` for the data itself, such as an error site. Names in the texts are
those that runtime/ defines.

Every text is total: it raises for no argument, and under an error or in a branch that is not taken
it yields some value of the right type. Ints wrap there, and a division by zero warns of nothing
(the caller sets `numpy.errstate`). In a vector text an argument is an array or one number for all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

#: Units of an operation on arrays that is one pass over them.
ONE_PASS: Final = 0.25


class Trend(Enum):
    """How a value changes as its arguments increase; see dependencies.py."""

    UNKNOWN = auto()
    SAME = auto()
    """It increases with every argument."""
    OPPOSITE = auto()
    """It decreases with its argument."""
    DIFFERENCE = auto()
    """It increases with the first argument and decreases with the second."""
    LESS = auto()
    """It decreases with the first argument and increases with the second."""
    SCALED = auto()
    """It is a multiple, or a fraction, of one argument if the other is a constant."""
    SHARE = auto()
    """It increases with the first argument if the second stays the same."""
    CHOICE = auto()
    """It changes as the second and third argument do if the first stays the same."""
    COLUMN = auto()
    """It changes as the column of the node table does that it reads."""
    GROWS = auto()
    """It increases as pods are added to the node."""


class LoopKind(Enum):
    """What a loop makes of its values: the text that it starts from, and whether it runs over rows.

    A loop over rows takes its list from outside of the node and computes its body for all rows.
    """

    LIST = "list", "[]", False
    DICT = "dict", "{}", False
    ALL = "all", "True", True
    EXISTS = "exists", "False", True
    COUNT = "count", "0", True
    SUM_INT = "sum_int", "0", True
    SUM_DOUBLE = "sum_double", "0.0", True

    def __init__(self, _name: str, start: str, over_rows: bool) -> None:
        self.start = start
        self.over_rows = over_rows


@dataclass(frozen=True, slots=True, eq=False)
class OpKind:
    """A kind of operation; compared by identity.

    ``scalar`` is its Python text for one row, ``vector`` its NumPy text for many, "" if it has
    none. ``price`` is in units of `cost`, per node; ``per_argument`` multiplies it. ``free`` ops
    cost nothing. Of ``lazy`` ops the later arguments are computed only if the first one needs them.
    ``elementwise`` vector texts take arrays of any shape. ``by_row`` ops are read by the number of
    the row, ``columns`` hold a column of the node table, or its family, as data.
    ``pod_invariant`` is whether the value stays the same from pod to pod if the arguments do and
    the row has not changed. ``node_field`` is what it reads of a node besides columns.
    """

    name: str
    scalar: str = ""
    vector: str = ""
    trend: Trend = Trend.UNKNOWN
    price: float = ONE_PASS
    per_argument: bool = False
    free: bool = False
    lazy: bool = False
    elementwise: bool = False
    by_row: bool = False
    columns: bool = False
    pod_invariant: bool = True
    node_field: str = ""

    @property
    def is_name(self) -> bool:
        """Whether the scalar text is a plain name, which may be written again and again."""
        return bool(self.scalar) and "{" not in self.scalar

    @property
    def repeats_arguments(self) -> bool:
        """Whether an argument occurs twice in the scalar text, so that it has to be a name."""
        places: list[str] = re.findall(r"\{(\d)\}", self.scalar)
        return len(places) > len(set(places))

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        """Pickle as the constant of this module that has the kind's name."""
        return self.name.upper()


# Leaves and records.

CONST = OpKind("const", free=True)
PARAM = OpKind("param", free=True)
NONE = OpKind("none", "None")
POD = OpKind("pod", "pod", free=True, pod_invariant=False)
CTX = OpKind("ctx", "ctx", free=True, pod_invariant=False)
OF_CTX = OpKind("of_ctx", "ctx.{s}", pod_invariant=False)
CLUSTER = OpKind("cluster", "rt", free=True, pod_invariant=False)
SCORE = OpKind("score", "ctx.score", "ctx.score", price=0.0, pod_invariant=False)
SCORES = OpKind("scores", "ctx.scores", pod_invariant=False)
ROW = OpKind("row", "row", "rt.row_numbers(rows)", price=1.0, by_row=True, pod_invariant=False)
COLUMN = OpKind(
    "column",
    "{d}.view[row]",
    "{d}.values[rows]",
    Trend.COLUMN,
    price=0.0,
    by_row=True,
    columns=True,
)
COLUMN_OF = OpKind(
    "column_of",
    "column(({d}, {0})).view[row]",
    "column(({d}, {0})).values[rows]",
    Trend.COLUMN,
    price=0.0,
    by_row=True,
    columns=True,
)
FIELD_OF_POD = OpKind("field_of_pod", "pod.{s}")
ATTR = OpKind("attr", "{0}.{s}")
RUNTIME_OF = OpKind("runtime_of", "rt.{s}({0})", pod_invariant=False)
NODE_AT = OpKind("node_at", "rt.node({0})")
FACTS_AT = OpKind("facts_at", "rt.facts({0})", pod_invariant=False)
PODS_AT = OpKind("pods_at", "rt.pods_at({0})", trend=Trend.GROWS, node_field="pods")
DEVICES_AT = OpKind("devices_at", "rt.devices_at({0})", pod_invariant=False, node_field="devices")
ALLOCATION_AT = OpKind(
    "allocation_at", "ctx.allocation({0}, {1})", pod_invariant=False, node_field="allocation"
)
TAINTS = OpKind("taints", "taint_members({0})", trend=Trend.SAME)
PORTS = OpKind("ports", "port_members({0})", trend=Trend.SAME)

# Domains, and counts of pods.

DOMAIN_INDEX = OpKind("domain_index", "rt.domains({0})", pod_invariant=False, node_field="domain")
DOMAIN_AT = OpKind("domain_at", "{0}.at({1})")
DOMAIN_LIST = OpKind("domain_list", "{0}.all")
COUNTS = OpKind("counts", pod_invariant=False)
COUNT_ALL = OpKind("count_all", pod_invariant=False, node_field="cluster")
COUNT_ON_ROW = OpKind("count_on_row", vector="{0}.rows(rows)", price=0.2)
COUNT_IN_DOMAIN = OpKind("count_in_domain", vector="{0}.domain_rows({1}, rows)", price=2.0)
COUNT_OF_DOMAIN = OpKind("count_of_domain", "{0}.domain_total({1}, {2}.row)")

# Texts, which are codes over rows.

CODE = OpKind("code", "code({0})")
FIND = OpKind("find", "find({0})")
TEXT = OpKind("text", "texts[{0}]")

# Scheduling.

FITS = OpKind(
    "fits",
    "fits_row(rt, {d}, {0}, row)",
    "fits_rows(rt, {d}, {0}, rows)",
    Trend.COLUMN,
    price=0.6,
    by_row=True,
    columns=True,
)
AFFINITY = OpKind(
    "affinity",
    "affinity_row(rt, {0}, {1}, row)",
    "affinity_rows(rt, {0}, {1}, rows)",
    price=0.6,
    by_row=True,
    node_field="labels",
)
PREFERENCE = OpKind(
    "preference",
    "preference_row(rt, {0}, row)",
    "preference_rows(rt, {0}, rows)",
    price=0.3,
    by_row=True,
    node_field="labels",
)

# Calls of builtins and loops, whose text follows from their data.

CALL = OpKind("call")
LOOP = OpKind("loop")
VAL = OpKind("val", trend=Trend.SAME, free=True)
ERR = OpKind("err", free=True)


def _elementwise(
    name: str, scalar: str, vector: str, trend: Trend = Trend.UNKNOWN, price: float = ONE_PASS
) -> OpKind:
    return OpKind(name, scalar, vector, trend, price, elementwise=True)


# Logic and choice.

AND = OpKind("and", "({0} and {1})", "both({0}, {1})", Trend.SAME, lazy=True, elementwise=True)
OR = OpKind("or", "({0} or {1})", "either({0}, {1})", Trend.SAME, lazy=True, elementwise=True)
WHERE = OpKind(
    "where",
    "({1} if {0} else {2})",
    "chosen({0}, {1}, {2})",
    Trend.CHOICE,
    1.0,
    lazy=True,
    elementwise=True,
)
NOT = _elementwise("not", "(not {0})", "opposite({0})", Trend.OPPOSITE)
TRUE_INT = _elementwise("true_int", "int({0})", "as_ints({0})", Trend.SAME)

# Errors.

FIRST_ERROR = _elementwise("first_error", "({0} or {1})", "earlier({0}, {1})", price=1.0)
ERROR_IF = _elementwise("error_if", "({s} if {0} else 0)", "chosen({0}, {s}, 0)", price=0.7)
FAILED = _elementwise("failed", "({0} != 0)", "({0} != 0)")
NO_ERROR = _elementwise("no_error", "({0} == 0)", "({0} == 0)")

# Comparison. The exact ones are of an int and a double that no double need equal.

EQ = _elementwise("eq", "({0} == {1})", "({0} == {1})")
NE = _elementwise("ne", "({0} != {1})", "({0} != {1})")
LT = _elementwise("lt", "({0} < {1})", "({0} < {1})", Trend.LESS)
LE = _elementwise("le", "({0} <= {1})", "({0} <= {1})", Trend.LESS)
GT = _elementwise("gt", "({0} > {1})", "({0} > {1})", Trend.DIFFERENCE)
GE = _elementwise("ge", "({0} >= {1})", "({0} >= {1})", Trend.DIFFERENCE)
LT_EXACT = OpKind("lt_exact", "({0} < {1})")
LE_EXACT = OpKind("le_exact", "({0} <= {1})")
GT_EXACT = OpKind("gt_exact", "({0} > {1})")
GE_EXACT = OpKind("ge_exact", "({0} >= {1})")

# Ints. The checked ones make a value and an error.

ADD = _elementwise("add", "({0} + {1})", "add({0}, {1})", Trend.SAME)
SUB = _elementwise("sub", "({0} - {1})", "subtract({0}, {1})", Trend.DIFFERENCE)
MUL = _elementwise("mul", "({0} * {1})", "multiply({0}, {1})", Trend.SCALED)
ADD_CHECKED = _elementwise(
    "add_checked", "checked({0} + {1}, {s})", "add_checked({0}, {1}, {s})", Trend.SAME, 2.0
)
SUB_CHECKED = _elementwise(
    "sub_checked", "checked({0} - {1}, {s})", "sub_checked({0}, {1}, {s})", Trend.DIFFERENCE, 2.0
)
MUL_CHECKED = _elementwise(
    "mul_checked", "checked({0} * {1}, {s})", "mul_checked({0}, {1}, {s})", Trend.SCALED, 5.0
)
FLOOR_DIVIDE = _elementwise(
    "floor_divide", "({0} // {1} if {1} else 0)", "floor_divide({0}, {1})", Trend.SCALED, 1.5
)
QUOTIENT = _elementwise(
    "quotient", "quotient({0}, {1})", "quotient_rows({0}, {1})", Trend.SCALED, 5.0
)
REMAINDER = _elementwise("remainder", "remainder({0}, {1})", "remainder_rows({0}, {1})", price=5.0)
SHIFT = _elementwise("shift", "({0} >> {s})", "right_shift({0}, {s})")
MIN = _elementwise("min", "({1} if {1} < {0} else {0})", "least_rows({0}, {1})", Trend.SAME)
MAX = _elementwise("max", "({1} if {1} > {0} else {0})", "greatest_rows({0}, {1})", Trend.SAME)
SIGN = _elementwise("sign", "(({0} > 0) - ({0} < 0))", "sign_rows({0})", Trend.SAME, 1.0)
TABLE = OpKind(
    "table",
    "table_at({d}.entries, {0} - {d}.first)",
    "table_rows({d}.array, subtract({0}, {d}.first))",
    price=1.0,
)

# Percent: of two numbers, of a static column (its data), of what a static column is less a part.

_PERCENT: Final = "(0 if {1} <= 0 or {0} <= 0 else 100 if {0} >= {1} else {0} * 100 // {1})"
PERCENT = _elementwise("percent", _PERCENT, "percent_rows({0}, {1})", Trend.SHARE, price=4.0)
PERCENT_OF_COLUMN = OpKind(
    "percent_of_column",
    _PERCENT,
    "percent_within({0}, {1}, rt.ends({d}), False)",
    Trend.SHARE,
    price=2.5,
)
PERCENT_OF_REST = OpKind(
    "percent_of_rest",
    _PERCENT,
    "percent_within({0}, {1}, rt.ends({d}), True)",
    Trend.SHARE,
    price=2.5,
)
DIVISOR = OpKind("divisor", "(float({0}) if {0} > 0 else inf)", "divisors({0})", price=0.7)
_SHARE: Final = "int(min(max({0} / {1}, 0.0), 100.0))"
SHARE = OpKind("share", _SHARE, "as_whole(shares({0}, {1}, False))", price=1.5)
SHARE_OF_REST = OpKind("share_of_rest", _SHARE, "as_whole(shares({0}, {1}, True))", price=1.5)
SHARE_DOUBLE = OpKind("share_double", _SHARE, "shares({0}, {1}, False)")
SHARE_OF_REST_DOUBLE = OpKind("share_of_rest_double", _SHARE, "shares({0}, {1}, True)")

# Doubles.

FADD = _elementwise("fadd", "({0} + {1})", "add({0}, {1})", Trend.SAME)
FSUB = _elementwise("fsub", "({0} - {1})", "subtract({0}, {1})", Trend.DIFFERENCE)
FMUL = _elementwise("fmul", "({0} * {1})", "multiply({0}, {1})", Trend.SCALED)
FDIV = _elementwise(
    "fdiv",
    "({0} / {1} if {1} else divide_by_zero({0}, {1}))",
    "true_divide({0}, {1})",
    Trend.SCALED,
)
FABS = _elementwise("fabs", "abs({0})", "absolute({0})")
TO_DOUBLE = _elementwise("to_double", "float({0})", "to_double({0})", Trend.SAME)
TRUNCATE = _elementwise(
    "truncate",
    "(int({0}) if -9223372036854775808.0 <= {0} < 9223372036854775808.0 else 0)",
    "truncate_rows({0})",
    Trend.SAME,
)
TO_INT = _elementwise(
    "to_int", "int_of_double({0}, {s})", "int_of_double_rows({0}, {s})", Trend.SAME, 3.0
)
ROUND = _elementwise("round", "round_half_away({0})", "round_rows({0})", Trend.SAME, 1.5)

# Victims of many nodes at once: arrays of rows of the pod table, and what is read at them.

VICTIMS = OpKind("victims", vector="victims")
VICTIM_THERE = OpKind("victim_there", vector="(victims >= 0)")
VIOLATIONS = OpKind("violations", vector="violations")
POD_COLUMN = OpKind("pod_column", vector="rt.pods.lookup(({d},)).values[{0}]")
POD_ENTRY = OpKind("pod_entry", vector="rt.pods.lookup(({d}, {1})).values[{0}]")
COLUMN_AT_NODES = OpKind("column_at_nodes", vector="{d}.values[nodes]")
COLUMN_OF_AT_NODES = OpKind("column_of_at_nodes", vector="column(({d}, {0})).values[nodes]")
EACH_TEXT = OpKind("each_text", vector="each_text(rt, {d}, {*})")
ANY_VICTIM = OpKind("any_victim", vector="any_victim({0})")
SUM_OF_VICTIMS = OpKind("sum_of_victims", vector="sum_of_victims({0})")
UNSURE_SUM = OpKind("unsure_sum", vector="unsure_sum({0})")
GREATEST_VICTIM = OpKind("greatest_victim", vector="greatest_victim({0}, {1})")
LEAST_VICTIM = OpKind("least_victim", vector="least_victim({0}, {1})")

# Optionals and lists.

SOME = OpKind("some", "Some({0})")
IS_SOME = OpKind("is_some", "({0} is not None)")
OPT_VALUE = OpKind("opt_value", "({0}.value if {0} is not None else {1})")

# Lists of (mask, value) pairs, or of (mask, value, weight).

MASKED = OpKind("masked", "compact({*})")
MASKED_COUNT = OpKind(
    "masked_count", "count_masked({*})", "count_masked_rows({*})", per_argument=True
)
MASKED_MEAN = OpKind(
    "masked_mean", "mean_masked({*})", "mean_masked_rows({*})", price=1.0, per_argument=True
)
MASKED_DEVIATION = OpKind(
    "masked_deviation",
    "deviation_masked({*})",
    "deviation_masked_rows({*})",
    price=1.5,
    per_argument=True,
)
MASKED_DEVIATION_OF_TWO = OpKind(
    "masked_deviation_of_two",
    "(abs(float({1}) - float({3})) / 2 if {0} and {2} else 0.0)",
    "deviation_masked_rows({*})",
    price=1.5,
    per_argument=True,
)
MASKED_WEIGHTED = OpKind(
    "masked_weighted",
    "weighted_masked({*})",
    "weighted_masked_rows({*})",
    price=2.5,
    per_argument=True,
)
MASKED_WEIGHTED_DOUBLES = OpKind(
    "masked_weighted_doubles", "weighted_masked({*})", "weighted_masked_doubles({*})", price=1.0
)

KINDS: Final = {one.name: one for one in list(globals().values()) if isinstance(one, OpKind)}
