"""The parser's tables are kept between processes: used where they are the same, never trusted."""

from __future__ import annotations

import hashlib
import os
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
def built_anew() -> str:
    """Return the results without kept tables."""
    return parsed(None)[0]


@pytest.mark.parametrize("harm", [_damaged, _no_tables, _open_folder])
def test_kept_tables_parse_as_built_ones_do(
    tmp_path: Path, built_anew: str, harm: Callable[[Path], None]
) -> None:
    """The second process builds nothing; damaged or exposed tables are built again."""
    assert parsed(tmp_path / "cache") == (built_anew, 1)
    assert parsed(tmp_path / "cache") == (built_anew, 0)
    (file,) = (tmp_path / "cache").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    harm(file)
    assert parsed(tmp_path / "cache") == (built_anew, 1)
