"""Flags that kube-scheduler's operators know: what they change, and why some are refused."""

from __future__ import annotations

from typing import Any

import pytest

from policy_sched.cli.main import run
from policy_sched.cli.options.kube_scheduler_flags import (
    ClientFlags,
    LeaderFlags,
    Overrides,
    unsupported,
)
from policy_sched.cli.output.diagnostics import UNUSABLE
from policy_sched.errors import ClusterError
from policy_sched.profiles.models.kube_scheduler_configuration import KubeSchedulerConfiguration
from policy_sched.queue.backoff import SECOND

SETTINGS = KubeSchedulerConfiguration.model_validate(
    {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
)


def test_without_flags_nothing_changes() -> None:
    """The configuration counts as it is."""
    assert Overrides().of(SETTINGS) == SETTINGS
    assert ClientFlags().longest_wait == 300 * SECOND


def test_flags_of_leader_election_win_over_the_configuration() -> None:
    """Each of them; a name that is given is a name that was chosen."""
    flags = LeaderFlags(
        leader_elect=False,
        leader_elect_lease_duration="1m0s",
        leader_elect_renew_deadline="40s",
        leader_elect_retry_period="500ms",
        leader_elect_resource_name="mine",
        leader_elect_resource_namespace="there",
    )
    election = Overrides(flags, configured=True).of(SETTINGS).leader_election
    assert not election.leader_elect
    durations = (election.lease_duration, election.renew_deadline, election.retry_period)
    assert durations == (60 * SECOND, 40 * SECOND, SECOND // 2)
    assert (election.resource_name, election.resource_namespace) == ("mine", "there")
    assert "resource_name" in election.model_fields_set


def test_rates_of_flags_count_without_a_configuration_only() -> None:
    """As upstream: they are deprecated, and the file's win."""
    client = ClientFlags(kube_api_qps=7, kube_api_burst=9)
    client_connection = Overrides(client=client).of(SETTINGS).client_connection
    assert (client_connection.qps, client_connection.burst) == (7, 9)
    client_connection = Overrides(client=client, configured=True).of(SETTINGS).client_connection
    assert (client_connection.qps, client_connection.burst) == (50, 100)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"leader_elect_lease_duration": "5s"}, "must be greater than renew-deadline"),
        ({"leader_elect_renew_deadline": "2s"}, "must be above 1.2 retry periods"),
        ({"leader_elect_retry_period": "often"}, "--leader-elect-retry-period: 'often' is not"),
    ],
)
def test_durations_that_cannot_be_are_refused(flags: dict[str, Any], words: str) -> None:
    """With the flag's name."""
    with pytest.raises(ClusterError, match=words):
        Overrides(LeaderFlags(**flags)).of(SETTINGS)


def test_every_flag_that_is_refused_has_a_reason() -> None:
    """A sentence for the operator who types it."""
    assert all(
        name.startswith("--") and len(why.split()) > 2 for name, why in unsupported().items()
    )


@pytest.mark.parametrize("flag", ["--disable-http2-serving", "--profiling", "--vmodule=a=1"])
def test_a_flag_that_is_not_here_is_refused_with_its_reason(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and the reason in place of a guess."""
    assert run(["run", flag]) == UNUSABLE
    name = flag.partition("=")[0]
    assert f"{name} is not supported: {unsupported()[name]}" in capsys.readouterr().err
