"""PreBind: bindings are written, awaited, and abandoned at the timeout."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from policy_sched.client.memory import MemoryClient
from policy_sched.client.object_writes import patched
from policy_sched.client.request import ObjectRequest, ObjectResponse
from policy_sched.errors import ClusterError
from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.status import SUCCESS, PendingStatus, Status
from policy_sched.model.meta import ApiObject
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.storage import PersistentVolume, PersistentVolumeClaim, Phase
from policy_sched.plugins.volumes.binding import VolumeBinding
from policy_sched.plugins.volumes.listers import BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE
from policy_sched.testing import SECOND
from tests.plugins.volumes.world import (
    World,
    ask,
    make_claim,
    make_class,
    make_volume,
    pod_with,
    uses,
)

POD = pod_with(uses("data"))
STATIC = (make_class(provisioner="kubernetes.io/no-provisioner"), make_claim("data"))


@dataclass(slots=True)
class SlowCluster(MemoryClient):
    """Writes as requested; then events follow, step by step."""

    steps: list[Callable[[], None]] = field(default_factory=list)
    waits: int = 0

    def send(self, request: ObjectRequest, done: ObjectResponse | None = None) -> None:
        assert self.objects is not None
        known = self.objects.named(request.kind, request.namespace, request.name)
        assert known is not None
        self.objects.put(patched(known, request))


def pre_bound(
    world: World, plugin: VolumeBinding, state: CycleState, client: SlowCluster | None = None
) -> Status:
    """Run PreBind to its end, a second at a time, and count the polls in vain."""
    answer = plugin.pre_bind(state, POD)
    if not isinstance(answer, PendingStatus):
        return answer
    while (status := answer.status_at(world.clock())) is None:
        world.clock.advance(1)
        if client is not None:
            client.waits += 1
            if client.steps:
                client.steps.pop(0)()
    return status


def reserved(
    *objects: ApiObject, client: MemoryClient | None = None, timeout: int = 600
) -> tuple[World, VolumeBinding, CycleState]:
    """Return a world in which POD is reserved on n0."""
    world = World(*objects, client=client)
    if client is not None:
        client.objects = world.objects
    plugin = VolumeBinding({"bindTimeoutSeconds": timeout}, world.handle)
    _, state = ask(plugin, POD)
    assert plugin.reserve(state, POD, "n0") == SUCCESS
    return world, plugin, state


def claim_of(world: World) -> PersistentVolumeClaim:
    found = world.objects.named(PersistentVolumeClaim, "default", "data")
    assert found is not None
    return found


def test_a_static_volume_is_bound_through_the_client() -> None:
    """The volume is reserved for the claim, marked as bound by a controller, and both are bound."""
    world, plugin, state = reserved(*STATIC, make_volume("v"))
    assert plugin.pre_bind(state, POD) == SUCCESS
    volume = world.objects.named(PersistentVolume, "", "v")
    assert volume is not None
    assert volume.spec.claim_ref is not None
    assert volume.spec.claim_ref.uid == "uid-data"
    assert BOUND_BY_CONTROLLER in volume.metadata.annotations
    assert volume.status.phase == "Bound"
    assert claim_of(world).spec.volume_name == "v"


def test_a_volume_is_provided_for_the_node() -> None:
    """The claim has the node; the provisioned volume is of the class's driver."""
    world, plugin, state = reserved(make_class(zones=["a"]), make_claim("data"))
    assert plugin.pre_bind(state, POD) == SUCCESS
    claim = claim_of(world)
    assert claim.metadata.annotations[SELECTED_NODE] == "n0"
    volume = world.objects.named(PersistentVolume, "", claim.spec.volume_name)
    assert volume is not None
    assert volume.spec.csi is not None
    assert volume.spec.csi.driver == "csi.example"
    _, later = ask(plugin, POD)
    verdict = plugin.filter(later, None)
    assert verdict.codes is not None
    assert (verdict.codes == 0).tolist() == [True, True, False]


def test_what_is_assumed_ends_with_what_the_watch_shows() -> None:
    """After the write no assumption is left, and unreserving changes nothing."""
    world, plugin, state = reserved(*STATIC, make_volume("v"))
    plugin.pre_bind(state, POD)
    plugin.unreserve(state, POD)
    assert plugin._storage.volume("v") is world.objects.named(PersistentVolume, "", "v")


def test_bound_pods_write_nothing() -> None:
    """All claims were bound before: there is nothing to wait for."""
    client = SlowCluster()
    bound = (make_claim("data", volume="v"), make_volume("v", phase="Bound"))
    world, plugin, state = reserved(*bound, client=client)
    assert pre_bound(world, plugin, state, client) == SUCCESS
    assert client.waits == 0


def test_waiting_ends_when_the_claim_is_bound() -> None:
    """A controller may be slow; each poll checks again."""
    client = SlowCluster()
    world, plugin, state = reserved(*STATIC, make_volume("v"), client=client)

    def bind() -> None:
        claim = claim_of(world)
        meta = replace(claim.metadata, annotations={BIND_COMPLETED: "yes"})
        world.objects.put(replace(claim, metadata=meta, spec=replace(claim.spec, volume_name="v")))

    client.steps = [lambda: world.clock.advance(30), bind]
    assert pre_bound(world, plugin, state, client) == SUCCESS
    assert client.waits == 2


def test_waiting_ends_when_the_time_is_up() -> None:
    """The timeout is the argument's, on the scheduler's clock."""
    client = SlowCluster()
    world, plugin, state = reserved(*STATIC, make_volume("v"), client=client, timeout=90)
    client.steps = [lambda: world.clock.advance(30)] * 9
    with pytest.raises(ClusterError, match="binding volumes: context deadline exceeded"):
        pre_bound(world, plugin, state, client)
    assert client.waits == 3


def test_a_cluster_where_nothing_happens_is_waited_for_until_the_time_is_up() -> None:
    """The claim stays unbound; the pod holds its node for ten minutes, as upstream."""
    world, plugin, state = reserved(*STATIC, make_volume("v"))
    world.client.objects = None
    with pytest.raises(ClusterError, match="deadline"):
        pre_bound(world, plugin, state)
    assert world.clock() == 600 * SECOND


def test_a_provisioner_that_gives_up_ends_the_wait() -> None:
    """It removes the node from the claim: the pod is scheduled again."""
    client = SlowCluster()
    world, plugin, state = reserved(make_class(), make_claim("data"), client=client)
    client.steps = [lambda: world.objects.put(make_claim("data"))]
    with pytest.raises(ClusterError, match='binding volumes: provisioning failed for PVC "data"'):
        pre_bound(world, plugin, state, client)


def test_a_volume_that_turns_out_to_be_elsewhere_ends_the_wait() -> None:
    """A provisioner may have created it out of the node's reach."""
    client = SlowCluster()
    world, plugin, state = reserved(make_class(), make_claim("data"), client=client)

    def provide() -> None:
        world.objects.put(make_volume("v", zones=["b"], phase="Bound"))
        annotations = {BIND_COMPLETED: "yes", SELECTED_NODE: "n0"}
        world.objects.put(make_claim("data", volume="v", annotations=annotations))

    client.steps = [provide]
    with pytest.raises(ClusterError, match='pv "v" node affinity doesn\'t match node "n0"'):
        pre_bound(world, plugin, state, client)


def test_an_unbound_volume_ends_the_wait() -> None:
    """The controller released the volume."""
    client = SlowCluster()
    world, plugin, state = reserved(*STATIC, make_volume("v"), client=client)
    client.steps = [lambda: world.objects.put(make_volume("v"))]
    with pytest.raises(ClusterError, match='ClaimRef got reset for pv "v"'):
        pre_bound(world, plugin, state, client)


def test_assuming_is_all_or_nothing() -> None:
    """If an object is gone since the decision, no assumption stays."""
    other = make_claim("other")
    world = World(*STATIC, other, make_volume("v"), make_volume("w"))
    plugin = VolumeBinding({}, world.handle)
    pod = pod_with(uses("data"), uses("other"))
    _, state = ask(plugin, pod)
    plugin.filter(state, None)
    world.objects.remove(make_volume("w"))
    with pytest.raises(ClusterError, match="could not find"):
        plugin.reserve(state, pod, "n0")
    assumed = plugin._storage.volume("v")
    assert assumed is not None
    assert assumed.spec.claim_ref is None


def test_the_state_of_another_pod_is_not_reverted() -> None:
    """Pods with equal claims share results of the search, not reservations."""
    _, plugin, state = reserved(*STATIC, make_volume("v"))
    other = PodInfo.of(replace(POD.pod, metadata=replace(POD.pod.metadata, uid="other")))
    plugin.unreserve(state, other)
    assumed = plugin._storage.volume("v")
    assert assumed is not None
    assert assumed.spec.claim_ref is not None
    assert assumed.status == Phase("Available")
