"""Running pods that policies evict: which of them, in which order, and when."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from policy_sched.client.memory import MemoryClient
from policy_sched.errors import PluginError
from policy_sched.framework import Evictions, PodToEvict
from policy_sched.framework.runtime import Hook
from policy_sched.language import RuleError
from policy_sched.model import SECOND, PodInfo
from policy_sched.model.cluster_objects import PodDisruptionBudget
from policy_sched.scheduler import (
    EvictionRound,
    EvictionTimes,
    Scheduler,
    candidates,
    evict,
    eviction_rounds,
    in_turn,
)
from policy_sched.scheduler.setup.factory import assemble, read
from policy_sched.testing import make_node, make_pod

POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Batch}
spec:
  matchConditions: ['pod.namespace != "kube-system"']
  evict: {every: 1m, victim: 'int(pod.labels[?"age"].orValue("0")) > 3', most: 2MORE}
"""


def scheduler_of(folder: Path, *pods: PodInfo, more: str = "") -> Scheduler:
    """Return a scheduler with the policy, a node, and pods that run there."""
    (folder / "policy.yaml").write_text(POLICY.replace("MORE", more), encoding="utf-8")
    (folder / "config.yaml").write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {multiPoint: {enabled: [{name: Batch}]}}}]\n",
        encoding="utf-8",
    )
    plans, _ = read(str(folder / "config.yaml"), [str(folder / "policy.yaml")])
    scheduler = assemble(plans, client=MemoryClient())
    scheduler.cache.add_node(make_node("n0", cpu="20"))
    for pod in pods:
        scheduler.cache.add_pod(pod)
    return scheduler


def running(name: str, age: int = 0, **spec: object) -> PodInfo:
    """Return a pod that runs on the node."""
    given = {"labels": {"age": str(age)}, "node_name": "n0", **spec}
    return PodInfo.of(make_pod(name, cpu="1", started="2026-01-01T00:00:01Z", **given))  # type: ignore[arg-type]  # keywords of make_pod


def victims(scheduler: Scheduler) -> list[PodToEvict]:
    """Return those that may go, in turn; no rule fails."""
    (look,) = eviction_rounds(scheduler.profiles)
    pods = [pod for pod in scheduler.handle.pods.infos if pod is not None]
    judged = list(candidates(look, pods, scheduler.handle))
    chosen = [one for one in judged if isinstance(one, PodToEvict)]
    assert len(chosen) == len(judged)
    return list(in_turn(chosen, scheduler.handle))


def names(chosen: Sequence[PodToEvict]) -> list[str]:
    """Return the names of pods."""
    return [one.pod.name for one in chosen]


def test_a_plugin_whose_evictions_fail_evicts_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It ended the scheduler at its first look; others go on to evict."""

    def fail() -> Evictions:
        raise ValueError("no such pool")

    (profile,) = scheduler_of(tmp_path).profiles.values()
    pipeline = profile.pipeline
    hooks = {**pipeline.hooks, "evictions": (Hook("Broken", fail), *pipeline.at("evictions"))}
    broken = msgspec.structs.replace(
        profile, pipeline=msgspec.structs.replace(pipeline, hooks=hooks)
    )
    profiles = {"default-scheduler": broken}
    assert [look.plugin for look in eviction_rounds(profiles)] == ["Batch"]
    assert caplog.messages == ['running Evictions plugin "Broken": no such pool']


def test_a_pod_that_a_plugin_cannot_judge_stays(tmp_path: Path) -> None:
    """What a plugin in Python raised about one pod ended the scheduler."""

    def judge(pod: PodInfo, _node: str) -> PodToEvict:
        if pod.name == "a":
            raise PluginError('plugin "X": the judge of evictions raised KeyError')
        return PodToEvict(pod)

    pods = [running("a"), running("b")]
    look = EvictionRound("default-scheduler", "X", Evictions(SECOND, 1, judge))
    error, victim = candidates(look, pods, scheduler_of(tmp_path, *pods).handle)
    assert isinstance(error, RuleError)
    assert isinstance(victim, PodToEvict)
    assert victim.pod.name == "b"


def test_pods_go_by_the_order_then_priority_then_age(tmp_path: Path) -> None:
    """The least priority goes first; a key that the policy states comes before that."""
    pods = [running("a", 5, priority=1), running("b", 6), running("c", 9), running("d", 1)]
    assert names(victims(scheduler_of(tmp_path, *pods))) == ["b", "c", "a"]
    order = ", order: [{expression: 'int(pod.labels[\"age\"])', order: Descending}]"
    assert names(victims(scheduler_of(tmp_path, *pods, more=order))) == ["c", "b", "a"]


def test_pods_of_others_and_those_that_end_stay(tmp_path: Path) -> None:
    """A pod of another scheduler, one that matchConditions leave out, one that terminates."""
    leaving = msgspec.to_builtins(make_pod("leaving", node_name="n0", labels={"age": "9"}))
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    pods = [
        running("ours", 9),
        running("theirs", 9, scheduler_name="other"),
        running("system", 9, namespace="kube-system"),
        PodInfo.of(msgspec.convert(leaving, type(make_pod("x")))),
    ]
    scheduler = scheduler_of(tmp_path, *pods)
    assert names(victims(scheduler)) == ["ours"]
    scheduler.cache.remove_pod(pods[0])
    (look,) = eviction_rounds(scheduler.profiles)
    assert not list(candidates(look, pods, scheduler.handle))


def budget(allowed: int, **labels: str) -> PodDisruptionBudget:
    """Return a budget of the pods with these labels."""
    given = {
        "metadata": {"name": "b" + "".join(labels.values()), "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed},
    }
    return msgspec.convert(given, PodDisruptionBudget)


def test_budgets_hold_for_all_pods_of_a_look(tmp_path: Path) -> None:
    """Two pods of a budget that lets one go: the second is passed over for another pod."""
    tagged = {"labels": {"age": "9", "app": "web"}}
    pods = [running("web-1", **tagged), running("web-2", **tagged), running("x", 5, priority=3)]
    scheduler = scheduler_of(tmp_path, *pods)
    scheduler.handle.objects.put(budget(1, app="web"))
    assert names(victims(scheduler)) == ["web-1", "x"]
    scheduler.handle.objects.put(budget(0, app="web"))
    assert names(victims(scheduler)) == ["x"]


def test_a_rule_that_fails_keeps_the_pod_and_is_told(tmp_path: Path) -> None:
    """A label that is no number: the other pods are judged all the same."""
    scheduler = scheduler_of(tmp_path, running("odd", labels={"age": "old"}), running("b", 6))
    (look,) = eviction_rounds(scheduler.profiles)
    pods = [pod for pod in scheduler.handle.pods.infos if pod is not None]
    judged = [str(one) for one in candidates(look, pods, scheduler.handle)]
    assert judged[0].startswith("rule Batch.evict: ")
    assert len(judged) == 2


def test_a_look_follows_a_whole_interval_after_the_plugin_came(tmp_path: Path) -> None:
    """A start evicts nothing; looks do not pile up while nobody asks."""
    scheduler, times = scheduler_of(tmp_path), EvictionTimes()
    start, minute = 10**18, 60 * SECOND
    assert times.next is None
    assert times.take(scheduler.profiles, start) == []
    assert times.next == start + minute
    assert times.take(scheduler.profiles, start + minute - 1) == []
    (look,) = times.take(scheduler.profiles, start + 5 * minute)
    assert (look.profile, look.plugin, look.rules.most) == ("default-scheduler", "Batch", 2)
    assert times.next == start + 6 * minute
    assert times.take({}, start + 6 * minute) == []
    assert times.next is None


def test_an_eviction_is_a_deletion_within_budgets_and_an_event(tmp_path: Path) -> None:
    """The request names the subresource; the event says why."""
    more = ", message: it is old"
    scheduler = scheduler_of(tmp_path, running("old", 9), more=more)
    client = scheduler.handle.client
    assert isinstance(client, MemoryClient)
    (victim,) = victims(scheduler)
    (look,) = eviction_rounds(scheduler.profiles)
    errors: list[object] = []
    evict(victim, look, scheduler.handle, errors.append)
    assert errors == [None]
    assert client.deleted == [victim.pod.uid]
    (event,) = client.events
    assert (event.pod, event.reason, event.note) == ("default/old", "Evicted", "it is old")
    assert isinstance(look, EvictionRound)
