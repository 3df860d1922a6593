"""The verbs ``snapshot`` and ``record``: all that deciding reads of a cluster, and its changes."""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from policy_sched.cli.input.cluster_files import read_files, require_cluster
from policy_sched.cli.input.live_cluster import IN_CLUSTER, environment_of, read_live
from policy_sched.cli.input.paths import ClusterPaths
from policy_sched.cli.options.policies import PolicyFlags
from policy_sched.cli.output import diagnostics
from policy_sched.cli.output.progress import progress
from policy_sched.client.kube.auth import ClusterAccess
from policy_sched.client.kube.rest import Api, ClientEnvironment, Settings
from policy_sched.errors import PolicySchedError, one_line
from policy_sched.manifests import Structs
from policy_sched.model import ApiObject
from policy_sched.recording import Kept, Pseudonyms, Recorder, Renaming, reduced, renamed
from policy_sched.snapshot import (
    Collected,
    Following,
    check_file,
    check_path,
    summary,
    write_names,
    write_objects,
)

LEAST_KEY: Final = 16
"""Bytes of a key."""
Words = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Contents:
    """What is written of a cluster.

    Parameters
    ----------
    anonymize
        Replace names, UIDs, images, and keys and values of labels by pseudonyms under which the
        same decisions are made, and leave messages out. Names of resources, schedulers, drivers,
        device classes and devices stay, and so does what Kubernetes itself gives.
    key
        With --anonymize: a file with a secret of at least 16 bytes; the same key gives the same
        pseudonyms. Without it a new key is made and not kept.
    keep
        With --anonymize: what stays as it is, a pattern such as "nvidia.com/*"; for the names that
        policies mention.
    names
        With --anonymize: a file for the names of the pseudonyms, as JSON, at the end. Keep it to
        yourself.
    keep_annotation
        An annotation that stays, for policies that read it.
    policies
        Policies, directories of them, or names of shipped ones: the objects that their inputs
        declare are taken, too, whole. Not with --anonymize: what in them is a name is not known.
    """

    anonymize: Annotated[bool, Parameter(negative="")] = False
    key: str | None = None
    keep: Words = ()
    names: str | None = None
    keep_annotation: Words = ()
    policies: Words = ()

    def inputs(self) -> Structs:
        """Return the kinds of the policies' inputs. Raises PolicySchedError."""
        given = {"--key": self.key, "--keep": self.keep, "--names": self.names}
        if not self.anonymize and any(given.values()):
            alone = ", ".join(name for name, value in given.items() if value)
            raise PolicySchedError(f"{alone}: only with --anonymize")
        if not self.policies:
            return {}
        inputs = PolicyFlags(policies=self.policies).files().input_kinds()
        if self.anonymize and inputs:
            raise PolicySchedError("--policies with inputs does not go together with --anonymize")
        return inputs

    def pseudonyms(self) -> Pseudonyms | None:
        """Return the pseudonyms, None for none.

        Raises PolicySchedError for a key that is short, and where names could not be written.
        """
        if not self.anonymize:
            return None
        if self.names is not None:
            check_file(self.names)
        if self.key is None:
            return Pseudonyms(secrets.token_bytes(32), self.keep)
        secret = Path(self.key).read_bytes().strip()
        if len(secret) < LEAST_KEY:
            least = f"a key has at least {LEAST_KEY} bytes, this one {len(secret)}"
            raise PolicySchedError(f"{self.key}: {least}")
        return Pseudonyms(secret, self.keep)

    def write_names(self, pseudonyms: Pseudonyms | None) -> None:
        """Write the names of the pseudonyms where they are wanted."""
        if pseudonyms is not None and self.names is not None:
            write_names(self.names, pseudonyms.names)


def snapshot(  # the options of the verb
    file: Annotated[str, Parameter(name="FILE")],
    /,
    *,
    kubeconfig: str | None = None,
    cluster: ClusterPaths = (),
    contents: Contents | None = None,
) -> int:
    """Write all that deciding reads of a cluster to one file, which other verbs take as --cluster.

    Lists nodes, pods that have not ended, and the claims, volumes, classes, devices, budgets and
    owners that decisions depend on. Secrets and config maps are never read. Environment variables,
    commands, managed fields, messages and annotations that no decision reads are left out.

    Parameters
    ----------
    file
        The file to write; its name ends in .jsonl.gz. It is replaced if it exists, and only its
        owner may read it.
    kubeconfig
        The cluster of this kubeconfig (or list of them, as in KUBECONFIG), or of the pod that the
        process runs in (in-cluster). The user needs to list what the scheduler reads; nothing is
        written.
    cluster
        Instead of a live cluster: manifests, as in kubectl get -o json, or another snapshot.
    """
    contents = contents or Contents()
    inputs = contents.inputs()
    require_cluster("snapshot", cluster, kubeconfig)
    check_path(file)
    pseudonyms = contents.pseudonyms()
    if kubeconfig is None:
        collected = _from_files(cluster, inputs)
    else:
        collected = read_live(kubeconfig, inputs)
    diagnostics.write_hints(map(one_line, collected.notes))
    objects = reduced(collected.objects, contents.keep_annotation, inputs)
    with progress("writing the snapshot"):
        if pseudonyms is not None:
            objects = renamed(objects, pseudonyms)
        size = write_objects(file, objects)
    contents.write_names(pseudonyms)
    diagnostics.write_lines([f"{file}: {summary(objects)}, {_size(size)}"])
    return diagnostics.OK


def record(  # the options of the verb
    directory: Annotated[str, Parameter(name="DIR")],
    /,
    *,
    kubeconfig: str = IN_CLUSTER,
    contents: Contents | None = None,
) -> int:
    """Record what comes, changes, goes and is decided in a cluster, until SIGINT or SIGTERM.

    Lists and watches what `snapshot` lists, and writes nothing to the cluster. A recording is a
    directory of compressed segments, which only their owner may read: the first one, and one a
    day, begins with a snapshot, and changes follow with their times. Bindings, nominations,
    conditions of pods that wait, and evictions are recorded as decisions. Which policies decided
    cannot be seen from outside, so no texts of policies are recorded: name them to replay. Secrets
    and config maps are never read.

    Parameters
    ----------
    directory
        The directory; it is made if it is not there, and continued if it is.
    kubeconfig
        The cluster of this kubeconfig (or list of them, as in KUBECONFIG), or of the pod that the
        process runs in (in-cluster). The user needs to list and watch what the scheduler reads.
    """
    contents = contents or Contents()
    inputs, pseudonyms = contents.inputs(), contents.pseudonyms()
    kept = Kept(contents.keep_annotation, frozenset(inputs))
    if pseudonyms is not None:
        kept = replace(kept, renamed=Renaming(pseudonyms, forget=contents.names is None))
    reached = environment_of(kubeconfig)
    recorder = Recorder(directory, kept, _write_trouble)
    began = time.monotonic()
    asyncio.run(_recorded(reached, recorder, inputs))
    contents.write_names(pseudonyms)
    lost = f"; {recorder.lost:,} lines could not be written" if recorder.lost else ""
    took = timedelta(seconds=round(time.monotonic() - began))
    counts = f"{recorder.written:,} lines in {took}, {_size(recorder.size)}"
    diagnostics.write_lines([f"{directory}: {counts}{lost}"])
    return diagnostics.FAILED if recorder.lost else diagnostics.OK


async def _recorded(
    reached: tuple[ClientEnvironment, ClusterAccess], recorder: Recorder, inputs: Structs
) -> None:
    """Record until a signal. Raises ClusterError or OSError."""
    environment, access = reached
    settings = Settings(qps=50, burst=100, timeout=120.0, read_only=True)
    async with Api(access, environment, settings) as api:
        following = Following(api, recorder, time.time_ns, _hint)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, following.stop.set)
        await following.run(_write_begun, inputs)


def _write_begun(objects: Sequence[ApiObject]) -> None:
    _hint(f"recording {summary(objects)}")


def _write_trouble(reason: str) -> None:
    _hint(f"{reason}; lines are lost" if reason else "the recording goes on")


def _hint(text: str) -> None:
    diagnostics.write_hints([one_line(text)])


def _from_files(paths: tuple[str, ...], inputs: Structs) -> Collected:
    diagnostics.require_files(paths)
    files = read_files(paths, custom=inputs)
    diagnostics.write_diagnostics(files.problems, sys.stderr)
    return Collected(list[ApiObject](files.objects))


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 100_000 else f"{count / 1e3:.1f} kB"
