"""Few changed rows: plugins that read a row, a node and the whole cluster, together."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st

from policy_sched import framework
from policy_sched.cluster import Cache
from policy_sched.framework.evaluate import Evaluator
from policy_sched.framework.runtime import Runner
from policy_sched.framework.status import Code
from policy_sched.model import PodInfo
from policy_sched.plugins.interpodaffinity import InterPodAffinity
from policy_sched.plugins.podtopologyspread import PodTopologySpread
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled
from tests.finite import chooser
from tests.framework.evaluate.test_evaluator import assert_equal, pipeline_of
from tests.framework.evaluate.test_row_functions import Few
from tests.plugins import neighbourhoods

ZONES = ["", "z1", "z1", "z1", "z2", "z2", "z2", "z2", "z2"]
NAMES = [f"n{number}" for number in range(len(ZONES))]


class Grade:
    """Prefers some nodes by their place in the table up to ``last``; the best one has 100."""

    def __init__(self, cache: Cache, last: int) -> None:
        self._table = cache.nodes
        self._last = last

    @framework.hookimpl
    def sign_pod(self) -> framework.Signature:
        """Read nothing that changes."""
        return framework.Signature(
            frozenset(),
            framework.Scope.STATIC,
            proved=True,
            kernel=framework.RowKernel(normalizes_by_extremes=True),
        )

    @framework.hookimpl
    def score(self, rows: framework.Rows) -> framework.Scores:
        """Return the place; the last ones are alike."""
        found = np.minimum(np.arange(self._table.n), self._last)
        return found if rows is None else found[rows]

    @framework.hookimpl
    def normalize_score(self, scores: framework.RawScores) -> framework.Scores:
        """Return the share of the way from the lowest to the highest score."""
        top = int(scores.max())
        low = int(scores.min())
        return np.zeros_like(scores) if top == low else (scores - low) * 100 // (top - low)


def world() -> Cache:
    cache = Cache()
    for name, zone in zip(NAMES, ZONES, strict=True):
        labels = {neighbourhoods.HOSTNAME: name} | ({neighbourhoods.ZONE: zone} if zone else {})
        cache.add_node(make_node(name, labels=labels))
    return cache


@settings(max_examples=scaled(60), deadline=None)
@given(data=st.data())
def test_the_answers_are_those_of_a_fresh_evaluation(data: st.DataObject) -> None:
    """Whatever comes and goes: rows fill up, are shut by other pods and open again."""
    cache, choose = world(), chooser(data.draw)
    handle = neighbourhoods.handle_of(cache)
    plugins = {
        "Few": Few(cache, most=3),
        "Grade": Grade(cache, choose([0, 0, 4])),
        "PodTopologySpread": PodTopologySpread({}, handle),
        "InterPodAffinity": InterPodAffinity({}, handle),
    }
    runner = Runner(pipeline_of(plugins, cache))
    kept, plain = (
        Evaluator(runner, cache.nodes),
        Evaluator(runner, cache.nodes, cached=False),
    )
    waiting = [data.draw(neighbourhoods.pods(f"w{number}")) for number in range(2)]
    kinds = [*waiting, data.draw(neighbourhoods.pods("other"))]
    running: list[PodInfo] = []
    for number in range(data.draw(st.integers(1, 10))):
        if running and choose([False, False, True]):
            cache.forget(running.pop(choose(range(len(running)))).uid)
        else:
            model = choose(kinds).pod
            metadata = type(model.metadata)(
                name=f"r{number}",
                namespace=model.metadata.namespace,
                labels=model.metadata.labels,
            )
            running.append(PodInfo.of(type(model)(metadata=metadata, spec=model.spec)))
            cache.assume(running[-1], choose(NAMES))
        for pod in waiting:
            assert_equal(kept.evaluate(pod), plain.evaluate(pod))


class Liked(Grade):
    """Prefers nodes with many pods, by what runs in the whole cluster."""

    @framework.hookimpl
    def sign_pod(self) -> framework.Signature:
        """Say that it reads the whole cluster."""
        return framework.Signature(
            frozenset(),
            framework.Scope.CLUSTER,
            proved=True,
            kernel=framework.RowKernel(normalizes_by_extremes=True),
        )

    @framework.hookimpl
    def score(self, rows: framework.Rows) -> framework.Scores:
        """Return the number of pods, and more in the first rows."""
        table = self._table
        found = [len(table.pods_on(row)) * self._last + row % 3 for row in range(table.n)]
        return np.array(found) if rows is None else np.array(found)[rows]


@settings(max_examples=scaled(60), deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, 8), st.booleans()), max_size=12),
    each=st.sampled_from([-2, 1, 3]),
)
def test_few_scores_are_normalised_as_all_of_them(steps: list[tuple[int, bool]], each: int) -> None:
    """Whether a changed score is the lowest, the highest or one in between, before or after."""
    cache = world()
    runner = Runner(pipeline_of({"Few": Few(cache, 3), "Liked": Liked(cache, each)}, cache))
    kept, plain = (
        Evaluator(runner, cache.nodes),
        Evaluator(runner, cache.nodes, cached=False),
    )
    running: list[PodInfo] = []
    for number, (row, leaves) in enumerate(steps):
        if leaves and running:
            cache.forget(running.pop(row % len(running)).uid)
        else:
            running.append(PodInfo.of(make_pod(f"r{number}")))
            cache.assume(running[-1], NAMES[row])
        pod = PodInfo.of(make_pod(f"p{number}"))
        assert_equal(kept.evaluate(pod), plain.evaluate(pod))


class Sole:
    """Rejects nodes that have pods already; ``answers``: what it returns, the same one again."""

    def __init__(self, cache: Cache) -> None:
        self._table = cache.nodes
        self._codes: framework.Codes | None = None

    @framework.hookimpl
    def sign_pod(self) -> framework.Signature:
        """Say that it reads the whole cluster."""
        return framework.Signature(frozenset(), framework.Scope.CLUSTER)

    @framework.hookimpl
    def filter(self, rows: framework.Rows) -> framework.FilterResult:
        """Write to the codes that were returned before."""
        if self._codes is None:
            self._codes = np.zeros(self._table.n, np.int16)
        self._codes[:] = [bool(self._table.pods_on(row)) for row in range(self._table.n)]
        found = self._codes if rows is None else self._codes[rows]
        return framework.FilterResult.of(found, framework.Status(Code.UNSCHEDULABLE, ("taken",)))


def test_codes_that_a_plugin_writes_to_are_read_anew() -> None:
    """Only a read-only array that is returned again means that nothing has changed."""
    cache = world()
    runner = Runner(pipeline_of({"Few": Few(cache), "Sole": Sole(cache)}, cache))
    evaluator = Evaluator(runner, cache.nodes)
    for number in range(3):
        filtering = evaluator.evaluate(PodInfo.of(make_pod(f"p{number}"))).filtering
        assert filtering.feasible_rows().tolist() == list(range(number, len(NAMES)))
        cache.assume(PodInfo.of(make_pod(f"r{number}")), NAMES[number])
