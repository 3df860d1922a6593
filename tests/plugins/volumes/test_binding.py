"""VolumeBinding: bound claims must be reachable, and waiting ones get the right volume."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from policy_sched.framework.status import SKIP, Code
from policy_sched.model.meta import ApiObject
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.storage import PersistentVolume, PersistentVolumeClaim
from policy_sched.plugins.volumes.binding import VolumeBinding
from policy_sched.plugins.volumes.listers import SELECTED_NODE
from tests.plugins.volumes.world import (
    World,
    ask,
    make_capacity,
    make_claim,
    make_class,
    make_driver,
    make_volume,
    pod_with,
    reasons,
    rejection,
    uses,
    zoned_nodes,
)

AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
LOCAL = "kubernetes.io/no-provisioner"


def answer(pod: PodInfo, *objects: ApiObject) -> list[tuple[str, ...]]:
    """Return why each node is rejected."""
    world = World(*objects)
    plugin = VolumeBinding({}, world.handle)
    result, state = ask(plugin, pod)
    assert rejection(result).ok
    return reasons(plugin.filter(state, None))


def refused(pod: PodInfo, *objects: ApiObject) -> str:
    """Return why the pod is unschedulable everywhere."""
    result, _ = ask(VolumeBinding({}, World(*objects).handle), pod)
    assert rejection(result).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    return rejection(result).message()


def chosen(pod: PodInfo, node: str, *objects: ApiObject) -> dict[str, str]:
    """Return the volume of each claim that Reserve assumes on a node."""
    world = World(*objects)
    plugin = VolumeBinding({}, world.handle)
    _, state = ask(plugin, pod)
    plugin.reserve(state, pod, node)
    found = {}
    for volume in world.objects.of(PersistentVolume):
        assumed = plugin._storage.volume(volume.metadata.name)
        assert assumed is not None
        if assumed.spec.claim_ref is not None:
            found[assumed.spec.claim_ref.name] = volume.metadata.name
    return found


def test_pods_without_claims_are_skipped() -> None:
    """Nothing is to be bound; inline disks are not claims."""
    plugin = VolumeBinding({}, World().handle)
    for pod in (pod_with(), pod_with({"gcePersistentDisk": {"pdName": "d"}})):
        assert rejection(ask(plugin, pod)[0]) == SKIP


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (None, 'persistentvolumeclaim "data" not found'),
        (
            make_claim("data", volume="pv", phase="Lost"),
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"',
        ),
        (
            make_claim("data", deleted="2026-01-01T00:00:00Z"),
            'persistentvolumeclaim "data" is being deleted',
        ),
        (
            make_claim("data", storage_class="now"),
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            make_claim("data", volume="pv", annotations={}),
            "pod has unbound immediate PersistentVolumeClaims",
        ),
        (
            make_claim("data", storage_class="unknown"),
            "pod has unbound immediate PersistentVolumeClaims",
        ),
    ],
)
def test_a_claim_that_cannot_be_used_refuses_the_pod(
    claim: PersistentVolumeClaim | None, words: str
) -> None:
    """Missing, lost, terminating, and unbound although its class does not wait for the pod."""
    objects = [make_class(), make_class("now", mode="Immediate")] + ([claim] if claim else [])
    assert refused(pod_with(uses("data")), *objects) == words


def test_an_ephemeral_claim_must_be_the_pods_own() -> None:
    """It is created after the pod; a claim of that name with another owner is not it."""
    pod = pod_with({"ephemeral": {}})
    assert refused(pod) == (
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v0"'
    )
    other = make_claim("p-v0")
    assert refused(pod, make_class(), other) == (
        "PVC default/p-v0 was not created for pod default/p (pod is not owner)"
    )
    own = make_claim("p-v0", owners=[{"uid": pod.uid, "controller": True, "kind": "Pod"}])
    assert answer(pod, make_class(), own) == [(), (), ()]


def test_bound_volumes_must_be_in_reach() -> None:
    """A node that cannot reach one volume is rejected; volumes without affinity are reachable."""
    objects = (
        make_claim("a", volume="pv-a"),
        make_claim("b", volume="pv-b"),
        make_volume("pv-a", zones=["a"], phase="Bound"),
        make_volume("pv-b", phase="Bound"),
    )
    pod = pod_with(uses("a"), uses("b"))
    assert answer(pod, *objects) == [(), (), (AFFINITY,)]


def test_the_first_bad_claim_decides() -> None:
    """A missing volume is reported if the claims before it are reachable."""
    objects = (
        make_claim("a", volume="pv-a"),
        make_claim("b", volume="gone"),
        make_volume("pv-a", zones=["a"], phase="Bound"),
    )
    assert answer(pod_with(uses("a"), uses("b")), *objects) == [(GONE,), (GONE,), (AFFINITY,)]
    assert answer(pod_with(uses("b"), uses("a")), *objects) == [(GONE,)] * 3


def test_bound_and_waiting_claims_are_both_spoken_of() -> None:
    """A node can fail for both reasons."""
    objects = (
        make_class(provisioner=LOCAL),
        make_claim("a", volume="pv-a"),
        make_volume("pv-a", zones=["b"], phase="Bound"),
        make_claim("b"),
        make_volume("pv-b", zones=["b"]),
    )
    both = (AFFINITY, NOTHING_TO_BIND)
    assert answer(pod_with(uses("a"), uses("b")), *objects) == [both, both, ()]


def test_a_waiting_claim_gets_the_smallest_volume_that_fits() -> None:
    """Of the reachable ones; a volume that is too small, or a larger one, is not chosen."""
    objects = (
        make_class(provisioner=LOCAL),
        make_claim("data", size="2Gi"),
        make_volume("small", size="1Gi", hosts=["n0"]),
        make_volume("large", size="9Gi", hosts=["n0"]),
        make_volume("right", size="3Gi", hosts=["n0", "n1"]),
    )
    pod = pod_with(uses("data"))
    assert answer(pod, *objects) == [(), (), (NOTHING_TO_BIND,)]
    assert chosen(pod, "n0", *objects) == {"data": "right"}


@pytest.mark.parametrize(
    "fields",
    [
        {"modes": ["ReadOnlyMany"]},
        {"storage_class": "other"},
        {"phase": "Released"},
        {"deleted": "2026-01-01T00:00:00Z"},
        {"volumeMode": "Block"},
        {"volumeAttributesClassName": "gold"},
        {"claimRef": {"namespace": "default", "name": "somebody"}},
        {"labels": {"tier": "slow"}},
        {"size": "1Mi"},
    ],
)
def test_what_a_volume_must_agree_in(fields: dict[str, Any]) -> None:
    """Modes, class, phase, size, labels: one that differs is not chosen."""
    claim = make_claim("data", selector={"matchLabels": {"tier": "fast"}})
    klass = make_class(provisioner=LOCAL)
    pod = pod_with(uses("data"))
    fast = {"labels": {"tier": "fast"}}
    assert answer(pod, klass, claim, make_volume("v", **fast)) == [(), (), ()]
    assert (
        answer(pod, klass, claim, make_volume("v", **(fast | fields))) == [(NOTHING_TO_BIND,)] * 3
    )


def test_two_claims_do_not_get_one_volume() -> None:
    """The smaller request is served first."""
    objects = (
        make_class(provisioner=LOCAL),
        make_claim("big", size="4Gi"),
        make_claim("little", size="1Gi"),
        make_volume("five", size="5Gi", hosts=["n0", "n1"]),
        make_volume("six", size="6Gi", hosts=["n0"]),
    )
    pod = pod_with(uses("big"), uses("little"))
    assert answer(pod, *objects) == [(), (NOTHING_TO_BIND,), (NOTHING_TO_BIND,)]
    assert chosen(pod, "n0", *objects) == {"little": "five", "big": "six"}


def test_a_volume_that_is_kept_for_the_claim_is_the_only_one() -> None:
    """Even if it is in another phase and a smaller one is free."""
    objects = (
        make_class(provisioner=LOCAL),
        make_claim("data"),
        make_volume("free", size="1Gi"),
        make_volume(
            "kept",
            size="9Gi",
            phase="Bound",
            hosts=["n1"],
            claimRef={"namespace": "default", "name": "data"},
        ),
    )
    pod = pod_with(uses("data"))
    assert answer(pod, *objects) == [(NOTHING_TO_BIND,), (), (NOTHING_TO_BIND,)]
    assert chosen(pod, "n1", *objects) == {"data": "kept"}


def test_without_a_volume_one_is_provided_where_the_class_allows() -> None:
    """Allowed topologies reject nodes; a static volume in another zone works there."""
    klass, claim = make_class(zones=["a"]), make_claim("data")
    pod = pod_with(uses("data"))
    assert answer(pod, klass, claim) == [(), (), (NOTHING_TO_BIND,)]
    assert answer(pod, klass, claim, make_volume("v", zones=["b"])) == [(), (), ()]


def test_capacity_is_checked_when_the_driver_publishes_it() -> None:
    """The largest possible volume counts; a driver that does not publish capacity is trusted."""
    klass, claim, pod = make_class(), make_claim("data", size="5Gi"), pod_with(uses("data"))
    capacities = (
        make_capacity("a", "9Gi", "a", maximumVolumeSize="4Gi"),
        make_capacity("b", "5Gi", "b"),
        make_capacity("other", "99Gi", None, storage_class="other"),
    )
    full = (NO_SPACE,)
    assert answer(pod, klass, claim, make_driver(), *capacities) == [full, full, ()]
    assert answer(pod, klass, claim, make_driver(storage_capacity=False)) == [(), (), ()]
    assert answer(pod, klass, claim) == [(), (), ()]


def test_a_selected_node_is_the_only_one() -> None:
    """A volume is being provisioned for it, so free volumes are ignored."""
    claim = make_claim("data", annotations={SELECTED_NODE: "n1"})
    objects = (make_class(), claim, make_volume("free"))
    pod = pod_with(uses("data"))
    assert answer(pod, *objects) == [(NOTHING_TO_BIND,), (), (NOTHING_TO_BIND,)]
    assert chosen(pod, "n1", *objects) == {}


def test_the_next_pod_sees_what_was_reserved() -> None:
    """And no longer after it was undone; cached evaluations are not used in between."""
    world = World(
        make_class(provisioner=LOCAL),
        make_claim("a"),
        make_claim("b"),
        make_volume("v", hosts=["n0"]),
    )
    plugin = VolumeBinding({}, world.handle)
    first, second = pod_with(uses("a"), name="first"), pod_with(uses("b"), name="second")
    journal = world.cache.nodes.journal

    def open_to(pod: PodInfo) -> bool:
        return not reasons(plugin.filter(ask(plugin, pod)[1], None))[0]

    _, state = ask(plugin, first)
    assert open_to(second)
    before = journal.static_version
    plugin.reserve(state, first, "n0")
    assert journal.static_version > before
    assert not open_to(second)
    before = journal.static_version
    plugin.unreserve(state, first)
    assert journal.static_version > before
    assert open_to(second)
    plugin.unreserve(state, first)
    assert open_to(second)


def test_only_the_given_rows_are_evaluated() -> None:
    """A filter that is called for some rows returns results for these."""
    world = World(make_claim("a", volume="v"), make_volume("v", hosts=["n2"]))
    plugin = VolumeBinding({}, world.handle)
    _, state = ask(plugin, pod_with(uses("a")))
    verdict = plugin.filter(state, np.array([2, 0]))
    assert reasons(verdict, 2) == [(), (AFFINITY,)]


def test_scores_are_left_out() -> None:
    """The feature gate of capacity scores is off."""
    plugin = VolumeBinding({}, World(nodes=zoned_nodes()).handle)
    assert plugin.pre_score() == SKIP
    assert plugin.score(None).tolist() == [0, 0, 0]
