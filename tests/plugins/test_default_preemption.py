"""Policies with preemption rules: in place of kube-scheduler's, and in addition to them.

Pods whose attempts may change more than their own node.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import yaml

from policy_sched.errors import PolicyError
from policy_sched.model.pod_info import PodInfo, QueuedPod
from policy_sched.plugins.default_preemption import Preempting
from policy_sched.scheduler.attempt import Attempt, Decision, Preempt, Reject
from policy_sched.scheduler.scheduler import Scheduler
from policy_sched.scheduler.scheduling_cycle import decide
from policy_sched.scheduler.setup.factory import assemble, read
from policy_sched.testing import make_node, make_pod
from tests.plugins.volumes.world import World

UNFIT = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate"
FULL = f"{UNFIT}, preemption: "
NOBODY = FULL + "0/1 nodes are available: 1 No preemption victims found for incoming pod."


def document(name: str, section: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Return a policy with a preemption section."""
    return {
        "apiVersion": "policysched.dev/v1alpha1",
        "kind": "Policy",
        "metadata": {"name": name},
        "spec": {**spec, "preemption": section},
    }


def profile(*, enabled: Sequence[str], disabled: Sequence[str] = (), **args: Any) -> dict[str, Any]:
    """Return a configuration with one profile."""
    points = {
        "enabled": [{"name": name} for name in enabled],
        "disabled": [{"name": name} for name in disabled],
    }
    config = [{"name": name, "args": values} for name, values in args.items()]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": points}, "pluginConfig": config}],
    }


def scheduler(
    folder: Path, policies: Sequence[dict[str, Any]], config: dict[str, Any] | None, *nodes: str
) -> Scheduler:
    """Return a scheduler with nodes of 1 cpu."""
    file = folder / "policies.yaml"
    file.write_text(yaml.safe_dump_all(policies), encoding="utf-8")
    plans, problems = read(config, [str(file)])
    assert not problems
    found = assemble(plans)
    for node in nodes or ("n0",):
        found.cache.add_node(make_node(node, cpu="1"))
    return found


def runs(found: Scheduler, name: str, node: str = "n0", **spec: Any) -> PodInfo:
    """Put a pod of 1 cpu on a node."""
    pod = PodInfo.of(make_pod(name, **{"cpu": "1", "node_name": node, **spec}))
    found.cache.add_pod(pod)
    return pod


def decision(found: Scheduler, **spec: Any) -> Decision:
    """Return the result of a pod of 1 cpu and priority 10."""
    pod = PodInfo.of(make_pod(**{"name": "new", "cpu": "1", "priority": 10, **spec}))
    attempt = Attempt(QueuedPod(pod), found.profiles["default-scheduler"])
    return decide(attempt, found.handle.nodes, Random(0))


def evicted(found: Decision) -> tuple[str, str, list[str]]:
    """Return the plugin that preempted, the node, and the victims."""
    assert isinstance(found, Preempt), found
    return found.plugin, found.node, [victim.name for victim in found.victims]


def refused(found: Decision) -> str:
    """Return the message of a pod for which no plugin preempted."""
    assert isinstance(found, Reject), found
    return found.message


SPARING = document(
    "Sparing",
    {"victim": 'victim.priority < pod.priority && victim.labels[?"keep"] != optional.of("yes")'},
)
ALONE = profile(enabled=["Sparing"], disabled=["DefaultPreemption"])


def test_a_policy_in_place_of_the_default_one(tmp_path: Path) -> None:
    """Only its rules choose victims; otherwise it follows kube-scheduler."""
    found = scheduler(tmp_path, [SPARING], ALONE, "n0", "n1")
    runs(found, "kept", labels={"keep": "yes"})
    runs(found, "other", "n1", priority=5)
    assert evicted(decision(found)) == ("Sparing", "n1", ["other"])
    never = decision(found, preemption_policy="Never")
    text = "preemption: not eligible due to preemptionPolicy=Never."
    assert refused(never).endswith(text)


def test_the_first_that_makes_room_has_done_it(tmp_path: Path) -> None:
    """Two sections are two PostFilter plugins: the second may evict pods that the first spares."""
    config = profile(enabled=[], disabled=["DefaultPreemption"])
    both = [{"name": "Sparing"}, {"name": "DefaultPreemption"}]
    config["profiles"][0]["plugins"]["postFilter"] = {"enabled": both}
    found = scheduler(tmp_path, [SPARING], config)
    runs(found, "kept", labels={"keep": "yes"})
    assert evicted(decision(found)) == ("DefaultPreemption", "n0", ["kept"])
    found.cache.add_node(make_node("n1", cpu="1"))
    runs(found, "other", "n1", priority=5)
    assert evicted(decision(found)) == ("Sparing", "n1", ["other"])


def test_every_evaluated_node_has_its_reason(tmp_path: Path) -> None:
    """Without a candidate, the pod's message has the reasons of each plugin, later ones by name."""
    none = document("Nobody", {"victim": "false"})
    config = profile(enabled=["Sparing", "Nobody"], disabled=["DefaultPreemption"])
    found = scheduler(tmp_path, [SPARING, none], config)
    runs(found, "kept", labels={"keep": "yes"})
    again = NOBODY.removeprefix(FULL)
    assert refused(decision(found)) == f"{NOBODY}, Nobody: {again}"


def test_a_policy_with_the_default_one_s_name(tmp_path: Path) -> None:
    """It takes its place in every profile, and takes the same arguments."""
    own = document("DefaultPreemption", SPARING["spec"]["preemption"])
    found = scheduler(tmp_path, [own], None)
    runs(found, "kept", labels={"keep": "yes"})
    assert refused(decision(found)) == NOBODY


def test_conditions_leave_the_policy_out(tmp_path: Path) -> None:
    """A pod that matchConditions exclude gets no message from it; the next plugin is called."""
    only = document("Only", {"victim": "true"}, matchConditions=['pod.labels[?"x"].hasValue()'])
    config = profile(enabled=["Only"], disabled=["DefaultPreemption"])
    found = scheduler(tmp_path, [only], config)
    runs(found, "important", priority=100)
    assert refused(decision(found)) == UNFIT
    assert evicted(decision(found, labels={"x": ""})) == ("Only", "n0", ["important"])


def test_a_rule_decides_which_pods_may_preempt(tmp_path: Path) -> None:
    """The message names the policy of the rule."""
    rich = document("Rich", {"eligible": "pod.priority > 100"})
    found = scheduler(tmp_path, [rich], profile(enabled=["Rich"], disabled=["DefaultPreemption"]))
    runs(found, "low")
    assert refused(decision(found)) == FULL + "not eligible due to a rule of Rich."
    assert evicted(decision(found, priority=101))[2] == ["low"]


def test_an_error_in_a_rule_is_an_error_of_the_attempt(tmp_path: Path) -> None:
    """No pod is evicted by a rule that failed."""
    wrong = document("Wrong", {"victim": 'victim.labels["team"] == "a"'})
    found = scheduler(tmp_path, [wrong], profile(enabled=["Wrong"], disabled=["DefaultPreemption"]))
    runs(found, "low")
    attempt = decision(found)
    assert "Wrong.preemption.victim: no such key 'team'" in str(attempt)
    assert not isinstance(attempt, Preempt)


def test_importance_may_depend_on_the_preemptor(tmp_path: Path) -> None:
    """Pods of the evicting pod's own namespace go first."""
    kin = document(
        "Kin",
        {"victimOrder": [{"expression": "victim.namespace == pod.namespace"}]},
    )
    config = profile(enabled=["Kin"], disabled=["DefaultPreemption"])
    found = scheduler(tmp_path, [kin], config)
    runs(found, "ours", cpu="500m", namespace="a")
    runs(found, "theirs", cpu="500m", namespace="b")
    for namespace, gone in (("a", "ours"), ("b", "theirs"), ("a", "ours")):
        kind = decision(found, cpu="500m", namespace=namespace)
        assert evicted(kind) == ("Kin", "n0", [gone])


@pytest.mark.parametrize(("order", "node"), [("Ascending", "n1"), ("Descending", "n0")])
def test_nodes_are_compared_by_the_keys(tmp_path: Path, order: str, node: str) -> None:
    """The smallest value wins, the largest if the order is descending."""
    cheap = document(
        "Cheap", {"nodeOrder": [{"expression": "victims.sum(v, v.priority)", "order": order}]}
    )
    config = profile(
        enabled=["Cheap"],
        disabled=["DefaultPreemption"],
        Cheap={"minCandidateNodesPercentage": 100},
    )
    cheap["spec"]["params"] = {"minCandidateNodesPercentage": 10}
    found = scheduler(tmp_path, [cheap], config, "n0", "n1")
    runs(found, "dear", "n0", priority=5)
    runs(found, "cheap", "n1", priority=4)
    assert evicted(decision(found))[1] == node


def test_time_is_the_scheduler_s(tmp_path: Path) -> None:
    """A rule may spare pods that started recently."""
    old = document("Old", {"victim": 'now - victim.startTime.orValue(now) > duration("1h")'})
    found = scheduler(tmp_path, [old], profile(enabled=["Old"], disabled=["DefaultPreemption"]))
    runs(found, "ancient", started="2001-01-01T00:00:00Z")
    assert evicted(decision(found)) == ("Old", "n0", ["ancient"])
    found = scheduler(tmp_path, [old], profile(enabled=["Old"], disabled=["DefaultPreemption"]))
    runs(found, "young", started="2261-01-01T00:00:00Z")
    assert refused(decision(found)) == NOBODY


def test_a_pod_that_has_not_started_does_not_look_old(tmp_path: Path) -> None:
    """Its start was read as 1970, so a rule that evicts pods older than an hour evicted it."""
    rules = (
        'now - victim.startTime.orValue(now) > duration("1h")',
        'victim.startTime.hasValue() && now - victim.startTime.value() > duration("1h")',
        'victim.startTime.optMap(t, now - t > duration("1h")).orValue(false)',
    )
    for rule in rules:
        config = profile(enabled=["Old"], disabled=["DefaultPreemption"])
        found = scheduler(tmp_path, [document("Old", {"victim": rule})], config)
        runs(found, "bound-and-not-started")
        assert refused(decision(found)) == NOBODY, rule


def test_a_start_that_may_be_missing_is_not_compared_without_saying_so(tmp_path: Path) -> None:
    """A rule that forgets pods that have not started is rejected, with a hint."""
    old = document("Old", {"victim": 'now - victim.startTime > duration("1h")'})
    with pytest.raises(PolicyError) as caught:
        scheduler(tmp_path, [old], profile(enabled=["Old"], disabled=["DefaultPreemption"]))
    (problem,) = caught.value.diagnostics
    assert (problem.code, "optional(timestamp)" in problem.message) == ("PS201", True)
    assert problem.hint is not None
    assert ".orValue(...)" in problem.hint


def test_a_preemptor_waits_for_its_victims(tmp_path: Path) -> None:
    """Whatever the rules: a pod whose victims terminate on its nominated node waits for them."""
    found = scheduler(tmp_path, [SPARING], ALONE)
    leaving = msgspec.to_builtins(make_pod("leaving", cpu="1", node_name="n0"))
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    leaving["status"]["conditions"] = [condition]
    pod = make_pod("x")
    found.cache.add_pod(PodInfo.of(msgspec.convert(leaving, type(pod))))
    new = PodInfo.of(make_pod("new", cpu="1", priority=10))
    found.handle.nominator.nominate(new, "n0")
    attempt = Attempt(QueuedPod(new), found.profiles["default-scheduler"])
    reported = decide(attempt, found.handle.nodes, Random(0))
    text = "not eligible due to a terminating pod on the nominated node."
    assert refused(reported) == FULL + text


def test_only_pods_above_the_lowest_may_evict() -> None:
    """The answer follows the pods on nodes; a policy of Never is respected."""
    world = World()
    preempting = Preempting(world.handle)
    pod = PodInfo.of(make_pod("p", priority=5))
    assert not preempting(pod)
    world.run("n0", "equal", priority=5)
    assert not preempting(pod)
    low = world.run("n1", "low", priority=-1)
    assert preempting(pod)
    assert not preempting(PodInfo.of(make_pod("q", priority=5, preemption_policy="Never")))
    world.cache.remove_pod(low)
    assert not preempting(pod)


def test_a_nominated_pod_is_retried_without_possible_victims() -> None:
    """Otherwise its nomination would reserve a node on which it does not fit any more."""
    world = World()
    preempting = Preempting(world.handle)
    pod = PodInfo.of(make_pod("p", priority=5))
    world.handle.nominator.nominate(pod, "n0")
    assert preempting(pod)
    world.handle.nominator.clear(pod.uid)
    assert not preempting(pod)
