"""Engines: what a killed worker costs, and that the results do not depend on the engine."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from policy_sched.cli.main import run
from policy_sched.errors import PolicySchedError
from policy_sched.experiments.engine import (
    Answer,
    Failure,
    Order,
    Work,
    engine_of,
    in_processes,
    require,
)
from tests.experiments.examples import tiny
from tests.experiments.workers import Deadly

ORDERS = [Order(number, "v", number) for number in range(6)]


def answers(found: Iterator[Answer]) -> dict[int, float | str]:
    """Return the values by number, or why there is none."""
    values: dict[int, float | str] = {}
    for order, result in found:
        if isinstance(result, Failure):
            values[order.number] = result.message
        else:
            values[order.number] = cast("float", result.values["number"])
    return values


def test_a_killed_worker_loses_nothing(tmp_path: Path) -> None:
    """A run whose worker was killed is run again; all results are there."""
    notes: list[str] = []
    work = cast("Work", Deadly(str(tmp_path), once=(3,)))
    found = answers(in_processes(work, ORDERS, 2, notes.append))
    assert found == {number: float(number) for number in range(6)}
    assert any("v, seed 3 is run again" in note for note in notes)


def test_a_run_that_kills_its_workers_fails_alone(tmp_path: Path) -> None:
    """A run that kills every worker has failed; the others have their results."""
    work = cast("Work", Deadly(str(tmp_path), always=(1,)))
    found = answers(in_processes(work, ORDERS, 2, lambda _note: None))
    assert found.pop(1) == "its worker was killed, and so was the next that tried it"
    assert found == {number: float(number) for number in (0, 2, 3, 4, 5)}


@pytest.mark.parametrize("name", ["dask:/host", "ray://host:1", "dask://"])
def test_an_unknown_engine_is_refused(name: str) -> None:
    """Only dask://HOST:PORT is an engine."""
    with pytest.raises(PolicySchedError, match="dask://HOST:PORT"):
        engine_of(name, 1, print)


def test_a_missing_extra_is_named() -> None:
    """What is not installed comes with the command that installs it."""
    with pytest.raises(PolicySchedError, match=r"pip install 'matplotlib>=3\.9'"):
        require("no_such_module", "plot")


@pytest.mark.filterwarnings("default")
def test_a_dask_cluster_gives_the_same_bytes(tmp_path: Path) -> None:
    """Two workers of a local Dask cluster give the tables of one process."""
    from distributed import LocalCluster  # noqa: PLC0415  seconds of imports

    file = tiny(tmp_path)
    options: dict[str, Any] = {"processes": True, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", silence_logs=logging.ERROR, **options
    ) as cluster:
        address = cluster.scheduler_address.removeprefix("tcp://")
        there = ["--engine", f"dask://{address}", "--results", str(tmp_path / "dask")]
        assert run(["sweep", file, *there]) == 0
    assert run(["sweep", file, "-j", "1", "--results", str(tmp_path / "one")]) == 0
    for table in ("runs", "summary", "curves", "bands", "comparison"):
        one, other = (tmp_path / where / f"{table}.csv" for where in ("one", "dask"))
        assert one.read_bytes() == other.read_bytes()
