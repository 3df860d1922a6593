"""VolumeZone: nodes with topology labels must match those of the volumes."""

from __future__ import annotations

import numpy as np
import pytest

from policy_sched.framework.cycle_state import CycleState
from policy_sched.framework.status import SKIP, Code
from policy_sched.model.meta import ApiObject
from policy_sched.plugins.volumes.storage_view import topologies_of
from policy_sched.plugins.volumes.zone import VolumeZone
from policy_sched.testing import make_node
from tests.plugins.volumes.world import (
    ZONE,
    World,
    ask,
    make_claim,
    make_class,
    make_volume,
    pod_with,
    reasons,
    rejection,
    uses,
)

CONFLICT = ("node(s) had no available volume zone",)
BETA = "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
POD = pod_with(uses("data"))


def answer(*labels: dict[str, str], volume: dict[str, str]) -> list[tuple[str, ...]]:
    """Return why nodes with these labels are rejected for a volume with those."""
    nodes = [make_node(f"n{i}", labels=one) for i, one in enumerate(labels)]
    objects = (make_claim("data", volume="v"), make_volume("v", labels=volume))
    plugin = VolumeZone({}, World(*objects, nodes=nodes).handle)
    result, state = ask(plugin, POD)
    assert rejection(result).ok
    return reasons(plugin.filter(state, POD, None), len(nodes))


def test_zone_and_region_must_both_agree() -> None:
    """A node without any such label passes; one that lacks a required label does not."""
    found = answer(
        {ZONE: "a", REGION: "r"},
        {ZONE: "a", REGION: "s"},
        {ZONE: "b", REGION: "r"},
        {},
        {ZONE: "a"},
        {"other": "a"},
        volume={ZONE: "a", REGION: "r"},
    )
    assert found == [(), CONFLICT, CONFLICT, (), CONFLICT, ()]


def test_several_zones() -> None:
    """A volume may be in several zones, a node in one of them."""
    assert answer({ZONE: "a"}, {ZONE: "b"}, {ZONE: "c"}, volume={ZONE: "a__ b"}) == [
        (),
        (),
        CONFLICT,
    ]


def test_beta_labels_of_volumes_match_both_forms_of_nodes() -> None:
    """The beta label of a node counts first; a volume's current label needs the current one."""
    found = answer({BETA: "a"}, {ZONE: "a"}, {BETA: "b", ZONE: "a"}, volume={BETA: "a"})
    assert found == [(), (), CONFLICT]
    assert answer({BETA: "a"}, {ZONE: "a"}, volume={ZONE: "a"}) == [CONFLICT, ()]


def test_a_label_with_an_empty_zone_is_passed_over() -> None:
    """It is invalid."""
    assert topologies_of(make_volume("v", labels={ZONE: "a__", REGION: "r"})) == [
        (REGION, frozenset({"r"}))
    ]


@pytest.mark.parametrize(
    ("objects", "words"),
    [
        ((), 'persistentvolumeclaim "data" not found'),
        ((make_claim("data", volume="gone"),), 'persistentvolume "gone" not found'),
        (
            (make_claim("data", storage_class=None, storageClassName=None),),
            "PersistentVolumeClaim had no pv name and storageClass name",
        ),
        ((make_claim("data"),), 'storageclass.storage.k8s.io "wait" not found'),
        ((make_claim("data"), make_class(mode="Immediate")), "PersistentVolume had no name"),
    ],
)
def test_what_refuses_the_pod(objects: tuple[ApiObject, ...], words: str) -> None:
    """Missing claims, volumes and classes, and claims that should be bound already."""
    result, _ = ask(VolumeZone({}, World(*objects).handle), POD)
    assert rejection(result).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert rejection(result).message() == words


def test_a_claim_without_a_name_refuses_the_pod() -> None:
    """It cannot be found."""
    result, _ = ask(VolumeZone({}, World().handle), pod_with(uses("")))
    assert rejection(result).message() == "PersistentVolumeClaim had no name"


def test_pods_without_anything_to_compare_are_skipped() -> None:
    """No claim, an ephemeral one, one that waits for the pod, a volume without such labels."""
    world = World(
        make_class(), make_claim("wait"), make_claim("data", volume="v"), make_volume("v")
    )
    plugin = VolumeZone({}, world.handle)
    for pod in (pod_with(), pod_with({"ephemeral": {}}), pod_with(uses("wait")), POD):
        assert rejection(ask(plugin, pod)[0]) == SKIP


def test_only_the_given_rows_are_evaluated() -> None:
    """Some rows get the same results as all of them."""
    objects = (make_claim("data", volume="v"), make_volume("v", labels={ZONE: "b"}))
    plugin = VolumeZone({}, World(*objects).handle)
    _, state = ask(plugin, POD)
    assert reasons(plugin.filter(state, POD, np.array([2, 0])), 2) == [(), CONFLICT]


def test_without_pre_filter_the_filter_looks_itself() -> None:
    """A profile that disables PreFilter placed pods far from their volumes."""
    objects = (make_claim("data", volume="v"), make_volume("v", labels={ZONE: "b"}))
    plugin = VolumeZone({}, World(*objects).handle)
    assert reasons(plugin.filter(CycleState(), POD, None)) == [CONFLICT, CONFLICT, ()]
    assert reasons(plugin.filter(CycleState(), pod_with(), None)) == [(), (), ()]
    missing = ('persistentvolumeclaim "gone" not found',)
    found = plugin.filter(CycleState(), pod_with(uses("gone")), np.array([0, 2]))
    assert reasons(found, 2) == [missing, missing]
