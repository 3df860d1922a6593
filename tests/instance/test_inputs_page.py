"""The guide of docs/inputs.md, as a new user does it: a definition, kubectl, a reload."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.apiserver.test_kubectl import KUBECTL
from tests.shown import blocks, examples, files, page

SECOND = """\
  - {name: classes, apiVersion: scheduling.k8s.io/v1, kind: PriorityClass}
  filter:
  - expression: '!inputs.classes[?"urgent"].hasValue() || pod.name != "q"'
    message: q gives way
"""


class Log:
    """The log of a scheduler that runs in a process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def until(self, message: str) -> dict[str, Any]:
        """Read up to the record with a message."""
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            record: dict[str, Any] = json.loads(line)
            if message in record["msg"]:
                return record
        raise AssertionError(f"the scheduler ended before it said {message!r}")


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
def test_the_guide_does_what_it_shows(tmp_path: Path) -> None:
    """A changed object changes the next decision, and a saved policy reads a further kind."""
    shown = blocks(page("docs/inputs.md"))
    for name, text in files(shown, "quotas").items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (console,) = [examples(block) for block in shown if block[0] == "console"]
    config, policy = tmp_path / "kubeconfig", tmp_path / "policy.yaml"
    environment = {**os.environ, "KUBECONFIG": str(config), "HOME": str(tmp_path)}

    async def kubectl(*arguments: str) -> str:
        assert KUBECTL is not None
        process = await asyncio.create_subprocess_exec(
            KUBECTL, *arguments, stdout=PIPE, stderr=PIPE, env=environment, cwd=tmp_path
        )
        out, errors = await process.communicate()
        assert process.returncode == 0, errors.decode()
        return out.decode()

    async def scenario() -> None:
        words = ("-m", "policy_sched", "run", "--serve", "127.0.0.1:0", "--policies", str(policy))
        process = await asyncio.create_subprocess_exec(
            sys.executable, *words, "--write-kubeconfig", str(config), stdout=PIPE
        )
        log = Log(process)
        try:
            assert (await log.until("the cluster has no Quota"))["code"] == "PS807"
            await log.until("Running")
            for example in console:
                printed = await kubectl(*shlex.split(example.command)[1:])
                assert printed == example.output, example.command
            text = policy.read_text(encoding="utf-8").replace("  filter:\n", SECOND)
            beside = tmp_path / ".policy.new"
            beside.write_text(text, encoding="utf-8")
            beside.replace(policy)
            await log.until("Reloaded policies")
            await kubectl("create", "priorityclass", "urgent", "--value=7")
            await kubectl("run", "q", "--image=x")
            record = await log.until("Unable to schedule pod")
            assert "q gives way" in record["err"]
        finally:
            process.terminate()
            await process.communicate()
        assert process.returncode == 0

    async def bounded() -> None:
        async with asyncio.timeout(120):
            await scenario()

    asyncio.run(bounded())
