"""Rules that read aggregates: decisions, dry runs, nominations, wake-ups, reloads, and mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from policy_sched.client.memory import MemoryClient
from policy_sched.cluster.tables import aggregates
from policy_sched.explain.explain import explain
from policy_sched.language.check.policy import check_policy
from policy_sched.model.pod_info import PodInfo, QueueState
from policy_sched.profiles.check.check import check_files
from policy_sched.profiles.load.load import load_policies
from policy_sched.profiles.load.policy_source import policy_source
from policy_sched.scheduler import event_handlers
from policy_sched.scheduler.scheduler import Outcome
from policy_sched.scheduler.setup.factory import build, read
from policy_sched.scheduler.setup.profiles import Assembly
from policy_sched.testing import FakeClock, make_node, make_pod

HEAD = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: Team}\nspec:\n"
USED = "  aggregates:\n  - {name: used, by: pod.namespace, sum: pod.requests}\n"
LIMIT = (
    HEAD
    + USED
    + """  preFilter:
    rules:
    - expression: aggregates.used[pod.namespace]["cpu"] + pod.requests["cpu"] <= quantity("4")
      message: the team's limit is reached
"""
)
REASON = "the team's limit is reached"


class Cluster:
    """A scheduler with one policy and three nodes of eight cores."""

    def __init__(self, folder: Path, policy: str) -> None:
        path = folder / "policy.yaml"
        path.write_text(policy)
        self.client = MemoryClient()
        self.scheduler = build(None, [str(path)], client=self.client, now=FakeClock())
        for name in ("n1", "n2", "n3"):
            node = make_node(name, cpu="8", labels={"zone": name})
            event_handlers.node_seen(self.scheduler, node)

    def decide(self, name: str, **spec: Any) -> Outcome:
        """Schedule a pod."""
        self.scheduler.add_pod(PodInfo.of(make_pod(name, **spec)))
        outcome = self.scheduler.schedule_one()
        assert outcome is not None
        return outcome

    def run(self, name: str, node: str, **spec: Any) -> PodInfo:
        """A pod runs on a node."""
        pod = PodInfo.of(make_pod(name, node_name=node, **spec))
        event_handlers.pod_seen(self.scheduler, pod)
        return pod


def test_a_rule_about_the_pod_alone_rejects_it_before_nodes_are_looked_at(tmp_path: Path) -> None:
    """A team's limit was a rule about each of 5,000 nodes."""
    cluster = Cluster(tmp_path, LIMIT)
    cluster.run("a", "n1", cpu="2", namespace="x")
    cluster.run("b", "lost", cpu="1", namespace="x")
    assert cluster.decide("c", cpu="1", namespace="x").node
    outcome = cluster.decide("d", cpu="1", namespace="x")
    assert outcome.message.startswith(f"0/3 nodes are available: {REASON}.")
    assert cluster.decide("e", cpu="4", namespace="y").node


def test_a_rule_about_the_pod_and_the_time_is_asked_each_time(tmp_path: Path) -> None:
    """What was found of the nodes for a pod that was rejected would be used for the next one."""
    rule = "{expression: now.getHours() < 12, message: too late}"
    cluster = Cluster(tmp_path, HEAD + f"  preFilter: {{rules: [{rule}]}}\n")
    clock = cluster.scheduler.handle.now
    assert isinstance(clock, FakeClock)
    clock.ns = 13 * 3600 * 10**9
    assert not cluster.decide("a").node
    clock.ns = 24 * 3600 * 10**9
    assert cluster.decide("b").node


def test_a_pod_of_the_team_that_goes_wakes_those_that_wait(tmp_path: Path) -> None:
    """The policy registers for the events that its sums depend on."""
    cluster = Cluster(tmp_path, LIMIT)
    first = cluster.run("a", "n1", cpu="4")
    cluster.decide("b", cpu="1")
    queue = cluster.scheduler.queue
    assert queue.get("default/b").place is QueueState.UNSCHEDULABLE
    event_handlers.pod_gone(cluster.scheduler, first)
    assert queue.get("default/b").place is not QueueState.UNSCHEDULABLE


def test_victims_free_the_limit_and_no_more_go_than_needed(tmp_path: Path) -> None:
    """A rule that rejected in PreFilter could not be helped by preemption."""
    cluster = Cluster(tmp_path, LIMIT)
    cluster.run("a", "n1", cpu="2")
    cluster.run("b", "n1", cpu="1", priority=5)
    cluster.run("c", "n1", cpu="1", namespace="other")
    cluster.run("d", "n2", cpu="1", priority=100)
    cluster.decide("p", cpu="2", priority=10)
    assert list(cluster.client.nominations.values()) == ["n1"]
    assert str(sorted(map(str, cluster.client.deleted))).count("default/") == 1
    assert "default/a" in str(cluster.client.deleted)


def test_where_victims_do_not_suffice_none_goes(tmp_path: Path) -> None:
    """The limit holds in the dry run, too: pods of other teams that leave do not help."""
    cluster = Cluster(tmp_path, LIMIT)
    cluster.run("a", "n1", cpu="4", priority=100)
    cluster.run("b", "n1", cpu="1", namespace="other")
    outcome = cluster.decide("p", cpu="2", priority=10)
    assert not cluster.client.deleted
    assert REASON in outcome.message


def test_a_nominated_pod_of_no_less_priority_counts(tmp_path: Path) -> None:
    """Two pods could both be promised the rest of a limit."""
    cluster = Cluster(tmp_path, LIMIT)
    victim = cluster.run("a", "n1", cpu="4")
    cluster.decide("p", cpu="3", priority=10)
    assert list(cluster.client.nominations.values()) == ["n1"]
    event_handlers.pod_gone(cluster.scheduler, victim)
    assert explain(cluster.scheduler, PodInfo.of(make_pod("late", cpu="2"))).best == []
    assert explain(cluster.scheduler, PodInfo.of(make_pod("small", cpu="1"))).best
    assert explain(cluster.scheduler, PodInfo.of(make_pod("high", cpu="2", priority=50))).best


def test_the_pod_that_is_decided_does_not_count(tmp_path: Path) -> None:
    """In permit it is reserved already: a limit of one let no pod through."""
    policy = HEAD + USED + '  permit: {allow: \'aggregates.used.total["cpu"] == quantity("0")\'}\n'
    cluster = Cluster(tmp_path, policy)
    assert cluster.decide("a", cpu="1").node
    assert not cluster.decide("b", cpu="1").node


def test_columns_by_node_follow_pods_and_nominations(tmp_path: Path) -> None:
    """PodState could not be a policy: nothing said how many pods a node was promised to."""
    policy = (
        HEAD
        + """  aggregates:
  - {name: promised, of: [nominated], by: node.name, count: true}
  - {name: cores, by: node.name, sum: 'pod.requests["cpu"]'}
  - {name: share, by: node.name, sum: double(pod.priority) / 3.0}
  - {name: images, by: node.name, union: pod.images}
  - {name: newest, by: 'node.labels[?"zone"].orValue("")', max: pod.priority}
  score:
    expression: >-
      10 * aggregates.promised[node.name] + aggregates.cores[node.name].units() / 1000
      + int(aggregates.share[node.name]) + aggregates.images[node.name].size()
      + aggregates.newest[node.labels["zone"]]
    normalize: MinMax
"""
    )
    cluster = Cluster(tmp_path, policy)

    def raw() -> dict[str, float]:
        found = explain(cluster.scheduler, PodInfo.of(make_pod("late", images=("i",))), top=3)
        return {score.node: score.raw["Team"] for score in found.scores}

    cluster.run("a", "n1", cpu="2", priority=3, images=("x", "y"))  # 2 + 1 + 2 + 3 = 8
    cluster.run("b", "n2", cpu="1", images=("x",))  # 1 + 1 = 2
    assert raw() == {"n1": 8, "n2": 2, "n3": 0}
    cluster.scheduler.handle.nominator.nominate(PodInfo.of(make_pod("q", priority=-1)), "n2")
    assert raw() == {"n1": 8, "n2": 12, "n3": 0}
    cluster.scheduler.handle.nominator.clear("default/q")
    assert raw() == {"n1": 8, "n2": 2, "n3": 0}


def test_a_filter_by_node_holds_in_dry_runs_of_all_nodes_at_once(tmp_path: Path) -> None:
    """Columns of the overlay have the differences of their own row."""
    policy = (
        HEAD
        + """  aggregates:
  - {name: low, by: node.name, where: pod.priority < 5, count: true}
  filter:
  - {expression: "aggregates.low[node.name] < 2", message: full}
"""
    )
    cluster = Cluster(tmp_path, policy)
    for node in ("n1", "n2", "n3"):
        for i in range(2):
            cluster.run(f"{node}-{i}", node, priority=i + (node == "n2"))
    cluster.decide("p", priority=3)
    assert list(cluster.client.nominations.values()) in (["n1"], ["n3"])
    assert len(cluster.client.deleted) == 1
    assert "-0" in str(cluster.client.deleted)


def test_a_gate_reads_what_runs(tmp_path: Path) -> None:
    """A gated pod is asked for again when a pod of its team goes."""
    policy = (
        HEAD
        + USED
        + """  preEnqueue:
  - {expression: 'aggregates.used[pod.namespace]["cpu"] < quantity("2")', message: wait}
"""
    )
    cluster = Cluster(tmp_path, policy)
    pod = cluster.run("a", "n1", cpu="2")
    cluster.scheduler.add_pod(PodInfo.of(make_pod("b", cpu="1")))
    assert cluster.scheduler.schedule_one() is None
    event_handlers.pod_gone(cluster.scheduler, pod)
    outcome = cluster.scheduler.schedule_one()
    assert outcome is not None
    assert outcome.node


WAITING = """  aggregates:
  - {name: waiting, of: [queued], by: pod.namespace, sum: pod.requests}
  - {name: held, of: [gated], by: pod.namespace, count: true}
  - {name: failed, of: [queued, gated], by: pod.podGroup, max: queue.lastFailedAt}
  - {name: tried, of: [queued, gated], where: queue.attempts > 0, by: pod.namespace, count: true}
  - {name: oldest, of: [queued, gated], by: pod.namespace, min: queue.enqueuedAt}
  - {name: demand, of: [bound, queued], by: pod.namespace, sum: pod.requests}
  reserve: |-
    aggregates.waiting[pod.namespace] == aggregates.demand[pod.namespace] ||
    aggregates.failed[pod.podGroup] > aggregates.oldest[pod.namespace] ||
    aggregates.held[pod.namespace] + aggregates.tried[pod.namespace] >= 0
"""


def test_pods_that_wait_count_until_they_are_reserved(tmp_path: Path) -> None:
    """A rule could not say what a team asks for: pods without a node were counted nowhere."""
    policy = WAITING + "  filter:\n  - {expression: pod.priority < 9, message: low}\n"
    cluster = Cluster(tmp_path, HEAD + policy)
    table, queue = cluster.scheduler.handle.nodes.aggregates, cluster.scheduler.queue
    clock = cluster.scheduler.handle.now
    assert isinstance(clock, FakeClock)
    by_name = {one.split("/")[1]: table[one] for one in table._by_name}

    def found() -> list[Any]:
        return [one.value("default") for one in by_name.values()]

    gated = PodInfo.of(make_pod("g", cpu="4", scheduling_gates=({"name": "x"},)))
    event_handlers.pod_seen(cluster.scheduler, gated)
    for name, priority in (("a", 0), ("b", 10)):
        pod = make_pod(name, cpu="1", priority=priority, labels={"pod-group": "x"})
        event_handlers.pod_seen(cluster.scheduler, PodInfo.of(pod))
    names = ["waiting", "held", "failed", "tried", "oldest", "demand"]
    assert list(by_name) == names
    began = clock.ns
    one, two = {"cpu": 1000}, {"cpu": 2000}
    assert found() == [two, 1, 0, 0, began, two]
    clock.ns += 10**9
    assert not cluster.scheduler.schedule_one().node  # type: ignore[union-attr]
    assert queue.get("default/b").last_failed_at == clock.ns
    assert by_name["failed"].value("") == clock.ns
    assert found() == [two, 1, 0, 1, began, two]
    assert cluster.scheduler.schedule_one().node  # type: ignore[union-attr]
    assert found() == [one, 1, 0, 1, began, two]
    event_handlers.pod_gone(cluster.scheduler, queue.get("default/b").info)
    event_handlers.pod_gone(cluster.scheduler, gated)
    assert found() == [{}, 0, 0, 0, 0, one]


def test_a_waiting_pod_that_goes_wakes_those_whose_rule_counts_it(tmp_path: Path) -> None:
    """A pod that was deleted while it waited concerned no other pod."""
    policy = """  aggregates:
  - {name: waiting, of: [queued], by: pod.namespace, count: true}
  filter:
  - {expression: 'aggregates.waiting[pod.namespace] < 1', message: others wait}
"""
    cluster = Cluster(tmp_path, HEAD + policy)
    first = PodInfo.of(make_pod("a"))
    for pod in (first, PodInfo.of(make_pod("b"))):
        event_handlers.pod_seen(cluster.scheduler, pod)
    for _ in range(2):
        outcome = cluster.scheduler.schedule_one()
        assert outcome is not None
        assert "others wait" in outcome.message
    queue = cluster.scheduler.queue
    assert queue.get("default/b").place is QueueState.UNSCHEDULABLE
    event_handlers.pod_gone(cluster.scheduler, first)
    assert queue.get("default/b").place is not QueueState.UNSCHEDULABLE


def test_an_order_of_reloads_does_not_matter(tmp_path: Path) -> None:
    """Aggregates of other policies begin with the pods that wait when they come into force."""
    cluster = Cluster(tmp_path, HEAD + "  filter:\n  - {expression: node.ready}\n")
    event_handlers.pod_seen(cluster.scheduler, PodInfo.of(make_pod("a", cpu="3")))
    path = tmp_path / "policy.yaml"
    path.write_text(HEAD + WAITING + "  filter:\n  - {expression: node.ready}\n")
    plans, _ = read(None, [str(path)])
    assembly = Assembly(cluster.scheduler.handle, [])
    built = assembly.build(plans)
    cluster.scheduler.profiles = built.profiles
    aggregates = cluster.scheduler.handle.nodes.aggregates
    (waiting,) = [aggregates[one] for one in aggregates._by_name if "/waiting/" in one]
    assert waiting.value("default") == {"cpu": 3000}
    assert cluster.scheduler.schedule_one().node  # type: ignore[union-attr]
    assert waiting.value("default") == {}


@pytest.mark.parametrize(
    ("entry", "code", "word"),
    [
        (
            "{name: a, of: [bound, queued], by: pod.namespace, max: queue.attempts}",
            "PS811",
            "of: [",
        ),
        ("{name: a, of: [queued, gated], by: node.name, count: true}", "PS811", "on no node"),
        ("{name: a, by: pod.namespace, max: now}", "PS811", "compare with `now`"),
        ("{name: a, by: pod.namespace, max: cluster.nodeCount}", "PS811", "`cluster`"),
        ("{name: a, by: 'aggregates.used[\"x\"]', count: true}", "PS811", "`aggregates`"),
        ("{name: a, by: pod.namespace, since: now, count: true}", "PS811", "objects of inputs"),
        ("{name: a, by: pod.namespace, since: pod.creationTime, count: true}", "PS811", "`key`"),
        ("{name: a, by: pod.namespace, since: key, count: true}", "PS301", ""),
        ("{name: a, by: [pod.namespace, pod.nodeName], since: key, count: true}", "PS305", ""),
        ("{name: a, by: pod.namespace, where: key == '', count: true}", "PS811", "since"),
        ("{name: a, by: 'string(used())', count: true}", "PS811", "function `used` reads"),
        ("{name: a, by: pod.uid, count: true}", "PS812", "in common"),
        ("{name: a, by: [pod.namespace, pod.priority], count: true}", "PS301", "string(...)"),
        ("{name: a, by: pod.requests, count: true}", "PS305", ""),
        ("{name: a, by: pod.namespace, sum: pod.name}", "PS301", ""),
        ("{name: used, by: pod.namespace, count: true}", "PS111", ""),
    ],
)
def test_a_mistake_in_an_aggregate_says_what_to_write(
    tmp_path: Path, entry: str, code: str, word: str
) -> None:
    """Each names its place and the fix."""
    path = tmp_path / "policy.yaml"
    body = '\'aggregates.used["x"]["cpu"].units()\''
    function = f"  functions:\n  - {{name: used, expression: {body}}}\n"
    rule = '  filter:\n  - {expression: "used() == 0", message: m}\n'
    path.write_text(HEAD + function + USED + f"  - {entry}\n" + rule)
    loaded, problems = load_policies([str(path)])
    assert not problems
    _, found = check_policy(policy_source(loaded[0]))
    assert [problem.code for problem in found] == [code]
    assert word in found[0].message + found[0].hint
    assert found[0].line == 9


@pytest.mark.parametrize(
    ("entry", "code", "message"),
    [
        ("{name: a, by: pod.namespace, max: pod.priority, halfLife: 1h}", "PS707", "count and sum"),
        ("{name: a, by: pod.namespace}", "PS704", "one of count, sum, max, min, union"),
        ("{name: a, by: pod.namespace, count: true, sum: '1'}", "PS707", "the aggregate has count"),
    ],
)
def test_an_aggregate_has_one_kind(tmp_path: Path, entry: str, code: str, message: str) -> None:
    """It is an error where it stands."""
    path = tmp_path / "policy.yaml"
    path.write_text(
        HEAD + f"  aggregates:\n  - {entry}\n  filter:\n  - {{expression: node.ready}}\n"
    )
    _, problems = load_policies([str(path)])
    assert [problem.code for problem in problems] == [code]
    assert message in problems[0].message


def test_a_key_of_several_parts_is_told_how(tmp_path: Path) -> None:
    """`by: "[pod.namespace, node.name]"` was refused without the form that is right."""
    path = tmp_path / "policy.yaml"
    entry = '{name: mates, by: "[pod.namespace, node.name]", count: true}'
    score = "clamp(100 - 10 * aggregates.mates[[pod.namespace, node.name]], 0, 100)"
    text = HEAD + f"  aggregates:\n  - {entry}\n  score: {{expression: '{score}'}}\n"
    path.write_text(text)
    (loaded,), _ = load_policies([str(path)])
    _, (problem,) = check_policy(policy_source(loaded))
    assert problem.hint == "write one rule for each part of the key: by: [FIRST, SECOND]"
    path.write_text(text.replace('"[', "[").replace(']"', "]"))
    assert not check_files([str(path)]), "a number of pods, times ten, was an overflow"


def test_the_last_part_of_a_key_may_be_left_open(tmp_path: Path) -> None:
    """Which zones a team is in was a second aggregate, and each of them one more look-up."""
    policy = (
        HEAD
        + """  aggregates:
  - {name: parts, by: ['pod.labels["team"]', 'node.labels["zone"]'], count: true}
  variables:
  - {name: zones, expression: 'aggregates.parts[[pod.labels["team"]]]'}
  filter:
  - expression: 'variables.zones.sum(z, n, z == node.labels["zone"] ? 0 : n) < 3'
    messageExpression: |-
      "far from " + variables.zones.transformList(z, n, z + ":" + string(n)).join(" ")
"""
    )
    cluster = Cluster(tmp_path, policy)
    team = {"team": "a"}
    for number, node in enumerate(("n2", "n1", "n1", "n1")):
        cluster.run(f"p{number}", node, labels=team)
    cluster.run("other", "n3", labels={"team": "b"})
    assert cluster.decide("q", labels=team).node == "n1"
    assert cluster.decide("r", labels={"team": "b"}).node
    for node in ("n2", "n3"):
        cluster.run(f"more-{node}", node, labels=team)
    outcome = cluster.decide("s", labels=team, node_selector={"zone": "n3"})
    assert "1 far from n1:4 n2:2 n3:1" in outcome.message
    cluster.decide("t", labels=team, priority=9, node_selector={"zone": "n3"})
    assert cluster.client.deleted == [], "victims on n3 make no room elsewhere"


def test_a_key_with_another_number_of_parts_is_refused(tmp_path: Path) -> None:
    """A key with a part too many was looked up, and its value was always zero."""
    path = tmp_path / "policy.yaml"
    entry = "{name: parts, by: [pod.namespace, pod.nodeName, pod.priorityClassName], count: true}"
    rules = ['aggregates.parts[["a"]].size() > 0', 'aggregates.parts[["a", "b", "c", "d"]] > 0']
    lines = "".join(f"  - {{expression: '{rule}'}}\n" for rule in rules)
    path.write_text(HEAD + f"  aggregates:\n  - {entry}\n  filter:\n{lines}")
    (loaded,), _ = load_policies([str(path)])
    _, found = check_policy(policy_source(loaded))
    assert [(problem.line, problem.code, problem.message) for problem in found] == [
        (8, "PS201", "a key of the aggregate has 3 parts, not 1"),
        (9, "PS201", "a key of the aggregate has 3 parts, not 4"),
    ]
    assert found[0].hint == "the last part may be left out: that is a map by it"


def test_what_was_spent_is_half_forgotten(tmp_path: Path) -> None:
    """Who used much yesterday stood in a queue like anyone: rules saw only what runs now."""
    policy = (
        HEAD
        + """  aggregates:
  - {name: spent, by: pod.namespace, sum: pod.requests, halfLife: 24h}
  - {name: hours, by: pod.namespace, count: true, halfLife: 24h}
  preFilter:
    rules:
    - expression: aggregates.spent[pod.namespace]["cpu"] < quantity("40")
      message: the team had its share
  filter:
  - {expression: aggregates.hours.total < 1000.0, message: no hours}
"""
    )
    cluster = Cluster(tmp_path, policy)
    clock = cluster.scheduler.handle.now
    assert isinstance(clock, FakeClock)
    hour = 3600 * 10**9
    pod = cluster.run("a", "n1", cpu="4")
    clock.ns += 10 * hour  # 34.8 core hours, since some of the first ones are forgotten
    assert cluster.decide("b").node
    clock.ns += 3 * hour
    assert "had its share" in cluster.decide("c").message
    event_handlers.pod_gone(cluster.scheduler, pod)
    clock.ns += 24 * hour
    assert cluster.decide("d").node
    names = cluster.scheduler.handle.nodes.aggregates
    spent, hours = (names[one] for one in names._by_name)
    assert spent.then("default", clock.ns)["cpu"] == 21677
    assert spent.then("default", clock.ns) == spent.total_then(clock.ns)
    assert 69.2 < hours.then("default", clock.ns + 240 * hour) < 69.3, "two pods that run on"
    assert spent.then("other", clock.ns) == {}


def test_a_value_that_time_changes_is_no_sort_key(tmp_path: Path) -> None:
    """A queue is not sorted anew as time goes by."""
    path = tmp_path / "policy.yaml"
    entry = "{name: spent, by: pod.namespace, count: true, halfLife: 24h}"
    keys = "[{expression: aggregates.spent.total}, {expression: 'aggregates.spent[\"a\"]'}]"
    path.write_text(HEAD + f"  aggregates:\n  - {entry}\n  queueSort: {keys}\n")
    (loaded,), _ = load_policies([str(path)])
    _, found = check_policy(policy_source(loaded))
    assert [problem.code for problem in found] == ["PS313", "PS313"]


def test_a_key_is_no_optional(tmp_path: Path) -> None:
    """`aggregates.used[?key]` looks as for a map, which may have no such key."""
    path = tmp_path / "policy.yaml"
    rule = "aggregates.used[?pod.namespace].hasValue() && aggregates.usd.total.size() > 0"
    path.write_text(HEAD + USED + f"  filter:\n  - {{expression: '{rule}'}}\n")
    loaded, _ = load_policies([str(path)])
    _, found = check_policy(policy_source(loaded[0]))
    assert [(problem.code, problem.hint) for problem in found][:1] == [
        ("PS201", "write [KEY]: the value is zero where no pod counts")
    ]
    assert "did you mean 'used'" in found[1].message


def test_a_policy_without_aggregates_is_told_where_they_are_declared(tmp_path: Path) -> None:
    """The hint was "it has no fields at all"; other names were said to be aggregates, perhaps."""
    path = tmp_path / "policy.yaml"
    rules = "[{expression: aggregates.used.total > 0}, {expression: used > 0}]"
    path.write_text(HEAD + f"  filter: {rules}\n")
    loaded, _ = load_policies([str(path)])
    _, found = check_policy(policy_source(loaded[0]))
    assert found[0].hint == "the policy has none: write spec.aggregates"
    assert "visible here" in found[1].hint
    assert "aggregates" not in found[1].hint


def test_keys_beyond_the_limit_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels that pods choose could fill the memory; 50 aggregates are a policy's limit."""
    monkeypatch.setattr(aggregates, "MAX_KEYS", 3)
    cluster = Cluster(tmp_path, LIMIT)
    for i in range(5):
        cluster.run(f"p{i}", "n1", namespace=f"x{i}", cpu="1")
    (used,) = cluster.scheduler.handle.nodes.aggregates._by_name.values()
    assert used.all_keys() == ["x0", "x1", "x2"]
    entries = "".join(f"  - {{name: a{i}, by: pod.namespace, count: true}}\n" for i in range(51))
    path = tmp_path / "many.yaml"
    path.write_text(HEAD + f"  aggregates:\n{entries}  filter: [{{expression: node.ready}}]\n")
    loaded, _ = load_policies([str(path)])
    _, found = check_policy(policy_source(loaded[0]))
    assert [(one.code, one.message) for one in found] == [("PS501", "more than 50 aggregates")]


@pytest.mark.parametrize("limit", [0, 3])
def test_an_aggregate_that_no_rule_reads_is_not_kept(tmp_path: Path, limit: int) -> None:
    """One that is for a parameter's other value cost each pod as much as one that is read."""
    cluster = Cluster(
        tmp_path,
        HEAD
        + f"""  params: {{limit: {limit}}}
  aggregates: [{{name: used, by: pod.namespace, count: true}}]
  reserve: params.limit == 0 || aggregates.used[pod.namespace] < params.limit
""",
    )
    kept = cluster.scheduler.handle.nodes.aggregates._by_name
    assert len(kept) == (limit > 0)
