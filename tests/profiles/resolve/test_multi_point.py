"""multiPoint expansion, against the cases that upstream's documentation and code state."""

from __future__ import annotations

from hypothesis import given, strategies as st

from policy_sched.profiles.models import defaults
from policy_sched.profiles.resolve import plan

IMPLEMENTS = {
    "Sort": frozenset({"queueSort"}),
    "Bind": frozenset({"bind"}),
    "A": frozenset({"filter", "score"}),
    "B": frozenset({"filter", "score"}),
    "C": frozenset({"filter", "score"}),
    "F": frozenset({"filter"}),
}
DEFAULTS = (("Sort", 0), ("A", 3), ("B", 2), ("Bind", 0))


def lists(*enabled: str | tuple[str, int], disabled: tuple[str, ...] = ()) -> plan.PluginLists:
    """Return the entry of a point, with places as in a file."""
    pairs = [(e, 0) if isinstance(e, str) else e for e in enabled]
    entries = tuple(
        plan.EnabledPlugin(name, weight, "point", i) for i, (name, weight) in enumerate(pairs)
    )
    return plan.PluginLists(entries, frozenset(disabled))


def run(**sets: plan.PluginLists) -> plan.Expansion:
    """Expand a profile of the plugins above."""
    return plan.expand(sets, IMPLEMENTS, DEFAULTS)


def names(expansion: plan.Expansion, point: str) -> list[str]:
    """Return the names at a point; the profile must be sound."""
    assert not expansion.faults
    return [name for name, _ in expansion.points[point]]


class TestDefaults:
    """An empty profile."""

    def test_every_plugin_runs_where_it_can(self) -> None:
        """Default plugins expand in their order, with their weights where they score."""
        expansion = run()
        assert names(expansion, "filter") == ["A", "B"]
        assert expansion.points["score"] == (("A", 3), ("B", 2))
        assert expansion.points["filter"] == (("A", 0), ("B", 0))
        assert names(expansion, "permit") == []

    def test_upstreams_default_profile(self) -> None:
        """The default profile scores with upstream's weights, in upstream's order."""
        expansion = plan.expand({}, defaults.PLUGIN_POINTS)
        assert not expansion.faults
        assert expansion.points["score"] == (
            ("TaintToleration", 3),
            ("NodeAffinity", 2),
            ("NodeResourcesFit", 1),
            ("VolumeBinding", 1),
            ("PodTopologySpread", 2),
            ("InterPodAffinity", 2),
            ("DynamicResources", 2),
            ("NodeResourcesBalancedAllocation", 1),
            ("ImageLocality", 1),
        )
        assert names(expansion, "postFilter") == ["DynamicResources", "DefaultPreemption"]
        assert names(expansion, "queueSort") == ["PrioritySort"]


class TestMultiPoint:
    """What a profile's multiPoint changes."""

    def test_a_default_plugin_named_again_keeps_its_place(self) -> None:
        """Re-configuring a default plugin changes its weight, not its place."""
        expansion = run(multiPoint=lists(("B", 7), ("C", 5)))
        assert expansion.points["score"] == (("A", 3), ("B", 7), ("C", 5))

    def test_a_weight_not_given_counts_as_one(self) -> None:
        """Re-configuring without a weight loses the default weight."""
        assert run(multiPoint=lists("A")).points["score"] == (("A", 1), ("B", 2))

    def test_disabled_takes_a_plugin_out_everywhere(self) -> None:
        """multiPoint.disabled removes a default plugin from all points."""
        expansion = run(multiPoint=lists(disabled=("A",)))
        assert names(expansion, "filter") == ["B"]

    def test_enabled_wins_over_disabled(self) -> None:
        """A plugin disabled and enabled comes back, behind the default ones."""
        expansion = run(multiPoint=lists("A", disabled=("A",)))
        assert names(expansion, "filter") == ["B", "A"]

    def test_star_disables_all_defaults(self) -> None:
        """With "*" only what the profile enables is left."""
        expansion = run(multiPoint=lists("Bind", "Sort", "C", disabled=("*",)))
        assert names(expansion, "filter") == ["C"]

    def test_twice_is_an_error(self) -> None:
        """A plugin enabled twice is reported, at every point that it implements."""
        expansion = run(multiPoint=lists("C", "C"))
        assert {t.message for t in expansion.faults} == {
            'plugin "C" already registered as "FilterPlugin"',
            'plugin "C" already registered as "ScorePlugin"',
        }


class TestSpecificPoint:
    """What a point's own list changes."""

    def test_own_list_goes_before_multi_point(self) -> None:
        """A plugin of both runs first, in the own list's order; others of the own list last."""
        expansion = run(filter=lists("F", "B"))
        assert names(expansion, "filter") == ["B", "A", "F"]
        assert names(expansion, "score") == ["A", "B"]

    def test_own_weight_wins(self) -> None:
        """The own list's weight wins over multiPoint's; not given counts as one."""
        assert run(score=lists(("B", 9))).points["score"] == (("B", 9), ("A", 3))
        assert run(score=lists("B")).points["score"] == (("B", 1), ("A", 3))

    def test_disabled_at_one_point_only(self) -> None:
        """A plugin disabled at a point stays at the others."""
        expansion = run(score=lists(disabled=("A",)))
        assert names(expansion, "score") == ["B"]
        assert names(expansion, "filter") == ["A", "B"]

    def test_star_stops_the_expansion(self) -> None:
        """With "*" a point has its own list only, in its order."""
        expansion = run(score=lists(("B", 4), ("C", 5), disabled=("*",)))
        assert expansion.points["score"] == (("B", 4), ("C", 5))

    def test_disabled_and_enabled_at_one_point(self) -> None:
        """A plugin disabled and enabled at a point runs after multiPoint's."""
        expansion = run(filter=lists("A", disabled=("A",)))
        assert names(expansion, "filter") == ["B", "A"]

    def test_unknown_and_unfit_plugins_are_reported_together(self) -> None:
        """A name that no plugin has, and a plugin that lacks the point, in upstream's words."""
        expansion = run(filter=lists("X"), score=lists("F"), bind=lists("Bind", "Bind"))
        assert [t.message for t in expansion.faults] == [
            'FilterPlugin "X" does not exist',
            'plugin "F" does not extend ScorePlugin plugin',
            'plugin "Bind" already registered as "BindPlugin"',
        ]

    def test_a_policy_at_a_point_that_it_has_no_section_for(self) -> None:
        """A configuration of CapacityScheduling, which enables it at reserve, too, was refused."""
        sets = {"reserve": lists("F"), "score": lists("X")}
        expansion = plan.expand(sets, IMPLEMENTS, DEFAULTS, {"F"})
        assert [(fault.message, fault.warning) for fault in expansion.faults] == [
            ('ScorePlugin "X" does not exist', False),
            ('plugin "F" does not extend ReservePlugin plugin', True),
        ]


class TestWholeProfile:
    """What every profile needs."""

    def test_a_queue_sort_and_a_binder(self) -> None:
        """Without exactly one queue sort, or without a binder, a profile does not start."""
        expansion = run(multiPoint=lists("A", disabled=("*",)))
        assert [t.message for t in expansion.faults] == [
            "only one queue sort plugin required, but got 0",
            "at least one bind plugin is needed",
        ]


PLUGINS = sorted(defaults.PLUGIN_POINTS)


@given(
    st.dictionaries(
        st.sampled_from([*defaults.POINTS, defaults.MULTI_POINT]),
        st.builds(
            lambda names, disabled: lists(*names, disabled=tuple(disabled)),
            st.lists(st.sampled_from(PLUGINS), max_size=4),
            st.lists(st.sampled_from([*PLUGINS, "*"]), max_size=3),
        ),
        max_size=5,
    )
)
def test_expansion_only_arranges(sets: dict[str, plan.PluginLists]) -> None:
    """Each point runs a plugin once, only those that implement it and that someone enabled."""
    expansion = plan.expand(sets, defaults.PLUGIN_POINTS)
    candidates = {name for name, _ in defaults.DEFAULT_PLUGINS}
    candidates |= {e.name for s in sets.values() for e in s.enabled}
    for point, plugins in expansion.points.items():
        ran = [name for name, _ in plugins]
        assert len(ran) == len(set(ran))
        assert all(point in defaults.PLUGIN_POINTS[name] for name in ran)
        assert set(ran) <= candidates
        own = {e.name for e in sets.get(point, plan.PluginLists()).enabled}
        gone = sets.get(point, plan.PluginLists()).disabled
        assert not {name for name in ran if name in gone and name not in own}
    merged = plan.merge_multi_point(sets.get(defaults.MULTI_POINT, plan.PluginLists()))
    assert len({e.name for e in merged}) <= len(merged)
