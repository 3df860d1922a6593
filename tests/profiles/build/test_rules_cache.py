"""Compiled rules that are kept between processes: used where they are the same, never trusted."""

from __future__ import annotations

import hashlib
import os
import pickle
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from policy_sched.language import CompiledPolicy
from policy_sched.profiles.build import compile as module
from policy_sched.profiles.build.compile import RulesCache
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.source import KeptFile
from policy_sched.source.kept_file import FILES

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
    assert compiled(directory) == (0, digest), "what a hint calls has a name of its own, too"
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


def test_a_relative_directory_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below the working directory there may be files of a repository."""
    KeptFile(str(tmp_path), "kind", "key").write(b"content")
    monkeypatch.chdir(tmp_path.parent)
    file = KeptFile(tmp_path.name, "kind", "key")
    assert file.path.exists()
    assert file.read() is None
    file.write(b"another")
    assert KeptFile(str(tmp_path), "kind", "key").read() == b"content"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory to another user")
def test_nothing_is_created_in_the_home_of_another_user(tmp_path: Path) -> None:
    """The command ran with sudo; the user's own cache would belong to root."""
    home = tmp_path / "home"
    home.mkdir()
    os.chown(home, 12345, 12345)
    KeptFile(str(home / ".cache" / "policy-sched"), "kind", "key").write(b"content")
    assert list(home.iterdir()) == []
    home.chmod(0o1777)
    file = KeptFile(str(home / ".cache" / "policy-sched"), "kind", "key")
    file.write(b"content")
    assert file.read() == b"content"


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


def calling(module: str, name: str, arguments: tuple[object, ...]) -> bytes:
    """Return a pickle that calls a function of a module when it is read."""
    names = b"".join(b"\x8c" + bytes([len(text)]) + text.encode() for text in (module, name))
    given = pickle.dumps(arguments, 2)[2:-1]
    return b"\x80\x04" + names + pickle.STACK_GLOBAL + given + pickle.REDUCE + pickle.STOP


MARK = "policy-sched-was-here"


@pytest.mark.parametrize(
    ("module", "name", "arguments"),
    [
        ("os", "system", (f"touch {MARK}",)),
        ("posix", "system", (f"touch {MARK}",)),
        ("builtins", "open", (MARK, "w")),
        ("builtins", "exec", (f"open('{MARK}', 'w')",)),
        ("pathlib", "Path.touch", (Path(MARK),)),
        ("policy_sched.language.codegen.module", "marshal.loads", (b"N",)),
        ("policy_sched.language.codegen.module", "bind_factory", (b"N", None, None)),
        ("policy_sched.profiles.build.compile", "os.mkdir", (MARK,)),
    ],
)
def test_a_kept_file_calls_no_function(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    module: str,
    name: str,
    arguments: tuple[object, ...],
) -> None:
    """A pickle with the right checksum and owner names parts of compiled rules only."""
    monkeypatch.chdir(tmp_path)
    cache = RulesCache(str(tmp_path / "cache"))
    policy = default_policies()["NodeName"]
    cache.keep("digest", policy)
    cache.save()
    (file,) = (tmp_path / "cache").iterdir()
    content = calling(module, name, arguments)
    file.write_bytes(hashlib.sha256(content).digest() + content)
    assert RulesCache(str(tmp_path / "cache")).find("digest") is None
    assert not Path(MARK).exists()


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


def test_versions_share_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has its own file; those that were not written for long are removed."""
    policy = default_policies()["NodeName"]
    cache = RulesCache(str(tmp_path))
    cache.keep("digest", policy)
    cache.save()
    (first,) = tmp_path.iterdir()
    foreign = tmp_path / "notes.txt"
    foreign.write_text("mine")
    os.utime(first, (0, 0))
    for number in range(2 * FILES):
        monkeypatch.setattr(module, "__version__", f"0.0.{number}")
        other = RulesCache(str(tmp_path))
        assert other.find("digest") is None
        other.keep("digest", policy)
        other.save()
        assert RulesCache(str(tmp_path)).find("digest") is not None
        assert first.exists() is (number < FILES - 1)
    assert len(list(tmp_path.glob("default-rules-*"))) == FILES
    assert foreign.read_text() == "mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_what_root_has_kept_is_read_by_others_and_stays() -> None:
    """An image's files are root's: its scheduler compiled the default rules at each start.

    What a third user owns, or others may write, is not read; nobody adds to what is root's.
    """
    with TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        kept, foreign, shared = (KeptFile(name, "kind", key) for key in ("kept", "foreign", "open"))
        for file, mode in ((kept, 0o644), (foreign, 0o644), (shared, 0o666)):
            file.write(b"content")
            file.path.chmod(mode)
        os.chown(foreign.path, 65533, 65533)
        os.seteuid(65532)
        try:
            assert [file.read() for file in (kept, foreign, shared)] == [b"content", None, None]
            kept.write(b"other")
        finally:
            os.seteuid(0)
        assert kept.read() == b"content"


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    """What could not be written whole is removed, and so is what a killed process left."""
    killed = tmp_path / ".unfinished-x"
    killed.write_text("half")
    os.utime(killed, (0, 0))
    file = KeptFile(str(tmp_path), "kind", "key")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        file.write(b"x" * 5000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert file.read() is None
    assert list(tmp_path.iterdir()) == [killed]
    file.write(b"content")
    assert file.read() == b"content"
    assert list(tmp_path.iterdir()) == [file.path]


def test_processes_that_write_at_once_leave_a_whole_file(tmp_path: Path) -> None:
    """Each reads what one of them has written."""
    code = """
from policy_sched.source import KeptFile
file = KeptFile(DIRECTORY, "kind", "key")
for number in range(300):
    file.write(bytes([number % 256]) * 50_000)
    found = file.read()
    assert found is not None and len(found) == 50_000 and len(set(found)) == 1
""".replace("DIRECTORY", repr(str(tmp_path)))
    running = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [one.wait() for one in running] == [0, 0]
    assert len(list(tmp_path.iterdir())) == 1
