"""PluginSets: which plugins take part in an evaluation, worked out once for each set of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import msgspec

from policy_sched.framework import FilterResult, RawScores, Scope
from policy_sched.framework.evaluate.filter_dry_run import FilterDryRun
from policy_sched.framework.evaluate.pod_signature import Key
from policy_sched.framework.evaluate.results import ScorePlugin
from policy_sched.framework.runtime import Hook, Hooks, Runner
from policy_sched.model import PodInfo

NONE: Final[frozenset[str]] = frozenset()
FusedFilters: TypeAlias = Callable[[PodInfo], Mapping[str, FilterResult]]
FusedScores: TypeAlias = Callable[[PodInfo], Mapping[str, RawScores]]
"""The results of plugins that run as one, for all rows."""


class Filters(msgspec.Struct, frozen=True, eq=False):
    """The filters that are not skipped.

    ``moving``: the places of those that read more than static fields; ``wide``: of those that read
    more than the row. ``dry_run`` runs them again on hypothetical pods. ``fused`` runs
    those that are compiled together; None if there are none.
    """

    plugins: tuple[Hook, ...]
    scopes: list[Scope]
    moving: list[int]
    wide: list[int]
    dry_run: FilterDryRun
    fused: FusedFilters | None = None


class Scorers(msgspec.Struct, frozen=True, eq=False):
    """The score plugins that are not skipped.

    ``moving``: the places of those that read the row, ``wide``: of those that read more;
    ``changing``: of both. ``fused``: as in `Filters`.
    """

    plugins: tuple[ScorePlugin, ...]
    moving: tuple[int, ...]
    wide: tuple[int, ...]
    changing: tuple[int, ...]
    fused: FusedScores | None = None


class Busy(msgspec.Struct, frozen=True, eq=False):
    """The hooks of the plugins that have anything to do with a pod.

    ``pre_filter``: those of PreFilter, and those whose PostFilter expects that it ran. ``idle``:
    the others, and ``scores_nothing`` those of them with PreScore. ``preparing_pre_filter``:
    the hooks of PreFilter that run where the results of static filters are known,
    ``preparing_pre_score``: those of PreScore that run where the static scores are.
    ``wide_pre_filter``, ``wide_pre_score``: those whose result may depend on the cluster.
    """

    hooks: Hooks
    pre_filter: tuple[Hook, ...]
    idle: frozenset[str]
    scores_nothing: frozenset[str]
    preparing_pre_filter: tuple[Hook, ...]
    preparing_pre_score: tuple[Hook, ...]
    wide_pre_filter: tuple[Hook, ...]
    wide_pre_score: tuple[Hook, ...]


class PluginSets:
    """The sets of one pipeline's plugins that take part together."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._normalizers = {hook.plugin: hook for hook in runner.pipeline.at("normalize_score")}
        pipeline = runner.pipeline
        filtering = {hook.plugin for hook in pipeline.at("pre_filter")}
        whole = pipeline.signature()
        keys = () if whole is None else whole.keys
        self._keys = len(keys)
        self._keyed = [
            (plugin, [keys.index(key) - len(keys) for key in signature.keys])
            for plugin, signature in pipeline.signatures.items()
            if plugin in filtering and signature.keys and not signature.fields and keys
        ]
        self._filters_by_skips: dict[tuple[frozenset[str], frozenset[str]], Filters] = {}
        self._scorers_by_skips: dict[frozenset[str], Scorers] = {}
        self._busy_by_idle: dict[frozenset[str], Busy] = {}
        self._busy_by_keys: dict[tuple[bool, ...], Busy] = {}
        self._least_busy: Busy | None = None
        """Those that have to do with pods of which no plugin has a key."""

    def busy_with(self, key: Key) -> Busy:
        """Return the plugins that have anything to do with pods of a signature."""
        if key[-self._keys :].count(None) == self._keys > 0:
            busy = self._least_busy
            if busy is None:
                idle = frozenset([plugin for plugin, _ in self._keyed])
                busy = self._least_busy = self.busy(idle)
            return busy
        found = tuple([key[place] is None for _, places in self._keyed for place in places])
        busy = self._busy_by_keys.get(found)
        if busy is None:
            idle = frozenset(
                [
                    plugin
                    for plugin, places in self._keyed
                    if all(key[place] is None for place in places)
                ]
            )
            busy = self._busy_by_keys[found] = self.busy(idle)
        return busy

    def busy(self, idle: frozenset[str]) -> Busy:
        """Return the plugins that have anything to do with a pod."""
        found = self._busy_by_idle.get(idle)
        if found is None:
            hooks, scope = self._runner.without(idle), self._runner.pipeline.scope
            scoring = {hook.plugin for hook in self._runner.hooks["pre_score"]}
            silent = idle - {hook.plugin for hook in self._runner.hooks["post_filter"]}
            pre_filter = [h for h in self._runner.hooks["pre_filter"] if h.plugin not in silent]
            found = self._busy_by_idle[idle] = Busy(
                hooks,
                tuple(pre_filter),
                idle,
                idle & scoring,
                tuple(hook for hook in pre_filter if self._prepares(hook)),
                tuple(hook for hook in hooks["pre_score"] if self._prepares(hook)),
                tuple(hook for hook in hooks["pre_filter"] if scope(hook.plugin) > Scope.NODE),
                tuple(hook for hook in hooks["pre_score"] if scope(hook.plugin) > Scope.NODE),
            )
        return found

    def _prepares(self, hook: Hook) -> bool:
        """Return whether PreFilter or PreScore runs even where the plugin's results are known."""
        signature = self._runner.pipeline.signatures.get(hook.plugin)
        return signature is None or signature.scope > Scope.STATIC or signature.writes_state

    def filters(self, skips: frozenset[str], idle: frozenset[str]) -> Filters:
        """Return the filters without those that skip, and without idle ones, which would."""
        found = self._filters_by_skips.get((skips, idle))
        if found is None:
            skipped = skips | idle
            plugins = self._runner.active("filter", skipped)
            scopes = [self._runner.pipeline.scope(hook.plugin) for hook in plugins]
            moving = [i for i, scope in enumerate(scopes) if scope is not Scope.STATIC]
            wide = [i for i, scope in enumerate(scopes) if scope > Scope.NODE]
            dry_run = FilterDryRun(self._runner, plugins, skipped)
            rules = self._runner.pipeline.rules
            fused = None if rules is None else rules.filters([hook.plugin for hook in plugins])
            found = Filters(plugins, scopes, moving, wide, dry_run, fused)
            self._filters_by_skips[skips, idle] = found
        return found

    def scorers(self, skipped: frozenset[str]) -> Scorers:
        """Return the score plugins without those that skip."""
        found = self._scorers_by_skips.get(skipped)
        if found is None:
            plugins = tuple(
                ScorePlugin.of(hook, self._normalizers.get(hook.plugin), self._runner)
                for hook in self._runner.active("score", skipped)
            )
            places = list(enumerate(plugins))
            rules = self._runner.pipeline.rules
            names = [one.hook.plugin for one in plugins]
            found = self._scorers_by_skips[skipped] = Scorers(
                plugins,
                tuple(place for place, one in places if one.scope is Scope.NODE),
                tuple(place for place, one in places if one.scope > Scope.NODE),
                tuple(place for place, one in places if one.scope is not Scope.STATIC),
                None if rules is None else rules.scores(names),
            )
        return found
