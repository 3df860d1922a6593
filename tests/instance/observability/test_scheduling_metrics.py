"""The metrics of attempts: a scheduler, its page, and a clock that is set by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from policy_sched.client.request import ObjectRequest, ObjectResponse
from policy_sched.errors import ClusterError
from policy_sched.framework import status
from policy_sched.framework.results import PermitResult
from policy_sched.instance.observability.log import DecisionLog, VerboseLogging
from policy_sched.instance.observability.registry import Metrics
from policy_sched.model.cluster_event import NODE_ADD
from policy_sched.model.pod_info import PodInfo
from policy_sched.queue.backoff import SECOND
from policy_sched.scheduler.event_handlers import node_gone, node_seen, pod_gone, pod_seen
from policy_sched.scheduler.scheduler import Outcome
from policy_sched.scheduler.setup.factory import EPOCH
from policy_sched.testing import FakeClock, make_node
from tests.scheduler.test_pod_group_cycle import Run, group, member
from tests.scheduler.world import Recorder, SlowClient, pod_of, scheduler_of

PROFILE = ("profile", "default-scheduler")


class Measured:
    """A scheduler whose metrics are read as Prometheus reads them."""

    def __init__(
        self,
        *plugins: object,
        client: SlowClient | None = None,
        cpu: str = "4",
        watched: bool = True,
    ) -> None:
        self.clock = FakeClock(EPOCH)
        self.metrics = Metrics(lambda: self.clock.ns / SECOND)
        self.log: list[str] = []
        self.scheduler = scheduler_of(
            *plugins,
            cpu=cpu,
            client=client,
            now=self.clock,
            runner_of=self.metrics.attempts.runner,
        )
        if watched:
            self.metrics.watch(self.scheduler)

    def pass_time(self, seconds: float) -> None:
        """Advance the clock."""
        self.clock.ns += round(seconds * SECOND)

    def schedule(self, pod: PodInfo | None = None) -> Outcome | None:
        """Queue a pod and decide one."""
        if pod is not None:
            self.scheduler.add_pod(pod)
        outcome = self.scheduler.schedule_one()
        if outcome is not None:
            self.metrics.decided(outcome, self.clock.ns)
        return outcome

    def tick(self) -> None:
        """Run what is due."""
        for outcome in self.scheduler.run_due():
            self.metrics.decided(outcome, self.clock.ns)

    def page(self) -> dict[str, float]:
        """Return all samples but buckets, as ``name{label=value,...}`` in the order of labels."""
        found = {}
        for family in text_string_to_metric_families(self.metrics.text()):
            for sample in family.samples:
                if not sample.name.endswith("_bucket"):
                    labels = ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()))
                    found[f"{sample.name.removeprefix('scheduler_')}{{{labels}}}"] = sample.value
        return found


def test_a_bound_pod_is_counted_with_all_its_durations() -> None:
    """The attempt lasts until the binding is answered; the pod's wait begins when it is ready.

    A step that took the response in later made the binding seem slower.
    """
    client = SlowClient()
    world = Measured(client=client)
    world.scheduler.add_pod(pod_of("p"))
    world.pass_time(2)
    outcome = world.schedule()
    assert outcome is not None
    assert outcome.waiting
    page = world.page()
    assert page["goroutines{operation=binding}"] == 1
    assert page["cache_size{type=assumed_pods}"] == 1
    assert page["scheduling_algorithm_duration_seconds_count{}"] == 1
    assert "schedule_attempts_total{profile=default-scheduler,result=scheduled}" not in page
    world.pass_time(0.5)
    client.pending["p"]()
    world.pass_time(0.25)  # until a step takes it in
    world.tick()
    page = world.page()
    attempt = "{profile=default-scheduler,result=scheduled}"
    assert page[f"schedule_attempts_total{attempt}"] == 1
    assert page[f"scheduling_attempt_duration_seconds_sum{attempt}"] == 0.5
    assert page["scheduling_algorithm_duration_seconds_sum{}"] == 0
    assert page["pod_scheduling_sli_duration_seconds_sum{attempts=1}"] == 2.5
    assert page["pod_scheduling_attempts_sum{}"] == 1
    assert page["goroutines{operation=binding}"] == 0
    bind = "{extension_point=Bind,profile=default-scheduler,status=Success}"
    assert page[f"framework_extension_point_duration_seconds_sum{bind}"] == 0.5
    assert page["pod_scheduled_after_flush_total{}"] == 0


def test_every_point_is_observed_once_for_each_attempt() -> None:
    """Pods that share the results of an earlier one included."""
    world = Measured()
    world.schedule(pod_of("p"))
    world.schedule(pod_of("q"))
    page = world.page()
    for point in ("PreEnqueue", "Filter", "Score", "Reserve", "Permit", "PreBind", "Bind"):
        labels = f"{{extension_point={point},profile=default-scheduler,status=Success}}"
        assert page[f"framework_extension_point_duration_seconds_count{labels}"] == 2, point
    assert page["batch_attempts_total{profile=default-scheduler,result=no_hint}"] == 1
    assert page["batch_attempts_total{profile=default-scheduler,result=hint_used}"] == 1
    fit = "{extension_point=Filter,plugin=NodeResourcesFit,profile=default-scheduler}"
    assert page[f"plugin_evaluation_total{fit}"] == 2
    ports = "{extension_point=Filter,plugin=NodePorts,profile=default-scheduler}"
    assert f"plugin_evaluation_total{ports}" not in page  # PreFilter left it out


def test_plugins_are_measured_in_one_cycle_of_ten() -> None:
    """The tenth, and no other."""
    world = Measured()
    found = []
    for number in range(1, 21):
        world.schedule(pod_of(f"p{number}", cpu="1m"))
        labels = "{extension_point=Filter,plugin=NodeResourcesFit,status=Success}"
        found.append(world.page().get(f"plugin_execution_duration_seconds_count{labels}", 0))
    assert found == [0] * 9 + [1] * 10 + [2]


def test_an_unschedulable_pod_is_counted_under_the_rejecting_plugins() -> None:
    """Until it is popped again; a requeue is counted by queue and event.

    Dashboards of kube-scheduler found no series: the queues were Active, Backoff, Unschedulable.
    """
    world = Measured(cpu="1")
    world.schedule(pod_of("p", cpu="2"))
    page = world.page()
    assert page["schedule_attempts_total{profile=default-scheduler,result=unschedulable}"] == 1
    assert page["unschedulable_pods{plugin=NodeResourcesFit,profile=default-scheduler}"] == 1
    assert page["pending_pods{queue=unschedulable}"] == 1
    assert page["queue_incoming_pods_total{event=UnschedulablePodAdd,queue=active}"] == 1
    failed = "{event=ScheduleAttemptFailure,queue=unschedulable}"
    assert page[f"queue_incoming_pods_total{failed}"] == 1
    assert page["preemption_attempts_total{}"] == 1
    assert page["preemption_victims_count{}"] == 0
    events = node_seen(world.scheduler, make_node("big", cpu="8"))
    world.metrics.attempts.happened(events, 0.25)
    page = world.page()
    assert page["pending_pods{queue=backoff}"] == 1
    assert page["queue_incoming_pods_total{event=NodeAdd,queue=backoff}"] == 1
    assert page["event_handling_duration_seconds_sum{event=NodeAdd}"] == 0.25
    hint = "{event=NodeAdd,hint=Queue,plugin=NodeResourcesFit}"
    assert page[f"queueing_hint_execution_duration_seconds_count{hint}"] == 1
    world.pass_time(3)
    world.tick()
    world.schedule()
    page = world.page()
    assert page["unschedulable_pods{plugin=NodeResourcesFit,profile=default-scheduler}"] == 0
    assert page["pod_scheduling_sli_duration_seconds_sum{attempts=2}"] == 3
    assert page["pod_scheduling_attempts_sum{}"] == 2


def test_a_pod_requeued_by_the_timeout_and_bound_is_counted() -> None:
    """It was requeued by the timeout: a hint may be missing."""
    world = Measured(cpu="1")
    world.schedule(pod_of("p", cpu="2"))
    world.scheduler.cache.add_node(make_node("big", cpu="8"))  # without an event
    world.pass_time(400)
    world.tick()
    world.schedule()
    assert world.page()["pod_scheduled_after_flush_total{}"] == 1


def test_victims_and_the_work_of_evicting_them_are_counted() -> None:
    """One attempt that found a candidate, with its victims."""
    world = Measured(cpu="1")
    world.schedule(pod_of("low"))
    world.schedule(pod_of("high", priority=10))
    page = world.page()
    assert page["preemption_attempts_total{}"] == 1
    assert (page["preemption_victims_count{}"], page["preemption_victims_sum{}"]) == (1, 1)
    assert page["preemption_goroutines_execution_total{result=success}"] == 1
    assert page["preemption_goroutines_duration_seconds_count{result=success}"] == 1


def test_an_eviction_that_fails_is_an_error() -> None:
    """The cluster rejects the deletion of the victim."""

    class Refusing(SlowClient):
        def send(self, request: ObjectRequest, done: ObjectResponse | None = None) -> None:
            if request.verb == "delete":
                raise ClusterError(f"no, not {request.name}")
            super().send(request, done)

    client = Refusing()
    world = Measured(client=client, cpu="1")
    world.schedule(pod_of("low"))
    client.pending["low"]()
    world.tick()
    world.schedule(pod_of("high", priority=10))
    page = world.page()
    assert page["preemption_goroutines_execution_total{result=error}"] == 1


@pytest.mark.parametrize("log_first", [False, True])
def test_the_order_of_metrics_and_log_makes_no_difference(*, log_first: bool) -> None:
    """Metrics that were attached behind the verbose log took its messages off the scheduler."""
    records: list[str] = []
    world = Measured(cpu="1", watched=not log_first)
    log = DecisionLog(lambda record: records.append(record["msg"]), world.clock)
    log.verbosity.set(3)
    VerboseLogging(world.scheduler, log)
    if log_first:
        world.metrics.watch(world.scheduler)
    world.schedule(pod_of("low"))
    world.schedule(pod_of("high", priority=10))
    attempts = ["Attempting to schedule pod"] * 2
    assert records == [*attempts, "Preemptor Pod preempted victim Pod"]
    page = world.page()
    assert page["preemption_goroutines_execution_total{result=success}"] == 1
    assert page["scheduling_algorithm_duration_seconds_count{}"] == 2


@pytest.mark.parametrize(("answer", "result"), [("allow", "Success"), ("reject", "Unschedulable")])
def test_a_wait_for_permission_is_measured(answer: str, result: str) -> None:
    """From its beginning to its end, for whatever reason."""
    world = Measured(Recorder("a", [], permit=PermitResult(status.WAIT, 60)))
    world.schedule(pod_of("p"))
    world.pass_time(4)
    waiting = world.scheduler.handle.waiting_pods.get("default/p")
    assert waiting is not None
    if answer == "allow":
        waiting.allow("x0")
    else:
        waiting.reject("x0", "no")
    world.tick()
    page = world.page()
    assert page[f"permit_wait_duration_seconds_sum{{result={result}}}"] == 4


def test_an_exception_is_an_error() -> None:
    """An exception of a plugin is not a rejection."""
    broken = status.Status(status.Code.ERROR, ("disk on fire",))
    world = Measured(Recorder("a", [], pre_bind=broken))
    world.schedule(pod_of("p"))
    page = world.page()
    assert page["schedule_attempts_total{profile=default-scheduler,result=error}"] == 1
    pre_bind = "{extension_point=PreBind,profile=default-scheduler,status=Error}"
    assert page[f"framework_extension_point_duration_seconds_count{pre_bind}"] == 1
    unreserve = "{extension_point=Unreserve,profile=default-scheduler,status=Success}"
    assert page[f"framework_extension_point_duration_seconds_count{unreserve}"] == 1


def test_a_terminating_pod_is_no_attempt() -> None:
    """It was skipped."""
    world = Measured()
    leaving = pod_of("p")
    leaving.terminating = True
    world.schedule(leaving)
    assert not [key for key in world.page() if key.startswith("schedule_attempts_total{")]


def test_errors_of_the_volume_binder_are_counted_by_stage() -> None:
    """Those of its PreBind are of the stage bind, those of its Filter of predicate."""
    world = Measured()
    world.schedule(pod_of("p"))
    recorder = world.metrics.attempts._recorders["default-scheduler"]
    recorder.broken["VolumeBinding", "Filter"] += 1
    recorder.broken["VolumeBinding", "PreBind"] += 2
    page = world.page()
    assert page["volume_scheduling_stage_error_total{operation=predicate}"] == 1
    assert page["volume_scheduling_stage_error_total{operation=bind}"] == 2


def test_nothing_is_counted_twice_and_an_explanation_not_at_all() -> None:
    """A page shows the totals; a dry run does not count."""
    world = Measured()
    world.schedule(pod_of("p"))
    before = world.page()
    with world.metrics.unmeasured():
        profile = world.scheduler.profiles["default-scheduler"]
        profile.evaluator.evaluate(pod_of("q"))
    after = world.page()
    changing = ("process_", "python_")
    assert {k: v for k, v in before.items() if not k.startswith(changing)} == {
        k: v for k, v in after.items() if not k.startswith(changing)
    }


@pytest.mark.parametrize("attempts", [1, 14, 15, 40])
def test_many_attempts_are_one_label(attempts: int) -> None:
    """From fifteen on."""
    world = Measured()
    queued = world.scheduler.queue.add(pod_of("p"))
    queued.attempts = attempts - 1
    world.schedule()
    label = "15+" if attempts >= 15 else str(attempts)
    assert world.page()[f"pod_scheduling_sli_duration_seconds_count{{attempts={label}}}"] == 1


def test_watch_events_are_counted_by_type() -> None:
    """Handlers return the events that they passed on, none for other schedulers' pods."""
    scheduler = scheduler_of(nodes=0)
    node, reported = make_node("n"), [event.label for event in node_seen(scheduler, make_node("n"))]
    assert reported == [NODE_ADD.label]

    def labels(seen: Callable[..., tuple[object, ...]], thing: object) -> list[str]:
        return [event.label for event in seen(scheduler, thing)]  # type: ignore[attr-defined]  # events

    assert labels(node_seen, node) == []
    assert labels(node_seen, make_node("n", labels={"a": "b"})) == ["NodeUpdateNodeLabel"]
    assert labels(pod_seen, pod_of("p")) == ["UnschedulablePodAdd"]
    assert labels(pod_seen, pod_of("p", labels={"a": "b"})) == ["UnschedulablePodUpdate"]
    assert labels(pod_seen, pod_of("p", node_name="n")) == ["AssignedPodAdd"]
    assert labels(pod_gone, pod_of("p", node_name="n")) == ["AssignedPodDelete"]
    assert labels(pod_gone, pod_of("p", node_name="n")) == []
    assert labels(pod_seen, pod_of("q", scheduler_name="another")) == []
    assert labels(pod_seen, pod_of("q")) == ["UnschedulablePodAdd"]
    assert labels(pod_gone, pod_of("q")) == ["UnschedulablePodDelete"]
    assert labels(node_gone, make_node("n")) == ["NodeDelete"]


def test_a_group_that_is_decided_as_one_is_an_attempt_of_its_own() -> None:
    """Besides those of its pods, which last as long as the group's."""
    run = Run(group("ring", 2), group("big", 1), a=[4])
    clock = FakeClock(EPOCH)
    metrics = Metrics(lambda: clock.ns / SECOND)
    metrics.watch(run.scheduler)
    run.add(member("p"), member("q"))
    while (outcome := run.scheduler.schedule_one()) is not None:
        clock.ns += SECOND
        for one in (outcome, *outcome.others):
            metrics.decided(one, clock.ns)
    for late in run.scheduler.run_due():  # the first waited for the second
        metrics.decided(late, clock.ns)
    run.add(member("r", "big", cpu="64"))
    while (outcome := run.scheduler.schedule_one()) is not None:
        for one in (outcome, *outcome.others):
            metrics.decided(one, clock.ns)
    metrics.text()
    upstream = metrics.upstream
    assert dict(upstream.podgroup_schedule_attempts_total.values) == {
        ("scheduled", "default-scheduler"): 1,
        ("unschedulable", "default-scheduler"): 1,
    }
    assert upstream.podgroup_scheduling_algorithm_duration_seconds.count() == 2
    group_took = upstream.podgroup_scheduling_attempt_duration_seconds
    assert group_took.count("scheduled", "default-scheduler") == 1
    took = upstream.scheduling_attempt_duration_seconds
    labels = ("scheduled", "default-scheduler")
    assert (took.count(*labels), took.total(*labels)) == (2, 2.0)


def test_a_reload_that_is_refused_leaves_the_runners_in_force() -> None:
    """Runners of a rejected reload measure nothing, and those in force are still read."""
    world = Measured()
    pipeline = world.scheduler.profiles["default-scheduler"].pipeline
    made = world.metrics.attempts.runner(pipeline)
    for number in range(10):
        world.schedule(pod_of(f"p{number}", cpu="1m"))
    page = world.page()
    fit = "{extension_point=Filter,plugin=NodeResourcesFit,profile=default-scheduler}"
    assert page[f"plugin_evaluation_total{fit}"] == 10
    sampled = "{extension_point=Filter,plugin=NodeResourcesFit,status=Success}"
    assert page[f"plugin_execution_duration_seconds_count{sampled}"] == 1
    assert made.evaluations == []


def test_measures_are_folded_before_they_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even without a scrape."""
    monkeypatch.setattr("policy_sched.instance.observability.registry.FOLDED_AFTER", 2)
    world = Measured(Recorder("a", [], reserve=status.SUCCESS))
    for name in "pqr":
        world.schedule(pod_of(name))
    family = world.metrics.upstream.schedule_attempts_total
    assert dict(family.values) == {("scheduled", "default-scheduler"): 2}
