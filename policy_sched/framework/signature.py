"""Signatures: what a plugin promises of its results, so that they can be kept and shared."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence, Sized
from operator import attrgetter
from typing import Final, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from policy_sched.cluster.tables import Scope
from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.grouped_sums import GroupedSums
from policy_sched.framework.kernel import NO_KERNEL, RowKernel
from policy_sched.framework.results import PASSES, FilterResult
from policy_sched.model import PodInfo


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


class Refiltered(msgspec.Struct, frozen=True, eq=False):
    """Rows whose codes of a filter may be others, ascending, and the filter's result for them."""

    rows: NDArray[np.intp]
    result: FilterResult = PASSES


SAME_CODES: Final = Refiltered(np.empty(0, np.intp))


class Incremental(Protocol):
    """Updates what a plugin of scope CLUSTER returned for one pod after changes of some rows.

    It is called in place of PreFilter, Filter, PreScore, Score and NormalizeScore, and leads to
    the same results; what Filter of a dry run reads from the state is up to date afterwards. It
    sees every change that follows the evaluation that it was made for. ``scores``: None where
    PreScore skips.
    """

    scores: GroupedSums | None

    def holds(self) -> bool:
        """Return whether PreFilter and PreScore would return what they did; else they run again."""

    def filter(self, state: CycleState, rows: Sequence[int]) -> Refiltered | None:
        """Update the codes after a change of ``rows``; None: the plugin must be called."""


class Gate(msgspec.Struct, frozen=True, eq=False):
    """Which pods PreEnqueue of a plugin may keep out of the queue.

    ``rejects``: returns False for pods that PreEnqueue lets in whatever the cluster holds, so that
    it need not run; None: it runs for every pod. ``fields``: what ``rejects`` reads; it is called
    once for pods with equal fields. ``by_group``: PreEnqueue returns the same for all pods of a
    group that it rejects.
    """

    rejects: Callable[[PodInfo], bool] | None = None
    fields: frozenset[tuple[str, ...]] = frozenset()
    by_group: bool = False


NO_GATE: Final = Gate()


class Signature(msgspec.Struct, frozen=True):
    """A plugin's promise: pods with equal ``fields`` get equal results on equal nodes.

    ``fields`` are paths into PodInfo: ``("requests",)``, or ``("labels", "app")`` for one key.
    """

    fields: frozenset[tuple[str, ...]]
    scope: Scope
    """What the filter and the score read besides the pod."""
    proved: bool = False
    """The scores are known to lie in 0..100 (after normalisation) and are not checked again."""
    keys: tuple[Callable[[PodInfo], Hashable], ...] = ()
    """In place of fields: functions of the pod, equal where the plugin's results are equal now.

    They may look at the cluster as well. A plugin whose keys are all None, and that has no fields,
    has nothing to do with the pod: PreFilter, PreScore and PreBindPreFlight would return Skip and
    Reserve Success, so they need not run.
    """
    writes_state: bool = True
    """PreFilter or PreScore may write into the state what other hooks of the plugin read, so they
    run for every pod, even where the results of its filter and score are known."""
    incremental: Callable[[CycleState, PodInfo], Incremental | None] | None = None
    """Returns what updates the results of an evaluation with this state, which has scores; None
    where the plugin is called after each change."""
    weights: Callable[[PodInfo], Iterable[tuple[str, int]] | None] | None = None
    """Returns weights that score plugins have for a pod, in place of the profile's; it is one of
    ``keys``."""
    gate: Gate = NO_GATE
    """Which pods PreEnqueue may keep out of the queue."""
    kernel: RowKernel = NO_KERNEL
    """Internal: what compiled rules tell besides."""
