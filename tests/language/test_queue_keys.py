"""The keys of queueSort put pods into one order, whatever they are made of.

Point 6 of the language's test plan: a strict weak order, in which a descending key is turned over.
"""

from __future__ import annotations

import itertools
from typing import Final

import pytest
from hypothesis import assume, given, strategies as st

from policy_sched.language.diagnostics import OrderKey, Text
from policy_sched.language.values.limits import RuleError
from policy_sched.model.pod_info import PodInfo, QueuedPod
from policy_sched.plugins.rules.bound_policy import bind
from policy_sched.testing import make_node, make_pod
from tests.language.test_compile import policy

from .harness import cache_of, compiles
from .oracle_world import World
from .strategies import PARAMS, pods, rules

WORLD: Final = World([make_node("n")], [])
ORDERS: Final = st.sampled_from(["Ascending", "Descending"])


@st.composite
def waiting(draw: st.DrawFn) -> list[QueuedPod]:
    """Draw pods that wait, some of them alike."""
    return [
        QueuedPod(PodInfo.of(draw(pods(f"p{i}"))), enqueued_at=draw(st.integers(0, 3)))
        for i in range(4)
    ]


@given(st.lists(st.tuples(rules("queueSort", 2), ORDERS), min_size=1, max_size=3), waiting())
def test_keys_are_a_strict_weak_order(keys: list[tuple[str, str]], queued: list[QueuedPod]) -> None:
    """No pod is before itself, not two before each other, and before is passed on."""
    usable = [(text, order) for text, order in keys if compiles(text, "queueSort", PARAMS)]
    assume(usable)
    sources = tuple(OrderKey(Text(text), order) for text, order in usable)
    bound = bind(policy(queue_sort=sources, params=PARAMS), cache_of(WORLD).nodes)
    try:
        found = [bound.queue_key(one) for one in queued]
    except RuleError:  # a key that fails ends the attempt, and orders nothing
        return
    assert not any(key < key for key in found)  # noqa: PLR0124  # that is the promise
    for a, b in itertools.permutations(found, 2):
        assert not (a < b < a)
    for a, b, c in itertools.permutations(found, 3):
        assert not (a < b < c) or a < c
        alike = not (a < b or b < a or b < c or c < b)
        assert not alike or not (a < c or c < a)


@pytest.mark.parametrize("key", ["pod.name", "pod.priority", "queue.enqueuedAt"])
def test_descending_is_the_other_way_round(key: str) -> None:
    """What comes first in one order comes last in the other."""
    queued = [
        QueuedPod(PodInfo.of(make_pod(name, priority=i)), enqueued_at=i)
        for i, name in enumerate(("a", "b", "c"))
    ]
    for order, expected in (("Ascending", "abc"), ("Descending", "cba")):
        bound = bind(policy(queue_sort=(OrderKey(Text(key), order),)), cache_of(WORLD).nodes)
        assert "".join(q.info.name for q in sorted(queued, key=bound.queue_key)) == expected
