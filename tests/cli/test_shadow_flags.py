"""The options --shadow, --shadow-log and --decision-log of run: what does not go together."""

from __future__ import annotations

import pytest

from policy_sched.cli.main import run
from policy_sched.cli.options.kubeconfig import ShadowFlags, shadow_options


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--shadow"], "--shadow needs a cluster with another scheduler: name a --kubeconfig"),
        (["--shadow", "a", "b", "--kubeconfig", "k"], "--shadow takes one scheduler's name, not 2"),
        (["--shadow-log", "x"], "--shadow-log is for --shadow"),
        (["--decision-log-mask", "uid"], "--decision-log-mask is for --decision-log"),
        (["--decision-log", "x", "--decision-log-mask", "labels."], "labels.: unknown; one of"),
        (["--decision-log", "/dev/null/x"], "/dev/null/x: Not a directory"),
        (["--audit-share", "1.5"], "--audit-share 1.5: must be between 0 and 1"),
        (["--shadow", "--kubeconfig", "k", "--rollout", "x"], "not for --shadow"),
        (["--rollout-state", __file__], "is no state of a rollout; name a file of its own"),
        (["--rollout-state", "/no/state"], "in a folder that is there"),
        (["--rollout-state", "/proc"], "/proc: is no state of a rollout"),
        (["--shadow", "--kubeconfig", "k", "--decision-log", "x"], "use --shadow-log"),
    ],
)
def test_what_does_not_go_together_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    """Exit code 2, before anything runs."""
    assert run(["run", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_the_default_scheduler_unless_one_is_named() -> None:
    """And no shadow at all without the flag."""
    assert shadow_options("k", ShadowFlags()) is None
    plain = shadow_options("k", ShadowFlags(()))
    assert plain is not None
    assert (plain.of, plain.log) == ("default-scheduler", "")
    named = shadow_options("k", ShadowFlags(("other",), "file"))
    assert named is not None
    assert (named.of, named.log) == ("other", "file")
