"""Health checks answer as kube-scheduler's do."""

from __future__ import annotations

import pytest

from policy_sched.serve.health import Check, Verdict, answer, answer_of_one, nothing_wrong

PING = Check("ping", nothing_wrong)
SICK = Check("leaderElection", lambda: "failed election to renew leadership on lease x")


def test_all_is_well() -> None:
    """One word, unless somebody wants to see each check."""
    assert answer("healthz", [PING]) == Verdict(200, "ok")
    text = "[+]ping ok\nhealthz check passed\n"
    assert answer("healthz", [PING], verbose=True) == Verdict(200, text)


@pytest.mark.parametrize("verbose", [True, False])
def test_what_fails_is_named_and_its_reason_withheld(verbose: bool) -> None:
    """Anybody may ask, so only the log is told why."""
    found = answer("readyz", [PING, SICK], verbose=verbose)
    assert found.status == 500
    assert found.text == (
        "[+]ping ok\n[-]leaderElection failed: reason withheld\nreadyz check failed\n"
    )
    assert found.failed == "leaderElection: failed election to renew leadership on lease x"


def test_checks_can_be_excluded() -> None:
    """An excluded one cannot fail; one that is not there is told of."""
    found = answer("livez", [PING, SICK], ["leaderElection", "zz", "a"], verbose=True)
    assert found == Verdict(
        200,
        "[+]ping ok\n[+]leaderElection excluded: ok\n"
        'warn: some health checks cannot be excluded: no matches for "a","zz"\n'
        "livez check passed\n",
    )


def test_a_check_by_its_name_says_what_is_wrong() -> None:
    """Who may ask for it may know."""
    assert answer_of_one(PING) == Verdict(200, "ok")
    found = answer_of_one(SICK)
    assert found.status == 500
    assert found.text == ("internal server error: failed election to renew leadership on lease x\n")
