"""Domains that plugins part the nodes into, and how they rate them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from policy_sched.cluster.cache import Cache
from policy_sched.errors import PluginError
from policy_sched.framework import Placement, Placements
from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.extension_points import CONFIGURED
from policy_sched.framework.hookspecs import hookimpl
from policy_sched.framework.runtime.pipeline import freeze, implementations, points_of
from policy_sched.framework.runtime.runner import Runner
from policy_sched.framework.status import SKIP, SUCCESS, Code, Status
from policy_sched.model.pod_info import PodInfo
from policy_sched.scheduler import placement_search as placement
from policy_sched.testing import make_node, make_pod

PODS = [PodInfo.of(make_pod(name)) for name in ("a", "b")]


class Parts:
    """A plugin that parts the nodes as it is told."""

    def __init__(
        self,
        status: Status | None = None,
        wider: Sequence[Mapping[str, Sequence[int]]] = (),
        **rows: Sequence[int],
    ) -> None:
        self._answer = Placements(
            {name: np.array(own, np.intp) for name, own in rows.items()},
            SUCCESS if status is None else status,
            tuple({name: np.array(own, np.intp) for name, own in level.items()} for level in wider),
        )

    @hookimpl
    def placement_generate(self) -> Placements:
        return self._answer


class Rates:
    """A plugin with one score for all domains."""

    def __init__(self, score: int) -> None:
        self._score = score

    @hookimpl
    def placement_score(self) -> int:
        return self._score


def runner_of(*plugins: object, weight: int = 1) -> Runner:
    """Return a runner of plugins p0, p1, ..."""
    named = {f"p{i}": plugin for i, plugin in enumerate(plugins)}
    order = {
        field: [(name, weight) for name, plugin in named.items() if point in points_of(plugin)]
        for field, point in CONFIGURED.items()
    }
    implemented = {name: implementations(plugin, name) for name, plugin in named.items()}
    return Runner(freeze("default-scheduler", implemented, order))


def parted(*plugins: object) -> placement.Domains | None:
    """Return the domains of a cluster of four nodes, of which row 2 is gone."""
    cache = Cache()
    for i in range(4):
        cache.add_node(make_node(f"n{i}"))
    cache.remove_node(make_node("n2"))
    return placement.domains(runner_of(*plugins), CycleState(), PODS, cache.nodes)


def shown(found: placement.Domains | None) -> dict[str, list[int]]:
    """Return domains as plain data."""
    assert found is not None
    return {name: rows.tolist() for name, rows in found.rows.items()}


class TestDomains:
    """Into what the nodes are parted."""

    def test_domains_are_sorted_by_name(self) -> None:
        """Rows without a node are dropped, and domains that have no row left."""
        found = parted(Parts(b=[0, 2], a=[1], c=[2], d=[]))
        assert shown(found) == {"a": [1], "b": [0]}
        assert list(found.rows if found else ()) == ["a", "b"]
        assert found is not None
        assert found.plugins == ("p0",)

    def test_several_plugins_divide_the_nodes_together(self) -> None:
        """A domain is the intersection of one domain per plugin; plugins that skip are ignored."""
        skips = Parts(SKIP, x=[0])
        found = parted(Parts(a=[0, 1], b=[3]), skips, Parts(x=[1, 3], y=[0]))
        assert shown(found) == {"a, x": [1], "a, y": [0], "b, x": [3]}
        assert found is not None
        assert found.plugins == ("p0", "p2")

    def test_levels_of_several_plugins_are_divided_level_by_level(self) -> None:
        """One that has fewer levels keeps its widest domains for the others' wider ones."""
        racks = Parts(wider=({"all": [0, 1, 3]},), a=[0, 1], b=[3])
        found = parted(racks, Parts(x=[1, 3], y=[0]))
        assert found is not None
        assert [list(level) for level in found.levels] == [
            ["a, x", "a, y", "b, x"],
            ["all, x", "all, y"],
        ]

    def test_without_plugins_there_are_no_domains(self) -> None:
        """Without a plugin, and where all skip, there are no domains at all."""
        assert parted() is None
        assert parted(Parts(SKIP)) is None
        assert shown(parted(Parts())) == {}

    @pytest.mark.parametrize("rows", [[4], [-1], [0, 9]])
    def test_rows_that_no_table_has(self, rows: list[int]) -> None:
        """A plugin that names them is broken."""
        with pytest.raises(PluginError, match='plugin "p0": domain "a" has rows that are none'):
            parted(Parts(a=rows))

    def test_a_rejection_of_placements_is_an_error(self) -> None:
        """There is no node to reject yet."""
        with pytest.raises(PluginError, match='running PlacementGenerate plugin "p0": later'):
            parted(Parts(Status(Code.UNSCHEDULABLE, ("later",))))


class TestRating:
    """How good a domain is."""

    PLACEMENT = Placement("a", np.array([0], np.intp))

    def rating(self, runner: Runner) -> dict[str, int]:
        """Return the scores of a placement that is the only one."""
        raw = placement.placement_scores(runner, CycleState(), PODS, self.PLACEMENT)
        return placement.normalized_placements(runner, CycleState(), PODS, [raw])[0]

    def test_weights_count(self) -> None:
        """Each plugin's score times its weight."""
        runner = runner_of(Rates(10), Rates(100), Rates(0), weight=3)
        found = self.rating(runner)
        assert found == {"p0": 30, "p1": 300, "p2": 0}

    @pytest.mark.parametrize("score", [-1, 101])
    def test_scores_are_within_limits(self, score: int) -> None:
        """As upstream wants it of all scores."""
        with pytest.raises(PluginError, match=f"invalid placement score {score}"):
            self.rating(runner_of(Rates(score)))
