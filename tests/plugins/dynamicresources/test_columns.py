"""The columns of devices answer as a search does that looks at every device of every node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from policy_sched.client import MemoryClient
from policy_sched.cluster import ApiObjects, Cache
from policy_sched.framework import Code, CycleState, Handle, Status, WaitingPods
from policy_sched.model import ApiObject, ResourceClaim, ResourceSlice
from policy_sched.plugins.dynamicresources import DynamicResources
from policy_sched.plugins.dynamicresources.claim_store import ClaimStores
from policy_sched.plugins.dynamicresources.devices import NodeView
from policy_sched.plugins.dynamicresources.extended_resources import ExtendedResourceError
from policy_sched.plugins.dynamicresources.node_search import PodSearch
from policy_sched.plugins.dynamicresources.pools import NodePools, PoolId, SliceIndex
from policy_sched.plugins.dynamicresources.requests import AllocationError
from policy_sched.queue import Nominator
from policy_sched.testing import make_node
from tests.examples import scaled

from .world import DRIVER, device_class, exactly, pod_with, resource_claim, resource_slice

Plain = dict[str, Any]
NODES: Final = ("n0", "n1", "n2")


def selector(expression: str) -> list[Plain]:
    """Return a list of one selector."""
    return [{"cel": {"expression": expression}}]


BIG: Final = selector(f'device.attributes["{DRIVER}"].big')
NUMA: Final = f"{DRIVER}/numa"
TOLERATION: Final = [{"key": "sick", "operator": "Exists"}]
MEMORY: Final = {"requests": {"memory": "4Gi"}}
CLAIMS: Final[dict[str, tuple[list[Plain], Plain]]] = {
    "one": ([exactly("r")], {}),
    "two": ([exactly("r", 2)], {}),
    "big": ([exactly("r", selectors=BIG)], {}),
    "tolerant": ([exactly("r", 2, tolerations=TOLERATION)], {}),
    "admin": ([exactly("r", 2, adminAccess=True)], {}),
    "share": ([exactly("r", capacity=MEMORY)], {}),
    "shares": ([exactly("r", capacity=MEMORY), exactly("s", capacity=MEMORY)], {}),
    "pair": ([exactly("r", 2), exactly("s")], {"constraints": [{"matchAttribute": NUMA}]}),
    "distinct": ([exactly("r", 2)], {"constraints": [{"distinctAttribute": NUMA}]}),
    "match": ([exactly("r", 2)], {"constraints": [{"matchAttribute": NUMA}]}),
    "both": ([exactly("r"), exactly("s", selectors=BIG)], {}),
    "alike": ([exactly("r"), exactly("s")], {}),
    "all": ([exactly("r", 0, allocationMode="All")], {}),
    "either": (
        [
            {
                "name": "r",
                "firstAvailable": [
                    {"name": "b", **exactly("", selectors=BIG)["exactly"]},
                    {"name": "t", **exactly("", 2)["exactly"]},
                ],
            }
        ],
        {},
    ),
}
PODS: Final = (
    *[(name,) for name in CLAIMS],
    ("one", "one"), ("big", "match"), ("one", "taken"), ("taken",), (),
)  # fmt: skip
"""The claims of each pod; one without claims requests an extended resource that a class serves."""
EXTENDED: Final = "example.com/gpu"

attributes = st.fixed_dictionaries(
    {}, optional={"big": st.booleans(), "numa": st.integers(0, 1), "odd": st.just(None)}
)


@st.composite
def devices(draw: st.DrawFn) -> list[Plain]:
    """Return the devices of a slice."""
    found = []
    for number in range(draw(st.integers(0, 4))):
        device: Plain = {"name": f"d{number}", "attributes": {}}
        for name, value in draw(attributes).items():
            kind = {bool: "bool", int: "int"}.get(type(value))
            device["attributes"][name] = {} if kind is None else {kind: value}
        if draw(st.booleans()):
            device["capacity"] = {"memory": {"value": draw(st.sampled_from(["2Gi", "8Gi"]))}}
            device["allowMultipleAllocations"] = draw(st.booleans())
        if draw(st.integers(0, 3)) == 0:
            device["taints"] = [{"key": "sick", "effect": "NoSchedule"}]
        if draw(st.integers(0, 3)) == 0:
            counters = {"slots": {"value": str(draw(st.integers(1, 2)))}}
            device["consumesCounters"] = [{"counterSet": "board", "counters": counters}]
        found.append(device)
    return found


class Columns(RuleBasedStateMachine):
    """A cluster whose slices, claims, classes and nodes change; each step compares all answers."""

    def __init__(self) -> None:
        super().__init__()
        cache = Cache()
        self.cache = cache
        self.objects = ApiObjects((), cache.nodes.journal)
        client = MemoryClient(objects=self.objects)
        self.handle = Handle(cache, WaitingPods(), Nominator(), client, lambda: 0, self.objects)
        self.plugin = DynamicResources({}, self.handle)
        self.slices: dict[str, ApiObject] = {}
        self.generation = 1
        self.made = 0

    @initialize()
    def begin(self) -> None:
        """Add nodes and the claims that are asked about."""
        self.objects.put(device_class(extendedResourceName=EXTENDED))
        for name in NODES:
            self.cache.add_node(make_node(name, labels={"zone": name[-1]}))
        for name, (requests, more) in CLAIMS.items():
            self.objects.put(resource_claim(name, *requests, **more))

    @rule(
        name=st.sampled_from([*NODES, "shared"]),
        slice_of=st.sampled_from(["all", "zone", "each"]),
        published=devices(),
        counted=st.booleans(),
        newer=st.booleans(),
    )
    def publish(
        self, name: str, slice_of: str, published: list[Plain], *, counted: bool, newer: bool
    ) -> None:
        """A slice comes or changes, of one node or of several."""
        self.generation += newer
        where: Plain = {}
        if name == "shared" and slice_of == "each":
            where = {"perDeviceNodeSelection": True}
            published = [{**one, "nodeName": NODES[i % 3]} for i, one in enumerate(published)]
        elif name == "shared":
            where = {"allNodes": True}
            if slice_of == "zone":
                zone = {"key": "zone", "operator": "In", "values": ["0", "9"]}
                where = {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}}
        pool = {"name": name, "generation": self.generation, "resourceSliceCount": 1 + counted}
        made = resource_slice(name, published, **where, pool=pool)
        if slice_of == "each" and name == "shared":
            made = replace(made, spec=replace(made.spec, node_name=None))
        self._put(name, made)
        if counted:
            sets = [{"name": "board", "counters": {"slots": {"value": "2"}}}]
            counters = resource_slice(name, [], **where, pool=pool, sharedCounters=sets)
            meta = replace(counters.metadata, name=f"{name}-counters")
            self._put(f"{name}-counters", replace(counters, metadata=meta))

    def _put(self, name: str, one: ApiObject) -> None:
        self.slices[name] = one
        self.objects.put(one)

    @precondition(lambda self: self.slices)
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        """A slice goes."""
        name = data.draw(st.sampled_from(sorted(self.slices)))
        self.objects.remove(self.slices.pop(name))

    @rule(shape=st.sampled_from(sorted(CLAIMS)), row=st.integers(0, 2), written=st.booleans())
    def take(self, shape: str, row: int, *, written: bool) -> None:
        """A claim gets what the node gives; it is in flight, or written."""
        requests, more = CLAIMS[shape]
        self.made += 1
        name = "taken" if written else f"taken-{self.made}"
        claim = resource_claim(name, *requests, **more)
        self.objects.put(claim)
        pod = pod_with(f"p{self.made}", name)
        if row >= self.handle.nodes.n or not self.handle.nodes.names[row]:
            return
        state = CycleState()
        if not self.plugin.pre_filter(state, pod).status.ok:
            return
        if self.plugin.reserve(state, pod, self.handle.nodes.names[row]).ok and written:
            self.plugin.pre_bind(state, pod, self.handle.nodes.names[row])

    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        """A claim goes, and its devices are free."""
        taken = [one for one in self.objects.of(ResourceClaim) if "taken" in one.metadata.name]
        if taken:
            claim = data.draw(st.sampled_from(taken))
            self.plugin._claims.release(claim)
            self.objects.remove(claim)

    @rule(name=st.sampled_from(NODES), zone=st.sampled_from("019"), gpus=st.sampled_from("02"))
    def change_node(self, name: str, zone: str, gpus: str = "0") -> None:
        """A node changes, or comes back."""
        node = make_node(name, labels={"zone": zone}, resources={EXTENDED: gpus})
        known = name in self.handle.nodes.row_of
        (self.cache.update_node if known else self.cache.add_node)(node)

    @rule(name=st.sampled_from(NODES))
    def drain(self, name: str) -> None:
        """A node goes."""
        row = self.handle.nodes.row_of.get(name)
        if row is not None:
            node = self.handle.nodes.nodes[row]
            assert node is not None
            self.cache.remove_node(node)

    @rule(big=st.booleans())
    def reclass(self, *, big: bool) -> None:
        """The device class selects other devices."""
        texts = [f'device.attributes["{DRIVER}"].?big.orValue(false)'] if big else []
        self.objects.put(device_class("gpu", *texts, extendedResourceName=EXTENDED))

    @invariant()
    def the_answers_are_those_of_a_search(self) -> None:
        """For every pod on every node: the status, and the devices."""
        plugin, rows = self.plugin, sorted(self.handle.nodes.row_of.values())
        fresh = ClaimStores(self.objects, plugin._claims, plugin._extended)
        for number, names in enumerate(PODS):
            requests = {} if names else {EXTENDED: "1"}
            pod = pod_with(f"asked-{number}", *names, requests=requests)
            state = CycleState()
            if not plugin.pre_filter(state, pod).status.ok:
                continue
            verdict = plugin.filter(state, pod, None, self.handle.nodes)
            assert verdict.codes is not None
            got = verdict.describe(np.array(rows), verdict.codes[rows])
            search = PodSearch(plugin._search, fresh.of(pod), columns=False)
            assert got == [search.status(row) for row in rows], names
            assert [self._devices(pod, row) for row in rows] == [
                _devices(search, row) for row in rows
            ], names

    @invariant()
    def pools_are_those_of_a_new_index(self) -> None:
        """What is known of a node is what an index of the slices as they are finds."""
        index = self.plugin._claims.slices
        fresh = SliceIndex(self.objects.of(ResourceSlice))
        reached: dict[PoolId, set[str]] = {}
        for name, (labels, found, pools) in index._gathered.items():
            assert _plain(found) == _plain(fresh.gather(NodeView(name, labels)))
            for pool in pools:
                reached.setdefault(pool, set()).add(name)
        assert all(index._on.values())
        assert index._nodes_of == reached

    def _devices(self, pod: Any, row: int) -> object:
        try:
            found = self.plugin._columns.find(self.plugin._claim_stores.of(pod), row)
        except (AllocationError, ExtendedResourceError) as error:
            return str(error)
        return None if found is None else _ids(found)


def _plain(pools: NodePools) -> object:
    return [
        (one.id, one.incomplete, one.invalid, [device.id for device in one.devices()])
        for one in pools
    ]


def _devices(search: PodSearch, row: int) -> object:
    try:
        found = search.find(row)
    except (AllocationError, ExtendedResourceError) as error:
        return str(error)
    return None if found is None else _ids(found)


def _ids(found: Any) -> list[list[tuple[str, object]]]:
    return [
        [(one.request.full_name, one.device.id, one.consumed) for one in claim]
        for claim in found.devices
    ]


TestColumns = Columns.TestCase
TestColumns.settings = settings(max_examples=scaled(40), stateful_step_count=10, deadline=None)


def play(*steps: Callable[[Columns], object]) -> None:
    """Compare all answers after each step."""
    machine = Columns()
    machine.begin()
    for step in steps:
        step(machine)
        machine.the_answers_are_those_of_a_search()


def published(name: str, device: Plain, slice_of: str = "all") -> Callable[[Columns], object]:
    """Return the step in which a slice with a device comes."""
    made = [{"name": "d0", "attributes": {}, **device}]
    return lambda m: m.publish(name, slice_of, made, counted=False, newer=False)


def test_a_device_without_memory_left_is_offered_to_no_claim() -> None:
    """A pod whose claim wants a share of a device was sent to a node where none was left."""
    whole = {"capacity": {"memory": {"value": "8Gi"}}, "allowMultipleAllocations": True}
    play(published("n0", whole), *[lambda m: m.take("share", 0, written=False)] * 3)


def test_an_allocated_claim_keeps_pods_from_a_node_whose_labels_have_changed() -> None:
    """A pod went to a node that does not reach its devices any more."""
    play(
        published("shared", {}, "zone"),
        lambda m: m.take("one", 0, written=True),
        lambda m: m.change_node("n0", "1"),
        lambda m: m.change_node("n1", "9"),
    )


def test_a_node_that_has_an_extended_resource_itself_needs_no_devices() -> None:
    """Its device plugin came up, and pods were still told that devices are missing."""
    play(lambda m: m.change_node("n0", "0", gpus="2"), lambda m: m.change_node("n0", "0"))


def test_a_class_that_selects_other_devices_counts_for_claims_that_were_read_before() -> None:
    """Pods still got devices that the class had selected when their claims were first read."""
    play(published("n0", {}), lambda m: m.reclass(big=True), lambda m: m.reclass(big=False))


def test_a_status_keeps_its_meaning_when_numbers_are_used_again() -> None:
    """Pods were told of an error of another claim, after 30,000 of them."""

    def fail(machine: Columns) -> None:
        for number in range(30_000):
            machine.plugin._statuses.number(Status(Code.ERROR, (str(number),)))

    play(published("n0", {}), fail)


def test_two_requests_for_one_device_are_searched_once_it_has_capacity_again() -> None:
    """While nothing was left of it, they seemed to want different ones; then both were to get it.

    The pod's attempts ended in Reserve, again and again.
    """
    whole = {"capacity": {"memory": {"value": "8Gi"}}, "allowMultipleAllocations": True}

    def give_back(machine: Columns) -> None:
        for claim in machine.objects.of(ResourceClaim):
            if "taken" in claim.metadata.name:
                machine.plugin._claims.release(claim)
                machine.objects.remove(claim)

    play(
        published("n0", {"attributes": {"big": {"bool": True}}, **whole}),
        lambda m: m.take("share", 0, written=False),
        lambda m: m.take("share", 0, written=False),
        lambda m: m.reclass(big=True),
        give_back,
    )
