"""The transition table of a pod in the cache."""

from __future__ import annotations

import pytest

from policy_sched.cluster.cache import (
    TRANSITIONS,
    Cache,
    PodEvent,
    PodState,
    PodStateError,
    next_state,
)
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_node, make_pod

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
def test_table_cell(state: PodState, event: PodEvent) -> None:
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
