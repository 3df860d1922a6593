"""An API server takes what is printed, and would refuse a field that it does not know."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml

from tests.deploy.test_review import FORMS, printed
from tests.embedded.apiserver.test_kubectl import KUBECTL, Kubectl
from tests.embedded.apiserver.world import serving

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="no kubectl")


def test_kubectl_finds_nothing_in_any_form(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With strict validation, tried out by the server and then for good; twice changes nothing."""
    files = []
    for number, form in enumerate(FORMS):
        objects = printed(capsys, *form, "--name", f"form-{number}")
        built_in = [obj for obj in objects if obj["kind"] != "ServiceMonitor"]
        file = tmp_path / f"{number}.yaml"
        file.write_text(yaml.safe_dump_all(built_in), encoding="utf-8")
        files.append((file, len(built_in)))

    async def run() -> None:
        async with serving() as world:
            kubectl = Kubectl(world, tmp_path)
            await kubectl("create", "namespace", "sched")
            for file, count in files:
                strict = ("apply", "--validate=strict", "-f", str(file))
                tried = (await kubectl(*strict, "--dry-run=server")).splitlines()
                assert len(tried) == count
                assert all(line.endswith("(server dry run)") for line in tried)
                await kubectl(*strict)
                again = (await kubectl(*strict)).splitlines()
                # The selector of a budget is replaced as a whole, which kubectl takes for a change.
                changed = [line for line in again if not line.endswith(" unchanged")]
                assert all(line.startswith("poddisruptionbudget") for line in changed)
            text = files[0][0].read_text(encoding="utf-8")
            files[0][0].write_text(text.replace("runAsNonRoot", "runAsNoRoot"), encoding="utf-8")
            strict = ("apply", "--validate=strict", "-f", str(files[0][0]))
            refused = await kubectl(*strict, "--dry-run=server", fails=True)
            assert 'unknown field "spec.template.spec.securityContext.runAsNoRoot"' in refused

    asyncio.run(run())
