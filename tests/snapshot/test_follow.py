"""`record`: a live cluster from outside, on an API server on loopback, and its requests."""

from __future__ import annotations

import asyncio
import gzip
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from policy_sched.cli.main import run
from policy_sched.errors import PolicySchedError
from policy_sched.recording.events import Added, Decided, Deleted, Event, Modified
from policy_sched.recording.reading import Recording
from tests.embedded.apiserver.security.guarded import guarded, make
from tests.embedded.apiserver.world import PODS, World
from tests.instance.recording import Recording as Proxy
from tests.snapshot.test_collect import KINDS, NODE, POD, SECRET, _fill, kubeconfig_of

BINDING = {"apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": "worker-a"}}


class Verb:
    """A process of the verb."""

    def __init__(self, process: asyncio.subprocess.Process, path: Path) -> None:
        self.process, self.path = process, path
        self.told: list[str] = []

    async def begun(self) -> None:
        """Wait until it records."""
        assert self.process.stderr is not None
        while not self.told or "recording " not in self.told[-1]:
            line = await self.process.stderr.readline()
            assert line, self.told
            self.told.append(line.decode())

    async def has(self, *words: str) -> list[Event]:
        """Wait until the recording has events with these words; return all."""
        while True:
            try:
                events = list(Recording.open(self.path).events())
            except (FileNotFoundError, PolicySchedError):
                events = []
            text = repr(events)
            if all(word in text for word in words):
                return events
            await asyncio.sleep(0.05)

    async def ended(self, number: signal.Signals) -> str:
        """End it by a signal; return its output."""
        self.process.send_signal(number)
        out, err = await self.process.communicate()
        self.told += err.decode().splitlines()
        return out.decode()


@asynccontextmanager
async def recording(folder: Path, port: int, *options: str) -> AsyncIterator[Verb]:
    """Run the verb in a process."""
    kubeconfig, path = kubeconfig_of(folder, port, "admin-token"), folder / "traffic"
    command = [sys.executable, "-m", "policy_sched", "record", str(path)]
    process = await asyncio.create_subprocess_exec(
        *command,
        *("--kubeconfig", kubeconfig, *options),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Verb(process, path)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _live(world: World) -> None:
    """Have a pod come, be bound, and go."""
    await make(world, PODS, POD | {"metadata": {"name": "later", "labels": {"app": "shop"}}})
    await make(world, f"{PODS}/later/binding", BINDING | {"metadata": {"name": "later"}})


def test_a_live_cluster_is_recorded(tmp_path: Path) -> None:
    """It lists and watches what decisions read, no secrets, and writes nothing."""

    async def scenario() -> tuple[list[tuple[str, str]], list[Event], str, Verb]:
        async with asyncio.timeout(90), guarded(tmp_path) as world:
            await _fill(world)
            proxy = Proxy(int(world.url.rpartition(":")[2]))
            async with proxy.served(), recording(tmp_path, proxy.port) as verb:
                await verb.begun()
                await _live(world)
                await verb.has("node='worker-a'")
                status, _ = await world.ask(
                    "DELETE", f"{PODS}/later?gracePeriodSeconds=0", token="admin-token"
                )
                assert status == 200
                events = await verb.has("Deleted(")
                return proxy.requests, events, await verb.ended(signal.SIGINT), verb

    requests, events, shown, verb = asyncio.run(scenario())
    assert verb.process.returncode == 0
    assert "recording 1 node, 1 pod (1 pending), " in verb.told[-1]
    assert shown.startswith(f"{verb.path}: ")
    assert " lines in 0:00:" in shown
    assert {method for method, _ in requests} == {"GET"}
    assert not any(kind in path for _, path in requests for kind in KINDS)
    texts = [gzip.decompress(p.read_bytes()).decode() for p in verb.path.glob("*.gz")]
    assert SECRET not in "".join(texts)
    about = [e for e in events if "later" in repr(e) and not isinstance(e, Decided)]
    assert {type(e) for e in about} == {Added, Modified, Deleted}
    (bound,) = [e for e in events if isinstance(e, Decided)]
    assert (bound.pod, bound.node, bound.scheduler) == (
        "default/later",
        "worker-a",
        "default-scheduler",
    )
    assert Recording.open(verb.path).notes == []


def test_what_is_killed_has_all_but_the_last_second(tmp_path: Path) -> None:
    """After kill -9 the recording is read to its end, and says that it was cut."""

    async def scenario() -> Path:
        async with asyncio.timeout(90), guarded(tmp_path) as world:
            await _fill(world)
            port = int(world.url.rpartition(":")[2])
            async with recording(tmp_path, port, "--keep-annotation", "acme.com/notes") as verb:
                await verb.begun()
                await _live(world)
                await verb.has("node='worker-a'", SECRET)
                await verb.ended(signal.SIGKILL)
                return verb.path

    path = asyncio.run(scenario())
    read = Recording.open(path)
    assert [e.node for e in read.events() if isinstance(e, Decided)] == ["worker-a"]
    assert read.notes == ["000001.jsonl.gz: it is cut off; it is read to its last whole line"]


def test_names_are_replaced_all_along(tmp_path: Path) -> None:
    """None of them is in the files, of the snapshot or of what came; the list tells them."""
    names = tmp_path / "names.json"

    async def scenario() -> Path:
        async with asyncio.timeout(90), guarded(tmp_path) as world:
            await _fill(world)
            port = int(world.url.rpartition(":")[2])
            options = ("--anonymize", "--names", str(names))
            async with recording(tmp_path, port, *options) as verb:
                await verb.begun()
                await _live(world)
                await verb.has("Decided(")
                await verb.ended(signal.SIGTERM)
                return verb.path

    path = asyncio.run(scenario())
    text = "".join(gzip.decompress(p.read_bytes()).decode() for p in path.glob("*.gz"))
    for name in ("worker-a", "payments", "team", "later", "shop", "nginx", SECRET):
        assert name not in text
    real: dict[str, str] = json.loads(names.read_text())
    (bound,) = [e for e in Recording.open(path).events() if isinstance(e, Decided)]
    assert [real.get(word, word) for word in (*bound.pod.split("/"), bound.node)] == [
        *("default", "later", "worker-a")
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--key", "x"], "--key: only with --anonymize"),
        (["--kubeconfig", "gone"], "gone"),
        (["--anonymize", "--policies", "capacity"], "does not go together with --anonymize"),
    ],
)
def test_mistakes_are_named(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before anything is written."""
    monkeypatch.chdir(tmp_path)
    assert run(["record", "traffic", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert not Path("traffic", "000001.jsonl.gz").exists()


def test_rights_that_are_missing_are_named_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As for a snapshot."""

    async def scenario() -> Any:
        async with asyncio.timeout(60), guarded(tmp_path) as world:
            await make(world, "/api/v1/nodes", NODE)
            kubeconfig = kubeconfig_of(tmp_path, int(world.url.rpartition(":")[2]), "joe-token")
            command = ["-m", "policy_sched", "record", str(tmp_path / "t"), "--kubeconfig"]
            process = await asyncio.create_subprocess_exec(
                sys.executable, *command, kubeconfig, stderr=asyncio.subprocess.PIPE
            )
            return process, (await process.communicate())[1].decode()

    process, refusal = asyncio.run(scenario())
    assert process.returncode == 2
    assert "a recording needs to list what decisions read" in refusal
    assert 'User "joe" cannot list resource "nodes"' in refusal
    assert 'User "joe" cannot list resource "pods"' in refusal
    assert capsys.readouterr().err == ""
