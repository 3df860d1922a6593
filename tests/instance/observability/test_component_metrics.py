"""Metrics that every component has: work queues, gates, the platform."""

from __future__ import annotations

import platform

from policy_sched.client.kube.time.work_queue import WorkQueueMetrics
from policy_sched.instance.observability.kube_scheduler_metrics import UpstreamMetrics
from policy_sched.instance.observability.registry import Metrics, machine
from policy_sched.testing import FakeClock
from tests.instance.observability.test_scheduling_metrics import Measured
from tests.scheduler.world import pod_of


def test_work_waits_and_takes_time() -> None:
    """Waiting items are depth, items in progress unfinished work; others have a duration."""
    clock = FakeClock()
    queue, families = WorkQueueMetrics("events", clock), UpstreamMetrics()
    first, second = queue.added(), queue.added()
    clock.advance(2)
    number = queue.begun(first)
    queue.retries += 1
    clock.advance(3)
    families.look_at_queues([queue])
    name = ("events",)
    assert families.workqueue_adds_total.values[name] == 2
    assert families.workqueue_depth.values[name] == 1
    assert families.workqueue_retries_total.values[name] == 1
    assert families.workqueue_unfinished_work_seconds.values[name] == 3
    assert families.workqueue_longest_running_processor_seconds.values[name] == 3
    assert families.workqueue_queue_duration_seconds.total("events") == 2
    queue.done(number)
    queue.done(queue.begun(second))
    families.look_at_queues([queue])
    assert families.workqueue_depth.values[name] == 0
    assert families.workqueue_unfinished_work_seconds.values[name] == 0
    assert families.workqueue_work_duration_seconds.total("events") == 3
    assert families.workqueue_work_duration_seconds.count("events") == 2


def test_what_is_given_up_is_not_unfinished() -> None:
    """And it has no duration when it ends after that."""
    queue = WorkQueueMetrics("events", FakeClock())
    number = queue.begun(queue.added())
    queue.added()
    queue.given_up()
    queue.done(number)
    assert (queue.depth, queue.running(), list(queue.took)) == (0, [], [])


def test_the_platform_is_as_go_names_it() -> None:
    """It was linux/x86_64, where every other component says linux/amd64."""
    known = {"x86_64": "amd64", "aarch64": "arm64"}
    name = platform.machine()
    assert machine() == f"{platform.system().lower()}/{known.get(name, name)}"
    assert f'platform="{machine()}"' in Metrics().text()


def test_features_are_reported_with_their_stage() -> None:
    """GA has none, as in component-base."""
    text = Metrics().text()
    assert 'kubernetes_feature_enabled{name="SchedulerQueueingHints",stage=""} 1.0\n' in text
    assert 'kubernetes_feature_enabled{name="SchedulerAsyncAPICalls",stage="BETA"} 0.0\n' in text


def test_sign_pod_and_pre_bind_pre_flight_are_extension_points() -> None:
    """Each pod is signed, and PreBind plugins report beforehand whether they have work."""
    world = Measured(cpu="1")
    world.schedule(pod_of("p"))
    text = world.metrics.text()
    name = "scheduler_framework_extension_point_duration_seconds_count"
    profile = 'profile="default-scheduler"'
    for point, status in (("Sign", "Success"), ("PreBindPreFlight", "Skip")):
        labels = f'extension_point="{point}",{profile},status="{status}"'
        assert f"{name}{{{labels}}} 1.0\n" in text, point
