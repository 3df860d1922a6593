"""Compiled rules that are kept between processes: used where they are the same, never trusted."""

from __future__ import annotations

import hashlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from policy_sched.language import CompiledPolicy
from policy_sched.profiles.build import rules_cache as module
from policy_sched.profiles.build.rules_cache import RulesCache
from policy_sched.profiles.reload.inputs import PolicyFiles

CODE = """
from policy_sched.profiles.build import compile as building
from policy_sched.profiles.reload.inputs import PolicyFiles
made = []
compile = building._compile
building._compile = lambda source: (made.append(source.name), compile(source))[1]
plans = PolicyFiles(None, POLICIES).compile().plans
print(len(made), plans[0].content_hash)
"""


def compiled(directory: str, policies: tuple[str, ...] = ()) -> tuple[int, str]:
    """Compile the default profile in a new process; return how many policies, and their hash."""
    found = subprocess.run(
        [sys.executable, "-c", CODE.replace("POLICIES", repr(policies))],
        env={**os.environ, "POLICY_SCHED_CACHE": directory},
        capture_output=True,
        text=True,
        check=True,
    )
    count, digest = found.stdout.split()
    return int(count), digest


def default_policies() -> dict[str, CompiledPolicy]:
    """Return the policies of the default profile."""
    return PolicyFiles(None, ()).compile().plans[0].policies


def test_the_next_process_compiles_nothing(tmp_path: Path) -> None:
    """The default profile's rules are kept; policies of one's own are compiled each time."""
    directory = str(tmp_path / "cache")
    first, digest = compiled(directory)
    assert first == 11
    assert compiled(directory) == (0, digest)
    (file,) = (tmp_path / "cache").glob("default-rules-*")
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    own = str(Path(__file__).parents[3] / "policies" / "gang")
    assert compiled(directory, (own,))[0] == 1
    file.unlink()
    assert compiled(directory) == (11, digest)
    assert compiled("") == (11, digest)


def test_a_place_that_cannot_be_written_is_no_problem() -> None:
    """The rules are compiled as without it."""
    assert compiled("/dev/null/cache")[0] == 11


def test_what_is_kept_is_what_is_compiled(tmp_path: Path) -> None:
    """The same programs come back."""
    policies = default_policies()
    cache = RulesCache(str(tmp_path))
    for name, policy in policies.items():
        cache.keep(name, policy)
    cache.save()
    other = RulesCache(str(tmp_path))
    for name, policy in policies.items():
        assert pickle.dumps(other.find(name)) == pickle.dumps(pickle.loads(pickle.dumps(policy)))
    assert other.find("another") is None


def _damaged(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:1000])


def _emptied(file: Path) -> None:
    file.write_bytes(b"")


def _writable(file: Path) -> None:
    file.chmod(0o622)


def _linked(file: Path) -> None:
    aside = file.with_name("aside")
    file.rename(aside)
    file.symlink_to(aside)


def _open_folder(file: Path) -> None:
    file.parent.chmod(0o777)


def _something_else(file: Path) -> None:
    content = pickle.dumps(["no policies"])
    file.write_bytes(hashlib.sha256(content).digest() + content)


def _no_pickle(file: Path) -> None:
    content = b"no pickle"
    file.write_bytes(hashlib.sha256(content).digest() + content)


@pytest.mark.parametrize(
    "harm",
    [
        _damaged,
        _cut,
        _emptied,
        _writable,
        _linked,
        _open_folder,
        _something_else,
        _no_pickle,
    ],
)
def test_a_file_that_is_not_to_be_trusted_is_not_used(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    """Damage, other contents, links, and what somebody else may write."""
    cache = RulesCache(str(tmp_path))
    policy = default_policies()["NodeName"]
    cache.keep("digest", policy)
    cache.save()
    assert RulesCache(str(tmp_path)).find("digest") is not None
    (file,) = tmp_path.iterdir()
    harm(file)
    assert RulesCache(str(tmp_path)).find("digest") is None


def test_another_compiler_has_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds nothing, and removes what is of no use any more."""
    policy = default_policies()["NodeName"]
    cache = RulesCache(str(tmp_path))
    cache.keep("digest", policy)
    cache.save()
    (old,) = tmp_path.iterdir()
    monkeypatch.setattr(module, "__version__", "0.0.0")
    newer = RulesCache(str(tmp_path))
    assert newer.find("digest") is None
    newer.keep("digest", policy)
    newer.save()
    (new,) = tmp_path.iterdir()
    assert new.name != old.name
