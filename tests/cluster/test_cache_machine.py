"""The cache as a state machine: no resource is ever lost or counted twice, whatever happens.

After every step everything is recomputed from scratch, and the journal is held against what
really changed in every column since the step before.
"""

from __future__ import annotations

import numpy as np
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from policy_sched.cluster.cache import Cache, PodState
from policy_sched.cluster.counts.counts import ROW
from policy_sched.cluster.counts.selector_counts import Part, PodMatch
from policy_sched.cluster.tables.column import Column, Eviction
from policy_sched.cluster.tables.schema import Key, Kind
from policy_sched.model.cluster_objects import Node
from policy_sched.model.meta import EPOCH, LabelSelector, LabelSelectorRequirement
from policy_sched.model.pod_info import PodInfo
from policy_sched.model.selectors import EVERYTHING, NOTHING, label_selector
from policy_sched.testing import make_node, make_pod
from tests.examples import scaled

TIME_TO_LIVE = 5
IMAGES = ("a", "b")
NODE_KEYS: list[Key] = [
    ("label", "zone"),
    ("annotation", "note"),
    ("field", "architecture"),
    ("unschedulable",),
    ("ready",),
    ("creationTime",),
    ("taints",),
    *((family, r) for family in ("allocatable", "capacity") for r in ("cpu", "memory", "x.y/z")),
    *(
        (family, resource)
        for family in ("allocatable?", "requested", "free", "nonZeroRequested")
        for resource in ("cpu", "memory", "x.y/z", "pods")
    ),
    *((family, name) for family in ("imageSize", "imagePresent") for name in IMAGES),
]
POD_KEYS: list[Key] = [
    ("label", "app"),
    ("annotation", "note"),
    ("nodeName",),
    ("namespace",),
    ("priority",),
    ("terminating",),
    ("hostNetwork",),
    ("startTime",),
    *((family, "cpu") for family in ("request", "nonZeroRequest", "limit")),
]
SELECTORS = (
    EVERYTHING,
    NOTHING,
    label_selector(LabelSelector(match_labels={"app": "web"})),
    *(
        label_selector(
            LabelSelector(
                match_expressions=(
                    LabelSelectorRequirement(key="app", operator=operator, values=values),
                )
            )
        )
        for operator, values in {
            "In": ("web", "db"),
            "NotIn": ("web",),
            "Exists": (),
            "DoesNotExist": (),
        }.items()
    ),
)
PARTS = st.tuples(
    st.sampled_from([None, frozenset({"team"}), frozenset({"default", "other"})]),
    st.sampled_from(SELECTORS),
)
TERM = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}
PREFERRED = {
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 5, "podAffinityTerm": TERM},
        {"weight": 7, "podAffinityTerm": TERM | {"namespaces": ["team"]}},
    ]
}
AFFINITIES = (
    None,
    {"podAntiAffinity": {}},
    {"nodeAffinity": {}},
    {"podAntiAffinity": REQUIRED},
    {"podAffinity": REQUIRED | PREFERRED, "podAntiAffinity": PREFERRED},
)
NODE_NAMES = st.sampled_from(["n0", "n1", "n2", "n3"])
UIDS = st.sampled_from([f"p{i}" for i in range(6)])


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    """Draw a node with one of four names, in one of a few shapes."""
    resources = draw(st.sampled_from([{}, {"x.y/z": 2}, {"x.y/z": "9E"}]))
    return make_node(
        draw(NODE_NAMES),
        cpu=draw(st.sampled_from(["1", "2500m", 0])),
        memory=draw(st.sampled_from(["1Gi", "7E"])),
        resources=resources,
        labels=draw(st.sampled_from([{}, {"zone": ""}, {"zone": "z1"}])),
        annotations=draw(st.sampled_from([{}, {"note": "x"}])),
        taints=draw(st.sampled_from([(), ("a=b:NoSchedule",), ("a:NoExecute", "a=b:NoSchedule")])),
        unschedulable=draw(st.booleans()),
        ready=draw(st.booleans()),
        images=draw(st.dictionaries(st.sampled_from(IMAGES), st.sampled_from([10, 20]))),
    )


@st.composite
def pods(draw: st.DrawFn, node_name: str) -> PodInfo:
    """Draw a pod with one of six uids, in one of a few shapes; ``node_name`` "" is pending."""
    uid = draw(UIDS)
    pod = make_pod(
        uid,
        uid=uid,
        namespace=draw(st.sampled_from(["", "team"])),
        cpu=draw(st.sampled_from([None, "100m", "2"])),
        memory=draw(st.sampled_from([None, "1Mi", "9007199254740993"])),
        requests=draw(st.sampled_from([{}, {"x.y/z": 1}, {"x.y/z": 2**61 + 1}, {"x.y/z": "8Ei"}])),
        labels=draw(st.sampled_from([{}, {"app": "web"}, {"app": "db", "x": "y"}])),
        host_ports=draw(st.sampled_from([(), (80,), (80, 443), (443, 443)])),
        affinity=draw(st.sampled_from(AFFINITIES)),
        priority=draw(st.sampled_from([None, 7])),
        node_name=node_name,
    )
    if draw(st.booleans()):
        pod.metadata.deletion_timestamp = EPOCH
    return PodInfo.of(pod)


class CacheMachine(RuleBasedStateMachine):
    """Every event of nodes and pods that the transition table allows, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache(time_to_live=TIME_TO_LIVE)
        self.now = 0
        self.sizes: dict[str, tuple[int, set[str]]] = {}
        self.known: dict[str, Node] = {}
        self.seen: dict[Key, tuple[int, np.ndarray]] = {}
        self.seen_version = 0
        self.by_stamp: dict[tuple[int, int, Key], int] = {}

    @initialize(keys=st.sets(st.sampled_from(NODE_KEYS)), crowd=st.sampled_from([0, 0, 15, 40]))
    def start(self, keys: set[Key], crowd: int) -> None:
        """Some columns are there from the start, and sometimes the arrays must grow."""
        for key in sorted(keys):
            self.cache.nodes.column(key)
        for number in range(crowd):
            self.cache.add_node(make_node(f"crowd{number}"))
            self.cache.add_pod(
                PodInfo.of(make_pod(f"c{number}", cpu="1", node_name=f"crowd{number}"))
            )

    @rule(key=st.sampled_from(NODE_KEYS))
    def look_at_nodes(self, key: Key) -> None:
        """A rule asks for a node column."""
        self.cache.nodes.column(key)

    @rule(key=st.sampled_from(POD_KEYS))
    def look_at_pods(self, key: Key) -> None:
        """A rule asks for a pod column."""
        self.cache.pods.column(key)

    @rule(
        parts=st.lists(PARTS, min_size=1, max_size=2),
        terminating=st.booleans(),
        key=st.sampled_from(["zone", "rack", ROW]),
    )
    def look_at_counts(self, parts: list[Part], terminating: bool, key: str) -> None:
        """A plugin asks for the pods of a selector by domain."""
        counts = self.cache.counts.selected.of(PodMatch(tuple(parts), terminating=terminating))
        counts.by(self.cache.counts.domains.of(key))

    @rule(key=st.sampled_from(["zone", "rack", ROW]))
    def look_at_terms(self, key: str) -> None:
        """A plugin asks for the carriers of every term by domain."""
        for counts in self.cache.counts.all_counts():
            counts.by(self.cache.counts.domains.of(key))

    @rule(node=nodes(), as_update=st.booleans())
    def add_or_update_node(self, node: Node, as_update: bool) -> None:
        """A node comes or changes; adding a known one and updating an unknown one are the same."""
        self.forget_images(node.metadata.name)
        for image in node.status.images:
            size, holders = self.sizes.setdefault(image.names[0], (image.size_bytes, set()))
            self.sizes[image.names[0]] = (size, holders | {node.metadata.name})
        self.known[node.metadata.name] = node
        (self.cache.update_node if as_update else self.cache.add_node)(node)

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def remove_node(self, data: st.DataObject) -> None:
        """A node goes, with or without pods."""
        name = data.draw(st.sampled_from(sorted(self.known)))
        self.forget_images(name)
        self.cache.remove_node(self.known.pop(name))

    def forget_images(self, name: str) -> None:
        """Take a node's images out of the model."""
        for image, (size, holders) in list(self.sizes.items()):
            self.sizes[image] = (size, holders - {name})
            if holders <= {name}:
                del self.sizes[image]

    @rule(info=pods(""), name=NODE_NAMES)
    def assume(self, info: PodInfo, name: str) -> None:
        """The scheduler decides."""
        if self.cache.state(info.uid) is PodState.INITIAL:
            self.cache.assume(info, name)

    @rule(uid=UIDS)
    def finish_binding(self, uid: str) -> None:
        """A binding ends well, perhaps after the watch has shown it."""
        if self.cache.state(uid) is not PodState.BOUND:
            self.cache.finish_binding(uid, self.now)

    @rule(uid=UIDS, since=st.integers(0, 10**18))
    def confirm(self, uid: str, since: int) -> None:
        """The watch shows a pod running where it was assumed, and nothing else changed."""
        if self.cache.is_assumed(uid):
            assumed = self.cache.pod(uid)
            assert assumed is not None
            running = assumed.running(self.cache.node_of(uid), since)
            self.cache.confirm(running)
            assert self.cache.pod(uid) is running
            assert self.cache.state(uid) is PodState.ADDED

    @rule(uid=UIDS)
    def forget(self, uid: str) -> None:
        """A binding fails, perhaps after the pod is gone."""
        if self.cache.state(uid) is not PodState.ADDED:
            self.cache.forget(uid)
            assert self.cache.state(uid) is PodState.INITIAL

    @rule(by=st.integers(1, 2 * TIME_TO_LIVE))
    def expire(self, by: int) -> None:
        """Time passes; what expires is gone."""
        self.now += by
        for info in self.cache.expire(self.now):
            assert self.cache.state(info.uid) is PodState.INITIAL
            assert info.node_name == ""

    @rule(data=st.data(), name=NODE_NAMES)
    def add_or_update_pod(self, data: st.DataObject, name: str) -> None:
        """The watch shows a bound pod: new, confirmed here or elsewhere, or changed in place."""
        info = data.draw(pods(name))
        if self.cache.state(info.uid) is PodState.ADDED:
            info.node_name = self.cache.node_of(info.uid)
            self.cache.update_pod(info)
        else:
            self.cache.add_pod(info)
        assert self.cache.state(info.uid) is PodState.ADDED
        assert self.cache.pod(info.uid) is info

    @rule(data=st.data())
    def remove_pod(self, data: st.DataObject) -> None:
        """The watch shows that a pod is gone; it may show an older form of it."""
        info = data.draw(pods("n0"))
        if self.cache.state(info.uid) is not PodState.INITIAL:
            self.cache.remove_pod(info)
            assert self.cache.pod(info.uid) is None

    @invariant()
    def nothing_lost_or_counted_twice(self) -> None:
        """Recomputing everything from scratch finds no difference."""
        assert self.cache.check() == []

    @invariant()
    def image_sizes_are_the_first_reports(self) -> None:
        """An image's size is what the first of its present nodes said, on all of them."""
        states = self.cache.nodes.images.states
        found = {name: state.size for name, state in states.items()}
        assert found == {name: size for name, (size, _) in self.sizes.items()}

    @invariant()
    def amounts_stay_in_range(self) -> None:
        """Amounts stay within their declared ranges whatever nodes and pods say."""
        for column in self.cache.nodes.materialised.values():
            family = column.family
            if family.argument == "resource" and family.maximum > 1:
                assert family.minimum <= int(column.values.min())
                assert int(column.values.max()) <= family.maximum

    @invariant()
    def rows_with_an_equal_stamp_are_equal(self) -> None:
        """Whatever happened to a row meanwhile, its columns hold what they held then."""
        nodes = self.cache.nodes
        for key, column in nodes.materialised.items():
            if key[0] in {"podCount", "requested", "free", "nonZeroRequested"}:
                for row in range(nodes.n):
                    place, value = (row, nodes.journal.stamps[row], key), column.values.item(row)
                    assert self.by_stamp.setdefault(place, value) == value, place

    @invariant()
    def journal_names_every_changed_row(self) -> None:
        """A row that the journal does not name is unchanged; so is a column of equal version."""
        nodes = self.cache.nodes
        changes = nodes.journal.since(self.seen_version)
        assert changes is not None
        kinds = dict(zip(changes.rows, changes.kinds, strict=True))
        for key, (version, values) in self.seen.items():
            column = nodes.materialised.get(key)
            if column is None:
                continue  # no reference was left
            before = np.zeros_like(column.values)
            before[: len(values)] = values
            changed = {int(row) for row in np.flatnonzero(before != column.values)}
            assert changed <= kinds.keys(), key
            if column.family.kind is Kind.STATIC:
                assert not changed or column.version > version, key
                assert all(kinds[row] & 5 for row in changed), key
            else:
                assert all(kinds[row] & 6 for row in changed), key
        self.seen = {k: (c.version, c.values.copy()) for k, c in nodes.materialised.items()}
        self.seen_version = nodes.journal.version


CacheMachine.TestCase.settings = settings(
    max_examples=scaled(80), stateful_step_count=40, deadline=None
)
TestCache = CacheMachine.TestCase


class ForgetfulMachine(CacheMachine):
    """The same with idle columns evicted at every node event."""

    def __init__(self) -> None:
        super().__init__()
        nodes, pods = self.cache.nodes, self.cache.pods
        nodes.eviction, pods.eviction = Eviction(most=1), Eviction(most=1)
        for sets in (nodes.port_sets, nodes.taint_sets):
            sets.many = sets._due = 1
        self.kept: list[Column] = []

    @rule(key=st.sampled_from(NODE_KEYS))
    def keep_a_node_column(self, key: Key) -> None:
        """A compiled rule holds a column."""
        self.kept.append(self.cache.nodes.column(key))

    @rule(key=st.sampled_from(POD_KEYS))
    def keep_a_pod_column(self, key: Key) -> None:
        """Likewise for pod columns."""
        self.kept.append(self.cache.pods.column(key))

    @rule(key=st.sampled_from(NODE_KEYS))
    def look_up_a_node_column(self, key: Key) -> None:
        """A plugin reads a column that a pod names."""
        self.cache.nodes.lookup(key)

    @invariant()
    def what_is_held_is_what_the_table_has(self) -> None:
        """A column that is held is kept up to date, and later reads return it."""
        for column in self.kept:
            tables = self.cache.nodes.materialised, self.cache.pods.materialised
            assert any(table.get(column.key) is column for table in tables)


ForgetfulMachine.TestCase.settings = settings(
    max_examples=scaled(60), stateful_step_count=40, deadline=None
)
TestForgetfulCache = ForgetfulMachine.TestCase
