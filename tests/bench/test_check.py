"""The policies on which `check` is measured: sound, and no two texts in them alike."""

from __future__ import annotations

from pathlib import Path

from policy_sched.bench.check import write_policies
from policy_sched.errors import Severity
from policy_sched.profiles.check.check import check_all


def test_variations_are_sound_and_differ(tmp_path: Path) -> None:
    """More of them than policies that ship: each comes in several forms, with other texts."""
    count = 30
    rules = write_policies(tmp_path, count)
    texts = [path.read_text() for path in sorted(tmp_path.glob("*.yaml"))]
    assert len(set(texts)) == count
    assert sum(text.count("// form") for text in texts) == rules > 2 * count
    checkup = check_all([str(tmp_path)])
    assert len(checkup.policies) == count
    # Comments of the originals are gone, and what they let pass with them.
    said = {(one.code, one.severity) for one in checkup.diagnostics} - {("PS404", Severity.WARNING)}
    assert {severity for _, severity in said} <= {Severity.NOTE}
