"""The cache: what each event does to the tables.

The transition table of a pod in the cache.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from policy_sched.cluster.cache import (
    TRANSITIONS,
    Cache,
    PodEvent,
    PodState,
    PodStateError,
    next_state,
)
from policy_sched.cluster.tables.journal import DYNAMIC, STRUCTURE
from policy_sched.errors import ClusterError
from policy_sched.model.cluster_objects import Namespace
from policy_sched.model.meta import Condition
from policy_sched.model.pod_info import FIELDS, PodInfo
from policy_sched.testing import make_node, make_pod


def info(name: str = "p", node_name: str = "", **fields: object) -> PodInfo:
    """Return a pod of one core, whose uid is its name."""
    return PodInfo.of(make_pod(name, uid=name, cpu="1", node_name=node_name, **fields))


def requested(cache: Cache, name: str) -> int:
    """Return the milli-cpu requested on a live node."""
    return cache.nodes.column(("requested", "cpu")).view[cache.nodes.row_of[name]]


class TestAssume:
    """The scheduler's own decision."""

    def test_an_assumed_pod_counts_on_its_node_at_once(self) -> None:
        """An assumed pod takes room on its node, says where it is, and is one DYNAMIC change."""
        cache = Cache()
        cache.add_node(make_node("n", cpu="4"))
        free = cache.nodes.column(("free", "cpu"))
        version = cache.nodes.journal.version
        pod = info()
        cache.assume(pod, "n")
        assert (requested(cache, "n"), free.view[0]) == (1000, 3000)
        assert cache.nodes.column(("podCount",)).view[0] == 1
        assert pod.node_name == cache.node_of("p") == "n"
        assert cache.is_assumed("p")
        changes = cache.nodes.journal.since(version)
        assert changes is not None
        assert (changes.rows, changes.kind) == ([0], DYNAMIC)

    def test_a_forgotten_pod_leaves_nothing_behind(self) -> None:
        """A forgotten pod leaves nothing behind."""
        cache = Cache()
        cache.add_node(make_node("n"))
        pod = info(host_ports=(80,))
        cache.assume(pod, "n")
        cache.forget("p")
        assert requested(cache, "n") == 0
        assert cache.nodes.column(("usedPorts",)).view[0] == 0
        assert pod.node_name == ""
        assert len(cache) == 0
        assert cache.node_of("p") == ""
        assert not cache.is_assumed("p")

    def test_a_pod_without_a_node_cannot_be_assumed(self) -> None:
        """A pod cannot be assumed nowhere."""
        with pytest.raises(PodStateError, match="pod default/p is on no node"):
            Cache().assume(info(), "")


class TestConfirmation:
    """The watch shows a pod that the scheduler had assumed."""

    def test_a_pod_confirmed_on_its_node_counts_once(self) -> None:
        """The pod is counted once, in its new form, and is assumed no longer."""
        cache = Cache()
        cache.add_node(make_node("n"))
        cache.assume(info(), "n")
        confirmed = PodInfo.of(make_pod("p", uid="p", cpu="1500m", node_name="n"))
        cache.add_pod(confirmed)
        assert requested(cache, "n") == 1500
        assert cache.pod("p") is confirmed
        assert not cache.is_assumed("p")

    def test_a_pod_confirmed_elsewhere_counts_where_the_watch_says(self) -> None:
        """Where the watch disagrees, the watch is right."""
        cache = Cache()
        for name in ("a", "b"):
            cache.add_node(make_node(name))
        cache.assume(info(), "a")
        cache.add_pod(info(node_name="b"))
        assert (requested(cache, "a"), requested(cache, "b")) == (0, 1000)

    def test_a_bound_pod_cannot_move(self) -> None:
        """A bound pod never changes its node: an update that says so is an error, and no change."""
        cache = Cache()
        cache.add_node(make_node("a"))
        cache.add_pod(info(node_name="a"))
        with pytest.raises(PodStateError, match="is on node a and cannot move to b"):
            cache.update_pod(info(node_name="b"))
        assert cache.check() == []


@pytest.mark.parametrize("change", [{"host_ports": (443,)}, {"cpu": "2"}])
def test_what_a_changed_pod_takes_is_counted_anew(change: dict[str, Any]) -> None:
    """A change of its ports or of its requests; another one counts nothing twice."""

    def form(**fields: Any) -> PodInfo:
        first = {"cpu": "1", "host_ports": (80,), "node_name": "n"}
        return PodInfo.of(make_pod("p", uid="p", **first | fields))

    cache = Cache()
    cache.add_node(make_node("n"))
    ports = cache.nodes.column(("usedPorts",))
    cache.add_pod(form())
    before = ports.view[0], requested(cache, "n")
    cache.update_pod(form(labels={"a": "b"}))
    assert (ports.view[0], requested(cache, "n")) == before
    cache.update_pod(form(**change))
    assert (ports.view[0] != before[0]) == ("host_ports" in change)
    assert requested(cache, "n") == (2000 if "cpu" in change else 1000)
    assert cache.check() == []


class TestExpiry:
    """An assumed pod that the watch never confirms."""

    def test_after_the_time_to_live(self) -> None:
        """It expires when its time is up, not a nanosecond sooner, counted from its binding."""
        cache = Cache(time_to_live=30)
        cache.add_node(make_node("n"))
        cache.assume(info(), "n")
        assert cache.expire(1000) == []
        cache.finish_binding("p", 1000)
        assert cache.state("p") is PodState.BOUND
        assert cache.expire(1029) == []
        assert [pod.name for pod in cache.expire(1030)] == ["p"]
        assert requested(cache, "n") == 0

    def test_an_assumed_pod_without_a_time_to_live_never_expires(self) -> None:
        """Without a time to live an assumed pod waits for ever, as upstream's does."""
        cache = Cache()
        cache.add_node(make_node("n"))
        cache.assume(info(), "n")
        cache.finish_binding("p", 0)
        assert cache.expire(2**62) == []

    def test_a_confirmed_pod_does_not_expire(self) -> None:
        """A confirmed pod does not expire."""
        cache = Cache(time_to_live=30)
        cache.add_node(make_node("n"))
        cache.assume(info(), "n")
        cache.finish_binding("p", 0)
        cache.add_pod(info(node_name="n"))
        assert cache.expire(1000) == []
        assert requested(cache, "n") == 1000


class TestGhosts:
    """Pods whose node is not known."""

    def test_pod_before_its_node(self) -> None:
        """The pod is counted nowhere until its node comes, and on it from then on."""
        cache = Cache()
        cache.add_pod(info(node_name="n", host_ports=(80,)))
        assert (cache.nodes.n, cache.nodes.pod_total, len(cache)) == (0, 0, 1)
        assert cache.pods.node.view[0] == -1
        cache.add_node(make_node("n"))
        assert requested(cache, "n") == 1000
        assert cache.pods.node.view[0] == 0
        assert cache.nodes.column(("usedPorts",)).view[0] != 0

    def test_pods_outlive_their_node(self) -> None:
        """A removed node's pods are counted nowhere, and again when the node comes back."""
        cache = Cache()
        cache.add_node(make_node("n"))
        cache.add_pod(info(node_name="n", host_ports=(80,)))
        cache.remove_node(make_node("n"))
        assert cache.nodes.total_requested("cpu") == 0
        assert list(cache.nodes.pods_without_node["n"]) == ["p"]
        cache.add_node(make_node("n"))
        assert requested(cache, "n") == 1000
        cache.remove_pod(info(node_name="n"))
        assert cache.nodes.column(("usedPorts",)).view[0] == 0
        assert cache.check() == []

    def test_the_last_pod_without_a_node_leaves_nothing(self) -> None:
        """When its last pod goes, nothing is left of a removed node."""
        cache = Cache()
        cache.add_node(make_node("n"))
        cache.add_pod(info(node_name="n"))
        cache.remove_node(make_node("n"))
        cache.remove_pod(info(node_name="n"))
        assert not cache.nodes.pods_without_node
        assert len(cache) == 0

    def test_unknown_node_cannot_go(self) -> None:
        """Removing a node that is not known is an error that names it."""
        with pytest.raises(ClusterError, match="node n is not in the cache"):
            Cache().remove_node(make_node("n"))


def test_nodes_come_as_structure() -> None:
    """A node that comes or goes is a STRUCTURE change of its row."""
    cache = Cache()
    cache.add_node(make_node("n"))
    cache.remove_node(make_node("n"))
    changes = cache.nodes.journal.since(0)
    assert changes is not None
    assert (changes.rows, changes.kinds) == ([0], [STRUCTURE])


def test_namespaces_are_kept() -> None:
    """Namespaces are found by name until they are removed."""
    cache = Cache()
    namespace = Namespace()
    namespace.metadata.name = "team"
    cache.set_namespace(namespace)
    assert cache.nodes.namespaces == {"team": namespace}
    cache.remove_namespace("team")
    assert not cache.nodes.namespaces


@pytest.mark.parametrize(
    ("change", "noted"),
    [
        ({}, False),
        ({"labels": {"app": "other"}}, True),
        ({"annotations": {"a": "b"}}, True),
        ({"node_selector": {"a": "b"}}, True),
        ({"priority": 7}, True),
    ],
    ids=["nothing", "labels", "annotations", "spec", "priority"],
)
def test_a_confirmed_pod_changes_its_row_only_if_it_differs(
    change: dict[str, object], noted: bool
) -> None:
    """The binding itself is what was assumed; nothing is evaluated again for it."""
    cache = Cache()
    cache.add_node(make_node("n"))
    cache.assume(info(), "n")
    before = cache.nodes.journal.version
    confirmed = info(node_name="n", **change)
    cache.add_pod(confirmed)
    assert (cache.nodes.journal.version != before) == noted
    assert cache.state(confirmed.uid) is PodState.ADDED
    assert cache.pod(confirmed.uid) is confirmed
    assert list(cache.nodes.pods_on(cache.nodes.row_of["n"]).values()) == [confirmed]
    assert cache.check() == []


@pytest.mark.parametrize("change", [{}, {"labels": {"app": "web"}}, {"priority": 7}])
@pytest.mark.parametrize("conditions", [(), (Condition(type="PodScheduled", status="True"),)])
def test_a_binding_is_confirmed_as_any_pod_is_added(
    change: dict[str, object], conditions: tuple[Condition, ...]
) -> None:
    """Each pod that was bound was worked out a second time when the watch showed its binding."""
    short, other = Cache(), Cache()
    for cache in (short, other):
        cache.add_node(make_node("n"))
        cache.assume(info(**change), "n")
    seen = info(node_name="n", **change).pod
    seen = replace(seen, status=replace(seen.status, conditions=conditions))
    other.add_pod(PodInfo.of(seen))
    before = short.pod("p")
    confirmed = short.confirm_binding(seen)
    assert before is not None
    assert confirmed is not None
    assert confirmed.requests is before.requests, "it is taken over"
    assert confirmed.pod is seen
    anew = other.pod("p")
    assert not [name for name in FIELDS if getattr(confirmed, name) != getattr(anew, name)]
    assert short.pod("p") is confirmed
    assert short.state("p") is PodState.ADDED
    assert short.nodes.journal.version == other.nodes.journal.version
    assert short.pods.version == other.pods.version
    assert short.check() == []


@pytest.mark.parametrize(
    "change",
    [
        {"node_name": "m"},
        {"labels": {"app": "other"}},
        {"annotations": {"a": "b"}},
        {"node_selector": {"a": "b"}},
        {"cpu": "2"},
        {"uid": "another"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_change_beside_the_binding_is_no_confirmation(change: dict[str, str]) -> None:
    """An annotation that came with the binding, or a binding elsewhere, goes the long way."""
    cache = Cache()
    cache.add_node(make_node("n"))
    cache.assume(info(), "n")
    pod = make_pod("p", **{"uid": "p", "cpu": "1", "node_name": "n", **change})  # type: ignore[arg-type]
    assert cache.confirm_binding(pod) is None
    assert cache.is_assumed("p")


def test_a_pod_that_was_added_is_not_confirmed_again() -> None:
    """Its next change is one like any other."""
    cache = Cache()
    cache.add_node(make_node("n"))
    cache.add_pod(info(node_name="n"))
    assert cache.confirm_binding(info(node_name="n").pod) is None


CELLS = [(state, event) for state in PodState for event in PodEvent]
TIME_TO_LIVE = 10


def cache_in(state: PodState) -> Cache:
    """Return a cache with node n, whose pod p is in ``state``."""
    cache = Cache(time_to_live=TIME_TO_LIVE)
    cache.add_node(make_node("n"))
    if state is PodState.ADDED:
        cache.add_pod(pod())
    elif state is not PodState.INITIAL:
        cache.assume(pod(), "n")
        if state is PodState.BOUND:
            cache.finish_binding("p", 0)
    assert cache.state("p") is state
    return cache


def pod() -> PodInfo:
    """Return the pod p, bound to node n."""
    return PodInfo.of(make_pod("p", uid="p", cpu="1", node_name="n"))


def send(cache: Cache, event: PodEvent) -> None:
    """Send an event for pod p to the cache."""
    match event:
        case PodEvent.ASSUME:
            cache.assume(pod(), "n")
        case PodEvent.FINISH_BINDING:
            cache.finish_binding("p", 0)
        case PodEvent.FORGET:
            cache.forget("p")
        case PodEvent.EXPIRE:
            cache.expire(TIME_TO_LIVE)
        case PodEvent.ADD:
            cache.add_pod(pod())
        case PodEvent.UPDATE:
            cache.update_pod(pod())
        case PodEvent.REMOVE:
            cache.remove_pod(pod())


@pytest.mark.parametrize(("state", "event"), CELLS)
def test_each_event_of_a_pod_is_a_transition_or_an_error(state: PodState, event: PodEvent) -> None:
    """Each cell is a transition, or one clear error that names pod, state and event."""
    if (state, event) in TRANSITIONS:
        assert next_state(state, event, "default/p") is TRANSITIONS[state, event]
    else:
        message = f"pod default/p is {state.value} and cannot be {event.value}"
        with pytest.raises(PodStateError, match=f"^{message}$"):
            next_state(state, event, "default/p")


@pytest.mark.parametrize(("state", "event"), CELLS)
def test_cache_follows_the_table(state: PodState, event: PodEvent) -> None:
    """The cache moves a pod as the table says, refuses what it refuses, and stays consistent."""
    cache = cache_in(state)
    if (state, event) in TRANSITIONS:
        send(cache, event)
        assert cache.state("p") is TRANSITIONS[state, event]
    elif event is PodEvent.EXPIRE:
        assert cache.expire(10**18) == []  # the cache picks the pods whose time is up
        assert cache.state("p") is state
    else:
        with pytest.raises(PodStateError):
            send(cache, event)
        assert cache.state("p") is state
    assert cache.check() == []
    held = cache.state("p") is not PodState.INITIAL
    assert cache.nodes.total_requested("cpu") == 1000 * held
    assert cache.nodes.pod_total == held
    assert (cache.pod("p") is not None) == held
