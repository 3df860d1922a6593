"""The NumPy text of each operation over rows; a kind that is not here is done row by row.

An argument may be an array with an element per row, or one number for every row:
every text here takes both. Int garbage wraps, divisions by zero give garbage without a warning
(the caller sets `numpy.errstate`), both under a mask or an error.
"""

from __future__ import annotations

from typing import Final

VECTOR: Final[dict[str, str]] = {
    "row": "rt.row_numbers(rows)",
    "tally_rows": "{0}.rows(rows)",
    "tally_domain": "{0}.domain_rows({1}, rows)",
    "score": "ctx.score",
    "column": "{d}.values[rows]",
    "column_of": "column(({d}, {0})).values[rows]",
    "fits": "fits_rows(rt, {d}, {0}, rows)",
    "affinity": "affinity_rows(rt, {0}, {1}, rows)",
    "preference": "preference_rows(rt, {0}, rows)",
    "and": "both({0}, {1})",
    "or": "either({0}, {1})",
    "where": "chosen({0}, {1}, {2})",
    "not": "opposite({0})",
    "true_int": "as_ints({0})",
    "first_error": "earlier({0}, {1})",
    "error_if": "chosen({0}, {s}, 0)",
    "failed": "({0} != 0)",
    "no_error": "({0} == 0)",
    "eq": "({0} == {1})",
    "ne": "({0} != {1})",
    "lt": "({0} < {1})",
    "le": "({0} <= {1})",
    "gt": "({0} > {1})",
    "ge": "({0} >= {1})",
    "add": "add({0}, {1})",
    "sub": "subtract({0}, {1})",
    "mul": "multiply({0}, {1})",
    "add_checked": "add_checked({0}, {1}, {s})",
    "sub_checked": "sub_checked({0}, {1}, {s})",
    "mul_checked": "mul_checked({0}, {1}, {s})",
    "neg": "negative({0})",
    "quot_nn": "floor_divide({0}, {1})",
    "quot": "quotient_rows({0}, {1})",
    "rem": "remainder_rows({0}, {1})",
    "percent": "percent_rows({0}, {1})",
    "percent_of_column": "percent_within({0}, {1}, rt.ends({d}), False)",
    "percent_of_rest": "percent_within({0}, {1}, rt.ends({d}), True)",
    "divisor": "divisors({0})",
    "share": "as_whole(shares({0}, {1}, False))",
    "share_of_rest": "as_whole(shares({0}, {1}, True))",
    "share_double": "shares({0}, {1}, False)",
    "share_of_rest_double": "shares({0}, {1}, True)",
    "shift": "right_shift({0}, {s})",
    "table": "table_rows({d}.array, subtract({0}, {d}.first))",
    "min2": "least_rows({0}, {1})",
    "max2": "greatest_rows({0}, {1})",
    "sign": "sign_rows({0})",
    "fadd": "add({0}, {1})",
    "fsub": "subtract({0}, {1})",
    "fmul": "multiply({0}, {1})",
    "fneg": "negative({0})",
    "fdiv": "true_divide({0}, {1})",
    "to_double": "to_double({0})",
    "truncate": "truncate_rows({0})",
    "to_int": "int_of_double_rows({0}, {s})",
    "round": "round_rows({0})",
    "wide_count": "count_wide_rows({*})",
    "wide_mean": "mean_wide_rows({*})",
    "wide_deviation": "deviation_wide_rows({*})",
    "wide_weighted": "weighted_wide_rows({*})",
    "wide_weighted_doubles": "weighted_wide_doubles({*})",
}

#: Loops over a list known before the node is, whose body is computed for all rows at once.
VECTOR_LOOPS: Final = frozenset({"all", "exists", "count", "sum_int", "sum_double"})
