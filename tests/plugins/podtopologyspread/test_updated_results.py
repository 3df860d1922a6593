"""Updates of kept evaluations of pods with spread constraints equal fresh evaluations."""

from __future__ import annotations

from itertools import count

from hypothesis import given, settings, strategies as st

from policy_sched import thresholds
from policy_sched.cluster import Cache
from policy_sched.framework import CycleState
from policy_sched.framework.evaluate import Evaluation, Evaluator
from policy_sched.framework.runtime import Runner
from policy_sched.model import PodInfo
from policy_sched.model.cluster_objects import Service, ServiceSpec
from policy_sched.model.meta import ObjectMeta
from policy_sched.plugins.podtopologyspread import PodTopologySpread
from policy_sched.testing import make_node, make_pod
from tests import finite
from tests.examples import scaled
from tests.framework.evaluate.test_evaluator import assert_equal, pipeline_of
from tests.framework.examples import Few
from tests.plugins.neighbourhoods import HOSTNAME, ZONE, handle_of

RACK = "rack"
NODES = finite.fields(
    {"taints": finite.of((), (), (), ("a=b:NoSchedule",))},
    {
        ZONE: finite.of("z1", "z2", "z3", ""),
        RACK: finite.of("r1", "r2"),
        HOSTNAME: finite.of("own", "own", "own"),
    },
).strategy()
CONSTRAINTS = finite.fields(
    {
        "maxSkew": finite.of(1, 2, 3),
        "topologyKey": finite.of(ZONE, HOSTNAME, RACK),
        "whenUnsatisfiable": finite.of("DoNotSchedule", "ScheduleAnyway", "ScheduleAnyway"),
        "labelSelector": finite.of(
            {"matchLabels": {"app": "a"}},
            {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        ),
    },
    {
        "minDomains": finite.of(1, 2, 4),
        "nodeTaintsPolicy": finite.of("Honor", "Ignore"),
    },
).strategy()
APPS = ("a", "b", "")


def labels_of(app: str) -> dict[str, str]:
    return {"app": app} if app else {}


def world(data: st.DataObject) -> tuple[Cache, list[str]]:
    """Return nodes, of which some lack labels."""
    cache, names = Cache(), [f"n{number}" for number in range(data.draw(st.integers(3, 14)))]
    for name in names:
        facts = data.draw(NODES)
        labels = {key: facts[key] for key in (ZONE, RACK) if key in facts}
        labels |= {HOSTNAME: name} if HOSTNAME in facts else {}
        cache.add_node(make_node(name, labels=labels, taints=facts["taints"]))
    return cache, names


def assert_same_dry_runs(
    plugin: PodTopologySpread, shared: Evaluation, fresh: Evaluation, pod: PodInfo, cache: Cache
) -> None:
    """Compare what filters say if one more pod ran in each place."""
    other = PodInfo.of(make_pod("other", labels={"app": "a"}))
    for row in range(cache.nodes.n):
        states = [shared.state.clone(), fresh.state.clone()]
        for state in states:
            plugin.add_pod(state, pod, other, row)
        found = [codes(plugin, state, pod, cache) for state in states]
        assert found[0] == found[1]


def codes(plugin: PodTopologySpread, state: CycleState, pod: PodInfo, cache: Cache) -> list[int]:
    found = plugin.filter(state, pod, None, cache.nodes).codes
    return [0] * cache.nodes.n if found is None else found.tolist()


@settings(max_examples=scaled(60), deadline=None)
@given(data=st.data())
def test_updated_results_are_those_of_a_fresh_evaluation(data: st.DataObject) -> None:
    """Pods come and go, nodes fill up; constraints are hard, soft, both or the default ones."""
    cache, names = world(data)
    choose = finite.chooser(data.draw)
    app = Service(
        kind="Service",
        metadata=ObjectMeta(name="app", namespace="default"),
        spec=ServiceSpec(selector={"app": "b"}),
    )
    handle = handle_of(cache, (app,))
    spread = PodTopologySpread({}, handle)
    plugins = {"Few": Few(cache, most=choose([2, 4, 9])), "PodTopologySpread": spread}
    runner = Runner(pipeline_of(plugins, cache))
    kept, plain = (
        Evaluator(runner, cache.nodes),
        Evaluator(runner, cache.nodes, cached=False),
    )
    own = data.draw(st.lists(CONSTRAINTS, max_size=3))
    waiting = [
        PodInfo.of(make_pod("w0", labels={"app": "a"}, topology_spread_constraints=own)),
        PodInfo.of(make_pod("w1", labels={"app": "b"})),
    ]
    running, serial = list[PodInfo](), count()
    for _ in range(data.draw(st.integers(3, 16))):
        for _ in range(choose([1, 1, 1, 2, 3])):
            if running and choose([False, False, True]):
                cache.forget(running.pop(choose(range(len(running)))).uid)
            else:
                name = f"r{next(serial)}"
                running.append(PodInfo.of(make_pod(name, labels=labels_of(choose(APPS)))))
                cache.assume(running[-1], choose(names))
        for pod in waiting:
            shared, fresh = kept.evaluate(pod), plain.evaluate(pod)
            assert_equal(shared, fresh)
            if shared.scoring is not None and fresh.scoring is not None:
                rows = fresh.filtering.feasible_rows()
                assert shared.scoring.raw(rows) == fresh.scoring.raw(rows)
            assert_same_dry_runs(spread, shared, fresh, pod, cache)


def test_more_groups_than_are_worth_it_are_scored_row_by_row() -> None:
    """Nodes that are all in other domains get the scores of a fresh evaluation."""
    cache, names = Cache(), [f"n{number}" for number in range(thresholds.MOST_GROUPS + 1)]
    for name in names:
        cache.add_node(make_node(name, labels={RACK: name}))
    runner = Runner(
        pipeline_of({"PodTopologySpread": PodTopologySpread({}, handle_of(cache))}, cache)
    )
    kept, plain = (
        Evaluator(runner, cache.nodes),
        Evaluator(runner, cache.nodes, cached=False),
    )
    constraint = {
        "maxSkew": 1,
        "topologyKey": RACK,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    for number in range(4):
        pod = PodInfo.of(
            make_pod(f"w{number}", labels={"app": "a"}, topology_spread_constraints=[constraint])
        )
        assert_equal(kept.evaluate(pod), plain.evaluate(pod))
        cache.assume(pod, names[number])


def test_domains_that_open_and_close_together_are_all_seen() -> None:
    """Pods went to a full zone, or waited for one, after a pod had come to a zone and a rack."""
    cache = Cache()
    for number in range(4):
        labels = {ZONE: f"z{number // 2}", RACK: f"r{number % 2}"}
        cache.add_node(make_node(f"n{number}", labels=labels))
    runner = Runner(
        pipeline_of({"PodTopologySpread": PodTopologySpread({}, handle_of(cache))}, cache)
    )
    kept, plain = (
        Evaluator(runner, cache.nodes),
        Evaluator(runner, cache.nodes, cached=False),
    )
    constraints = [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "a"}},
        }
        for key in (ZONE, RACK)
    ]
    labels = {"app": "a"}
    pod = PodInfo.of(make_pod("new", labels=labels, topology_spread_constraints=constraints))
    for number, node in enumerate(("", "", "", "n0", "n3", "n1", "n2")):
        running = PodInfo.of(make_pod(f"r{number}", labels=labels if node else {}))
        cache.assume(running, node or "n0")
        assert_equal(kept.evaluate(pod), plain.evaluate(pod))
