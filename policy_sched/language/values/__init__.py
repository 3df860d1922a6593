"""Types, intervals, errors and records: the values of the language.

Imports no other stage.
"""

from policy_sched.language.values import intervals as intervals, limits as limits, types as types
from policy_sched.language.values.intervals import (
    BOOLS as BOOLS,
    DOUBLES as DOUBLES,
    INT64 as INT64,
    INT_MAX as INT_MAX,
    INT_MIN as INT_MIN,
    Interval as Interval,
    truncated as truncated,
)
from policy_sched.language.values.limits import (
    CONVERSION as CONVERSION,
    DIVIDE_BY_ZERO as DIVIDE_BY_ZERO,
    KINDS as KINDS,
    MAX_STEPS as MAX_STEPS,
    NO_SUCH_KEY as NO_SUCH_KEY,
    NO_VALUE as NO_VALUE,
    NOT_FINITE as NOT_FINITE,
    OUT_OF_RANGE as OUT_OF_RANGE,
    OVERFLOW as OVERFLOW,
    Failure as Failure,
    Fault as Fault,
    LimitError as LimitError,
    RuleError as RuleError,
    Some as Some,
    folded as folded,
    one_evaluation as one_evaluation,
    refill as refill,
    remaining as remaining,
    spend_of_total as spend_of_total,
    weigh as weigh,
)
from policy_sched.language.values.objects import (
    ATTRIBUTE as ATTRIBUTE,
    OWNER as OWNER,
    BlankObject as BlankObject,
    ObjectReader as ObjectReader,
    annotation_reader as annotation_reader,
    decoded_as as decoded_as,
    object_of as object_of,
)
from policy_sched.language.values.records import (
    NO_ALLOCATION as NO_ALLOCATION,
    NO_DEVICE as NO_DEVICE,
    NO_NODE as NO_NODE,
    NO_REQUEST as NO_REQUEST,
    NOWHERE as NOWHERE,
    AllocatedDeviceFacts as AllocatedDeviceFacts,
    AllocationFacts as AllocationFacts,
    AttributeFacts as AttributeFacts,
    DeviceFacts as DeviceFacts,
    ImageFacts as ImageFacts,
    NodeFacts as NodeFacts,
    PlacementFacts as PlacementFacts,
    QualifiedNames as QualifiedNames,
    RequestFacts as RequestFacts,
    snake as snake,
)
from policy_sched.language.values.schema_changes import schema_changes as schema_changes
