"""Jobs: pods until so many have succeeded, or too many have failed.

The numbers of a job.
"""

from __future__ import annotations

from policy_sched.client.apimachinery.resources import JOB, POD
from policy_sched.embedded.controllers.jobs import backoff, pods_wanted
from policy_sched.scheduler import api_calls
from policy_sched.testing import SECOND
from tests.embedded.world import Plain, World, pod_spec, workload


def job(duration: str = "10s", **spec: object) -> Plain:
    """Return a job whose pods run for a while; "" if they run on."""
    made = workload("Job", "sum", template=pod_spec(restartPolicy="Never"), **spec)
    if duration:
        annotations = {"policysched.dev/duration": duration}
        made["spec"]["template"]["metadata"]["annotations"] = annotations
    return made


def conditions(world: World) -> list[str]:
    """Return the job's conditions, with their reasons."""
    stored = world.status(JOB, "sum").get("conditions", [])
    return [f"{c['type']} {c['reason']}" for c in stored]


def test_a_job_runs_its_pods_to_the_end() -> None:
    """So many at a time, until so many have succeeded; then it is complete."""
    world = World()
    world.cluster.apply(job(completions=5, parallelism=2))
    world.run(5)
    assert world.phases() == ["Running", "Running"]
    world.run(60)
    assert world.phases() == ["Succeeded"] * 5
    status = world.status(JOB, "sum")
    assert (status["succeeded"], status.get("active", 0)) == (5, 0)
    assert conditions(world) == [
        "SuccessCriteriaMet CompletionsReached",
        "Complete CompletionsReached",
    ]
    assert all(not pod.data["metadata"].get("finalizers") for pod in world.pods())
    assert world.cluster.next_wakeup() is None


def test_a_job_of_one_pod_is_the_default() -> None:
    """Neither number is given."""
    world = World()
    world.cluster.apply(job())
    world.run(30)
    assert world.phases() == ["Succeeded"]
    assert world.status(JOB, "sum")["succeeded"] == 1


def test_indexed_pods_have_numbers() -> None:
    """Each index succeeds once; the status lists them."""
    world = World()
    world.cluster.apply(job(completions=4, parallelism=3, completionMode="Indexed"))
    world.run(5)
    world.fail(world.names()[1])
    world.run(90)
    status = world.status(JOB, "sum")
    assert (status["completedIndexes"], status["succeeded"], status["failed"]) == ("0-3", 4, 1)
    key = "batch.kubernetes.io/job-completion-index"
    assert sorted(pod.labels[key] for pod in world.pods()) == ["0", "1", "1", "2", "3"]


def test_failed_pods_are_replaced_ever_later_until_it_is_enough() -> None:
    """Ten seconds, then twenty; after the limit the job has failed."""
    world = World()
    world.cluster.apply(job("", backoffLimit=2))
    for waits in (10, 20):
        world.run(2)
        world.fail(next(n for n in world.names() if world.pod(n).status.phase == "Running"))
        failed = len(world.names())
        world.run(waits - 0.5)
        assert len(world.names()) == failed
        world.run(0.5)
        assert len(world.names()) == failed + 1
    world.run(2)
    world.fail(next(n for n in world.names() if world.pod(n).status.phase == "Running"))
    world.run(600)
    assert world.phases() == ["Failed"] * 3
    assert world.status(JOB, "sum")["failed"] == 3
    assert conditions(world)[-1] == "Failed BackoffLimitExceeded"


def test_a_deleted_pod_is_replaced_and_counts_as_failed() -> None:
    """Unless the pod failure policy ignores disruptions."""
    for policy, failed in ((None, 1), ("Ignore", 0)):
        world = World(stop=0)
        given = job("")
        if policy:
            pattern = [{"type": "DisruptionTarget"}]
            rules = {"rules": [{"action": policy, "onPodConditions": pattern}]}
            given["spec"]["podFailurePolicy"] = rules
        world.cluster.apply(given)
        world.run(2)
        (name,) = world.names()
        world.client.send(
            api_calls.disruption_target(world.info(name), "preempted", world.clock.ns)
        )
        world.client.send(api_calls.pod_deletion(world.info(name)))
        world.run(2)
        assert world.phases() == ["Running"]
        assert world.names() != [name]
        assert world.status(JOB, "sum").get("failed", 0) == failed


def test_a_work_queue_ends_with_its_pods() -> None:
    """Without completions: after the first success no more are made, the others finish."""
    world = World()
    world.cluster.apply(job("", parallelism=3))
    world.run(2)
    first, second, third = world.names()
    for name in (first, second):
        _succeed(world, name)
        world.run(1)
        assert len(world.names()) == 3
        assert conditions(world) == []
    _succeed(world, third)
    world.run(1)
    assert conditions(world)[-1] == "Complete CompletionsReached"


def _succeed(world: World, name: str) -> None:
    stored = world.store.get(POD, "default", name)
    data = stored.data
    data["status"]["phase"] = "Succeeded"
    world.store.update(data, "status")


def test_a_changed_parallelism_and_a_pause_are_followed() -> None:
    """Pods that are dismissed do not count as failed."""
    world = World(stop=0)
    world.cluster.apply(job("", completions=10, parallelism=4))
    world.run(2)
    for parallelism, suspend, running in ((2, False, 2), (3, True, 0), (3, False, 3)):
        world.cluster.apply(job("", completions=10, parallelism=parallelism, suspend=suspend))
        world.run(2)
        assert world.phases() == ["Running"] * running
    assert "failed" not in world.status(JOB, "sum")


def test_a_job_has_a_deadline_and_a_time_to_live() -> None:
    """Too late it fails; some time after its end it goes, and its pods with it."""
    world = World(stop=0)
    world.cluster.apply(job("", activeDeadlineSeconds=20, ttlSecondsAfterFinished=30))
    world.run(21)
    assert conditions(world)[-1] == "Failed DeadlineExceeded"
    assert world.names() == []
    world.run(30)
    assert world.store.select(JOB) == []


def test_a_job_that_is_deleted_lets_its_pods_go() -> None:
    """Nothing keeps them once their grace period is over."""
    world = World()
    world.cluster.apply(job("", completions=2, parallelism=2))
    world.run(2)
    world.delete(JOB, "sum")
    world.run(31)
    assert world.names() == []


def test_the_wait_doubles_up_to_ten_minutes() -> None:
    """Nothing to wait for before the first failure."""
    waits = [backoff(failures) // SECOND for failures in range(9)]
    assert waits == [0, 10, 20, 40, 80, 160, 320, 600, 600]


def test_as_many_run_as_are_still_wanted() -> None:
    """The parallelism, or what is left to do."""
    spec = {"completions": 5, "parallelism": 3}
    assert [pods_wanted(spec, done) for done in range(7)] == [3, 3, 3, 2, 1, 0, 0]
    queue = {"parallelism": 3}
    assert [pods_wanted(queue, done) for done in range(3)] == [3, 0, 0]
