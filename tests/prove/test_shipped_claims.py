"""Promises about shipped policies: what their READMEs claim is proven for every pod and node."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from policy_sched.cli.main import run

ROOT = Path(__file__).parents[2]
CLAIMS = sorted((ROOT / "policies").glob("*/claims.yaml"))


def test_the_policies_that_claim_something() -> None:
    """Claims are not lost."""
    names = {"default", "driver-version", "gpu-bin-packing", "max-per-host", "spot-nodes"}
    assert names <= {file.parent.name for file in CLAIMS}


@pytest.mark.parametrize("file", CLAIMS, ids=[file.parent.name for file in CLAIMS])
def test_what_a_readme_claims_is_proven(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each claim is proven within 5 seconds of the solver, and stands in the README in words."""
    claims = [claim["name"] for claim in yaml.safe_load(file.read_text())["claims"]]
    assert run(["prove", str(file), "--timeout", "5"]) == 0
    out = capsys.readouterr().out
    readme = (file.parent / "README.md").read_text()
    for claim in claims:
        assert f": {claim}: proven" in out, out
        assert f"* {claim}\n" in readme


@pytest.mark.parametrize("name", ["spot-nodes", "gpu-bin-packing", "max-per-host"])
def test_every_claim_notices_a_policy_that_breaks_it(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without its filters, or with its score turned around, a policy refutes claims of its own."""
    folder = ROOT / "policies" / name
    text = (folder / "policy.yaml").read_text()
    broken = text.replace(" < params.max", " <= params.max").replace("!variables.onSpot", "true")
    broken = broken.replace("? 0 : 100", "? 100 : 0")
    assert broken != text
    (tmp_path / "policy.yaml").write_text(broken)
    (tmp_path / "claims.yaml").write_text((folder / "claims.yaml").read_text())
    assert run(["prove", str(tmp_path / "claims.yaml")]) == 1
    assert "refuted" in capsys.readouterr().out
