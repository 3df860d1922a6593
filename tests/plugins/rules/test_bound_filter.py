"""A policy's filter over a view of the nodes: flags of all rows are what its codes say."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings, strategies as st

from policy_sched.language.runtime.activation import Activation
from policy_sched.model.pod_info import PodInfo
from policy_sched.testing import make_pod
from tests.examples import scaled
from tests.language.test_compile import bound, rule

from .test_equivalence_classes import cluster

RULES = [
    "node.podCount < 1",
    'pod.requests["cpu"] <= node.free["cpu"]',
    'node.labels["rack"] == "a"',  # fails where there is none
    "node.podCount * 4611686018427387904 * 4 >= 0",
    'pod.labels["rack"] == "a"',  # for all rows the same, or an error
    "true",
    "false",
    'node.taints.all(t, t.key != "dedicated")',
]


@settings(max_examples=scaled(150), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(RULES), st.sampled_from(["Allow", "Reject"])),
        min_size=1,
        max_size=3,
    ),
    st.integers(0, 2**16),
    st.booleans(),
)
def test_a_row_has_its_flag_where_no_rule_rejects_it(
    texts: list[tuple[str, str]], seed: int, labelled: bool
) -> None:
    """Of one rule or several, also where they fail."""
    cache = cluster(seed, 9)
    labels = {"rack": "a"} if labelled else {}
    pod = PodInfo.of(make_pod("new", cpu="1", labels=labels))
    rules = [rule(text, on_error=on_error)[0] for text, on_error in texts]
    for nodes in (cache.nodes, cache.overlay):
        filters = bound(cache, filter=tuple(rules)).filters(nodes)
        codes = filters.codes(pod, Activation())
        flags = np.broadcast_to(filters.flags(pod, Activation()), 9)
        expected = np.ones(9, np.bool_) if codes is None else codes == 0
        np.testing.assert_array_equal(flags, expected)
