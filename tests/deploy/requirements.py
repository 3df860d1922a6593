"""Renews versions and hashes of what is installed: ``python -m tests.deploy.requirements``.

Asks pip which wheels it would install, on both architectures, and writes two lists. The constraints
have whatever an extra, a test or a release needs; the image's requirements are those of them that
the image has, which are a list of their own because they are in the wheel, and because the image
installs all that is in it. Nothing is installed here.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FILE: Final = ROOT / "policy_sched/deploy/requirements.txt"
CONSTRAINTS: Final = ROOT / ".ci/constraints.txt"
PYTHON: Final = "3.11"
#: The one with fewer wheels first: it decides which versions are taken.
ARCHITECTURES: Final = ("aarch64", "x86_64")
#: The glibc of Debian 12 is 2.36.
FORMS: Final = ("manylinux2014", *(f"manylinux_2_{minor}" for minor in range(17, 37)))
FOOT: Final = f"""\
# Wheels for Python {PYTHON} on Linux, {" and ".join(ARCHITECTURES)}.
# Renewed by: python -m tests.deploy.requirements
"""
HEADS: Final = {
    FILE: "# What the image installs beside policy_sched.\n",
    CONSTRAINTS: (
        "# What policy_sched, its extras, its tests and a release need:\n"
        "#   pip install --require-hashes --no-deps -r .ci/constraints.txt\n"
        "#   pip install --no-deps --no-build-isolation .\n"
    ),
}


def declared() -> list[str]:
    """Return the requirements that pyproject.toml declares."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    dependencies: list[str] = project["dependencies"]
    return dependencies


def wanted() -> list[str]:
    """Return them with those of all extras, and of the build."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = table["project"]["optional-dependencies"].values()
    needed = {*declared(), *table["build-system"]["requires"]}
    return sorted(needed.union(*extras))


def wheels(architecture: str, names: list[str]) -> dict[str, str]:
    """Return the hashes of the wheels that pip would install, by name==version."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--report", "-"]
    command += ["--ignore-installed", "--only-binary=:all:", "--target", "unused"]
    command += ["--python-version", PYTHON, "--implementation", "cp"]
    command += [f"--platform={form}_{architecture}" for form in FORMS]
    printed = subprocess.run([*command, *names], check=True, stdout=subprocess.PIPE).stdout
    hashes = {}
    for item in json.loads(printed)["install"]:
        meta, archive = item["metadata"], item["download_info"]["archive_info"]
        name = meta["name"].lower().replace("_", "-").replace(".", "-")
        hashes[f"{name}=={meta['version']}"] = archive["hashes"]["sha256"]
    return hashes


def resolved(names: list[str]) -> dict[str, set[str]]:
    """Return the hashes for all architectures, by name==version."""
    first, *others = ARCHITECTURES
    hashes = {name: {digest} for name, digest in wheels(first, names).items()}
    for other in others:
        for name, digest in wheels(other, sorted(hashes)).items():
            hashes.setdefault(name, set()).add(digest)
    return hashes


def lines(hashes: dict[str, set[str]]) -> str:
    """Return the lines of a list."""
    return "".join(
        f"{name} \\\n"
        + " \\\n".join(f"    --hash=sha256:{item}" for item in sorted(digests))
        + "\n"
        for name, digests in sorted(hashes.items())
    )


def main() -> None:
    """Write the lists; the image's versions are those of the constraints."""
    everything = resolved(wanted())
    with NamedTemporaryFile("w", suffix=".txt") as versions:
        versions.write("\n".join(everything))
        versions.flush()
        image = wheels(ARCHITECTURES[0], [*declared(), f"--constraint={versions.name}"])
    for file, names in ((CONSTRAINTS, everything), (FILE, image)):
        text = lines({name: everything[name] for name in names})
        file.write_text(HEADS[file] + FOOT + text, encoding="utf-8")


if __name__ == "__main__":
    main()
