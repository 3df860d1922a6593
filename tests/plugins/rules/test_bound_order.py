"""Queues of pods by a policy: turns by what teams use, strict queues, objects, reloads."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.explain.explain import explain
from policy_sched.explain.report import QueuePosition
from policy_sched.language.check.policy import check_policy
from policy_sched.model.cluster_objects import Namespace
from policy_sched.model.meta import CustomObject, ObjectMeta
from policy_sched.model.pod_info import PodInfo, QueueState
from policy_sched.profiles.load.load import load_policies
from policy_sched.profiles.load.policy_source import policy_source
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.profiles.reload.store import PolicyStore, ReloadResult
from policy_sched.scheduler import event_handlers
from policy_sched.scheduler.scheduler import Scheduler, single_pass
from policy_sched.scheduler.setup.factory import assemble_with_assembly, build
from policy_sched.scheduler.setup.reload import Reloader
from policy_sched.testing import FakeClock, make_node, make_pod

HEAD = "apiVersion: policysched.dev/v1alpha1\nkind: Policy\nmetadata: {name: PrioritySort}\nspec:\n"
SCHEMA = """apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: teams.example.com}
spec:
  group: example.com
  scope: Cluster
  names: {kind: Team, plural: teams}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              rank: {type: integer}
              strict: {type: boolean}
              cores: {x-kubernetes-int-or-string: true, pattern: "^[0-9]+m?$"}
"""
TEAMS = """  inputs:
  - {name: teams, apiVersion: example.com/v1, kind: Team, schema: teams.yaml}
"""
FAIR = (
    HEAD
    + """  aggregates:
  - {name: used, by: pod.namespace, sum: 'pod.requests["cpu"]'}
  queueOrder:
    by: pod.namespace
    keys:
    - expression: aggregates.used[%s] + head.requests["cpu"]
"""
)


def team(name: str, rank: int = 0, *, strict: bool = False, cores: int = 0) -> CustomObject:
    """Return a team's object."""
    return CustomObject(
        api_version="example.com/v1",
        kind="Team",
        metadata=ObjectMeta(name=name),
        content={"spec": {"rank": rank, "strict": strict, "cores": cores}},
    )


def scheduler(folder: Path, policy: str, cpu: str = "64") -> Scheduler:
    """Return a scheduler with one policy and one node."""
    (folder / "policy.yaml").write_text(policy)
    (folder / "teams.yaml").write_text(SCHEMA)
    made = build(None, [str(folder / "policy.yaml")], now=FakeClock())
    event_handlers.node_seen(made, make_node("n1", cpu=cpu))
    return made


def add(made: Scheduler, *keys: str, cpu: str = "1", priority: int = 0) -> None:
    """Queue pods by namespace/name."""
    for key in keys:
        namespace, _, name = key.partition("/")
        pod = make_pod(name, namespace=namespace, cpu=cpu, priority=priority)
        made.add_pod(PodInfo.of(pod))


def active(made: Scheduler) -> list[str]:
    """Return the pods that are ready in their order."""
    return [queued.info.key for queued in made.queue.active()]


def test_teams_take_turns_by_what_they_use(tmp_path: Path) -> None:
    """A team that queued 100 pods first had all of them placed before another team's first one."""
    made = scheduler(tmp_path, FAIR % "head.queue")
    add(made, *(f"a/p{i}" for i in range(4)))
    add(made, "b/x", "b/y")
    add(made, "c/large", cpu="5")
    decided = [outcome.pod.key for outcome in single_pass(made)]
    assert decided == ["a/p0", "b/x", "a/p1", "b/y", "a/p2", "a/p3", "c/large"]


def test_a_pod_that_goes_moves_its_team_to_the_front(tmp_path: Path) -> None:
    """Numbers fall, too: then it is the team's turn earlier than before."""
    made = scheduler(tmp_path, FAIR % "head.queue")
    runs = PodInfo.of(make_pod("old", namespace="a", cpu="8", node_name="n1"))
    event_handlers.pod_seen(made, runs)
    add(made, "a/p", "b/x", "b/y")
    assert active(made) == ["b/x", "b/y", "a/p"]
    first = made.queue.pop()
    assert first is not None
    event_handlers.pod_gone(made, runs)
    second = made.queue.pop()
    assert second is not None
    assert [first.info.key, second.info.key] == ["b/x", "a/p"]


def test_a_strict_queue_waits_for_its_head_and_a_pod_that_goes_ends_that(tmp_path: Path) -> None:
    """Small pods of a team starved its large one: each took the room that it waited for."""
    policy = (
        HEAD
        + TEAMS
        + """  queueOrder:
    by: pod.namespace
    keys: [{expression: head.enqueuedAt}]
    strict: inputs.teams[?head.queue].optMap(t, t.spec.strict).orValue(false)
"""
    )
    made = scheduler(tmp_path, policy, cpu="4")
    event_handlers.object_seen(made, None, team("a", strict=True))
    runs = PodInfo.of(make_pod("old", namespace="c", cpu="2", priority=9, node_name="n1"))
    event_handlers.pod_seen(made, runs)
    add(made, "a/large", "b/large", cpu="4", priority=5)
    add(made, "a/small", "b/small")
    decided = [(outcome.pod.key, outcome.node) for outcome in single_pass(made)]
    assert decided == [("a/large", ""), ("b/large", ""), ("b/small", "n1")]
    small = made.queue.get("a/small")
    assert small is not None
    assert small.place is QueueState.ACTIVE
    assert made.queue.queue_of("a/small") == ("a", "a/large")
    held = explain(made, small.info)
    assert held.queue == QueuePosition("a", 0, "", "a/large")
    said = '  a/large was tried in vain and holds it in the strict queue "a"'
    assert said in list(held.text_lines())
    event_handlers.object_seen(made, team("a", strict=True), team("a"))
    assert made.queue.queue_of("a/small") == ("a", "")
    assert [outcome.pod.key for outcome in single_pass(made)] == ["a/small"]


def test_pods_are_sorted_anew_when_an_object_changes(tmp_path: Path) -> None:
    """A sort key that read an object had the value that the object had when the pod came."""
    keys = "inputs.teams[?pod.namespace].optMap(t, t.spec.rank).orValue(9)"
    made = scheduler(tmp_path, f"{HEAD}{TEAMS}  queueSort:\n  - expression: {keys}\n")
    event_handlers.object_seen(made, None, team("a", 1))
    add(made, "a/p", "b/p", "a/q", "c/p")
    assert active(made) == ["a/p", "a/q", "b/p", "c/p"]
    event_handlers.object_seen(made, team("a", 1), team("a", 10))
    assert active(made) == ["b/p", "c/p", "a/p", "a/q"]
    event_handlers.object_seen(made, None, team("c", 0))
    event_handlers.object_gone(made, team("a", 10))
    assert active(made) == ["c/p", "b/p", "a/p", "a/q"]
    assert [outcome.pod.key for outcome in single_pass(made)] == ["c/p", "b/p", "a/p", "a/q"]


def test_a_key_over_nodes_follows_them(tmp_path: Path) -> None:
    """A key of a queue that read nodes had what was there when its first pod came."""
    policy = (
        HEAD
        + """  inputs:
  - {name: nodes, apiVersion: v1, kind: Node}
  - {name: names, apiVersion: v1, kind: Namespace}
  queueOrder:
    by: pod.namespace
    keys:
    - expression: inputs.nodes[?head.queue].optMap(n, int(n.labels["rank"])).orValue(9)
    - expression: inputs.names[?head.queue].optMap(n, int(n.annotations["rank"])).orValue(9)
"""
    )
    made = scheduler(tmp_path, policy)

    def goes() -> str:
        outcome = made.schedule_one()
        return "" if outcome is None else outcome.pod.key

    add(made, "a/p", "b/p", "c/p", "d/p", "e/p", "f/p")
    assert goes() == "a/p"
    event_handlers.node_seen(made, make_node("f", labels={"rank": "1"}))
    assert goes() == "f/p"
    made.cache.set_namespace(Namespace(metadata=ObjectMeta(name="e", annotations={"rank": "3"})))
    assert goes() == "e/p"
    event_handlers.node_seen(made, make_node("b", labels={"rank": "20"}))
    assert goes() == "c/p"
    event_handlers.node_seen(made, make_node("b", labels={"rank": "2"}))
    assert goes() == "b/p"
    add(made, "f/q")
    assert not made.queue.idle()
    made.cache.remove_node(make_node("f"))
    assert goes() == "d/p"


def test_a_key_that_fails_is_zero(tmp_path: Path) -> None:
    """A pod whose object is not there goes first in an order that ascends, and is not lost."""
    key = "inputs.teams[pod.namespace].spec.rank"
    made = scheduler(tmp_path, f"{HEAD}{TEAMS}  queueSort:\n  - expression: {key}\n")
    event_handlers.object_seen(made, None, team("a", 1))
    add(made, "a/p", "b/p")
    assert active(made) == ["b/p", "a/p"]


def test_queues_are_those_of_quotas(tmp_path: Path) -> None:
    """`by: quota.name` asks for the name alone: what a quota uses moves no pod between queues."""
    policy = (
        HEAD
        + TEAMS
        + """  quotas:
  - name: team
    of: inputs.teams
    pods: pod.namespace
    nominal: '[object].resources(o, "cpu", o.spec.cores)'
  queueOrder:
    by: quota.name
    keys:
    - {expression: 'quota.exists', order: Descending}
    - {expression: '(quota.used + head.requests).fitsIn(quota.nominal)', order: Descending}
"""
    )
    made = scheduler(tmp_path, policy)
    add(made, "a/p", "b/p", "b/q", "none/p")
    assert active(made) == ["a/p", "b/p", "b/q", "none/p"]
    event_handlers.object_seen(made, None, team("b", cores=1))
    assert active(made) == ["b/p", "b/q", "a/p", "none/p"]
    event_handlers.object_seen(made, None, team("a", cores=1))
    assert [outcome.pod.key for outcome in single_pass(made)] == ["b/p", "a/p", "b/q", "none/p"]


def test_a_pod_that_goes_frees_its_quota_for_the_next_turn(tmp_path: Path) -> None:
    """What a quota uses is a number of its own queue alone, asked for when it falls."""
    policy = (
        HEAD
        + TEAMS
        + """  quotas:
  - name: team
    of: inputs.teams
    pods: pod.namespace
    nominal: '[object].resources(o, "cpu", o.spec.cores)'
  queueOrder:
    by: quota.name
    keys:
    - {expression: '(quota.used + head.requests).fitsIn(quota.nominal)', order: Descending}
"""
    )
    made = scheduler(tmp_path, policy)
    for name in ("a", "b"):
        event_handlers.object_seen(made, None, team(name, cores=1))
        runs = PodInfo.of(make_pod("old", namespace=name, cpu="1", node_name="n1"))
        event_handlers.pod_seen(made, runs)
    add(made, "a/p", "a/q", "b/x", "b/y")
    popped = [made.queue.pop()]
    event_handlers.pod_gone(made, runs)
    popped += [made.queue.pop(), made.queue.pop()]
    assert [queued.info.key for queued in popped if queued] == ["a/p", "b/x", "b/y"]


@pytest.mark.parametrize(
    ("section", "code", "word"),
    [
        ("{by: pod.namespace, keys: [{expression: pod.priority}]}", "PS831", "head.priority"),
        ("{by: pod.namespace, strict: 'pod.priority > 0'}", "PS831", "head"),
        ("{by: pod.namespace, keys: [{expression: now}]}", "PS313", "now"),
        ("{by: pod.priority}", "PS301", "string"),
        ("{by: pod.namespace, keys: [{expression: head.cpu}]}", "PS102", "cpu"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, section: str, code: str, word: str) -> None:
    """A key of a queue that reads a pod says what to write instead."""
    path = tmp_path / "policy.yaml"
    path.write_text(f"{HEAD}  queueOrder: {section}\n")
    loaded, problems = load_policies([str(path)])
    assert not problems
    _, found = check_policy(policy_source(loaded[0]))
    assert [problem.code for problem in found] == [code]
    assert word in found[0].message + found[0].hint


def test_a_reload_builds_the_queues_anew(tmp_path: Path) -> None:
    """Pods that wait follow the keys in force, and an order that is gone holds nobody."""
    path = tmp_path / "policy.yaml"
    path.write_text(FAIR % "head.queue")
    store = PolicyStore(PolicyFiles(None, (str(path),)), FakeClock())
    made, assembly = assemble_with_assembly(store.current.plans, now=FakeClock())
    run = Reloader(made, assembly, store)
    event_handlers.node_seen(made, make_node("n1", cpu="64"))
    add(made, "a/p", "a/q", "b/p", cpu="2")
    assert made.schedule_one() is not None
    assert active(made) == ["b/p", "a/q"]
    path.write_text((FAIR % "head.queue").replace("+ head", "* -1 - head"))
    assert run.reload().result is ReloadResult.LOADED
    assert active(made) == ["a/q", "b/p"]
    path.write_text(f"{HEAD}  queueSort: [{{expression: pod.name}}]\n")
    assert run.reload().result is ReloadResult.LOADED
    assert active(made) == ["b/p", "a/q"]


def test_a_node_that_comes_changes_whose_part_is_greater(tmp_path: Path) -> None:
    """Teams kept the turns that they had before nodes came and went."""
    policy = (
        HEAD
        + TEAMS
        + """  quotas:
  - name: team
    of: inputs.teams
    pods: pod.namespace
    nominal: '[object].resources(o, "cpu", o.spec.cores)'
  queueOrder:
    by: quota.name
    keys: [{expression: quota.dominant}]
"""
    )
    made = scheduler(tmp_path, policy, cpu="10")
    for name in ("a", "b"):
        event_handlers.object_seen(made, None, team(name))
    for namespace, cpu, memory in (("a", "4", "1Gi"), ("b", "1", "19Gi")):
        runs = make_pod("old", namespace=namespace, cpu=cpu, memory=memory, node_name="n1")
        event_handlers.pod_seen(made, PodInfo.of(runs))
    event_handlers.node_seen(made, make_node("n2", cpu="1", memory="40Gi"))
    add(made, "a/p", "a/q", "b/p", "b/q")
    popped = [made.queue.pop()]
    event_handlers.node_seen(made, make_node("n3", cpu="100", memory="1Gi"))
    popped.append(made.queue.pop())
    event_handlers.node_gone(made, make_node("n3", cpu="100", memory="1Gi"))
    popped.append(made.queue.pop())
    assert [queued.info.key for queued in popped if queued] == ["b/p", "a/p", "b/q"]


def test_a_placement_moves_other_queues_of_a_tree(tmp_path: Path) -> None:
    """A child that borrowed made its parent's part greater, and its sibling kept its old turn."""
    policy = (
        HEAD
        + TEAMS
        + """  quotas:
  - name: team
    of: inputs.teams
    pods: pod.namespace
    nominal: '[object].resources(o, "cpu", o.spec.cores)'
    parent: 'object.name.startsWith("x-") ? "x" : ""'
  queueOrder:
    by: quota.name
    keys: [{expression: quota.path.last().orValue(quota).dominant}]
"""
    )
    made = scheduler(tmp_path, policy)
    for name in ("x-a", "x-b", "y"):
        event_handlers.object_seen(made, None, team(name))
    runs = PodInfo.of(make_pod("old", namespace="y", cpu="2", node_name="n1"))
    event_handlers.pod_seen(made, runs)
    add(made, "x-a/p", "x-b/q", "y/r", cpu="3")
    assert active(made) == ["x-a/p", "x-b/q", "y/r"]
    first = made.schedule_one()
    assert first is not None
    assert first.node == "n1"
    assert active(made) == ["y/r", "x-b/q"]
