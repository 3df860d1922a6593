"""PluginSets: which plugins take part in an evaluation, worked out once for each set of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Final, TypeAlias

import msgspec

from policy_sched.framework import FilterResult, FusedRules, RawScores, RowFunctions, Scope
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
    """The filters that are not skipped, by their places among all of the profile."""

    hooks: tuple[Hook, ...]
    """All of the profile, also those that are skipped."""
    places: list[int]
    node_scoped: list[int]
    """The places of those that read the row and its pods."""
    changing: list[int]
    """The places of those that read more, and may reject other rows than before, with an equal
    key."""
    dynamic: list[int]
    """The places of all that read more than the node, in order."""
    static: list[int]
    """The places of the others."""
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
    changing_pre_filter: tuple[Hook, ...]
    """Those of them whose result may be another one with an equal key."""
    cluster_pre_score: tuple[Hook, ...]


class PluginSets:
    """The sets of one pipeline's plugins that take part together, each worked out once."""

    def __init__(self, runner: Runner) -> None:
        pipeline = runner.pipeline
        normalizers = {hook.plugin: hook for hook in pipeline.at("normalize_score")}
        filtering = {hook.plugin for hook in pipeline.at("pre_filter")}
        whole = pipeline.signature()
        keys = () if whole is None else whole.keys
        self._keys = len(keys)
        self._keyed = [
            (plugin, keys.index(key) - len(keys))
            for plugin, signature in pipeline.signatures.items()
            if plugin in filtering and not signature.fields and keys
            for key in signature.keys
        ]
        self._all_keyed = frozenset([plugin for plugin, _ in self._keyed])
        # Methods of its own would be a cycle, left behind by every reload.
        self.active = cache(partial(_active, runner))
        """Returns the plugins that have anything to do with a pod, without inactive ones."""
        self.filters = cache(partial(_filters, runner))
        """Returns the filters without those that skip, and without inactive ones, which would."""
        self.scorers = cache(partial(_scorers, runner, normalizers))
        """Returns the score plugins without those that skip."""
        self.row_functions = cache(partial(_row_functions, pipeline.rules, self.scorers))
        """Returns what filters and scores a few rows; None where plugins run one by one."""

    def active_with(self, key: Key) -> ActivePlugins:
        """Return the plugins that have anything to do with pods of a signature."""
        if key[-self._keys :].count(None) == self._keys > 0:
            return self.active(self._all_keyed)  # most pods, without a look at each plugin
        concerned = {plugin for plugin, place in self._keyed if key[place] is not None}
        return self.active(self._all_keyed - concerned)


def _active(runner: Runner, inactive: frozenset[str]) -> ActivePlugins:
    hooks, scope = runner.without(inactive), runner.pipeline.scope
    scoring = {hook.plugin for hook in runner.hooks["pre_score"]}
    left_out = inactive - {hook.plugin for hook in runner.hooks["post_filter"]}
    pre_filter = [h for h in runner.hooks["pre_filter"] if h.plugin not in left_out]
    wide = tuple(hook for hook in hooks["pre_filter"] if scope(hook.plugin) > Scope.NODE)
    return ActivePlugins(
        hooks,
        tuple(pre_filter),
        inactive,
        inactive & scoring,
        tuple(hook for hook in pre_filter if _prepares(runner, hook)),
        tuple(hook for hook in hooks["pre_score"] if _prepares(runner, hook)),
        wide,
        tuple(hook for hook in wide if not _follows_from_key(runner, hook)),
        tuple(hook for hook in hooks["pre_score"] if scope(hook.plugin) > Scope.NODE),
    )


def _prepares(runner: Runner, hook: Hook) -> bool:
    """Return whether PreFilter or PreScore runs even where the plugin's results are known."""
    signature = runner.pipeline.signatures.get(hook.plugin)
    return signature is None or signature.scope > Scope.STATIC or signature.writes_state


def _follows_from_key(runner: Runner, hook: Hook) -> bool:
    """Return whether PreFilter and Filter of a plugin return the same for an equal key."""
    signature = runner.pipeline.signatures.get(hook.plugin)
    return signature is not None and signature.kernel.follows_from_key


def _filters(runner: Runner, skips: frozenset[str], inactive: frozenset[str]) -> Filters:
    skipped, hooks = skips | inactive, runner.hooks["filter"]
    scopes = [runner.pipeline.scope(hook.plugin) for hook in hooks]
    dry_run, rules = FilterDryRun(runner, skipped), runner.pipeline.rules
    places = [number - 1 for number in dry_run.plugins]
    wide = [place for place in places if scopes[place] > Scope.NODE]
    return Filters(
        hooks,
        places,
        [place for place in places if scopes[place] is Scope.NODE],
        [place for place in wide if not _follows_from_key(runner, hooks[place])],
        [place for place in places if scopes[place] is not Scope.STATIC],
        [place for place in places if scopes[place] is Scope.STATIC],
        dry_run,
        None if rules is None else rules.filters([hooks[place].plugin for place in places]),
    )


def _scorers(runner: Runner, normalizers: Mapping[str, Hook], skipped: frozenset[str]) -> Scorers:
    plugins = tuple(
        ScorePlugin.of(hook, normalizers.get(hook.plugin), runner)
        for hook in runner.active("score", skipped)
    )
    dynamic = [i for i, plugin in enumerate(plugins) if plugin.durability is not Scope.STATIC]
    rules = runner.pipeline.rules
    names = [plugin.hook.plugin for plugin in plugins]
    return Scorers(plugins, dynamic, None if rules is None else rules.scores(names))


def _row_functions(
    rules: FusedRules | None,
    scorers: Callable[[frozenset[str]], Scorers],
    filters: Filters,
    skipped: frozenset[str] | None,
) -> RowFunctions | None:
    if rules is None:
        return None
    plugins = () if skipped is None else scorers(skipped).plugins
    node = [plugin for plugin in plugins if plugin.durability is Scope.NODE]
    plain = skipped is not None and all(plugin.plain for plugin in node)
    names = [plugin.hook.plugin for plugin in node] if plain else None
    numbered = [(place, filters.hooks[place].plugin) for place in filters.node_scoped]
    return rules.rows(numbered, names)
