"""The environment of the language and the implementations of its functions.

environment.toml and functions.toml declare variables, records, sections and functions; the checker,
the manual and completion read the same tables.
"""

from policy_sched.language.stdlib.builtins import FREE, KERNELS, Builtin, is_sized
from policy_sched.language.stdlib.builtins_collections import (
    amount,
    double_total,
    element,
    equal,
    has_element,
    has_key,
    includes_map,
    mapping,
    sorted_keys,
    total,
    value_at,
)
from policy_sched.language.stdlib.builtins_format import formatter
from policy_sched.language.stdlib.builtins_math import is_shape
from policy_sched.language.stdlib.builtins_quantity import (
    double_of_units,
    fraction_of_text,
    free_total,
    is_whole,
    scale_of_resource,
    thousandths_in,
    units_in,
    whole_of_units,
    whole_or_fault,
)
from policy_sched.language.stdlib.builtins_scheduler import (
    affinity_of,
    fits,
    has_preferred,
    has_required,
    node_matches,
    preference,
    read_affinity,
    required_names,
    selector,
    tolerates,
    without,
)
from policy_sched.language.stdlib.builtins_semver import Version, version
from policy_sched.language.stdlib.builtins_time import timestamp_of_text
from policy_sched.language.stdlib.environment import (
    ANY,
    DEFINITION,
    Environment,
    Record,
    RecordField,
    Section,
    Variable,
    policy_environment,
)
from policy_sched.language.stdlib.overloads import NAMESPACES, Overload, choose, closest, settle
from policy_sched.language.stdlib.value_printer import value_data, value_text

__all__ = [
    "ANY",
    "DEFINITION",
    "FREE",
    "KERNELS",
    "NAMESPACES",
    "Builtin",
    "Environment",
    "Overload",
    "Record",
    "RecordField",
    "Section",
    "Variable",
    "Version",
    "affinity_of",
    "amount",
    "choose",
    "closest",
    "double_of_units",
    "double_total",
    "element",
    "equal",
    "fits",
    "formatter",
    "fraction_of_text",
    "free_total",
    "has_element",
    "has_key",
    "has_preferred",
    "has_required",
    "includes_map",
    "is_shape",
    "is_sized",
    "is_whole",
    "mapping",
    "node_matches",
    "policy_environment",
    "preference",
    "read_affinity",
    "required_names",
    "scale_of_resource",
    "selector",
    "settle",
    "sorted_keys",
    "thousandths_in",
    "timestamp_of_text",
    "tolerates",
    "total",
    "units_in",
    "value_at",
    "value_data",
    "value_text",
    "version",
    "whole_of_units",
    "whole_or_fault",
    "without",
]
