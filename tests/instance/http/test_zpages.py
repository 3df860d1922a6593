"""Pages of all components: formats, methods, and the verbosity of the log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policy_sched.cli.options.endpoints import EndpointFlags, shown_flags
from policy_sched.cli.options.kube_scheduler_flags import ClientFlags, LeaderFlags, Overrides
from policy_sched.http.access import Access
from policy_sched.profiles.reload.inputs import PolicyFiles
from tests.instance.http.test_endpoints import Served, run_scenario


@pytest.fixture
def served(tmp_path: Path) -> Served:
    """Endpoints of an instance that has bound one pod of two."""
    return Served(tmp_path)


@pytest.mark.parametrize(
    "accept", ["", "*/*", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5,*/*;q=0.1"]
)
def test_metrics_are_text_whatever_the_accept_header(served: Served, accept: str) -> None:
    """As kube-scheduler's: OpenMetrics is not offered, and Prometheus takes what it gets."""

    async def scenario() -> None:
        async with served.session() as ask:
            found = await ask("/metrics", "admin", Accept=accept)
            kind = "text/plain; version=0.0.4; charset=utf-8"
            assert (found["status"], found["headers"]["Content-Type"]) == (200, kind)
            assert "# EOF" not in found["text"]

    run_scenario(scenario)


def test_metrics_are_compressed_when_the_client_accepts_it(served: Served) -> None:
    """Prometheus does, every time."""

    async def scenario() -> None:
        async with served.session() as ask:
            found = await ask("/metrics", "admin", Accept_Encoding="gzip")
            assert found["headers"]["Content-Encoding"] == "gzip"
            assert 'scheduler_pending_pods{queue="unschedulable"} 1.0\n' in found["text"]
            found = await ask("/metrics", "admin", Accept_Encoding="identity")
            assert "Content-Encoding" not in found["headers"]

    run_scenario(scenario)


HEADED = ("/healthz", "/readyz", "/livez/ping", "/metrics", "/metrics/resources", "/configz")


@pytest.mark.parametrize("path", [*HEADED, "/statusz", "/nothing"])
def test_head_is_a_get_without_its_body(served: Served, path: str) -> None:
    """Load balancers use HEAD: the same status and type, without a body."""

    async def scenario() -> None:
        async with served.session() as ask:
            get, head = await ask(path, "admin"), await ask(path, "admin", "HEAD")
            assert (head["status"], head["text"]) == (get["status"], "")
            assert head["headers"]["Content-Type"] == get["headers"]["Content-Type"]

    run_scenario(scenario)


def test_statusz_and_flagz_are_plain_text(served: Served) -> None:
    """/statusz and /flagz, on by default since 1.36: plain text only."""

    async def scenario() -> None:
        async with served.session() as ask:
            status, flags = await ask("/statusz", "admin"), await ask("/flagz", "admin")
            assert status["text"].startswith("\npolicy-sched statusz\nWarning: This endpoint is")
            assert "\nUp: 0 hr 00 min 0" in status["text"]
            assert "\nEmulation version: 1.36\n" in status["text"]
            assert flags["text"].endswith("\n\nbind-address=::\nsecure-port=10259\n")
            for page in ("/statusz", "/flagz"):
                found = await ask(page, "admin", Accept="application/json")
                words = "media type not acceptable, must be: text/plain"
                assert (found["status"], json.loads(found["text"])["message"]) == (406, words)
                found = await ask(page, "admin", Accept="text/plain;charset=UTF-8")
                assert found["status"] == 200
                assert (await ask(page))["status"] == 403

    run_scenario(scenario)


def test_the_verbosity_can_be_changed(served: Served) -> None:
    """As kube-scheduler's, by PUT, if authorized; other values and methods change nothing."""
    verbosity = served.instance.log.verbosity

    async def scenario() -> None:
        async with served.session() as ask:
            found = await ask("/debug/flags/v", "admin", "PUT", "4")
            words = "successfully set klog.logging.verbosity to 4\n"
            assert (found["status"], found["text"]) == (200, words)
            assert verbosity.level == 4
            for body in ("", "-1", "four", "9" * 16):
                assert (await ask("/debug/flags/v", "admin", "PUT", body))["status"] == 400
            found = await ask("/debug/flags/v", "admin")
            reported = json.loads(found["text"])
            assert (found["status"], reported["message"]) == (406, "unsupported http method")
            assert (await ask("/debug/flags/v", "tenant", "PUT", "9"))["status"] == 403

    run_scenario(scenario)
    assert verbosity.level == 4


def test_more_paths_may_be_open(served: Served) -> None:
    """The flag's paths, exactly or by prefix; an unknown token is still rejected."""
    served.open_paths = ("/healthz", "/metrics", "/livez/*")

    async def scenario() -> None:
        async with served.session() as ask:
            for path in ("/healthz", "/metrics", "/livez/ping"):
                assert (await ask(path))["status"] == 200
            for path in ("/metrics/resources", "/readyz", "/configz"):
                assert (await ask(path))["status"] == 403
            assert (await ask("/metrics", "nobody"))["status"] == 401

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("given", "open_paths"),
    [
        (("/healthz,/readyz", "/metrics"), ("/healthz", "/readyz", "/metrics")),
        (("healthz, livez/*,",), ("/healthz", "/livez/*")),
        (("",), ()),
    ],
)
def test_paths_are_given_as_upstream_takes_them(
    given: tuple[str, ...], open_paths: tuple[str, ...]
) -> None:
    """Several times, and with commas; with or without the first slash."""
    assert EndpointFlags(authorization_always_allow_paths=given).open_paths == open_paths


def test_a_check_has_one_path(served: Served) -> None:
    """With a trailing slash it is another path, which does not exist."""

    async def scenario() -> None:
        async with served.session() as ask:
            served.door.rights["admin"] |= {"get /readyz/", "get /livez/ping/"}
            for path in ("/readyz/", "/livez/ping/"):
                found = await ask(path, "admin")
                assert found["status"] == 404
                assert json.loads(found["text"])["reason"] == "NotFound"

    run_scenario(scenario)


def test_metrics_are_written_piece_by_piece(served: Served) -> None:
    """Many profiles and plugins make a long page: other tasks run meanwhile."""
    served.instance.stop()
    metrics = served.instance.metrics
    took = metrics.upstream.plugin_execution_duration_seconds
    for number in range(50):
        took.take((f"Plugin{number}", "Filter", "Success"), [0.001])
    pieces = list(metrics.pieces())
    assert max(map(len, pieces)) < sum(map(len, pieces)) / 20
    whole = [line for line in metrics.text().splitlines() if "process_" not in line]
    again = [line for line in "".join(pieces).splitlines() if "process_" not in line]
    assert whole == again


def test_the_flags_are_those_that_were_given_or_have_a_default() -> None:
    """By their names on the command line; lists with commas."""
    overrides = Overrides(LeaderFlags(leader_elect=False), ClientFlags(v=4), True, "admin.conf")
    files = PolicyFiles("config.yaml", ("a", "b"))
    found = shown_flags(EndpointFlags(secure_port=1), Access("c.pem", "k.pem"), overrides, files)
    assert found.items() >= {
        ("secure-port", "1"),
        ("authorization-always-allow-paths", "/healthz,/readyz,/livez"),
        ("leader-elect", "false"),
        ("v", "4"),
        ("kubeconfig", "admin.conf"),
        ("config", "config.yaml"),
        ("policies", "a,b"),
        ("tls-cert-file", "c.pem"),
        ("tls-private-key-file", "k.pem"),
    }
    assert not {"bind-address", "token-auth-file", "mode"} & found.keys()
