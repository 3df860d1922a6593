"""What is wrong with the shape of a PolicyTest; `simulate` reads and runs them."""

from __future__ import annotations

from policy_sched.errors import Diagnostic
from policy_sched.profiles.load.document import DocumentPosition, kind_of, read_model
from policy_sched.profiles.models import POLICY_API_VERSION as API_VERSION
from policy_sched.profiles.models import TEST_FILE, PolicyTest
from policy_sched.source import Marked


def test_problems(marked: Marked) -> list[Diagnostic]:
    """Return every problem of the shape of a PolicyTest; none of another document."""
    if kind_of(marked.value) != (API_VERSION, "PolicyTest"):
        return []
    _, problems, _ = read_model(marked.value, PolicyTest, TEST_FILE)
    return DocumentPosition(marked.file.path, marked).diagnostics(problems)
