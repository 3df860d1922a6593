"""Policies are compiled in another process, and by this one if that is not there."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from policy_sched.profiles.reload.inputs import Compilation, PolicyFiles
from policy_sched.profiles.reload.limited_process import CompilerProcess, ProcessLimits
from policy_sched.profiles.reload.store import PolicyStore, ReloadResult
from tests.profiles.policy_texts import config, keeping, write
from tests.profiles.reload import hostile_compiler


@pytest.fixture
def store(tmp_path: Path) -> PolicyStore:
    """A store that compiles in this process."""
    write(tmp_path / "policy.yaml", keeping("Mine", 'node.name == "a"'))
    return PolicyStore(PolicyFiles(None, (str(tmp_path),)), lambda: 0)


@pytest.fixture(scope="module")
def child() -> Iterator[CompilerProcess]:
    """One process for the tests that only compile in it."""
    with CompilerProcess(PolicyFiles()) as compiler:
        yield compiler


@pytest.fixture
def compiler(store: PolicyStore) -> Iterator[CompilerProcess]:
    """A process of one test, which compiles what the store reloads."""
    with CompilerProcess(store.files) as compiler:
        store.compiler = compiler.compile
        yield compiler


def test_reloads_are_as_without_it(
    store: PolicyStore, child: CompilerProcess, tmp_path: Path
) -> None:
    """Unchanged, changed and broken files come to what they would in this process."""
    store.compiler = child.compile
    assert store.reload().result is ReloadResult.UNCHANGED
    write(tmp_path / "policy.yaml", keeping("Mine", 'node.name == "b"'))
    loaded = store.reload()
    assert (loaded.result, loaded.changes.policies) == (ReloadResult.LOADED, ("Mine",))
    assert loaded.policies.content_hash == PolicyStore(store.files, lambda: 0).current.content_hash
    write(tmp_path / "policy.yaml", keeping("Mine", "node.nam"))
    refused = store.reload()
    assert refused.result is ReloadResult.REFUSED
    assert [problem.file for problem in refused.problems] == [str(tmp_path / "policy.yaml")]


def test_what_did_not_change_is_not_sent_again(
    store: PolicyStore, compiler: CompilerProcess, tmp_path: Path
) -> None:
    """Each reload of one policy sent all of them: 200 kB, for which the collector ran, too."""
    before = compiler.compile(store.files).plans[0]
    write(tmp_path / "policy.yaml", keeping("Mine", "node.nam"))
    assert compiler.compile(store.files).failed
    write(tmp_path / "policy.yaml", keeping("Mine", 'node.name == "b"'))
    after = compiler.compile(store.files).plans[0]
    same = {name for name in after.policies if after.policies[name] is before.policies[name]}
    assert after.policies.keys() - same == {"Mine"}
    assert [new is old for new, old in zip(after.programs, before.programs, strict=True)] == [
        True,  # that of kube-scheduler's plugins
        False,
    ]
    assert after.content_hash == store.reload().policies.plans[0].content_hash
    compiler._process.kill()
    compiler._process.join()
    assert compiler.compile(store.files).plans[0].content_hash == after.content_hash


def test_a_child_that_died_is_replaced(
    store: PolicyStore, compiler: CompilerProcess, tmp_path: Path
) -> None:
    """A child that is killed between two compilations is replaced."""
    os.kill(compiler.pid, signal.SIGKILL)
    compiler._process.join()
    write(tmp_path / "policy.yaml", keeping("Mine", 'node.name == "c"'))
    assert store.reload().result is ReloadResult.LOADED
    assert compiler.alive
    assert store.reload().result is ReloadResult.UNCHANGED


def test_a_child_that_dies_at_work_has_failed(
    store: PolicyStore, compiler: CompilerProcess
) -> None:
    """A file that ended the compiler ended the scheduler next, which compiled it by itself."""
    before = store.current
    os.kill(compiler.pid, signal.SIGSTOP)
    compiler.begin(store.files)
    os.kill(compiler.pid, signal.SIGKILL)
    refused = store.commit(compiler.result())
    assert refused.result is ReloadResult.REFUSED
    assert [one.code for one in refused.problems] == ["PS503"]
    assert "the compiler ended with SIGKILL" in refused.problems[0].message
    assert store.current is before
    assert store.reload().result is ReloadResult.UNCHANGED


def test_waiting_for_a_result_does_not_delay_the_end(
    store: PolicyStore, compiler: CompilerProcess
) -> None:
    """SIGTERM was ignored for as long as the compiler was busy."""
    os.kill(compiler.pid, signal.SIGSTOP)
    compiler.begin(store.files)
    compiler.interrupt()
    assert store.commit(compiler.result()).result is ReloadResult.REFUSED
    assert store.reload().result is ReloadResult.REFUSED
    assert not compiler.alive


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (hostile_compiler.endless, "more than 1 seconds of processor time"),
        (hostile_compiler.huge, "more than 256 MiB of memory"),
        (hostile_compiler.deep, "something is nested too deep"),
    ],
)
def test_what_goes_beyond_a_limit_is_a_failed_reload(
    store: PolicyStore, work: Callable[[PolicyFiles], Compilation], words: str
) -> None:
    """A file whose compiling never ended, or took all memory, froze every reload after it."""
    before = store.current
    with CompilerProcess(store.files, ProcessLimits(1, 2**28), work) as compiler:
        store.compiler = compiler.compile
        refused = store.reload()
    assert refused.result is ReloadResult.REFUSED
    assert words in refused.problems[0].message
    assert store.current is before


PARENT = """
import os, signal, sys
from policy_sched.profiles.reload.limited_process import CompilerProcess
from policy_sched.profiles.reload.inputs import PolicyFiles
from tests.profiles.reload.hostile_compiler import endless

if __name__ == "__main__":
    compiler = CompilerProcess(PolicyFiles(), work=endless)
    print(compiler.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_child_ends_with_its_parent_however_busy_it_is(tmp_path: Path) -> None:
    """After `kill -9` of the scheduler, a compiler that was busy went on for ever."""
    (tmp_path / "parent.py").write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(tmp_path / "parent.py")]
    ended = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, check=False, timeout=60
    )
    assert ended.returncode == -signal.SIGKILL
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(int(ended.stdout))
        assert select.select([handle], [], [], 60)[0], "the child goes on without its parent"
        os.close(handle)


def test_it_ends_when_it_is_closed(tmp_path: Path) -> None:
    """No child outlives its context."""
    write(tmp_path / "policy.yaml", keeping("Mine", "true"))
    with CompilerProcess(PolicyFiles(None, (str(tmp_path),))) as compiler:
        assert not compiler.compile(PolicyFiles(None, (str(tmp_path),))).failed
    assert not compiler.alive
    assert compiler._process.exitcode is not None


def test_other_files_are_compiled_too(child: CompilerProcess, tmp_path: Path) -> None:
    """The child compiles the files that it is given, not only those of its start."""
    write(tmp_path / "policy.yaml", keeping("Other", "true"))
    found = child.compile(PolicyFiles(None, (str(tmp_path),)))
    assert "Other" in found.plans[0].policies


def test_a_configuration_may_be_data(child: CompilerProcess, tmp_path: Path) -> None:
    """The child compiles a configuration from a file and from data."""
    write(tmp_path / "config.yaml", config({"mine": ["Mine"]}))
    write(tmp_path / "policy.yaml", keeping("Mine", "true"))
    for given in (str(tmp_path / "config.yaml"), {"apiVersion": "x", "kind": "y"}):
        files = PolicyFiles(given, (str(tmp_path / "policy.yaml"),))
        assert child.compile(files).problems == files.compile().problems
        assert child.alive
