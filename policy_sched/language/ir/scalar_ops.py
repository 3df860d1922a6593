"""The Python text of each operation on the values of one row (or of no row at all).

``{0}``, ``{1}`` stand for arguments, ``{d}`` for the slot that holds the op's data, ``{s}`` for its
error site. Every text is total: it raises for no argument, and what it yields under an error or in
a branch not taken is garbage of the right type. Names in the texts are those of `runtime_names`.
"""

from __future__ import annotations

from typing import Final

#: Kinds whose arguments after the first are only computed where the first does not decide.
LAZY: Final = {"and", "or", "where"}

#: Kinds whose argument texts occur twice, so that an argument has to be a name.
ATOMS: Final = {"quot_nn", "fdiv", "min2", "max2", "clamp2", "opt_value", "divisor"}

SCALAR: Final[dict[str, str]] = {
    "pod": "pod",
    "ctx": "ctx",
    "of_ctx": "ctx.{a}",
    "cluster": "rt",
    "score": "ctx.score",
    "scores": "ctx.scores",
    "row": "row",
    "column": "{d}.view[row]",
    "column_of": "column(({d}, {0})).view[row]",
    "field_of_pod": "pod.{a}",
    "attr": "{0}.{a}",
    "code": "code({0})",
    "domain_list": "{0}.all",
    "runtime": "rt.{a}",
    "runtime_of": "rt.{a}({0})",
    "node_at": "rt.node({0})",
    "facts_at": "rt.facts({0})",
    "pods_at": "rt.pods_at({0})",
    "domain_index": "rt.domains({0})",
    "domain_at": "{0}.at({1})",
    "tally_total": "{0}.domain_total({1}, {2}.row)",
    "find": "find({0})",
    "text": "texts[{0}]",
    "taints": "taint_members({0})",
    "ports": "port_members({0})",
    "fits": "fits_row(rt, {d}, {0}, row)",
    "affinity": "affinity_row(rt, {0}, {1}, row)",
    "preference": "preference_row(rt, {0}, row)",
    "in_codes": "({0} in {1})",
    # logic
    "and": "({0} and {1})",
    "or": "({0} or {1})",
    "where": "({1} if {0} else {2})",
    "not": "(not {0})",
    "true_int": "int({0})",
    # errors
    "first_error": "({0} or {1})",
    "error_if": "({s} if {0} else 0)",
    "failed": "({0} != 0)",
    "no_error": "({0} == 0)",
    # comparison
    "eq": "({0} == {1})",
    "ne": "({0} != {1})",
    "lt": "({0} < {1})",
    "le": "({0} <= {1})",
    "gt": "({0} > {1})",
    "ge": "({0} >= {1})",
    "lt_exact": "({0} < {1})",
    "le_exact": "({0} <= {1})",
    "gt_exact": "({0} > {1})",
    "ge_exact": "({0} >= {1})",
    # int64
    "add": "({0} + {1})",
    "sub": "({0} - {1})",
    "mul": "({0} * {1})",
    "add_checked": "checked({0} + {1}, {s})",
    "sub_checked": "checked({0} - {1}, {s})",
    "mul_checked": "checked({0} * {1}, {s})",
    "neg": "(-{0})",
    "quot_nn": "({0} // {1} if {1} else 0)",
    "quot": "quotient({0}, {1})",
    "rem": "remainder({0}, {1})",
    "percent": "percent({0}, {1})",
    "percent_of_column": "percent({0}, {1})",
    "percent_of_rest": "percent({0}, {1})",
    "divisor": "(float({0}) if {0} > 0 else inf)",
    "share": "share({0}, {1})",
    "share_of_rest": "share({0}, {1})",
    "share_double": "share({0}, {1})",
    "share_of_rest_double": "share({0}, {1})",
    "shift": "({0} >> {s})",
    "table": "table_at({d}.entries, {0} - {d}.first)",
    "min2": "({1} if {1} < {0} else {0})",
    "max2": "({1} if {1} > {0} else {0})",
    "sign": "sign({0})",
    # doubles
    "fadd": "({0} + {1})",
    "fsub": "({0} - {1})",
    "fmul": "({0} * {1})",
    "fneg": "(-{0})",
    "fdiv": "({0} / {1} if {1} else divide_by_zero({0}, {1}))",
    "to_double": "float({0})",
    "truncate": "truncate({0})",
    "to_int": "int_of_double({0}, {s})",
    "round": "round_half_away({0})",
    # optionals
    "some": "Some({0})",
    "none": "None",
    "is_some": "({0} is not None)",
    "opt_value": "({0}.value if {0} is not None else {1})",
    # lists of masked values
    "wide": "compact({*})",
    "wide_count": "count_wide({*})",
    "wide_mean": "mean_wide({*})",
    "wide_deviation": "deviation_wide({*})",
    "wide_weighted": "weighted_wide({*})",
    "wide_weighted_doubles": "weighted_wide({*})",
    "list": "[{*}]",
    "tuple_of_row": "({*},)",
}
