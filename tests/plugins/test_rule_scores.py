"""A policy's score: failures, and normalisation by node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from policy_sched.explain.explain import explain
from policy_sched.explain.report import Explanation
from policy_sched.framework.evaluate.evaluator import Evaluator
from policy_sched.framework.status import Code
from policy_sched.model.pod_info import PodInfo, QueueState
from policy_sched.profiles.build.pipeline import CompiledPlan
from policy_sched.profiles.check.check import check_files
from policy_sched.scheduler.scheduler import Outcome, Scheduler
from policy_sched.scheduler.setup.factory import assemble, build, read
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled

HEAD = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: Rules}\nspec:\n"
ABORTING = """
  score:
    expression: clamp(int(node.labels["rank"]), 0, 100)
    onError: Abort
"""
NORMALIZING = """
  score:
    expression: int(node.labels[?"rank"].orValue("0"))
    normalize:
      expression: |-
        pod.labels[?"any"] == optional.of("yes") ? 50
          : node.free["cpu"] < quantity("2") ? 0 : percent(score, scores.max)
"""
WORDS = (
    'running Score plugins: plugin "Rules" failed with: rule Rules.score: '
    "no such key 'rank' (node {})"
)

Start = Callable[[str], Scheduler]


@pytest.fixture(name="start")
def _start(tmp_path: Path) -> Start:
    """Return a factory of schedulers with the default profile and one policy of these sections."""

    def start(spec: str) -> Scheduler:
        path = tmp_path / "policy.yaml"
        path.write_text(HEAD + spec)
        return build(None, [str(path)])

    return start


@pytest.fixture(name="plans", scope="module")
def _plans(tmp_path_factory: pytest.TempPathFactory) -> tuple[CompiledPlan, ...]:
    """Return the default profile compiled with a policy that normalises by node."""
    path = tmp_path_factory.mktemp("normalizing") / "policy.yaml"
    path.write_text(HEAD + NORMALIZING)
    return read(None, [str(path)])[0]


def schedule(scheduler: Scheduler, name: str = "p", **spec: object) -> Outcome:
    """Queue a pod and schedule it."""
    scheduler.add_pod(PodInfo.of(make_pod(name, **spec)))  # type: ignore[arg-type]  # its keywords
    outcome = scheduler.schedule_one()
    assert outcome is not None
    return outcome


PREFERRING = """
  score:
    expression: pod.preferredNodeAffinity(node)
    normalize: Max
"""
NO_NUMBER = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 1,
                "preference": {
                    "matchExpressions": [{"key": "ram", "operator": "Gt", "values": ["4Gi"]}]
                },
            }
        ]
    }
}


def test_a_preferred_term_that_is_not_valid_ends_the_attempt(start: Start) -> None:
    """A pod that prefers more than "4Gi" was placed at random; kube-scheduler says what is wrong.

    Where there is no choice between nodes, neither of them looks at preferences.
    """
    scheduler = start(PREFERRING)
    scheduler.cache.add_node(make_node("a"))
    assert schedule(scheduler, "only", affinity=NO_NUMBER).node == "a"
    scheduler.cache.add_node(make_node("b"))
    assert schedule(scheduler, "fine").node
    outcome = schedule(scheduler, "wrong", affinity=NO_NUMBER)
    assert (outcome.status.code, outcome.node) == (Code.ERROR, "")
    assert outcome.message == (
        'running PreScore plugin "NodeAffinity": [0].matchExpressions[0].values[0]: Invalid value:'
        " \"4Gi\": for 'Gt', 'Lt' operators, the value must be an integer"
    )


class TestAborting:
    """``onError: Abort`` ends the attempt as a Score plugin of kube-scheduler's does."""

    @pytest.mark.parametrize("nodes", [3, 40])
    def test_the_attempt_ends_with_the_rules_error(self, start: Start, nodes: int) -> None:
        """Row by row or vectorized; the pod backs off, and the first node is named."""
        scheduler = start(ABORTING)
        for i in range(nodes):
            labels = {} if i % 2 else {"rank": "5"}
            scheduler.cache.add_node(make_node(f"n{i}", labels=labels))
        outcome = schedule(scheduler)
        assert (outcome.status.code, outcome.node) == (Code.ERROR, "")
        assert outcome.message == WORDS.format("n1")
        queued = scheduler.queue.get(outcome.pod.uid)
        assert queued is not None
        assert queued.place is QueueState.BACKOFF
        assert scheduler.cache.nodes.pod_total == 0
        assert explain(scheduler, outcome.pod).message == outcome.message

    def test_a_node_that_is_out_already_does_no_harm(self, start: Start) -> None:
        """kube-scheduler would not have scored it, either."""
        scheduler = start(ABORTING)
        scheduler.cache.add_node(make_node("a", labels={"rank": "5"}))
        scheduler.cache.add_node(make_node("b", labels={"rank": "9"}))
        for i in range(12):
            scheduler.cache.add_node(make_node(f"c{i}", unschedulable=True))
        assert schedule(scheduler).node == "b"

    def test_the_only_node_is_not_scored(self, start: Start) -> None:
        """A single node is not scored; with a second one both are."""
        scheduler = start(ABORTING)
        scheduler.cache.add_node(make_node("a"))
        assert schedule(scheduler).node == "a"
        scheduler.cache.add_node(make_node("b"))
        assert schedule(scheduler, "q").message == WORDS.format("a")

    def test_it_fails_again_until_the_node_has_changed(self, start: Start) -> None:
        """A failed attempt leaves nothing in caches for the next pod."""
        scheduler = start(ABORTING)
        for name in ("a", "b"):
            scheduler.cache.add_node(make_node(name, labels={"rank": "1"}))
        assert schedule(scheduler, "p0").node
        scheduler.cache.update_node(make_node("b"))
        assert schedule(scheduler, "p1").message == WORDS.format("b")
        assert schedule(scheduler, "p2").message == WORDS.format("b")
        scheduler.cache.update_node(make_node("b", labels={"rank": "7"}))
        assert schedule(scheduler, "p3").node == "b"

    def test_an_error_while_normalizing(self, start: Start) -> None:
        """It is reported in kube-scheduler's words for that step."""
        scheduler = start("""
  score:
    expression: node.podCount
    normalize: {expression: 'clamp(score / scores.max, 0, 100)'}
    onError: Abort
""")
        for name in ("a", "b"):
            scheduler.cache.add_node(make_node(name))
        assert schedule(scheduler).message == (
            'running Normalize on Score plugins: plugin "Rules" failed with: '
            "rule Rules.score.normalize: divide by zero (node a)"
        )


class TestNormalizing:
    """A normalize expression may read the pod, the node and the cycle."""

    def test_it_reads_the_pod_and_the_node(self, start: Start) -> None:
        """A node that is nearly full scores 0, whatever its rank."""
        scheduler = start(NORMALIZING)
        scheduler.cache.add_node(make_node("full", cpu="1", labels={"rank": "9"}))
        for name, rank in (("low", "2"), ("high", "8")):
            scheduler.cache.add_node(make_node(name, labels={"rank": rank}))
        table, pod = scheduler.cache.nodes, PodInfo.of(make_pod("p"))
        evaluation = scheduler.profiles["default-scheduler"].evaluator.evaluate(pod)
        assert evaluation.scoring is not None
        rows = evaluation.filtering.feasible_rows()
        shares = evaluation.scoring.weighted(rows)["Rules"]
        named = {table.names[row]: share for row, share in zip(rows, shares, strict=True)}
        assert named == {"full": 0, "low": 22, "high": 88}
        found = explain(scheduler, PodInfo.of(make_pod("q", labels={"any": "yes"})))
        assert {score.plugins["Rules"] for score in found.scores} == {50}

    @settings(max_examples=scaled(25), deadline=None)
    @given(data=st.data())
    def test_what_is_kept_is_what_a_fresh_pass_gives(
        self, plans: tuple[CompiledPlan, ...], data: st.DataObject
    ) -> None:
        """Also if a bound pod changes only the input of the expression, and no raw score."""
        scheduler = assemble(plans)
        for i in range(data.draw(st.integers(2, 5))):
            labels = {"rank": str(i)} if data.draw(st.booleans()) else {}
            cpu = data.draw(st.sampled_from(["1", "3", "4"]))
            scheduler.cache.add_node(make_node(f"n{i}", cpu=cpu, labels=labels))
        kept = scheduler.profiles["default-scheduler"].evaluator
        fresh = Evaluator(
            scheduler.profiles["default-scheduler"].runner, scheduler.cache.nodes, cached=False
        )
        for i in range(data.draw(st.integers(2, 6))):
            labels = {"any": "yes"} if data.draw(st.booleans()) else {}
            pod = PodInfo.of(make_pod(f"p{i}", cpu="500m", labels=labels))
            one, other = kept.evaluate(pod), fresh.evaluate(pod)
            assert one.best().tolist() == other.best().tolist()
            if one.scoring is not None and other.scoring is not None:
                assert one.scoring.total.tolist() == other.scoring.total.tolist()
                row = data.draw(st.sampled_from(one.filtering.feasible_rows().tolist()))
                scheduler.cache.assume(pod, scheduler.cache.nodes.names[row])


PRICES = {"cheap": "0.10", "middle": "0.50", "dear": "0.90"}
PRICED = """
  score:
    expression: double(node.labels["price"])
    normalize: %s
"""


class TestDoubles:
    """Scores that are doubles are normalised as doubles, and rounded once, at the end."""

    @pytest.mark.parametrize(
        ("normalize", "expected"),
        [
            ("MinMax", {"cheap": 0, "middle": 50, "dear": 100}),
            ("MinMaxReverse", {"cheap": 100, "middle": 50, "dear": 0}),
            ("{expression: '100.0 * (score - scores.min) / (scores.max - scores.min)'}", None),
            ("{expression: 'clamp(100.0 * (score - 0.1) / 0.8, 0.0, 100.0)'}", {"middle": 50}),
            ("{expression: 'scores.mean > 0.49 && scores.sum < 1.6 ? 7 : 8'}", {"cheap": 7}),
        ],
    )
    def test_prices_below_one_differ(
        self, tmp_path: Path, normalize: str, expected: dict[str, int] | None
    ) -> None:
        """Prices of 0.10, 0.50 and 0.90 all scored 100: they were cut to 0 before MinMaxReverse."""
        path = tmp_path / "policy.yaml"
        path.write_text(HEAD + PRICED % normalize)
        if expected is None:  # its range is not known to be 0 to 100, which is the only problem
            assert [one.code for one in check_files([str(path)]) if one.severity == "error"] == [
                "PS321"
            ]
            return
        scheduler = build(None, [str(path)])
        for name, price in PRICES.items():
            scheduler.cache.add_node(make_node(name, labels={"price": price}))
        scheduler.cache.add_node(make_node("unknown"))
        found = {one.node: one for one in explain(scheduler, PodInfo.of(make_pod("p"))).scores}
        shares = {name: one.plugins["Rules"] for name, one in found.items()}
        assert {name: shares[name] for name in expected} == expected
        assert shares["unknown"] == 0
        assert found["middle"].raw["Rules"] == 0.5

    def test_the_largest_score_becomes_100_and_reversed_0(self, tmp_path: Path) -> None:
        """The largest is 100, and reversed 0."""
        for normalize, expected in (("Max", [11, 56, 100]), ("MaxReverse", [89, 44, 0])):
            path = tmp_path / "policy.yaml"
            text = PRICED.replace('double(node.labels["price"])', "max(0.0, params.free)")
            text = text.replace("params.free", 'double(node.labels["price"])') % normalize
            path.write_text(HEAD + text)
            scheduler = build(None, [str(path)])
            for name, price in PRICES.items():
                scheduler.cache.add_node(make_node(name, labels={"price": price}))
            found = {one.node: one for one in explain(scheduler, PodInfo.of(make_pod("p"))).scores}
            assert [found[name].plugins["Rules"] for name in PRICES] == expected


LARGE = """
  score:
    expression: 'max(0, int(node.labels["rank"]))'
    normalize: %s
"""


class TestLargeScores:
    """Scores whose hundredfold leaves int64: upstream's product wraps around and is truncated."""

    @staticmethod
    def explained(path: Path, normalize: str, ranks: list[int]) -> Explanation:
        """Return what is said of a pod where nodes have these raw scores."""
        path.write_text(HEAD + LARGE % normalize)
        scheduler = build(None, [str(path)])
        for number, rank in enumerate(ranks):
            scheduler.cache.add_node(make_node(f"n{number}", labels={"rank": str(rank)}))
        return explain(scheduler, PodInfo.of(make_pod("p")))

    @pytest.mark.parametrize(("normalize", "final"), [("Max", 0), ("MaxReverse", 100)])
    def test_the_greatest_int_is_kube_schedulers(
        self, tmp_path: Path, normalize: str, final: int
    ) -> None:
        """A pod whose nodes all had the greatest int as their raw score scored 101, or -1."""
        found = self.explained(tmp_path / "policy.yaml", normalize, [2**63 - 1, 2**63 - 1, 7])
        assert {one.node: one.plugins["Rules"] for one in found.scores} == {
            "n0": final,
            "n1": final,
            "n2": final,
        }

    @pytest.mark.parametrize(("normalize", "final"), [("Max", -28), ("MaxReverse", 128)])
    def test_what_leaves_the_range_ends_the_attempt(
        self, tmp_path: Path, normalize: str, final: int
    ) -> None:
        """A pod whose score wrapped around got -28 or 128 of 100, and was bound by it."""
        found = self.explained(tmp_path / "policy.yaml", normalize, [2**58, 0])
        assert found.failed
        assert found.message.endswith(
            f'plugin "Rules" returns an invalid score {final}, it should in the range of [0, 100] '
            "after normalizing"
        )
