"""The verb ``console``: a local web server with pages about a cluster and its policies."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
import webbrowser
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Final

from cyclopts import Parameter

from policy_sched.cli.input.cluster_files import ClusterFiles, read_files
from policy_sched.cli.input.live_cluster import environment_of
from policy_sched.cli.input.paths import ClusterPaths
from policy_sched.cli.input.values import clock
from policy_sched.cli.options.console_flags import Listen, own_host
from policy_sched.cli.options.policies import PolicyFlags
from policy_sched.cli.output import diagnostics
from policy_sched.client.kube.rest import Api, Settings
from policy_sched.console import (
    ClusterSource,
    ConsoleServer,
    FilesSource,
    InputFiles,
    RunningSource,
    open_store,
    opening_file,
    serving,
)
from policy_sched.errors import PolicySchedError, one_line
from policy_sched.instance.app import RunLoop
from policy_sched.instance.observability import ERROR, WARNING, Record
from policy_sched.instance.shadow import ShadowInstance, ShadowOptions
from policy_sched.model import DEFAULT_SCHEDULER
from policy_sched.profiles.reload import PolicyFiles, PolicyStore
from policy_sched.recording import Recording
from policy_sched.simulate import at_start

Directories = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]
LONGEST_SLEEP: Final = 1.0
"""Seconds between two looks of a live cluster's scheduler at its clock."""


def console(  # noqa: PLR0913  # the options of the verb
    *,
    cluster: ClusterPaths = (),
    kubeconfig: str | None = None,
    recording: str | None = None,
    results: Directories = (),
    policy: PolicyFlags | None = None,
    address: str = "",
    port: int = 0,
    browser: bool = True,
    seed: int = 0,
    now: str | None = None,
) -> int:
    """Show a cluster, its pods and its policies in the browser.

    Serves pages on this machine and opens them: why pods wait, where they would go and what would
    change that, nodes and their use, the policies with what each of their rules does. The printed
    URL has a random token, without which nothing is served; it opens one browser, and then another
    URL is printed. Nothing is changed: a cluster in files is decided in this process, and a live
    cluster is only watched.

    Policies and manifests are read again when they change. If the policies have errors, the pages
    show these, and the policies that were valid last decide (at the start, the default profile).

    Parameters
    ----------
    cluster
        Manifests of a cluster: files, directories, or - for standard input.
    kubeconfig
        Watch the cluster of this kubeconfig (or list of them, as in KUBECONFIG), or of the pod that
        the process runs in (in-cluster), with the rights of its user, and write nothing. Pods are
        decided and explained in this process.
    recording
        Instead of files: a recording, at its beginning. The timeline decides its traffic again.
    results
        A directory with the results of an experiment, as sweep and tune write it.
    address
        The address of loopback to listen on, as 127.0.0.1; one of its own in 127.0.0.0/8 unless
        given, as browsers send a cookie to all ports of an address.
    port
        Where the pages are served; a free port unless given.
    browser
        Open the pages in the browser.
    seed
        Decides between nodes with equal scores.
    now
        The time that rules see with --cluster, in RFC 3339: 2026-01-01T00:00:00Z unless given.
    """
    if bool(cluster) and kubeconfig is not None:
        raise PolicySchedError("--kubeconfig does not go together with --cluster")
    if recording is not None and (cluster or kubeconfig is not None or now is not None):
        other = "--cluster" if cluster else "--now" if now is not None else "--kubeconfig"
        raise PolicySchedError(f"--recording does not go together with {other}")
    if not (cluster or kubeconfig is not None or results or recording is not None):
        named = "--cluster, --kubeconfig, --recording or --results"
        raise PolicySchedError(f"name what to show: {named}")
    if kubeconfig is not None and now is not None:
        raise PolicySchedError("--now goes with --cluster: a live cluster has a time of its own")
    if not 0 <= port <= 65535:
        raise PolicySchedError(f"--port {port}: must be between 0 and 65535")
    host = own_host("--address", address)
    diagnostics.require_files([*cluster, *results])
    files = (policy or PolicyFlags()).files()
    pages = Served(results, Listen(host, port), browser)
    if kubeconfig is not None:
        return asyncio.run(_live(_watching(files, kubeconfig, seed), pages))
    inputs = InputFiles(cluster, _reader(cluster, files), files, seed, clock(now))
    if recording is not None:
        opened = Recording.open(recording)
        diagnostics.write_hints(map(one_line, opened.notes))
        began = opened.began
        read = partial(_at_beginning, recording, files)
        inputs = InputFiles((recording,), read, files, seed, lambda: began, recording)
    return asyncio.run(_of_files(inputs, pages))


@dataclass(frozen=True, slots=True)
class Served:
    """How the pages are served."""

    results: tuple[str, ...]
    listen: Listen
    browser: bool

    @asynccontextmanager
    async def of(self, source: ClusterSource | None) -> AsyncIterator[None]:
        """Serve the pages within the context, print their URL, and open them."""
        listen = self.listen
        async with serving(
            source, self.results, host=listen.host, port=listen.port, announce=announce
        ) as server:
            with ExitStack() as files:
                if self.browser:
                    _open(server, files)
                yield


def _at_beginning(directory: str, policies: PolicyFiles) -> ClusterFiles:
    """Return the cluster with which a recording begins."""
    recording = Recording.open(directory, policies.input_kinds())
    objects, _ = at_start(recording.events())
    return ClusterFiles(objects, [], {})


def _reader(paths: Sequence[str], policies: PolicyFiles) -> Callable[[], ClusterFiles]:
    """Return a function that reads a cluster; standard input is read once."""
    if diagnostics.STDIN in paths:
        files = read_files(paths, custom=policies.input_kinds())
        return lambda: files
    return lambda: read_files(paths, custom=policies.input_kinds())


async def _of_files(inputs: InputFiles, pages: Served) -> int:
    """Serve pages about files until the process is interrupted."""
    source = FilesSource(inputs) if inputs.paths else None
    if source is not None:
        diagnostics.write_diagnostics(source.problems(), sys.stderr)
    ended = asyncio.Event()
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signal_number, ended.set)
    async with pages.of(source):
        await ended.wait()
    return diagnostics.OK


async def _live(source: RunningSource, pages: Served) -> int:
    """Serve pages about a live cluster until the process is interrupted."""
    instance = source.instance
    running = RunLoop(instance, lambda: None, LONGEST_SLEEP)
    try:
        async with pages.of(source):
            await running.run()
    finally:
        instance.close()
    return diagnostics.OK


def _open(server: ConsoleServer, files: ExitStack) -> None:
    """Open the pages in the browser, which sees the path of a private file and not the URL."""
    try:
        file = files.enter_context(opening_file(server.url))
    except OSError as error:
        print(f"warning: open the URL yourself: {error}", file=sys.stderr)
        return
    webbrowser.open(file.as_uri())


def announce(server: ConsoleServer) -> None:
    """Print the URL that opens the console; each opens one browser."""
    if server.security.opened:
        print(f"Opened in a browser. For another one: {server.url}", flush=True)
        return
    if server.warning:
        print(f"warning: {server.warning}", file=sys.stderr)
    print(f"The console is at {server.url}", flush=True)


def _watching(files: PolicyFiles, kubeconfig: str, seed: int) -> RunningSource:
    """Return what watches a live cluster; it connects when it runs, and cannot write."""
    store, valid = open_store(files, time.time_ns)
    diagnostics.write_diagnostics(store.status.problems, sys.stderr)
    return watched(store, kubeconfig, seed, fallback=not valid)


def watched(store: PolicyStore, kubeconfig: str, seed: int, *, fallback: bool) -> RunningSource:
    """Return a source that watches the cluster of a kubeconfig.

    Raises ClusterError if the kubeconfig is not usable.
    """
    environment, access = environment_of(kubeconfig)
    connection = store.current.settings.client_connection
    limits = Settings(qps=max(0.0, connection.qps), burst=max(1, connection.burst), read_only=True)
    names = [ready.plan.scheduler_name for ready in store.current.plans]
    shadowed = DEFAULT_SCHEDULER if DEFAULT_SCHEDULER in names or len(names) == 1 else names[0]
    api = Api(access, environment, limits)
    instance = ShadowInstance(store, api, ShadowOptions(shadowed), _write_problem, seed=seed)
    return RunningSource(instance, access.server, fallback=fallback)


def _write_problem(record: Record) -> None:
    """Write what is wrong; pages show the rest."""
    if record["level"] in (ERROR, WARNING):
        facts = ", ".join(f"{k}: {v}" for k, v in record.items() if k not in ("ts", "level", "msg"))
        print(one_line(f"{record['msg']} ({facts})" if facts else record["msg"]), file=sys.stderr)
