"""VolumeRestrictions: disks that cannot be shared, and claims for one pod."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from policy_sched.cluster.tables.pod_table import PodRows
from policy_sched.framework.status import SKIP, Code
from policy_sched.model.pod_info import PodInfo
from policy_sched.plugins.volumes.restrictions import REASON_ONE_POD, VolumeRestrictions
from tests.plugins.volumes.world import World, ask, make_claim, pod_with, reasons, rejection, uses

TAKEN = ("node(s) had no available disk",)
ONE_POD = (REASON_ONE_POD,)
RWOP = make_claim("one", modes=["ReadWriteOncePod"])


def gce(name: str, *, read_only: bool = False) -> dict[str, Any]:
    return {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}}


def ebs(name: str, *, read_only: bool = False) -> dict[str, Any]:
    return {"awsElasticBlockStore": {"volumeID": name, "readOnly": read_only}}


def iscsi(name: str, *, lun: int = 0, read_only: bool = False) -> dict[str, Any]:
    return {"iscsi": {"targetPortal": "t", "iqn": name, "lun": lun, "readOnly": read_only}}


def rbd(*monitors: str, image: str = "i", read_only: bool = False) -> dict[str, Any]:
    return {"rbd": {"monitors": monitors, "image": image, "readOnly": read_only}}


def answer(world: World, pod: PodInfo) -> list[tuple[str, ...]]:
    """Return why each node is rejected; nothing if the plugin skips the pod."""
    plugin = VolumeRestrictions({}, world.handle)
    result, state = ask(plugin, pod)
    if rejection(result) == SKIP:
        return [(), (), ()]
    return reasons(plugin.filter(state, pod, None, world.cache.nodes))


@pytest.mark.parametrize(
    ("held", "wanted", "conflict"),
    [
        (gce("d"), gce("d"), True),
        (gce("d"), gce("e"), False),
        (gce("d", read_only=True), gce("d", read_only=True), False),
        (gce("d", read_only=True), gce("d"), True),
        (ebs("d", read_only=True), ebs("d", read_only=True), True),
        (ebs("d"), ebs("e"), False),
        (ebs("d"), gce("d"), False),
        (iscsi("q", lun=1), iscsi("q", lun=2), True),
        (iscsi("q", read_only=True), iscsi("q", read_only=True), False),
        (rbd("a", "b"), rbd("b", "c"), True),
        (rbd("a"), rbd("b"), False),
        (rbd("a"), rbd("a", image="other"), False),
        (rbd("a", read_only=True), rbd("a", read_only=True), False),
        ({"azureDisk": {"diskURI": "d"}}, {"azureDisk": {"diskURI": "d"}}, False),
    ],
)
def test_a_disk_in_use(held: dict[str, Any], wanted: dict[str, Any], conflict: bool) -> None:
    """One disk conflicts unless both only read it; EBS volumes conflict even then."""
    world = World()
    world.run("n1", "holder", held)
    assert answer(world, pod_with(wanted)) == [(), TAKEN if conflict else (), ()]


def test_a_claim_for_one_pod_refuses_all_nodes_while_it_is_in_use() -> None:
    """Wherever the other pod runs; a claim of that name in another namespace is another one."""
    world = World(RWOP)
    pod = pod_with(uses("one"))
    assert answer(world, pod) == [(), (), ()]
    world.run("n1", "elsewhere", uses("one"), namespace="other")
    assert answer(world, pod) == [(), (), ()]
    holder = world.run("n1", "holder", uses("one"))
    assert answer(world, pod) == [ONE_POD] * 3
    world.cache.remove_pod(holder)
    assert answer(world, pod) == [(), (), ()]


def test_a_disk_conflict_is_reported_before_a_claim_conflict() -> None:
    """As in kube-scheduler."""
    world = World(RWOP)
    world.run("n0", "a", gce("d"))
    world.run("n1", "b", uses("one"))
    assert answer(world, pod_with(gce("d"), uses("one"))) == [TAKEN, ONE_POD, ONE_POD]


def test_a_missing_claim_refuses_the_pod() -> None:
    """Its access modes cannot be known."""
    result, _ = ask(VolumeRestrictions({}, World().handle), pod_with(uses("gone")))
    assert rejection(result).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert rejection(result).message() == 'persistentvolumeclaim "gone" not found'


def test_pods_that_restrict_nothing_are_skipped() -> None:
    """No volumes, an ephemeral claim, a shared claim, one that no other pod uses."""
    world = World(make_claim("many"), RWOP)
    world.run("n0", "holder", uses("many"))
    plugin = VolumeRestrictions({}, world.handle)
    for pod in (pod_with(), pod_with({"ephemeral": {}}), pod_with(uses("many"), uses("one"))):
        assert rejection(ask(plugin, pod)[0]) == SKIP


def test_without_the_holder_the_claim_is_free() -> None:
    """Preemption removes it on a copy of the state; the state itself does not change."""
    world = World(RWOP)
    holder = world.run("n1", "holder", uses("one"))
    other = world.run("n1", "other", uses("many"))
    plugin = VolumeRestrictions({}, world.handle)
    pod = pod_with(uses("one"))
    _, state = ask(plugin, pod)
    filter_dry_run = state.clone()
    row = np.array([1])
    plugin.remove_pod(filter_dry_run, other)
    assert reasons(plugin.filter(filter_dry_run, pod, row, world.cache.nodes), 1) == [ONE_POD]
    plugin.remove_pod(filter_dry_run, holder)
    assert reasons(plugin.filter(filter_dry_run, pod, row, world.cache.nodes), 1) == [()]
    plugin.add_pod(filter_dry_run, holder)
    assert reasons(plugin.filter(filter_dry_run, pod, row, world.cache.nodes), 1) == [ONE_POD]
    plugin.remove_pod(filter_dry_run, holder)
    assert reasons(plugin.filter(state, pod, row, world.cache.nodes), 1) == [ONE_POD]


def test_without_the_holder_the_disk_is_free() -> None:
    """The filter reads the pods of the view that it is given."""
    world = World()
    holder = world.run("n1", "holder", gce("d"))
    plugin = VolumeRestrictions({}, world.handle)
    pod = pod_with(gce("d"))
    _, state = ask(plugin, pod)
    row = np.array([1])
    assert reasons(plugin.filter(state, pod, row, world.cache.nodes), 1) == [TAKEN]
    with world.cache.overlay as nodes:
        nodes.remove(1, holder)
        assert reasons(plugin.filter(state, pod, row, nodes), 1) == [()]
        assert reasons(plugin.filter(state, pod, row, world.cache.nodes), 1) == [TAKEN]
    assert reasons(plugin.filter(state, pod, None, world.cache.nodes)) == [(), TAKEN, ()]


def test_without_holders_on_many_nodes_at_once() -> None:
    """Preemption removes pods from all nodes in one step."""
    world = World()
    world.run("n0", "a", gce("d"))
    world.run("n2", "b", gce("d"))
    plugin = VolumeRestrictions({}, world.handle)
    pod = pod_with(gce("d"))
    _, state = ask(plugin, pod)
    places = world.cache.pods.node.values
    block = np.array([[int(np.flatnonzero(places == 0)[0]), int(np.flatnonzero(places == 2)[0])]])
    with world.cache.overlay as nodes:
        nodes.remove_block(np.array([0, 2]), PodRows(world.cache.pods, block))
        assert reasons(plugin.filter(state, pod, None, nodes)) == [(), (), ()]
        nodes.put_back(0)
        assert reasons(plugin.filter(state, pod, None, nodes)) == [TAKEN, (), TAKEN]
    assert reasons(plugin.filter(state, pod, None, world.cache.nodes)) == [TAKEN, (), TAKEN]
