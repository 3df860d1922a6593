"""Measures one search for the pods to evict, over all nodes of a generated cluster.

Theory of operation. The pod fits nowhere; filtering it is not timed. What is timed is PostFilter:
the dry run on every node (victims off, and back one by one), the disruption budgets, and the
choice of the best node. Nothing is evicted, so every search meets the same cluster. Before the
searches of the first half a node changes, and all nodes are dry run. Before those of the second
half a pod leaves a node and comes back: what is known of the other nodes still holds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from policy_sched.bench.in_process import loaded, quiet_collector
from policy_sched.bench.result import Result
from policy_sched.bench.workloads import DRY_RUN, pod_json
from policy_sched.framework import Diagnosis, PostFilterResult
from policy_sched.model import Pod, PodInfo
from policy_sched.profiles.load import load_policies
from policy_sched.scheduler import Scheduler

SHARE: Final = "minCandidateNodesPercentage"
#: kube-scheduler looks at a tenth of the nodes by default; here it is all of them.
CONFIG: Final[Mapping[str, object]] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "pluginConfig": [{"name": "DefaultPreemption", "args": {SHARE: 100}}],
        }
    ],
}


class DryRunTimes(Result, frozen=True):
    """Times of searches for victims, in milliseconds; ``victims`` left the best node."""

    nodes: int
    pods: int
    disruption_budgets: int
    searches: int
    victims: int
    median_ms: float
    p99_ms: float
    max_ms: float
    scratch_median_ms: float
    """The median of as many searches that begin from scratch."""
    note: str

    def text_lines(self) -> Iterator[str]:
        """Yield the result for people."""
        yield (
            f"{self.workload}: {self.nodes} nodes, {self.pods} pods, {self.disruption_budgets}"
            f" disruption budgets, {self.searches} searches"
        )
        yield f"  from scratch: median {self.scratch_median_ms:,.3f} ms, all nodes are dry run"
        yield (
            f"  after a change of one node's pods: median {self.median_ms:,.3f} ms   "
            f"p99 {self.p99_ms:,.3f} ms   max {self.max_ms:,.3f} ms   {self.victims} victims"
        )
        yield f"  note: {self.note}"


def run_dry_runs(nodes: int, searches: int, policies: Sequence[str] = ()) -> DryRunTimes:
    """Search so many times from scratch, and so many times after a change of one node's pods.

    Those of ``policies`` with a preemption section replace the default.
    """
    scheduler, pods = loaded(DRY_RUN, nodes, _config(policies), policies)
    scratch: list[int] = []
    times: list[int] = []
    victims = 0
    with quiet_collector():
        for index in range(searches):
            _change_node(scheduler, index % nodes, index)
            scratch.append(_searched(scheduler, index)[0])
        for index in range(searches):
            _touch(scheduler, index % nodes)
            took, result = _searched(scheduler, searches + index)
            times.append(took)
            victims = len(result.victims) if result is not None else 0
    median, p99, worst = np.percentile(times, (50, 99, 100)) / 1e6
    return DryRunTimes(
        workload=DRY_RUN.name,
        nodes=nodes,
        pods=pods,
        disruption_budgets=len(DRY_RUN.objects),
        searches=searches,
        victims=victims,
        median_ms=round(float(median), 3),
        p99_ms=round(float(p99), 3),
        max_ms=round(float(worst), 3),
        scratch_median_ms=round(float(np.median(scratch)) / 1e6, 3),
        note=DRY_RUN.note,
    )


def _config(policies: Sequence[str]) -> Mapping[str, object]:
    """Return a configuration in which policies of preemption, if there are any, search alone."""
    preempting = [
        loaded.model for loaded in load_policies(policies)[0] if loaded.model.spec.preemption
    ]
    if not preempting:
        return CONFIG
    plugins = {
        "enabled": [{"name": policy.metadata.name} for policy in preempting],
        "disabled": [{"name": "DefaultPreemption"}],
    }
    arguments = [
        {"name": policy.metadata.name, "args": {SHARE: 100}}
        for policy in preempting
        if SHARE in policy.spec.params
    ]
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {"multiPoint": plugins},
        "pluginConfig": arguments,
    }
    return {**CONFIG, "profiles": [profile]}


def _change_node(scheduler: Scheduler, row: int, index: int) -> None:
    """Give a node another annotation; nothing that is known of the nodes holds after it."""
    node = scheduler.cache.nodes.nodes[row]
    assert node is not None, "no node leaves"
    annotations = {**node.metadata.annotations, "bench": str(index)}
    scheduler.cache.update_node(
        replace(node, metadata=replace(node.metadata, annotations=annotations))
    )


def _touch(scheduler: Scheduler, row: int) -> None:
    """Let a pod of the row leave and come back."""
    pod = next(iter(scheduler.cache.nodes.pods_on(row).values()))
    scheduler.cache.remove_pod(pod)
    scheduler.cache.add_pod(pod)


def _searched(scheduler: Scheduler, index: int) -> tuple[int, PostFilterResult | None]:
    """Search for victims once; return nanoseconds and what was found."""
    pod = PodInfo.of(msgspec.json.decode(pod_json(DRY_RUN, index), type=Pod))
    profile = scheduler.profiles[pod.scheduler_name]
    evaluation = profile.evaluator.evaluate(pod)
    diagnosis = Diagnosis(scheduler.cache.nodes.live_count, evaluation.filtering.statuses())
    evaluation.state.write(evaluation.filtering)
    before = time.perf_counter_ns()
    result = profile.runner.run("post_filter", evaluation.state, pod, diagnosis).made_room
    return time.perf_counter_ns() - before, result
