"""Policies are compiled in another process, and by this one if that is not there."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from policy_sched.profiles.reload import compiler_process
from policy_sched.profiles.reload.compiler_process import CompilerProcess
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.profiles.reload.store import PolicyStore, Result
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


def test_a_child_that_died_is_replaced(store: PolicyStore, tmp_path: Path) -> None:
    """Nothing is lost when the child is killed between two questions: another one answers."""
    compiler = store.compiler.__self__  # type: ignore[attr-defined]
    assert isinstance(compiler, CompilerProcess)
    os.kill(compiler._child.process.pid, signal.SIGKILL)
    compiler._child.process.wait()
    write(tmp_path / "policy.yaml", keeping("Mine", 'node.name == "c"'))
    assert store.reload().result is Result.LOADED
    assert compiler.alive
    assert store.reload().result is Result.UNCHANGED


def test_a_child_that_dies_at_work_has_failed(store: PolicyStore) -> None:
    """A file that ended the compiler ended the scheduler next, which compiled it by itself."""
    compiler = store.compiler.__self__  # type: ignore[attr-defined]
    assert isinstance(compiler, CompilerProcess)
    before = store.current
    os.kill(compiler._child.process.pid, signal.SIGSTOP)
    compiler.ask()
    os.kill(compiler._child.process.pid, signal.SIGKILL)
    refused = store.commit(compiler.answer())
    assert refused.result is Result.REFUSED
    assert [one.code for one in refused.problems] == ["PS503"]
    assert "the compiler ended with SIGKILL" in refused.problems[0].message
    assert store.current is before
    assert store.reload().result is Result.UNCHANGED


def test_who_waits_for_an_answer_is_not_held_up_at_the_end(store: PolicyStore) -> None:
    """SIGTERM was ignored for as long as the compiler was busy."""
    compiler = store.compiler.__self__  # type: ignore[attr-defined]
    assert isinstance(compiler, CompilerProcess)
    os.kill(compiler._child.process.pid, signal.SIGSTOP)
    compiler.ask()
    compiler.interrupt()
    assert store.commit(compiler.answer()).result is Result.REFUSED
    assert store.reload().result is Result.REFUSED
    assert not compiler.alive


@pytest.mark.parametrize(
    ("limit", "work", "words"),
    [
        ("PROCESSOR_TIME = 1", "while True: pass", "more than 30 seconds of processor time"),
        ("MEMORY = 2**26", "bytearray(2**31)", "MiB of memory"),
        ("MEMORY = 2**26", "deep(deep)", "something is nested too deep"),
    ],
)
def test_what_goes_beyond_a_limit_is_a_failed_reload(
    store: PolicyStore, monkeypatch: pytest.MonkeyPatch, limit: str, work: str, words: str
) -> None:
    """A file whose compiling never ended, or took all memory, froze every reload after it."""
    program = (
        "import sys, msgspec\n"
        "from multiprocessing.connection import Connection\n"
        "from policy_sched.profiles.reload import compiler_process as c\n"
        f"c.{limit}\n"
        "def deep(f): return f(f)\n"
        "def hostile(files):\n"
        f"    {work}\n"
        "c.compile_consistently = lambda files: None\n"
        "c._bound_memory()\n"
        "def first(files): c.compile_consistently = hostile\n"
        "c.compile_consistently = first\n"
        "c.serve(Connection(int(sys.argv[1])), None)\n"
    )
    compiler = store.compiler.__self__  # type: ignore[attr-defined]
    monkeypatch.setattr(compiler_process, "PROGRAM", ("-c", program))
    compiler._child.kill()
    compiler._child.process.wait()
    refused = store.reload()
    assert refused.result is Result.REFUSED
    assert words in refused.problems[0].message


def test_the_child_ends_with_its_parent_however_busy_it_is(tmp_path: Path) -> None:
    """After `kill -9` of the scheduler, a compiler that was busy went on for ever."""
    write(tmp_path / "policy.yaml", keeping("Mine", "true"))
    files = PolicyFiles(None, (str(tmp_path),))
    with CompilerProcess(files) as compiler:
        assert not compiler.compile(files).failed
        process = compiler._child.process
        assert process.stdin is not None
        process.stdin.close()  # as the system does when this process ends
        assert process.wait(30) == 0


def test_it_ends_when_it_is_closed(tmp_path: Path) -> None:
    """No child outlives its context."""
    write(tmp_path / "policy.yaml", keeping("Mine", "true"))
    with CompilerProcess(PolicyFiles(None, (str(tmp_path),))) as compiler:
        assert not compiler.compile(PolicyFiles(None, (str(tmp_path),))).failed
    assert not compiler.alive
    assert compiler._child.process.returncode is not None


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
