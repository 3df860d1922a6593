"""The verb ``completion``."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from policy_sched.cli.app import VERBS
from policy_sched.cli.main import run


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


def test_bash_completes_names_of_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In an interactive bash, `policy-sched check pol` and TAB give the file policy.yaml."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    (tmp_path / "policy.yaml").touch()
    assert run(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    (tmp_path / "rc").write_text(f"bind 'set enable-bracketed-paste off'\n{script}\nPS1='$ '\n")
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(tmp_path)
        os.execv(bash, [bash, "--noprofile", "--rcfile", "rc", "-i"])
    os.write(terminal, b"echo policy-sched; policy-sched check pol\t \x01echo \nexit\n")
    output = b""
    with suppress(OSError):  # the terminal closes when bash exits
        while part := os.read(terminal, 4096):
            output += part
    os.close(terminal)
    os.waitpid(pid, 0)
    assert b"policy-sched check policy.yaml" in output


def test_zsh_completes_names_of_files(capsys: pytest.CaptureFixture[str]) -> None:
    """Arguments and options that take any value offer files; options with choices offer those."""
    assert run(["completion", "zsh"]) == 0
    lines = [line.strip().removesuffix(" \\") for line in capsys.readouterr().out.splitlines()]
    assert "'1: :->cmds'" in lines
    options = [line for line in lines if re.match(r"'(\*--|\*:[^:]|1:T)", line)]
    assert options
    assert [line for line in options if not line.endswith(":_files'")] == []
    assert any(line.startswith('"*--output[') and line.endswith('jsonl yaml)"') for line in lines)
