"""The part of an evaluation that pods share which differ in their requests alone.

Theory of operation. Plugins of scope STATIC read static fields of nodes and some fields of the pod.
What they returned for one pod holds for every pod that has equal values in those fields, until a
node, the set of nodes or a namespace changes. The first such pod is evaluated by all plugins, one
after the other; its `StaticPart` keeps what the static ones returned, and for later pods only
the others run. PreFilter and PreScore run all the same where they write into the pod's state (see
`Signature.writes_state`): Reserve, and filters that run again on hypothetical pods, read it. No
part is kept of a pod that PreFilter rejects or sends to some nodes only.

Pods whose tolerations differ are alike, too, if they tolerate the same of the taints that nodes
have, as long as no plugin reads more of tolerations than that.

A normalised score depends on which rows are feasible. Where normalisation reads the least and the
greatest raw score alone, the scores over all rows that the static filters pass hold for fewer rows,
too, as long as a row with each of the two is left. Other normalised scores are not kept.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from policy_sched import thresholds
from policy_sched.cluster.tables import NodeTable
from policy_sched.framework import Codes, Scope, Scores, Signature
from policy_sched.framework.evaluate.entry import Entry
from policy_sched.framework.evaluate.pod_signature import Key, part_getter
from policy_sched.framework.evaluate.results import FatalCodes
from policy_sched.framework.evaluate.views import FilterView, ScoreView
from policy_sched.framework.runtime import Runner
from policy_sched.lru import Lru
from policy_sched.model import PodInfo, Taint, tolerated

#: Parts that are kept, each with some arrays of one element per node.
LIMIT: Final = 16
_TOLERATIONS: Final = ("tolerations",)


class StaticScores(msgspec.Struct, frozen=True, eq=False):
    """The scores of the static plugins over all rows that the static filters pass."""

    views: dict[str, ScoreView]
    skipped: frozenset[str]
    """The plugins that PreScore left out."""
    total: Scores
    """The sum of the parts."""
    size: int
    """The number of rows."""

    def hold(self, first: Codes, feasible: int) -> bool:
        """Return whether the scores are those that the feasible rows would get now."""
        if feasible == self.size:
            return True
        views = self.views.values()
        return all(v.same_bounds(first) for v in views if v.plugin.normalizer is not None)


class StaticPart(msgspec.Struct, eq=False):
    """What the static plugins returned."""

    fixed: Codes
    """The rows that no filter looks at, as in `Entry`."""
    views: list[FilterView | None]
    """Of each filter of the profile; None for those that are not static."""
    fatal: dict[int, FatalCodes] = {}
    skipped: frozenset[str] = frozenset()
    """The static plugins that PreFilter left out."""
    scores: StaticScores | None = None
    """None until a pod was scored on all rows that the static filters pass."""


class StaticParts:
    """The static parts of one pipeline's evaluations, by the fields that static plugins read."""

    def __init__(self, runner: Runner, table: NodeTable) -> None:
        self._table = table
        self._version = -1
        self._kept: Lru[Key, StaticPart] = Lru(LIMIT)
        pipeline = runner.pipeline
        whole, static = pipeline.signature(), pipeline.signature(Scope.STATIC)
        assert whole is not None, "evaluations are kept by signature"
        assert static is not None, "the pipeline has one"
        fields = static.fields - {_TOLERATIONS}
        self._key = part_getter(whole, Signature(fields, Scope.STATIC, keys=static.keys))
        of_static = {
            name: own for name, own in pipeline.signatures.items() if own.scope is Scope.STATIC
        }
        self.plugins = frozenset(of_static)
        """Those of scope STATIC."""
        self._asked = [
            own.kernel.asked_taints for own in of_static.values() if _TOLERATIONS in own.fields
        ]
        """The taints that each of those that read tolerations asks for; None: it reads more."""
        self._taints: tuple[Taint, ...] | None = None
        self._keys: frozenset[str] = frozenset()
        """The keys of these taints: a toleration of another key tolerates none of them."""

    def of(self, key: Key, pod: PodInfo) -> StaticPart | None:
        """Return the part that the pods of a signature share with others, if it is known."""
        version = self._table.journal.static_version
        if self._version != version:
            self._kept.clear()
            self._version = version
            self._taints = self._taints_in_use()
            self._keys = frozenset([taint.key for taint in self._taints or ()])
        return self._kept.get(self._place(key, pod))

    def _place(self, key: Key, pod: PodInfo) -> Key:
        """Return what pods have in common that share a part."""
        place, taints = self._key(key), self._taints
        if taints is None:
            return place, pod.tolerations
        if not taints or not pod.tolerations:
            return place, ()
        wanted = [
            toleration
            for toleration in pod.tolerations
            if not toleration.key or toleration.key in self._keys
        ]
        if not wanted:
            return place, ()
        return place, tuple([taint for taint in taints if tolerated(taint, wanted)])

    def _taints_in_use(self) -> tuple[Taint, ...] | None:
        """Return the taints that tell tolerations apart; None if there are too many."""
        table, taints = self._table, set[Taint]()
        for asked in self._asked:
            if asked is None:
                return None
            taints |= asked
        if not self._asked:
            return ()
        numbers = table.lookup(("taints",)).values[: table.n]
        for number in np.bincount(numbers[table.live.values[: table.n]]).nonzero()[0].tolist():
            taints.update(table.taint_sets.members(number))
            if len(taints) > thresholds.FEW_ROWS:
                return None
        return tuple(taints)

    def learn(self, key: Key, entry: Entry, pod: PodInfo) -> StaticPart | None:
        """Keep what static plugins returned in an evaluation of all nodes, and return it."""
        filtering = entry.result.filtering
        if filtering.rejection is not None or filtering.narrowed_by:
            return None
        static = entry.filters.static
        views = [view if place in static else None for place, view in enumerate(entry.views)]
        fatal = {place: codes for place, codes in entry.fatal.items() if place in static}
        part = StaticPart(entry.fixed, views, fatal, filtering.skipped & self.plugins)
        self._kept.put(self._place(key, pod), part)
        return part
