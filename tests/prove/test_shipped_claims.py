"""Promises about shipped policies: what their READMEs claim is proven for every pod and node."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from policy_sched.cli.main import run
from policy_sched.prove import parts_of, prove

ROOT = Path(__file__).parents[2]
CLAIMS = sorted((ROOT / "policies").glob("*/claims.yaml"))


HARD = (
    *("driver-version", "low-risk", "max-per-host", "numa", "rack-spread", "tenant-isolation"),
    *("capacity", "cohorts", "coscheduling", "gang", "preemption-toleration", "proportion"),
    "rack-gang",
)
"""Policies with questions that the solver alone does not answer."""


def test_every_shipped_policy_claims_something() -> None:
    """A new policy comes with claims."""
    names = {file.parent.name for file in (ROOT / "policies").glob("*/policy.yaml")}
    assert {file.parent.name for file in CLAIMS} == names


def test_no_question_of_a_policy_is_left_open() -> None:
    """Inputs, quotas, groups, domains and times: each is answered, by the tests beside if need be.

    `policy-sched prove` of a shipped policy has no unknown answer and nothing that is refuted.
    """
    files = [str(ROOT / "policies" / name / "policy.yaml") for name in HARD]
    parts = [part for file in files for part in parts_of([file], (), 3, 3.0)]
    verdicts = prove(parts, 1, lambda _done: None)
    assert {(v.claim, v.answer) for v in verdicts if not v.fine} == set()
    assert len(verdicts) > 2 * len(HARD)


def test_what_a_readme_claims_is_proven() -> None:
    """Each claim is proven within 5 seconds of the solver, and is in the README in words."""
    parts = [part for file in CLAIMS for part in parts_of([str(file)], (), 3, 5.0)]
    verdicts = prove(parts, 1, lambda _done: None)
    assert {(v.claim, v.file, v.answer, v.reason) for v in verdicts if not v.fine} == set()
    stated = [
        (file, c["name"])
        for file in CLAIMS
        for c in yaml.load(file.read_text(), yaml.CSafeLoader)["claims"]
    ]
    assert len(verdicts) >= len(stated)
    for file, claim in stated:
        assert f"* {claim}\n" in (file.parent / "README.md").read_text()


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
