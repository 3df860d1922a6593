"""Spread and affinity: cached and patched results equal fresh ones after any events."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given, settings, strategies as st

from policy_sched.cluster.cache import Cache
from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.evaluate.evaluator import Evaluation, Evaluator
from policy_sched.framework.extension_points import CONFIGURED
from policy_sched.framework.handle import Handle
from policy_sched.framework.runtime.pipeline import Pipeline, freeze, implementations, points_of
from policy_sched.framework.runtime.runner import Runner
from policy_sched.model.pod_info import PodInfo
from policy_sched.plugins.interpodaffinity.plugin import InterPodAffinity
from policy_sched.plugins.podtopologyspread.plugin import PodTopologySpread
from policy_sched.scheduler.scheduling_cycle import select_host
from policy_sched.testing import make_pod
from policy_sched.thresholds import SEARCHES
from tests.examples import scaled
from tests.finite import chooser
from tests.plugins import neighbourhoods

POD = PodInfo.of(make_pod("p"))
NAMES = ["n0", "n1", "n2", "n3"]
OURS = (PodTopologySpread, InterPodAffinity)


def pipeline(handle: Handle) -> Pipeline:
    plugins = {kind.__name__: kind({}, handle) for kind in OURS}
    order = {
        field: [(name, 2) for name, plugin in plugins.items() if point in points_of(plugin)]
        for field, point in CONFIGURED.items()
    }
    implemented = {name: implementations(plugin, name) for name, plugin in plugins.items()}
    return freeze("default-scheduler", implemented, order)


def assert_equal(shared: Evaluation, fresh: Evaluation) -> None:
    assert shared.filtering.statuses() == fresh.filtering.statuses()
    np.testing.assert_array_equal(shared.filtering.feasible_rows(), fresh.filtering.feasible_rows())
    assert (shared.scoring is None) == (fresh.scoring is None)
    if shared.scoring is not None and fresh.scoring is not None:
        np.testing.assert_array_equal(shared.scoring.total, fresh.scoring.total)
        # After so many searches the rows are grouped by their totals.
        chosen = {select_host(shared, Random(1), POD) for _ in range(SEARCHES)}
        assert chosen == {select_host(fresh, Random(1), POD)}


@settings(max_examples=scaled(60), deadline=None)
@given(data=st.data())
def test_a_kept_evaluation_equals_a_fresh_one(data: st.DataObject) -> None:
    """Pods, nodes and namespaces are added, changed and deleted between decisions of equal pods."""
    cache, choose = Cache(), chooser(data.draw)
    for name in NAMES:
        cache.add_node(data.draw(neighbourhoods.nodes(name)))
    runner = Runner(pipeline(neighbourhoods.handle_of(cache)))
    evaluator = Evaluator(runner, cache.nodes)
    anew = Evaluator(runner, cache.nodes, cached=False)
    waiting = [data.draw(neighbourhoods.pods(f"w{i}")) for i in range(2)]
    running: list[PodInfo] = []
    for number in range(data.draw(st.integers(1, 8))):
        step = choose(["assume", "assume", "forget", "node", "namespace"])
        if step == "assume":
            pod = data.draw(neighbourhoods.pods(f"r{number}"))
            cache.assume(pod, choose(NAMES))
            running.append(pod)
        elif step == "forget" and running:
            cache.forget(running.pop().uid)
        elif step == "node":
            cache.update_node(data.draw(neighbourhoods.nodes(choose(NAMES))))
        elif step == "namespace":
            team = choose(["x", "y"])
            cache.set_namespace(neighbourhoods.namespace(choose(["default", "other"]), team=team))
        for pod in waiting:
            assert_equal(evaluator.evaluate(pod), anew.evaluate(pod))


@settings(max_examples=scaled(80), deadline=None)
@given(data=st.data())
def test_a_dry_run_is_as_if_it_had_happened(data: st.DataObject) -> None:
    """AddPod and RemovePod give the filter the state of a cluster with that change."""
    cache, choose = Cache(), chooser(data.draw)
    for name in NAMES:
        cache.add_node(data.draw(neighbourhoods.nodes(name)))
    running = [data.draw(neighbourhoods.pods(f"r{i}", choose(NAMES))) for i in range(4)]
    for pod in running[1:]:
        cache.add_pod(pod)
    pod, moved = data.draw(neighbourhoods.pods("w")), running[0]
    row = cache.nodes.row_of[moved.node_name]
    for kind in OURS:
        plugin = kind({}, neighbourhoods.handle_of(cache))
        state = CycleState()
        if plugin.pre_filter(state, pod).status.ok:
            tried = state.clone()
            plugin.add_pod(tried, pod, moved, row)
            again = tried.clone()
            plugin.remove_pod(again, pod, moved, row)
            before = codes(plugin, state, pod, cache)
            cache.add_pod(moved)
            after = CycleState()
            if plugin.pre_filter(after, pod).status.ok:
                assert codes(plugin, tried, pod, cache) == codes(plugin, after, pod, cache)
            cache.remove_pod(moved)
            assert codes(plugin, again, pod, cache) == before == codes(plugin, state, pod, cache)


def codes(
    plugin: PodTopologySpread | InterPodAffinity, state: CycleState, pod: PodInfo, cache: Cache
) -> list[int]:
    found = plugin.filter(state, pod, None, cache.nodes).codes
    return [0] * len(NAMES) if found is None else found.tolist()
