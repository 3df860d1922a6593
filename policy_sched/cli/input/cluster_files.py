"""Reads the cluster that a verb is about: manifests, traces and generated nodes."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from policy_sched.cli.output import diagnostics
from policy_sched.cli.output.progress import progress
from policy_sched.errors import Diagnostic, PolicyError, PolicySchedError, one_line
from policy_sched.manifests import (
    BAD_VALUE,
    NO_STRUCTS,
    ManifestPosition,
    Manifests,
    Structs,
    load,
    with_claims,
)
from policy_sched.model import ApiObject, DeviceClass, ResourceClaim, ResourceClaimTemplate
from policy_sched.simulate import ExpansionError, expand, generated_nodes, is_trace, load_traces


@dataclass(frozen=True, slots=True)
class ClusterFiles:
    """The objects of manifests and traces, warnings, and the position of each object by its key."""

    objects: list[ApiObject]
    problems: list[Diagnostic]
    positions: Mapping[tuple[str, str, str], ManifestPosition]


def require_cluster(verb: str, paths: Sequence[str], kubeconfig: str | None) -> None:
    """Raise PolicySchedError unless a cluster is given, in files or live, and not in both."""
    if (kubeconfig is None) == (not paths):
        raise PolicySchedError(f"{verb} needs either --cluster or --kubeconfig")
    diagnostics.require_files(paths)


def source_names(
    paths: Sequence[str], kubeconfig: str | None, nodes: Sequence[str] = ()
) -> list[str]:
    """Return what a cluster was read from, as reports name it."""
    live = [] if kubeconfig is None else [f"live, by {kubeconfig}"]
    return [*paths, *live, *nodes]


def read_files(
    paths: Sequence[str],
    nodes: Sequence[str] = (),
    kubeconfig: str | None = None,
    custom: Structs = NO_STRUCTS,
) -> ClusterFiles:
    """Return the objects of manifests and traces, or those of a live cluster.

    ``nodes`` describe more nodes, as in ``160*cpu=96``; ``custom``: how kinds
    are decoded that policies read. Raises PolicyError with every problem if
    one of them is an error, and ClusterError for a live cluster that cannot be read.
    """
    if kubeconfig is not None:
        # The client of the API server takes 200 ms to import.
        from policy_sched.cli.input.live_cluster import read_live  # noqa: PLC0415  see above

        live = read_live(kubeconfig, custom)
        diagnostics.write_hints(map(one_line, live.notes))
        objs = [*generated_nodes(nodes), *live.objects]
        return ClusterFiles(expanded(objs, [kubeconfig]), [], {})
    with progress("reading the cluster") as advance:
        traces = load_traces(path for path in paths if is_trace(path))
        files = [path for path in paths if not is_trace(path)]
        manifests = load(files, sys.stdin, custom=custom, advance=advance)
    diagnostics.write_hints(manifests.hints)
    problems = [*problems_of(manifests), *traces.diagnostics]
    if diagnostics.exit_code(problems) != diagnostics.OK:
        raise PolicyError(problems)
    objs = [*generated_nodes(nodes), *manifests.objects, *traces.objects]
    return ClusterFiles(expanded(objs, paths), problems, manifests.positions)


def problems_of(manifests: Manifests) -> list[Diagnostic]:
    """Return the problems of manifests, with those of selectors over devices.

    What has a UID was admitted by the API server of its cluster.
    """
    new = [
        obj
        for obj in manifests.objects
        if isinstance(obj, DeviceClass | ResourceClaim | ResourceClaimTemplate)
        and not obj.metadata.uid
    ]
    if not new:
        return manifests.diagnostics
    from policy_sched.profiles.check import selectors_of  # noqa: PLC0415  the checker takes 100 ms

    wrong = selectors_of(replace(manifests, objects=new))
    return sorted({*manifests.diagnostics, *wrong})


def expanded(
    objects: Sequence[ApiObject], paths: Sequence[str], cluster: Sequence[ApiObject] = ()
) -> list[ApiObject]:
    """Return objects with what their workloads make; ``cluster`` has classes for their pods.

    Raises PolicyError if that is too much.
    """
    try:
        return with_claims(expand(objects, cluster))
    except ExpansionError as error:
        raise PolicyError([Diagnostic(paths[0], 1, 1, BAD_VALUE, str(error))]) from None
