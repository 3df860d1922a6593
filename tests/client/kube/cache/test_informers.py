"""Informers: what was read is handed on in one order, and not more at a time than there is time."""

from __future__ import annotations

import json
from typing import Any

from policy_sched.client.kube.cache.informers import Informers
from policy_sched.client.kube.cache.store import Change, ChangeType
from policy_sched.client.kube.rest.errors import Selection
from policy_sched.model.meta import ApiObject
from policy_sched.testing import make_node, make_pod
from tests.client.kube.stage import Stage, pod


def _added(thing: ApiObject) -> Change[Any]:
    return Change(ChangeType.ADDED, None, thing)


def test_no_more_is_handed_on_when_the_time_is_over() -> None:
    """What was not handed on comes the next time, in its order."""
    informers = Informers(Stage("http://127.0.0.1:1").api(), ())
    told: list[str] = []

    def tell(change: Change[Any]) -> None:
        told.append(change.object.metadata.name)

    informers._changed([_added(make_pod(name)) for name in "abcde"])
    assert informers.drain(tell, 500, lambda: len(told) == 2) == 2
    assert (told, informers.behind) == (["a", "b"], True)
    assert informers.drain(tell, 2) == 2
    assert informers.drain(tell, 500) == 1
    assert (told, informers.behind) == (list("abcde"), False)


def test_pods_are_delivered_last_at_first() -> None:
    """Nodes are delivered before the pods on them."""
    informers = Informers(Stage("http://127.0.0.1:1").api(), ())
    for thing in (make_pod("p"), make_node("n")):
        thing.api_version, thing.kind = "v1", type(thing).__name__
        informers._changed([_added(thing)])
    kinds: list[str] = []
    informers.drain(lambda change: kinds.append(change.object.kind), 500)
    assert kinds == ["Node", "Pod"]


def test_what_came_to_light_is_handed_on_before_anything_counts_as_followed() -> None:
    """A watch that was mended brings what was missed; later changes do not hold anything up."""
    kinds = (("v1", "Node"), ("v1", "Namespace"), ("v1", "Pod"))
    woken: list[int] = []
    informers = Informers(
        Stage("http://127.0.0.1:1").api(),
        [Selection(kind) for kind in kinds],
        wake=lambda: woken.append(0),
    )
    for reflector in informers.reflectors:
        reflector.synced.set()
    nodes, _, pods = informers.reflectors
    assert not informers.following
    nodes._follows(None)
    informers._changed([_added(make_pod(name)) for name in "abc"])
    pods._follows(None)
    assert len(woken) == 2
    assert not informers.following
    informers._changed([_added(make_pod("d"))])
    told: list[object] = []
    assert informers.drain(told.append, 2) == 2
    assert not informers.following
    assert informers.drain(told.append, 1) == 1
    assert (informers.following, informers.behind) == (True, True)
    nodes.following = False
    assert not informers.following


def test_changes_wake_the_consumer_once_it_has_subscribed() -> None:
    """Until everything was read once nothing could be handed on."""
    woken: list[int] = []
    api = Stage("http://127.0.0.1:1").api()
    informers = Informers(api, [Selection(("v1", "Node"))], wake=lambda: woken.append(0))
    informers._changed([_added(make_node("a"))])
    assert (woken, informers.behind) == ([], False)
    informers.reflectors[0].synced.set()
    assert informers.behind
    informers._changed([_added(make_node("b"))])
    assert woken == [0]


def _pod_informers() -> tuple[Informers, list[str]]:
    """Return informers of pods, and the list of how they woke their consumer."""
    woken: list[str] = []
    informers = Informers(
        Stage("http://127.0.0.1:1").api(),
        [Selection(("v1", "Pod"))],
        wake=lambda: woken.append("now"),
        wake_later=lambda: woken.append("later"),
    )
    return informers, woken


def test_a_pod_that_got_its_node_wakes_the_consumer_later() -> None:
    """Each binding of our own had a step for its response, and another one for its watch event."""
    informers, woken = _pod_informers()
    informers.reflectors[0].synced.set()
    assert informers.synced
    pending, bound = make_pod("p"), make_pod("p", node_name="n")
    informers._changed([Change(ChangeType.MODIFIED, pending, bound)])
    informers._changed([_added(make_pod("q"))])
    informers._changed([_added(bound)])
    informers._changed([Change(ChangeType.DELETED, bound, None)])
    later = Change(ChangeType.MODIFIED, pending, bound)
    informers._changed([later, _added(make_pod("r"))])
    assert woken == ["later", "now", "now", "now", "now"]


def _line(kind: str, name: str, version: int, **spec: Any) -> bytes:
    event = {"type": kind, "object": pod(name, version, **spec)}
    return json.dumps(event, separators=(",", ":")).encode()


def test_updates_of_pods_with_nodes_are_read_with_what_comes_next() -> None:
    """What a watch said of each binding was decoded in a turn of the event loop of its own."""
    informers, woken = _pod_informers()
    (pods,) = informers.reflectors
    pods.synced.set()
    assert informers.synced
    told: list[str] = []

    def tell(change: Change[Any]) -> None:
        told.append(f"{change.type} {change.object.metadata.name}")

    pods._take_on([_line("ADDED", "a", 1), _line("ADDED", "b", 2)])
    assert informers.drain(tell, 500) == 2
    pods._take_on([_line("MODIFIED", "a", 3, nodeName="n")])
    pods._take_on([_line("MODIFIED", "b", 4, nodeName="n")])
    assert woken == ["now", "later"]
    assert pods.version == "2", "a watch that broke off now would bring both again"
    pods._take_on([_line("ADDED", "c", 5)])
    assert (woken, pods.version) == (["now", "later", "now"], "5")
    pods._take_on([_line("MODIFIED", "c", 6, nodeName="n")])
    assert woken[3:] == ["later"]
    assert informers.drain(tell, 500) == 4, "a decision that follows knows all that came"
    assert told[2:] == ["MODIFIED a", "MODIFIED b", "ADDED c", "MODIFIED c"]


def test_an_update_that_cannot_be_read_later_ends_the_watch() -> None:
    """As at once: nothing is decided until the watch is open again, from the version before."""
    informers = Informers(
        Stage("http://127.0.0.1:1").api(), [Selection(("v1", "Pod"))], wake_later=lambda: None
    )
    (pods,) = informers.reflectors
    pods.synced.set()
    ended: list[Exception] = []
    pods._end_stream = ended.append
    pods._follows(None)
    pods._take_on([_line("ADDED", "a", 1)])
    pods._take_on([_line("MODIFIED", "a", 2, nodeName="n")[:-1]])
    assert informers.following
    assert informers.drain(lambda _: None, 500) == 1
    assert len(ended) == 1
    assert (informers.following, pods.version) == (False, "1")
