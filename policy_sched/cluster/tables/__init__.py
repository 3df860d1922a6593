"""Nodes and pods as NumPy columns, with a journal of changed rows.

A row is stable while its node lives. Columns are declared once in schema and built when first
read. Scheduling decisions are not made here.
"""

from policy_sched.cluster.tables.aggregates import (
    BOUND as BOUND,
    NEVER as NEVER,
    NOMINATED as NOMINATED,
    QUEUED as QUEUED,
    ROOT as ROOT,
    Aggregate as Aggregate,
    Contribution as Contribution,
    Lookup as Lookup,
    OtherPod as OtherPod,
    Since as Since,
)
from policy_sched.cluster.tables.column import (
    Column as Column,
    distinct as distinct,
    sum_of as sum_of,
)
from policy_sched.cluster.tables.dependencies import ANY as ANY, Dependencies as Dependencies
from policy_sched.cluster.tables.image_states import names_of as names_of
from policy_sched.cluster.tables.inputs import InputTable as InputTable
from policy_sched.cluster.tables.interning import Strings as Strings
from policy_sched.cluster.tables.journal import (
    DYNAMIC as DYNAMIC,
    STATIC as STATIC,
    STRUCTURE as STRUCTURE,
    Changes as Changes,
    Journal as Journal,
)
from policy_sched.cluster.tables.node_readers import reader as reader
from policy_sched.cluster.tables.node_table import Devices as Devices, NodeTable as NodeTable
from policy_sched.cluster.tables.node_view import NodeView as NodeView
from policy_sched.cluster.tables.pod_table import (
    NO_NODE as NO_NODE,
    TEXT_ATTRIBUTES as TEXT_ATTRIBUTES,
    PodRows as PodRows,
    PodTable as PodTable,
    pod_table_reader as pod_table_reader,
)
from policy_sched.cluster.tables.quotas import (
    NO_QUOTA as NO_QUOTA,
    Grant as Grant,
    QuotaKind as QuotaKind,
    Quotas as Quotas,
    QuotaState as QuotaState,
    weight_in_thousandths as weight_in_thousandths,
)
from policy_sched.cluster.tables.requested import SMALL as SMALL, total as total
from policy_sched.cluster.tables.schema import (
    CODE_UNIT as CODE_UNIT,
    MAX_IMAGE as MAX_IMAGE,
    MAX_SUM as MAX_SUM,
    NODE_COLUMNS as NODE_COLUMNS,
    NODE_FIELDS as NODE_FIELDS,
    POD_COLUMNS as POD_COLUMNS,
    POD_TEXTS as POD_TEXTS,
    Family as Family,
    Key as Key,
    Kind as Kind,
    Scope as Scope,
)
