"""Nodes and pods as NumPy columns, with a journal of changed rows.

A row is stable while its node lives. Columns are declared once in schema and built when first
read. Scheduling decisions are not made here.
"""

from policy_sched.cluster.tables.column import Column, distinct, sum_of
from policy_sched.cluster.tables.image_states import names_of
from policy_sched.cluster.tables.interning import Strings
from policy_sched.cluster.tables.journal import DYNAMIC, STATIC, STRUCTURE, Changes, Journal
from policy_sched.cluster.tables.node_readers import reader
from policy_sched.cluster.tables.node_table import NodeTable
from policy_sched.cluster.tables.node_view import NodeView
from policy_sched.cluster.tables.pod_table import (
    NO_NODE,
    TEXT_ATTRIBUTES,
    PodRows,
    PodTable,
    pod_table_reader,
)
from policy_sched.cluster.tables.requested import SMALL, total
from policy_sched.cluster.tables.schema import (
    CODE_UNIT,
    MAX_IMAGE,
    MAX_SUM,
    NODE_COLUMNS,
    POD_COLUMNS,
    POD_TEXTS,
    Family,
    Key,
    Kind,
    Scope,
)

__all__ = [
    "CODE_UNIT",
    "DYNAMIC",
    "MAX_IMAGE",
    "MAX_SUM",
    "NODE_COLUMNS",
    "NO_NODE",
    "POD_COLUMNS",
    "POD_TEXTS",
    "SMALL",
    "STATIC",
    "STRUCTURE",
    "TEXT_ATTRIBUTES",
    "Changes",
    "Column",
    "Family",
    "Journal",
    "Key",
    "Kind",
    "NodeTable",
    "NodeView",
    "PodRows",
    "PodTable",
    "Scope",
    "Strings",
    "distinct",
    "names_of",
    "pod_table_reader",
    "reader",
    "sum_of",
    "total",
]
