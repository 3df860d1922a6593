"""Records of shadow mode: its decisions, the other scheduler's, and the use of the nodes.

Lines of JSON, one record each; ``record`` says which. Amounts are scheduler units (thousandths of
a CPU, bytes, pieces). A file can be read from any ``start`` on: it says how full the nodes were.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec
from msgspec import field

Amounts: TypeAlias = dict[str, int]


class Result(StrEnum):
    """How our decision compares with the other scheduler's."""

    AGREE = "agree"
    """The same node, or one that we like as much; or both find none."""
    DIFFER = "differ"
    """Both found a node, and theirs is not among our best."""
    UNSCHEDULABLE = "unschedulable"
    """They found a node, we find none."""
    SCHEDULABLE = "schedulable"
    """They found none, we find one."""
    UNDECIDED = "undecided"
    """They have not answered for a while."""
    ERROR = "error"
    """Our decision broke."""


class Side(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """What one scheduler decided: ``node``, or None and why in ``message``.

    ``victims`` have to leave the node before. ``score`` is the node's total by our policies. Of
    a node that our filters reject, ``rejected_by`` names the plugin and ``reasons`` what it says.
    """

    node: str | None = None
    message: str = ""
    preempts: bool = False
    victims: tuple[str, ...] = ()
    score: int | None = None
    rejected_by: str = ""
    reasons: tuple[str, ...] = ()


class Comparison(
    msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, tag_field="record", tag="pod"
):
    """One decision of another scheduler, and ours for the same pod on the same cluster.

    ``difference``: by plugin, how many points more it gives our node than theirs, where that is
    not zero. ``beforehand``: we decided when the pod came, and not when its binding did.
    ``time`` is in seconds since 1970.
    """

    time: float
    pod: str
    uid: str
    result: Result
    scheduler: str
    profile: str
    theirs: Side
    ours: Side
    difference: dict[str, int] = field(default_factory=dict)
    feasible_nodes: int = 0
    evaluated_nodes: int = 0
    beforehand: bool = False
    requests: Amounts = field(default_factory=dict)
    generation: int = 0
    content_hash: str = ""


class NodeFill(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """How much a node has, and how much of it pods ask for; ``pods`` is how many they are."""

    node: str
    allocatable: Amounts
    requested: Amounts = field(default_factory=dict)


class Start(
    msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, tag_field="record", tag="start"
):
    """From here on the file tells everything; the nodes as they are.

    ``continues``: the file before it ended here, and nothing is missing in between.
    """

    time: float
    scheduler: str
    profile: str
    nodes: tuple[NodeFill, ...]
    continues: bool = False


class NodeSeen(
    msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, tag_field="record", tag="node"
):
    """A node came, changed, or went (``allocatable`` is None)."""

    node: str
    allocatable: Amounts | None = None


class PodPlaced(msgspec.Struct, rename="camel", frozen=True, tag_field="record", tag="placed"):
    """A pod that is not compared has come to a node."""

    uid: str
    node: str
    requests: Amounts


class PodGone(msgspec.Struct, rename="camel", frozen=True, tag_field="record", tag="gone"):
    """A pod has left its node ("" if it had none)."""

    uid: str
    node: str
    requests: Amounts


ShadowRecord: TypeAlias = Start | Comparison | NodeSeen | PodPlaced | PodGone
