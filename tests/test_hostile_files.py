"""Whatever is in a file, each command that reads it tells what is wrong and goes on."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from policy_sched.cli.output.diagnostics import write_diagnostics
from policy_sched.client.kube.auth.kubeconfig_reader import read
from policy_sched.errors import Diagnostic
from policy_sched.manifests.load import load
from policy_sched.policytest.runner import run_files
from policy_sched.profiles.check.check import check_files
from policy_sched.profiles.format.formatting import format_file
from policy_sched.profiles.reload.inputs import PolicyFiles
from policy_sched.simulate.workloads import expand
from tests.examples import scaled
from tests.source.hostile import SEEDS, hostile_json, hostile_yaml

FOUND_BEFORE = {
    "a kind that is a list": 41,
    "nesting of thousands in JSON": 120,
    "line breaks that are not LF, formatted": 276,
    "half a character in a name": 300,
    "a reference of thousands of characters": 305,
}
"""Seeds that ended a command with a traceback."""


def told(file: Path, text: str) -> Iterator[list[Diagnostic]]:
    """Write a file and yield what each reader says of it."""
    file.write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
    name = str(file)
    manifests = load([name])
    expand(manifests.objects)
    yield manifests.diagnostics
    yield check_files([name])
    yield run_files([name]).problems
    yield list(PolicyFiles(name).compile().problems)
    yield list(PolicyFiles(None, (name,)).compile().problems)
    yield read(file)[1]
    if file.suffix == ".yaml":
        yield format_file(name, text)[1]


def written(diagnostics: list[Diagnostic]) -> None:
    """Write diagnostics as a log that takes UTF-8 and nothing else."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    write_diagnostics(diagnostics, stream)
    stream.flush()


@given(st.integers(0, 2**32))
@example(FOUND_BEFORE["a kind that is a list"])
@example(FOUND_BEFORE["nesting of thousands in JSON"])
@example(FOUND_BEFORE["line breaks that are not LF, formatted"])
@example(FOUND_BEFORE["half a character in a name"])
@example(FOUND_BEFORE["a reference of thousands of characters"])
@settings(
    max_examples=scaled(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_damaged_documents(tmp_path: Path, seed: int) -> None:
    """A damaged policy, test, configuration, manifest or kubeconfig ends no command."""
    for file, text in (
        (tmp_path / "tests.yaml", hostile_yaml(Random(seed))),
        (tmp_path / "tests.json", hostile_json(Random(seed))),
    ):
        for diagnostics in told(file, text):
            written(diagnostics)


@pytest.mark.parametrize("text", SEEDS.values(), ids=SEEDS)
def test_bombs_and_floods_of_keys_are_refused(text: str, tmp_path: Path) -> None:
    """Bombs of aliases and merge keys, deep nesting and floods of keys are refused with a place.

    534 bytes of merge keys took 25 s and 1.7 GB.
    """
    for found in islice(told(tmp_path / "tests.yaml", text), 2):
        written(found)
        assert all(one.line >= 1 and one.column >= 1 for one in found)
