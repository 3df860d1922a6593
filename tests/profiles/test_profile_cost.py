"""The limit of what all rules of a profile cost together (PS503)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from policy_sched.errors import Severity
from policy_sched.language.diagnostics import MAX_PROFILE_COST
from policy_sched.profiles.check.check import check_all, check_files
from policy_sched.profiles.reload.inputs import PolicyFiles

HEAD = """\
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: NAME, annotations: {NOTE}}
spec:
  filter:
"""
CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: cheap
- schedulerName: dear
  plugins: {multiPoint: {enabled: [{name: One}, {name: Other}]}}
"""
TEXTS = 4
"""Replacements in one rule: few enough for its own limit."""


def rules(count: int, first: int) -> str:
    """Return so many rules, each within its own limit, no two alike."""
    lines = []
    for rule in range(first, first + count):
        calls = "".join(f'.replace("a{n}", "b{rule}")' for n in range(TEXTS))
        lines.append(f"  - {{expression: 'node.name{calls} != pod.namespace', message: m}}\n")
    return "".join(lines)


def found(folder: Path, count: int, note: str = "") -> list[str]:
    """Check a profile of two policies with so many rules each; return the problems about costs."""
    for name, first in (("One", 0), ("Other", count)):
        head = HEAD.replace("NAME", name).replace("NOTE", note)
        (folder / f"{name}.yaml").write_text(head + rules(count, first), encoding="utf-8")
    config = folder / "config.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    return [one.render() for one in check_files([str(folder)]) if one.code == "PS503"]


def test_a_profile_whose_rules_cost_too_much_together(tmp_path: Path) -> None:
    """No rule is over its own limit; the message names the cost and the most costly policy."""
    (said,) = found(tmp_path, 10)
    costs = re.findall(r"about (\d+) ns", said)
    assert int(costs[0]) > MAX_PROFILE_COST
    assert re.sub(r"\d{4} ns|has \d{4}", "N", said) == (
        f"{tmp_path}/config.yaml:5:3: error PS503: profiles[1]: the rules cost about N for each "
        "node; the limit is 5000, and One N of it\n"
        "    5 | - schedulerName: dear\n"
        "      |   ^~~~~~~~~~~~~~~~~~~"
    )


def test_half_of_the_rules_are_accepted(tmp_path: Path) -> None:
    """The near miss."""
    assert found(tmp_path, 4) == []


@pytest.mark.parametrize(("limit", "accepted"), [(501, False), (2000, True)])
def test_a_policy_may_ask_for_more(tmp_path: Path, limit: int, accepted: bool) -> None:
    """What policies are annotated with beyond the usual is added to the profile's limit."""
    note = f"policysched.dev/cost-limit: '{limit}'"
    assert (found(tmp_path, 10, note) == []) is accepted


def test_a_policy_may_not_ask_for_more_than_the_operator_allows(tmp_path: Path) -> None:
    """A policy's own annotation went up to a fixed ceiling, whatever the operator thought of it."""
    found(tmp_path, 1, "policysched.dev/cost-limit: '2000'")
    refused = check_all([str(tmp_path)], max_cost_limit=1_000).diagnostics
    assert [one.code for one in refused if one.severity is Severity.ERROR] == ["PS707", "PS707"]
    assert "2000: more than 1000, which --max-cost-limit allows" in refused[0].message
    assert not check_all([str(tmp_path)], max_cost_limit=2_000).diagnostics
    files = PolicyFiles(str(tmp_path / "config.yaml"), (str(tmp_path),))
    assert not files.compile().failed
    compilation = replace(files, max_cost_limit=1_000).compile()
    assert compilation.failed
    assert {one.code for one in compilation.problems} >= {"PS707"}


@pytest.mark.parametrize("limit", ["2500001", "999999999", "9" * 5_000, "\u0665"])
def test_a_policy_may_not_ask_for_whatever_it_likes(tmp_path: Path, limit: str) -> None:
    """The annotation of a policy lifted the limit to any height, so that it limited nothing."""
    found(tmp_path, 1, f"policysched.dev/cost-limit: '{limit}'")
    said = [one.message for one in check_files([str(tmp_path)]) if one.code == "PS707"]
    assert len(said) == 2
    assert all("must be a number from 1 to 2500000" in message for message in said)
