"""The score of a bound policy: failed rows, reported errors, and normalisation."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from policy_sched.cluster.cache import Cache
from policy_sched.cluster.tables import Scope
from policy_sched.language.check.policy import check_policy
from policy_sched.language.compile import compile_policy
from policy_sched.language.diagnostics import PolicySource, ScoreRule, Text, VariableSource
from policy_sched.language.runtime.activation import FAILED, NORMALIZERS, Activation, normalized
from policy_sched.language.sections import CompiledPolicy
from policy_sched.language.values.limits import RuleError
from policy_sched.model.pod_info import PodInfo
from policy_sched.plugins.rules import bind
from policy_sched.plugins.rules.bound_policy import BoundPolicy
from policy_sched.testing import make_node, make_pod
from policy_sched.thresholds import LOOP_ROWS
from tests.language.oracle_policy import normalized as exact_shares

NODES = 12
NOW = Activation(now=7 * 1_000_000_000)
POD = PodInfo.of(make_pod("p", cpu="1", labels={"least": "3"}))


def compiled(
    text: str, normalize: str | None = None, normalize_by: str | None = None, **score: Any
) -> CompiledPolicy:
    """Return a policy that is a score."""
    rule = normalize_by if normalize is None else Text(normalize)
    source = PolicySource("Test", score=ScoreRule(Text(text), normalize=rule, **score))
    checked, problems = check_policy(source)
    assert checked is not None, problems
    policy, more = compile_policy(checked)
    assert policy is not None, more
    return policy


def bound(*text: str, **score: Any) -> BoundPolicy:
    """Bind it to nodes of 0, 1, 2, ... cpus; the even ones have a rank, which is their number."""
    cache = Cache()
    for i in range(NODES):
        labels = {} if i % 2 else {"rank": str(i)}
        cache.add_node(make_node(f"n{i}", cpu=str(i), labels=labels))
    return bind(compiled(*text, **score), cache.nodes)


class TestAborting:
    """A rule that fails marks its row; only feasible rows end the attempt."""

    TEXT = 'clamp(int(node.labels["rank"]), 0, 100)'

    @pytest.mark.parametrize("count", [2, NODES])
    def test_rows_where_the_rule_failed_are_marked(self, count: int) -> None:
        """One by one and as an array."""
        rows = np.arange(count, dtype=np.intp)
        scores = bound(self.TEXT, on_error="Abort").score.raw(POD, NOW, rows)
        assert scores.tolist() == [FAILED if i % 2 else i for i in range(count)]

    def test_the_first_feasible_row_that_failed_is_reported(self) -> None:
        """With the node's name; other rows have no error."""
        requested = bound(self.TEXT, on_error="Abort")
        rows = np.array([2, 5, 7], np.intp)
        failure = requested.score.failure(POD, NOW, requested.score.raw(POD, NOW, rows), rows)
        assert failure == "rule Test.score: no such key 'rank' (node n5)"
        good = np.array([2, 4], np.intp)
        assert requested.score.failure(POD, NOW, requested.score.raw(POD, NOW, good), good) is None
        assert requested.score.failure(POD, NOW, np.zeros(0, np.int64), good[:0]) is None

    def test_without_abort_nothing_ends(self) -> None:
        """A failed row is 0, and no failure is reported."""
        requested = bound(self.TEXT, on_error="Zero")
        rows = np.array([1], np.intp)
        scores = requested.score.raw(POD, NOW, rows)
        assert scores.tolist() == [0]
        assert requested.score.failure(POD, NOW, scores, rows) is None

    def test_an_error_of_the_normalize_expression(self) -> None:
        """It ends the attempt, too, and names the node."""
        text = 'clamp(100 / int(node.labels["rank"]), 0, 100)'
        requested = bound("node.podCount", text, on_error="Zero")
        rows = np.array([4, 5, 10], np.intp)
        assert requested.score.normalize(np.ones(3, np.int64), POD, NOW, rows).tolist() == [
            25,
            0,
            10,
        ]
        requested = bound("node.podCount", text, on_error="Abort")
        with pytest.raises(
            RuleError, match=r"Test.score.normalize: no such key 'rank' \(node n5\)"
        ):
            requested.score.normalize(np.ones(3, np.int64), POD, NOW, rows)


class TestNormalizing:
    """The expression sees the pod, the node, the cycle, a raw score and the statistics."""

    TEXT = (
        'node.free["cpu"].units() >= 3000 && score >= int(pod.labels["least"])'
        " ? percent(score, scores.max) : clamp(now.getSeconds(), 0, 59) + clamp(scores.min, 0, 9)"
    )

    @given(st.data())
    def test_as_an_array_it_is_what_it_is_row_by_row(self, data: st.DataObject) -> None:
        """For any rows, in any order, and with rows left out that failed."""
        rows = data.draw(st.lists(st.integers(0, NODES - 1), min_size=1, unique=True))
        raw = [data.draw(st.one_of(st.just(FAILED), st.integers(0, 50))) for _ in rows]
        known = [score for score in raw if score != FAILED]
        found = bound("node.podCount", self.TEXT).score.normalize(
            np.array(raw, np.int64), POD, NOW, np.array(rows, np.intp)
        )
        expected = []
        for row, score in zip(rows, raw, strict=True):
            if score == FAILED:
                expected.append(0)
            elif row >= 3 and score >= 3:
                expected.append(min(100, score * 100 // max(known)))
            else:
                expected.append(7 + min(9, *known))
        assert found.tolist() == expected

    def test_what_it_reads_belongs_to_the_score(self) -> None:
        """Pods that differ in it do not share scores, and changed nodes are evaluated again."""
        plain = compiled("node.podCount", "percent(score, scores.max)")
        assert not plain.normalizes_by_row
        wide = compiled("3", 'node.free["cpu"] > pod.requests["cpu"] ? score : 0')
        assert wide.normalizes_by_row
        assert ("requests",) in wide.score_reads.pod
        assert wide.score_reads.scope is Scope.NODE
        assert wide.units > compiled("3", "score").units

    def test_equal_scores_are_still_normalized_node_by_node(self) -> None:
        """A constant raw score is shared; its normalisation by node is not."""
        requested = bound("3", 'node.free["cpu"] > quantity("10") ? 90 : score')
        raw = requested.score.raw(POD, NOW)
        assert len(raw) > LOOP_ROWS
        assert requested.score.normalize(raw, POD, NOW).tolist() == [3] * 11 + [90]
        some = np.array([11, 0], np.intp)
        assert requested.score.normalize(raw[some], POD, NOW, some).tolist() == [90, 3]

    def test_equal_scores_of_another_pod_are_normalized_anew(self) -> None:
        """A pod whose nodes all had one score got the normalised score of the pod before it."""
        requested = bound("clamp(int(pod.labels['least']), 0, 50)", "score * 2")
        for least in (3, 5):
            pod = PodInfo.of(make_pod("p", labels={"least": str(least)}))
            raw = requested.score.raw(pod, NOW)
            assert requested.score.normalize(raw, pod, NOW).tolist() == [2 * least] * NODES


class TestDoubles:
    """A rule that is a double is normalised as one; the result is rounded to the nearest int."""

    RULE = 'double(node.labels["rank"]) / 4.0'

    @pytest.mark.parametrize("count", [2, NODES])
    def test_raw_scores_stay_doubles(self, count: int) -> None:
        """One by one and as an array; a node where the rule failed has none."""
        requested = bound(self.RULE, normalize_by="MinMax")
        scores = requested.score.raw(POD, NOW, np.arange(count, dtype=np.intp))
        assert scores.dtype == np.float64
        expected = [math.nan if i % 2 else i / 4 for i in range(count)]
        np.testing.assert_array_equal(scores, expected)

    def test_without_normalize_a_double_is_truncated(self) -> None:
        """Then the raw score is final."""
        scores = bound("clamp(double(node.podCount) + 0.9, 0.0, 100.0)").score.raw(POD, NOW)
        assert (scores.dtype, set(scores.tolist())) == (np.int64, {0})

    @given(
        st.sampled_from(sorted(NORMALIZERS)),
        st.lists(st.one_of(st.just(math.nan), st.floats(0, 2.0**63, width=32)), max_size=12),
    )
    def test_each_share_is_the_nearest(self, name: str, scores: list[float]) -> None:
        """Against exact fractions; nodes without a score are left out and have 0."""
        known = [Fraction(s) for s in scores if not math.isnan(s)]
        top, least = max(known, default=Fraction(0)), min(known, default=Fraction(0))
        found = normalized(name, np.array(scores, np.float64)).tolist()
        for score, share in zip(scores, found, strict=True):
            if math.isnan(score):
                assert share == 0
                continue
            if name.startswith("Max"):
                exact = 100 * Fraction(score) / top if top else Fraction(0)
            else:
                exact = 100 * (Fraction(score) - least) / (top - least) if top > least else 0
            exact = 100 - exact if name.endswith("Reverse") else exact
            assert abs(share - exact) <= Fraction(500001, 1000000)

    @given(st.sampled_from(sorted(NORMALIZERS)), st.lists(st.integers(0, 10**6), max_size=12))
    def test_ints_are_normalised_as_ever(self, name: str, scores: list[int]) -> None:
        """Bit for bit the results of kube-scheduler's functions, which truncate."""
        expected = exact_shares(name, scores)
        assert normalized(name, np.array(scores, np.int64)).tolist() == expected

    def test_statistics_are_doubles(self) -> None:
        """A normalize expression reads the score and the statistics without rounding."""
        text = "scores.max == 0.5 && scores.min == 0.0 && score < 0.6 ? int(score * 100.0) : 0"
        requested = bound(self.RULE, f"clamp({text}, 0, 100)")
        rows = np.array([0, 1, 2], np.intp)
        raw = requested.score.raw(POD, NOW, rows)
        assert requested.score.normalize(raw, POD, NOW, rows).tolist() == [0, 0, 50]

    def test_a_normalised_double_is_rounded(self) -> None:
        """The value of a normalize expression is rounded once, not truncated."""
        requested = bound(self.RULE, "clamp(score + 99.4, 0.0, 100.0)")
        rows = np.array([0, 2], np.intp)
        assert requested.score.normalize(
            requested.score.raw(POD, NOW, rows), POD, NOW, rows
        ).tolist() == [
            99,
            100,
        ]

    def test_variables_that_read_the_score_see_doubles(self) -> None:
        """The raw score has one type wherever a policy reads it."""
        source = PolicySource(
            "Test",
            variables=(VariableSource("half", Text("score / 2.0")),),
            score=ScoreRule(Text(self.RULE), normalize=Text("clamp(variables.half, 0.0, 9.0)")),
        )
        assert check_policy(source)[0] is not None

    def test_an_int_beside_doubles_is_reported(self) -> None:
        """The type of the score is that of its rule."""
        source = ScoreRule(Text(self.RULE), normalize=Text("percent(score, scores.max)"))
        policy, problems = check_policy(PolicySource("Test", score=source))
        assert policy is None
        assert [one.code for one in problems] == ["PS201"]


@pytest.mark.parametrize("text", ["node.podCount", "node.podCount * 7", "node.podCount * 7 + 1"])
def test_raw_scores_are_those_of_when_they_were_computed(text: str) -> None:
    """What changes on a node later changes no array that was returned, so that it is noticed."""
    cache = Cache()
    for i in range(NODES):
        cache.add_node(make_node(f"n{i}"))
    policy = bind(compiled(text, normalize_by="MaxReverse"), cache.nodes)
    for number in range(3):
        before = policy.score.raw(POD, NOW)
        seen = before.tolist()
        cache.assume(PodInfo.of(make_pod(f"r{number}")), "n1")
        after = policy.score.raw(POD, NOW)
        assert before.tolist() == seen
        assert after[1] > before[1]
