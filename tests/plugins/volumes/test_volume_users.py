"""VolumePods: counts from the journal equal a recount."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings, strategies as st

from policy_sched.plugins.volumes.storage_view import VolumePods, with_volumes
from policy_sched.testing import make_node
from tests.examples import scaled
from tests.plugins.volumes.world import World, uses

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["run", "stop", "drop", "bring", "ask"]),
        st.integers(0, 2),
        st.lists(st.sampled_from(["a", "b"]), max_size=2),
    ),
    max_size=20,
)


@settings(max_examples=scaled(150), deadline=None)
@given(steps=STEPS)
def test_kept_counts_equal_a_recount(steps: list[tuple[str, int, list[str]]]) -> None:
    """After pods and nodes came and went in any order, with queries in between or not."""
    world = World()
    table = world.cache.nodes
    kept = VolumePods(table)
    running = []
    for i, (step, number, claims) in enumerate(steps):
        node = f"n{number}"
        match step:
            case "run":
                running.append(world.run(node, f"p{i}", *map(uses, claims)))
            case "stop" if running:
                world.cache.remove_pod(running.pop(number % len(running)))
            case "drop" if node in table.row_of:
                world.cache.remove_node(make_node(node))
            case "bring":
                world.cache.add_node(make_node(node))
            case "ask":
                kept.uses("default", "a")
    counted = Counter(
        use.name
        for row in range(table.n)
        for pod in table.pods_on(row).values()
        if pod.volumes is not None
        for use in pod.volumes.claims
    )
    assert kept.uses("default", "a") == counted["a"]
    assert kept.uses("default", "b") == counted["b"]
    assert kept.uses("other", "a") == 0
    assert {row: list(pods) for row, pods in kept.rows()} == {
        row: found for row in range(table.n) if (found := with_volumes(table, row))
    }
    sizes = [
        sum(len(p.volumes.claims) for p in with_volumes(table, r) if p.volumes)
        for r in range(table.n)
    ]
    assert kept.sizes().tolist() == sizes
