"""NodeView: what an evaluation reads of the nodes and of the pods on them.

The node table is a view of itself, and an overlay is a view with other pods on some rows. Only the
table has a journal. A cache that follows the journal is made for a `NodeTable`, never for a view.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from policy_sched.cluster.tables.column import Column
from policy_sched.cluster.tables.image_states import Images
from policy_sched.cluster.tables.interning import Sets, Strings
from policy_sched.cluster.tables.schema import Key
from policy_sched.model import HostPort, Namespace, Node, PodInfo, Taint

if TYPE_CHECKING:
    from policy_sched.cluster.tables.node_table import NodeTable


class NodeView(Protocol):
    """Columns over the rows ``[0, n)``, and the objects on each row; see `NodeTable`."""

    @property
    def table(self) -> NodeTable:
        """The node table; the view itself if it is the table."""

    @property
    def strings(self) -> Strings:
        """Codes of strings."""

    @property
    def taint_sets(self) -> Sets[Taint]:
        """Ids of sets of taints."""

    @property
    def port_sets(self) -> Sets[HostPort]:
        """Ids of sets of host ports."""

    @property
    def images(self) -> Images:
        """The images on nodes."""

    @property
    def namespaces(self) -> Mapping[str, Namespace]:
        """Namespaces by name."""

    @property
    def names(self) -> Sequence[str]:
        """The node's name by row, "" for a dead one."""

    @property
    def nodes(self) -> Sequence[Node | None]:
        """The node by row, None for a dead one."""

    @property
    def row_of(self) -> Mapping[str, int]:
        """Rows by the names of live nodes."""

    @property
    def live(self) -> Column:
        """Whether a row has a node."""

    @property
    def n(self) -> int:
        """Number of rows, dead ones included."""

    @property
    def live_count(self) -> int:
        """Number of nodes."""

    @property
    def pod_total(self) -> int:
        """Number of pods on all nodes."""

    @property
    def materialised(self) -> Mapping[Key, Column]:
        """The columns that exist, by key."""

    def column(self, key: Key) -> Column:
        """Return a column to be held; see `NodeTable.column`."""

    def lookup(self, key: Key) -> Column:
        """Return a column to be used now; see `NodeTable.lookup`."""

    def pods_on(self, row: int) -> Mapping[str, PodInfo]:
        """Return the pods on a row by uid."""

    def differences(self) -> Iterator[tuple[int, PodInfo, int]]:
        """Yield 1 and each pod that only this view has, -1 and each that only the table has.

        With each comes its row.
        """

    def image_nodes(self, name: str) -> int:
        """Return how many nodes have an image."""

    def total_allocatable(self, resource: str) -> int:
        """Return the sum of a resource's allocatable over all nodes."""

    def total_requested(self, resource: str) -> int:
        """Return the sum of a resource's requests over the pods on all nodes."""
