"""Quotas over the objects of an input: counts, lent amounts, victims in turn, mistakes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest

from policy_sched.language.check.policy import check_policy
from policy_sched.model.cluster_objects import Namespace
from policy_sched.model.meta import CustomObject, ObjectMeta
from policy_sched.model.pod_info import PodInfo, QueueState
from policy_sched.profiles.load.load import load_policies
from policy_sched.profiles.load.policy_source import policy_source
from policy_sched.scheduler import event_handlers
from policy_sched.scheduler.scheduler import Scheduler
from policy_sched.scheduler.setup.factory import build
from policy_sched.testing import FakeClock, make_node, make_pod
from tests.examples import scaled

CAPACITY = Path(__file__).parents[3] / "policies" / "capacity"
TEAMS = ("a", "b", "c")
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {
                "multiPoint": {"enabled": [{"name": "CapacityScheduling"}]},
                "postFilter": {"disabled": [{"name": "DefaultPreemption"}]},
            }
        }
    ],
}


def scheduler() -> Scheduler:
    """Return a scheduler with the shipped policy and two nodes."""
    made = build(CONFIG, [str(CAPACITY)], now=FakeClock())
    for name in ("n1", "n2"):
        event_handlers.node_seen(made, make_node(name, cpu="16", memory="64Gi"))
    return made


def quota(team: str, least: int, most: int | None = None) -> CustomObject:
    """Return an ElasticQuota in whole cores."""
    spec = {"min": {"cpu": least}} | ({} if most is None else {"max": {"cpu": most}})
    return CustomObject(
        api_version="scheduling.x-k8s.io/v1alpha1",
        kind="ElasticQuota",
        metadata=ObjectMeta(name="quota", namespace=team),
        content={"spec": spec},
    )


def test_what_is_kept_of_quotas_is_what_all_pods_and_objects_give() -> None:
    """A sum that missed an event lent a team's cores twice."""
    for seed in range(scaled(20)):
        random, made = Random(seed), scheduler()
        known: dict[str, CustomObject] = {}
        for step in range(60):
            what = random.random()
            if what < 0.15:
                team = random.choice(TEAMS)
                new = quota(team, random.randrange(5), random.choice((None, 5, 9)))
                event_handlers.object_seen(made, known.get(team), new)
                known[team] = new
            elif what < 0.22 and known:
                event_handlers.object_gone(made, known.pop(random.choice(sorted(known))))
            elif what < 0.5:
                pod = make_pod(
                    f"p{step}",
                    namespace=random.choice(TEAMS),
                    cpu=random.choice((1, "500m")),
                    priority=random.choice((0, 5)),
                )
                made.add_pod(PodInfo.of(pod))
                made.schedule_one()
            elif made.cache.held():
                gone = made.cache.pod(random.choice(made.cache.held()))
                assert gone is not None
                event_handlers.pod_gone(made, gone)
            (quotas,) = made.handle.nodes.quotas.values()
            used: dict[str, Counter[str]] = {team: Counter() for team in known}
            for uid in made.cache.held():
                held = made.cache.pod(uid)
                assert held is not None
                if held.namespace in used:
                    used[held.namespace].update(held.requests)
            for team in TEAMS:
                state = quotas.state(team)
                assert state.exists == (team in known)
                assert state.used == dict(used.get(team, {}))
            total = quotas.total()
            assert total.used == dict(sum(used.values(), Counter()))
            granted = sum(one.content["spec"]["min"]["cpu"] for one in known.values())
            assert total.nominal.get("cpu", 0) == 1000 * granted


def test_an_object_that_changes_wakes_the_team() -> None:
    """A greater max was not looked at before something else happened."""
    made = scheduler()
    small, large = quota("a", 1, 1), quota("a", 4, 4)
    event_handlers.object_seen(made, None, small)
    made.add_pod(PodInfo.of(make_pod("p", namespace="a", cpu=2)))
    outcome = made.schedule_one()
    assert outcome is not None
    assert "ElasticQuota a is more than Max" in outcome.message
    assert made.queue.get("a/p").place is QueueState.UNSCHEDULABLE
    event_handlers.object_seen(made, small, large)
    assert made.queue.get("a/p").place is not QueueState.UNSCHEDULABLE
    made.queue.activate(["a/p"])
    again = made.schedule_one()
    assert again is not None
    assert again.node


HEAD = """apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: P}
spec:
  inputs:
  - {name: classes, apiVersion: scheduling.k8s.io/v1, kind: PriorityClass}
"""


@pytest.mark.parametrize(
    ("spec", "code", "word"),
    [
        ("filter: [{expression: 'quota.exists'}]", "PS104", "preFilter"),
        ("preFilter: {rules: [{expression: quota.exists}]}", "PS101", "spec.quotas"),
        (
            "quotas: [{name: q, of: inputs.clases, pods: pod.namespace, nominal: object.value}]",
            "PS101",
            "did you mean 'classes'",
        ),
        (
            "quotas: [{name: q, of: inputs.classes, pods: pod.namespace, nominal: object.value}]",
            "PS301",
            "must be resources",
        ),
    ],
)
def test_a_mistake_in_quotas_says_what_to_write(
    tmp_path: Path, spec: str, code: str, word: str
) -> None:
    """Each names its place and the fix."""
    path = tmp_path / "policy.yaml"
    path.write_text(f"{HEAD}  {spec}\n  score: {{expression: node.podCount, normalize: Max}}\n")
    loaded, problems = load_policies([str(path)])
    assert not problems
    _, found = check_policy(policy_source(loaded[0]))
    assert [problem.code for problem in found] == [code]
    assert word in found[0].message + found[0].hint
    assert found[0].line == 7


TEAM_SCHEMA = """{"type": "object", "properties": {"spec": {"type": "object", "properties": {
"cores": {"type": "integer"}, "weight": {"type": "number"}, "rank": {"type": "integer"},
"cohort": {"type": "string"},
"disk": {"x-kubernetes-int-or-string": true, "pattern": "^[0-9]+(Gi)?$"}}}}}"""
TREE = """apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: P}
spec:
  inputs:
  - {name: teams, apiVersion: example.com/v1, kind: Team, schema: team.json}
  quotas:
  - name: team
    of: inputs.teams
    pods: pod.namespace
    nominal: '[object].resources(o, "cpu", quantity(string(o.spec.cores)))'
    parent: object.spec.cohort
    weight: object.spec.weight
    priority: object.spec.rank
  preFilter:
    rules:
    - expression: |-
        %s
  filter:
  - expression: node.podCount < 100
"""


def team(name: str, cores: int, cohort: str = "", weight: float = 1, rank: int = 0) -> CustomObject:
    """Return a team's object."""
    spec = {"cores": cores, "cohort": cohort, "weight": weight, "rank": rank, "disk": "2Gi"}
    return CustomObject(
        api_version="example.com/v1",
        kind="Team",
        metadata=ObjectMeta(name=name),
        content={"spec": spec},
    )


@pytest.mark.parametrize(
    ("holds", "fails"),
    [
        ("quota.weight == 2.5", "quota.weight == 1.0"),
        ("quota.priority == 7", "quota.priority == 0"),
        ("quota.object.spec.cores == 4", "quota.object.spec.cores == 0"),
        (
            'quota.object.spec.cohort == "all" && quota.object.spec.disk > quantity("1Gi")',
            'quota.object.spec.cohort == "" || quota.object.spec.disk > quantity("2Gi")',
        ),
        ("quota.dominant == 0.1875", "quota.dominant == 0.0"),  # 3 of 16 cores
        ("quota.height(pod.requests) == 1", "quota.height(pod.requests) == 0"),
        (
            'quota.lacking(pod.requests + pod.requests)["cpu"] == quantity("1")',
            'quota.lacking(pod.requests)["cpu"] > quantity("0")',
        ),
        (
            "quota.with(pod.requests).dominant == 0.3125",
            "quota.with(pod.requests).used == quota.used",
        ),
        (
            'quota.with(pod.requests).borrowed["cpu"] == quantity("1")',
            "quota.with(pod.requests).available == quota.available",
        ),
        ("quota.path.size() == 2", "quota.path.size() == 1"),
    ],
)
def test_a_decision_reads_numbers_of_a_tree(tmp_path: Path, holds: str, fails: str) -> None:
    """A team of 4 cores uses 3 and asks for 2 more; its cohort has 6 cores in all."""
    (tmp_path / "team.json").write_text(TEAM_SCHEMA)
    for rule, node in ((holds, "n1"), (fails, "")):
        (tmp_path / "policy.yaml").write_text(TREE % rule)
        made = build(None, [str(tmp_path / "policy.yaml")], now=FakeClock())
        event_handlers.node_seen(made, make_node("n1", cpu="16", memory="64Gi"))
        for given in (team("a", 4, "all", 2.5, 7), team("b", 2, "all")):
            event_handlers.object_seen(made, None, given)
        runs = make_pod("old", namespace="a", cpu="3", node_name="n1")
        event_handlers.pod_seen(made, PodInfo.of(runs))
        made.add_pod(PodInfo.of(make_pod("p", namespace="a", cpu="2")))
        outcome = made.schedule_one()
        assert outcome is not None
        assert (rule, outcome.node) == (rule, node)


def test_a_pod_that_its_quota_rejected_waits_for_its_own_tree(tmp_path: Path) -> None:
    """Each pod that came or went, of any team, woke all pods that had no room in their quotas."""
    (tmp_path / "team.json").write_text(TEAM_SCHEMA)
    rule, (rules_alone, _, _) = "pod.requests.fitsIn(quota.available)", TREE.partition("  filter:")
    (tmp_path / "policy.yaml").write_text(rules_alone % rule)
    made = build(None, [str(tmp_path / "policy.yaml")], now=FakeClock())
    event_handlers.node_seen(made, make_node("n1", cpu="64", memory="64Gi"))
    for given in (team("a", 4, "all"), team("b", 2, "all"), team("c", 9, "other")):
        event_handlers.object_seen(made, None, given)
    runs = {
        name: PodInfo.of(make_pod("old", namespace=name, cpu="1", node_name="n1"))
        for name in ("b", "c")
    }
    for running in runs.values():
        event_handlers.pod_seen(made, running)
    made.add_pod(PodInfo.of(make_pod("p", namespace="a", cpu="6")))
    outcome = made.schedule_one()
    assert outcome is not None
    assert not outcome.node

    def waits() -> bool:
        return [queued.info.name for queued in made.queue.unschedulable()] == ["p"]

    event_handlers.pod_seen(
        made, PodInfo.of(make_pod("new", namespace="b", cpu="1", node_name="n1"))
    )
    assert waits()
    event_handlers.pod_gone(made, runs["c"])
    assert waits()
    event_handlers.pod_gone(made, runs["b"])
    assert not waits()


OF_NAMESPACES = """apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: P}
spec:
  inputs:
  - {name: spaces, apiVersion: v1, kind: Namespace}
  quotas:
  - name: team
    of: inputs.spaces
    pods: pod.namespace
    nominal: '["cpu"].resources(n, n, quantity(object.annotations[?"cores"].orValue("0")))'
  preFilter:
    rules:
    - {expression: (quota.used + pod.requests).fitsIn(quota.nominal), message: beyond the quota}
"""


def test_a_namespace_that_grants_more_is_read_anew(tmp_path: Path) -> None:
    """A quota stated by a namespace itself stayed what it was when the namespace came."""
    path = tmp_path / "policy.yaml"
    path.write_text(OF_NAMESPACES)
    plugins = {"multiPoint": {"enabled": [{"name": "P"}]}}
    made = build({**CONFIG, "profiles": [{"plugins": plugins}]}, [str(path)], now=FakeClock())
    event_handlers.node_seen(made, make_node("n1", cpu="16", memory="64Gi"))
    for number, (cores, node) in enumerate((("1", ""), ("2", "n1"), ("3", ""), ("4", "n1"))):
        metadata = ObjectMeta(name="a", annotations={"cores": cores})
        made.cache.set_namespace(Namespace(metadata=metadata))
        made.add_pod(PodInfo.of(make_pod(f"p{number}", namespace="a", cpu="2")))
        outcome = made.schedule_one()
        assert outcome is not None
        assert (cores, outcome.node) == (cores, node), outcome.message
