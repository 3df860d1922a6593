"""Makes a release: ``python -m tests.deploy.release TAG DIRECTORY --installed PYTHON``.

The tag is that of the program, of the README and of the newest section of the changelog, whose date
is the time of what is built; otherwise nothing is. PYTHON is an interpreter in whose environment is
what the image has: its metadata are the bill of materials. Nothing is loaded from anywhere.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final

from tests.deploy.requirements import FILE, ROOT

NAME: Final = "policy-sched"
SECTION: Final = re.compile(r"^## (.+?)(?: - (\S+))?\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Texts:
    """The files that say which version it is."""

    project: str
    package: str
    readme: str
    changelog: str

    @classmethod
    def of(cls, root: Path) -> Texts:
        """Read them."""
        names = ("pyproject.toml", "policy_sched/__init__.py", "README.md", "CHANGELOG.md")
        return cls(*((root / name).read_text("utf-8") for name in names))


def problems(tag: str, texts: Texts) -> Iterator[str]:
    """Yield why a tag cannot be released, with what to do about it."""
    version = tag.removeprefix("v")
    stated = (
        ("pyproject.toml", tomllib.loads(texts.project)["project"]["version"]),
        ("policy_sched/__init__.py", _first(r'__version__ = "(.+)"', texts.package)),
        ("README.md", _first(r"version (\d[\w.]*\w)", texts.readme)),
    )
    if not re.fullmatch(r"v\d+\.\d+\.\d+\S*", tag):
        yield f"tag {tag}: write v and the version, as v{stated[0][1]}"
    for name, found in stated:
        if found != version:
            yield f"{name}: the version is {found}, the tag says {version}"
    title, day, notes = section(texts.changelog)
    if unreleased(texts.changelog):
        yield f'CHANGELOG.md: move what is under "Unreleased" below "## {version} - YYYY-MM-DD"'
    if title != version:
        yield f"CHANGELOG.md: the newest section is {title}, the tag says {version}"
    if not notes:
        yield f"CHANGELOG.md: the section {title} is empty"
    try:
        date.fromisoformat(day)
    except ValueError:
        yield f'CHANGELOG.md: the section {title} has the date "{day}", not one as 2026-11-21'


def _first(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    return match[1] if match else "missing"


def section(changelog: str) -> tuple[str, str, str]:
    """Return version, date and text of the newest version that a changelog has."""
    for title, day, notes in SECTION.findall(changelog):
        if title != "Unreleased":
            return title, day, notes.strip()
    return "missing", "", ""


def unreleased(changelog: str) -> str:
    """Return what waits for a version."""
    return next(
        (text.strip() for title, _, text in SECTION.findall(changelog) if title == "Unreleased"), ""
    )


def epoch(day: str) -> int:
    """Return the first second of a day, in UTC."""
    return int(datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC).timestamp())


def pinned(requirements: str) -> dict[str, str]:
    """Return the versions of a list of requirements, by name."""
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", requirements, re.MULTILINE))


def differences(bill: Mapping[str, Any], expected: Mapping[str, str]) -> Iterator[str]:
    """Yield what a bill of materials has more, less or otherwise than the image."""
    listed = {_normal(item["name"]): item["version"] for item in bill["components"]}
    for name in sorted({*listed, *expected}):
        if listed.get(name) != expected.get(name):
            has, wants = listed.get(name, "nothing"), expected.get(name, "nothing")
            yield f"{name}: the environment has {has}, the image {wants}"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def built(directory: Path, day: str) -> None:
    """Build wheel and sdist, the same bytes for the same files."""
    environ = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch(day))}
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(directory)]
    subprocess.run(command, cwd=ROOT, env=environ, check=True, stdout=subprocess.DEVNULL)


def bill_of_materials(python: str, day: str) -> dict[str, Any]:
    """Return what an environment has beside the program, as a CycloneDX document."""
    environ = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch(day))}
    command = [sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible"]
    command.append("--no-validate")  # of what the library itself writes; it takes half a minute
    command += ["--pyproject", str(ROOT / "pyproject.toml"), "--spec-version", "1.6", python]
    printed = subprocess.run(command, env=environ, check=True, stdout=subprocess.PIPE).stdout
    bill: dict[str, Any] = json.loads(printed)
    return bill


def release(tag: str, directory: Path, python: str, image: Path = FILE) -> list[str]:
    """Write the files of a release, or return why there is none."""
    texts = Texts.of(ROOT)
    if found := list(problems(tag, texts)):
        return found
    version, day, notes = section(texts.changelog)
    bill = bill_of_materials(python, day)
    if found := list(differences(bill, pinned(image.read_text("utf-8")))):
        return found
    directory.mkdir(parents=True, exist_ok=True)
    built(directory, day)
    shutil.copyfile(image, directory / "requirements.txt")
    (directory / f"{NAME}-{version}.cdx.json").write_text(
        json.dumps(bill, indent=2) + "\n", "utf-8"
    )
    sums = "".join(
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
        for file in sorted(directory.iterdir())
    )
    (directory / "SHA256SUMS").write_text(sums, "utf-8")
    (directory.parent / "notes.md").write_text(f"{notes}\n", "utf-8")
    return []


def main() -> int:
    """Write the files; problems go to the standard error, all of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("tag")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--installed", required=True, metavar="PYTHON")
    given = parser.parse_args()
    found = release(given.tag, given.directory, given.installed)
    sys.stderr.write("".join(f"{problem}\n" for problem in found))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
