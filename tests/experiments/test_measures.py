"""What is measured over nodes is kept up to date."""

from __future__ import annotations

from hypothesis import given, strategies as st

from policy_sched.cluster import Cache
from policy_sched.cluster.tables import MAX_SUM
from policy_sched.experiments.measures import Recent, Requested
from policy_sched.model import PodInfo
from policy_sched.testing import make_node, make_pod


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["come", "leave", "node", "look"]),
            st.integers(0, 3),
            st.sampled_from(["1", "250m", str(2**61)]),
        ),
        max_size=24,
    )
)
def test_what_pods_request_is_the_tables_sum(steps: list[tuple[str, int, str]]) -> None:
    """It is the sum of the column, whatever came and left, however large it is."""
    cache = Cache()
    for number in range(2):
        cache.add_node(make_node(f"n{number}", cpu=9))
    requested = Requested("cpu", cache.nodes, Recent(cache.nodes))
    pods: list[PodInfo] = []
    for number, (what, row, cpu) in enumerate(steps):
        if what == "come":
            pod = PodInfo.of(make_pod(f"p{number}", requests={"cpu": cpu})).on(f"n{row}")
            pods.append(pod)
            cache.add_pod(pod)
        elif what == "leave" and pods:
            cache.remove_pod(pods.pop(row % len(pods)))
        elif what == "node":
            cache.add_node(make_node(f"n{row}", cpu=number + 1))
        if what == "look":
            column = cache.nodes.column(("requested", "cpu")).values
            assert requested() == cache.nodes.total_requested("cpu")
            assert requested() == min(sum(column.tolist()), MAX_SUM)
