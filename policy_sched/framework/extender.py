"""Extender: the interface of a service outside the scheduler that filters, scores or binds.

The framework knows extenders by this protocol only: plugins/extenders speaks HTTP to real ones.
Whatever goes wrong in a call is a PluginError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

from policy_sched.model import Node, PodInfo

EXTENDER: Final = "Extender"
"""Represents extenders among the plugins that rejected a pod (kube-scheduler's word).

No extender states which events may help such a pod, so every event may.
"""


class Passed(msgspec.Struct, frozen=True):
    """The nodes that an extender's filter leaves, and why others do not do, by name.

    ``unresolvable``: those that no preemption helps; they come before ``failed``. A node that is
    in none of the three is gone without a word.
    """

    nodes: frozenset[str]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


class NodeVictims(msgspec.Struct, frozen=True):
    """Pods to be evicted from one node, and how many of them break a disruption budget."""

    pods: tuple[PodInfo, ...]
    violations: int


class NamedVictims(msgspec.Struct, frozen=True):
    """Pods to be evicted from one node, by UID, and how many break a disruption budget."""

    uids: tuple[str, ...]
    violations: int


class Skips(msgspec.Struct):
    """How often scheduling went on without an extender that failed, and its last error."""

    count: int = 0
    error: str = ""


class Extender(Protocol):
    """One extender. The verbs that it does not have are never called."""

    skips: Skips

    @property
    def name(self) -> str:
        """Its address."""

    @property
    def ignorable(self) -> bool:
        """Whether scheduling goes on without it when it fails."""

    @property
    def weight(self) -> int:
        """Factor of its scores."""

    @property
    def filters(self) -> bool:
        """Whether it filters nodes."""

    @property
    def prioritizes(self) -> bool:
        """Whether it scores nodes."""

    @property
    def preempts(self) -> bool:
        """Whether it takes part in preemption."""

    @property
    def binds(self) -> bool:
        """Whether it binds pods."""

    def interested(self, pod: PodInfo) -> bool:
        """Return whether it handles the pod."""

    def filter(self, pod: PodInfo, nodes: Sequence[Node]) -> Passed:
        """Return which of the nodes it would have the pod run on."""

    def prioritize(self, pod: PodInfo, nodes: Sequence[Node]) -> Sequence[tuple[str, int]]:
        """Return scores by node name, 0 to 10 if it keeps to the protocol."""

    def preempt(
        self, pod: PodInfo, victims: Mapping[str, NodeVictims]
    ) -> Mapping[str, NamedVictims]:
        """Return the nodes on which pods may be evicted, and which pods."""

    def bind(self, pod: PodInfo, node: str) -> None:
        """Bind the pod to the node."""

    def close(self) -> None:
        """Let go of its connection; the next call opens another."""
