"""The manifests of kube-scheduler's benchmarks."""

from __future__ import annotations

import msgspec
import pytest

from policy_sched.bench import manifests as make
from policy_sched.model.kinds import KINDS
from policy_sched.model.pod import Pod

MAKERS = {
    "plain": make.plain("a"),
    "affine": make.affine("a"),
    "named": make.bound_by_name,
    "distinct": make.distinct,
    "service": make.behind_service,
    "low": make.low_priority,
    "high": make.high_priority("a"),
    "large": make.large,
    "budgeted": make.budgeted,
}


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_pods_decode_and_have_names_of_their_own(maker: make.Maker) -> None:
    """Every maker gives pods that the API would take, no two under one name."""
    pods = [msgspec.convert(maker(i), Pod) for i in range(20)]
    assert len({pod.metadata.name for pod in pods}) == 20
    assert all(pod.spec.containers for pod in pods)


def test_nodes_lie_in_the_zones_of_upstream() -> None:
    """One zone for affinity, three for spreading, none where nothing asks for one."""
    zones = [
        [dict(node["metadata"]["labels"]).get(make.ZONE) for node in map(maker, range(4))]  # type: ignore[index] # plain data
        for maker in (make.zoned_node, make.moon_node, make.node)
    ]
    assert zones == [["zone1"] * 4, ["moon-1", "moon-2", "moon-3", "moon-1"], [None] * 4]


def test_the_other_objects_decode() -> None:
    """The service selects its pods, a budget those of its group."""
    for manifest in (make.service(), make.budget(2)):
        kind = str(manifest["apiVersion"]), str(manifest["kind"])
        assert msgspec.convert(manifest, KINDS[kind]).metadata.name
