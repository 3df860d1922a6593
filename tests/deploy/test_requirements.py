"""The image: its base has a digest, and what it installs has hashes."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from tests.deploy.requirements import ARCHITECTURES, FILE, declared

RECIPE = files("policy_sched.deploy").joinpath("Dockerfile").read_text("utf-8")
TEXT = FILE.read_text("utf-8")
PINNED = dict(re.findall(r"^([a-z0-9-]+)==(\S+) \\$", TEXT, re.MULTILINE))


def numbers(version: str) -> list[int]:
    """Return the numbers of a version."""
    return [int(part) for part in re.findall(r"\d+", version)]


@pytest.mark.parametrize("requirement", declared())
def test_each_dependency_has_a_version_and_hashes(requirement: str) -> None:
    """The image installed whatever was newest that day, from whoever could publish it."""
    name, least = re.fullmatch(r"([a-z0-9-]+)>=([0-9.]+)", requirement).groups()  # type: ignore[union-attr]
    assert numbers(PINNED[name]) >= numbers(least)


def test_every_line_is_a_wheel_with_its_hashes() -> None:
    """One for each architecture, or one for all; no line would be installed without."""
    parts = re.split(r"\n(?=[a-z])", TEXT.partition("\n")[2])[1:]
    assert len(parts) == len(PINNED) > len(declared())
    for part in parts:
        hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", part)
        assert 1 <= len(set(hashes)) <= len(ARCHITECTURES), part


def test_the_recipe_asks_for_hashes_and_a_digest() -> None:
    """The base was a tag, which may be another image tomorrow."""
    assert re.search(r"^ARG PYTHON=3\.11\S*@sha256:[0-9a-f]{64}$", RECIPE, re.MULTILINE)
    assert "--require-hashes --only-binary :all: --no-deps" in RECIPE
    assert "*@sha256:*) ;;" in RECIPE, "another base without a digest is refused"
    assert RECIPE.count("pip install") == 2
    assert "--no-deps --no-index ./*.whl" in RECIPE
