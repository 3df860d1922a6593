"""PluginSets: which plugins take part in an evaluation, worked out once for each set of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final, TypeAlias

import msgspec

from policy_sched.framework import FilterResult, RawScores, RowFunctions, Scope
from policy_sched.framework.evaluate.filter_dry_run import FilterDryRun
from policy_sched.framework.evaluate.pod_signature import Key
from policy_sched.framework.evaluate.views import ScorePlugin
from policy_sched.framework.runtime import Hook, Hooks, Runner
from policy_sched.model import PodInfo

NONE: Final[frozenset[str]] = frozenset()
FusedFilters: TypeAlias = Callable[[PodInfo], Mapping[str, FilterResult]]
FusedScores: TypeAlias = Callable[[PodInfo], Mapping[str, RawScores]]
"""The results of plugins that run as one, for all rows."""


class Filters(msgspec.Struct, frozen=True, eq=False):
    """The filters that are not skipped."""

    plugins: tuple[Hook, ...]
    scopes: list[Scope]
    node_scoped: list[int]
    """The places of those that read the row and its pods."""
    cluster_scoped: list[int]
    """The places of those that read more."""
    dynamic: list[int]
    """Both, in order."""
    dry_run: FilterDryRun
    """Runs them again on hypothetical pods."""
    fused: FusedFilters | None
    """Runs those that are compiled together; None if there are none."""


class Scorers(msgspec.Struct, frozen=True, eq=False):
    """The score plugins that are not skipped."""

    plugins: tuple[ScorePlugin, ...]
    dynamic: list[int]
    """The places of those that read more than static fields."""
    fused: FusedScores | None
    """As in `Filters`."""


class ActivePlugins(msgspec.Struct, frozen=True, eq=False):
    """The hooks of the plugins that have anything to do with a pod."""

    hooks: Hooks
    pre_filter: tuple[Hook, ...]
    """Those of PreFilter, and those whose PostFilter expects that it ran."""
    inactive: frozenset[str]
    """The other plugins."""
    scores_nothing: frozenset[str]
    """Those of them with PreScore."""
    preparing_pre_filter: tuple[Hook, ...]
    """Those of PreFilter that run even where the results of static filters are kept."""
    preparing_pre_score: tuple[Hook, ...]
    """Those of PreScore that run even where the static scores are."""
    cluster_pre_filter: tuple[Hook, ...]
    """Those of PreFilter whose result may depend on the cluster."""
    cluster_pre_score: tuple[Hook, ...]


class PluginSets:
    """The sets of one pipeline's plugins that take part together, each worked out once."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        pipeline = runner.pipeline
        self._normalizers = {hook.plugin: hook for hook in pipeline.at("normalize_score")}
        filtering = {hook.plugin for hook in pipeline.at("pre_filter")}
        whole = pipeline.signature()
        keys = () if whole is None else whole.keys
        self._keys = len(keys)
        self._keyed = [
            (plugin, [keys.index(key) - len(keys) for key in signature.keys])
            for plugin, signature in pipeline.signatures.items()
            if plugin in filtering and signature.keys and not signature.fields and keys
        ]
        self._all_keyed = frozenset([plugin for plugin, _ in self._keyed])
        self.active = cache(self._active)
        """Returns the plugins that have anything to do with a pod, without inactive ones."""
        self.filters = cache(self._filters)
        """Returns the filters without those that skip, and without inactive ones, which would."""
        self.scorers = cache(self._scorers)
        """Returns the score plugins without those that skip."""
        self.row_functions = cache(self._row_functions)
        """Returns what filters and scores a few rows; None where plugins run one by one."""

    def active_with(self, key: Key) -> ActivePlugins:
        """Return the plugins that have anything to do with pods of a signature."""
        if key[-self._keys :].count(None) == self._keys > 0:
            return self.active(self._all_keyed)  # most pods, without a look at each plugin
        inactive = set(self._all_keyed)
        for plugin, places in self._keyed:
            for place in places:
                if key[place] is not None:
                    inactive.discard(plugin)
        return self.active(frozenset(inactive))

    def _active(self, inactive: frozenset[str]) -> ActivePlugins:
        hooks, scope = self._runner.without(inactive), self._runner.pipeline.scope
        scoring = {hook.plugin for hook in self._runner.hooks["pre_score"]}
        left_out = inactive - {hook.plugin for hook in self._runner.hooks["post_filter"]}
        pre_filter = [h for h in self._runner.hooks["pre_filter"] if h.plugin not in left_out]
        return ActivePlugins(
            hooks,
            tuple(pre_filter),
            inactive,
            inactive & scoring,
            tuple(hook for hook in pre_filter if self._prepares(hook)),
            tuple(hook for hook in hooks["pre_score"] if self._prepares(hook)),
            tuple(hook for hook in hooks["pre_filter"] if scope(hook.plugin) > Scope.NODE),
            tuple(hook for hook in hooks["pre_score"] if scope(hook.plugin) > Scope.NODE),
        )

    def _prepares(self, hook: Hook) -> bool:
        """Return whether PreFilter or PreScore runs even where the plugin's results are known."""
        signature = self._runner.pipeline.signatures.get(hook.plugin)
        return signature is None or signature.scope > Scope.STATIC or signature.writes_state

    def _filters(self, skips: frozenset[str], inactive: frozenset[str]) -> Filters:
        skipped = skips | inactive
        plugins = self._runner.active("filter", skipped)
        scopes = [self._runner.pipeline.scope(hook.plugin) for hook in plugins]
        rules = self._runner.pipeline.rules
        return Filters(
            plugins,
            scopes,
            [place for place, scope in enumerate(scopes) if scope is Scope.NODE],
            [place for place, scope in enumerate(scopes) if scope > Scope.NODE],
            [place for place, scope in enumerate(scopes) if scope is not Scope.STATIC],
            FilterDryRun(self._runner, plugins, skipped),
            None if rules is None else rules.filters([hook.plugin for hook in plugins]),
        )

    def _scorers(self, skipped: frozenset[str]) -> Scorers:
        plugins = tuple(
            ScorePlugin.of(hook, self._normalizers.get(hook.plugin), self._runner)
            for hook in self._runner.active("score", skipped)
        )
        dynamic = [i for i, plugin in enumerate(plugins) if plugin.durability is not Scope.STATIC]
        rules = self._runner.pipeline.rules
        names = [plugin.hook.plugin for plugin in plugins]
        return Scorers(plugins, dynamic, None if rules is None else rules.scores(names))

    def _row_functions(
        self, filters: Filters, skipped: frozenset[str] | None
    ) -> RowFunctions | None:
        rules = self._runner.pipeline.rules
        if rules is None:
            return None
        plugins = () if skipped is None else self.scorers(skipped).plugins
        node = [plugin for plugin in plugins if plugin.durability is Scope.NODE]
        plain = skipped is not None and all(plugin.plain for plugin in node)
        names = [plugin.hook.plugin for plugin in node] if plain else None
        numbered = [(place, filters.plugins[place].plugin) for place in filters.node_scoped]
        return rules.rows(numbered, names)
