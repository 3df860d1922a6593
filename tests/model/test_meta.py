"""Taints, tolerations, host ports and containers."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from policy_sched.model.meta import Container, HostPort, Toleration, ports_conflict


@pytest.mark.parametrize(
    ("toleration", "taint", "expected"),
    [
        (Toleration(), ("k", "", "NoSchedule"), True),
        (Toleration(), ("k", "v", "NoSchedule"), False),
        (Toleration(operator="Exists"), ("k", "v", "NoExecute"), True),
        (Toleration(key="k", operator="Exists"), ("k", "v", "NoSchedule"), True),
        (Toleration(key="k", operator="Exists"), ("j", "v", "NoSchedule"), False),
        (Toleration(key="k", value="v"), ("k", "v", "NoSchedule"), True),
        (Toleration(key="k", operator="Equal", value="v"), ("k", "v", "NoSchedule"), True),
        (Toleration(key="k", value="w"), ("k", "v", "NoSchedule"), False),
        (Toleration(key="k", value="v", effect="NoExecute"), ("k", "v", "NoSchedule"), False),
        (Toleration(key="k", value="v", effect="NoSchedule"), ("k", "v", "NoSchedule"), True),
        (Toleration(key="k", operator="Gt", value="1"), ("k", "2", "NoSchedule"), False),
        (Toleration(key="k", operator="Lt", value="3"), ("k", "2", "NoSchedule"), False),
        (Toleration(key="k", operator="exists"), ("k", "", "NoSchedule"), False),
    ],
)
def test_a_toleration_tolerates_what_upstreams_does(
    toleration: Toleration, taint: tuple[str, str, str], expected: bool
) -> None:
    """Empty key and effect mean every one; Equal compares values; Gt and Lt are off."""
    assert toleration.tolerates(*taint) is expected


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (("0.0.0.0", "TCP", 80), ("0.0.0.0", "TCP", 80), True),
        (("0.0.0.0", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
        (("10.0.0.2", "TCP", 80), ("10.0.0.1", "TCP", 80), False),
        (("10.0.0.1", "TCP", 80), ("10.0.0.1", "TCP", 80), True),
        (("0.0.0.0", "TCP", 80), ("0.0.0.0", "UDP", 80), False),
        (("0.0.0.0", "TCP", 80), ("0.0.0.0", "TCP", 81), False),
    ],
)
def test_host_ports_conflict_where_addresses_may_meet(
    left: tuple[str, str, int], right: tuple[str, str, int], expected: bool
) -> None:
    """Ports conflict in either order where number and protocol agree and an address overlaps."""
    assert HostPort(*left).conflicts(HostPort(*right)) is expected
    assert HostPort(*right).conflicts(HostPort(*left)) is expected


def test_containers_compare_by_value() -> None:
    """Equal containers are equal and hash equally, different amounts make a difference."""
    one, two = (Container("c", "i", "main", {"cpu": 1}, {}) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert one != Container("c", "i", "main", {"cpu": 2}, {})
    assert one != "c"


PORTS = st.lists(
    st.builds(
        HostPort,
        ip=st.sampled_from(["0.0.0.0", "10.0.0.1", "10.0.0.2"]),  # as the API has it
        protocol=st.sampled_from(["TCP", "UDP"]),
        port=st.integers(1, 12),
    ),
    max_size=20,
)


@given(PORTS, PORTS)
def test_lists_of_ports_conflict_where_two_of_them_do(
    wanted: list[HostPort], used: list[HostPort]
) -> None:
    """Two pods of 20,000 host ports took minutes: a lookup has the result of the comparisons."""
    each = any(one.conflicts(other) for one in wanted for other in used)
    assert ports_conflict(wanted, used) is each
