"""Promises about compiled policies: what is refused, and the answers to each question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from policy_sched.cluster.cache import Cache
from policy_sched.cluster.tables import Scope
from policy_sched.errors import Diagnostic
from policy_sched.language.check.policy import check_policy
from policy_sched.language.compile import compile_policy
from policy_sched.language.diagnostics import (
    OrderKey,
    PolicySource,
    PreFilterRule,
    Rule,
    ScoreRule,
    Text,
    VariableSource,
)
from policy_sched.language.runtime.activation import FAILED, Activation
from policy_sched.language.sections import CompiledPolicy
from policy_sched.language.values.intervals import Interval
from policy_sched.language.values.limits import KINDS, RuleError
from policy_sched.model.pod_info import PodInfo, QueuedPod
from policy_sched.plugins.rules.bound_policy import BoundPolicy, bind
from policy_sched.testing import make_node, make_pod
from tests.language.rule_files import documents

NOW = Activation()


def attempt(**sections: Any) -> tuple[CompiledPolicy | None, list[Diagnostic]]:
    """Check and compile a policy; the checker has nothing to say."""
    checked, problems = check_policy(PolicySource("Test", **sections))
    assert checked is not None, problems
    return compile_policy(checked)


def policy(**sections: Any) -> CompiledPolicy:
    """Return a policy that compiles."""
    compiled, problems = attempt(**sections)
    assert compiled is not None, problems
    return compiled


def codes_of(**sections: Any) -> list[str]:
    """Return the codes of what is refused."""
    return [d.code for d in attempt(**sections)[1]]


def cluster(labels: Sequence[Mapping[str, str]]) -> Cache:
    """Return nodes n0, n1, ... with labels."""
    cache = Cache()
    for i, given in enumerate(labels):
        cache.add_node(make_node(f"n{i}", labels=dict(given)))
    return cache


RACKS: tuple[dict[str, str], ...] = ({"rack": "a"}, {"rack": "b"}, {})
POD = PodInfo.of(make_pod("p", labels={"app": "web"}))


def bound(cache: Cache, **sections: Any) -> BoundPolicy:
    """Return a policy over a cluster."""
    return bind(policy(**sections), cache.nodes, cache.pods)


def gate_text(policy: BoundPolicy) -> str:
    """Why the pod may not enter the queue."""
    refusal = policy.pre_enqueue(POD, NOW)
    assert refusal is not None
    return refusal.text


def rule(text: str, **more: Any) -> tuple[Rule[Text], ...]:
    """Return the rules of a section with one rule."""
    return (Rule(Text(text), **more),)


class TestProofs:
    """What is refused before anything runs, and what is proved."""

    def test_a_score_outside_of_bounds_is_refused(self) -> None:
        """The message says the range that was inferred."""
        _, problems = attempt(score=ScoreRule(Text("node.podCount")))
        assert [p.code for p in problems] == ["PS321"]
        assert "[0, 2147483647]" in problems[0].message

    def test_a_normalizer_needs_no_proof(self) -> None:
        """Raw scores of any size may be normalised, by Max only if they are not negative."""
        good = ScoreRule(Text("node.podCount"), normalize="Max")
        assert policy(score=good).sections.score.normalizer == "Max"
        bad = ScoreRule(Text("0 - node.podCount"), normalize="MaxReverse")
        assert codes_of(score=bad) == ["PS323"]
        assert policy(score=ScoreRule(Text("0 - node.podCount"), normalize="MinMax")).sections.score

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("clamp(node.podCount * 7, 10, 90)", Interval(10, 90)),
            ("node.podCount > 100 ? 0 : node.podCount", Interval(0, 100)),
            ("int(min(1.0, double(node.podCount) / 7.0) * 100.0)", Interval(0, 100)),
            ('node.labels[?"rack"] == optional.of("a") ? 100 : 40', Interval(40, 100)),
            ("[percent(node.podCount, 9), 50].weightedMean([1, 3])", Interval(0, 100)),
        ],
    )
    def test_ranges_that_are_proved(self, text: str, found: Interval) -> None:
        """Guards, clamps, shares and means keep a score within bounds."""
        assert policy(score=ScoreRule(Text(text))).sections.score.range == found

    def test_a_sign_guards_a_quantity(self) -> None:
        """Where the sign is positive, so is the amount: no zero divisor, no NaN."""
        text = (
            'node.allocatable["cpu"].sign() > 0'
            ' ? int(min(1.0, node.requested["cpu"] / node.allocatable["cpu"]) * 100.0) : 0'
        )
        assert policy(score=ScoreRule(Text(text))).sections.score.range == Interval(0, 100)

    def test_a_resource_name_of_each_node_is_refused(self) -> None:
        """A column has one name; one that differs from node to node is PS211."""
        assert codes_of(filter=rule("node.free[node.name].units() > 0")) == ["PS211"]

    def test_all_problems_are_reported(self) -> None:
        """Every section's problems come at once."""
        found = codes_of(
            filter=rule('node.free[node.name] > quantity("1")'),
            score=ScoreRule(Text("node.podCount + 1")),
        )
        assert set(found) == {"PS321", "PS211"}


class TestReads:
    """What a policy reads, from which signatures and events follow."""

    def test_a_label_of_the_pod_is_read_alone_and_iterating_reads_all(self) -> None:
        """One label is read as that label, iterating reads them all."""
        one = policy(filter=rule('pod.labels[?"app"].orValue("") == node.name'))
        assert one.reads.pod == {("labels", "app")}
        every = policy(filter=rule("pod.labels.exists(k, k == node.name)"))
        assert every.reads.pod == {("labels",)}

    @pytest.mark.parametrize(
        ("text", "scope", "node"),
        [
            ("node.unschedulable", Scope.STATIC, {"unschedulable"}),
            ('node.free["cpu"].units() > 0', Scope.NODE, {"free"}),
            ("node.pods.size() > 0", Scope.NODE, {"podCount"}),
            ('domain("rack").podCount > 0', Scope.CLUSTER, {"domain", "labels"}),
            ("now > node.creationTime", Scope.VOLATILE, {"creationTime"}),
        ],
    )
    def test_what_a_rule_reads_of_nodes_has_a_scope(
        self, text: str, scope: Scope, node: set[str]
    ) -> None:
        """The scope says how far a change can reach."""
        found = policy(filter=rule(text))
        assert found.filter_reads.scope is scope
        assert found.reads.node >= node


class TestFilter:
    """Verdicts over all rows, over some, and why."""

    def test_no_codes_where_all_pass(self) -> None:
        """A rule that holds everywhere costs no array."""
        assert (
            bound(cluster(RACKS), filter=rule('pod.name == "p"')).filters().codes(POD, NOW) is None
        )

    def test_codes_name_the_first_failing_rule(self) -> None:
        """2i+1 is a rejection by rule i, 2i+2 an error in it; earlier rules come first."""
        rules = (*rule('node.name != "n0"'), *rule('node.labels["rack"] == "a"'))
        found = bound(cluster(RACKS), filter=rules).filters().codes(POD, NOW)
        assert found is not None
        assert found.tolist() == [1, 3, 4]

    def test_few_rows_give_what_all_rows_give(self) -> None:
        """The scalar function and the vector function agree, whatever rows are asked."""
        rules = (*rule('node.name != "n0"'), *rule('node.labels["rack"] == "a"'))
        asked = bound(cluster(RACKS * 5), filter=rules)
        whole = asked.filters().codes(POD, NOW)
        assert whole is not None
        for rows in ([2], [0, 1, 2], list(range(14, -1, -1))):
            some = asked.filters().codes(POD, NOW, np.array(rows, dtype=np.intp))
            assert some is not None
            assert some.tolist() == whole[rows].tolist()

    def test_errors_by_on_error(self) -> None:
        """Allow passes a failing rule, Reject rejects with a message, Abort ends the attempt."""
        text, cache = 'node.labels["rack"] == "a"', cluster(RACKS)
        allowing = bound(cache, filter=rule(text, on_error="Allow")).filters().codes(POD, NOW)
        assert allowing is not None
        assert allowing.tolist() == [0, 1, 0]
        rejecting = bound(cache, filter=rule(text))
        (why,) = rejecting.filters().explain(POD, NOW, np.array([2]), np.array([2], dtype=np.int16))
        assert why.reasons == ("rule Test.filter[0]: no such key 'rack'",)
        assert not why.resolvable
        aborting = bound(cache, filter=rule(text, on_error="Abort"))
        codes = aborting.filters().codes(POD, NOW)
        assert codes is not None
        assert codes.tolist() == [0, 1, 2]
        assert aborting.aborting == {2}
        assert rejecting.aborting == frozenset()

    def test_messages_and_reasons_are_the_words_of_a_status(self) -> None:
        """A message, a messageExpression and reasons each give the status' words."""
        cache = cluster(RACKS)
        rows, codes = np.array([0, 1]), np.array([1, 1], dtype=np.int16)
        plain = bound(cache, filter=rule("node.unschedulable", message="m", resolvable=False))
        assert [e.reasons for e in plain.filters().explain(POD, NOW, rows, codes)] == [
            ("m",),
            ("m",),
        ]
        told = bound(
            cache, filter=rule("node.unschedulable", message_expression=Text('"no " + node.name'))
        )
        assert [e.reasons for e in told.filters().explain(POD, NOW, rows, codes)] == [
            ("no n0",),
            ("no n1",),
        ]
        listed = bound(
            cache,
            filter=rule(
                "node.unschedulable",
                reasons=Text('(node.name == "n0" ? ["x"] : []) + ["y"]'),
                resolvable=Text('node.name == "n0"'),
            ),
        )
        found = listed.filters().explain(POD, NOW, rows, codes)
        assert [(e.reasons, e.resolvable) for e in found] == [(("x", "y"), True), (("y",), False)]

    def test_a_changed_table_changes_the_answer(self) -> None:
        """Columns are read again for each evaluation; a new node has its row."""
        cache = cluster(RACKS)
        asked = bound(cache, filter=rule('node.labels[?"rack"].orValue("a") == "a"'))
        first = asked.filters().codes(POD, NOW)
        assert first is not None
        assert first.tolist() == [0, 1, 0]
        for i in range(40):
            cache.add_node(make_node(f"m{i}", labels={"rack": "ab"[i % 2]}))
        cache.update_node(make_node("n1", labels={"rack": "a"}))
        second = asked.filters().codes(POD, NOW)
        assert second is not None
        assert second.tolist() == [0, 0, 0] + [0, 1] * 20


class TestScore:
    """Raw scores and their normalisation."""

    def test_a_failing_score_is_zero(self) -> None:
        """Without a normaliser at once, with one after it, and outside of its statistics."""
        text, cache = 'int(node.labels["n"])', cluster([{"n": "10"}, {"n": "5"}, {}])
        plain = bound(cache, score=ScoreRule(Text(f"clamp({text}, 0, 100)")))
        assert plain.score.raw(POD, NOW).tolist() == [10, 5, 0]
        reverse = bound(cache, score=ScoreRule(Text(f"max({text}, 1)"), normalize="MaxReverse"))
        raw = reverse.score.raw(POD, NOW)
        assert raw.tolist() == [10, 5, FAILED]
        assert reverse.score.normalize(raw).tolist() == [0, 50, 0]

    def test_few_rows_and_constants(self) -> None:
        """A score that no node changes is an array all the same."""
        asked = bound(cluster(RACKS), score=ScoreRule(Text("7")))
        assert asked.score.raw(POD, NOW).tolist() == [7, 7, 7]
        assert asked.score.raw(POD, NOW, np.array([1])).tolist() == [7]

    @pytest.mark.parametrize(
        ("name", "raw", "final"),
        [
            ("Max", [0, 0], [0, 0]),
            ("Max", [3, 7], [42, 100]),
            ("MaxReverse", [0, 0], [100, 100]),
            ("MaxReverse", [3, 7], [58, 0]),
            ("MinMax", [5, 5], [0, 0]),
            ("MinMax", [-1, 0, 2], [0, 33, 100]),
            ("MinMaxReverse", [-1, 0, 2], [100, 67, 0]),
        ],
    )
    def test_normalizers_have_kube_schedulers_formulas(
        self, name: str, raw: list[int], final: list[int]
    ) -> None:
        """The formulas are kube-scheduler's, truncation included."""
        text = "node.podCount" if name.startswith("Max") else "0 - node.podCount"
        asked = bound(cluster(RACKS), score=ScoreRule(Text(text), normalize=name))
        assert asked.score.normalize(np.array(raw, dtype=np.int64)).tolist() == final

    def test_a_normalize_expression_sees_score_and_statistics(self) -> None:
        """It sees the raw score and the statistics, and is itself proved."""
        score = ScoreRule(
            Text("node.podCount"),
            normalize=Text("scores.max == 0 ? 0 : percent(score, scores.max)"),
        )
        asked = bound(cluster(RACKS), score=score)
        assert asked.score.normalize(np.array([1, 4], dtype=np.int64)).tolist() == [25, 100]
        wild = ScoreRule(Text("node.podCount"), normalize=Text("score * 2"))
        assert codes_of(score=wild) == ["PS321"]


class TestPodLevel:
    """Questions that no node takes part in."""

    def test_a_match_condition_that_is_false_decides_before_one_that_fails(self) -> None:
        """All must hold; one that is false decides before one that fails."""
        cache = cluster(())
        holds, fails = Text('pod.name == "p"'), Text('pod.labels["x"] == "y"')
        wrong = Text('pod.name == "q"')
        assert bound(cache, match_conditions=(holds,)).matches(POD, NOW)
        assert not bound(cache, match_conditions=(fails, wrong)).matches(POD, NOW)
        with pytest.raises(RuleError, match="no such key 'x'"):
            bound(cache, match_conditions=(holds, fails)).matches(POD, NOW)
        score = ScoreRule(Text("1"), match_conditions=(wrong,))
        assert not bound(cache, score=score).matches_score(POD, NOW)

    def test_the_first_pre_enqueue_rule_that_is_false_gates_the_pod(self) -> None:
        """The first rule that is false gates, with its message; one that fails gates, too."""
        cache = cluster(())
        assert bound(cache, pre_enqueue=rule("true")).pre_enqueue(POD, NOW) is None
        gated = bound(cache, pre_enqueue=rule("pod.priority > 0", message="low"))
        assert gate_text(gated) == "low"
        told = rule("false", message_expression=Text('"not " + pod.name'))
        assert gate_text(bound(cache, pre_enqueue=told)) == "not p"
        failing = bound(cache, pre_enqueue=rule('pod.labels["x"] == "y"'))
        assert gate_text(failing) == "rule Test.preEnqueue[0]: no such key 'x'"

    def test_pods_are_queued_in_the_order_of_their_keys(self) -> None:
        """Keys sort as the policy says, strings in descending order too."""
        keys = (
            OrderKey(Text("pod.name"), order="Descending"),
            OrderKey(Text("queue.enqueuedAt")),
        )
        asked = bound(cluster(()), queue_sort=keys)
        pods = [("a", 5), ("b", 9), ("b", 2)]
        queued = [QueuedPod(PodInfo.of(make_pod(n)), enqueued_at=t) for n, t in pods]
        queued.sort(key=asked.queue_key)
        assert [(q.info.name, q.enqueued_at) for q in queued] == [("b", 2), ("b", 9), ("a", 5)]

    def test_a_list_of_node_names_limits_the_nodes_and_none_means_all(self) -> None:
        """A list names nodes, none means all of them."""
        cache = cluster(())
        named = bound(cache, pre_filter=PreFilterRule(Text('["n1", pod.name]')))
        assert named.node_names(POD, NOW) == frozenset({"n1", "p"})
        free = bound(cache, pre_filter=PreFilterRule(Text("pod.requiredNodeNames()")))
        assert free.node_names(POD, NOW) is None

    def test_a_condition_of_the_pod_spares_the_nodes(self) -> None:
        """A condition of the pod alone is evaluated without nodes."""
        text = 'pod.name == "p" || 1 / node.podCount > 0'
        assert bound(cluster(RACKS), filter=rule(text)).filters().codes(POD, NOW) is None


class TestVariables:
    """Variables are lowered once, with what is known where they are defined."""

    def test_a_guard_elsewhere_does_not_leak(self) -> None:
        """A variable that was first read under a guard is not narrowed outside of it."""
        variables = (VariableSource("share", Text("100 / node.podCount")),)
        text = "node.podCount > 0 ? clamp(variables.share, 0, 100) : clamp(variables.share, 0, 9)"
        asked = bound(cluster(RACKS), variables=variables, score=ScoreRule(Text(text)))
        assert asked.score.raw(POD, NOW).tolist() == [0, 0, 0]


RUN_TIME = documents("run_time.yaml")


class TestErrorsOfNodes:
    """Kinds of errors that happen on a node, each with its words and a rule that almost has it."""

    def outcome(self, text: str) -> str:
        """Return why a node that has nothing is rejected by a rule, "" if it passes or fails."""
        compiled = policy(filter=rule(text))
        bound = bind(compiled, cluster([{}]).nodes)
        pod, rows = PodInfo.of(make_pod()), np.array([0])
        codes = bound.filters().codes(pod, Activation(), rows)
        if codes is None or not codes[0] or codes[0] % 2:
            return ""
        return bound.filters().explain(pod, Activation(), rows, codes)[0].reasons[0]

    @pytest.mark.parametrize("entry", RUN_TIME, ids=lambda e: e["code"])
    def test_the_kind_has_its_words(self, entry: dict[str, str]) -> None:
        """The reason names rule and error; what is almost the same has none."""
        assert self.outcome(entry["fails"]) == f"rule Test.filter[0]: {entry['says']}"
        assert self.outcome(entry["passes"]) == ""

    def test_every_kind_is_shown(self) -> None:
        """The kinds are the codes from PS601 on, in their order."""
        assert [entry["code"] for entry in RUN_TIME] == [f"PS{600 + k}" for k in range(1, 8)]
        assert [e["says"].split(" '")[0] for e in RUN_TIME] == [
            k.replace("_", " ") for k in KINDS[1:]
        ]


@pytest.mark.parametrize("operator", ["&&", "||"])
def test_a_long_chain_of_conditions_is_compiled(operator: str) -> None:
    """240 conditions are within the limits; Python nests at most 200 parentheses."""
    chain = f" {operator} ".join(f'pod.labels[?"a"].orValue("") != "x{i}"' for i in range(240))
    compiled, problems = attempt(filter=(Rule(Text(chain)),), cost_limit=20_000)
    assert compiled is not None, problems
