"""Taints, tolerations, host ports and containers."""

from __future__ import annotations

import pytest

from policy_sched.model.records import Container, HostPort, Toleration


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
def test_tolerates(toleration: Toleration, taint: tuple[str, str, str], expected: bool) -> None:
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
def test_ports(left: tuple[str, str, int], right: tuple[str, str, int], expected: bool) -> None:
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
