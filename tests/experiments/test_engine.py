"""Engines: what a killed worker costs, and that the results do not depend on the engine."""

from __future__ import annotations

import logging
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from policy_sched.cli.main import run
from policy_sched.errors import PolicySchedError
from policy_sched.experiments import ResultStore, read_sweep, run_tasks, tables
from policy_sched.experiments.engine import (
    Ended,
    Order,
    RunFailure,
    Work,
    engine_of,
    in_processes,
    require,
)
from tests.client.kube.authority import Authority
from tests.experiments.examples import tiny
from tests.experiments.workers import Deadly

ORDERS = [Order(number, "v", number) for number in range(6)]

TABLES = ("runs", "summary", "curves", "bands", "comparison")
POD_WITH_NOTE = {
    "metadata": {
        "name": "${row.name}",
        "namespace": "default",
        "annotations": {"note": "${row.note}"},
    },
    "spec": {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "${row.cpu}"}}}],
    },
}


def answers(ended: Iterator[Ended]) -> dict[int, float | str]:
    """Return the values by number, or why there is none."""
    values: dict[int, float | str] = {}
    for order, result in ended:
        if isinstance(result, RunFailure):
            values[order.number] = result.message
        else:
            values[order.number] = cast("float", result.values["number"])
    return values


def test_a_killed_worker_loses_nothing(tmp_path: Path) -> None:
    """A run whose worker was killed is run again; all results are there."""
    notes: list[str] = []
    work = cast("Work", Deadly(str(tmp_path), once=(3,)))
    responses = answers(in_processes(work, ORDERS, 2, notes.append))
    assert responses == {number: float(number) for number in range(6)}
    assert any("v, seed 3 is run again" in note for note in notes)


def test_a_run_that_kills_its_workers_fails_alone(tmp_path: Path) -> None:
    """A run that kills every worker has failed; the others have their results."""
    work = cast("Work", Deadly(str(tmp_path), always=(1,)))
    values = answers(in_processes(work, ORDERS[:3], 1, lambda _note: None))
    died = "its worker was killed, and so was the next that tried it"
    assert values == {0: 0.0, 1: died, 2: 2.0}


def test_workers_end_with_a_sweep_that_was_killed(tmp_path: Path) -> None:
    """After `kill -9` of `sweep` its workers stayed for ever, and computed what nobody reads."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = [sys.executable, "-m", "tests.experiments.workers", str(pipe)]
    with subprocess.Popen(command) as sweep, open(pipe, encoding="ascii") as begun:
        assert [begun.readline(), begun.readline()] == ["begun\n", "begun\n"]
        sweep.kill()
        ended, _, _ = select.select([begun], [], [], 120)
        assert ended, "the workers hold the pipe open"
        assert begun.read() == ""


STARTS_NOT = """\
import os, signal, sys
if "--multiprocessing-fork" in sys.orig_argv:
    try:
        os.close(os.open(__file__ + ".mark", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        pass
    else:
        os.kill(os.getpid(), signal.SIGKILL)
"""
"""What kills the first process of a pool before it has read anything."""


def test_a_worker_killed_while_it_starts_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that dies before it has read its work is replaced, however much that is; the tables
    are those of one process."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(STARTS_NOT, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", f"{site}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    rows = "".join(f"p{i},1,60,{'x' * 200}\n" for i in range(400))
    file = tiny(tmp_path, {"workload.rows.pod": POD_WITH_NOTE}, f"name,cpu,seconds,note\n{rows}")
    assert run(["sweep", file, "-j", "2", "--results", str(tmp_path / "two")]) == 0
    assert (site / "sitecustomize.py.mark").exists()
    assert run(["sweep", file, "-j", "1", "--results", str(tmp_path / "one")]) == 0
    for table in TABLES:
        first, other = (tmp_path / where / f"{table}.csv" for where in ("one", "two"))
        assert first.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("name", ["dask:/host", "ray://host:1", "dask://"])
def test_an_unknown_engine_is_refused(name: str) -> None:
    """Only a Dask cluster is an engine."""
    with pytest.raises(PolicySchedError, match=r"dask\+tls://HOST:PORT, or dask://HOST:PORT"):
        engine_of(name, 1, print)


@pytest.mark.parametrize(
    ("name", "warned"),
    [("dask://127.0.0.1:9", False), ("dask://[::1]:9", False), ("dask://10.0.0.1:9", True)],
)
def test_dask_without_encryption_is_told(
    name: str, warned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is on the way to a cluster could run code in it and in the sweep, and nobody said so."""
    notes: list[str] = []
    engine = engine_of(name, 1, notes.append)

    def refuses(**_options: object) -> None:
        raise OSError("not in a test")

    monkeypatch.setattr("distributed.Client", refuses)
    with pytest.raises(PolicySchedError, match=rf"--engine {re.escape(name)}: not in a test"):
        list(engine(cast("Work", Deadly("")), ORDERS))
    assert bool(notes) is warned
    assert all("dask+tls://" in note for note in notes)


def test_dask_with_tls_needs_certificates() -> None:
    """A cluster could not be reached with TLS; Dask's configuration names the certificates."""
    engine = engine_of("dask+tls://10.0.0.1:9", 1, print)
    with pytest.raises(PolicySchedError, match=r"no tls_ca_file and no tls_client_cert; distrib"):
        list(engine(cast("Work", Deadly("")), ORDERS))


def test_a_missing_extra_is_named() -> None:
    """What is not installed comes with the command that installs it."""
    with pytest.raises(PolicySchedError, match=r"pip install 'matplotlib>=3\.9'"):
        require("no_such_module", "plot")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """One Dask cluster of two processes, which replaces those that are killed."""
    from distributed import LocalCluster  # noqa: PLC0415  seconds of imports

    options: dict[str, Any] = {"processes": True, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        host="127.0.0.1",
        silence_logs=logging.CRITICAL,
        **options,
    ) as cluster:
        yield cluster


@pytest.mark.filterwarnings("default")
def test_a_dask_cluster_with_tls_gives_the_same_bytes(
    tmp_path: Path,
) -> None:
    """Client and cluster show each other certificates; one without them is refused."""
    import dask  # noqa: PLC0415  seconds of imports
    from distributed import LocalCluster  # noqa: PLC0415

    authority = Authority(tmp_path)
    authority.make("ca")
    authority.make("all", names="IP:127.0.0.1", ca="ca")
    tls = {"ca-file": "ca.pem"}
    for role in ("client", "scheduler", "worker"):
        tls |= {f"{role}.cert": "all.pem", f"{role}.key": "all.key"}
    settings = {f"distributed.comm.tls.{key}": str(tmp_path / file) for key, file in tls.items()}
    options: dict[str, Any] = {"processes": False, "dashboard_address": "127.0.0.1:0"}
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=1, protocol="tls", host="127.0.0.1", silence_logs=logging.CRITICAL, **options
        ) as secure,
    ):
        address = secure.scheduler_address.removeprefix("tls://")
        file = tiny(tmp_path)
        there = ["--results", str(tmp_path / "dask")]
        assert run(["sweep", file, "--engine", f"dask+tls://{address}", *there]) == 0
    assert run(["sweep", file, "-j", "1", "--results", str(tmp_path / "one")]) == 0
    first, other = (tmp_path / where / "runs.csv" for where in ("one", "dask"))
    assert first.read_bytes() == other.read_bytes()


def engine_name(cluster: Any) -> str:
    """Return the value of --engine for a cluster."""
    return f"dask://{cluster.scheduler_address.removeprefix('tcp://')}"


@pytest.mark.filterwarnings("default")
def test_a_dask_cluster_gives_the_same_bytes(cluster: Any, tmp_path: Path) -> None:
    """Two workers of a local Dask cluster give the tables of one process."""
    file = tiny(tmp_path)
    there = ["--engine", engine_name(cluster), "--results", str(tmp_path / "dask")]
    assert run(["sweep", file, *there]) == 0
    assert run(["sweep", file, "-j", "1", "--results", str(tmp_path / "one")]) == 0
    for table in TABLES:
        first, other = (tmp_path / where / f"{table}.csv" for where in ("one", "dask"))
        assert first.read_bytes() == other.read_bytes()


@pytest.mark.filterwarnings("default")
def test_killed_workers_of_dask_lose_nothing(cluster: Any, tmp_path: Path) -> None:
    """While runs are left, first one and then the other worker of a Dask cluster is killed: the
    tables are those of one process, to the byte."""
    sweep = read_sweep(tiny(tmp_path, {"seeds": {"count": 6}}))[0]
    assert sweep is not None
    texts = []
    victims = [nanny.pid for nanny in cluster.workers.values()]

    def advance(more: int) -> None:
        while more and victims:
            os.kill(victims.pop(), signal.SIGKILL)

    for name in (None, engine_name(cluster)):
        store = ResultStore(tmp_path / f"results-{name is None}")
        engine = engine_of(name, 1, print)
        outcome = run_tasks(sweep, sweep.tasks, store, engine, advance if name else ignored)
        assert not outcome.failures
        texts.append([table.csv() for table in tables(sweep.spec, outcome.results)])
    assert not victims
    assert texts[0] == texts[1]


def ignored(_more: int) -> None:
    """Do nothing about progress."""
