"""Nodes that are values, affinities that are chosen at run time, totals over several nodes."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.cluster.tables import Scope
from policy_sched.language.runtime.activation import Activation
from policy_sched.language.values.limits import LimitError
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node, make_pod
from tests.language.test_compile import attempt, rule

from .harness import cache_of, checked as checked_text, compiled, rows_of
from .oracle_world import World


def terms(zone: str, weight: int) -> dict[str, Any]:
    """Return an affinity that needs a zone and would rather have rank 2."""
    wanted = {"key": "zone", "operator": "In", "values": [zone]}
    preferred = {"key": "rank", "operator": "In", "values": ["2"]}
    return {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [wanted]}]
        },
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": weight, "preference": {"matchExpressions": [preferred]}}
        ],
    }


PARAMS = {"of": {"low": terms("a", 10), "high": terms("b", 20)}, "one": terms("a", 7), "none": {}}
NODES = [
    make_node("n0", cpu="4", labels={"zone": "a", "rank": "2", "tier": "low"}),
    make_node("n1", cpu="8", labels={"zone": "b", "tier": "high"}, unschedulable=True),
    make_node("n2", cpu="0", labels={"zone": "a"}, resources={"example.com/gpu": "2"}),
]
PODS = [
    PodInfo.of(make_pod("p0", cpu="1", node_name="n0", node_selector={"zone": "b"})),
    PodInfo.of(make_pod("p1", requests={"example.com/nic": "1"}, node_name="n1")),
]
WORLD = World(NODES, PODS)
POD = PodInfo.of(
    make_pod("p", cpu="2", labels={"tier": "low"}, affinity={"nodeAffinity": terms("a", 5)})
)

CASES: dict[str, list[object]] = {
    # A node that went through a list, a map, an optional or a choice.
    "[node][0].unschedulable": [False, True, False],
    '[node].filter(n, n.labels[?"rank"].hasValue()).size()': [1, 0, 0],
    '{"a": node}["a"].name': ["n0", "n1", "n2"],
    'optional.of(node).optMap(n, n.free["cpu"].units()).orValue(0)': [3000, 8000, 0],
    "[node].last().value().podCount": [1, 1, 0],
    "[node].map(n, n.pods.size())[0]": [1, 1, 0],
    "[node][7].ready": ["index_out_of_range"] * 3,
    '(node.ready ? [node] : [])[0].pods.exists(p, p.name == "p0")': [True, False, False],
    "pod.matchesNodeAffinity([node][0])": [True, False, True],
    "pod.preferredNodeAffinity([node].last().orValue(node))": [5, 0, 0],
    "[node].exists(n, pod.matchesNodeAffinity(n))": [True, False, True],
    "[node, node].sum(n, pod.preferredNodeAffinity(n))": [10, 0, 0],
    "node.pods.exists(p, p.matchesNodeAffinity(node))": [False, True, False],
    "node.pods.sum(p, p.preferredNodeAffinity(node))": [0, 0, 0],
    "node.pods[0].matchesNodeAffinity(node)": [False, True, "index_out_of_range"],
    "{1: pod}[?2].orValue(pod).matchesNodeAffinity(node)": [True, False, True],
    # An affinity of the parameters that the pod or the node chooses.
    'node.matchesAffinity(params.of[pod.labels["tier"]])': [True, False, True],
    'node.affinityPreference(params.of[pod.labels["tier"]])': [10, 0, 0],
    'node.matchesAffinity(params.of[node.labels["tier"]])': [True, True, "no_such_key"],
    'node.affinityPreference(params.of[node.labels["tier"]])': [10, 0, "no_such_key"],
    'hasPreferredTerms(params.of[pod.labels["tier"]])': [True] * 3,
    'hasPreferredTerms(params.of[pod.labels["none"]])': ["no_such_key"] * 3,
    "[node][0].matchesAffinity(params.one)": [True, False, True],
    "[node][0].affinityPreference(params.one)": [7, 0, 0],
    "[node][0].matchesAffinity(params.none)": [True] * 3,
    "[node][0].affinityPreference(params.none)": [0] * 3,
    # Resources of all nodes, and of a domain's, as a whole.
    '"example.com/gpu" in cluster.allocatable': [True] * 3,
    '"example.com/gpu" in cluster.requested': [False] * 3,
    "cluster.requested.names()": [["cpu", "example.com/nic"]] * 3,
    "pod.requests.fitsIn(cluster.allocatable)": [True] * 3,
    'cluster.requested.fitsIn(node.free, ["example.com/nic"])': [True, True, False],
    'cluster.requested[?"other"].hasValue()': [False] * 3,
    # Arithmetic of whole resources: a quota's, where what is not named is 0.
    '(pod.requests + pod.requests)["cpu"] == pod.requests["cpu"] * 2': [True] * 3,
    "pod.requests + pod.requests == pod.requests * 2": [True] * 3,
    "(node.allocatable - node.requested).fitsIn(node.free)": [True] * 3,
    "(pod.requests - node.allocatable).fitsIn(pod.requests - pod.requests)": [True, True, False],
    "max(pod.requests, node.free) == node.free": [True, False, False],
    "min(pod.requests - node.allocatable, pod.requests * 0).names().size()": [3, 3, 4],
    "cluster.requested.fitsIn(pod.requests)": [False] * 3,
    'cluster.requested.fitsIn(pod.requests, "unlimited")': [True] * 3,
    'cluster.requested.fitsIn(pod.requests * 0, "unlimited")': [False] * 3,
    'pod.requests.fitsIn(pod.requests - pod.requests, "unlimited")': [False] * 3,
    "(node.allocatable * 9223372036854775807).names().size()": ["overflow"] * 3,
    # Folds: over known lists, over lists of the pod and of the node, inside of each other.
    "[1, 2, 3].fold(x, acc, 0, acc * 10 + x)": [123] * 3,
    "[1, 2, 3].fold(x, acc, node.podCount, acc * 10 + x)": [1123, 1123, 123],
    "[].fold(x, acc, 7, acc + 1)": [7] * 3,
    '["a", "b"].fold(t, acc, node.name, acc + t)': ["n0ab", "n1ab", "n2ab"],
    "[1, 2, 3].filter(x, x > node.podCount).fold(x, acc, 1, acc * (x + node.podCount))": [
        12,
        12,
        6,
    ],
    "node.pods.fold(p, acc, 1.5, acc + double(p.priority) + 1.0)": [2.5, 2.5, 1.5],
    "node.pods.fold(p, acc, true, acc && p.priority > 0)": [False, False, True],
    'pod.labels.fold(k, acc, "", acc + k)': ["tier"] * 3,
    "pod.containers.fold(c, acc, node.free, acc - c.requests).fitsIn(node.free)": [True] * 3,
    'pod.containers.fold(c, acc, node.free, acc - c.requests)["cpu"].milli()': [1000, 6000, -2000],
    "pod.containers.fold(c, acc, optional.of(node.podCount), acc.optMap(n, n + 5)).orValue(-1)": [
        6,
        6,
        5,
    ],
    "pod.containers.fold(c, acc, optional.of([node.free, node.free]), acc.optFlatMap(zs, "
    "lists.range(zs.size()).filter(i, c.requests.fitsIn(zs[i])).first().optMap("
    "i, zs.with(i, zs[i] - c.requests)))).hasValue()": [True, True, False],
    'pod.containers.fold(c, acc, quantity("1"), acc + c.requests["cpu"]).milli()': [3000] * 3,
    "lists.range(node.podCount + 2).fold(i, acc, 0, "
    "acc + lists.range(i).fold(j, a, 1, a * 2 + j))": [8, 8, 3],
    "node.pods.fold(p, acc, 9223372036854775807, acc + 1)": ["overflow", "overflow", 2**63 - 1],
    "node.pods.fold(p, acc, 1, 7 / acc - 7)": [0, 0, 1],
    "[node.podCount, 1].fold(x, acc, 7, acc / x)": [7, 7, "divide_by_zero"],
    "cel.bind(l, node.pods.filter(p, p.priority >= 0), "
    "l.fold(p, a, 0, a + 1) + l.fold(p, a, 0, a - 2))": [-1, -1, 0],
    "[1, 2].map(y, node.pods.fold(p, a, y, a * 3)).sum()": [9, 9, 3],
    "[3, 1, 2].transformList(i, v, i * v).fold(x, acc, node.podCount, acc * 2 + x)": [14, 14, 6],
    "node.pods.transformList(i, p, i + 4).fold(x, acc, 1, acc * 2 + x)": [6, 6, 1],
    # Lists with another element, sets of positions, maps and resources of lists.
    "[1, 2, 3].with(node.podCount, 9)": [[1, 9, 3], [1, 9, 3], [9, 2, 3]],
    "[1, 2, 3].with(node.podCount * 3, 9)": ["index_out_of_range"] * 2 + [[9, 2, 3]],
    "[1].with(-1, 9)": ["index_out_of_range"] * 3,
    "lists.subsets(node.podCount + 1, 2).size()": [3, 3, 1],
    "lists.subsets(node.podCount * 9, 2)": ["index_out_of_range"] * 2 + [[]],
    "lists.subsets(3, 2)": [[[0], [1], [2], [0, 1], [0, 2], [1, 2]]] * 3,
    "node.pods.by(p, p.name).size()": [1, 1, 0],
    '["a", "bb", "cc"].by(t, t.size())[2]': ["bb"] * 3,
    'node.pods.by(p, p.name)["p0"].priority': [0, "no_such_key", "no_such_key"],
    'node.pods.resources(p, "cpu", quantity("1500m"))["cpu"].milli()': [1500, 1500, 0],
    '["cpu", "memory", "cpu"].resources(n, n, quantity("1.5"))["memory"].value()': [2] * 3,
    '["cpu", "memory", "cpu"].resources(n, n, quantity("1.5"))["cpu"].milli()': [3000] * 3,
    '["cpu"].resources(n, n, quantity(node.labels["rank"])).fitsIn(node.free)': [
        True,
        "no_such_key",
        "no_such_key",
    ],
    '["cpu"].resources(n, n, quantity("9223372036854775807"))["cpu"].milli()': ["overflow"] * 3,
    'domain("zone").free.names().size()': [4, 4, 4],
    'domain("zone").requested.fitsIn(node.free)': [True, False, False],
    '"example.com/nic" in domain("zone").requested': [False, True, False],
    'domains("zone").map(d, d.allocatable.names().size()).max()': [4] * 3,
    'pod.requests.fitsIn(node.free, [node.labels["tier"]])': [True, True, "no_such_key"],
    'cluster.requested == {"": cluster.requested}[""]': [True] * 3,
    '{node.ready: domain("zone")}[true].podCount': [1, 1, 1],
}


@pytest.mark.parametrize("text", CASES)
def test_values_over_other_nodes_are_the_same_in_three_ways(text: str) -> None:
    """The three ways agree, and say what is listed: a value, or the kind of the error."""
    found = [outcome.error or outcome.value for outcome in rows_of(text, WORLD, POD, PARAMS)]
    assert found == CASES[text]


def test_values_that_are_no_affinity_are_refused() -> None:
    """A wrong affinity of the parameters refuses the rule, one that is chosen is an error."""
    _, problems = attempt(
        filter=rule("node.matchesAffinity(params.wrong)"),
        params={"wrong": {"requiredDuringSchedulingIgnoredDuringExecution": "zone a"}},
    )
    assert [p.code for p in problems] == ["PS012"]
    tree, _ = checked_text(
        'node.matchesAffinity({"requiredDuringSchedulingIgnoredDuringExecution": pod.name})'
    )
    assert tree is not None
    expression = compiled(tree)
    assert expression is not None
    bound = expression.bind(cache_of(WORLD).nodes)
    assert bound.vector(POD, Activation())[1] == [605] * 3
    assert [bound.scalar(POD, Activation(), row)[1] for row in range(3)] == [605] * 3


def test_a_node_that_is_a_value_is_read_as_a_whole() -> None:
    """Its read set is all fields of the node, and what runs on it."""
    tree, _ = checked_text('{"a": node}["a"].unschedulable')
    assert tree is not None
    expression = compiled(tree)
    assert expression is not None
    assert {"unschedulable", "labels", "pods", "free"} <= expression.reads.node
    assert expression.reads.scope is Scope.NODE


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("node.pods.fold(p, acc)", "PS107", "fold() does not take 2 arguments"),
        ("node.pods.fold(p, p, 1, 1)", "PS108", "both variables are called `p`"),
        (
            'node.pods.fold(p, acc, 1, "a")',
            "PS203",
            "the value of fold(): expected int, found string",
        ),
        ("node.name.fold(p, acc, 1, 1)", "PS206", "fold() needs a list or map, found string"),
        (
            "node.pods.by(p, p.labels)",
            "PS203",
            "by() needs string or int or bool, found map(string, string)",
        ),
        ("pod.labels.by(k, k)", "PS206", "by() needs a list, found map(string, string)"),
        (
            'node.pods.resources(p, p.name, p.requests["cpu"])',
            "PS203",
            "resources() takes no amount of a resource, which has a unit already",
        ),
        ('pod.requests.fitsIn(node.free, "free")', "PS012", '"free" is not "unlimited"'),
        (
            "pod.requests.fitsIn(node.free, pod.name)",
            "PS012",
            "what fitsIn takes for resources that are not named must be a constant text",
        ),
    ],
)
def test_what_gathers_elements_is_checked(text: str, code: str, message: str) -> None:
    """A macro's arguments have the types that it needs, and the mistake is told in words."""
    tree, problems = checked_text(text)
    assert tree is None or problems
    assert [(p.code, p.message) for p in problems] == [(code, message)]


@pytest.mark.parametrize("first", ['"ab"', "[1]"])
def test_an_accumulator_that_doubles_ends_in_an_error(first: str) -> None:
    """A text or list that each step doubles would fill the memory within 40 steps."""
    tree, _ = checked_text(f"node.pods.fold(p, acc, {first}, acc + acc).size()")
    assert tree is not None
    expression = compiled(tree)
    assert expression is not None
    pods = [PodInfo.of(make_pod(f"p{i}", node_name="n0")) for i in range(60)]
    bound = expression.bind(cache_of(World(NODES, pods)).nodes)
    with pytest.raises(LimitError, match="it makes a"):
        bound.scalar(POD, Activation(), 0)
    with pytest.raises(LimitError, match="it makes a"):
        bound.vector(POD, Activation())
