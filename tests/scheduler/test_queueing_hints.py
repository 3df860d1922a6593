"""Events that plugins are woken by which state none."""

from __future__ import annotations

from msgspec.structs import replace

from policy_sched.framework import PermitResult
from policy_sched.framework.runtime import Hook, Runner
from policy_sched.model import PodInfo, QueuedPod
from policy_sched.queue.changes import pod_changes
from policy_sched.queue.hints import Strategy
from policy_sched.scheduler.queueing_hints import queue_hints
from policy_sched.scheduler.setup.factory import build
from policy_sched.testing import make_pod
from tests.queue.pods import queued


def rejected(pod: PodInfo) -> QueuedPod:
    """Return a pod that the plugin rejected."""
    waiting = queued()
    waiting.info, waiting.rejected_by = pod, frozenset({"Silent"})
    return waiting


def test_a_pod_does_not_wake_itself_by_being_nominated() -> None:
    """A pod that Permit let wait and then rejected was tried a hundred times a second.

    The plugin stated no events, and each attempt wrote the pod's nominated node and cleared it.
    """
    (profile,) = build(None).profiles.values()
    hooks = {**profile.pipeline.hooks, "permit": (Hook("Silent", PermitResult),)}
    pipeline = replace(profile.pipeline, hooks=hooks)
    silent = replace(profile, pipeline=pipeline, runner=Runner(pipeline))
    table = queue_hints({"default-scheduler": silent})
    pod, other = make_pod("p"), PodInfo.of(make_pod("other"))
    before = PodInfo.of(pod)
    nominated = replace(pod, status=replace(pod.status, nominated_node_name="n"))
    labelled = replace(nominated, metadata=replace(pod.metadata, labels={"a": "b"}))
    for after, waiting, strategy in (
        (nominated, before, Strategy.SKIP),
        (nominated, other, Strategy.AFTER_BACKOFF),
        (labelled, before, Strategy.AFTER_BACKOFF),
    ):
        later = PodInfo.of(after)
        judged = {
            table.judge(rejected(waiting), event, before, later)
            for event in pod_changes(before, later)
        }
        assert judged == {strategy}
