"""The verb `console` and `run --console`: options, and the URL that they print."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import aiohttp
import pytest

from policy_sched.cli import console as verb
from policy_sched.cli.main import run
from policy_sched.cli.options.console_flags import ConsoleFlags, Listen, console_pages
from policy_sched.console import ConsoleServer
from policy_sched.console.pages import Results
from policy_sched.console.security import Security
from policy_sched.console.server import SHARED
from policy_sched.errors import ClusterError
from policy_sched.instance.app import EmbeddedInstance, Sources
from policy_sched.instance.observability import Record
from policy_sched.profiles.reload import PolicyFiles

CLUSTER = "policies/example-cluster/manifests"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name what to show: --cluster, --kubeconfig, --recording or --results"),
        (["--cluster", CLUSTER, "--kubeconfig", "x"], "does not go together with --cluster"),
        (["--kubeconfig", "x", "--now", "2026-01-01T00:00:00Z"], "--now goes with --cluster"),
        (
            ["--cluster", CLUSTER, "--address", "0.0.0.0"],
            "--address 0.0.0.0: must be an address of",
        ),
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
def test_the_token_is_not_in_the_arguments_of_the_browser(
    browser: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every user saw it in the list of processes: the browser gets a private file's path."""
    seen: list[str] = []
    modes: list[int] = []

    def opened(address: str) -> None:
        file = Path(address.removeprefix("file://"))
        seen.extend([address, file.read_text()])
        modes.extend([file.parent.stat().st_mode & 0o777, file.stat().st_mode & 0o777])

    monkeypatch.setattr(verb.webbrowser, "open", opened)

    async def act() -> None:
        async with verb.Served((str(tmp_path),), Listen(None, 0), browser).of(None):
            pass

    asyncio.run(act())
    url = capsys.readouterr().out.removeprefix("The console is at ").rstrip()
    assert not browser or (url not in seen[0] and f"0; url={url}" in seen[1])
    assert modes == [0o700, 0o600] * browser
    assert not browser or not Path(seen[0].removeprefix("file://")).parent.exists()


def test_a_url_for_each_browser_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """When the URL has been opened, the terminal shows another one; the first one is dead."""

    async def act() -> None:
        async with (
            verb.Served((str(tmp_path),), Listen(None, 0), browser=False).of(None),
            aiohttp.ClientSession() as session,
        ):
            for _ in range(2):
                url = capsys.readouterr().out.split()[-1]
                for status in (303, 403):
                    async with session.get(url, allow_redirects=False) as answer:
                        assert answer.status == status  # this client keeps no cookies

    asyncio.run(act())
    assert capsys.readouterr().out.startswith("Opened in a browser. For another one: http://127.")


def test_a_machine_with_one_address_says_what_is_shared(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Where only 127.0.0.1 is there, the browser sends the cookie to what else listens on it."""
    verb.announce(ConsoleServer(Security("127.0.0.1", 8000), None, Results(), SHARED))
    assert "the browser sends the console's cookie to other programs" in capsys.readouterr().err


@pytest.mark.parametrize(
    "given", [("x",), ("70000",), ("1", "2"), ("-1",), ("",), ("10.0.0.1:80",), ("a:80",), ("::1",)]
)
def test_an_address_is_one_of_this_machine(given: tuple[str, ...]) -> None:
    """Anything else after --console is refused, and addresses that others reach."""
    with pytest.raises(ClusterError, match="--console"):
        ConsoleFlags(given).listen()


def test_addresses_of_a_running_scheduler() -> None:
    """None without the option, any free port without a number, one of its own without a host."""
    assert ConsoleFlags().listen() is None
    assert ConsoleFlags(()).listen() == Listen(None, 0)
    assert ConsoleFlags(("8123",)).listen() == Listen(None, 8123)
    assert ConsoleFlags(("127.0.0.1:8123",)).listen() == Listen("127.0.0.1", 8123)
    assert ConsoleFlags(("[::1]:0",)).listen() == Listen("::1", 0)


def test_a_running_scheduler_serves_its_pages() -> None:
    """The log has the URL; the pages are about the embedded cluster."""
    records: list[Record] = []

    async def act() -> str:
        instance = EmbeddedInstance(Sources(PolicyFiles()), time.time_ns, records.append)
        jar = aiohttp.CookieJar(unsafe=True)
        async with (
            console_pages(instance, Listen("127.0.0.1", 0)),
            aiohttp.ClientSession(cookie_jar=jar) as session,
        ):
            url, *_ = [
                record["url"] for record in records if record["msg"] == "Serving the console"
            ]
            async with session.get(url) as answer:
                assert answer.status == 200
                return await answer.text()

    assert "embedded cluster" in asyncio.run(act()).replace("<wbr>", "")
