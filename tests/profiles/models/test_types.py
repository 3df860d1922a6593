"""Go durations and upstream's zero-means-default."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from policy_sched.profiles.models import kube_scheduler_configuration
from policy_sched.profiles.models.types import parse_duration


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("15s", 15 * kube_scheduler_configuration.SECOND),
        ("1h2m3.5s", (3600 + 120) * kube_scheduler_configuration.SECOND + 3_500_000_000),
        ("-1.5m", -90 * kube_scheduler_configuration.SECOND),
        (".5ms", 500_000),
        ("2us3ns", 2003),
        ("+1µs", 1000),
    ],
)
def test_durations_are_read_as_go_reads_them(text: str, nanoseconds: int) -> None:
    """A Go duration is the sum of its parts, in nanoseconds."""
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize("text", ["", "15", "s", "1 s", "1d", "1s ", "1e3s"])
def test_other_texts_are_no_durations(text: str) -> None:
    """A number without a unit, or with an unknown one, is refused."""
    with pytest.raises(ValueError, match="invalid duration"):
        parse_duration(text)


@given(st.integers(0, 10_000), st.integers(0, 59), st.integers(0, 59))
def test_parts_of_a_duration_add_up(hours: int, minutes: int, seconds: int) -> None:
    """Hours, minutes and seconds add up."""
    total = (hours * 3600 + minutes * 60 + seconds) * kube_scheduler_configuration.SECOND
    assert parse_duration(f"{hours}h{minutes}m{seconds}s") == total


def test_zero_means_default_where_upstream_cannot_tell() -> None:
    """Zero rates and empty names of component configuration take their defaults."""
    connection = kube_scheduler_configuration.ClientConnection.model_validate(
        {"qps": 0, "burst": 0, "contentType": ""}
    )
    assert connection == kube_scheduler_configuration.ClientConnection()
    election = kube_scheduler_configuration.LeaderElection.model_validate(
        {"leaseDuration": "0s", "leaderElect": False}
    )
    assert election.lease_duration == 15 * kube_scheduler_configuration.SECOND
    assert not election.leader_elect
