"""In-tree volumes: their handles and topology under the CSI drivers that replaced them."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.plugins.volumes.binding import VolumeBinding
from policy_sched.plugins.volumes.migration import in_tree, translated_affinity
from tests.plugins.volumes.world import (
    ZONE,
    World,
    ask,
    make_claim,
    make_csi_node,
    make_volume,
    pod_with,
    reasons,
    uses,
)

BETA = "failure-domain.beta.kubernetes.io/zone"


@pytest.mark.parametrize(
    ("source", "labels", "handle"),
    [
        ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, {}, "vol-1"),
        ({"awsElasticBlockStore": {"volumeID": "aws://us-1a/vol-1"}}, {}, "vol-1"),
        ({"awsElasticBlockStore": {"volumeID": "aws:///vol-1"}}, {}, "vol-1"),
        ({"awsElasticBlockStore": {"volumeID": "disk-1"}}, {}, "disk-1"),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            {},
            "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d",
        ),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            {ZONE: "eu-west1-a", BETA: "eu-west1-b"},
            "projects/UNSPECIFIED/zones/eu-west1-b/disks/d",
        ),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            {ZONE: "eu-west1-a__eu-west1-b"},
            "projects/UNSPECIFIED/regions/eu-west1/disks/d",
        ),
        ({"azureDisk": {"diskName": "d", "diskURI": "/disks/d"}}, {}, "/disks/d"),
        ({"cinder": {"volumeID": "c"}}, {}, "c"),
        ({"portworxVolume": {"volumeID": "p"}}, {}, "p"),
    ],
)
def test_a_migrated_volume_has_its_drivers_handle(
    source: dict[str, Any], labels: dict[str, str], handle: str
) -> None:
    """The driver's handle of the volume; an EBS volume of any other name was not counted."""
    found = in_tree(make_volume("v", labels=labels, **source))
    assert found is not None
    plugin, disk = found
    assert plugin.handle(disk, labels) == handle


@pytest.mark.parametrize(
    ("source", "labels", "why"),
    [
        (
            {"awsElasticBlockStore": {"volumeID": "aws://a/b/vol-1"}},
            {},
            (
                "failed to translate Kubernetes ID to EBS Volume ID "
                "Invalid format for AWS volume (aws://a/b/vol-1)"
            ),
        ),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            {ZONE: "eu-west1-a__us-1-b"},
            (
                "failed to get region from zones: "
                "multiple or no regions gotten from zones, got: map[eu-west1:{} us-1:{}]"
            ),
        ),
        (
            {"gcePersistentDisk": {"pdName": "d"}},
            {ZONE: "eu-1a__eu-1b"},
            (
                "failed to get region from zones: zone in unexpected format, "
                "expected: {locale}-{region}-{zone}, got: eu-1a"
            ),
        ),
    ],
)
def test_volumes_without_a_handle(source: dict[str, Any], labels: dict[str, str], why: str) -> None:
    """A pod with such a volume was rejected by the node's labels; kube-scheduler's search fails.

    It fails on the nodes that have migrated the plugin.
    """
    world = World(
        make_claim("data", volume="v"),
        make_volume("v", labels=labels, phase="Bound", **source),
        make_csi_node("n1", migrated="kubernetes.io/aws-ebs,kubernetes.io/gce-pd"),
    )
    plugin = VolumeBinding({}, world.handle)
    _, state = ask(plugin, pod_with(uses("data")))
    verdict = plugin.filter(state, None)
    assert reasons(verdict) == [(), (f"could not translate pv: {why}",), ()]
    assert verdict.codes is not None
    assert verdict.codes[1] in verdict.fatal


def test_csi_volumes_are_no_in_tree_volumes() -> None:
    """They need no translation."""
    assert in_tree(make_volume("v", csi={"driver": "d", "volumeHandle": "h"})) is None


def selector(**fields: Any) -> list[list[tuple[str, tuple[str, ...]]]]:
    """Return keys and values of the terms of a GCE disk's translated affinity."""
    volume = make_volume("v", gcePersistentDisk={"pdName": "d"}, **fields)
    found = in_tree(volume)
    assert found is not None
    answer = translated_affinity(volume, found[0])
    terms = answer.node_selector_terms if answer else ()
    return [[(r.key, r.values) for r in term.match_expressions] for term in terms]


def affinity(*requirements: tuple[str, str]) -> dict[str, Any]:
    """Return the field of a volume that needs these labels."""
    expressions = [{"key": k, "operator": "In", "values": [v]} for k, v in requirements]
    return {
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    }


def test_translated_affinity() -> None:
    """Zones get the driver's key; beta regions the newer one; labels count without zones."""
    driver, region = "topology.gke.io/zone", "topology.kubernetes.io/region"
    beta_region = "failure-domain.beta.kubernetes.io/region"
    assert selector() == []
    assert selector(zones=["a"]) == [[(driver, ("a",))]]
    assert selector(**affinity((BETA, "a"), (beta_region, "r"))) == [
        [(driver, ("a",)), (region, ("r",))]
    ]
    assert selector(labels={ZONE: "b__a"}) == [[(driver, ("a", "b"))]]
    assert selector(labels={BETA: "b"}, hosts=["n0"]) == [
        [("kubernetes.io/hostname", ("n0",)), (driver, ("b",))]
    ]
    assert selector(labels={ZONE: "b"}, zones=["a"]) == [[(driver, ("a",))]]


def test_a_driver_without_zones_of_its_own_keeps_the_affinity() -> None:
    """The affinity of Azure's disks is unchanged."""
    volume = make_volume("v", azureDisk={"diskURI": "d"}, zones=["a"])
    found = in_tree(volume)
    assert found is not None
    assert volume.spec.node_affinity is not None
    assert translated_affinity(volume, found[0]) == volume.spec.node_affinity.required


def test_a_migrated_plugin_needs_the_drivers_label_on_the_node() -> None:
    """Only if its CSINode lists the plugin; others need the common label."""
    world = World(
        make_claim("data", volume="v"),
        make_volume("v", gcePersistentDisk={"pdName": "d"}, zones=["a"], phase="Bound"),
        make_csi_node("n1", migrated="kubernetes.io/aws-ebs,kubernetes.io/gce-pd"),
    )
    plugin = VolumeBinding({}, world.handle)
    _, state = ask(plugin, pod_with(uses("data")))
    verdict = plugin.filter(state, None)
    assert [not why for why in reasons(verdict)] == [True, False, False]
