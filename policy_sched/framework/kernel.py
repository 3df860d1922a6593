"""Row kernels: what compiled rules tell the evaluator besides their signature. Internal.

A plugin in Python does not need one: its hooks are called, with the same results. A kernel says
what a filter and a score are for one row, so that a few changed rows need no call over arrays, and
what else holds for rules that the compiler has seen. Of the rules of a profile that read no more
than a row the compiler makes one program (`FusedRules`), which runs in place of the hooks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import Key, NodeView
from policy_sched.framework.results import Codes, FilterResult, RawScores
from policy_sched.framework.status import Status
from policy_sched.model import PodInfo, Taint

NO_CODE: Final = -1
"""The code of a row that a filter rejects where only the filter itself tells why."""

Rejection: TypeAlias = tuple[int, int] | None
"""Which filter rejects a row, and its code there; None if none does."""
FirstRejection: TypeAlias = Callable[[PodInfo, int], Rejection]
"""The first rejection of a row. It raises where a rule fails that has no code for that."""
Update: TypeAlias = Callable[
    [PodInfo, Sequence[int], Codes],
    tuple[Sequence[Rejection] | None, Sequence[Sequence[int]] | None],
]
"""Rejections of rows, and the raw scores of the rows that are not rejected, one per score plugin.

The third argument holds 0 for each row that was feasible. There are no rejections at all, not even
None for each row, if all rows were feasible and are. None in place of rejections or scores: the
plugins have to be called, as a rule fails.
"""
NumberedFilters: TypeAlias = Sequence[tuple[int, str]]
"""Plugins by the numbers with which they reject a row."""


class RowRule(msgspec.Struct, frozen=True):
    """A filter or a score as a function of the pod and one row.

    Of a filter it returns 0 for a row that passes, else the filter's code or NO_CODE; of a score
    the raw score. It raises where the hook has to be called. ``limited``: the context in which the
    steps of several calls count together; None where the function counts none.
    """

    function: Callable[[PodInfo, int], int]
    limited: Callable[[], AbstractContextManager[None]] | None = None


class OverlayFilter(msgspec.Struct, frozen=True):
    """A filter over the overlay of the node table, for dry runs.

    ``flags``: by row, whether the filter passes, False where it fails; a bool is that of all rows.
    Flags of dead rows are undefined, and not to be written. ``explain``: why it rejects a row with
    a code. ``code``: that of a row, as in `RowRule`.
    """

    nodes: NodeView
    flags: Callable[[PodInfo], NDArray[np.bool_] | bool]
    explain: Callable[[PodInfo, int, int], Status]
    code: Callable[[PodInfo, int], int]


class RowKernel(msgspec.Struct, frozen=True):
    """What the evaluator may use of a plugin in place of its hooks; the results are the same."""

    filter: RowRule | None = None
    score: RowRule | None = None
    """The filter and the score of one row, where they are functions of the pod and the row."""
    overlay: OverlayFilter | None = None
    """The filter in dry runs; None where it can end the attempt, or counts its steps."""
    filter_reads: Callable[[Key], bool] | None = None
    """Returns whether the filter may read a column of the node table; None: any."""
    node_by_node: bool = False
    """Filter looks at one node after the other: dry runs call it only for nodes that the filters
    before it pass."""
    asked_taints: frozenset[Taint] | None = None
    """Of the pod's tolerations the plugin reads no more than whether they tolerate taints of nodes
    and these ones; None: it may read more."""
    normalizes_by_row: bool = False
    """NormalizeScore reads nodes, too: it also runs anew where no raw score has changed."""
    normalizes_by_extremes: bool = False
    """NormalizeScore reads no more of the other nodes than their lowest and their highest score."""
    follows_from_key: bool = False
    """PreFilter, and Filter on the nodes as they are, return the same for pods of an equal key:
    only in dry runs they need to be called again."""
    rules: Any = None
    """The rules of a policy, for `FusedRules`."""


NO_KERNEL: Final = RowKernel()


class RowFunctions(msgspec.Struct, frozen=True):
    """Filters and scores that take part in an evaluation, as functions of a few rows.

    ``update`` filters and scores; it returns no scores where steps are counted. ``score`` filters
    nothing; None where a score plugin has no function of a row.
    """

    update: Update
    score: Update | None


class FusedRules(Protocol):
    """The rules of a profile as one program over the tables of a cluster.

    Each method takes the plugins that take part in an evaluation. It is called once for each set
    of them, and generates nothing.
    """

    def filters(
        self, plugins: Sequence[str]
    ) -> Callable[[PodInfo], Mapping[str, FilterResult]] | None:
        """Return what filters all rows, by plugin; plugins without result are to be called.

        None if there are none in the program.
        """

    def scores(self, plugins: Sequence[str]) -> Callable[[PodInfo], Mapping[str, RawScores]] | None:
        """Return what scores all rows, by plugin; see `filters`."""

    def rows(self, filters: NumberedFilters, scores: Sequence[str] | None) -> RowFunctions | None:
        """Return the functions of a few rows; None if a filter has none.

        ``scores``: None where rows are not scored by them.
        """

    def first_rejection(self, filters: NumberedFilters, nodes: NodeView) -> FirstRejection | None:
        """Return the filters over the overlay; None if one of them has no function there."""
