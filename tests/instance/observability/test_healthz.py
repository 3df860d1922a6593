"""Health checks answer as kube-scheduler's do."""

from __future__ import annotations

from random import Random

import pytest

from policy_sched.client.kube.auth.credentials import ClusterAccess
from policy_sched.client.kube.leaderelection import state_machine
from policy_sched.client.kube.rest.client import Api
from policy_sched.client.kube.rest.settings import ClientEnvironment
from policy_sched.client.kube.time.work_queue import SECOND, Clocks
from policy_sched.instance.app.cluster_instance import Candidacy
from policy_sched.instance.observability import healthz

PING = healthz.Check("ping", healthz.nothing_wrong)
SICK = healthz.Check("leaderElection", lambda: "failed election to renew leadership on lease x")


def test_a_leader_that_does_not_renew_is_unhealthy() -> None:
    """Twenty seconds after its lease has expired; a standby is healthy."""
    now = [0]
    clocks = Clocks(lambda: now[0], lambda: now[0])
    election = state_machine.Election("me", clocks, Random(1), state_machine.ElectionSettings())
    api = Api(ClusterAccess("http://nowhere"), ClientEnvironment(clocks, Random(1)))
    candidacy = Candidacy(election, api, "kube-system", "policy-sched")
    assert candidacy.overdue() == ""
    attempt = election.attempt()
    assert next(attempt) == state_machine.Get()
    create = attempt.send(state_machine.NotThere())
    assert isinstance(create, state_machine.Create)
    with pytest.raises(StopIteration):
        attempt.send(state_machine.ObservedLease(create.record))
    now[0] = 35 * SECOND
    assert candidacy.overdue() == ""
    now[0] += 1
    assert candidacy.overdue() == "failed election to renew leadership on lease policy-sched"


def test_a_healthy_scheduler_says_ok() -> None:
    """One word, unless the request is verbose."""
    assert healthz.health_response("healthz", [PING]) == healthz.HealthResponse(200, "ok")
    text = "[+]ping ok\nhealthz check passed\n"
    assert healthz.health_response("healthz", [PING], verbose=True) == healthz.HealthResponse(
        200, text
    )


@pytest.mark.parametrize("verbose", [True, False])
def test_what_fails_is_named_and_its_reason_withheld(verbose: bool) -> None:
    """The path needs no authorization, so only the log has the reason."""
    found = healthz.health_response("readyz", [PING, SICK], verbose=verbose)
    assert found.status == 500
    assert found.text == (
        "[+]ping ok\n[-]leaderElection failed: reason withheld\nreadyz check failed\n"
    )
    assert found.failed == "leaderElection: failed election to renew leadership on lease x"


def test_checks_can_be_excluded() -> None:
    """An excluded one cannot fail; an unknown one is reported."""
    found = healthz.health_response(
        "livez", [PING, SICK], ["leaderElection", "zz", "a"], verbose=True
    )
    assert found == healthz.HealthResponse(
        200,
        "[+]ping ok\n[+]leaderElection excluded: ok\n"
        'warn: some health checks cannot be excluded: no matches for "a","zz"\n'
        "livez check passed\n",
    )


def test_a_single_check_reports_its_failure() -> None:
    """The path requires authorization."""
    assert healthz.single_check_response(PING) == healthz.HealthResponse(200, "ok")
    found = healthz.single_check_response(SICK)
    assert found.status == 500
    assert found.text == ("internal server error: failed election to renew leadership on lease x\n")
