"""What is wrong with the shape of a PolicyTest, for editors; `simulate` reads and runs them."""

from __future__ import annotations

from policy_sched.errors import Diagnostic
from policy_sched.profiles.document import Place, kind_of, parse, read_model
from policy_sched.profiles.models_policy import API_VERSION
from policy_sched.profiles.models_test import PolicyTest
from policy_sched.profiles.schema_files import TEST_FILE
from policy_sched.source import SourceFile


def test_problems(path: str, text: str) -> list[Diagnostic]:
    """Return every problem of the shape of the PolicyTests in a text; none of other documents."""
    found: list[Diagnostic] = []
    for marked in parse(SourceFile(path, text))[0]:
        if kind_of(marked.value) == (API_VERSION, "PolicyTest"):
            _, problems, _ = read_model(marked.value, PolicyTest, TEST_FILE)
            found += Place(path, marked).diagnostics(problems)
    return found
