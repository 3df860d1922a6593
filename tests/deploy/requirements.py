"""Renews the image's requirements: ``python -m tests.deploy.requirements``.

Asks pip which wheels it would install in the image, on both of its architectures, and writes their
versions and hashes. Nothing is installed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FILE: Final = ROOT / "policy_sched/deploy/requirements.txt"
PYTHON: Final = "3.11"
ARCHITECTURES: Final = ("x86_64", "aarch64")
#: The glibc of Debian 12 is 2.36.
FORMS: Final = ("manylinux2014", *(f"manylinux_2_{minor}" for minor in range(17, 37)))
HEAD: Final = f"""\
# What the image installs beside policy_sched: wheels for Python {PYTHON} on Linux,
# {" and ".join(ARCHITECTURES)}.
# Renewed by: python -m tests.deploy.requirements
"""


def declared() -> list[str]:
    """Return the requirements that pyproject.toml declares."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    dependencies: list[str] = project["dependencies"]
    return dependencies


def wheels(architecture: str, wanted: list[str]) -> dict[str, str]:
    """Return the hashes of the wheels that pip would install, by name==version."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--report", "-"]
    command += ["--ignore-installed", "--only-binary=:all:", "--target", "unused"]
    command += ["--python-version", PYTHON, "--implementation", "cp"]
    command += [f"--platform={form}_{architecture}" for form in FORMS]
    printed = subprocess.run([*command, *wanted], check=True, stdout=subprocess.PIPE).stdout
    hashes = {}
    for item in json.loads(printed)["install"]:
        meta, archive = item["metadata"], item["download_info"]["archive_info"]
        name = meta["name"].lower().replace("_", "-").replace(".", "-")
        hashes[f"{name}=={meta['version']}"] = archive["hashes"]["sha256"]
    return hashes


def main() -> None:
    """Write the file."""
    first, *others = ARCHITECTURES
    hashes = {name: {digest} for name, digest in wheels(first, declared()).items()}
    for other in others:
        for name, digest in wheels(other, sorted(hashes)).items():
            hashes.setdefault(name, set()).add(digest)
    lines = [
        f"{name} \\\n" + " \\\n".join(f"    --hash=sha256:{item}" for item in sorted(digests))
        for name, digests in sorted(hashes.items())
    ]
    FILE.write_text(HEAD + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
