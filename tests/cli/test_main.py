"""The command line as a whole: verbs, exit codes, and what goes to which stream."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from policy_sched.cli.app import VERBS
from policy_sched.cli.main import run


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    """`policy-sched --help` lists what there is, and `VERB --help` explains it."""
    assert run(["--help"]) == 0
    listed = capsys.readouterr().out
    for verb in VERBS:
        assert verb in listed
        assert run([verb, "--help"]) == 0
        assert "Usage: policy-sched " + verb in capsys.readouterr().out


def test_the_package_runs_as_a_module() -> None:
    """`python -m policy_sched` is the same command."""
    finished = subprocess.run(
        [sys.executable, "-m", "policy_sched", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert finished.stdout.strip() == "0.1.0"


def test_the_end_of_a_command_does_not_look_for_cycles() -> None:
    """What is alive at the end is not searched again, and files are closed all the same."""
    script = (
        "import gc, sys\n"
        "from policy_sched.cli.main import main\n"
        "sys.argv[1:] = ['check', 'policies/spot-nodes/policy.yaml']\n"
        "try:\n    main()\nexcept SystemExit as end:\n"
        "    assert not end.code\n    print(gc.get_freeze_count() > len(gc.get_objects()))\n"
    )
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=True
    )
    assert finished.stdout == "no problems found\nTrue\n"
    assert not finished.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["simulat"],
        ["simulate"],
        ["simulate", "x.yaml", "--outptu", "json"],
        ["simulate", "x.yaml", "-o", "xml"],
        ["simulate", "x.yaml", "--seed", "many"],
        ["simulate", "does-not-exist.yaml"],
        ["simulate", "-", "--config", "does-not-exist.yaml"],
        ["simulate", "-", "--policies", "does-not-exist"],
        ["test"],
        ["test", "does-not-exist.jsonl"],
        ["test", "policies/gang/tests.yaml", "--root", "does-not-exist"],
        ["check"],
        ["check", "does-not-exist"],
        ["prove", "gang", "--timeout", "inf"],
        ["prove", "gang", "--timeout", "1e400"],
        ["bench"],
        ["bench", "NoSuchWorkload"],
        ["bench", "SchedulingBasic", "--nodes", "0"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_exit_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Wrong usage and files that are not there: one sentence on standard error, and 2."""
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("policy-sched: ")
    assert "Traceback" not in captured.err


def test_options_may_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A flag has the last word; an unknown value is reported with the variable's name."""
    file = tmp_path / "policy.yaml"
    file.write_text("apiVersion: policysched.dev/v1alpha1\nkind: Policy\n", encoding="utf-8")
    monkeypatch.setenv("POLICY_SCHED_CHECK_OUTPUT", "tap")
    assert run(["check", str(file)]) == 1
    assert capsys.readouterr().out.startswith("TAP version 14\n")
    assert run(["check", str(file), "-o", "text"]) == 1
    assert capsys.readouterr().out.startswith(f"{file}:1:1: error PS704: ")
    monkeypatch.setenv("POLICY_SCHED_CHECK_OUTPUT", "toml")
    assert run(["check", str(file)]) == 2
    assert 'invalid value "toml" for POLICY_SCHED_CHECK_OUTPUT' in capsys.readouterr().err


def test_mistakes_in_files_are_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file with mistakes is shown with position and caret on standard error."""
    file = tmp_path / "nodes.yaml"
    file.write_text("apiVersion: v1\nkind: Nod\nmetadata: {name: n}\n", encoding="utf-8")
    assert run(["simulate", str(file)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"{file}:2:" in captured.err
    assert "^" in captured.err


def test_a_closed_pipe_is_no_error_to_tell() -> None:
    """`policy-sched docs | head -1`: silence, and the shell's number for it."""
    ours, theirs = os.pipe()
    os.close(ours)
    command = [sys.executable, "-m", "policy_sched", "docs", "percent"]
    finished = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, check=False)
    os.close(theirs)
    assert (finished.returncode, finished.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("streams", "code"), [("<&-", 0), (">&-", 0), ("2>&-", 0), ("<&- >&- 2>&-", 0)]
)
def test_closed_streams_are_as_good_as_empty_ones(streams: str, code: int) -> None:
    """Output to a closed stream is dropped, and a closed standard input reads as empty."""
    line = f"exec {sys.executable} -m policy_sched simulate - {streams}"
    finished = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert (finished.returncode, "Traceback" in finished.stderr) == (code, False)


OURS = """
import policy_sched.cli.app as cli
from policy_sched.cli.main import main
def app(arguments):
    raise {}
cli.app = app
main()
"""


@pytest.mark.parametrize(
    ("verb", "asked", "code"),
    [("run", "SIGHUP", 0), ("run", "SIGUSR2", 0), ("check", "SIGHUP", -signal.SIGHUP)],
)
def test_a_scheduler_that_starts_is_not_ended_by_later_signals(
    verb: str, asked: str, code: int
) -> None:
    """SIGHUP and SIGUSR2 may come at any time; other verbs end as every program does.

    The suite may have been started by nohup, which leaves SIGHUP ignored: it is set to its default.
    """
    script = (
        "import os, signal, sys; import policy_sched.cli.app as cli; "
        "from policy_sched.cli.main import main; "
        f"signal.signal(signal.{asked}, signal.SIG_DFL); "
        f"cli.app = lambda _: os.kill(os.getpid(), signal.{asked}); "
        f"sys.argv[1:] = ['{verb}']; main()"
    )
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (finished.returncode, finished.stderr) == (code, b"")


@pytest.mark.parametrize(
    ("raised", "code", "last_line"),
    [
        ("KeyboardInterrupt", 130, ""),
        ("ValueError('oh')", 2, "policy-sched: this is a mistake of policy-sched itself; "),
        ("OSError(28, 'No space left on device')", 2, "policy-sched: No space left on device"),
        ("PermissionError(13, 'Permission denied', 'a.yaml')", 2, "policy-sched: a.yaml: Perm"),
    ],
)
def test_what_ends_a_command(raised: str, code: int, last_line: str) -> None:
    """Ctrl-C is silent; our own mistakes are not taken for mistakes in files."""
    script = [sys.executable, "-c", OURS.format(raised)]
    finished = subprocess.run(script, capture_output=True, text=True, check=False)
    assert finished.returncode == code
    assert (finished.stderr.splitlines() or [""])[-1].startswith(last_line)
    assert bool(finished.stderr) == bool(last_line)
