"""The time at which rules look at a cluster: ``now:`` in tests, ``--now`` on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from policy_sched.cli.main import run
from tests.cli.test_max_cost_limit import CLUSTER

POLICY = """
apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: NightOnly}
spec:
  filter:
  - expression: now.getHours() >= 20 || now.getHours() < 6
    message: node(s) take pods at night only
  requeue: {every: 1m}
"""
TEST = """
apiVersion: policysched.dev/v1alpha1
kind: PolicyTest
name: by time
policies: [policy.yaml]
%s
objects: [{node: a}]
pending: [p]
expect: [{pod: p, chosen: %s}]
"""
NIGHT, NOON = "2026-03-01T22:00:00Z", "2026-03-01T12:00:00+02:00"
CLOSED = "1 node(s) take pods at night only"


@pytest.fixture(name="folder", autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work beside a policy that looks at the time, and a cluster."""
    (tmp_path / "policy.yaml").write_text(POLICY)
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("now", "chosen"),
    [(f"now: {NIGHT}", "a"), (f'now: "{NOON}"', "null"), ("", "a")],
    ids=["night", "noon", "midnight unless it is stated"],
)
def test_a_test_states_its_time(folder: Path, now: str, chosen: str) -> None:
    """A test may state the time that rules see; without it the documented default counts."""
    (folder / "tests.yaml").write_text(TEST % (now, chosen))
    assert run(["test", "tests.yaml"]) == 0
    assert run(["check", "tests.yaml", "policy.yaml"]) == 0


@pytest.mark.parametrize("verb", ["test", "check"])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("yesterday", '"yesterday" is not a time such as "2026-01-01T00:00:00Z"'),
        ("2026-03-01", '"2026-03-01" is not a time such as "2026-01-01T00:00:00Z"'),
        ("9999-01-01T00:00:00Z", "is out of range: times run from 1970 to 2262"),
    ],
)
def test_what_is_no_time_is_reported_at_its_place(
    folder: Path, capsys: pytest.CaptureFixture[str], verb: str, text: str, why: str
) -> None:
    """With line and column, by each verb that reads tests."""
    (folder / "tests.yaml").write_text(TEST % (f"now: {text}", "a"))
    assert run([verb, "tests.yaml"]) == 1
    told = "".join(capsys.readouterr())
    assert "tests.yaml:6:6: error PS70" in told
    assert why in told


@pytest.mark.parametrize(
    "arguments",
    [
        ["simulate", "cluster.yaml", "--policies", "policy.yaml"],
        ["explain", "p", "--cluster", "cluster.yaml", "--policies", "policy.yaml"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_verb_takes_the_time(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """By day the pod fits nowhere; without the option it is midnight.

    A rule about the time of day could be tried at midnight only.
    """
    assert run([*arguments, "--now", NOON]) == 0
    assert CLOSED in capsys.readouterr().out
    assert run([*arguments, "--now", NIGHT]) == 0
    assert CLOSED not in capsys.readouterr().out
    assert run(arguments) == 0
    assert CLOSED not in capsys.readouterr().out


AGE = """apiVersion: policysched.dev/v1alpha1
kind: Policy
metadata: {name: Age}
spec:
  filter:
  - expression: pod.creationTime <= now && now - pod.creationTime < duration("1m")
    message: the pod is old
  - expression: node.creationTime == now
    message: the node is old
"""


@pytest.mark.parametrize("now", [[], ["--now", NOON]])
@pytest.mark.parametrize(
    "arguments",
    [
        ["simulate", "cluster.yaml", "--fail-on", "unschedulable", "--policies", "age.yaml"],
        ["explain", "p", "--cluster", "cluster.yaml", "--policies", "age.yaml"],
        ["eval", "now - pod.creationTime < duration('1m')", "--pod", "cluster.yaml"],
        ["eval", "now - node.creationTime < duration('1m')", "--cluster", "cluster.yaml"],
    ],
    ids=["simulate", "explain", "eval --pod", "eval --node"],
)
def test_an_object_without_a_creation_timestamp_is_created_now(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], now: list[str]
) -> None:
    """A pod of a manifest was created in 1970, so that a rule about its age took it for old."""
    (folder / "age.yaml").write_text(AGE)
    assert run([*arguments, *now]) == 0
    told = capsys.readouterr().out
    assert "old" not in told
    assert "false" not in told


def test_a_pod_of_a_test_is_created_at_the_time_of_the_test(folder: Path) -> None:
    """Pending pods, and nodes, unless ``created`` or creationTimestamp is given."""
    (folder / "policy.yaml").write_text(AGE)
    for created, chosen in (("", "a"), ('created: "2025-12-31T00:00:00Z"', "null")):
        text = (TEST % ("", chosen)).replace("[p]", f"[{{pod: p, {created}}}]")
        (folder / "tests.yaml").write_text(text)
        assert run(["test", "tests.yaml"]) == 0


def test_diff_takes_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    """Both policy sets look at the cluster at that time."""
    common = ["diff", "policy.yaml", "policy.yaml", "--cluster", "cluster.yaml", "-o", "json"]
    common.append("--always-simulate")
    assert run([*common, "--now", NOON]) == 0
    closed = capsys.readouterr().out
    assert run([*common, "--now", NIGHT]) == 0
    assert '"placed": 0' in closed
    assert '"placed": 1' in capsys.readouterr().out


def test_eval_takes_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    """The expression sees it; the clock's time changes from call to call."""
    assert run(["eval", "now", "--now", NOON]) == 0
    assert "2026-03-01T10:00:00Z" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["simulate", "cluster.yaml", "--now", "noon"],
        ["explain", "p", "--cluster", "cluster.yaml", "--now", "1969-12-31T23:59:59Z"],
        ["eval", "now", "--now", "noon"],
        ["diff", "policy.yaml", "policy.yaml", "--cluster", "cluster.yaml", "--now", "12:00"],
        ["diff", "policy.yaml", "policy.yaml", "--now", NIGHT],
        ["simulate", "cluster.yaml", "--timeline", "--now", NIGHT],
    ],
)
def test_what_makes_no_sense_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """A time that is none, and --now where nothing would read it."""
    assert run(arguments) == 2
    assert "--now" in capsys.readouterr().err
