"""Lines of files as they are shown: without the secrets that a configuration may hold."""

from __future__ import annotations

import pytest

from policy_sched.source.file import SourceFile, diagnostic, masked


@pytest.mark.parametrize(
    "line",
    [
        "  keyData: SECRET",
        "  keyData: !x SECRET",
        '{"tlsConfig": {"keyData": "SECRET", "certData": "x"}}',
        "  urlPrefix: https://me:SECRET@host/",
        '  "password": SECRET SECRET',
    ],
)
def test_a_secret_is_not_shown(line: str) -> None:
    """The line of an extender with a wrong URL, or key, was shown with its password, or key."""
    assert "SECRET" not in masked(line)
    assert len(masked(line)) == len(line)
    shown = diagnostic(SourceFile("config.yaml", line), 0, "PS1", "wrong")
    assert "SECRET" not in shown.render()


@pytest.mark.parametrize(
    "line", ['expression: p.labels["password-policy"] == "x"', "a: http://h/x"]
)
def test_other_lines_are_shown_as_they_are(line: str) -> None:
    """Whatever they speak of."""
    assert masked(line) == line
