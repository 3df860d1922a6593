"""The verb `console` and `run --console`: options, and the URL that they print."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import aiohttp
import pytest

from policy_sched.cli import console as verb
from policy_sched.cli.main import run
from policy_sched.cli.options.console_flags import ConsoleFlags, console_pages
from policy_sched.console import Server
from policy_sched.console.pages import Results
from policy_sched.console.security import Security
from policy_sched.errors import ClusterError
from policy_sched.instance.app import EmbeddedInstance, Sources
from policy_sched.instance.observability import Record
from policy_sched.profiles.reload import PolicyFiles

CLUSTER = "policies/example-cluster/manifests"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name what to show: --cluster, --kubeconfig or --results"),
        (["--cluster", CLUSTER, "--kubeconfig", "x"], "does not go together with --cluster"),
        (["--kubeconfig", "x", "--now", "2026-01-01T00:00:00Z"], "--now goes with --cluster"),
        (["--cluster", CLUSTER, "--port", "70000"], "--port 70000: must be between 0 and 65535"),
        (["--cluster", "no-such-folder"], "no-such-folder: No such file or directory"),
        (["--results", "no-such-folder"], "no-such-folder: No such file or directory"),
    ],
)
def test_wrong_usage_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is missing or does not go together is said in one line, and the exit code is 2."""
    assert run(["console", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_manifests_with_errors_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is no cluster to show: every problem is printed, and the exit code is 1."""
    file = tmp_path / "pod.yaml"
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: [1]}\n")
    assert run(["console", "--cluster", str(file), "--no-browser"]) == 1
    assert "pod.yaml:3" in capsys.readouterr().err


@pytest.mark.parametrize("browser", [True, False])
def test_the_url_is_printed_and_opened(
    browser: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has the token; the browser is opened unless that is not wanted."""
    seen: list[str] = []
    monkeypatch.setattr(verb.webbrowser, "open", seen.append)
    server = Server(Security(8000), None, Results())
    verb.announce(server, browser=browser)
    assert capsys.readouterr().out == f"The console is at {server.url}\n"
    assert server.url == f"http://127.0.0.1:8000/?token={server.security.token}"
    assert seen == [server.url] * browser


@pytest.mark.parametrize("given", [("x",), ("70000",), ("1", "2"), ("-1",), ("",)])
def test_a_port_is_a_number(given: tuple[str, ...]) -> None:
    """Anything else after --console is refused."""
    with pytest.raises(ClusterError, match="--console"):
        ConsoleFlags(given).port()


def test_ports_of_a_running_scheduler() -> None:
    """None without the option, any free one without a number."""
    assert ConsoleFlags().port() is None
    assert ConsoleFlags(()).port() == 0
    assert ConsoleFlags(("8123",)).port() == 8123


def test_a_running_scheduler_serves_its_pages() -> None:
    """The log has the URL; the pages are about the embedded cluster."""
    records: list[Record] = []

    async def act() -> str:
        instance = EmbeddedInstance(Sources(PolicyFiles()), time.time_ns, records.append)
        jar = aiohttp.CookieJar(unsafe=True)
        async with console_pages(instance, 0), aiohttp.ClientSession(cookie_jar=jar) as session:
            (url,) = [one["url"] for one in records if one["msg"] == "Serving the console"]
            async with session.get(url) as answer:
                assert answer.status == 200
                return await answer.text()

    assert "embedded cluster" in asyncio.run(act()).replace("<wbr>", "")
