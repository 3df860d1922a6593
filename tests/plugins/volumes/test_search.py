"""The search over all rows finds what a loop over one node's volumes finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings, strategies as st

from policy_sched.model.cluster_objects import Node
from policy_sched.model.meta import NodeAffinity
from policy_sched.model.quantity import nanos
from policy_sched.model.selectors import required_matches
from policy_sched.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from policy_sched.plugins.volumes.listers import SELECTED_NODE
from policy_sched.plugins.volumes.search import Claims, search
from policy_sched.plugins.volumes.storage_view import StorageView
from tests.examples import scaled
from tests.plugins.volumes.world import (
    NODES,
    ZONE,
    World,
    make_claim,
    make_class,
    make_volume,
    zoned_nodes,
)

CLASSES = (
    make_class("local", provisioner="kubernetes.io/no-provisioner"),
    make_class("zone-a", zones=["a"]),
    make_class("wait"),
)
SIZES = st.sampled_from(["1Gi", "2Gi", "3Gi"])
CLASS_NAMES = st.sampled_from([one.metadata.name for one in CLASSES])
VOLUMES = st.fixed_dictionaries(
    {
        "size": SIZES,
        "storage_class": CLASS_NAMES,
        "phase": st.sampled_from(["Available", "Available", "Released"]),
        "hosts": st.sampled_from([None, ["n0"], ["n1", "n2"], ["n2"]]),
        "claimRef": st.sampled_from([None, None, {"namespace": "default", "name": "c0"}]),
    }
)
CLAIMS = st.fixed_dictionaries(
    {
        "size": SIZES,
        "storage_class": CLASS_NAMES,
        "annotations": st.sampled_from([{}, {}, {}, {SELECTED_NODE: "n1"}]),
    }
)
BOUND = st.sampled_from(["v0", "v1", "gone"])

NOT_HERE, NOTHING, GONE = 1, 2, 8


def reached(volume: PersistentVolume, node: Node) -> bool:
    affinity = volume.spec.node_affinity
    wanted = NodeAffinity(required=affinity.required if affinity else None)
    return required_matches(wanted, node.metadata.labels, "")


def size(amounts: dict[str, Any]) -> int:
    return nanos(amounts["storage"])


def smallest(
    claim: PersistentVolumeClaim, volumes: Sequence[PersistentVolume], node: Node, taken: set[str]
) -> str | None:
    """Return the volume that the claim gets on one node, by a loop over volumes."""
    best: PersistentVolume | None = None
    for volume in volumes:
        if volume.metadata.name in taken:
            continue
        if volume.spec.storage_class_name != claim.spec.storage_class_name:
            continue
        big_enough = size(volume.spec.capacity) >= size(claim.spec.resources.requests)
        kept = volume.spec.claim_ref
        if kept is not None and kept.name == claim.metadata.name and big_enough:
            return volume.metadata.name if reached(volume, node) else None
        if kept is None and volume.status.phase == "Available" and big_enough:
            closer = best is None or size(volume.spec.capacity) < size(best.spec.capacity)
            if reached(volume, node) and closer:
                best = volume
    return best.metadata.name if best else None


def can_provide(storage_class: StorageClass, node: Node) -> bool:
    if storage_class.provisioner == "kubernetes.io/no-provisioner":
        return False
    allowed = [
        r.values for t in storage_class.allowed_topologies for r in t.match_label_expressions
    ]
    return not allowed or any(node.metadata.labels[ZONE] in values for values in allowed)


def on_one_node(
    bound: Sequence[PersistentVolumeClaim],
    waiting: Sequence[PersistentVolumeClaim],
    volumes: Sequence[PersistentVolume],
    node: Node,
) -> tuple[int, dict[str, str], list[str]]:
    """Return code, static bindings and claims to provision, as one node's binder finds them."""
    code = 0
    named = {volume.metadata.name: volume for volume in volumes}
    for claim in bound:
        volume = named.get(claim.spec.volume_name)
        if volume is None or not reached(volume, node):
            code |= GONE if volume is None else NOT_HERE
            break
    selected = [c for c in waiting if SELECTED_NODE in c.metadata.annotations]
    if any(c.metadata.annotations[SELECTED_NODE] != node.metadata.name for c in selected):
        return code | NOTHING, {}, []
    given: dict[str, str] = {}
    provide = list(selected)
    rest = [c for c in waiting if c not in selected]
    for claim in sorted(rest, key=lambda c: size(c.spec.resources.requests)):
        found = smallest(claim, volumes, node, set(given.values()))
        if found is None:
            provide.append(claim)
        else:
            given[claim.metadata.name] = found
    classes = {one.metadata.name: one for one in CLASSES}
    if not all(can_provide(classes[c.spec.storage_class_name or ""], node) for c in provide):
        return code | NOTHING, {}, []
    return code, given, [c.metadata.name for c in provide]


@settings(max_examples=scaled(250), deadline=None)
@given(
    volumes=st.lists(VOLUMES, max_size=6),
    waiting=st.lists(CLAIMS, max_size=3),
    bound=st.lists(BOUND, max_size=2),
)
def test_every_row_is_decided_as_its_node_alone_would_be(
    volumes: list[dict[str, Any]], waiting: list[dict[str, Any]], bound: list[str]
) -> None:
    """Reasons, the volume of each claim, and the claims to provision."""
    made = [make_volume(f"v{i}", **fields) for i, fields in enumerate(volumes)]
    claims = [make_claim(f"c{i}", **fields) for i, fields in enumerate(waiting)]
    owned = [make_claim(f"b{i}", volume=name) for i, name in enumerate(bound)]
    world = World(*CLASSES, *made, *claims, *owned)
    plan = search(Claims(tuple(owned), tuple(claims)), StorageView(world.handle), len(NODES))
    for row, node in enumerate(zoned_nodes()):
        code, given, provide = on_one_node(owned, claims, made, node)
        assert plan.codes[row] == code
        if code & NOTHING:
            continue
        bindings = {c.metadata.name: v.metadata.name for v, c in plan.bindings(row)}
        assert bindings == given
        assert [c.metadata.name for c in plan.to_provision(row)] == provide
