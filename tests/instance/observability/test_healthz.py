"""Health checks answer as kube-scheduler's do."""

from __future__ import annotations

from random import Random

import pytest

from policy_sched.client.kube.auth.credentials import Access
from policy_sched.client.kube.leaderelection.state_machine import (
    Create,
    Election,
    ElectionSettings,
    Found,
    Get,
    NotThere,
)
from policy_sched.client.kube.rest.client import Api
from policy_sched.client.kube.rest.settings import Environment
from policy_sched.client.kube.time.work_queue import SECOND, Clocks
from policy_sched.instance.app.cluster_instance import Candidacy
from policy_sched.instance.observability.healthz import (
    Check,
    HealthResponse,
    health_response,
    nothing_wrong,
    single_check_response,
)

PING = Check("ping", nothing_wrong)
SICK = Check("leaderElection", lambda: "failed election to renew leadership on lease x")


def test_a_leader_that_does_not_renew_is_unhealthy() -> None:
    """Twenty seconds after its lease has expired; a standby is healthy."""
    now = [0]
    clocks = Clocks(lambda: now[0], lambda: now[0])
    election = Election("me", clocks, Random(1), ElectionSettings())
    api = Api(Access("http://nowhere"), Environment(clocks, Random(1)))
    candidacy = Candidacy(election, api, "kube-system", "policy-sched")
    assert candidacy.overdue() == ""
    attempt = election.attempt()
    assert next(attempt) == Get()
    create = attempt.send(NotThere())
    assert isinstance(create, Create)
    with pytest.raises(StopIteration):
        attempt.send(Found(create.record))
    now[0] = 35 * SECOND
    assert candidacy.overdue() == ""
    now[0] += 1
    assert candidacy.overdue() == "failed election to renew leadership on lease policy-sched"


def test_all_is_well() -> None:
    """One word, unless the request is verbose."""
    assert health_response("healthz", [PING]) == HealthResponse(200, "ok")
    text = "[+]ping ok\nhealthz check passed\n"
    assert health_response("healthz", [PING], verbose=True) == HealthResponse(200, text)


@pytest.mark.parametrize("verbose", [True, False])
def test_what_fails_is_named_and_its_reason_withheld(verbose: bool) -> None:
    """The path needs no authorization, so only the log has the reason."""
    found = health_response("readyz", [PING, SICK], verbose=verbose)
    assert found.status == 500
    assert found.text == (
        "[+]ping ok\n[-]leaderElection failed: reason withheld\nreadyz check failed\n"
    )
    assert found.failed == "leaderElection: failed election to renew leadership on lease x"


def test_checks_can_be_excluded() -> None:
    """An excluded one cannot fail; an unknown one is reported."""
    found = health_response("livez", [PING, SICK], ["leaderElection", "zz", "a"], verbose=True)
    assert found == HealthResponse(
        200,
        "[+]ping ok\n[+]leaderElection excluded: ok\n"
        'warn: some health checks cannot be excluded: no matches for "a","zz"\n'
        "livez check passed\n",
    )


def test_a_single_check_reports_its_failure() -> None:
    """The path requires authorization."""
    assert single_check_response(PING) == HealthResponse(200, "ok")
    found = single_check_response(SICK)
    assert found.status == 500
    assert found.text == ("internal server error: failed election to renew leadership on lease x\n")
