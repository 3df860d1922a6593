"""What hooks return besides a Status: verdicts over rows, pre-filter results, placements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched.framework.status import SUCCESS, Status
from policy_sched.model import GroupKey, PodInfo

Rows: TypeAlias = NDArray[np.intp] | None
"""Rows of the node table to evaluate, shape (k,); None: all rows [0, table.n)."""

Codes: TypeAlias = NDArray[np.int16]
Scores: TypeAlias = NDArray[np.int64]
RawScores: TypeAlias = NDArray[Any]
"""int64, or float64 from a plugin whose NormalizeScore makes int64 of it."""
Describe: TypeAlias = Callable[[NDArray[np.intp], Codes], Sequence[Status]]
"""From rows and their non-zero codes, both shape (k,), to one Status each; `ByRow` is fastest."""


Masked: TypeAlias = Sequence[tuple[NDArray[np.bool_], Status]]
"""Statuses with the rows that have them, as flags over all rows; no row has two."""


class DescribeMasked(msgspec.Struct, frozen=True):
    """A `Describe` that can also explain many rows by flags, which is faster than by their numbers.

    ``masked``: from flags of rows, and codes, both over all rows, to their statuses; None if they
    are too different for that.
    """

    rows: Describe
    masked: Callable[[NDArray[np.bool_], Codes], Masked | None]

    def __call__(self, rows: NDArray[np.intp], codes: Codes) -> Sequence[Status]:
        """Return one status for each row."""
        return self.rows(rows, codes)


class FilterResult(msgspec.Struct, frozen=True):
    """The result of a filter for many nodes at once.

    ``codes``: int16, one per requested row; 0 = passes, anything else is the plugin's own number
    for a reason. None: every row passes. ``describe`` turns rows and their codes into
    statuses; it runs only when the reasons are needed, at the latest before the next change of the
    node table.
    """

    codes: Codes | None
    describe: Describe
    error: str | None = None
    """Set where the filter broke (and no node of its result counts): the attempt ends."""
    parts: Callable[[], Sequence[tuple[str, Codes | None]]] | None = None
    """The results that this one combines, by name, each over all evaluated rows; None if it is a
    single one. Used to explain the effect of each."""
    fatal: frozenset[int] = frozenset()
    """Codes of rows on which the filter broke: the attempt ends, unless such a row was rejected by
    a plugin before. Their status has the error."""
    names_node: bool = True
    """Whether the error of such a row ends with the name of its node. Then it also ends
    preemption's dry run; without, the row is no candidate."""

    @staticmethod
    def of(codes: Codes, *statuses: Status) -> FilterResult:
        """Return a verdict whose code i means ``statuses[i - 1]``."""
        return FilterResult(codes, lambda _rows, given: [statuses[c - 1] for c in given.tolist()])


PASSES: Final = FilterResult(None, lambda _rows, _codes: [])


class PreFilterResult(msgspec.Struct, frozen=True):
    """Status of a PreFilter plugin, and the only nodes (by name) that can pass, or None for any."""

    status: Status = SUCCESS
    node_names: frozenset[str] | None = None


class NodeEviction(msgspec.Struct, frozen=True):
    """The victims on a node that was not chosen, and whether it is as good as the chosen one."""

    victims: tuple[PodInfo, ...]
    as_good: bool


Elsewhere = Callable[[str], NodeEviction | None]
"""From the name of a node to what evictions there would be; None if they would not help."""


class PostFilterResult(msgspec.Struct, frozen=True):
    """Status of a PostFilter plugin, and what is to be done.

    ``nominated_node``: the node to nominate the pod to; empty: it is nominated nowhere any more;
    None: its nomination stays as it is. ``victims``: pods to be evicted from that node. ``then`` is
    called when all plugins have run, which see the cluster as Filter saw it until then.
    ``elsewhere`` compares another node with that one, as long as the cluster stays as it is.
    """

    status: Status
    nominated_node: str | None = None
    victims: tuple[PodInfo, ...] = ()
    then: Callable[[], object] | None = None
    elsewhere: Elsewhere | None = None


class PodToEvict(msgspec.Struct, frozen=True):
    """A running pod that a plugin evicts, and why; of several the least ``key`` goes first."""

    pod: PodInfo
    key: tuple[Any, ...] = ()
    note: str = ""


class Evictions(msgspec.Struct, frozen=True):
    """Which running pods a plugin evicts: every so many ns, and ``most`` of them each time.

    ``judge`` is given a pod and the name of its node, and returns None for a pod that stays. It
    raises RuleError where it cannot tell.
    """

    every: int
    most: int
    judge: Callable[[PodInfo, str], PodToEvict | None]


class PermitResult(msgspec.Struct, frozen=True):
    """Status of a Permit plugin; the rest counts where the code is Wait.

    ``timeout`` is in seconds. ``again`` evaluates Permit again; it is called after pods have moved.
    Without it the plugin has to allow or reject by itself.
    """

    status: Status = SUCCESS
    timeout: float = 0.0
    again: Callable[[], Status] | None = None


class Placements(msgspec.Struct, frozen=True):
    """Into which domains a plugin parts the nodes: the rows of each, ascending, by its name.

    A row in no domain is not used. ``status`` Skip: the plugin does not restrict where the
    pods go. ``wider``: further levels of domains, the narrowest first; a level is tried where the
    group fits into no domain of those before.
    """

    domains: Mapping[str, NDArray[np.intp]] = msgspec.field(default_factory=dict)
    status: Status = SUCCESS
    wider: tuple[Mapping[str, NDArray[np.intp]], ...] = ()


class Placement(msgspec.Struct, frozen=True):
    """A domain with the pods of a group that would go there, and the nodes that they would have.

    ``rows``: its nodes, ascending, shape (k,). ``level``: 0 for the narrowest domains.
    """

    name: str
    rows: NDArray[np.intp]
    assigned: tuple[tuple[PodInfo, str], ...] = ()
    level: int = 0


class DryRunMarker:
    """Marks the cycle state of a dry run: plugins must not act on other pods."""


class PodGroupCycle(msgspec.Struct, frozen=True):
    """Marks the cycle state of a pod that is decided together with its group.

    ``no_preemption``: why no pod is evicted for this one alone; empty if pods may be.
    """

    no_preemption: str = ""


class GroupFailure(msgspec.Struct, frozen=True):
    """What a PostFilter plugin says of a pod that found no node: whether its group failed."""

    failed: bool


class PodGroupMember(msgspec.Struct, frozen=True):
    """Marks the cycle state of a pod whose group was decided as a whole, and is bound now."""


class PodsToActivate(msgspec.Struct):
    """What a plugin writes into the state so that pods (UIDs) are tried now.

    They are made ready at the end of the scheduling cycle, or later ones at the end of the
    binding cycle, if the pod itself gets so far. ``groups``: all pods of these that have no node.
    """

    uids: list[str] = msgspec.field(default_factory=list)
    groups: set[GroupKey] = msgspec.field(default_factory=set)


class Feasible(msgspec.Struct, eq=False):
    """The rows on which the pod can run, as PreScore finds them in the state.

    Made of the rows, or of the filters' result by row (0 = feasible), which is then read when
    the rows are first requested.
    """

    _rows: NDArray[np.intp] | None = None
    first: NDArray[np.int16] | None = None

    def holds(self, rows: NDArray[np.intp]) -> bool:
        """Return whether it was made of this very array, or has returned it."""
        return self._rows is rows

    @property
    def rows(self) -> NDArray[np.intp]:
        """The rows, ascending, shape (k,)."""
        if self._rows is None:
            assert self.first is not None, "made of rows or of codes"
            self._rows = (self.first == 0).nonzero()[0]
        return self._rows
