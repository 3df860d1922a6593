"""The environment of the language and the implementations of its functions.

environment.toml and functions.toml declare variables, records, sections and functions of policies,
selector_environment.toml and selector_functions.toml those of selectors over devices; the checker,
the manual and completion read the same tables.
"""

from policy_sched.language.stdlib.builtins import (
    BUILTINS as BUILTINS,
    FREE as FREE,
    Builtin as Builtin,
    is_sized as is_sized,
)
from policy_sched.language.stdlib.builtins_collections import (
    amount as amount,
    double_total as double_total,
    element as element,
    equal as equal,
    has_element as has_element,
    has_key as has_key,
    includes_map as includes_map,
    mapping as mapping,
    sorted_keys as sorted_keys,
    total as total,
    value_at as value_at,
)
from policy_sched.language.stdlib.builtins_math import is_shape as is_shape
from policy_sched.language.stdlib.builtins_quantity import (
    Version as Version,
    double_of_units as double_of_units,
    fraction_of_text as fraction_of_text,
    free_total as free_total,
    is_whole as is_whole,
    scale_of_resource as scale_of_resource,
    thousandths_in as thousandths_in,
    units_in as units_in,
    version as version,
    whole_of_units as whole_of_units,
    whole_or_fault as whole_or_fault,
)
from policy_sched.language.stdlib.builtins_scheduler import (
    UNLIMITED as UNLIMITED,
    affinity_of as affinity_of,
    fits as fits,
    has_preferred as has_preferred,
    has_required as has_required,
    node_matches as node_matches,
    preference as preference,
    read_affinity as read_affinity,
    required_names as required_names,
    selector as selector,
    tolerates as tolerates,
    without as without,
)
from policy_sched.language.stdlib.builtins_string import formatter as formatter
from policy_sched.language.stdlib.builtins_time import (
    text_of_timestamp as text_of_timestamp,
    timestamp_of_text as timestamp_of_text,
)
from policy_sched.language.stdlib.environment import (
    ANY as ANY,
    DEFINITION as DEFINITION,
    Environment as Environment,
    MacroForms as MacroForms,
    Overload as Overload,
    Record as Record,
    RecordField as RecordField,
    Section as Section,
    Variable as Variable,
    choose as choose,
    closest as closest,
    policy_environment as policy_environment,
    selector_environment as selector_environment,
    settle as settle,
)
from policy_sched.language.stdlib.input_kinds import (
    core_object as core_object,
    decoded_structs as decoded_structs,
    kinds_of_inputs as kinds_of_inputs,
    object_type as object_type,
)
from policy_sched.language.stdlib.value_printer import (
    value_data as value_data,
    value_text as value_text,
)
