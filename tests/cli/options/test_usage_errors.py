"""Wrong usage: one sentence with the mistake, a suggestion, and where to read on."""

from __future__ import annotations

import pytest

from policy_sched.cli.app import VERBS
from policy_sched.cli.main import run


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("chek x", 'unknown command "chek"; did you mean "check"?'),
        ("frobnicate", f'unknown command "frobnicate"; there are {", ".join(sorted(VERBS))}'),
        ("--helpp", "unknown option: --helpp"),
        ("lint policies", 'unknown command "lint"; did you mean "check"?'),
        ("check", "PATH is missing"),
        (
            "explain p --cluster a --policies b c",
            "unexpected argument: c; for another value write --policies again",
        ),
        ("check --stricct policies", "unknown option: --stricct; did you mean --strict?"),
        ("check --frob=3 policies", "unknown option: --frob=3"),
        ("simulate --seeed 3 x", "unknown option: --seeed; did you mean --seed?"),
        ("explain --clusterr x p", "unknown option: --clusterr; did you mean --cluster?"),
        ("explain p --cluster", "--cluster needs a value"),
        ("test -", "standard input (-) is not read here: name a file"),
        ("diff a -", "standard input (-) is not read here: name a file"),
        ("schema policy extra", "unexpected argument: extra"),
        ("diff a b extra more", "unexpected arguments: extra more"),
        ("check --nodes 0 x", 'invalid value "0" for --nodes. Must be >= 1'),
        ("test x --threshold 101", 'invalid value "101.0" for --threshold. Must be <= 100'),
    ],
)
def test_a_wrong_command_line_is_refused_in_kubectls_words(
    line: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As users of kubectl expect them; never Python's own."""
    assert run(line.split()) == 2
    told = capsys.readouterr()
    verb = line.split(maxsplit=1)[0]
    command = f"policy-sched {verb}" if verb in VERBS else "policy-sched"
    assert told.err == f"policy-sched: {words}\nSee '{command} --help' for usage.\n"
    assert told.out == ""


def test_an_output_that_there_is_not_names_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The choices stand in the message."""
    assert run(["check", "x", "-o", "yaml"]) == 2
    told = capsys.readouterr().err
    assert 'invalid value "yaml" for -o. Choose from: "text", "json"' in told


def test_help_and_version_are_commands_too(capsys: pytest.CaptureFixture[str]) -> None:
    """`policy-sched help VERB` and `policy-sched version`, as in kubectl."""
    assert run(["help", "check"]) == 0
    assert "Usage: policy-sched check" in capsys.readouterr().out
    assert run(["help"]) == 0
    assert "Commands" in capsys.readouterr().out
    assert run(["version"]) == 0
    assert capsys.readouterr().out == "0.1.0\n"
