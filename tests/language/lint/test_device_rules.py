"""Lints of rules over devices: what is well formed and cannot be meant."""

from __future__ import annotations

from pathlib import Path

from policy_sched.profiles.check.check import check_files

POLICY = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Odd}
spec:
  devices:
    filter:
    - expression: device.attributes["model"].string == "a100"
    - expression: false && device.allocated
    - expression: device.shares < 4
    score: {expression: 'device.attributes["rank"].int'}
"""


def test_the_section_is_linted_as_others_are(tmp_path: Path) -> None:
    """Rules that fail without a word, constants, and rules that no device reaches."""
    (tmp_path / "odd.yaml").write_text(POLICY)
    found = check_files([str(tmp_path / "odd.yaml")])
    assert [(one.line, one.code, one.message) for one in found] == [
        (7, "PS413", "this rule can fail (no such key 'model'), and onError is not stated"),
        (8, "PS402", "this is always false"),
        (9, "PS403", "no device reaches this rule: the one before rejects all"),
        (10, "PS413", "this rule can fail (no such key 'rank'), and onError is not stated"),
    ]
    assert found[0].hint.startswith("the device is not considered then")
