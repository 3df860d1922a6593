"""The parser's tables are kept between processes: used where they are the same, never trusted."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

CODE = """
import lark
from policy_sched.language.syntax import parse
built = []
init = lark.Lark.__init__
lark.Lark.__init__ = lambda *a, **k: (built.append(1), init(*a, **k))[1]
texts = "pod.name + 'a' == x ? [1, 2] : {1: has(a.b)}", "1 +", "a.?b.orValue(3) && !c", "1 = 2"
print([parse(text) for text in texts])
print(len(built))
"""


def parsed(directory: Path | None) -> tuple[str, int]:
    """Parse in a new process; return the results, and how often the tables were built."""
    found = subprocess.run(
        [sys.executable, "-c", CODE],
        env={**os.environ, "POLICY_SCHED_CACHE": str(directory or "")},
        capture_output=True,
        text=True,
        check=True,
    )
    trees, built = found.stdout.splitlines()
    return trees, int(built)


def _damaged(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))


def _no_tables(file: Path) -> None:
    content = b"no tables"
    file.write_bytes(hashlib.sha256(content).digest() + content)


def _open_folder(file: Path) -> None:
    file.parent.chmod(0o777)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a directory with tables that one process kept, and what it parsed."""
    folder = tmp_path_factory.mktemp("kept") / "cache"
    trees, built = parsed(folder)
    assert built == 1
    return folder, trees


def test_a_second_process_builds_no_tables(kept: tuple[Path, str]) -> None:
    """It parses as a process does that keeps nothing; nobody else may write the file."""
    folder, trees = kept
    assert parsed(None) == (trees, 1)
    assert parsed(folder) == (trees, 0)
    (file,) = folder.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("harm", [_damaged, _no_tables, _open_folder])
def test_damaged_or_exposed_tables_are_built_again(
    tmp_path: Path, kept: tuple[Path, str], harm: Callable[[Path], None]
) -> None:
    """What somebody else may have written is never trusted."""
    folder, trees = kept
    copy = Path(shutil.copytree(folder, tmp_path / "cache"))
    (file,) = copy.iterdir()
    harm(file)
    assert parsed(copy) == (trees, 1)
