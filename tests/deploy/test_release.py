"""Releases: what a tag must agree with, the files that are made, and the workflow."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import subprocess
import sys
import tarfile
from dataclasses import replace
from importlib.metadata import distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from policy_sched.cli.app import VERBS, app
from tests.deploy import release
from tests.deploy.requirements import CONSTRAINTS, FILE, ROOT, declared, wanted

CHANGELOG: Final = """\
# Changelog

## Unreleased

## 1.2.0 - 2026-11-28

- A change.

## 1.1.0 - 2026-10-01

- An older one.
"""
TEXTS: Final = release.Texts(
    project='[project]\nversion = "1.2.0"\n',
    package='__version__ = "1.2.0"\n',
    readme="**Status: stable, version 1.2.0.** It holds.",
    changelog=CHANGELOG,
)
WORKFLOWS: Final = sorted((ROOT / ".github/workflows").glob("*.yml"))


def test_a_tag_agrees_with_everything_that_names_the_version() -> None:
    """Nothing is wrong, and the notes are the text below the version in the changelog."""
    assert list(release.problems("v1.2.0", TEXTS)) == []
    assert release.section(CHANGELOG) == ("1.2.0", "2026-11-28", "- A change.")


@pytest.mark.parametrize(
    ("tag", "changed", "expected"),
    [
        ("1.2.0", {}, ["tag 1.2.0: write v and the version, as v1.2.0"]),
        (
            "v1.3.0",
            {},
            [
                "pyproject.toml: the version is 1.2.0, the tag says 1.3.0",
                "policy_sched/__init__.py: the version is 1.2.0, the tag says 1.3.0",
                "README.md: the version is 1.2.0, the tag says 1.3.0",
                "CHANGELOG.md: the newest section is 1.2.0, the tag says 1.3.0",
            ],
        ),
        (
            "v1.2.0",
            {"changelog": CHANGELOG.replace("Unreleased\n", "Unreleased\n\n- Forgotten.\n")},
            ['CHANGELOG.md: move what is under "Unreleased" below "## 1.2.0 - YYYY-MM-DD"'],
        ),
        (
            "v1.2.0",
            {"changelog": CHANGELOG.replace("2026-11-28", "tomorrow")},
            ['CHANGELOG.md: the section 1.2.0 has the date "tomorrow", not one as 2026-11-21'],
        ),
        (
            "v1.2.0",
            {"changelog": CHANGELOG.replace("- A change.\n", "")},
            ["CHANGELOG.md: the section 1.2.0 is empty"],
        ),
        (
            "v1.2.0",
            {"package": "", "readme": "Version unknown"},
            [
                "policy_sched/__init__.py: the version is missing, the tag says 1.2.0",
                "README.md: the version is missing, the tag says 1.2.0",
            ],
        ),
    ],
)
def test_a_tag_that_disagrees(tag: str, changed: dict[str, str], expected: list[str]) -> None:
    """All problems are told at once, each with the file to change."""
    assert list(release.problems(tag, replace(TEXTS, **changed))) == expected


def test_the_files_of_the_repository_state_one_version() -> None:
    """Only the changelog differs between two releases: the next one has not got its section."""
    texts = release.Texts.of(ROOT)
    version = release.section(texts.changelog)[0]
    found = [item for item in release.problems(f"v{version}", texts) if "Unreleased" not in item]
    assert found == []


def image_environment(folder: Path) -> tuple[str, Path]:
    """Make an environment with the metadata of what the program needs; return its list, too."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "image"], check=True)
    (packages,) = folder.glob("image/lib/python*/site-packages")
    names, versions = [*map(canonicalize_name, release.pinned(FILE.read_text("utf-8")))], []
    for name in names:
        installed = distribution(name)
        metadata = Path(str(installed.locate_file("."))).glob("*.dist-info")
        (link,) = [one for one in metadata if canonicalize_name(one.name.split("-")[0]) == name]
        (packages / link.name).symlink_to(link)
        versions.append(f"{name}=={installed.version}\n")
    listed = folder / "requirements.txt"
    listed.write_text("".join(versions))
    return str(folder / "image/bin/python"), listed


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Make a release; return its folder, and the versions of the image."""
    folder = tmp_path_factory.mktemp("release")
    python, listed = image_environment(folder)
    version = release.section(release.Texts.of(ROOT).changelog)[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(release, "unreleased", lambda _: "")  # between two releases there is some
        assert release.release(f"v{version}", folder / "dist", python, listed) == []
    return folder, release.pinned(listed.read_text("utf-8"))


def test_the_files_of_a_release(released: tuple[Path, dict[str, str]]) -> None:
    """Wheel, sdist, bill of materials, versions and sums, with the time of the changelog."""
    folder, _ = released
    version, day, notes = release.section(release.Texts.of(ROOT).changelog)
    files = {file.name: file for file in (folder / "dist").iterdir()}
    wheel, sdist = f"policy_sched-{version}-py3-none-any.whl", f"policy_sched-{version}.tar.gz"
    bill, versions = f"policy-sched-{version}.cdx.json", "requirements.txt"
    assert sorted(files) == ["SHA256SUMS", bill, wheel, sdist, versions]
    assert files[versions].read_text("utf-8") == (folder / versions).read_text("utf-8")
    with ZipFile(files[wheel]) as archive:
        assert "policy_sched/deploy/requirements.txt" in archive.namelist()
        times = {item.date_time[:3] for item in archive.infolist()}
        assert times == {tuple(map(int, day.split("-")))}
    with tarfile.open(files[sdist]) as archive:
        assert f"policy_sched-{version}/CHANGELOG.md" in archive.getnames()
    for line in files["SHA256SUMS"].read_text("utf-8").splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256(files[name].read_bytes()).hexdigest() == digest
    assert (folder / "notes.md").read_text("utf-8") == f"{notes}\n"


def test_the_bill_of_materials(released: tuple[Path, dict[str, str]]) -> None:
    """It names each package of the image with its license, and says what differs from another."""
    folder, versions = released
    (file,) = (folder / "dist").glob("*.cdx.json")
    bill = json.loads(file.read_text("utf-8"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["name"] == "policy-sched"
    assert [item["name"] for item in bill["components"] if not item.get("licenses")] == []
    assert {Requirement(item).name for item in declared()} <= set(versions)
    assert list(release.differences(bill, versions)) == []
    others = {**versions, "msgspec": "9", "other": "1"}
    del others["numpy"]
    assert list(release.differences(bill, others)) == [
        f"msgspec: the environment has {versions['msgspec']}, the image 9",
        f"numpy: the environment has {versions['numpy']}, the image nothing",
        "other: the environment has nothing, the image 1",
    ]


def test_a_refused_tag_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command ends with 1 and says why."""
    words = ["release", "v9.9.9", str(tmp_path / "dist"), "--installed", sys.executable]
    monkeypatch.setattr(sys, "argv", words)
    assert release.main() == 1
    assert "README.md: the version is" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_constraints_hold_together() -> None:
    """Each requirement of what is listed is listed, in a version that it allows."""
    versions = release.pinned(CONSTRAINTS.read_text("utf-8"))
    installed = {canonicalize_name(item.name): item for item in distributions()}
    environment = {"python_version": "3.11", "sys_platform": "linux", "extra": ""}
    ahead = [Requirement(item) for item in wanted()]
    seen: set[str] = set()
    while ahead:
        requirement = ahead.pop()
        name = canonicalize_name(requirement.name)
        assert requirement.specifier.contains(versions[name], prereleases=True), str(requirement)
        key = f"{name}[{','.join(sorted(requirement.extras))}]"
        # What another version needs would be no evidence; what is missing here is of `lint`.
        if key in seen or name not in installed or installed[name].version != versions[name]:
            continue
        seen.add(key)
        for text in installed[name].requires or ():
            inner = Requirement(text)
            extras = [*requirement.extras, ""]
            if inner.marker is None or any(
                inner.marker.evaluate({**environment, "extra": extra}) for extra in extras
            ):
                ahead.append(inner)
    assert len(seen) > 50


def test_the_image_has_the_versions_of_the_constraints() -> None:
    """The two lists cannot drift apart: the image's is a part of the other, hashes and all."""
    entry = re.compile(r"^[a-z0-9-]+==.*?(?=^[a-z]|\Z)", re.MULTILINE | re.DOTALL)
    image, everything = (
        set(entry.findall(file.read_text("utf-8"))) for file in (FILE, CONSTRAINTS)
    )
    assert image < everything
    assert all("--hash=sha256:" in item for item in everything)


def jobs() -> list[tuple[str, dict[str, Any]]]:
    """Return the jobs of all workflows."""
    loaded = (
        (file.name, yaml.load(file.read_text("utf-8"), yaml.CSafeLoader)) for file in WORKFLOWS
    )
    return [(name, job) for name, workflow in loaded for job in workflow["jobs"].values()]


def steps() -> list[dict[str, Any]]:
    """Return the steps of all jobs."""
    return [step for _, job in jobs() for step in job.get("steps", ())]


def test_workflows_may_only_read_unless_a_job_says_otherwise() -> None:
    """A job that builds what others wrote has no right to write; each right has its reason."""
    for file in WORKFLOWS:
        assert yaml.load(file.read_text("utf-8"), yaml.CSafeLoader)["permissions"] == {
            "contents": "read"
        }
    wanted_rights = {
        "packages": "docker push|imagetools create",
        "contents": "gh release create",
        "id-token": "attest-build-provenance|deploy-pages",
        "attestations": "attest-build-provenance",
        "pages": "deploy-pages",
    }
    for _, job in jobs():
        for right, level in job.get("permissions", {}).items():
            assert level == "write"
            assert re.search(wanted_rights[right], str(job["steps"])), right


def test_actions_are_fixed_by_a_digest() -> None:
    """A tag may be another action tomorrow; the version beside the digest is for people."""
    for file in WORKFLOWS:
        for line in re.findall(r"uses: (.*)", file.read_text("utf-8")):
            local = line.startswith("./") and (ROOT / line).is_file()
            assert local or re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_nothing_from_outside_is_put_into_a_script() -> None:
    """A tag or a branch may have any name: scripts read it from a variable, in quotes."""
    for step in steps():
        assert "${{" not in step.get("run", "")


def test_workflows_run_commands_that_exist() -> None:
    """Verbs with their options, modules, files and the options of the release command."""
    lines = [line for step in steps() for line in step.get("run", "").splitlines()]
    assert any("tests.deploy.release" in line for line in lines)
    for line in lines:
        words = shlex.split(line.partition(" > ")[0])
        match words:
            case ["policy-sched", verb, *_]:
                assert verb in VERBS
                app.parse_args(words[1:], exit_on_error=False, print_error=False)
            case ["python", "-m", module, *_]:
                assert find_spec(module) is not None, module
        for word in words:
            if re.fullmatch(r"(?:\.ci|\.github|policy_sched)/[\w./-]+", word):
                assert (ROOT / word).is_file(), word
