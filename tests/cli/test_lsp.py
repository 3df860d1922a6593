"""The verb `lsp`: the message where its packages are not installed."""

from __future__ import annotations

import sys

import pytest

from policy_sched.cli.main import run


@pytest.mark.parametrize("package", ["pygls", "lsprotocol"])
def test_missing_packages_are_reported(
    package: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence with the command that installs it, on standard error; exit code 2."""
    for name in list(sys.modules):
        if name == "policy_sched.lsp.server" or name.partition(".")[0] == package:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    assert run(["lsp"]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "policy-sched: lsp needs pygls: pip install 'pygls>=2.0'\n"


def test_another_module_that_is_missing_is_our_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not reported as a package to install."""
    monkeypatch.delitem(sys.modules, "policy_sched.lsp.server", raising=False)
    monkeypatch.setitem(sys.modules, "policy_sched.lsp.suggestions", None)
    with pytest.raises(ModuleNotFoundError):
        run(["lsp"])
