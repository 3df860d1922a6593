"""Policies are compiled in another process, and by this one if that is not there."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from policy_sched.profiles.compiler_process import CompilerProcess
from policy_sched.profiles.policy_files import PolicyFiles
from policy_sched.profiles.store import PolicyStore, Result
from tests.profiles.policy_texts import config, keeping, write


@pytest.fixture
def store(tmp_path: Path) -> Iterator[PolicyStore]:
    """A store whose reloads are compiled in another process."""
    write(tmp_path / "policy.yaml", keeping("Mine", 'node.name == "a"'))
    store = PolicyStore(PolicyFiles(None, (str(tmp_path),)), lambda: 0)
    with CompilerProcess(store.files) as compiler:
        store.compiler = compiler.compile
        yield store


def test_reloads_are_as_without_it(store: PolicyStore, tmp_path: Path) -> None:
    """Unchanged, changed and broken files come to what they would in this process."""
    assert store.reload().result is Result.UNCHANGED
    write(tmp_path / "policy.yaml", keeping("Mine", 'node.name == "b"'))
    loaded = store.reload()
    assert (loaded.result, loaded.changes.policies) == (Result.LOADED, ("Mine",))
    assert loaded.policies.content_hash == PolicyStore(store.files, lambda: 0).current.content_hash
    write(tmp_path / "policy.yaml", keeping("Mine", "node.nam"))
    refused = store.reload()
    assert refused.result is Result.REFUSED
    assert [problem.file for problem in refused.problems] == [str(tmp_path / "policy.yaml")]


def test_a_child_that_died_is_replaced_by_this_process(store: PolicyStore, tmp_path: Path) -> None:
    """Nothing is lost when the child is killed, between two questions or before the first."""
    compiler = store.compiler.__self__  # type: ignore[attr-defined]
    assert isinstance(compiler, CompilerProcess)
    os.kill(compiler._child.pid, signal.SIGKILL)
    compiler._child.wait()
    write(tmp_path / "policy.yaml", keeping("Mine", 'node.name == "c"'))
    assert store.reload().result is Result.LOADED
    assert not compiler.alive
    assert store.reload().result is Result.UNCHANGED


def test_it_ends_when_it_is_closed(tmp_path: Path) -> None:
    """No child outlives its context."""
    write(tmp_path / "policy.yaml", keeping("Mine", "true"))
    with CompilerProcess(PolicyFiles(None, (str(tmp_path),))) as compiler:
        assert not compiler.compile(PolicyFiles(None, (str(tmp_path),))).failed
    assert not compiler.alive
    assert compiler._child.returncode is not None


def test_other_files_are_compiled_here(store: PolicyStore, tmp_path: Path) -> None:
    """The child knows its own files; a question about others is answered all the same."""
    other = tmp_path / "other"
    other.mkdir()
    write(other / "policy.yaml", keeping("Other", "true"))
    found = store.compiler(PolicyFiles(None, (str(other),)))
    assert "Other" in found.plans[0].policies


def test_a_configuration_that_is_data_is_understood(tmp_path: Path) -> None:
    """The child is told files and data alike."""
    write(tmp_path / "config.yaml", config({"mine": ["Mine"]}))
    write(tmp_path / "policy.yaml", keeping("Mine", "true"))
    for given in (str(tmp_path / "config.yaml"), {"apiVersion": "x", "kind": "y"}):
        files = PolicyFiles(given, (str(tmp_path / "policy.yaml"),))
        with CompilerProcess(files) as compiler:
            assert compiler.compile(files).problems == files.compile().problems
            assert compiler.alive
