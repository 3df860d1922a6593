"""FusedPlugins: filters and scores of several plugins that run as one function of all rows.

Plugins that read no more than a row may offer to be fused (`Signature.fusable`). The plugins of one
evaluation that do are fused once for each set of them; the others run one by one. To generate the
function takes as long as it saves in a hundred evaluations: at first plugins run one by one,
so that a pipeline which the next reload replaces soon costs no more. Evaluations that are not kept,
and those in which plugins are measured one by one, call each plugin: they are what the fused
function is compared with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from policy_sched.framework import FilterResult, Fused, RawScores
from policy_sched.framework.evaluate.plugin_sets import Filters, Scorers
from policy_sched.framework.evaluate.row_functions import FUSE_AFTER
from policy_sched.framework.runtime import Hook, Runner
from policy_sched.model import PodInfo

_NO_RESULTS: Final[Mapping[str, FilterResult]] = MappingProxyType({})
_NO_SCORES: Final[Mapping[str, RawScores]] = MappingProxyType({})
Members = tuple[tuple[str, ...], tuple[str, ...], Fused]
"""The plugins that filter, those that score, and what they are fused to."""


_UNMADE: Final[Members] = (), (), None  # type: ignore[assignment]  # only its identity counts


class FusedPlugins:
    """The fused plugins of one pipeline, by the filters and score plugins that take part."""

    def __init__(self, runner: Runner, scorers: Scorers, fuse_after: int = FUSE_AFTER) -> None:
        """``scorers``: all score plugins."""
        self._runner = runner
        self._waits = fuse_after
        self._all = scorers
        signatures = runner.pipeline.signatures
        self._fusable = {
            name: one.fusable for name, one in signatures.items() if one.fusable is not None
        }
        self._made: dict[tuple[Filters, Scorers], Members | None] = {}
        self._by_names: dict[tuple[tuple[str, ...], tuple[str, ...]], Members | None] = {}
        self._scorers: dict[Filters, Scorers] = {}
        """The score plugins that took part the last time that these filters did."""

    def filter(self, filters: Filters, pod: PodInfo) -> Mapping[str, FilterResult]:
        """Return the results of the fused filters for all rows, by plugin."""
        scorers = self._scorers.get(filters, self._all)
        members = None if self._runner.sampling else self._made.get((filters, scorers), _UNMADE)
        if members is _UNMADE:
            members = self._members(filters, scorers)
        if members is None or not members[0]:
            return _NO_RESULTS
        try:
            found = members[2].filter(pod)
        except Exception:  # noqa: BLE001 - calling the plugins one by one shows which one failed
            return _NO_RESULTS
        return _NO_RESULTS if found is None else dict(zip(members[0], found, strict=True))

    def score(self, filters: Filters, scorers: Scorers, pod: PodInfo) -> Mapping[str, RawScores]:
        """Return the raw scores that the fused plugins give all rows, by plugin."""
        self._scorers[filters] = scorers
        members = None if self._runner.sampling else self._made.get((filters, scorers), _UNMADE)
        if members is _UNMADE:
            members = self._members(filters, scorers)
        if members is None or not members[1]:
            return _NO_SCORES
        try:
            found = members[2].score(pod)
        except Exception:  # noqa: BLE001 - calling the plugins one by one shows which one failed
            return _NO_SCORES
        return _NO_SCORES if found is None else dict(zip(members[1], found, strict=True))

    def _members(self, filters: Filters, scorers: Scorers) -> Members | None:
        """Fuse the plugins of a set, once it is worth it."""
        if self._waits:
            self._waits -= 1
            return None
        found = self._fuse(filters.plugins, [one.hook for one in scorers.plugins])
        self._made[filters, scorers] = found
        return found

    def _fuse(self, filters: Sequence[Hook], scorers: Sequence[Hook]) -> Members | None:
        """Fuse the plugins that can be."""
        fusable = self._fusable
        filtering = [h.plugin for h in filters if h.plugin in fusable and fusable[h.plugin].filters]
        scoring = [h.plugin for h in scorers if h.plugin in fusable and fusable[h.plugin].scores]
        key = tuple(filtering), tuple(scoring)
        if key not in self._by_names:
            self._by_names[key] = self._fuse_all(*key)
        return self._by_names[key]

    def _fuse_all(self, filters: tuple[str, ...], scorers: tuple[str, ...]) -> Members | None:
        names, fusable = (*filters, *scorers), self._fusable
        if len(names) <= 1:
            return None
        one = fusable[names[0]]
        fused = one.fused([fusable[n] for n in filters], [fusable[n] for n in scorers])
        return None if fused is None else (filters, scorers, fused)
