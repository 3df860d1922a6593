"""What hooks return besides a Status: verdicts over rows, pre-filter results, signatures."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence, Sized
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import IntEnum
from operator import attrgetter
from typing import Any, Final, Protocol, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import Key, NodeView
from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.status import SUCCESS, Status
from policy_sched.model import GroupKey, PodInfo, Taint

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
        return FilterResult(codes, lambda _rows, found: [statuses[c - 1] for c in found.tolist()])


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
    pods go.
    """

    domains: Mapping[str, NDArray[np.intp]] = msgspec.field(default_factory=dict)
    status: Status = SUCCESS


class Placement(msgspec.Struct, frozen=True):
    """A domain with the pods of a group that would go there, and the nodes that they would have.

    ``rows``: its nodes, ascending, shape (k,).
    """

    name: str
    rows: NDArray[np.intp]
    assigned: tuple[tuple[PodInfo, str], ...] = ()


class DryRunMarker:
    """Marks the cycle state of a dry run: plugins must not act on other pods."""


class PodGroupCycle(msgspec.Struct, frozen=True):
    """Marks the cycle state of a pod that is decided together with its group.

    ``no_preemption``: why no pod is evicted for this one alone; empty if pods may be.
    """

    no_preemption: str = ""


class PodGroupMember(msgspec.Struct, frozen=True):
    """Marks the cycle state of a pod whose group was decided as a whole, and is bound now."""


@dataclass(slots=True)
class PodsToActivate:
    """What a plugin writes into the state so that pods (UIDs) are tried now.

    They are made ready at the end of the scheduling cycle, or later ones at the end of the
    binding cycle, if the pod itself gets so far. ``groups``: all pods of these that have no node.
    """

    uids: list[str] = field(default_factory=list)
    groups: set[GroupKey] = field(default_factory=set)


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


class Scope(IntEnum):
    """What a plugin's filter and score read besides the pod: how far a change can reach."""

    STATIC = 0
    """Only a node's own static fields, and counts over nodes that change with them."""
    NODE = 1
    """Also what runs on that node: a bound pod can change this node's result, no other's."""
    CLUSTER = 2
    """Also what runs elsewhere: any change can change any node's result."""
    VOLATILE = 3
    """Also the time, or anything else that moves by itself: every attempt runs the plugin again."""


class RowRule(msgspec.Struct, frozen=True):
    """A filter or score as a function of one row, for plugins that read only the pod and the row.

    ``function(pod, cycle, row)`` returns a sequence ``out``; ``holds`` and ``value`` are Python
    expressions over it: whether the row passes, or the rule has a score, and the filter's code of a
    row that does not pass, or the score. A filter without ``value`` is called for its code.
    ``limited``: the context in which the steps of several calls count together; None where the
    function counts none. ``explain``: why a filter rejects a row with a code; None where only the
    filter itself tells. ``recording``: what the function computes, for `Fusable.fused_rows`.
    """

    function: Callable[[PodInfo, Any, int], Any]
    cycle: object
    holds: str
    value: str = ""
    limited: Callable[[], AbstractContextManager[None]] | None = None
    explain: Callable[[PodInfo, int, int], Status] | None = None
    recording: object = None

    @property
    def metered(self) -> bool:
        """Whether the function counts its steps."""
        return self.limited is not None


class PodKey(msgspec.Struct, frozen=True, eq=False):
    """One of `Signature.keys` that is None, and need not be computed, for most pods.

    It is None where the pod's ``attribute`` is false or empty, and so is each of ``unless``: what
    the plugin reads of the cluster.
    """

    function: Callable[[PodInfo], Hashable]
    attribute: str
    unless: tuple[Sized, ...] = ()

    def __call__(self, pod: PodInfo) -> Hashable:
        """Return the key of the pod."""
        if attrgetter(self.attribute)(pod) or any(self.unless):
            return self.function(pod)
        return None


class Fusable(Protocol):
    """The filter and the score of a plugin of scope NODE, which may be fused with others.

    ``filters``, ``scores``: whether its filter, and its score, can be.
    """

    filters: bool
    scores: bool

    def fused(self, filters: Sequence[Fusable], scores: Sequence[Fusable]) -> Fused | None:
        """Return the filters of some plugins and the scores of some as one; None if they are not.

        It is called of any of them.
        """

    def fused_rows(
        self, filters: Sequence[tuple[int, RowRule]], scores: Sequence[RowRule] | None
    ) -> tuple[Any, Any, Any]:
        """Return numbered filters and scores of some plugins as functions of a few rows.

        ``update(pod, rows, first)`` returns the rejections of the rows and the scores of those that
        are not rejected, ``rejections(pod, rows, first)`` the former alone, ``scores(pod, rows)``
        the scores of rows. Rejections are (number, code), or None, for each row; none at all where
        ``first`` is 0 for each row, and they all pass; None where a rule fails. Scores are a tuple
        for each row; None where one fails. Without ``scores`` there is no third function.
        """


class Fused(Protocol):
    """The filters and scores of some plugins as one; they give the plugins' own results."""

    def filter(self, pod: PodInfo) -> Sequence[FilterResult] | None:
        """Return the results of the filters for all rows; None if they must run one by one."""

    def score(self, pod: PodInfo) -> Sequence[RawScores] | None:
        """Return the raw scores of all rows; None if the plugins must run one by one."""


class Refiltered(msgspec.Struct, frozen=True, eq=False):
    """Rows whose codes of a filter may be others, ascending, and the filter's result for them."""

    rows: NDArray[np.intp]
    result: FilterResult = PASSES


SAME_CODES: Final = Refiltered(np.empty(0, np.intp))


class GroupedScores(msgspec.Struct, eq=False):
    """A plugin's scores where many rows have the same: one for each group of rows.

    ``groups``: the group of each row, shape (n,). ``raw``, ``normalized``: by group; a group
    without feasible rows may have anything.
    """

    groups: NDArray[np.intp]
    raw: list[int]
    normalized: list[int]


class Rescored(msgspec.Struct, frozen=True, eq=False):
    """By how much normalised scores have risen.

    ``gains``: by group, None if no group's has changed. ``moved``: rows that belong to another
    group now, with their own gain; that of the group is not for them.
    """

    gains: list[int] | None
    moved: Sequence[tuple[int, int]]


class Incremental(Protocol):
    """Updates what a plugin of scope CLUSTER returned for one pod after changes of some rows.

    It is called in place of PreFilter, Filter, PreScore, Score and NormalizeScore, and leads to
    the same results; what Filter of a dry run reads from the state is up to date afterwards. It
    sees every change that follows the evaluation that it was made for. ``scores``: None where
    PreScore skips; `score` updates them in place.
    """

    scores: GroupedScores | None

    def holds(self) -> bool:
        """Return whether PreFilter and PreScore would return what they did; else they run again."""

    def filter(self, state: CycleState, rows: Sequence[int]) -> Refiltered | None:
        """Update the codes after a change of ``rows``; None: the plugin must be called."""

    def score(self, state: CycleState, rows: Sequence[int]) -> Rescored | None:
        """Update the scores after a change of ``rows``; None: the plugin must be called.

        The state has the feasible rows, the same object as before if they are the same.
        """


RowFlags: TypeAlias = Callable[[PodInfo], "NDArray[np.bool_] | bool"]
"""Returns by row whether a filter passes, False where it fails; a bool is that of all rows. Flags
of dead rows are undefined. They are not to be written."""


class Signature(msgspec.Struct, frozen=True):
    """A plugin's promise: pods with equal ``fields`` get equal results on equal nodes.

    ``fields`` are paths into PodInfo: ``("requests",)``, or ``("labels", "app")`` for one key.
    """

    fields: frozenset[tuple[str, ...]]
    scope: Scope
    proved: bool = False
    """The scores are known to lie in 0..100 (after normalisation) and are not checked again."""
    normalizes_by_row: bool = False
    """NormalizeScore reads nodes, too: it also runs anew where no raw score has changed."""
    normalizes_by_extremes: bool = False
    """NormalizeScore reads no more of the other nodes than their lowest and their highest score."""
    keys: tuple[Callable[[PodInfo], Hashable], ...] = ()
    """In place of fields: functions of the pod, equal where the plugin's results are equal now.

    They may look at the cluster as well. A plugin whose keys are all None, and that has no fields,
    has nothing to do with the pod: PreFilter, PreScore and PreBindPreFlight would return Skip and
    Reserve Success, so they need not run.
    """
    asked_taints: frozenset[Taint] | None = None
    """Of the pod's tolerations the plugin reads no more than whether they tolerate taints of nodes
    and these ones; None: it may read more."""
    writes_state: bool = True
    """PreFilter or PreScore may write into the state what other hooks of the plugin read, so they
    run for every pod, even where the results of its filter and score are known."""
    node_by_node: bool = False
    """Filter looks at one node after the other: dry runs call it only for nodes that the filters
    before it pass."""
    row_filter: RowRule | None = None
    row_score: RowRule | None = None
    """The plugin's filter and score of one row, where they are functions of the pod and the row."""
    row_filter_over: Callable[[NodeView], RowRule | None] | None = None
    """Returns ``row_filter`` over another view of the nodes; None where it can end the attempt."""
    flags_over: Callable[[NodeView], RowFlags | None] | None = None
    """Returns the filter over another view of the nodes as flags of all rows; None where it can
    end the attempt, or counts its steps."""
    fusable: Fusable | None = None
    """The plugin's filter and score, where they can be fused with those of others."""
    incremental: Callable[[CycleState, PodInfo], Incremental | None] | None = None
    """Returns what updates the results of an evaluation with this state, which has scores; None
    where the plugin is called after each change."""
    filter_reads: Callable[[Key], bool] | None = None
    """Returns whether the filter may read a column of the node table; None: any."""
    gates: Callable[[PodInfo], bool] | None = None
    """Returns False for pods that PreEnqueue lets in whatever the cluster holds, so that it need
    not run. Without it PreEnqueue runs for every pod."""
    gate_fields: frozenset[tuple[str, ...]] = frozenset()
    """What ``gates`` reads: it is called once for pods with equal fields."""
    gates_groups: bool = False
    """PreEnqueue returns the same for all pods of a group that it rejects."""
