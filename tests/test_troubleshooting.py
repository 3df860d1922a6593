"""The table of symptoms in docs/operating.md: its commands exist, and so does what it names."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess

import pytest

from policy_sched.cli.app import VERBS, app
from policy_sched.cli.kubectl import ON_A_CLUSTER, command, parsed
from policy_sched.language.diagnostics import codes
from tests.shown import ROOT, page

TEXT = page("docs/operating.md").partition("## Troubleshooting\n")[2].partition("\n## ")[0]
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in TEXT.splitlines()
    if line.startswith("| ") and not line.startswith("| symptom")
]
COMMANDS = [row[1].strip("`") for row in ROWS]


def test_each_row_has_a_symptom_a_command_a_cause_and_a_remedy() -> None:
    """Nobody who looks something up at night is left without a next step."""
    assert len(ROWS) > 15
    for row in ROWS:
        assert len(row) == 4
        assert row[1].startswith("`")
        assert row[3].strip()


@pytest.mark.parametrize("line", [line for line in COMMANDS if "policy-sched " in line])
def test_our_commands_exist(line: str) -> None:
    """Verb and options are understood, also below kubectl, whose cluster is read."""
    words = shlex.split(line)
    if words[0] == "kubectl" and words[1] == "policy-sched":
        assert words[2] in ON_A_CLUSTER
        words = ["policy-sched", *command(parsed(words[2:]), {"HOME": "/home/a"}, "default")]
    if words[0] == "policy-sched":
        assert words[1] in VERBS
        app.parse_args(words[1:], exit_on_error=False, print_error=False)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize(
    "line", sorted({line for line in COMMANDS if re.match(r"kubectl (?!policy-sched)", line)})
)
def test_kubectl_has_the_flags(line: str) -> None:
    """kubectl knows the verb and each flag: its help, which needs no cluster, lists them."""
    words = shlex.split(line)[1:]
    own = words[: words.index("--")] if "--" in words else words
    verb = own[: 2 if own[0] in ("auth", "rollout") else 1]
    options = ["--namespace", "-n,", "--as="]
    described = subprocess.run(["kubectl", *verb, "--help"], check=True, capture_output=True)
    text = described.stdout.decode() + " ".join(options)
    for word in own:
        if word.startswith("-"):
            flag = word.partition("=")[0]
            assert re.search(rf"(?<![\w-]){flag}(?![\w-])", text), flag


def test_names_in_the_table_exist() -> None:
    """Codes, reasons of events and links are those of the program and of the page."""
    for code in re.findall(r"PS\d{3}", TEXT):
        assert code in codes()
    source = "".join(
        file.read_text("utf-8")
        for folder in ("instance", "scheduler", "embedded/admission")
        for file in (ROOT / "policy_sched" / folder).rglob("*.py")
    )
    reasons = re.findall(r"reason=(\w+)|an event `(\w+)`|with `(\w+)`", TEXT)
    for reason in filter(None, (name for names in reasons for name in names)):
        assert f'"{reason}"' in source, reason
