"""What kube-scheduler counts of resource claims."""

from __future__ import annotations

from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from policy_sched.instance.observability.registry import Metrics
from policy_sched.model import AllocatedDeviceStatus, Condition
from policy_sched.scheduler import Scheduler, object_seen
from policy_sched.scheduler.setup.factory import EPOCH
from policy_sched.testing import FakeClock
from tests.plugins.dynamicresources import world

SECOND = 10**9


def _samples(metrics: Metrics, name: str) -> dict[tuple[str, ...], float]:
    """Return the samples of a name by the values of their labels, in the order of the labels."""
    found = {}
    for family in text_string_to_metric_families(metrics.text()):
        for sample in family.samples:
            if sample.name == name:
                found[tuple(value for _, value in sorted(sample.labels.items()))] = sample.value
    return found


def _measured(scheduler: Scheduler) -> Metrics:
    metrics = Metrics(lambda: 0.0)
    metrics.watch(scheduler)
    return metrics


def test_claims_made_for_extended_resources_are_counted() -> None:
    """Each pod that devices serve has one."""
    served = world.device_class(extendedResourceName="example.com/gpu")
    scheduler = world.scheduler_with(["n0"], [served, world.resource_slice("n0", ["d0", "d1"])])
    metrics = _measured(scheduler)
    world.schedule(
        scheduler, *(world.pod_with(f"p{i}", requests={"example.com/gpu": "1"}) for i in range(2))
    )
    assert _samples(metrics, "scheduler_resourceclaim_creates_total") == {("success",): 2}


def test_waits_for_binding_conditions_are_counted() -> None:
    """By profile, driver and result, with the seconds that the wait took."""
    clock = FakeClock(EPOCH)
    device = {"name": "d0", "bindingConditions": ["up"], "bindingFailureConditions": ["down"]}
    objects = [
        world.device_class(),
        world.resource_slice("n0", [device]),
        world.resource_claim("a"),
    ]
    scheduler = world.scheduler_with(["n0"], objects, now=clock)
    metrics = _measured(scheduler)
    world.schedule(scheduler, world.pod_with("p", "a"))
    name = "scheduler_dra_bindingconditions_allocations_total"
    assert _samples(metrics, name) == {}, "the wait goes on"
    clock.ns += 3 * SECOND
    claim = world.claim_of(scheduler, "a")
    up = AllocatedDeviceStatus(
        driver=world.DRIVER,
        pool="n0",
        device="d0",
        conditions=(Condition(type="up", status="True"),),
    )
    object_seen(scheduler, claim, replace(claim, status=replace(claim.status, devices=(up,))))
    scheduler.run_due()
    labels = (world.DRIVER, "default-scheduler", "success")
    assert _samples(metrics, name) == {labels: 1}
    waited = "scheduler_dra_bindingconditions_wait_duration_seconds"
    assert _samples(metrics, f"{waited}_sum") == {labels: 3}
    assert _samples(metrics, f"{waited}_count") == {labels: 1}
