"""The verb ``completion``."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from policy_sched.cli.main import VERBS, run


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_completes_every_verb(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The script names the program and every verb."""
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "policy-sched" in script
    assert [verb for verb in VERBS if verb not in script] == []


def test_bash_offers_verbs_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    """In bash, TAB after `policy-sched chec` gives check, after `check --str` gives --strict."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    assert run(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    for words, expected in ((["chec"], "check"), (["check", "--str"], "--strict")):
        typed = " ".join(["policy-sched", *words])
        ask = (
            f"COMP_WORDS=({typed}); COMP_CWORD={len(words)}; COMP_LINE='{typed}'; "
            f"COMP_POINT=${{#COMP_LINE}}; _policy_sched; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        )
        done = subprocess.run(
            [bash, "-c", f"{script}\n{ask}"], capture_output=True, text=True, check=True
        )
        assert expected in done.stdout.split()


def test_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The shells that there are are named."""
    assert run(["completion", "tcsh"]) == 2
    assert "bash" in capsys.readouterr().err
