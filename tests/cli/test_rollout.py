"""The verb `rollout`: on a cluster, and on a scheduler of this machine."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from policy_sched.cli.main import run
from policy_sched.instance.http.endpoints import Endpoints
from policy_sched.instance.http.listener import Listener
from policy_sched.profiles.models.schema import definitions
from policy_sched.rollout import advance, plan_of_object, reconcile, rollout_report, status_of
from tests.embedded.apiserver.world import World, serving
from tests.instance.http.test_endpoints import Served
from tests.instance.http.test_rollout_page import Control
from tests.rollout.plans import MINUTE, counted

PATH = "/apis/policysched.dev/v1alpha1/rollouts"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SPEC = {
    "steps": [
        {"audit": {"decisions": 500, "for": "10m"}},
        {"canary": {"percent": 10, "for": "5m"}},
    ],
    "abortWhen": [{"expression": "candidate.errors > 0", "message": "a rule fails"}],
}
HEAD = {"apiVersion": "policysched.dev/v1alpha1", "kind": "Rollout"}
Verb = Callable[..., Any]


def kubeconfig(folder: Path, url: str) -> str:
    """Write a kubeconfig for a server; return its path."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(config))
    return str(path)


async def begin(world: World, name: str) -> None:
    """Apply a rollout, and write the status of its second minute as a scheduler does."""
    made = await world.create(PATH, {**HEAD, "metadata": {"name": name}, "spec": SPEC})
    plan, problems = plan_of_object(made)
    assert plan is not None, problems
    state, _ = reconcile(plan, None, "0ld", "n3w", MINUTE)
    assert state is not None
    state, _ = advance(plan, state, counted(30), 2 * MINUTE)
    status = status_of(rollout_report(plan, state), state, 1)
    code, answer = await world.ask(
        "PATCH", f"{PATH}/{name}/status", {"status": status}, type="application/merge-patch+json"
    )
    assert code == 200, answer


def test_a_rollout_of_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its status is shown; a request is an annotation that names the candidate.

    Of an object with errors these alone were shown, and not how far it was.
    """

    async def scenario() -> None:
        async with serving() as world:
            config = kubeconfig(tmp_path, world.url)

            async def verb(*arguments: str) -> tuple[int, str, str]:
                code = await asyncio.to_thread(run, ["rollout", *arguments, "--kubeconfig", config])
                said = capsys.readouterr()
                return code, said.out, said.err

            code, _, said = await verb("status")
            assert (code, "the cluster has no kind Rollout" in said) == (2, True)
            definition = json.loads(definitions()["rollouts.policysched.dev.json"])
            await world.create(DEFINITIONS, definition)
            code, _, said = await verb("status")
            assert (code, "the cluster has no Rollout" in said) == (2, True)
            await begin(world, "careful")
            code, shown, _ = await verb("status")
            assert code == 0
            assert shown.startswith(
                "Rollout:    careful\nPhase:      Progressing\nStep:       1 of 2"
            )
            code, shown, _ = await verb("status", "careful", "-o", "json")
            assert json.loads(shown)["measures"]["candidate"]["decisions"] == 30
            code, shown, _ = await verb("promote")
            assert (code, shown) == (
                0,
                "rollout.policysched.dev/careful: promote of n3w requested\n",
            )
            _, made = await world.ask("GET", f"{PATH}/careful")
            assert made["metadata"]["annotations"] == {"policysched.dev/promote": "n3w"}
            await begin(world, "other")
            code, shown, _ = await verb("status", "-o", "json")
            names = [one["name"] for one in json.loads(shown)["items"]]
            assert names == ["careful", "other"]
            code, _, said = await verb("abort")
            assert (code, "name one of careful, other" in said) == (2, True)
            code, _, said = await verb("abort", "none")
            assert (code, '"none" not found' in said) == (2, True)
            wrong = {"spec": {"abortWhen": [{"expression": "candidate.nix > 0", "message": "x"}]}}
            change = "application/merge-patch+json"
            code, answer = await world.ask("PATCH", f"{PATH}/other", wrong, type=change)
            assert code == 200, answer
            code, shown, _ = await verb("status", "other")
            assert (code, "error PS" in shown, "Step:       1, for" in shown) == (0, True, True)
            assert re.search(r"^decisions +30 +30$", shown, re.MULTILINE)

    asyncio.run(scenario())


def test_a_rollout_of_a_scheduler_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its endpoints are asked; the candidate that was shown is the one that is meant."""
    served = Served(tmp_path)

    async def scenario() -> None:
        instance = served.instance
        handle = Endpoints(served.offered(open_paths=("/*",)), served.door).handle
        async with Listener(handle, ("127.0.0.1", 0), None) as listener:

            async def verb(*arguments: str) -> tuple[int, str, str]:
                words = ["rollout", *arguments, "--server", listener.url]
                code = await asyncio.to_thread(run, words)
                said = capsys.readouterr()
                return code, said.out, said.err

            code, _, said = await verb("status")
            assert (code, "nothing is rolled out" in said) == (2, True)
            instance.rollout = control = Control()
            code, shown, _ = await verb("status")
            assert (code, shown.startswith("Rollout:    careful\n")) == (0, True)
            code, _, said = await verb("status", "other")
            assert (code, "rolls out careful, not other" in said) == (2, True)
            code, shown, _ = await verb("abort", "-o", "json")
            assert (code, json.loads(shown)["phase"]) == (0, "Aborted")
            assert control.state.phase == "Aborted"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ("http://example.com", "name a scheduler on this machine"),
        ("ftp://127.0.0.1", "name a scheduler on this machine"),
        ("http://127.0.0.1:99999", "name a scheduler on this machine"),
        ("http://[::1", "name a scheduler on this machine"),
        ("http://127.0.0.1:1", "run --secure-port turns the endpoints on"),
    ],
)
def test_what_cannot_be_asked(server: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Another machine is named by a kubeconfig; where nobody listens the flag is named."""
    assert run(["rollout", "status", "--server", server]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (404, b"not found"),
        (200, b"\xff<html>"),
        (200, b"null"),
        (200, b"[]"),
        (200, b'{"name": 3}'),
    ],
)
def test_answers_of_something_else(
    code: int, body: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither an older scheduler nor a cluster that answers with anything is a traceback."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 {code} X\r\nContent-Type: application/json\r\nConnection: close\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        writer.close()

    async def scenario() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            for where in (["--server", url], ["--kubeconfig", kubeconfig(tmp_path, url)]):
                for words in (["status"], ["promote", "careful"]):
                    assert await asyncio.to_thread(run, ["rollout", *words, *where]) == 2
                    assert capsys.readouterr().err.startswith("policy-sched: ")

    asyncio.run(scenario())
