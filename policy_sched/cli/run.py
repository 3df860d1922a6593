"""The verb ``run``: a scheduler that keeps running, on a cluster in this process or a real one.

Its log goes to standard output: lines of JSON, or of text as klog writes them.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import json
import logging
import os
import resource
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from cyclopts import Parameter
from msgspec.structs import replace

from policy_sched.cli.options.console_flags import ConsoleFlags, Listen, console_pages
from policy_sched.cli.options.embedded_api import ApiServerFlags, Serving
from policy_sched.cli.options.endpoints import EndpointFlags, endpoints
from policy_sched.cli.options.kube_scheduler_flags import ClientFlags, LeaderFlags, Overrides
from policy_sched.cli.options.kubeconfig import (
    PolicyObjectsFlags,
    ShadowFlags,
    chosen,
    connected,
    shadow_options,
)
from policy_sched.cli.options.policies import PolicyFlags
from policy_sched.cli.output.diagnostics import FAILED, OK, require_files
from policy_sched.errors import ClusterError
from policy_sched.instance import app, observability
from policy_sched.instance.app import SHARE
from policy_sched.instance.observability import Write, measured_loop
from policy_sched.profiles.reload import CompilerProcess, PolicyFiles

if TYPE_CHECKING:
    from policy_sched.instance.app import EmbeddedInstance
    from policy_sched.instance.shadow import ShadowOptions

Paths = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class DecisionLogFlags:
    """Flags of ``run`` about the decision log, and about audits.

    Parameters
    ----------
    decision_log
        A file to append a line of JSON to for each decision, or - for standard output. It may be
        moved while it is written; at 256 MiB it is renamed to FILE.1.
    decision_log_mask
        What the decision log leaves out, and names as masked: labels.KEY for a label of the pod,
        message, node, pod, reasons, scores, uid or victims. May be given several times.
    audit_share
        The part of the CPU time that audited policies take at most, from 0 to 1. What they are not
        compared with is counted.
    """

    decision_log: str | None = None
    decision_log_mask: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    audit_share: float = SHARE

    @property
    def masked(self) -> tuple[str, ...]:
        """What is left out."""
        return self.decision_log_mask

    def checked(self, *, shadow: bool) -> DecisionLogFlags:
        """Return these flags. Raises ClusterError if they do not fit together."""
        problems = []
        if self.decision_log is None and self.decision_log_mask:
            problems.append("--decision-log-mask is for --decision-log")
        if self.decision_log is not None and shadow:
            problems.append(
                "--decision-log is for decisions that are carried out: use --shadow-log"
            )
        maskable = observability.MASKABLE
        for name in self.decision_log_mask:
            if name not in maskable and name.removeprefix("labels.") in ("", name):
                listed = ", ".join(("labels.KEY", *sorted(maskable)))
                problems.append(f"--decision-log-mask {name}: unknown; one of {listed}")
        if not 0 <= self.audit_share <= 1:
            problems.append(f"--audit-share {self.audit_share}: must be between 0 and 1")
        if problems:
            raise ClusterError("; ".join(problems))
        return self


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class RecordFlags:
    """Flags of ``run`` about a recording.

    Parameters
    ----------
    record
        A directory to record in what comes, changes, goes and is decided, for replay; it is made if
        it is not there, and continued if it is. Segments are closed after an hour or 64 MiB.
    record_annotation
        An annotation that is recorded, too, for policies that read it. May be given several times.
    """

    record: str | None = None
    record_annotation: Annotated[tuple[str, ...], Parameter(negative="")] = ()

    def checked(self, *, shadow: bool) -> RecordFlags:
        """Return these flags. Raises ClusterError if they do not fit together."""
        if self.record is None and self.record_annotation:
            raise ClusterError("--record-annotation is for --record")
        if self.record is not None and shadow:
            raise ClusterError(
                "--record is for decisions that are carried out: use `policy-sched record`"
            )
        return self


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class RolloutFlags:
    """Flags of ``run`` about rollouts.

    Parameters
    ----------
    rollout
        A file with a Rollout: changed policies come in force by its steps. It may also be among
        the files of --policies.
    rollout_state
        A file in which the state of a rollout is kept, so that a process that starts again goes on
        in its step. Without it the state is in an annotation of the lease, with --data in
        FILE-rollout, and otherwise only in memory. That of a Rollout that is an object is in its
        status, in any case.
    """

    rollout: str | None = None
    rollout_state: str | None = None

    def of(self, files: PolicyFiles, *, shadow: bool) -> PolicyFiles:
        """Return files with the rollout. Raises ClusterError or OSError for what cannot be."""
        if shadow and (self.rollout or self.rollout_state):
            raise ClusterError("--rollout is for decisions that are carried out, not for --shadow")
        require_files([self.rollout] if self.rollout else [])
        if self.rollout_state is not None:
            app.require_state(self.rollout_state)
        return replace(files, rollout=self.rollout, keeps_texts=not shadow)


class RunOptions(msgspec.Struct, frozen=True):
    """The parsed command line. ``kubeconfig`` is None for the embedded cluster."""

    sources: app.Sources
    serving: Serving
    endpoint: EndpointFlags
    overrides: Overrides
    kubeconfig: str | None = None
    shadow: ShadowOptions | None = None
    console: Listen | None = None
    decisions: DecisionLogFlags = DecisionLogFlags()
    record: RecordFlags = RecordFlags()
    rollouts: RolloutFlags = RolloutFlags()


def run(  # noqa: PLR0913  # the options of the verb
    *,
    policy: PolicyFlags | None = None,
    cluster: Paths = (),
    data: str | None = None,
    kubeconfig: str | None = None,
    seed: int = 0,
    api: ApiServerFlags | None = None,
    endpoint: EndpointFlags | None = None,
    leader: LeaderFlags | None = None,
    client: ClientFlags | None = None,
    shadow: ShadowFlags | None = None,
    pages: ConsoleFlags | None = None,
    decisions: DecisionLogFlags | None = None,
    objects: PolicyObjectsFlags | None = None,
    recording: RecordFlags | None = None,
    rollouts: RolloutFlags | None = None,
) -> int:
    """Schedule continuously, on an embedded cluster or on that of a kubeconfig.

    Configuration and policies are read again when they change. On any error the policies in force
    stay. Settings that take effect only after a restart are named.

    A terminal shows a dashboard, otherwise every decision is a line of JSON. SIGHUP reads all
    files again, or ends the process if the terminal of the dashboard is gone. SIGUSR2 writes cache
    and queue to the log and compares them with the cluster. SIGTERM and SIGINT end the process:
    bindings in flight finish or are undone.

    Parameters
    ----------
    cluster
        Manifests: files and directories, applied as by kubectl apply --prune whenever they change:
        new and changed objects are applied, removed ones are deleted. If a file has an error, the
        cluster stays as it is.
    data
        A file in which the cluster's objects are kept; it is created if it does not exist. Without
        it they are kept in memory. Beside it are FILE-wal, the newest changes, and FILE-version,
        which shows what is lost if FILE-wal is damaged: back them up together, while nothing runs.
    kubeconfig
        Schedule on the cluster of this kubeconfig (or list of them, as in KUBECONFIG), or of the
        pod that the process runs in (in-cluster), while holding the configuration's lease. Without
        an option that names a cluster, the configuration's clientConnection.kubeconfig is used.
    seed
        Decides between nodes with equal scores.
    """
    policy = policy or PolicyFlags()
    files = policy.files()
    require_files(cluster)
    api, endpoint = api or ApiServerFlags(), endpoint or EndpointFlags()
    embedded: dict[str, object] = {"--cluster": cluster, "--data": data, "--serve": api.serve}
    kubeconfig = chosen(kubeconfig, policy.config, embedded)
    watching = shadow_options(kubeconfig, shadow or ShadowFlags())
    flags = leader or LeaderFlags(), client or ClientFlags()
    overrides = Overrides(*flags, bool(policy.config), kubeconfig)
    overrides.check_read(shadow=watching is not None)
    beside = endpoint.wanted(remote=kubeconfig is not None)
    selector = (objects or PolicyObjectsFlags()).selector
    rollouts = rollouts or RolloutFlags()
    files = rollouts.of(files, shadow=watching is not None)
    options = RunOptions(
        app.Sources(files, cluster, data, seed, api.controllers, selector),
        Serving(api.serve, api.believing(endpoint.client_ca_file), api.write_kubeconfig, beside),
        endpoint,
        overrides,
        kubeconfig,
        watching,
        (pages or ConsoleFlags()).listen(),
        (decisions or DecisionLogFlags()).checked(shadow=watching is not None),
        (recording or RecordFlags()).checked(shadow=watching is not None),
        rollouts,
    )
    return _ended(options)


def _ended(options: RunOptions) -> int:
    """Run to the end; return the exit code."""
    try:
        _begin(options)
    except app.LeaseLost as error:
        print(f"policy-sched: {error}", file=sys.stderr)
        return FAILED
    return OK


def _begin(options: RunOptions) -> None:
    """Run, with a live view on a terminal."""
    if not sys.stdout.isatty():
        client = options.overrides.client
        instance = _instance(options, writer(client.logging_format))
        _run(instance, app.RunLoop(instance, lambda: None, app.LONGEST_SLEEP), options)
        return
    from policy_sched.cli.output.live_view import Dashboard  # noqa: PLC0415 - for terminals only

    with Dashboard(sys.stdout) as view:
        instance = _instance(options, view.take)
        running = app.RunLoop(
            instance,
            lambda: view.show(instance),
            view.every,
            hung_up=lambda: view.hung_up,
        )
        _run(instance, running, options)
        view.show(instance, now=True)


def _instance(options: RunOptions, write: Write) -> EmbeddedInstance | app.ClusterInstance:
    sources, overrides = options.sources, options.overrides
    longest = overrides.client.longest_wait
    instance: EmbeddedInstance | app.ClusterInstance
    if options.kubeconfig is None:
        from policy_sched.instance.app import EmbeddedInstance  # noqa: PLC0415 - see there

        instance = _embedded(EmbeddedInstance, sources, write)
    else:
        named, objects = options.kubeconfig, sources.policy_objects
        instance = connected(
            sources.policies,
            named,
            sources.seed,
            write,
            options.shadow,
            overrides,
            objects=objects,
        )
    if options.decisions.decision_log is not None:
        instance.record_decisions(options.decisions.decision_log, options.decisions.masked)
    instance.rollout_state = options.rollouts.rollout_state
    instance.audit_share = options.decisions.audit_share
    if options.record.record is not None:
        instance.record_traffic(options.record.record, options.record.record_annotation)
    instance.log.verbosity.set(overrides.client.v)
    queue = instance.scheduler.queue
    queue.timing = replace(queue.timing, unschedulable_timeout=longest)
    return instance


def _embedded(made: type[EmbeddedInstance], sources: app.Sources, write: Write) -> EmbeddedInstance:
    """Return an instance with a cluster of its own; objects are compiled within limits."""
    if sources.policy_objects is None:
        return made(sources, time.time_ns, write)
    with CompilerProcess(sources.policies) as compiler:
        return made(sources, time.time_ns, write, compiler.compile)


@asynccontextmanager
async def _served(
    instance: EmbeddedInstance | app.ClusterInstance, options: RunOptions
) -> AsyncIterator[None]:
    """Serve the embedded cluster's API, if that is options."""
    if isinstance(instance, app.ClusterInstance):
        yield
        return
    async with options.serving.of(instance):
        yield


async def _serve(
    instance: EmbeddedInstance | app.ClusterInstance,
    running: app.RunLoop,
    options: RunOptions,
    compiler: CompilerProcess,
) -> None:
    access = options.serving.access
    try:
        async with (
            _served(instance, options),
            endpoints(options.endpoint, access, running, options.overrides),
            console_pages(instance, options.console),
        ):
            await running.run()
    finally:
        compiler.interrupt()  # the event loop waits for the thread that waits for a result


def _run(
    instance: EmbeddedInstance | app.ClusterInstance, running: app.RunLoop, options: RunOptions
) -> None:
    store = instance.reloader.store
    _raise_descriptors()
    gc.freeze()  # what was imported stays; the first collection would take 0.1 s to look through it
    try:
        with (
            gathered(instance.log),
            CompilerProcess(store.files) as compiler,
            app.tuned_gc(instance.gc_pauses),
        ):
            store.compiler = compiler.compile
            turns, apart = instance.turns, instance.turns_apart
            with asyncio.Runner(loop_factory=lambda: measured_loop(turns, apart)) as runner:
                runner.run(_serve(instance, running, options, compiler))
    finally:
        instance.close()


def _raise_descriptors() -> None:
    """Raise the soft limit of open files to the hard one, as programs in Go do when they start."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


_encode = msgspec.json.Encoder().encode
_LETTERS: Final = {"info": "I", "warning": "W", "error": "E"}


def writer(logging_format: str) -> observability.Write:
    """Return what writes records to standard output, at the end of the turn they are from.

    What became of a pod may wait for a tenth of a second, so that others share the write.
    """
    form = as_json if logging_format == "json" else as_text
    lines = observability.LineWriter(sys.stdout.buffer)
    reported = 0

    def write(record: observability.Record) -> None:
        nonlocal reported
        if lines.lost > reported and lines.writable:
            text = "Lines of the log are lost: there was no room for them"
            facts = {"ts": record["ts"], "level": observability.WARNING, "msg": text}
            lines(form({**facts, "lines": lines.lost - reported}))
            reported = lines.lost
        lines(form(record), may_wait="pod" in record and record["level"] == observability.INFO)

    atexit.register(lines.close)
    return write


@contextmanager
def gathered(log: observability.DecisionLog) -> Iterator[None]:
    """Write into our log what libraries and Python itself warn of, while the context lasts."""
    handler = _Gathering(log)
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


class _Gathering(logging.Handler):
    """Makes records of our form from those of `logging`."""

    def __init__(self, log: observability.DecisionLog) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one."""
        level = observability.ERROR if record.levelno >= logging.ERROR else observability.WARNING
        facts: dict[str, object] = {"source": record.name}
        if record.exc_info is not None and record.exc_info[1] is not None:
            facts["error"] = repr(record.exc_info[1])
        self._log.write(level, record.getMessage(), **facts)


def as_json(record: observability.Record) -> bytes:
    """Return a record as a line of JSON."""
    return _encode(record) + b"\n"


def as_text(record: observability.Record) -> bytes:
    """Return a record as a line of klog: level, time, process, source, message, facts."""
    facts = dict(record)
    seconds, level, message = facts.pop("ts"), facts.pop("level"), facts.pop("msg")
    at = datetime.fromtimestamp(seconds, UTC).strftime("%m%d %H:%M:%S.%f")
    head = f"{_LETTERS[level]}{at} {os.getpid():7d} policy_sched] {json.dumps(message)}"
    shown = "".join(f" {key}={_value(value)}" for key, value in facts.items())
    return f"{head}{shown}\n".encode()


def _value(value: object) -> str:
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return _encode(value).decode()
