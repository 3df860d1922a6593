"""The verb ``run``: a scheduler that keeps running, on a cluster in this process or a real one."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from typing import Annotated

import msgspec
from cyclopts import Parameter

from policy_sched.apiserver.access import Access
from policy_sched.cli.connecting import ShadowFlags, check_alone, connected, shadow_options
from policy_sched.cli.live_view import LiveView
from policy_sched.cli.render import FAILED, OK, require_files
from policy_sched.cli.serving import Serving
from policy_sched.profiles.compiler_process import CompilerProcess
from policy_sched.profiles.policy_files import PolicyFiles
from policy_sched.serve.decision_log import Record, Write
from policy_sched.serve.instance import Instance, Sources
from policy_sched.serve.remote import LeaseLost, RemoteInstance
from policy_sched.serve.running import LONGEST_SLEEP, Running
from policy_sched.serve.shadow import ShadowOptions
from policy_sched.serve.turns import measured_loop

Paths = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]
Upstream = tuple[str | None, ShadowOptions | None]
"""A kubeconfig, and whose shadow to be there."""
_encode = msgspec.json.Encoder().encode


def run(  # noqa: PLR0913  # the options of the verb
    *,
    config: str | None = None,
    policies: Paths = (),
    cluster: Paths = (),
    data: str | None = None,
    kubeconfig: str | None = None,
    seed: int = 0,
    serve: str | None = None,
    tls_cert_file: str | None = None,
    tls_private_key_file: str | None = None,
    token_auth_file: str | None = None,
    write_kubeconfig: str | None = None,
    shadow: ShadowFlags | None = None,
) -> int:
    """Keep scheduling: an embedded cluster, whose objects and policies follow their files.

    On a terminal a live view is shown, otherwise every decision is a line of JSON. SIGHUP reads
    all files again, SIGUSR2 writes the state and the metrics as a line of JSON, SIGTERM and
    SIGINT end it: bindings in flight finish or are undone.

    Parameters
    ----------
    config
        A KubeSchedulerConfiguration; without it the default profile decides. It is read again
        when it changes; settings that need a restart are named.
    policies
        Policy files, or directories of them, followed like the configuration. Without --config
        each is enabled with weight 1. Where anything is wrong the policies in force stay.
    cluster
        Manifests: files and directories, followed as by kubectl apply --prune: what comes or
        changes is applied, what goes is deleted. Where anything is wrong the cluster stays.
    data
        A file that keeps the cluster's objects, made if it is not there; without it they live in
        memory.
    kubeconfig
        Schedule on the cluster of this kubeconfig instead, or of the pod that we run in
        (in-cluster), while we hold the lease of the configuration's leaderElection.
    seed
        Decides between nodes with equal scores.
    serve
        Serve the cluster's API at [HOST:]PORT, for kubectl and other clients; on 127.0.0.1 unless
        a host is named, and beyond loopback only with the next three.
    tls_cert_file
        The certificate (PEM) of the API server.
    tls_private_key_file
        Its private key (PEM).
    token_auth_file
        Lines of token,user,uid: only who sends such a bearer token is answered.
    write_kubeconfig
        Where to write a kubeconfig for the API server.
    """
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the files are read there is no need
    require_files([*([config] if config else []), *policies, *cluster])
    check_alone(kubeconfig, {"--cluster": cluster, "--data": data, "--serve": serve})
    options = shadow_options(kubeconfig, shadow or ShadowFlags())
    sources = Sources(PolicyFiles(config, policies), cluster, data, seed)
    access = Access(tls_cert_file, tls_private_key_file, token_auth_file)
    try:
        _begin(sources, Serving(serve, access, write_kubeconfig), (kubeconfig, options))
    except LeaseLost as error:
        print(f"policy-sched: {error}", file=sys.stderr)
        return FAILED
    return OK


def _begin(sources: Sources, serving: Serving, upstream: Upstream) -> None:
    """Run, with a live view on a terminal."""
    if not sys.stdout.isatty():
        instance = _instance(sources, upstream, _write)
        _run(instance, Running(instance, lambda: None, LONGEST_SLEEP), serving)
        return
    with LiveView(sys.stdout) as view:
        instance = _instance(sources, upstream, view.take)
        _run(instance, Running(instance, lambda: view.show(instance), view.every), serving)
        view.show(instance, now=True)


def _instance(sources: Sources, upstream: Upstream, write: Write) -> Instance | RemoteInstance:
    kubeconfig, shadow = upstream
    if kubeconfig is None:
        return Instance(sources, time.time_ns, write)
    return connected(sources.policies, kubeconfig, sources.seed, write, shadow)


async def _serve(instance: Instance | RemoteInstance, running: Running, serving: Serving) -> None:
    if isinstance(instance, RemoteInstance):
        await running.run()
        return
    async with serving.of(instance):
        await running.run()


def _run(instance: Instance | RemoteInstance, running: Running, serving: Serving) -> None:
    store = instance.reloader.store
    try:
        with CompilerProcess(store.files) as compiler:
            store.compiler = compiler.compile
            with asyncio.Runner(loop_factory=lambda: measured_loop(instance.turns)) as runner:
                runner.run(_serve(instance, running, serving))
    finally:
        instance.close()


def _write(record: Record) -> None:
    sys.stdout.buffer.write(_encode(record) + b"\n")
    sys.stdout.buffer.flush()
