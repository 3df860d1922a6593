"""Pods with volumes through the whole scheduler: cached evaluations are never stale."""

from __future__ import annotations

from policy_sched.model.storage import PersistentVolume, PersistentVolumeClaim
from policy_sched.scheduler.scheduler import Scheduler
from policy_sched.scheduler.setup.factory import build
from tests.plugins.volumes import world


def schedule(scheduler: Scheduler, *claims: str, name: str) -> tuple[str, str]:
    """Return node and message of a new pod."""
    scheduler.add_pod(world.pod_with(*map(world.uses, claims), name=name, cpu="100m"))
    outcome = scheduler.schedule_one()
    assert outcome is not None
    return outcome.node, outcome.message


def scheduler_of(*objects: PersistentVolume | PersistentVolumeClaim) -> Scheduler:
    local = world.make_class(provisioner="kubernetes.io/no-provisioner")
    scheduler = build(objects=(local, world.make_class("any"), *objects))
    for node in world.zoned_nodes():
        scheduler.cache.add_node(node)
    return scheduler


def test_local_volumes_are_given_out_one_by_one() -> None:
    """Each pod goes to a node that still has one; the last pod finds none."""
    disks = [world.make_volume(f"v{i}", hosts=[f"n{i}"]) for i in (1, 2)]
    claims = [world.make_claim(f"c{i}") for i in range(3)]
    scheduler = scheduler_of(*disks, *claims)
    nodes = {schedule(scheduler, f"c{i}", name=f"p{i}")[0] for i in range(2)}
    assert nodes == {"n1", "n2"}
    node, message = schedule(scheduler, "c2", name="p2")
    assert node == ""
    assert message.startswith(
        "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind."
    )
    scheduler.handle.objects.put(world.make_volume("v0", hosts=["n0"]))
    assert schedule(scheduler, "c2", name="p3")[0] == "n0"


def test_pods_that_share_a_claim_follow_its_volume() -> None:
    """The first one binds it in a node's zone; the second finds it bound there."""
    claim = world.make_claim("shared", modes=["ReadWriteMany"], storage_class="any")
    scheduler = scheduler_of(claim)
    assert schedule(scheduler, "shared", name="first")[0]
    bound = scheduler.handle.objects.named(PersistentVolumeClaim, "default", "shared")
    assert bound is not None
    volume = world.make_volume(bound.spec.volume_name, zones=["b"], phase="Bound")
    scheduler.handle.objects.put(volume)
    assert [schedule(scheduler, "shared", name=f"p{i}")[0] for i in range(3)] == ["n2"] * 3


def test_a_claim_for_one_pod_is_free_when_the_pod_has_gone() -> None:
    """The second pod is unschedulable until then."""
    claim = world.make_claim("one", modes=["ReadWriteOncePod"], storage_class="any")
    scheduler = scheduler_of(claim)
    assert schedule(scheduler, "one", name="first")[0]
    node, message = schedule(scheduler, "one", name="second")
    assert node == ""
    assert "3 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod" in message
    first = scheduler.cache.pod("default/first")
    assert first is not None
    scheduler.cache.add_pod(first)
    scheduler.cache.remove_pod(first)
    assert schedule(scheduler, "one", name="third")[0]


def test_a_claim_of_a_pod_that_fits_nowhere_is_bound_with_a_smaller_pod() -> None:
    """The pods differ in requests alone; what is kept of the first one leaves no binding out."""
    claim = world.make_claim("shared", modes=["ReadWriteMany"])
    volume = world.make_volume("v1", modes=["ReadWriteMany"], hosts=["n1"])
    scheduler = scheduler_of(volume, claim)
    scheduler.add_pod(world.pod_with(world.uses("shared"), name="large", cpu="1000"))
    large = scheduler.schedule_one()
    assert large is not None
    assert not large.node
    assert schedule(scheduler, "shared", name="small") == ("n1", "")
    bound = scheduler.handle.objects.named(PersistentVolumeClaim, "default", "shared")
    assert bound is not None
    assert bound.spec.volume_name == "v1"
