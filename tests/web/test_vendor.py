"""Published packages: unchanged files, with their licences."""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files
from pathlib import Path

from policy_sched.web.pages import FILES

PACKAGE = Path(str(files("policy_sched.web")))
VENDOR = PACKAGE / "vendor"
ROW = re.compile(
    r"^\| \[(.+?)\]\(.+?\) \| (.+?) \| (.+?) \| `(.+?)` \| `([0-9a-f]{64})` \|$", re.MULTILINE
)


def test_files_of_packages_are_those_that_the_readme_lists() -> None:
    """Each file has the digest of the published package, and no file is unlisted."""
    listed = {
        row[4]: row[5] for row in ROW.finditer((VENDOR / "README.md").read_text(encoding="utf-8"))
    }
    there = {
        str(path.relative_to(VENDOR)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in VENDOR.glob("*/*")
    }
    assert there == listed


def test_each_package_has_its_licence() -> None:
    """The folder of a package is NAME-VERSION and holds the text of its licence."""
    rows = ROW.findall((VENDOR / "README.md").read_text(encoding="utf-8"))
    folders = {f"{name}-{version}" for name, version, *_ in rows}
    assert folders == {path.name for path in VENDOR.iterdir() if path.is_dir()}
    assert all((VENDOR / folder / "LICENSE").is_file() for folder in folders)


def test_every_script_and_style_is_an_asset() -> None:
    """No file is shipped that no page can ask for."""
    shipped = {
        str(path.relative_to(PACKAGE))
        for folder in ("assets", "vendor")
        for path in (PACKAGE / folder).rglob("*.*s")
    }
    assert shipped == set(FILES.values())
