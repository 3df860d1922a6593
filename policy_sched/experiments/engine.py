"""Runs the tasks of a sweep: in this process, in a pool of processes, or on a Dask cluster.

Theory of operation. A pool's workers are new processes (spawn); each gets the inputs once, and then
numbers of runs. There are never more submitted runs than workers, so all runs in progress are known
when a worker dies. Each of them is then repeated in a worker of its own; a run that kills its
worker again has failed. Dask distributes runs itself, repeats the runs of dead workers, and gives
up a run that has killed three. What a run gives depends on its inputs alone, so the engine and the
number of workers change nothing in the results.
"""

from __future__ import annotations

import gc
import pickle
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from policy_sched.errors import PolicySchedError
from policy_sched.experiments.inputs import Inputs
from policy_sched.experiments.runs import RunResult, RunVariant, run
from policy_sched.http import address_of
from policy_sched.profiles.models import ExperimentSpec
from policy_sched.profiles.reload import end_with_parent


@dataclass(frozen=True, slots=True)
class RunFailure:
    """Why a run has no result."""

    message: str


@dataclass(frozen=True, slots=True)
class Order:
    """A run to be done: any number of the caller's, the variant, and the seed."""

    number: int
    variant: str
    seed: int


@dataclass(frozen=True, slots=True)
class Work:
    """The inputs that all runs share."""

    inputs: Inputs
    spec: ExperimentSpec
    variants: Mapping[str, RunVariant]

    def run(self, order: Order) -> RunResult | RunFailure:
        """Run one order; what it raises is its failure."""
        try:
            return run(self.inputs, self.spec, self.variants[order.variant], order.seed)
        except PolicySchedError as error:
            return RunFailure(str(error).splitlines()[0] if str(error) else type(error).__name__)
        except Exception as error:  # noqa: BLE001 - whatever a run raises stops no other run
            where = traceback.extract_tb(error.__traceback__)[-1]
            return RunFailure(f"{type(error).__name__}: {error} ({where.name})")


_ROUNDS: Final = 3
"""How often runs are handed out to Dask whose inputs were lost."""

Ended = tuple[Order, RunResult | RunFailure]
Note = Callable[[str], None]
"""Receives a line for each worker that died."""


def in_this_process(work: Work, orders: Sequence[Order]) -> Iterator[Ended]:
    """Yield the result of each order, in their order."""
    for order in orders:
        yield order, work.run(order)


_WORK: dict[str, Work] = {}
"""The inputs of this process, a worker, from its start."""


def _begin(file: str) -> None:
    end_with_parent()  # a pool whose process was killed leaves its workers waiting for work
    data = Path(file).read_bytes()
    _WORK["work"] = pickle.loads(data)  # noqa: S301 - from the process that started this one
    gc.freeze()


def _in_worker(order: Order) -> RunResult | RunFailure:
    return _WORK["work"].run(order)


def in_processes(work: Work, orders: Sequence[Order], workers: int, note: Note) -> Iterator[Ended]:
    """Yield the results of orders as they come.

    Workers read the work from a file: a pool that hands a large argument to a worker waits for
    ever if that is killed before it has read the argument.
    """
    with TemporaryDirectory(prefix="policy-sched-") as folder:
        file = Path(folder) / "work"
        file.write_bytes(pickle.dumps(work, pickle.HIGHEST_PROTOCOL))
        yield from _in_pools(str(file), orders, workers, note)


def _in_pools(file: str, orders: Sequence[Order], workers: int, note: Note) -> Iterator[Ended]:
    """Yield the results of orders; a pool of which a worker was killed is followed by another."""
    left, alone = deque(orders), deque[Order]()
    suspects: set[int] = set()
    while left or alone:
        queue, count = (alone, 1) if alone else (left, workers)
        under_way: dict[Future[RunResult | RunFailure], Order] = {}
        context = get_context("spawn")
        with ProcessPoolExecutor(count, context, initializer=_begin, initargs=(file,)) as pool:
            try:
                yield from _submitted(pool, queue, count, under_way)
                continue
            except BrokenProcessPool:
                pass
        for order in under_way.values():
            if order.number in suspects:
                yield order, RunFailure("its worker was killed, and so was the next that tried it")
                continue
            suspects.add(order.number)
            note(f"a worker was killed; {order.variant}, seed {order.seed} is run again")
            alone.append(order)


def _submitted(
    pool: ProcessPoolExecutor,
    queue: deque[Order],
    count: int,
    under_way: dict[Future[RunResult | RunFailure], Order],
) -> Iterator[Ended]:
    """Yield results; no more runs than workers are under way. Raises BrokenProcessPool."""
    while queue or under_way:
        while queue and len(under_way) < count:
            future = pool.submit(_in_worker, queue[0])
            under_way[future] = queue.popleft()
        done, _ = wait(under_way, return_when=FIRST_COMPLETED)
        for future in sorted(done, key=lambda ended: under_way[ended].number):
            result = future.result()
            yield under_way.pop(future), result


def on_dask(work: Work, orders: Sequence[Order], engine: str, note: Note) -> Iterator[Ended]:
    """Yield the results of orders as a Dask cluster gives them. Raises PolicySchedError.

    ``engine``: dask://HOST:PORT, or dask+tls://HOST:PORT with the certificates that Dask's own
    configuration names. Runs are lost if all workers die that have the inputs; they are handed out
    again.
    """
    distributed = require("distributed", "dask")
    scheme, _, address = engine.partition("://")
    data, left = pickle.dumps(work, pickle.HIGHEST_PROTOCOL), list(orders)
    options: dict[str, Any] = {"address": f"tcp://{address}", "set_as_default": False}
    if scheme == DASK_TLS:
        options |= {"address": f"tls://{address}", "security": _certificates(distributed, engine)}
    elif not address_of(address).loopback:
        note(f"{engine}: a machine on the way can run code on both sides; use {DASK_TLS}://")
    try:
        with distributed.Client(**options) as client:
            for _ in range(_ROUNDS):
                lost: list[Order] = []
                yield from _from_dask(distributed, client, data, left, lost)
                if not lost:
                    return
                note(f"the workers were killed that had the inputs; {len(lost)} runs are left")
                left = lost
    except OSError as error:
        raise PolicySchedError(f"--engine {engine}: {error or type(error)}") from None
    for order in left:
        yield order, RunFailure(f"the workers were killed {_ROUNDS} times while they ran it")


def _certificates(distributed: Any, engine: str) -> Any:
    """Return Dask's settings for TLS. Raises PolicySchedError if they name no certificates."""
    security = distributed.Security(require_encryption=True)
    missing = [name for name in ("tls_ca_file", "tls_client_cert") if not getattr(security, name)]
    if missing:
        where = "distributed.comm.tls.ca-file and .client.cert in Dask's configuration name files"
        raise PolicySchedError(f"--engine {engine}: no {' and no '.join(missing)}; {where}")
    return security


def _from_dask(
    distributed: Any, client: Any, data: bytes, orders: Sequence[Order], lost: list[Order]
) -> Iterator[Ended]:
    """Yield results, and add the orders whose inputs were lost."""
    shared = client.scatter(data, broadcast=True, hash=False)
    futures = {client.submit(_for_dask, shared, order, pure=False): order for order in orders}
    for future in distributed.as_completed(futures, loop=client.loop):
        order = futures[future]
        try:
            yield order, future.result()
        except distributed.KilledWorker:
            yield order, RunFailure("three workers were killed while they ran it")
        except CancelledError:
            lost.append(order)


def _for_dask(data: bytes, order: Order) -> RunResult | RunFailure:
    key = str(hash(data))
    if key not in _WORK:
        _WORK.clear()
        _WORK[key] = pickle.loads(data)  # noqa: S301 - from the process that hands runs out
    return _WORK[key].run(order)


DASK_TLS: Final = "dask+tls"
"""The scheme of a Dask cluster that proves its identity, and asks the same of its clients."""
Engine = Callable[[Work, Sequence[Order]], Iterator[Ended]]
"""Does orders, and yields their results as they come."""


def engine_of(name: str | None, workers: int, note: Note) -> Engine:
    """Return the engine of the options --engine and -j. Raises PolicySchedError."""
    if name is None:
        if workers == 1:
            return in_this_process
        return lambda work, orders: in_processes(work, orders, min(workers, len(orders)), note)
    scheme, _, address = name.partition("://")
    if scheme not in ("dask", DASK_TLS) or not address:
        raise PolicySchedError(
            f"--engine {name}: write {DASK_TLS}://HOST:PORT, or dask://HOST:PORT"
        )
    address_of(address)
    return lambda work, orders: on_dask(work, orders, name, note)


EXTRAS: Final = {
    "dask": "distributed>=2024.8",
    "parquet": "pyarrow>=18",
    "plot": "matplotlib>=3.9",
    "tune": "optuna>=4.0",
}
"""By extra of pyproject.toml: what it installs."""


def require(module: str, extra: str) -> Any:
    """Return a module of an extra. Raises PolicySchedError with the command that installs it."""
    try:
        return import_module(module)
    except ImportError:
        what = EXTRAS[extra]
        message = f"{module} is not installed: pip install '{what}' (the extra {extra})"
        raise PolicySchedError(message) from None
