"""Running scenarios: what is observed of a decision, and what becomes of the cluster."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policy_sched.errors import PolicyError
from policy_sched.policytest.comparison import Deviation
from policy_sched.policytest.report import ScenarioReport, StepResult
from policy_sched.policytest.runner import run_files, run_scenario
from policy_sched.policytest.scenario import load_scenarios

TWO_NODES = """\
name: two nodes
objects:
- {node: n1, cpu: 2}
- {node: n2, cpu: 4}
- {node: n3, taints: ["a=b:NoSchedule"]}
pending:
- {pod: a, cpu: 2}
- {pod: b, cpu: 2}
- {pod: c, cpu: 8}
- {pod: gated, gates: [hold]}
- {pod: elsewhere, schedulerName: other}
expect:
"""


def run(folder: Path, text: str) -> list[StepResult]:
    """Run the scenarios of a YAML text."""
    file = folder / "tests.yaml"
    file.write_text(text, encoding="utf-8")
    return [result for scenario in load_scenarios(str(file)) for result in run_scenario(scenario)]


def differences(folder: Path, expect: str) -> list[Deviation]:
    """Run the two nodes with an expectation; return all that differs."""
    return [d for result in run(folder, TWO_NODES + expect) for d in result.differences]


def test_what_happens_can_be_expected(tmp_path: Path) -> None:
    """Placement, rejections, scores, messages, gates: all as in this scenario."""
    results = run(
        tmp_path,
        TWO_NODES
        + """\
- pod: a
  feasible: [n1, n2]
  best: [n2]
  rejected: {n3: node(s) had untolerated taint(s)}
  scores: {n2: {plugins: {TaintToleration: 300}}}
- {pod: b, chosen: n2, feasible: [n1, n2]}
- pod: c
  chosen: null
  message: "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu."
  rejected:
    n1: {code: UnschedulableAndUnresolvable, plugin: NodeResourcesFit, reasons: [Insufficient cpu]}
- {pod: gated, preEnqueue: "waiting for scheduling gates: [hold]"}
- {pod: elsewhere, message: no profile has schedulerName "other"}
""",
    )
    assert [result.differences for result in results] == [()] * 5


def test_the_pod_is_assumed_where_it_is_expected(tmp_path: Path) -> None:
    """The next step sees the pod on the expected node, even if we would pick another."""
    wrong = differences(tmp_path, "- {pod: a, chosen: n1}\n- {pod: b, feasible: [n2]}\n")
    assert wrong == [Deviation("chosen", "n1", ["n2"])]


def test_a_wrong_expectation_is_shown_field_by_field(tmp_path: Path) -> None:
    """Every field that differs, with what was expected and what was got."""
    wrong = differences(
        tmp_path, "- {pod: c, message: fits, rejected: {n1: full}, preEnqueue: gated}\n"
    )
    assert [(d.field, d.expected) for d in wrong] == [
        ("preEnqueue", "gated"),
        ("rejected.n1.reasons", ["full"]),
        ("message", "fits"),
    ]


def test_a_record_that_was_changed_is_found(tmp_path: Path) -> None:
    """One score in one step of a recorded scenario, off by one, is one difference."""
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    plugins = {"ImageLocality": 0, "NodeResourcesFit": 97, "TaintToleration": 300}
    step = {
        "pod": "default/a",
        "feasible": ["n1"],
        "scores": {"n1": {"total": 397, "plugins": plugins}},
        "best": ["n1"],
        "chosen": "n1",
    }
    record = {"name": "r", "objects": [node], "pending": [pod], "expect": [step]}
    file = tmp_path / "a.jsonl"
    found = []
    for fit in (97, 98):
        plugins["NodeResourcesFit"] = fit
        file.write_text(json.dumps(record), encoding="utf-8")
        (scenario,) = load_scenarios(str(file))
        found += [d for result in run_scenario(scenario) for d in result.differences]
    assert found == [Deviation("scores.n1.plugins.NodeResourcesFit", 98, 97)]


def test_a_policy_beside_the_test_takes_part(tmp_path: Path) -> None:
    """Without a configuration a scenario's policies are enabled after the default plugins."""
    (tmp_path / "policy.yaml").write_text(
        "apiVersion: policysched.dev/v1alpha1\n"
        "kind: Policy\n"
        "metadata: {name: OddNodes}\n"
        "spec:\n"
        "  filter:\n"
        "  - {expression: node.name != 'n1', message: even, resolvable: false}\n"
        "  score: {expression: '7'}\n",
        encoding="utf-8",
    )
    results = run(
        tmp_path,
        "{name: x, policies: [policy.yaml], objects: [{node: n1}, {node: n2}], pending: [a], "
        "expect: [{pod: a, chosen: n2, rejected: {n1: {code: UnschedulableAndUnresolvable, "
        "plugin: OddNodes, reasons: [even]}}, scores: {n2: {plugins: {OddNodes: 7}}}}]}",
    )
    assert [result.differences for result in results] == [()]


def test_a_broken_policy_is_reported_with_its_place(tmp_path: Path) -> None:
    """The scenario is not run, and nothing is guessed."""
    (tmp_path / "policy.yaml").write_text(
        "apiVersion: policysched.dev/v1alpha1\nkind: Policy\n", encoding="utf-8"
    )
    with pytest.raises(PolicyError) as raised:
        run(tmp_path, "{name: x, policies: [policy.yaml], pending: [a], expect: [{pod: a}]}")
    assert raised.value.diagnostics[0].file == str(tmp_path / "policy.yaml")


def test_what_only_people_state(tmp_path: Path) -> None:
    """Ranges, orders, patterns, rules, victims and nodes to stay off: all as it happens."""
    results = run(
        tmp_path,
        TWO_NODES
        + """\
- pod: a
  notOn: [n1, n3]
  order: [n2, n1]
  scores: {n1: {min: 100, max: 500}, n2: {plugins: {TaintToleration: {min: 300}}}}
  rejected: {n3: {rule: "filter[0]", reasons: {matches: taint}}}
  victims: []
- pod: c
  message: {matches: "^0/3 .*cpu"}
  rejected: {n3: {rule: "TaintToleration.filter[0]"}}
""",
    )
    assert [result.differences for result in results] == [()] * 2


def test_what_only_people_state_and_is_not_so(tmp_path: Path) -> None:
    """Each of them is shown with what happened instead."""
    wrong = differences(
        tmp_path,
        """\
- pod: a
  notOn: n2
  order: [[n1, n2]]
  scores: {n1: {min: 500}}
  rejected: {n3: {rule: "filter[1]", reasons: {matches: cpu}}}
  victims: [c]
- {pod: c, message: {matches: fits}}
""",
    )
    assert [(d.field, d.expected, d.got) for d in wrong[:-1]] == [
        ("rejected.n3.reasons", ["matches cpu"], ["node(s) had untolerated taint(s)"]),
        ("rejected.n3.rule", "filter[1]", "TaintToleration.filter[0]"),
        ("scores.n1.total", "at least 500", 399),
        ("notOn", "none of n2", ["n2"]),
        ("order", ["n1 = n2"], ["n2", "n1"]),
        ("victims", ["default/c"], []),
    ]
    assert wrong[-1].expected == "matches fits"


def test_limits_and_patterns_that_cannot_be_are_refused(tmp_path: Path) -> None:
    """Where they stand, and all at once."""
    scores = "{n1: {min: 5, max: 4}, n2: {total: {}}}"
    with pytest.raises(PolicyError) as raised:
        run(tmp_path, TWO_NODES + f'- {{pod: a, message: {{matches: "a("}}, scores: {scores}}}\n')
    assert [(d.line, d.code) for d in raised.value.diagnostics] == [(13, "PS705")] * 3


EVENTS = """\
apiVersion: policysched.dev/v1alpha1
kind: PolicyTest
name: events
objects: [{node: n1, cpu: 4}, {pod: low, node: n1, cpu: 4, priority: 1}]
pending: [{pod: high, cpu: 4, priority: 100}, {pod: small, cpu: 1}]
"""


def test_events_happen_in_their_order(tmp_path: Path) -> None:
    """A test could not say that a victim goes between two attempts of a pod."""
    text = """\
ops: [{decide: high}, {decide: small}, {delete: low}, {decide: small}, {decide: high},
  {decide: small}, {delete: high}, {decide: small}]
expect:
- {pod: small, chosen: null, nominated: ""}
- {pod: high, chosen: null, nominated: n1, victims: [low]}
- {pod: small, chosen: null}
- {pod: high, chosen: n1}
- {pod: small, rejected: {n1: Insufficient cpu}}
- {pod: small, chosen: n1}
"""
    results = run(tmp_path, EVENTS + text)
    assert [result.differences for result in results] == [()] * 6
    assert results[1].pod == "default/small"
    assert results[-1].pod == "default/small (decision 4)"


HOLDS = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Holds}
spec: {permit: {allow: "podGroup.waiting >= 2", timeout: 10s}}
"""


def test_a_waiting_pod_is_decided_again_and_deleted(tmp_path: Path) -> None:
    """A pod that waits, decided again, ended `test` for all files; deleted, it kept its node."""
    (tmp_path / "holds.yaml").write_text(HOLDS, encoding="utf-8")
    text = """\
name: waits
policies: [holds.yaml]
objects: [{node: n1, cpu: 2}]
pending: [{pod: a, cpu: 2}, {pod: b, cpu: 2}]
ops: [{decide: a}, {decide: b}, {decide: a}, {delete: a}, {decide: b}]
expect:
- {pod: a, chosen: n1, permit: {code: Wait}}
- {pod: b, chosen: null}
- {pod: a, chosen: n1}
- {pod: b, chosen: n1}
"""
    results = run(tmp_path, text)
    assert [result.differences for result in results] == [()] * 4


def test_a_group_that_one_pod_leaves_gives_its_nodes_back(tmp_path: Path) -> None:
    """Pods that waited for a pod that was deleted kept their nodes in the steps that follow."""
    (tmp_path / "holds.yaml").write_text(HOLDS, encoding="utf-8")
    text = """\
name: a group
policies: [holds.yaml]
objects: [{node: n1, cpu: 2}]
pending:
- {pod: a, cpu: 1, labels: {scheduling.x-k8s.io/pod-group: g}}
- {pod: b, cpu: 1, labels: {scheduling.x-k8s.io/pod-group: g}}
- {pod: c, cpu: 2}
ops: [{decide: a}, {decide: b}, {decide: c}, {delete: a}, {decide: c}]
expect:
- {pod: a, chosen: n1}
- {pod: b, chosen: n1}
- {pod: c, chosen: null}
- {pod: c, chosen: n1}
"""
    results = run(tmp_path, text)
    assert [result.differences for result in results] == [()] * 4


def test_no_preemption_can_be_expected(tmp_path: Path) -> None:
    """`preemption: []` differed from every outcome, also from one without preemption."""
    assert not differences(tmp_path, "- {pod: c, preemption: []}\n")
    stated = "expect: [{pod: high, preemption: []}]\n"
    (result,) = run(tmp_path, EVENTS + stated)
    assert [(d.field, d.got) for d in result.differences] == [("preemption", ["n1: default/low"])]


def test_events_that_cannot_be_are_refused(tmp_path: Path) -> None:
    """All at once, each where it stands."""
    text = """\
ops: [{decide: low}, {delete: nobody}, {decide: high, delete: low}, {decide: small}, {again: a}]
expect: [{pod: small}, {pod: small}, {pod: high}]
"""
    with pytest.raises(PolicyError) as raised:
        run(tmp_path, EVENTS + text)
    found = [(d.line, d.column, d.message) for d in raised.value.diagnostics]
    assert found == [
        (6, 16, "default/low is not pending"),
        (6, 31, "there is no pod default/nobody"),
        (6, 40, "an operation has one key: decide, delete, order or evict"),
        (6, 87, 'unknown field "ops[4].again"'),
        (7, 30, "default/small is expected twice"),
        (7, 44, "default/high is expected and never decided"),
    ]


def test_a_node_expected_for_a_pod_of_no_profile_differs(tmp_path: Path) -> None:
    """`chosen` for a pod whose schedulerName no profile has ended `test` with a traceback."""
    (found,) = differences(tmp_path, "- {pod: elsewhere, chosen: n1}\n")
    assert (found.field, found.expected, found.got) == ("chosen", "n1", [])


def test_an_impossible_sequence_is_a_problem_of_its_line(tmp_path: Path) -> None:
    """A sequence that adds a pod twice ended the whole run, without its file and line."""
    ops = [{"op": "add", "millis": 1, "after": {}, "pod": {"name": "a"}}]
    ops += [{"op": "pop", "millis": 2, "after": {"inFlight": ["a"], "popped": "a"}}]
    again = {"op": "fail", "name": "a", "millis": 3, "after": {}}
    broken = {"name": "odd", "ops": [*ops, again, again]}
    file = tmp_path / "queue.jsonl"
    file.write_text(f"\n{json.dumps(broken)}\n{json.dumps({'name': 'good', 'ops': ops[:1]})}\n")
    found = run_files([str(file)])
    assert [(one.line, one.message.partition(":")[0]) for one in found.problems] == [(2, "odd")]
    assert [result.scenario for result in found.results] == ["good"]


QUEUE = """\
name: a queue
objects:
- {node: n1, cpu: 8}
pending:
- {pod: late, created: 2026-01-01T00:00:09Z}
- {pod: team-a/early, created: 2026-01-01T00:00:01Z}
- {pod: as-early, created: 2026-01-01T00:00:01Z}
- {pod: urgent, priority: 10}
- {pod: gated, gates: [hold]}
"""


def test_the_order_of_the_queue_can_be_expected(tmp_path: Path) -> None:
    """No test could state the order of the queue: at the start, before a pod, and when it is asked.

    Others may stand between the pods that are named; a pod with a node and a gated one do not wait.
    """
    results = run(
        tmp_path,
        QUEUE
        + """\
ops:
- {order: true}
- {decide: urgent}
- {decide: late}
- {delete: as-early}
- {order: true}
expect:
- queue: [urgent, [as-early, team-a/early], late]
- {pod: urgent, queue: [urgent, late]}
- {pod: late, queue: [as-early, late], chosen: n1}
- queue: [team-a/early]
""",
    )
    assert [(result.pod, result.differences) for result in results] == [
        ("queue", ()),
        ("default/urgent", ()),
        ("default/late", ()),
        ("queue (order 2)", ()),
    ]


def test_another_order_of_the_queue_is_shown(tmp_path: Path) -> None:
    """Each place of the order, equals together, and without those that do not wait."""
    text = """\
expect:
- queue: [late, as-early, team-a/early]
- {pod: late, queue: [urgent, late, gated]}
"""
    report = ScenarioReport(run(tmp_path, QUEUE + text))
    assert [line.strip() for line in report.text_lines()][1:-2] == [
        "queue",
        "queue",
        "expected default/late, default/as-early, team-a/early",
        "got      default/as-early = team-a/early, default/late",
        "default/late",
        "queue",
        "expected default/urgent, default/late, default/gated",
        "got      default/urgent, default/late",
    ]


def test_orders_of_the_queue_that_cannot_be_are_refused(tmp_path: Path) -> None:
    """Pods that are not there, stand twice or have no step, and an order that nothing looks at."""
    text = """\
ops:
- {decide: late}
- {order: false}
expect:
- {queue: [late], chosen: n1}
- {queue: [late, [urgent, late]]}
- {queue: [urgnt]}
- {pod: late, raw: {n1: 3}}
"""
    file = tmp_path / "tests.yaml"
    file.write_text(QUEUE + text, encoding="utf-8")
    with pytest.raises(PolicyError) as caught:
        load_scenarios(str(file))
    assert [(d.line, d.message, d.hint) for d in caught.value.diagnostics] == [
        (12, "order: true looks at the queue", ""),
        (14, '"chosen" is stated of no pod', "add pod: NAME"),
        (
            15,
            "the order of the queue is stated more often than it is looked at",
            "an operation {order: true} looks at it",
        ),
        (15, "default/late stands in the queue more than once", ""),
        (
            16,
            "the order of the queue is stated more often than it is looked at",
            "an operation {order: true} looks at it",
        ),
        (17, '"plugin" is missing', "plugin: NAME, beside expect, says whose scores these are"),
    ]


def test_scores_before_normalisation_can_be_expected(tmp_path: Path) -> None:
    """Only scores after normalisation could be stated, which hide what a rule computes."""
    (tmp_path / "policy.yaml").write_text(
        """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Raw}
spec:
  score: {expression: node.podCount + 7, normalize: MinMax}
""",
        encoding="utf-8",
    )
    text = """\
name: raw
plugin: Raw
policies: [policy.yaml]
objects: [{node: n1}, {node: n2}, {pod: old, node: n2}]
pending: [a]
expect:
- {pod: a, raw: {n1: 7, n2: 7}, scores: {n2: {plugins: {Raw: 100}}}}
"""
    (result,) = run(tmp_path, text)
    assert result.differences == (Deviation("raw.n2", "7", "8"),)


def test_pods_that_no_longer_wait_can_be_expected(tmp_path: Path) -> None:
    """What the last pod of a group does to those that wait for it could not be stated."""
    (tmp_path / "holds.yaml").write_text(
        HOLDS.replace("podGroup.waiting >= 2", "podGroup.scheduled + podGroup.waiting >= 1"),
        encoding="utf-8",
    )
    group = "labels: {scheduling.x-k8s.io/pod-group: g}"
    text = f"""\
name: a group
policies: [holds.yaml]
objects: [{{node: n1, cpu: 2}}]
pending:
- {{pod: a, cpu: 1, {group}}}
- {{pod: b, cpu: 1, {group}}}
expect:
- {{pod: a, permit: {{code: Wait}}, allowed: []}}
- {{pod: b, permit: {{code: Success}}, allowed: [a], rejectedWaiting: [a]}}
"""
    first, second = run(tmp_path, text)
    assert first.differences == ()
    assert second.differences == (Deviation("rejectedWaiting", ["default/a"], []),)


def test_a_group_that_gives_up_and_whom_it_brings_can_be_expected(tmp_path: Path) -> None:
    """Which pods a waiting pod has tried, and who is sent back by whom, could not be stated."""
    rules = HOLDS.replace(
        "timeout: 10s",
        "timeout: 10s, reject: 'podGroup.failures > 0', rejectMessage: one has no room,"
        " activate: podGroup.waiting == 0",
    )
    (tmp_path / "holds.yaml").write_text(rules, encoding="utf-8")
    pods = "\n".join(
        f"- {{pod: {name}, cpu: {cpu}, labels: {{scheduling.x-k8s.io/pod-group: g}}}}"
        for name, cpu in (("a", 1), ("b", 1), ("c", 9))
    )
    text = f"""\
name: a group
policies: [holds.yaml]
objects: [{{node: n1, cpu: 2}}]
pending:
{pods}
expect:
- {{pod: a, permit: {{code: Wait}}, activates: [b]}}
- {{pod: b, permit: {{code: Wait}}, activates: []}}
- {{pod: c, rejectedWaiting: {{a: one has no room, b: one has no room}}}}
"""
    first, second, third = run(tmp_path, text)
    assert first.differences == (Deviation("activates", ["default/b"], ["default/b", "default/c"]),)
    assert second.differences == third.differences == ()


EVICTING = """\
name: turns
policies: [turns.yaml]
config:
  apiVersion: kubescheduler.config.k8s.io/v1
  kind: KubeSchedulerConfiguration
  profiles: [{plugins: {multiPoint: {enabled: [{name: Turns}]}}}]
objects: [{node: n1, cpu: 4}, {pod: a/x, node: n1}, {pod: a/y, node: n1}, {pod: b/z, node: n1}]
pending: [{pod: a/late, cpu: 1}]
"""
TURNS = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Turns}
spec: {evict: {every: 1m, victim: pod.namespace == "a", most: 2}}
"""


def test_running_pods_that_a_policy_evicts(tmp_path: Path) -> None:
    """They are gone at the next step, and a pod that was placed since counts."""
    (tmp_path / "turns.yaml").write_text(TURNS, encoding="utf-8")
    text = """\
ops: [{evict: true}, {decide: a/late}, {evict: true}, {evict: true}]
expect: [{evicted: [a/x]}, {pod: a/late, chosen: n1}, {evicted: [a/late]}, {evicted: []}]
"""
    found = run(tmp_path, EVICTING + text)
    assert [[(d.field, d.expected, d.got) for d in one.differences] for one in found] == [
        [("evicted", ["a/x"], ["a/x", "a/y"])],
        [],
        [],
        [],
    ]


def test_evictions_that_cannot_be_stated(tmp_path: Path) -> None:
    """All at once, each where it stands."""
    (tmp_path / "turns.yaml").write_text(TURNS, encoding="utf-8")
    text = "ops: [{evict: 3}]\nexpect: [{evicted: [], chosen: n1}, {evicted: []}]\n"
    with pytest.raises(PolicyError) as raised:
        run(tmp_path, EVICTING + text)
    said = [d.message for d in raised.value.diagnostics]
    assert said == [
        "ops[0].evict: expected true or false, found an integer",
        '"chosen" is stated of no pod',
        "evictions are stated more often than the running pods are looked at",
    ]
