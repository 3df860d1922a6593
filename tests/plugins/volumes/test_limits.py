"""NodeVolumeLimits: each volume of a driver counts once on a node, and no limit is exceeded."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

from policy_sched.framework.status import SKIP, Code
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.storage import PersistentVolume
from policy_sched.plugins.volumes.limits import NodeVolumeLimits
from policy_sched.testing import make_node
from tests.examples import scaled
from tests.plugins.volumes.world import (
    World,
    ask,
    make_attachment,
    make_claim,
    make_class,
    make_csi_node,
    make_volume,
    pod_with,
    reasons,
    rejection,
    uses,
)

FULL = ("node(s) exceed max volume count",)
GCE = "pd.csi.storage.gke.io"


def csi(name: str, driver: str = "d") -> PersistentVolume:
    """Return the bound volume of a claim."""
    source = {"driver": driver, "volumeHandle": f"h-{name}"}
    return make_volume(f"pv-{name}", phase="Bound", csi=source)


def world_of(limits: dict[str, int | None], *claims: str) -> World:
    """Return a world where n0 limits drivers, and each claim has a volume of driver d."""
    bound = [make_claim(name, volume=f"pv-{name}") for name in claims]
    return World(make_csi_node("n0", limits), *bound, *(csi(name) for name in claims))


def answer(world: World, pod: PodInfo) -> list[tuple[str, ...]]:
    plugin = NodeVolumeLimits({}, world.handle)
    assert rejection(ask(plugin, pod)[0]).ok
    return reasons(plugin.filter(pod, None, world.cache.nodes))


def test_pods_without_anything_to_attach_are_skipped() -> None:
    """No volumes, or disks that no CSI driver attaches."""
    plugin = NodeVolumeLimits({}, World().handle)
    for pod in (pod_with(), pod_with({"iscsi": {"iqn": "q"}})):
        assert rejection(ask(plugin, pod)[0]) == SKIP
    assert rejection(ask(plugin, pod_with({"cinder": {"volumeID": "c"}}))[0]).ok


def test_a_full_node_is_refused() -> None:
    """Nodes without limits, or with another driver's, accept the pod."""
    world = world_of({"d": 1, "e": 0}, "a", "b")
    world.objects.put(make_csi_node("n1", {"e": 0, "d": None}))
    assert answer(world, pod_with(uses("a"))) == [(), (), ()]
    world.run("n0", "first", uses("a"))
    assert answer(world, pod_with(uses("b"))) == [FULL, (), ()]


def test_one_volume_counts_once() -> None:
    """With any number of pods and volumes that name it, running ones and the new one."""
    world = world_of({"d": 2}, "a", "b")
    for i in range(3):
        world.run("n0", f"p{i}", uses("a"), uses("a"))
    assert answer(world, pod_with(uses("a"))) == [(), (), ()]
    assert answer(world, pod_with(uses("a"), uses("b"))) == [(), (), ()]
    world.run("n0", "q", uses("b"))
    world.objects.put(make_claim("c", volume="pv-c"))
    world.objects.put(csi("c"))
    assert answer(world, pod_with(uses("a"), uses("c"))) == [FULL, (), ()]


def test_a_claim_without_volume_counts_by_its_class() -> None:
    """A volume of the class's driver will be created; an in-tree provisioner means its driver."""
    world = World(
        make_csi_node("n0", {"csi.example": 1, GCE: 0}),
        make_class(),
        make_class("old", provisioner="kubernetes.io/gce-pd"),
        make_claim("a"),
        make_claim("b"),
        make_claim("old", storage_class="old"),
        make_claim("none", storage_class="unknown"),
        make_claim("lost", volume="gone"),
    )
    world.run("n0", "first", uses("a"))
    assert answer(world, pod_with(uses("a"))) == [(), (), ()]
    assert answer(world, pod_with(uses("b"))) == [FULL, (), ()]
    assert answer(world, pod_with(uses("lost"))) == [FULL, (), ()]
    assert answer(world, pod_with(uses("old"))) == [FULL, (), ()]
    assert answer(world, pod_with(uses("none"))) == [(), (), ()]


def test_in_tree_disks_count_for_the_driver_that_took_over() -> None:
    """Inline, or behind a claim; a volume that no driver attaches does not count."""
    world = World(
        make_csi_node("n0", {GCE: 1}),
        make_claim("a", volume="pv-a"),
        make_volume("pv-a", phase="Bound", gcePersistentDisk={"pdName": "x"}),
        make_claim("local", volume="pv-l"),
        make_volume("pv-l", phase="Bound", local={"path": "/d"}),
    )
    world.run("n0", "first", uses("a"))
    disk: dict[str, Any] = {"gcePersistentDisk": {"pdName": "y"}}
    assert answer(world, pod_with(disk)) == [FULL, (), ()]
    assert answer(world, pod_with({"gcePersistentDisk": {"pdName": "x"}})) == [(), (), ()]
    assert answer(world, pod_with(uses("local"))) == [(), (), ()]


def test_attachments_without_a_pod_count() -> None:
    """A volume takes time to be detached; one that a pod also uses counts once."""
    world = world_of({"d": 2}, "a", "b")
    world.objects.put(csi("going"))
    world.objects.put(make_attachment("x", "n0", "pv-going", "d"))
    world.objects.put(make_attachment("y", "n0", "pv-gone", "d"))
    world.objects.put(make_attachment("z", "n9", "pv-a", "d"))
    assert answer(world, pod_with(uses("a"), uses("b"))) == [FULL, (), ()]
    world.run("n0", "first", uses("a"))
    world.objects.put(make_attachment("z", "n0", "pv-a", "d"))
    assert answer(world, pod_with(uses("a"))) == [(), (), ()]
    assert answer(world, pod_with(uses("b"))) == [FULL, (), ()]
    world.objects.remove(make_attachment("x", "n0", "pv-going", "d"))
    assert answer(world, pod_with(uses("b"))) == [(), (), ()]


def test_a_missing_claim_refuses_all_nodes() -> None:
    """Its volume is unknown; an ephemeral claim of another pod is an error."""
    world = World(make_claim("p-v0"), make_csi_node("n0", {"d": 1}))
    plugin = NodeVolumeLimits({}, world.handle)
    verdict = plugin.filter(pod_with(uses("gone")), None, world.cache.nodes)
    why = ('looking up PVC default/gone: persistentvolumeclaim "gone" not found',)
    assert reasons(verdict) == [why] * 3
    rows = np.array([0])
    assert verdict.describe(rows, np.ones(1, np.int16))[0].code is (
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    )
    verdict = plugin.filter(pod_with({"ephemeral": {}}), None, world.cache.nodes)
    assert verdict.error == "PVC default/p-v0 was not created for pod default/p (pod is not owner)"
    assert (
        plugin.filter(pod_with(uses("")), None, world.cache.nodes).error
        == "PersistentVolumeClaim had no name"
    )


def test_an_ephemeral_claim_of_another_pod_fails_the_filter_on_that_node() -> None:
    """A running pod with such a claim was passed over; kube-scheduler fails pods with volumes."""
    world = world_of({"d": 9}, "a")
    world.objects.put(make_csi_node("n2", {"e": 9}))
    plugin = NodeVolumeLimits({}, world.handle)
    pod, nodes = pod_with(uses("a")), world.cache.nodes
    assert reasons(plugin.filter(pod, None, nodes)) == [(), (), ()]
    thief = world.run("n0", "run", {"ephemeral": {}})
    for node in ("n1", "n2"):
        world.run(node, f"run-{node}", {"ephemeral": {}})
        world.objects.put(make_claim(f"run-{node}-v0"))
    assert [bool(why) for why in reasons(plugin.filter(pod, None, nodes))] == [False, False, True]
    world.objects.put(make_claim("run-v0"))
    verdict = plugin.filter(pod, None, nodes)
    why = "PVC default/run-v0 was not created for pod default/run (pod is not owner)"
    assert reasons(verdict)[0] == (why,)
    assert verdict.codes is not None
    assert [int(code) in verdict.fatal for code in verdict.codes] == [True, False, True]
    assert reasons(plugin.filter(pod, np.array([0, 1]), nodes), 2) == [(why,), ()]
    with world.cache.overlay as without:
        without.remove(0, thief)
        assert reasons(plugin.filter(pod, None, without))[0] == ()
    assert plugin.filter(pod_with({"iscsi": {"iqn": "q"}}), None, nodes).codes is None
    owner = {"kind": "Pod", "name": "run", "uid": thief.pod.metadata.uid, "controller": True}
    world.objects.put(make_claim("run-v0", owners=[owner]))
    assert reasons(plugin.filter(pod, None, nodes))[0] == ()
    world.objects.put(make_claim("run-v0"))
    world.cache.remove_pod(thief)
    assert reasons(plugin.filter(pod, None, nodes))[0] == ()


def test_without_a_pod_its_volume_is_free() -> None:
    """The filter reads the pods of the view that it is given."""
    world = world_of({"d": 1}, "a", "b")
    first = world.run("n0", "first", uses("a"))
    plugin = NodeVolumeLimits({}, world.handle)
    pod, rows = pod_with(uses("b")), np.array([0, 1])
    assert reasons(plugin.filter(pod, rows, world.cache.nodes), 2) == [FULL, ()]
    with world.cache.overlay as nodes:
        nodes.remove(0, first)
        assert reasons(plugin.filter(pod, rows, nodes), 2) == [(), ()]
        assert reasons(plugin.filter(pod, None, nodes)) == [(), (), ()]
    assert reasons(plugin.filter(pod, None, world.cache.nodes)) == [FULL, (), ()]


CLAIMS = ("a", "b", "c")
NODES = ("n0", "n1", "n2")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["run", "stop", "attach", "limit"]),
        st.sampled_from(NODES),
        st.sets(st.sampled_from(CLAIMS), min_size=1),
        st.integers(0, 3),
    ),
    max_size=12,
)


@settings(max_examples=scaled(150), deadline=None)
@given(steps=STEPS, wanted=st.sets(st.sampled_from(CLAIMS), min_size=1))
def test_the_count_is_that_of_all_volumes_on_the_node(
    steps: list[tuple[str, str, set[str], int]], wanted: set[str]
) -> None:
    """After any events, and in whatever order the plugin was called before."""
    world = world_of({"d": 2}, *CLAIMS)
    plugin = NodeVolumeLimits({}, world.handle)
    limits, pods, attached = {"n0": 2}, list[tuple[PodInfo, set[str]]](), set[tuple[str, str]]()
    pod = pod_with(*map(uses, sorted(wanted)))
    for i, (step, node, claims, number) in enumerate(steps):
        match step:
            case "run":
                pods.append((world.run(node, f"r{i}", *map(uses, sorted(claims))), claims))
            case "stop" if pods:
                world.cache.remove_pod(pods.pop(number % len(pods))[0])
            case "attach":
                name = min(claims)
                attached.add((node, name))
                world.objects.put(make_attachment(f"{node}-{name}", node, f"pv-{name}", "d"))
            case "limit":
                limits[node] = number
                world.objects.put(make_csi_node(node, {"d": number}))
        expected = []
        for name in NODES:
            used = {c for one, names in pods if one.node_name == name for c in names}
            there = used | {claim for where, claim in attached if where == name}
            over = len(there) + len(wanted - used) > limits.get(name, 99) and wanted > used & wanted
            expected.append(FULL if over else ())
        assert reasons(plugin.filter(pod, None, world.cache.nodes)) == expected
        assert reasons(plugin.filter(pod, np.array([2, 1, 0]), world.cache.nodes)) == expected[::-1]


def test_limits_of_a_node_that_comes_later_count() -> None:
    """A CSINode was there before its node, whose limit was not known until another changed."""
    world = world_of({"d": 1}, "a", "b")
    world.handle.objects.put(make_csi_node("later", {"d": 1}))
    pod, plugin = pod_with(uses("a"), uses("b")), NodeVolumeLimits({}, world.handle)

    def refused() -> list[int]:
        assert rejection(ask(plugin, pod)[0]).ok
        codes = plugin.filter(pod, None, world.cache.nodes).codes
        assert codes is not None, "the first node is full"
        return np.flatnonzero(codes).tolist()

    assert refused() == [0]
    world.cache.add_node(make_node("later"))
    assert refused() == [0, 3]
